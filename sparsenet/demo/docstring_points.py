"""Training data from docstrings: sentences, labelled with the symbols that they describe."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

#: Sections of a numpydoc docstring that describe a symbol.
DESCRIBING_SECTIONS = frozenset(["", "notes", "returns", "yields"])
#: A sentence of more symbols than this is a set phrase, such as "Returns self".
MAX_SYMBOLS = 10

_HEADING = re.compile(r"^[ \t]*(\w[\w ]*)\n[ \t]*[-=~]{3,}[ \t]*$", re.MULTILINE)
_SIGNATURE = re.compile(r"^[\w.]+\(.*?\)(\s*(->|-->|=|:).*)?$", re.DOTALL)
_NOISE = re.compile(
    r"^[ \t]*(>>>|\.\.\.|\.\. |:\w+.*:$).*$"  # examples, directives, fields
    r"|:\w+(:\w+)?:(?=`)"  # roles: :func:`name`
    r"|<[^>\s]+>`_|`_\b|\[\w+\]_|[`*|~]",  # links, footnotes, quotes
    re.MULTILINE,
)
_PARAMETER = re.compile(r"^\*{0,2}[\w, *]+ : .*$")
_SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z(])")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


@dataclass(frozen=True)
class SentencePoints:
    """Texts, and the numbers of the symbols of each."""

    texts: list[str]
    labels: list[list[int]]


@dataclass(frozen=True)
class DocstringCorpus:
    """Training points, held-out points, and the symbols by label number."""

    symbols: list[str]
    train: SentencePoints
    held_out: SentencePoints


def build(docstrings: Mapping[str, str], *, held_out: int, seed: int) -> DocstringCorpus:
    """Make points from docstrings, and hold some out.

    The first sentence of a docstring, alone and with the words of the symbol's name, is always used for training. At
    most a fifth of the other sentences are held out.
    """
    symbols = sorted(docstrings)
    further: dict[str, set[int]] = {}
    openings: dict[str, set[int]] = {}
    for number, symbol in enumerate(symbols):
        first, *others = [*sentences(docstrings[symbol])] or [""]
        openings.setdefault(f"{name_words(symbol)} {first}", set()).add(number)
        openings.setdefault(first, set()).add(number)
        for sentence in others:
            further.setdefault(sentence, set()).add(number)
    texts = sorted(text for text in further if text not in openings and len(further[text]) <= MAX_SYMBOLS)
    order = np.random.default_rng(seed).permutation(len(texts))
    cut = min(held_out, len(texts) // 5)
    kept_back, learnt = ([texts[i] for i in part] for part in (order[:cut], order[cut:]))
    starts = [text for text in openings if text and len(openings[text]) <= MAX_SYMBOLS]
    owners = further | openings
    return DocstringCorpus(symbols, _points([*starts, *learnt], owners), _points(kept_back, owners))


def _points(texts: list[str], owners: Mapping[str, set[int]]) -> SentencePoints:
    return SentencePoints(texts, [sorted(owners[text]) for text in texts])


def sentences(docstring: str) -> Iterator[str]:
    """Yield the sentences of a docstring, the summary first, without code, parameters and other sections."""
    text = inspect.cleandoc(docstring)
    pieces = [("", text)]
    headings = list(_HEADING.finditer(text))
    if headings:
        ends = [*(match.start() for match in headings[1:]), len(text)]
        pieces = [("", text[: headings[0].start()])]
        pieces += [(m[1].strip().lower(), text[m.end() : end]) for m, end in zip(headings, ends, strict=True)]
    for section, body in pieces:
        if section in DESCRIBING_SECTIONS:
            yield from _sentences_of_section(body)


def _sentences_of_section(body: str) -> Iterator[str]:
    body = "\n".join("" if _PARAMETER.match(line) else line for line in body.splitlines())
    for paragraph in re.split(r"\n\s*\n", body):
        paragraph = _NOISE.sub("", paragraph).strip()
        if _SIGNATURE.match(paragraph):
            continue
        for sentence in _SENTENCE_END.split(" ".join(paragraph.split())):
            if 3 <= len(sentence.split()) <= 60:
                yield sentence


def name_words(symbol: str) -> str:
    """Split a dotted name into words: "numpy.ma.MaskedArray.sort" becomes "numpy ma Masked Array sort"."""
    return " ".join(_WORD.findall(symbol))
