"""Print the oldest claimed version of each dependency, from pyproject.toml, as requirements for pip.

    python tools/oldest.py [EXTRA ...] > oldest.txt

Prints one `name==version` a line: the package's dependencies, then each extra's.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
#: A name, extras in brackets, versions, and a marker such as ``; python_version < '3.14'``.
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*(?P<extras>\[[^]]*\])?\s*(?P<versions>[^;]*)(?P<marker>;.*)?")
_OLDEST = re.compile(r">=\s*(?P<version>[^,\s]+)")


def read_project() -> dict[str, Any]:
    """Read the `[project]` table of pyproject.toml."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return project


def requirements(project: Mapping[str, Any], extras: Iterable[str] = ()) -> Iterator[str]:
    """Yield the requirements of a `[project]` table and of some extras, with the extras that these include."""
    yield from project.get("dependencies", [])
    for extra in extras:
        of_extras = project.get("optional-dependencies", {})
        if extra not in of_extras:
            raise ValueError(f"no extra is called {extra!r}; there are {', '.join(of_extras)}")
        for requirement in of_extras[extra]:
            if included := re.fullmatch(rf"{project['name']}\[(.+)\]", requirement):
                yield from requirements({**project, "dependencies": []}, re.split(r"\s*,\s*", included[1]))
            else:
                yield requirement


def pins(project: Mapping[str, Any], extras: Iterable[str] = ()) -> Iterator[str]:
    """Yield the requirements of a `[project]` table and of some extras, each pinned to the oldest version claimed."""
    for requirement in requirements(project, extras):
        parts = _REQUIREMENT.fullmatch(requirement.strip())
        if parts is None:
            raise ValueError(f"cannot read the requirement {requirement!r}")
        oldest = _OLDEST.search(parts["versions"])
        if oldest is None:
            raise ValueError(f"{requirement!r} claims no oldest version: give it one with >=")
        yield f"{parts['name']}{parts['extras'] or ''}=={oldest['version']}{parts['marker'] or ''}"


def main(arguments: Sequence[str]) -> None:
    """Print the pins."""
    print(*pins(read_project(), arguments), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
