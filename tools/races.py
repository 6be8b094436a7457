"""Search for data races: run tests/native/levels.cpp at the scalar level under ThreadSanitizer.

    python tools/races.py

A right result on x86 does not prove that barriers are right, because x86 orders memory accesses more strictly than Arm.
ThreadSanitizer follows the memory model of C++ instead. It reports every pair of unordered accesses to the same bytes,
even if the result was right.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

from driver import ROOT, defines, setup_for, sources
from sysroot import require

# All levels share threads, engine and blocking, and a task never touches the data of another task.
LEVEL = "scalar"
FLAGS = ("-std=c++17", "-g", "-fsanitize=thread", "-Wno-unused-function")  # tests of other levels go unused
TOGETHER = "tests/native/together.cpp"
REPORTED = 66  # ThreadSanitizer's exit status
POOL = "_ZN9sparsenet12parallel_forEliRKSt8functionIFvlEE"  # sparsenet::parallel_for, on Linux of 64 bits
RACE = """
#include "csrc/core/threads.h"
int main() {
  long sum = 1;
  sparsenet::parallel_for(2, 2, [&](int64_t i) { sum += i; });
  return sum == 0;
}
"""


def build(compiler: str, folder: Path) -> tuple[Path, Path]:
    """Compile the driver and a program with a race in a task of the same thread pool."""
    folder.mkdir(parents=True, exist_ok=True)
    setup = setup_for(platform.machine())
    made: dict[str, Path] = {}
    for source, flags in {**sources(setup, [LEVEL]), TOGETHER: []}.items():
        made[source] = folder / (Path(source).stem + ".o")
        command = [compiler, *setup.BASE_FLAGS, *FLAGS, *defines([LEVEL]), *flags, "-c", source, "-o", made[source]]
        subprocess.run(command, cwd=ROOT, check=True)
    driver, racy, link = folder / "levels", folder / "racy", ("-pthread", f"-Wl,--wrap={POOL}", "-o")
    subprocess.run([compiler, *FLAGS, *made.values(), *link, driver], check=True)
    pool = (made["csrc/core/threads.cpp"], made[TOGETHER])
    command = [compiler, *FLAGS, "-I", ROOT, "-x", "c++", "-", "-x", "none", *pool]
    subprocess.run([*command, *link, racy], input=RACE, text=True, cwd=ROOT, check=True)
    return driver, racy


def watch(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a sanitized program, without address randomisation if the sanitizer does not get its addresses."""
    done = subprocess.run(command, capture_output=True, text=True)
    if "unexpected memory mapping" in done.stderr and shutil.which("setarch"):
        done = subprocess.run(["setarch", platform.machine(), "-R", *command], capture_output=True, text=True)
    return done


def test_races(folder: Path) -> bool:
    """Return whether the deliberate race was reported, and none in the driver."""
    print(f"== ThreadSanitizer: the driver at level {LEVEL}", flush=True)
    driver, racy = build("g++", folder)
    deliberate = watch(racy)
    if deliberate.returncode != REPORTED or "data race" not in deliberate.stderr:
        print(f"ThreadSanitizer missed a deliberate race: exit status {deliberate.returncode}\n{deliberate.stderr}")
        return False
    done = watch(driver, LEVEL)
    print(done.stdout, end="" if done.returncode == 0 else f"{done.stderr}FAILED: exit status {done.returncode}\n")
    shared = re.search(r"all threads took part: (\d+) of", done.stdout)
    return done.returncode == 0 and shared is not None and int(shared[1]) > 0


if __name__ == "__main__":
    require({"g++": "g++"})
    sys.exit(0 if test_races(ROOT / "build" / "races") else 1)
