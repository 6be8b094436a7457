"""Texts to rows of counted features: encoding, blocks, and the kernel between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet._validation import integer

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
#: Text that is turned into features at a time: the room for the features of that much is kept.
BLOCK_BYTES = 1 << 18


@dataclass(frozen=True, kw_only=True)
class FeatureRules:
    """What the features of a text are: see `text_features` in ``_core.pyi``."""

    word_ngrams: int = 2
    char_low: int = 3
    char_high: int = 5
    bits: int = 22

    def __post_init__(self) -> None:
        integer("word_ngrams", self.word_ngrams, 1, 8)
        integer("char_low", self.char_low, 1, 64)
        if self.char_high != 0:
            integer("char_high", self.char_high, self.char_low, 64)
        integer("bits", self.bits, 2, 30)

    def as_tuple(self) -> tuple[int, int, int, int]:
        """Return the rules in the order in which kernels take them."""
        return self.word_ngrams, self.char_low, self.char_high, self.bits


@cache
def unicode_table() -> tuple[NDArray[np.uint16], I32]:
    """Return the classes and foldings of all code points, in two stages."""
    with (files("sparsenet.text") / "unicode.npz").open("rb") as file:
        arrays = np.load(file)
        return arrays["pages"], arrays["entries"]


@dataclass(frozen=True)
class TextRows:
    """Counted features of texts: those of text i are ``slots[indptr[i] : indptr[i + 1]]``."""

    indptr: I64
    slots: I32
    counts: I32

    def __len__(self) -> int:
        return len(self.indptr) - 1


def encode(texts: Sequence[str]) -> tuple[NDArray[np.uint8], I64]:
    """Return the UTF-8 of all texts, one after another, and where each begins and the last one ends."""
    encoded = [text.encode("utf-8", "replace") for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


def extract(text: NDArray[np.uint8], offsets: I64, rules: FeatureRules, threads: int) -> TextRows:
    """Turn texts as `encode` returns them into features, a block at a time."""
    indptr = np.zeros(len(offsets), np.int64)
    pieces: list[tuple[I32, I32]] = []
    scratch: Any = np.empty((2, 0), np.int32)
    for begin, end in _blocks(offsets):
        block = offsets[begin : end + 1]
        room = kernels.text_room(block, *rules.as_tuple())
        if room > scratch.shape[1]:
            scratch = np.empty((2, room), np.int32)
        ends = indptr[begin + 1 : end + 1]
        slots, counts = scratch
        kernels.text_features(text, block, *unicode_table(), *rules.as_tuple(), ends, slots, counts, threads)
        found = int(ends[-1])
        ends += indptr[begin]
        pieces.append((slots[:found].copy(), counts[:found].copy()))
    empty = np.empty(0, np.int32)
    slots, counts = (np.concatenate([empty, *(piece[which] for piece in pieces)]) for which in (0, 1))
    return TextRows(indptr, slots, counts)


def _blocks(offsets: I64) -> list[tuple[int, int]]:
    """Cut the texts into blocks of about `BLOCK_BYTES`, a text at least."""
    n, begin, found = len(offsets) - 1, 0, []
    while begin < n:
        end = int(np.searchsorted(offsets, offsets[begin] + BLOCK_BYTES, side="right")) - 1
        found.append((begin, max(end, begin + 1)))
        begin = found[-1][1]
    return found
