"""Tests aarch64 without an aarch64 machine: a cross build under QEMU, as the CPUs of Amazon's Graviton and others.

    python tools/arm.py                                   the Python tests too, on every CPU: hours
    python tools/arm.py --cpu graviton3 -n 4              on one CPU, in four processes
    python tools/arm.py --quick                           the C++ driver, and on Graviton 2 and 3 some Python tests
    python tools/arm.py --cpu graviton3 tests/index       chosen tests, and any other argument of pytest

Emulation shows that results are right and that no CPU meets an instruction that it lacks. It says nothing on speed.
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
    """A CPU to play: what it stands for, QEMU's name for it, and the levels that must be usable on it."""

    meaning: str
    model: str
    levels: tuple[str, ...]


BF16 = ("scalar", "neon", "sve", "neonbf16", "svebf16")
# QEMU 7.2 has no model of Graviton 3 or 4: its "max" at their vector width also has what they lack (SVE2 on the
# third), which no level uses.
CPUS = {
    "graviton2": Cpu(meaning="Neoverse N1: NEON", model="neoverse-n1", levels=("scalar", "neon")),
    "graviton3": Cpu(meaning="SVE of 256 bits, BF16", model="max,sve256=on,sve512=off", levels=BF16),
    "graviton4": Cpu(meaning="SVE2 of 128 bits, BF16", model="max,sve128=on,sve256=off", levels=BF16),
    "a64fx": Cpu(meaning="SVE of 512 bits, no BF16", model="a64fx", levels=("scalar", "neon", "sve")),
    "ampereone": Cpu(meaning="NEON and BF16, no SVE", model="max,sve=off", levels=("scalar", "neon", "neonbf16")),
    "sve512": Cpu(meaning="SVE2 of 512 bits, BF16", model="max,sve512=on,sve1024=off", levels=BF16),
}
# What has nothing to show here: the kernels in Numba are the same Python everywhere, and to compile them takes minutes
# each time (once, golden files come out of them too); the scripts of bench/ time the machine that they run on. Levels
# without SVE are tested where there is nothing else: what else a CPU has does not change what they do.
SUITE = ("tests", "--ignore=tests/bench")
LEFT_OUT = {True: "not numba and not scalar and not neon", False: "not numba or test_golden"}
# Some minutes under emulation: the vector kernels of C++ against the oracle, and the golden files. Of the four levels
# of the third, the one that is chosen there and what the other one with bfloat16 has of its own.
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
    # A level that is forced outside would be the only one tested, or none of that CPU's.
    environment = {**os.environ, "QEMU_CPU": cpu.model, "QEMU_LD_PREFIX": str(sysroot.SYSTEM), "SPARSENET_ISA": ""}
    environment |= {"SPARSENET_TEST_RUNNER": QEMU}  # of programs that tests compile
    environment.setdefault("SPARSENET_TEST_PATIENCE", "10")
    # Without bytecode each start of Python, and tests start many, takes 33 emulated seconds to import for 10.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.run([str(word) for word in command], cwd=TREE, env=environment).returncode


def emulator_refuses(folder: Path) -> bool:
    """Tell whether an SVE instruction ends a program on a CPU without it: or nothing below could ever fail."""
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
    """Return arguments for pytest: those given, and the suite unless they name tests or say which by -k."""
    named = any(word.startswith("tests") or word == "-k" for word in pytest)
    return pytest if named else [*SUITE, "-k", LEFT_OUT["sve" in cpu.levels], *pytest]


def parse() -> tuple[argparse.Namespace, list[str]]:
    """Read the command line; what is not known here is for pytest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="append", choices=CPUS, help="one of them (may be repeated; default: all)")
    parser.add_argument("--quick", action="store_true", help="a subset of some minutes")
    return parser.parse_known_args()


def main() -> int:
    """Build, test, and tell how many CPUs passed."""
    options, pytest = parse()
    sysroot.prepare()
    folder = FOLDER / "levels"
    program = build(COMPILER, "aarch64", folder)
    if not emulator_refuses(folder):
        sys.exit(f"{QEMU} runs instructions that the CPU it plays does not have: it proves nothing (7.2 or newer does)")
    passed = []
    for name in options.cpu or CPUS:
        quick = [*QUICK, "-k", QUICK_CPUS[name]] if name in QUICK_CPUS else []
        passed.append(test_cpu(name, program, quick if options.quick else chosen(CPUS[name], pytest)))
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
