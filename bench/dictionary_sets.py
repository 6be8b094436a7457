"""Four real data sets from dictionaries that Debian distributes.

    for package in edict enamdict dict-freedict-deu-eng mythes-en-us; do apt-get download $package; done
    for package in *.deb; do dpkg-deb --extract $package DICTIONARIES; done
    python -m bench.dictionary_sets --dictionaries DICTIONARIES --out DIR [--seed 0]

In ``kanji`` a point is an entry of a Japanese dictionary, told by the words of its English explanation, and its labels
are the characters it is written with (thousands, two a point). In ``readings`` it is a name, told by its characters and
pairs of them, and its label is how it is read (tens of thousands, one a point, and what a name is read as is seldom
told by one character alone). In ``translations`` it is a German entry, told by runs of four letters, and its labels are
the words of its English translation (tens of thousands, a long tail). In ``synonyms`` it is a meaning of English
words, told by half of the words for it, and its labels are the other half, as in recommendation.
Labels of fewer than three entries are left out, and so are entries that have none then.

Each set is a directory of a train.txt and a test.txt, as `bench.source_sets` writes them. No default was chosen on
these.
"""

from __future__ import annotations

import argparse
import gzip
import random
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from bench.source_sets import with_frequent, words, write

FEWEST_ENTRIES = 3
RUN = 4
#: Where the packages have their dictionaries, below where they were extracted.
EDICT, ENAMDICT = Path("usr/share/edict/edict"), Path("usr/share/edict/enamdict")
FREEDICT = Path("usr/share/dictd/freedict-deu-eng.dict.dz")
MYTHES = Path("usr/share/mythes/th_en_US_v2.dat")
#: An entry: what tells it, and its labels.
Entry = tuple[list[str], set[str]]
_CHARACTER = re.compile(r"[\u4e00-\u9fff]")
_NOTE = re.compile(r"\([^)]*\)|\[[^\]]*\]|<[^>]*>")


def kanji(folder: Path) -> Iterator[Entry]:
    """Yield English explanations, and the characters that they explain."""
    for head, explained in _japanese(folder / EDICT):
        yield words(_NOTE.sub(" ", explained.rpartition("/EntL")[0] or explained)), set(_CHARACTER.findall(head))


def readings(folder: Path) -> Iterator[Entry]:
    """Yield the characters, and pairs of them, of names, and how each is read in Latin letters."""
    for head, explained in _japanese(folder / ENAMDICT):
        name = head.split(" ")[0]
        read = _NOTE.sub("", explained.split("/")[0]).strip().lower()
        if _CHARACTER.search(name) and read:
            yield [*name, *map("".join, pairwise(name))], {read}


def _japanese(file: Path) -> Iterator[tuple[str, str]]:
    """Yield what entries are of, and what is said of it."""
    for line in file.read_text(encoding="euc_jp", errors="replace").splitlines():
        head, _, explained = line.partition("/")
        yield head, explained


def translations(folder: Path) -> Iterator[Entry]:
    """Yield runs of letters of German entries, and the words of the first line of what they mean."""
    lines = gzip.decompress((folder / FREEDICT).read_bytes()).decode("utf-8", "replace").splitlines()
    for head, meaning in pairwise(lines):
        if " /" in head and not head.startswith(" ") and "/" not in meaning:
            entry = f" {head.split(' /')[0].lower()} "
            runs = [entry[i : i + RUN] for i in range(max(len(entry) - RUN + 1, 1))]
            yield runs, {word for word in words(_NOTE.sub(" ", meaning)) if len(word) > 1}


def synonyms(folder: Path) -> Iterator[Entry]:
    """Yield two halves of the words for each meaning; the one that `random` draws by what they are comes first."""
    meanings: dict[tuple[str, ...], None] = {}
    head = ""
    for line in (folder / MYTHES).read_text(encoding="utf-8", errors="replace").splitlines()[1:]:
        first, *more = line.split("|")
        if first.startswith("("):
            found = {word for part in more if (word := _NOTE.sub("", part).strip().lower())}
            meanings[tuple(sorted(found | {head}))] = None
        else:
            head = first
    for meaning in meanings:  # each once, though it stands below every word for it
        shuffled = random.Random("|".join(meaning)).sample(meaning, len(meaning))
        half = (len(meaning) + 1) // 2
        yield shuffled[:half], set(shuffled[half:])


SETS: dict[str, Callable[[Path], Iterator[Entry]]] = {
    "kanji": kanji,
    "readings": readings,
    "translations": translations,
    "synonyms": synonyms,
}


def labelled(entries: Iterable[Entry]) -> tuple[list[list[str]], list[list[str]]]:
    """Return what tells the entries that have labels, each once, and the labels."""
    found = dict.fromkeys((tuple(told), frozenset(labels)) for told, labels in entries)
    return with_frequent([list(told) for told, _ in found], (labels for _, labels in found), FEWEST_ENTRIES)


def main() -> None:
    """Write the sets."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dictionaries", type=Path, required=True, metavar="DIR")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    for name, entries in SETS.items():
        told, labels = labelled(entries(options.dictionaries))
        print(f"{name}: {len(told):,} entries")
        write(options.out / name, told, labels, options.seed)


if __name__ == "__main__":
    main()
