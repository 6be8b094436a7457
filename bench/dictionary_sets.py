"""Four real data sets from dictionaries that Debian distributes.

    for package in edict enamdict dict-freedict-deu-eng mythes-en-us; do apt-get download $package; done
    for package in *.deb; do dpkg-deb --extract $package DICTIONARIES; done
    python -m bench.dictionary_sets --dictionaries DICTIONARIES --out DIR [--seed 0]

| set | point | features | labels |
|---|---|---|---|
| kanji | an entry of a Japanese dictionary | words of its English explanation | its characters: thousands, 2 a point |
| readings | a Japanese name | its characters and their pairs | its reading: tens of thousands, one a point |
| translations | a German entry | runs of four letters | words of its English translation: a long tail |
| synonyms | a meaning of English words | half of the words for it | the other half, as in recommendation |

Labels with fewer than three entries are left out, then entries without labels. `bench.sets` writes the files.
No default was chosen on these sets.
"""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from bench.sets import Points, set_parser, with_frequent, words, write_sets

FEWEST_ENTRIES = 3
RUN = 4
#: Paths of the dictionaries below the folder of the extracted packages.
EDICT, ENAMDICT = Path("usr/share/edict/edict"), Path("usr/share/edict/enamdict")
FREEDICT = Path("usr/share/dictd/freedict-deu-eng.dict.dz")
MYTHES = Path("usr/share/mythes/th_en_US_v2.dat")
#: The text of an entry, and its labels.
Entry = tuple[str, set[str]]
_CHARACTER = re.compile(r"[\u4e00-\u9fff]")
_NOTE = re.compile(r"\([^)]*\)|\[[^\]]*\]|<[^>]*>")


def kanji(folder: Path) -> Iterator[Entry]:
    """Yield the words of English explanations, and the characters that they explain."""
    for head, explained in _japanese(folder / EDICT):
        yield _NOTE.sub(" ", explained.rpartition("/EntL")[0] or explained), set(_CHARACTER.findall(head))


def readings(folder: Path) -> Iterator[Entry]:
    """Yield names, and the reading of each in Latin letters."""
    for head, explained in _japanese(folder / ENAMDICT):
        name = head.split(" ")[0]
        read = _NOTE.sub("", explained.split("/")[0]).strip().lower()
        if _CHARACTER.search(name) and read:
            yield name, {read}


def characters(name: str) -> list[str]:
    """Return the characters of a name and their pairs.

    >>> characters("上野")
    ['上', '野', '上野']
    """
    return [*name, *map("".join, pairwise(name))]


def _japanese(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the headword and the explanation of each entry."""
    for line in file.read_text(encoding="euc_jp", errors="replace").splitlines():
        head, _, explained = line.partition("/")
        yield head, explained


def translations(folder: Path) -> Iterator[Entry]:
    """Yield German entries, and the words in the first line of their translations."""
    lines = gzip.decompress((folder / FREEDICT).read_bytes()).decode("utf-8", "replace").splitlines()
    for head, meaning in pairwise(lines):
        if " /" in head and not head.startswith(" ") and "/" not in meaning:
            yield head.split(" /")[0], {word for word in words(_NOTE.sub(" ", meaning)) if len(word) > 1}


def runs(entry: str) -> list[str]:
    """Return the runs of four letters of an entry, with a blank before and after it.

    >>> runs("Abend")
    [' abe', 'aben', 'bend', 'end ']
    """
    padded = f" {entry.lower()} "
    return [padded[i : i + RUN] for i in range(max(len(padded) - RUN + 1, 1))]


def synonyms(folder: Path) -> Iterator[Entry]:
    """Yield two random halves of the words for each meaning; the seed is made of the words."""
    meanings: dict[tuple[str, ...], None] = {}
    head = ""
    for line in (folder / MYTHES).read_text(encoding="utf-8", errors="replace").splitlines()[1:]:
        first, *more = line.split("|")
        if first.startswith("("):
            found = {word for part in more if (word := _NOTE.sub("", part).strip().lower())}
            meanings[tuple(sorted(found | {head}))] = None
        else:
            head = first
    for meaning in meanings:  # a dict, because the file lists a meaning under each of its words
        shuffled = random.Random("|".join(meaning)).sample(meaning, len(meaning))
        half = (len(meaning) + 1) // 2
        yield "\n".join(shuffled[:half]), set(shuffled[half:])


SETS: dict[str, Callable[[Path], Iterator[Entry]]] = {
    "kanji": kanji,
    "readings": readings,
    "translations": translations,
    "synonyms": synonyms,
}
#: What turns the text of an entry into features; words if it is none of these.
FEATURES: dict[str, Callable[[str], list[str]]] = {
    "readings": characters,
    "translations": runs,
    "synonyms": str.splitlines,
}


def labelled(entries: Iterable[Entry], features: Callable[[str], list[str]] = words) -> Points:
    """Return texts and labels of the entries with frequent labels; entries with the same features count once."""
    found = {(tuple(features(text)), frozenset(labels)): text for text, labels in entries}
    points = with_frequent(found.values(), (labels for _, labels in found), FEWEST_ENTRIES)
    return replace(points, features=features)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the sets."""
    parser = set_parser(__doc__)
    parser.add_argument("--dictionaries", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(arguments)
    sets = ((name, labelled(read(options.dictionaries), FEATURES.get(name, words))) for name, read in SETS.items())
    write_sets(sets, options)


if __name__ == "__main__":
    main()
