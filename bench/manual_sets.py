"""Two real data sets from manual pages, of documents that are long and of their titles.

    apt-cache pkgnames | grep -E '^lib.*-perl$' | xargs apt-get download
    for package in *.deb; do dpkg-deb --extract $package PAGES; done
    python -m bench.manual_sets --pages PAGES --out DIR [--seed 0]

A point is a page, and its labels are the pages that it says to see also: thousands, with a long tail, a few a point. In
``see-also`` it is told by the words of all else that it says, hundreds of them, in ``see-also-titles`` by those of its
name and the line that says what it is for. Pages that fewer than two point to are no labels, and pages left without
any are left out.

Each set is a directory of a train.txt and a test.txt, as `bench.source_sets` writes them. No default was chosen on
these. What is installed (``--pages /usr/share/man``) makes another such set.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.source_sets import with_frequent, words, write

FEWEST_PAGES = 2
TITLE, ABOUT = "NAME", "SEE ALSO"
#: Another page: its name before the number of its section, or a name as modules have them.
_REFERENCE = re.compile(r"([A-Za-z_][\w.:+-]*) ?\([1-9][A-Za-z]*\)|\b([A-Za-z_]\w*(?:::\w+)+)")
#: How fonts change, and characters that are written otherwise.
_ESCAPE = re.compile(r"\\f(?:\[\w*\]|\(..|.)|\\[&|^/,%:]|\\s[-+]?\d+|\\\*\([LR]\"|\\\*\(..|\\\*.")
_SIGNS = {r"\-": "-", r"\e": "\\", r"\(bu": " ", r"\ ": " ", r"\(aq": "'", r"\(co": " "}
#: What is said by none of their words.
_SILENT = re.compile(r"[.'] *(?:\\\"|IX|de|ds|if|ie|el|tr|nr|rm|TH|so|\.)")
_HEADING = re.compile(r"\.S[Hh] +\"?([^\"]*)\"?")
_CROSS = re.compile(r"\.Xr (\S+) (\d\w*)")


@dataclass(frozen=True)
class Page:
    """What a page says."""

    title: str
    body: str
    see_also: frozenset[str]


def read_page(source: str) -> Page:
    """Take a page apart.

    >>> page = read_page('.SH NAME\\na does it\\n.SH USE\\n.B A\\nlot.\\n.SH "SEE ALSO"\\n.BR b (1), C::D')
    >>> page.title, page.body, sorted(page.see_also)
    ('a does it', 'A lot.', ['C::D', 'b'])
    """
    parts: dict[str, list[str]] = {}
    heading, in_definition = "", False
    for line in source.splitlines():
        if in_definition or line.startswith(".de"):
            in_definition = line.strip() != ".."
        elif found := _HEADING.match(line):
            heading = found[1].strip().upper()
        elif not _SILENT.match(line):
            parts.setdefault(heading, []).append(_plain(line))
    title, about = (" ".join(parts.pop(name, [])).strip() for name in (TITLE, ABOUT))
    body = " ".join(" ".join(lines) for lines in parts.values()).strip()
    return Page(title, body, frozenset(of_section or module for of_section, module in _REFERENCE.findall(about)))


def _plain(line: str) -> str:
    """Return the words of a line."""
    line = _CROSS.sub(r"\1(\2)", line)
    for sign, meant in _SIGNS.items():
        line = line.replace(sign, meant)
    line = _ESCAPE.sub("", line)
    return line.partition(" ")[2].replace('"', "") if line.startswith((".", "'")) else line


def pages(folder: Path) -> Iterator[Page]:
    """Read all pages below a folder, each once, though it may lie there in several versions or under several names."""
    seen = set()
    for file in sorted(folder.rglob("*.gz")):
        if file.is_symlink() or not file.parent.name.startswith("man"):
            continue
        page = read_page(gzip.decompress(file.read_bytes()).decode("utf-8", "replace"))
        if page.title and page.body not in seen:
            seen.add(page.body)
            yield page


def labelled(found: Iterable[tuple[str, frozenset[str]]]) -> tuple[list[list[str]], list[list[str]]]:
    """Return the words of what has labels that are frequent enough, and these."""
    told, labels = zip(*found, strict=True)
    return with_frequent([words(text) for text in told], labels, FEWEST_PAGES)


def main() -> None:
    """Write the sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=Path, required=True, metavar="DIR")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    found = list(pages(options.pages))
    sets = {
        "see-also": [(f"{page.title} {page.body}", page.see_also) for page in found],
        "see-also-titles": [(page.title, page.see_also) for page in found],
    }
    for name, entries in sets.items():
        told, labels = labelled(entries)
        print(f"{name}: {len(told):,} pages")
        write(options.out / name, told, labels, options.seed)


if __name__ == "__main__":
    main()
