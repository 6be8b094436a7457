"""Run the C++ code under AddressSanitizer and UndefinedBehaviorSanitizer: the native driver and the kernel tests.

    python tools/sanitize.py [PYTEST ARGUMENTS]

The sanitized extension and a copy of the package and its tests go to build/sanitize. The first report ends the program
that made it, so a run that passes has no reports. Before that, a program with a known defect must be reported.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pybind11
from driver import ROOT, defines, setup_for, sources
from sysroot import require

FOLDER = ROOT / "build" / "sanitize"
TREE, REPORTS = FOLDER / "tree", FOLDER / "reports"
SETUP = setup_for(platform.machine())
LEVELS = list(SETUP.LEVELS)
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
# -O1 replaces -O3: compiling takes a third of the time, and no code is vectorised that the source does not vectorise.
COMMON = ("-std=c++17", "-g1", "-fno-omit-frame-pointer", "-fPIC")
FLAGS = (*COMMON, "-O1", *SANITIZE)
# The bindings compute nothing. pybind11's templates would take most of the compile time with -O1 and UBSan.
BIND_FLAGS = (*COMMON, "-O0", "-fsanitize=address", "-fno-sanitize-recover=all")
INCLUDES = ("-isystem", pybind11.get_include(), "-isystem", sysconfig.get_path("include"))
COPIED = ("sparsenet", "tests", "tools")
# The quick kernel tests: the scalar and the best level of this machine. The driver covers the levels between them.
# Two processes without pytest-xdist: if a report ends one of them, its output and exit status show it.
LEFT_OUT = {
    "numba-": "is not C++",
    "numba]": "is not C++",
    "if_no_thread_starts": "limits the address space, and AddressSanitizer reserves terabytes",
    "daemon_threads": "Python ends threads inside frames, whose red zones then stay in the reused stack",
}
SELECTED = ("-m", "not slow and not levels", "-k", " and ".join(f"not {name}" for name in LEFT_OUT))
PYTEST = ("-q", "--capture=sys", "-p", "no:cacheprovider", "-p", "no:xdist", *SELECTED)
DEFECTS = {
    "heap-buffer-overflow": "int main(int n, char**) { int* p = new int[n]; int x = p[n]; delete[] p; return x; }",
    "signed integer overflow": "int main(int n, char**) { return 2147483647 + n; }",
}


def compile_all(files: dict[str, list[str]]) -> list[Path]:
    """Compile the files whose object is older than the source or any header; return the objects."""
    headers = max(path.stat().st_mtime for path in (ROOT / "csrc").rglob("*.h"))

    def compile_one(source: str) -> Path:
        made = FOLDER / "objects" / Path(source).with_suffix(".o")
        if not made.exists() or made.stat().st_mtime < max(headers, (ROOT / source).stat().st_mtime):
            made.parent.mkdir(parents=True, exist_ok=True)
            base = [flag for flag in SETUP.BASE_FLAGS if flag != "-O3"]
            flags = (*BIND_FLAGS, *INCLUDES) if source.startswith("csrc/bind/") else FLAGS
            command = ["g++", *base, *flags, *defines(LEVELS), *files[source], "-c", source, "-o", str(made)]
            subprocess.run(command, cwd=ROOT, check=True)
        return made

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(compile_one, files))


def reports_defects() -> bool:
    """Return whether the sanitizers report programs with known defects."""
    for report, program in DEFECTS.items():
        binary = FOLDER / "defect"
        subprocess.run(["g++", *FLAGS, "-x", "c++", "-", "-o", binary], input=program, text=True, check=True)
        done = subprocess.run([binary], capture_output=True, text=True)
        if done.returncode == 0 or report not in done.stderr:
            print(f"the sanitizers did not report a {report}: exit status {done.returncode}\n{done.stderr}")
            return False
    return True


def usable_levels(program: Path) -> list[str]:
    """Return the instruction sets that this machine can run, from the baseline to the best."""
    done = subprocess.run([program], capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"{program}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout.splitlines()[0].split()[1:]


def test_driver(program: Path) -> bool:
    """Build and run the native driver with all instruction sets of this machine."""
    print("== the native driver", flush=True)
    objects = compile_all(sources(SETUP, LEVELS))
    subprocess.run(["g++", *SANITIZE, "-pthread", *objects, "-o", program], check=True)
    return subprocess.run([program, *usable_levels(program)]).returncode == 0


def build_extension() -> None:
    """Build the extension inside a copy of the package and its tests."""
    files = {source: SETUP.ISA_FILES.get(source, []) for source in SETUP.core.sources}
    objects = compile_all(files)
    shutil.rmtree(TREE, ignore_errors=True)
    for name in COPIED:
        shutil.copytree(ROOT / name, TREE / name, ignore=shutil.ignore_patterns("*.so", "__pycache__", "golden"))
    shutil.copy(ROOT / "pyproject.toml", TREE)
    extension = TREE / "sparsenet" / f"_core{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run(["g++", "-shared", *SANITIZE, "-pthread", *objects, "-o", extension], check=True)


def library(name: str) -> str:
    """Return the path of one of the compiler's libraries."""
    found = subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return str(Path(found.stdout.strip()).resolve(strict=True))


def run_pytest(arguments: list[str]) -> bool:
    """Run pytest on the sanitized extension, print its output at the end, and return whether all tests passed."""
    # Python must start with AddressSanitizer, and with the library whose exceptions it intercepts. Python leaks at
    # exit, so leaks are not reported. PYTHONMALLOC makes each allocation of Python visible; short allocation stacks and
    # a small quarantine keep small allocations cheap.
    options = f"detect_leaks=0:malloc_context_size=4:quarantine_size_mb=64:log_path={REPORTS}/address"
    environment = {
        "LD_PRELOAD": f"{library('libasan.so')} {library('libstdc++.so')}",
        "ASAN_OPTIONS": f"{options}:allocator_may_return_null=1",
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={REPORTS}/undefined",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(TREE),
        "SPARSENET_REQUIRE_EXT": "1",
    }
    command = [sys.executable, "-m", "pytest", *PYTEST, *arguments]
    environment = {**os.environ, **environment}
    done = subprocess.run(
        command, cwd=TREE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    print(f"== pytest {' '.join(arguments)}\n{done.stdout}exit status {done.returncode}", flush=True)
    return done.returncode == 0


def test_kernels(arguments: list[str]) -> bool:
    """Run the kernel tests, or the tests that the arguments select, on the sanitized extension."""
    build_extension()
    shutil.rmtree(REPORTS, ignore_errors=True)
    REPORTS.mkdir()
    names = sorted(str(path.relative_to(TREE)) for path in TREE.glob("tests/kernels/test_*.py"))
    halves = [name for name in names if "test_kernels" in name], [name for name in names if "test_kernels" not in name]
    with ThreadPoolExecutor(len(halves)) as pool:
        passed = all(pool.map(run_pytest, [arguments] if arguments else halves))
    for report in sorted(REPORTS.iterdir()):  # also of processes that tests start
        print(report.read_text())
    return passed and not any(REPORTS.iterdir())


def main() -> int:
    """Run everything; the exit status is 0 if there was no report."""
    require({"g++": "g++"})
    FOLDER.mkdir(parents=True, exist_ok=True)
    program = FOLDER / "levels"
    passed = reports_defects() and test_driver(program) and test_kernels(sys.argv[1:])
    print(f"sanitizers: {'no reports' if passed else 'FAILED'}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
