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
from itertools import pairwise
from pathlib import Path

from bench.sets import Points, set_parser, with_frequent, words, write_sets

FEWEST_ENTRIES = 3
RUN = 4
#: Paths of the dictionaries below the folder of the extracted packages.
EDICT, ENAMDICT = Path("usr/share/edict/edict"), Path("usr/share/edict/enamdict")
FREEDICT = Path("usr/share/dictd/freedict-deu-eng.dict.dz")
MYTHES = Path("usr/share/mythes/th_en_US_v2.dat")
#: The features of an entry, and its labels.
Entry = tuple[list[str], set[str]]
_CHARACTER = re.compile(r"[\u4e00-\u9fff]")
_NOTE = re.compile(r"\([^)]*\)|\[[^\]]*\]|<[^>]*>")


def kanji(folder: Path) -> Iterator[Entry]:
    """Yield the words of English explanations, and the characters that they explain."""
    for head, explained in _japanese(folder / EDICT):
        yield words(_NOTE.sub(" ", explained.rpartition("/EntL")[0] or explained)), set(_CHARACTER.findall(head))


def readings(folder: Path) -> Iterator[Entry]:
    """Yield the characters of names and their pairs, and the reading of each name in Latin letters."""
    for head, explained in _japanese(folder / ENAMDICT):
        name = head.split(" ")[0]
        read = _NOTE.sub("", explained.split("/")[0]).strip().lower()
        if _CHARACTER.search(name) and read:
            yield [*name, *map("".join, pairwise(name))], {read}


def _japanese(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the headword and the explanation of each entry."""
    for line in file.read_text(encoding="euc_jp", errors="replace").splitlines():
        head, _, explained = line.partition("/")
        yield head, explained


def translations(folder: Path) -> Iterator[Entry]:
    """Yield runs of letters of German entries, and the words in the first line of their translations."""
    lines = gzip.decompress((folder / FREEDICT).read_bytes()).decode("utf-8", "replace").splitlines()
    for head, meaning in pairwise(lines):
        if " /" in head and not head.startswith(" ") and "/" not in meaning:
            entry = f" {head.split(' /')[0].lower()} "
            runs = [entry[i : i + RUN] for i in range(max(len(entry) - RUN + 1, 1))]
            yield runs, {word for word in words(_NOTE.sub(" ", meaning)) if len(word) > 1}


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
        yield shuffled[:half], set(shuffled[half:])


SETS: dict[str, Callable[[Path], Iterator[Entry]]] = {
    "kanji": kanji,
    "readings": readings,
    "translations": translations,
    "synonyms": synonyms,
}


def labelled(entries: Iterable[Entry]) -> Points:
    """Return features and labels of the distinct entries with frequent labels."""
    found = dict.fromkeys((tuple(features), frozenset(labels)) for features, labels in entries)
    return with_frequent([list(features) for features, _ in found], (labels for _, labels in found), FEWEST_ENTRIES)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the sets."""
    parser = set_parser(__doc__)
    parser.add_argument("--dictionaries", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(arguments)
    write_sets(((name, labelled(entries(options.dictionaries))) for name, entries in SETS.items()), options)


if __name__ == "__main__":
    main()
