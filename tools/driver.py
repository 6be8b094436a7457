"""Builds tests/native/levels.cpp, the test of instruction sets that needs no Python, for one architecture."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
# The files that the driver calls. The bindings need Python, and the other files do not depend on the instruction set.
SOURCES = (
    "core/machine",
    "core/threads",
    "engine/learning",
    "engine/matmul",
    "engine/sparse",
    "index/lsh",
    "index/predict_topk",
    "isa/dispatch",
)
# Instruction sets whose names differ between GNU's assembler for x86 and the compiler.
ASSEMBLERS_NAMES = {"avx512bf16": "avx512_bf16", "amx-tile": "amx_tile", "amx-bf16": "amx_bf16"}


def setup_for(target: str) -> ModuleType:
    """Import setup.py with its table of compiler flags as it is for `target`."""
    os.environ["SPARSENET_TARGET"] = target
    spec = importlib.util.spec_from_file_location("sparsenet_setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sources(setup: ModuleType, levels: list[str]) -> dict[str, list[str]]:
    """Return the source files of the driver, each with its extra flags."""
    plain: dict[str, list[str]] = {f"csrc/{name}.cpp": [] for name in SOURCES}
    isa = {f"csrc/isa/{level}.cpp": setup.ISA_FILES[f"csrc/isa/{level}.cpp"] for level in levels}
    return {**plain, **isa, "tests/native/levels.cpp": []}


def defines(levels: list[str]) -> list[str]:
    """Return the macros that name the compiled levels."""
    return [f"-DSPARSENET_HAS_{level.upper()}=1" for level in levels]


def build(compiler: str, target: str, folder: Path, *extra: str) -> Path:
    """Compile and link the driver statically, so that an emulator needs no libraries; return the program.

    `extra` are flags for every file.
    """
    setup = setup_for(target)
    objects, levels = folder / target, list(setup.LEVELS)
    objects.mkdir(parents=True, exist_ok=True)
    made = []
    for source, flags in sources(setup, levels).items():
        made.append(objects / (Path(source).stem + ".o"))
        command = [compiler, "-std=c++17", *setup.BASE_FLAGS, *extra, *defines(levels), *flags, source, "-o"]
        if target == "x86_64":
            assembly = made[-1].with_suffix(".s")
            subprocess.run([*command, str(assembly), "-S"], cwd=ROOT, check=True)
            if refusal := assemble(compiler, assembly, flags):
                sys.exit(f"{source} has instructions that no CPU with {allowed(flags)} need have:\n{refusal}")
        else:
            subprocess.run([*command, str(made[-1]), "-c"], cwd=ROOT, check=True)
    program = objects / "levels"
    # The whole thread library: a static program else lacks the functions that libstdc++ refers to weakly.
    threads = ["-Wl,--whole-archive", "-lpthread", "-Wl,--no-whole-archive"]
    subprocess.run([compiler, "-static", *map(str, made), *threads, "-o", str(program)], check=True)
    return program


def allowed(flags: list[str]) -> str:
    """Name, for GNU's x86 assembler, a CPU of the baseline with just the instructions that a compiler's flags allow."""
    names = [flag.removeprefix("-m") for flag in flags if flag.startswith("-m") and "=" not in flag]
    return "+".join(["generic64", *(ASSEMBLERS_NAMES.get(name, name) for name in names)])


def assemble(compiler: str, assembly: Path, flags: list[str]) -> str:
    """Assemble for a CPU that has what these flags allow and no more; return what the assembler refuses.

    The compiler leaves no such limit in an x86 file, and the assembler alone would take any instruction. (For Arm it
    does: `.arch` in its output.)
    """
    command = [compiler, f"-Wa,-march={allowed(flags)}", "-c", str(assembly), "-o", str(assembly.with_suffix(".o"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stderr or f"exit status {done.returncode}" if done.returncode != 0 else ""
