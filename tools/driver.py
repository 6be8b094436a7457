"""Builds tests/native/levels.cpp, the test of instruction sets that needs no Python, for one architecture."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
# What the driver calls; the bindings and readers need Python or belong to no level.
SOURCES = ("dispatch", "engine", "lsh", "machine", "matmul", "threads", "topk")


def setup_for(target: str) -> ModuleType:
    """Import setup.py with its table of compiler flags as it is for `target`."""
    os.environ["SPARSENET_TARGET"] = target
    spec = importlib.util.spec_from_file_location("sparsenet_setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(compiler: str, target: str, folder: Path) -> Path:
    """Compile and link the driver statically, so that an emulator needs no libraries; return the program."""
    setup = setup_for(target)
    objects = folder / target
    objects.mkdir(parents=True, exist_ok=True)
    levels = [f"-DSPARSENET_HAS_{level.upper()}=1" for level in setup.LEVELS]
    plain = {f"csrc/{name}.cpp": [] for name in SOURCES if (ROOT / f"csrc/{name}.cpp").exists()}
    made = []
    for source, flags in {**plain, **setup.ISA_FILES, "tests/native/levels.cpp": []}.items():
        made.append(objects / (Path(source).stem + ".o"))
        command = [compiler, "-std=c++17", *setup.BASE_FLAGS, *levels, *flags, "-c", source, "-o", str(made[-1])]
        subprocess.run(command, cwd=ROOT, check=True)
    program = objects / "levels"
    # The whole thread library: a static program else lacks the functions that libstdc++ refers to weakly.
    threads = ["-Wl,--whole-archive", "-lpthread", "-Wl,--no-whole-archive"]
    subprocess.run([compiler, "-static", *map(str, made), *threads, "-o", str(program)], check=True)
    return program
