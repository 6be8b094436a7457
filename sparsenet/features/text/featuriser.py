"""Texts to rows of counted features: encoding, blocks, and the kernel between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.validation import integer
from sparsenet.features.text.spilling import Spill
from sparsenet.kernels.types import I32, I64, U8

#: Texts one after another, and where each begins and the last ends.
Joined = tuple[U8, I64]
#: Text that is turned into features at a time: the room for the features of that much is kept.
BLOCK_BYTES = 1 << 18
#: Features that are gone through at a time, where something of their size is made of them.
PART_FEATURES = 1 << 24


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
    with (files("sparsenet.features.text") / "unicode.npz").open("rb") as file:
        arrays = np.load(file)
        return arrays["pages"], arrays["entries"]


@dataclass(frozen=True)
class TextRows:
    """Counted features of texts: those of text i are ``slots[indptr[i] : indptr[i + 1]]``, at most 255 of each."""

    indptr: I64
    slots: I32
    counts: U8

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def parts(self) -> Iterator[tuple[slice, TextRows]]:
        """Yield consecutive texts of at most `PART_FEATURES` features, or one, and which they are.

        What is made of them stays small.
        """
        begin = 0
        while begin < len(self):
            end = int(np.searchsorted(self.indptr, self.indptr[begin] + PART_FEATURES, side="right")) - 1
            end = max(end, begin + 1)
            first, last = self.indptr[begin], self.indptr[end]
            part = TextRows(self.indptr[begin : end + 1] - first, self.slots[first:last], self.counts[first:last])
            yield slice(begin, end), part
            begin = end

    def take(self, texts: I64, spill: Spill) -> TextRows:
        """Gather some texts, ascending."""
        lengths, chosen = np.diff(self.indptr), np.zeros(len(self), bool)
        chosen[texts] = True
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths[texts])))
        slots, counts = (spill.empty(int(indptr[-1]), kind) for kind in (np.int32, np.uint8))
        done = 0
        for own, part in self.parts():
            entries = np.repeat(chosen[own], np.diff(part.indptr))
            end = done + int(np.count_nonzero(entries))
            slots[done:end], counts[done:end] = part.slots[entries], part.counts[entries]
            done = end
        return TextRows(indptr, slots, counts)


def extract(text: U8, offsets: I64, rules: FeatureRules, threads: int) -> TextRows:
    """Turn texts as `join_texts` of the kernels returns them into features, a block at a time."""
    return extract_batches([(text, offsets)], rules, threads, Spill(np.iinfo(np.int64).max))


def extract_batches(batches: Iterable[Joined], rules: FeatureRules, threads: int, spill: Spill) -> TextRows:
    """Turn batches of texts into features, each when its turn comes; many features may lie in temporary files."""
    slots, counts, lengths = spill.pieces(np.int32), spill.pieces(np.uint8), [np.zeros(1, np.int64)]
    found, times = np.empty(0, np.int32), np.empty(0, np.uint8)
    for text, offsets in batches:
        for begin, end in _blocks(offsets):
            block = offsets[begin : end + 1]
            room = kernels.text_room(block, *rules.as_tuple())
            if room > len(found):
                found, times = np.empty(room, np.int32), np.empty(room, np.uint8)
            ends = np.empty(end - begin, np.int64)
            kernels.text_features(text, block, *unicode_table(), *rules.as_tuple(), ends, found, times, threads)
            slots.append(found[: ends[-1]])
            counts.append(times[: ends[-1]])
            lengths.append(np.diff(ends, prepend=0))
    return TextRows(np.cumsum(np.concatenate(lengths)), slots.joined(), counts.joined())


def _blocks(offsets: I64) -> list[tuple[int, int]]:
    """Cut the texts into blocks of about `BLOCK_BYTES`, a text at least."""
    n, begin, found = len(offsets) - 1, 0, []
    while begin < n:
        end = int(np.searchsorted(offsets, offsets[begin] + BLOCK_BYTES, side="right")) - 1
        found.append((begin, max(end, begin + 1)))
        begin = found[-1][1]
    return found
