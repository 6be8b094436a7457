"""Test aarch64 on other machines: a cross build under QEMU, emulating Graviton and other CPUs.

    python tools/arm.py                                   C++ driver and Python tests on every CPU: hours
    python tools/arm.py --cpu graviton3 -n 4              on one CPU, in four processes
    python tools/arm.py --quick                           the C++ driver, and some Python tests on Graviton 2 and 3
    python tools/arm.py --cpu graviton3 tests/index       chosen tests, and any other argument of pytest

Emulation shows that results are right and that no CPU gets an instruction that it lacks. It cannot measure speed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import sysroot
from driver import build
from sysroot import COMPILER, FOLDER, PYTHON, QEMU, TREE


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """An emulated CPU: its meaning, QEMU's name for it, and the levels that must be usable on it."""

    meaning: str
    model: str
    levels: tuple[str, ...]


BF16 = ("scalar", "neon", "sve", "neonbf16", "svebf16")
# QEMU 7.2 has no model of Graviton 3 or 4. Its "max" at their vector width has more features (SVE2 instead of SVE on
# Graviton 3), but no level uses them.
CPUS = {
    "graviton2": Cpu(meaning="Neoverse N1: NEON", model="neoverse-n1", levels=("scalar", "neon")),
    "graviton3": Cpu(meaning="SVE of 256 bits, BF16", model="max,sve256=on,sve512=off", levels=BF16),
    "graviton4": Cpu(meaning="SVE2 of 128 bits, BF16", model="max,sve128=on,sve256=off", levels=BF16),
    "a64fx": Cpu(meaning="SVE of 512 bits, no BF16", model="a64fx", levels=("scalar", "neon", "sve")),
    "ampereone": Cpu(meaning="NEON and BF16, no SVE", model="max,sve=off", levels=("scalar", "neon", "neonbf16")),
    "sve512": Cpu(meaning="SVE2 of 512 bits, BF16", model="max,sve512=on,sve1024=off", levels=BF16),
}
# Left out: Numba kernels are the same Python everywhere and take minutes to compile, so they run the golden files only,
# on CPUs without SVE. Levels without SVE behave alike on all CPUs and run on those only. The scripts of bench/ time the
# machine that runs them.
SUITE = ("tests", "--ignore=tests/bench")
LEFT_OUT = {True: "not numba and not scalar and not neon", False: "not numba or test_golden"}
# A few minutes under emulation: the C++ vector kernels against the oracle, and the golden files. Graviton 3 runs its
# default level, and the matrix products of its other bfloat16 level.
QUICK = (
    "tests/golden",
    "tests/kernels/test_kernels.py::test_kernel_agrees_with_the_oracle_at_any_size_and_alignment",
)
QUICK_CPUS = {
    "graviton2": "not numba and not scalar",
    "graviton3": "not numba and not scalar and (svebf16 or (neonbf16 and matmul) or not native)",
}
REFUSED = 'int main() { __asm__ volatile(".arch armv8.2-a+sve\\n add z0.s, z0.s, z0.s"); }'


def emulate(cpu: Cpu, *command: str | Path) -> int:
    """Run a program of the aarch64 system on that CPU and return its exit status."""
    # Clear a level that the caller's environment forces: it would be the only one tested.
    environment = {**os.environ, "QEMU_CPU": cpu.model, "QEMU_LD_PREFIX": str(sysroot.SYSTEM), "SPARSENET_ISA": ""}
    environment |= {"SPARSENET_TEST_RUNNER": QEMU}  # runs the programs that tests compile
    environment.setdefault("SPARSENET_TEST_PATIENCE", "10")
    # Without bytecode each start of Python takes 33 emulated seconds instead of 10, and tests start many.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run([str(word) for word in command], cwd=TREE, env=environment).returncode


def emulator_refuses(folder: Path) -> bool:
    """Return whether an SVE instruction ends a program on a CPU without SVE. If not, no test here could fail."""
    program = folder / "refused"
    subprocess.run([COMPILER, "-static", "-x", "c++", "-", "-o", str(program)], input=REFUSED, text=True, check=True)
    refused, accepted = (emulate(CPUS[name], QEMU, program) for name in ("graviton2", "graviton3"))
    return refused == -signal.SIGILL and accepted == 0


def test_cpu(name: str, program: Path, pytest: list[str]) -> bool:
    """Run the driver, then the Python tests if any are named, on one CPU."""
    cpu, start = CPUS[name], time.monotonic()
    print(f"== {name}: {cpu.meaning} ({cpu.model})", flush=True)
    status = [emulate(cpu, QEMU, program, *cpu.levels)]
    if pytest:
        status.append(emulate(cpu, PYTHON, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", *pytest))
    print(f"{name}: exit status {status}, {time.monotonic() - start:.0f} s", flush=True)
    return not any(status)


def chosen(cpu: Cpu, pytest: list[str]) -> list[str]:
    """Return the arguments for pytest, with the suite added unless they select tests."""
    named = any(word.startswith("tests") or word == "-k" for word in pytest)
    return pytest if named else [*SUITE, "-k", LEFT_OUT["sve" in cpu.levels], *pytest]


def parse() -> tuple[argparse.Namespace, list[str]]:
    """Read the command line; unknown arguments go to pytest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="append", choices=CPUS, help="one of them (may be repeated; default: all)")
    parser.add_argument("--quick", action="store_true", help="a subset that takes a few minutes")
    return parser.parse_known_args()


def main() -> int:
    """Build, test, and print the number of CPUs that passed."""
    options, pytest = parse()
    sysroot.prepare()
    folder = FOLDER / "levels"
    program = build(COMPILER, "aarch64", folder)
    if not emulator_refuses(folder):
        sys.exit(f"{QEMU} runs instructions that the emulated CPU lacks, so it proves nothing (use 7.2 or newer)")
    passed = []
    for name in options.cpu or CPUS:
        quick = [*QUICK, "-k", QUICK_CPUS[name]] if name in QUICK_CPUS else []
        passed.append(test_cpu(name, program, quick if options.quick else chosen(CPUS[name], pytest)))
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
