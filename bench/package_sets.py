"""Five real data sets from a list of Debian's packages.

    apt-cache dumpavail | python -m bench.package_sets --out DIR [--packages FILE] [--seed 0]

A point is a package, told by the words of its name and of its description. Its labels are in ``source`` the source that
it was built from (thousands of labels, one a point, consistent: packages of one source are described alike), in
``maintainer`` who looks after it, in ``section`` where it is filed (dozens), in ``tags`` what somebody found to say of
it (hundreds, several a point), and in ``depends`` the packages that it needs (thousands, several a point, a long tail).
Labels of fewer than three packages are left out, and so are packages that have no label then.

Each set is a directory of a train.txt and a test.txt, as `bench.source_sets` writes them. Lists differ from release to
release, and so do the sets: compare within a run only. Other cuts of such a list are what the rule by which a blend
finds the cost of errors was made on; no other default was.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from bench.source_sets import with_frequent, words, write

FEWEST_PACKAGES = 3
Package = dict[str, str]


def packages(lines: Iterable[str]) -> Iterator[Package]:
    """Take a list apart into packages, each by its fields; of several versions of one the first is taken.

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
        elif text[0].isspace():  # what goes on from the line before
            fields[name] = f"{fields.get(name, '')} {text.strip()}".strip()
        else:
            name, _, value = text.partition(":")
            fields[name] = value.strip()
    yield fields


def _listed(field: str, apart: str) -> Callable[[Package], set[str]]:
    """Return what takes the parts of a field, apart by commas, each up to what matches `apart`."""
    ends = re.compile(apart)
    return lambda package: {
        name for part in re.split(r"[,|]", package.get(field, "")) if (name := ends.split(part.strip())[0].strip())
    }


#: The labels of a package. Versions, architectures and alternatives are left out, the address of a maintainer is not.
LABELS: dict[str, Callable[[Package], set[str]]] = {
    "source": _listed("Source", r"[ (]"),
    "maintainer": lambda package: {package["Maintainer"]} if package.get("Maintainer") else set(),
    "section": _listed("Section", r"$"),
    "tags": _listed("Tag", r"$"),
    "depends": _listed("Depends", r"[ (:\[]"),
}


def labelled(found: list[Package], labels_of: Callable[[Package], set[str]]) -> tuple[list[list[str]], list[list[str]]]:
    """Return words and labels of the packages that have any."""
    texts = [words(f"{package['Package']} {package.get('Description', '')}") for package in found]
    return with_frequent(texts, map(labels_of, found), FEWEST_PACKAGES)


def main() -> None:
    """Write the sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, metavar="FILE", help="the list; standard input if not given")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    lines = options.packages.read_text(encoding="utf-8").splitlines() if options.packages else sys.stdin
    found = list(packages(lines))
    print(f"{len(found):,} packages")
    for name, labels_of in LABELS.items():
        write(options.out / name, *labelled(found, labels_of), options.seed)


if __name__ == "__main__":
    main()
