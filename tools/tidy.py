"""Run clang-tidy on the C++ sources, with the flags that setup.py compiles each of them with.

    python tools/tidy.py [FILE...]

The checks and their reasons are in .clang-tidy.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pybind11
from driver import ROOT, defines, setup_for

SETUP = setup_for(platform.machine())
CLANG_TIDY = Path(sys.executable).with_name("clang-tidy")
INCLUDES = ("-isystem", pybind11.get_include(), "-isystem", sysconfig.get_path("include"))
WORKERS = 2


def analyse(source: str) -> bool:
    """Analyse one file, print its findings, and return whether there are none."""
    flags = ["-std=c++17", *defines(list(SETUP.LEVELS)), *SETUP.ISA_FILES.get(source, []), *INCLUDES]
    flags = [flag for flag in flags if not flag.startswith("-f")]  # of GCC; none changes what a program means
    done = subprocess.run([CLANG_TIDY, "--quiet", source, "--", *flags], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout, done.stderr, sep="", flush=True)
    return done.returncode == 0


def main() -> int:
    """Analyse all sources of the extension, or those named."""
    sources = sys.argv[1:] or SETUP.core.sources
    with ThreadPoolExecutor(WORKERS) as pool:
        passed = list(pool.map(analyse, sources))
    print(f"clang-tidy: {len(passed)} files, {passed.count(False)} with findings")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
