"""Five real data sets from the list of Debian packages.

    apt-cache dumpavail | python -m bench.package_sets --out DIR [--packages FILE] [--seed 0]

A point is a package. Its features are the words of its name and description.

| set | labels |
|---|---|
| source | its source package: thousands, one a point; packages of one source have similar descriptions |
| maintainer | its maintainer: one a point |
| section | its section: dozens, one a point |
| tags | its tags: hundreds, several a point |
| depends | the packages that it depends on: thousands, several a point, a long tail |

Labels with fewer than three packages are left out, then packages without labels. `bench.sets` writes the files. Lists
differ from release to release, so compare only results of one list. One default was chosen with such a list in view:
the momentum of a network (bench/notes/networks.md).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from bench.sets import Points, set_parser, with_frequent, write_sets

FEWEST_PACKAGES = 3
Package = dict[str, str]


def packages(lines: Iterable[str]) -> Iterator[Package]:
    """Parse a list into packages as dictionaries of fields; the first version of each package counts.

    >>> [found] = packages(["Package: ed", "Description: line editor", " for those who like it", "", "Package: ed"])
    >>> found["Description"]
    'line editor for those who like it'
    """
    seen: set[str] = set()
    for fields in _paragraphs(lines):
        if (name := fields.get("Package", "")) and name not in seen:
            seen.add(name)
            yield fields


def _paragraphs(lines: Iterable[str]) -> Iterator[Package]:
    fields: Package = {}
    name = ""
    for line in lines:
        text = line.rstrip("\n")
        if not text.strip():
            yield fields
            fields, name = {}, ""
        elif text[0].isspace():  # continues the line before
            fields[name] = f"{fields.get(name, '')} {text.strip()}".strip()
        else:
            name, _, value = text.partition(":")
            fields[name] = value.strip()
    yield fields


def _listed(field: str, apart: str) -> Callable[[Package], set[str]]:
    """Return a function that splits a field at commas and cuts each part where `apart` matches."""
    ends = re.compile(apart)
    return lambda package: {
        name for part in re.split(r"[,|]", package.get(field, "")) if (name := ends.split(part.strip())[0].strip())
    }


#: The labels of a package, without versions and architectures; maintainers keep their addresses.
LABELS: dict[str, Callable[[Package], set[str]]] = {
    "source": _listed("Source", r"[ (]"),
    "maintainer": lambda package: {package["Maintainer"]} if package.get("Maintainer") else set(),
    "section": _listed("Section", r"$"),
    "tags": _listed("Tag", r"$"),
    "depends": _listed("Depends", r"[ (:\[]"),
}


def labelled(found: list[Package], labels_of: Callable[[Package], set[str]]) -> Points:
    """Return names, descriptions and labels of the packages with frequent labels."""
    texts = [f"{package['Package']} {package.get('Description', '')}" for package in found]
    return with_frequent(texts, map(labels_of, found), FEWEST_PACKAGES)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the sets."""
    parser = set_parser(__doc__)
    parser.add_argument("--packages", type=Path, metavar="FILE", help="the list; default: standard input")
    options = parser.parse_args(arguments)
    lines = options.packages.read_text(encoding="utf-8").splitlines() if options.packages else sys.stdin
    found = list(packages(lines))
    write_sets(((name, labelled(found, labels_of)) for name, labels_of in LABELS.items()), options)


if __name__ == "__main__":
    main()
