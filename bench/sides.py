"""Two versions of the library side by side: a commit in a git worktree under .bench, and the working tree."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

WORKTREES = Path(".bench") / "worktrees"
#: A folder of a checkout that holds a link to its `sparsenet` and nothing else, so that its `bench` is not imported.
LIBRARY = Path(".bench") / "library"
#: The sources of the library.
SOURCES = ("sparsenet/**/*.py", "csrc/**/*", "setup.py")


def git(*arguments: str) -> str:
    """Return what a git command prints."""
    return subprocess.run(["git", *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def checkout(commit: str) -> Path:
    """Return a worktree of a commit under .bench; it is made once."""
    place = WORKTREES / git("rev-parse", "--short=12", f"{commit}^{{commit}}")
    if not place.exists():
        git("worktree", "prune")
        git("worktree", "add", "--detach", "--force", str(place), commit)
    return place


def build(place: Path) -> None:
    """Compile the extension of a checkout, and link its library."""
    environment = {**os.environ, "SPARSENET_REQUIRE_EXT": "1"}
    subprocess.run([sys.executable, "setup.py", "-q", "build_ext", "--inplace"], cwd=place, env=environment, check=True)
    library = place / LIBRARY
    library.mkdir(parents=True, exist_ok=True)
    if not (library / "sparsenet").is_symlink():
        (library / "sparsenet").symlink_to((place / "sparsenet").resolve())


def environment(place: Path) -> dict[str, str]:
    """Return an environment with the library of a checkout and the scripts of this one."""
    paths = [(place / LIBRARY).resolve(), Path(__file__).resolve().parents[1]]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "SPARSENET_REQUIRE_EXT": "1"}


def check_library(found: str, place: Path) -> None:
    """Raise an error unless a process imported the library of this checkout: `found` is the folder it lies in."""
    if Path(found).resolve() != (place / "sparsenet").resolve():
        raise RuntimeError(f"expected the library of {place}, but {found} was imported")


def fingerprint(place: Path) -> str:
    """Return a hash of the library's sources, uncommitted changes included."""
    digest = hashlib.sha256()
    for file in sorted(file for pattern in SOURCES for file in place.glob(pattern) if file.is_file()):
        digest.update(f"{file.relative_to(place)}\0{len(file.read_bytes())}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
