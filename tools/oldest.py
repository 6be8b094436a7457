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
_REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*(\[(?P<extras>[^]]*)\])?\s*(?P<versions>[^;]*)(?P<marker>;.*)?")
_OLDEST = re.compile(r">=\s*(?P<version>[^,\s]+)")


def pins(project: Mapping[str, Any], extras: Iterable[str] = ()) -> Iterator[str]:
    """Yield the requirements of a `[project]` table and of some extras, each pinned to the oldest version claimed."""
    yield from _pinned(project, project.get("dependencies", []))
    for extra in extras:
        of_extras = project.get("optional-dependencies", {})
        if extra not in of_extras:
            raise ValueError(f"no extra is called {extra!r}; there are {', '.join(of_extras)}")
        yield from _pinned(project, of_extras[extra])


def _pinned(project: Mapping[str, Any], requirements: Iterable[str]) -> Iterator[str]:
    for requirement in requirements:
        parts = _REQUIREMENT.fullmatch(requirement.strip())
        if parts is None:
            raise ValueError(f"cannot read the requirement {requirement!r}")
        if parts["name"] == project["name"]:  # the package's own extras
            own = [extra.strip() for extra in (parts["extras"] or "").split(",") if extra.strip()]
            yield from pins({**project, "dependencies": []}, own)
            continue
        oldest = _OLDEST.search(parts["versions"])
        if oldest is None:
            raise ValueError(f"{requirement!r} claims no oldest version: give it one with >=")
        extras = f"[{parts['extras']}]" if parts["extras"] else ""
        yield f"{parts['name']}{extras}=={oldest['version']}{parts['marker'] or ''}"


def main(arguments: Sequence[str]) -> None:
    """Print the pins."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        project = tomllib.load(file)["project"]
    print(*pins(project, arguments), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
