"""Two real data sets from manual pages: long documents, and their titles.

    apt-cache pkgnames | grep -E '^lib.*-perl$' | xargs apt-get download
    for package in *.deb; do dpkg-deb --extract $package PAGES; done
    python -m bench.manual_sets --pages PAGES --out DIR [--seed 0]

A point is a page. Its labels are the pages in its SEE ALSO section: a few per point, thousands in all, with a long
tail. The features in ``see-also`` are the hundreds of words of the rest of the page; in ``see-also-titles`` they are
the words of its title line. Labels with fewer than two pages are left out, then pages without labels.

`bench.sets` writes the files. No default was chosen on these sets. The first command fetches thousands of packages. The
pages of a few packages, or the installed ones (``--pages /usr/share/man``), make smaller sets of the same kind.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.sets import Points, set_parser, with_frequent, write_sets

FEWEST_PAGES = 2
TITLE, ABOUT = "NAME", "SEE ALSO"
#: A reference to a page: a name with a section number, or a module name with colons.
_REFERENCE = re.compile(r"([A-Za-z_][\w.:+-]*) ?\([1-9][A-Za-z]*\)|\b([A-Za-z_]\w*(?:::\w+)+)")
#: Escapes: changes of fonts, and special characters.
_ESCAPE = re.compile(r"\\f(?:\[\w*\]|\(..|.)|\\[&|^/,%:]|\\s[-+]?\d+|\\\*\([LR]\"|\\\*\(..|\\\*.")
_SPECIAL = {r"\-": "-", r"\e": "\\", r"\(bu": " ", r"\ ": " ", r"\(aq": "'", r"\(co": " "}
#: Lines without text: comments, definitions and conditions.
_NO_TEXT = re.compile(r"[.'] *(?:\\\"|IX|de|ds|if|ie|el|tr|nr|rm|TH|so|\.)")
_HEADING = re.compile(r"\.S[Hh] +\"?([^\"]*)\"?")
_CROSS = re.compile(r"\.Xr (\S+) (\d\w*)")


@dataclass(frozen=True)
class Page:
    """The text of a page and its references."""

    title: str
    body: str
    see_also: frozenset[str]


def read_page(source: str) -> Page:
    """Split a page into title, body and references.

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
        elif not _NO_TEXT.match(line):
            parts.setdefault(heading, []).append(_plain(line))
    title, about = (" ".join(parts.pop(name, [])).strip() for name in (TITLE, ABOUT))
    body = " ".join(" ".join(lines) for lines in parts.values()).strip()
    return Page(title, body, frozenset(of_section or module for of_section, module in _REFERENCE.findall(about)))


def _plain(line: str) -> str:
    """Return the text of a line without markup."""
    line = _CROSS.sub(r"\1(\2)", line)
    for sign, meant in _SPECIAL.items():
        line = line.replace(sign, meant)
    line = _ESCAPE.sub("", line)
    return line.partition(" ")[2].replace('"', "") if line.startswith((".", "'")) else line


def pages(folder: Path) -> Iterator[Page]:
    """Read the distinct pages below a folder, which may hold copies and several names of a page."""
    seen = set()
    for file in sorted(folder.rglob("*.gz")):
        if file.is_symlink() or not file.parent.name.startswith("man"):
            continue
        page = read_page(gzip.decompress(file.read_bytes()).decode("utf-8", "replace"))
        if page.title and page.body not in seen:
            seen.add(page.body)
            yield page


def labelled(found: Iterable[tuple[str, frozenset[str]]]) -> Points:
    """Return texts and labels of the pages with frequent labels."""
    texts, labels = zip(*found, strict=True)
    return with_frequent(texts, labels, FEWEST_PAGES)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the sets."""
    parser = set_parser(__doc__)
    parser.add_argument("--pages", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(arguments)
    found = list(pages(options.pages))
    sets = {
        "see-also": [(f"{page.title} {page.body}", page.see_also) for page in found],
        "see-also-titles": [(page.title, page.see_also) for page in found],
    }
    write_sets(((name, labelled(entries)) for name, entries in sets.items()), options)


if __name__ == "__main__":
    main()
