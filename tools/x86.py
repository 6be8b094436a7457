"""Each x86 level on a CPU that has just that, emulated: no illegal instruction, equal results.

    python tools/x86.py [--driver-only | --here]

The C++ driver runs from the baseline of 2003 upwards; NumPy's wheels ask for the CPUs of 2008, so that is where the
Python tests start. QEMU's emulator knows no AVX-512: those levels run on this machine's own CPU, where it has them.
That no level has an instruction beyond its own is shown by the assembler, for all of them: it is told what a CPU of
that level has, and takes nothing else. Beside that, ThreadSanitizer looks for data races. Both need no emulator.
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
# Model: what is new in it, and the levels that must be usable there.
MODELS = {
    "Opteron_G1": ("the baseline: SSE2, SSE3", ["scalar"]),
    "Nehalem": ("SSE4.2, what NumPy's wheels need", ["scalar"]),
    "SandyBridge": ("AVX without AVX2 and FMA", ["scalar"]),
    "Haswell": ("AVX2 and FMA", ["scalar", "avx2"]),
}
# What NumPy's parts choose by themselves on an emulated CPU, OpenBLAS by its maker, ends in illegal instructions or
# crashes of their own; they are not what is tested.
NUMPY = {
    "Nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
    "SandyBridge": {"OPENBLAS_CORETYPE": "Sandybridge"},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": "X86_V3"},
}
PYTHON_MODELS = ("Nehalem", "SandyBridge", "Haswell")
# Everything that a level does, against the oracle and the golden files; the kernels in Numba are no level's.
PYTHON_TESTS = (
    "tests/golden",
    *(
        f"tests/kernels/test_{name}.py"
        for name in ("kernels", "kernels_matmul", "lsh_kernels", "text_kernels", "tree_kernels", "dual")
    ),
    "-k",
    "not numba and not threads and not many_blocks",
)
REFUSED = 'int main() { __asm__ volatile("vpaddd %ymm0, %ymm0, %ymm0"); }'


def emulate(model: str, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program on a CPU of that model, without QEMU's words on features that it leaves out."""
    arguments = [QEMU, "-cpu", model, *map(str, command)]
    environment = {**os.environ, "SPARSENET_ISA": "", "OMP_NUM_THREADS": "1", **NUMPY.get(model, {})}
    return subprocess.run(arguments, cwd=ROOT, text=True, capture_output=True, env=environment)


def emulator_refuses(folder: Path) -> bool:
    """Tell whether an AVX2 instruction ends a program on a CPU without it: or nothing below could ever fail."""
    program = folder / "refused"
    subprocess.run(["g++", "-static", "-x", "c++", "-", "-o", str(program)], input=REFUSED, text=True, check=True)
    return emulate("Nehalem", program).returncode == -signal.SIGILL and emulate("Haswell", program).returncode == 0


def test_assembler(folder: Path) -> bool:
    """See that each level, which was assembled for a CPU that has just that, is refused for one of the level below."""
    levels = setup_for("x86_64").LEVELS
    refused = []
    for lower, level in pairwise(levels):
        assembly = folder / "x86_64" / f"{level}.s"
        refusal = assemble("g++", assembly, levels[lower])
        # Again as it must be, since that is what the driver is linked from.
        refused.append("Error" in refusal and not assemble("g++", assembly, levels[level]))
        count = refusal.count("Error: ")
        print(
            f"{level}: assembled within {allowed(levels[level])}; without what is new in it {count} lines are refused"
        )
    return all(refused)


def test_model(model: str, program: Path) -> bool:
    """Run the driver, and where NumPy runs the kernels' Python tests, on one model."""
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
    """Run the driver on this machine's own CPU, with whatever it has."""
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
    less.add_argument("--driver-only", action="store_true", help="leave out the Python tests: a minute, not many")
    less.add_argument("--here", action="store_true", help="only what needs no emulator")
    return parser.parse_args()


def main() -> int:
    """Run all of it; the exit status says whether all passed."""
    options = parse()
    require({"g++": "g++"} if options.here else {QEMU: "qemu-user-static", "g++": "g++"})
    folder = ROOT / "build" / "levels"
    program = build("g++", "x86_64", folder)
    # Functions that are not inlined show what a compiler is not told of an instruction's reads and writes.
    outlined = build("g++", "x86_64", folder / "outlined", "-fno-inline")
    passed = [test_assembler(folder), test_here(program), test_here(outlined), test_races(ROOT / "build" / "races")]
    if not options.here:
        passed += test_emulated(folder, program, driver_only=options.driver_only)
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
    return 0 if all(passed) else 1


def test_emulated(folder: Path, program: Path, *, driver_only: bool) -> list[bool]:
    """Run the driver, and the Python tests where they are wanted, on every model."""
    if not emulator_refuses(folder):
        sys.exit(f"{QEMU} runs instructions that the CPU it plays does not have: it proves nothing (7.2 or newer does)")
    passed = [test_model(model, program) for model in MODELS]
    return passed if driver_only else [*passed, *(test_python(model) for model in PYTHON_MODELS)]


if __name__ == "__main__":
    sys.exit(main())
