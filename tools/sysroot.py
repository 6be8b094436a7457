"""Prepare an aarch64 Linux in a folder: Debian's Python, wheels for it, and this project compiled for it.

Nothing is installed: packages are unpacked into `.arm/`, without root, chroot or binfmt. Programs run there under
qemu's user emulation. `.arm/env/bin/python` is a script that starts the emulated Python, so that tests can start
`sys.executable`. QEMU_CPU selects the emulated CPU.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from oldest import ROOT, read_project, requirements

FOLDER = ROOT / ".arm"
SYSTEM, ENVIRONMENT, TREE = FOLDER / "root", FOLDER / "env", FOLDER / "tree"
PYTHON = ENVIRONMENT / "bin" / "python"
COMPILER = "aarch64-linux-gnu-g++"
QEMU = "qemu-aarch64-static"
PROGRAMS = {
    COMPILER: "g++-aarch64-linux-gnu",
    QEMU: "qemu-user-static",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "git": "git",
}
PACKAGES = ("python3", "libpython3-dev", "libstdc++6", "zlib1g")
# pip takes these names literally: 2_28 does not include older ones.
PLATFORMS = (*(f"manylinux_2_{minor}_aarch64" for minor in range(28, 16, -1)), "manylinux2014_aarch64")


def require(programs: dict[str, str]) -> None:
    """Exit with the names of missing programs and the command that installs them."""
    missing = {package for program, package in programs.items() if shutil.which(program) is None}
    if missing:
        sys.exit(
            f"{' '.join(sorted(missing))}: not installed.\n"
            f"On Debian or Ubuntu: sudo apt-get install {' '.join(sorted(missing))}\n"
            "Elsewhere there is no substitute: the emulated system is made of Debian's packages."
        )


def run(*command: str | Path, **environment: str) -> None:
    """Run a command in the copied tree or the project's root, and raise an error if it fails."""
    cwd = TREE if TREE.exists() else ROOT
    subprocess.run([str(word) for word in command], cwd=cwd, env={**os.environ, **environment}, check=True)


def apt(*arguments: str) -> None:
    """Run apt-get for arm64 with a separate index and the package sources of this machine."""
    state, status = FOLDER / "apt", FOLDER / "apt" / "status"
    for name in ("lists/partial", "archives/partial"):
        (state / name).mkdir(parents=True, exist_ok=True)
    status.touch()
    options = {
        "APT::Architecture": "arm64",
        "APT::Architectures::": "arm64",
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "1",
        "Dir::State": state,
        "Dir::State::status": status,
        "Dir::Cache": state,
    }
    flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    run("apt-get", "-qq", *flags, *arguments)


def make_system() -> None:
    """Unpack Debian's arm64 Python with its dependencies."""
    done = SYSTEM / ".complete"
    if done.exists():
        return
    print("arm64 packages of Debian, once: 35 MB", file=sys.stderr)
    apt("update")
    apt("install", "--yes", "--download-only", "--no-install-recommends", *PACKAGES)
    for package in sorted((FOLDER / "apt" / "archives").glob("*.deb")):
        run("dpkg-deb", "--extract", package, SYSTEM)
    done.touch()


def python_version() -> str:
    """Return the version of the emulated system's Python, such as ``3.11``."""
    return (SYSTEM / "usr/bin/python3").readlink().name.removeprefix("python")


def install(target: Path, *what: str) -> None:
    """Install wheels for the emulated Python into a folder."""
    platforms = [word for platform in PLATFORMS for word in ("--platform", platform)]
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--upgrade"]
    version = ["--only-binary=:all:", "--implementation=cp", f"--python-version={python_version()}"]
    run(*pip, *version, *platforms, "--no-compile", "--target", target, *what)


def packages(environment: Path) -> Path:
    """Return the folder of packages in an environment of the emulated Python."""
    return environment / "lib" / f"python{python_version()}" / "site-packages"


def make_environment() -> None:
    """Make a virtual environment of the emulated Python with the requirements of the tests."""
    done, wanted = ENVIRONMENT / ".complete", list(requirements(read_project(), ["test"]))
    if done.exists() and done.read_text().splitlines() == wanted:
        return
    print("aarch64 wheels, once: 170 MB", file=sys.stderr)
    write_python(ENVIRONMENT)
    install(packages(ENVIRONMENT), *wanted)
    done.write_text("\n".join(wanted))


def write_python(environment: Path) -> None:
    """Write the script that starts the emulated Python of an environment."""
    home, python = SYSTEM / "usr/bin", environment / "bin" / "python"
    python.parent.mkdir(parents=True, exist_ok=True)
    (environment / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    interpreter = f"{home}/python{python_version()}"
    python.write_text(f"#!/bin/sh\nexec {QEMU} -L '{SYSTEM}' -0 \"$0\" '{interpreter}' \"$@\"\n")
    python.chmod(0o755)


def copy_tree() -> None:
    """Copy all files that git does not ignore, so that the build leaves nothing in the working tree."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    names = {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    for folder in {name.split("/")[0] for name in names}:  # skips build/ and other ignored folders
        for path in (TREE / folder).rglob("*"):
            if path.is_file() and path.suffix not in (".so", ".pyc") and str(path.relative_to(TREE)) not in names:
                path.unlink()
    for name in names:
        source, target = ROOT / name, TREE / name
        if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def cross_flags() -> dict[str, str]:
    """Return the variables that make the emulated Python's setuptools call this machine's cross compiler."""
    include = SYSTEM / "usr" / "include"
    # The cross compiler has its own C library, so the unpacked headers come last: only Python's are needed.
    flags = f"-isystem {include}/python{python_version()} -idirafter {include}"
    return {"CC": COMPILER.replace("g++", "gcc"), "CXX": COMPILER, "CPPFLAGS": flags, "SPARSENET_REQUIRE_EXT": "1"}


def build() -> None:
    """Compile the extension of the copied tree for aarch64, and make it importable from any directory."""
    run(PYTHON, "setup.py", "-q", "egg_info", "build_ext", "--inplace", **cross_flags())
    (packages(ENVIRONMENT) / "sparsenet.pth").write_text(f"{TREE}\n")


def prepare() -> None:
    """Bring system, environment, tree and extension up to date."""
    require(PROGRAMS)
    make_system()
    make_environment()
    copy_tree()
    build()


if __name__ == "__main__":
    prepare()
    print(PYTHON)
