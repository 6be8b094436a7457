"""The layout of the C++ sources: includes run one way, and every file is compiled or included."""

import re
from pathlib import Path

import pytest

CSRC = Path(__file__).parents[2] / "csrc"
#: The folders whose headers the files of each folder may include, besides their own.
ALLOWED = {
    "core": set(),
    "kernels": {"core"},
    "isa": {"core", "kernels"},
    "engine": {"core", "kernels"},
    "index": {"core", "kernels", "engine", "tree"},
    "tree": {"core", "kernels", "engine"},
    "text": {"core", "kernels"},
    "temporal": {"core", "kernels"},
    "io": {"core"},
    "bind": {"core", "kernels", "engine", "index", "tree", "text", "temporal", "io", "isa"},
}
SOURCES = sorted(path for path in CSRC.rglob("*") if path.suffix in {".h", ".cpp"})


def included(path: Path) -> list[Path]:
    return [(path.parent / name).resolve() for name in re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE)]


def test_every_source_is_in_a_known_folder() -> None:
    assert {path.relative_to(CSRC).parts[0] for path in SOURCES} == set(ALLOWED)
    assert all(len(path.relative_to(CSRC).parts) == 2 for path in SOURCES)


@pytest.mark.parametrize("folder", ALLOWED)
def test_includes_run_one_way(folder: str) -> None:
    for path in CSRC.glob(f"{folder}/*"):
        folders = {header.relative_to(CSRC.resolve()).parts[0] for header in included(path)}
        assert folders <= ALLOWED[folder] | {folder}, path


def test_every_header_exists_and_is_used() -> None:
    used = {header for path in SOURCES for header in included(path)}
    assert used == {path.resolve() for path in SOURCES if path.suffix == ".h"}


def test_file_names_occur_once() -> None:
    names = [path.name for path in SOURCES]
    assert len(set(names)) == len(names)
