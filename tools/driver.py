"""Build tests/native/levels.cpp, the test of instruction sets without Python, for one architecture."""

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
    """Import setup.py with its table of compiler flags for `target`."""
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
                sys.exit(f"{source} has instructions beyond {allowed(flags)}:\n{refusal}")
        else:
            subprocess.run([*command, str(made[-1]), "-c"], cwd=ROOT, check=True)
    program = objects / "levels"
    # Link the whole thread library: libstdc++ refers to its functions weakly, so a static program would lack them.
    threads = ["-Wl,--whole-archive", "-lpthread", "-Wl,--no-whole-archive"]
    subprocess.run([compiler, "-static", *map(str, made), *threads, "-o", str(program)], check=True)
    return program


def allowed(flags: list[str]) -> str:
    """Return the -march of GNU's x86 assembler that allows the same instructions as the compiler's flags."""
    names = [flag.removeprefix("-m") for flag in flags if flag.startswith("-m") and "=" not in flag]
    return "+".join(["generic64", *(ASSEMBLERS_NAMES.get(name, name) for name in names)])


def assemble(compiler: str, assembly: Path, flags: list[str]) -> str:
    """Assemble for a CPU with the instructions of these flags only; return the assembler's errors.

    The compiler writes no such limit into an x86 file, so the assembler would accept any instruction. For Arm the
    compiler writes `.arch`.
    """
    command = [compiler, f"-Wa,-march={allowed(flags)}", "-c", str(assembly), "-o", str(assembly.with_suffix(".o"))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stderr or f"exit status {done.returncode}" if done.returncode != 0 else ""
