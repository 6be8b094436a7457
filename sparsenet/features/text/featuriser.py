"""Extract hashed and counted features from texts, block by block, with one kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.spilling import Spill
from sparsenet.core.validation import integer
from sparsenet.kernels.types import I32, I64, U8

#: Concatenated UTF-8 texts, and the offsets (n + 1,) of their boundaries.
Joined = tuple[U8, I64]
#: Bytes of text per kernel call; the output buffers are reused between calls.
BLOCK_BYTES = 1 << 18


@dataclass(frozen=True, kw_only=True)
class FeatureRules:
    """The kinds of features to extract; `text_features` in ``_core.pyi`` documents the fields."""

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

    @property
    def char_lengths(self) -> tuple[int, int] | None:
        """Shortest and longest character n-gram, or None."""
        return (self.char_low, self.char_high) if self.char_high else None

    def as_tuple(self) -> tuple[int, int, int, int]:
        """Return the rules in the order of the kernels' arguments."""
        return self.word_ngrams, self.char_low, self.char_high, self.bits


@cache
def unicode_table() -> tuple[NDArray[np.uint16], I32]:
    """Return the character classes and case foldings of all code points as a two-stage table."""
    with (files("sparsenet.features.text") / "unicode.npz").open("rb") as file:
        arrays = np.load(file)
        return arrays["pages"], arrays["entries"]


@dataclass(frozen=True)
class TextRows:
    """Feature counts of texts in CSR form: text i has ``slots[indptr[i] : indptr[i + 1]]``, with counts up to 255.

    `parts` yields at most `part_features` features at a time, to bound temporary arrays.
    """

    indptr: I64
    slots: I32
    counts: U8
    part_features: int = 1 << 24

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def parts(self) -> Iterator[tuple[slice, TextRows]]:
        """Yield slices and their texts: at most `part_features` features at a time, but at least one text."""
        begin = 0
        while begin < len(self):
            end = int(np.searchsorted(self.indptr, self.indptr[begin] + self.part_features, side="right")) - 1
            end = max(end, begin + 1)
            first, last = self.indptr[begin], self.indptr[end]
            part = TextRows(self.indptr[begin : end + 1] - first, self.slots[first:last], self.counts[first:last])
            yield slice(begin, end), part
            begin = end

    def take(self, texts: I64, spill: Spill) -> TextRows:
        """Select texts by their positions, which must ascend."""
        lengths, chosen = np.diff(self.indptr), np.zeros(len(self), bool)
        chosen[texts] = True
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths[texts])))
        slots, counts = (spill.empty(int(indptr[-1]), kind) for kind in (np.int32, np.uint8))
        done = 0
        for texts_of_part, part in self.parts():
            entries = np.repeat(chosen[texts_of_part], np.diff(part.indptr))
            end = done + int(np.count_nonzero(entries))
            slots[done:end], counts[done:end] = part.slots[entries], part.counts[entries]
            done = end
        return TextRows(indptr, slots, counts, self.part_features)


def extract(text: U8, offsets: I64, rules: FeatureRules, threads: int) -> TextRows:
    """Extract the features of texts, joined by `kernels.join_texts`."""
    return extract_batches([(text, offsets)], rules, threads, Spill(np.iinfo(np.int64).max))


def extract_batches(batches: Iterable[Joined], rules: FeatureRules, threads: int, spill: Spill) -> TextRows:
    """Extract the features of batches of texts; large results go to temporary files."""
    slots, counts, lengths = spill.growing(np.int32), spill.growing(np.uint8), [np.zeros(1, np.int64)]
    slot_buffer, count_buffer = np.empty(0, np.int32), np.empty(0, np.uint8)
    for text, offsets in batches:
        for begin, end in _blocks(offsets):
            block = offsets[begin : end + 1]
            room = kernels.text_room(block, *rules.as_tuple())
            if room > len(slot_buffer):
                slot_buffer, count_buffer = np.empty(room, np.int32), np.empty(room, np.uint8)
            ends = np.empty(end - begin, np.int64)
            kernels.text_features(
                text, block, *unicode_table(), *rules.as_tuple(), ends, slot_buffer, count_buffer, threads
            )
            slots.append(slot_buffer[: ends[-1]])
            counts.append(count_buffer[: ends[-1]])
            lengths.append(np.diff(ends, prepend=0))
    return TextRows(np.cumsum(np.concatenate(lengths)), slots.joined(), counts.joined())


def _blocks(offsets: I64) -> list[tuple[int, int]]:
    """Split texts into blocks of at most `BLOCK_BYTES`, but at least one text."""
    n, begin, blocks = len(offsets) - 1, 0, []
    while begin < n:
        end = int(np.searchsorted(offsets, offsets[begin] + BLOCK_BYTES, side="right")) - 1
        blocks.append((begin, max(end, begin + 1)))
        begin = blocks[-1][1]
    return blocks
