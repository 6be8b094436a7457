"""Test each x86 level on an emulated CPU that has no more: no illegal instruction, equal results.

    python tools/x86.py [--driver-only | --here]

The C++ driver runs from the baseline of 2003 upwards. The Python tests start at the CPUs of 2008, which NumPy's wheels
need. QEMU cannot emulate AVX-512: those levels run on this machine's own CPU if it has them. Two checks need no
emulator: the assembler rejects instructions beyond a level's own, and ThreadSanitizer searches for data races.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from driver import allowed, assemble, build, setup_for
from races import test_races
from sysroot import ROOT, require

QEMU = "qemu-x86_64-static"
# Model: its new features, and the levels that must be usable there.
MODELS = {
    "Opteron_G1": ("the baseline: SSE2, SSE3", ["scalar"]),
    "Nehalem": ("SSE4.2, what NumPy's wheels need", ["scalar"]),
    "SandyBridge": ("AVX without AVX2 and FMA", ["scalar"]),
    "Haswell": ("AVX2 and FMA", ["scalar", "avx2"]),
}
# On an emulated CPU, NumPy and OpenBLAS choose code by the CPU's maker, and crash or run illegal instructions. They are
# not under test, so fix their choice.
NUMPY = {
    "Nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
    "SandyBridge": {"OPENBLAS_CORETYPE": "Sandybridge"},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": "X86_V3"},
}
PYTHON_MODELS = ("Nehalem", "SandyBridge", "Haswell")
# All kernels of a level, against the oracle and the golden files. Numba kernels have no levels.
PYTHON_TESTS = (
    "tests/golden",
    *(
        f"tests/kernels/test_{name}.py"
        for name in (
            "kernels",
            "kernels_matmul",
            "graph_kernels",
            "lsh_kernels",
            "stream_kernels",
            "text_kernels",
            "tree_kernels",
            "dual",
        )
    ),
    "-k",
    "not numba and not threads and not many_blocks",
)
REFUSED = 'int main() { __asm__ volatile("vpaddd %ymm0, %ymm0, %ymm0"); }'


def emulate(model: str, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program on a CPU of that model, and capture its output."""
    arguments = [QEMU, "-cpu", model, *map(str, command)]
    environment = {**os.environ, "SPARSENET_ISA": "", "OMP_NUM_THREADS": "1", **NUMPY.get(model, {})}
    return subprocess.run(arguments, cwd=ROOT, text=True, capture_output=True, env=environment)


def emulator_refuses(folder: Path) -> bool:
    """Return whether an AVX2 instruction ends a program on a CPU without AVX2. If not, no test here could fail."""
    program = folder / "refused"
    subprocess.run(["g++", "-static", "-x", "c++", "-", "-o", str(program)], input=REFUSED, text=True, check=True)
    return emulate("Nehalem", program).returncode == -signal.SIGILL and emulate("Haswell", program).returncode == 0


def test_assembler(folder: Path) -> bool:
    """Return whether the assembler accepts each level for its own CPU and rejects it for the level below."""
    levels = setup_for("x86_64").LEVELS
    refused = []
    for lower, level in pairwise(levels):
        assembly = folder / "x86_64" / f"{level}.s"
        refusal = assemble("g++", assembly, levels[lower])
        # Assemble for its own CPU again, because the driver is linked from that object.
        refused.append("Error" in refusal and not assemble("g++", assembly, levels[level]))
        count = refusal.count("Error: ")
        print(f"{level}: assembled within {allowed(levels[level])}; {count} lines are rejected for the level below")
    return all(refused)


def test_model(model: str, program: Path) -> bool:
    """Run the driver on one model."""
    meaning, levels = MODELS[model]
    print(f"== {model}: {meaning}", flush=True)
    done = emulate(model, program, *levels)
    print(done.stdout, end="" if done.returncode == 0 else f"{done.stderr}FAILED: exit status {done.returncode}\n")
    return done.returncode == 0


def test_python(model: str) -> bool:
    """Run the kernels' Python tests on one model."""
    print(f"== {model}: {' '.join(PYTHON_TESTS)}", flush=True)
    done = emulate(model, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *PYTHON_TESTS)
    lines = done.stdout.splitlines()
    print("\n".join(lines[-1:] if done.returncode == 0 else [*lines, done.stderr]), flush=True)
    return done.returncode == 0


def test_here(program: Path) -> bool:
    """Run the driver on this machine's own CPU, at all its levels."""
    first = subprocess.run([program], text=True, capture_output=True)
    if first.returncode < 0:
        print(f"{program}: {signal.Signals(-first.returncode).name}")
        return False
    usable = first.stdout.splitlines()[0].split()[1:]
    print(f"== this machine: {' '.join(usable)}", flush=True)
    done = subprocess.run([program, *usable])
    if not any(level.startswith("avx512") for level in usable):
        print("AVX-512 was not tested: neither this CPU nor QEMU has it")
    return done.returncode == 0


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    less = parser.add_mutually_exclusive_group()
    less.add_argument("--driver-only", action="store_true", help="leave out the Python tests: takes a minute")
    less.add_argument("--here", action="store_true", help="only the checks that need no emulator")
    return parser.parse_args()


def main() -> int:
    """Run everything; the exit status is 0 if all passed."""
    options = parse()
    require({"g++": "g++"} if options.here else {QEMU: "qemu-user-static", "g++": "g++"})
    folder = ROOT / "build" / "levels"
    program = build("g++", "x86_64", folder)
    # Without inlining, inline assembly that hides a read or write from the compiler gives wrong results.
    outlined = build("g++", "x86_64", folder / "outlined", "-fno-inline")
    passed = [test_assembler(folder), test_here(program), test_here(outlined), test_races(ROOT / "build" / "races")]
    if not options.here:
        passed += test_emulated(folder, program, driver_only=options.driver_only)
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
    return 0 if all(passed) else 1


def test_emulated(folder: Path, program: Path, *, driver_only: bool) -> list[bool]:
    """Run the driver on every model, then the Python tests unless `driver_only`."""
    if not emulator_refuses(folder):
        sys.exit(f"{QEMU} runs instructions that the emulated CPU lacks, so it proves nothing (use 7.2 or newer)")
    passed = [test_model(model, program) for model in MODELS]
    return passed if driver_only else [*passed, *(test_python(model) for model in PYTHON_MODELS)]


if __name__ == "__main__":
    sys.exit(main())
