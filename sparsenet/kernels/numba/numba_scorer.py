"""Weight and score the features of texts in Numba: see ``csrc/text/scorer.cpp``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.kernels.numba.numba_common import checked, close_gaps, parallel_for
from sparsenet.kernels.numba.numba_decimal import exact_jit
from sparsenet.kernels.numba.numba_text import text_features, text_room
from sparsenet.kernels.types import F32, I32, I64, U8, U64

_COUNTS = 256
_ONE = np.uint64(1)


@checked(slots="i32 _", texts="out i32 _")
def count_slots(slots: I32, texts: I32) -> None:
    """See `sparsenet/_core.pyi`."""
    if len(slots) and not (slots.min() >= 0 and slots.max() < len(texts)):
        raise ValueError("slots must be below the size of texts")
    texts += np.bincount(slots, minlength=len(texts)).astype(np.int32)


@checked(
    ends="i64 n", slots="i32 m", counts="u8 m", labels="i32 n", used="u64 w", ranks="i32 w", out="out i32 d l"
)  # fmt: skip
def count_labels(ends: I64, slots: I32, counts: U8, labels: I32, used: U64, ranks: I32, first: int, out: I32) -> None:
    """See `sparsenet/_core.pyi`."""
    starts = _row_pointers(ends, len(slots))
    _check_numbering(used, ranks)
    if len(slots) and not (slots.min() >= 0 and slots.max() < 64 * len(used)):
        raise ValueError("slots must be below the number of slots")
    if len(labels) and not (labels.min() >= 0 and labels.max() < out.shape[1]):
        raise ValueError("labels must be below the columns of out")
    _count_labels(starts, slots, labels, used, ranks, first, out)  # type: ignore[no-untyped-call]


@checked(
    ends="i64 n", slots="i32 m", counts="u8 m", used="u64 w", ranks="i32 w", weights="f32 _", log_counts="f32 _",
    out_ends="out i64 n", rows="out i32 m", values="out f32 m",
)  # fmt: skip
def text_points(
    ends: I64,
    slots: I32,
    counts: U8,
    char_high: int,
    bits: int,
    used: U64,
    ranks: I32,
    weights: F32,
    log_counts: F32,
    out_ends: I64,
    rows: I32,
    values: F32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    _check_vocabulary(bits, used, ranks, weights, log_counts)
    starts = _row_pointers(ends, len(slots))
    vocabulary = (used, ranks, weights, log_counts, 1 << (bits - 1), np.float32(2 if char_high else 1))
    parallel_for(_weigh_all, len(ends), threads, vocabulary, starts, slots, counts, out_ends, rows, values, grain=32)
    close_gaps(starts, out_ends, rows, values)


def _check_vocabulary(bits: int, used: U64, ranks: I32, weights: F32, log_counts: F32) -> None:
    if not 2 <= bits <= 30:
        raise ValueError(f"bits must be from 2 to 30, got {bits}")
    if len(used) != ((1 << bits) + 63) // 64:
        raise ValueError(f"used must have a bit for each of 2**{bits} slots")
    n_features = _check_numbering(used, ranks)
    if len(weights) != n_features:
        raise ValueError(f"weights must have an entry for each of the {n_features} bits of used, got {len(weights)}")
    if len(log_counts) != _COUNTS:
        raise ValueError(f"log_counts must have {_COUNTS} entries, got {len(log_counts)}")


def _check_numbering(used: U64, ranks: I32) -> int:
    """Check that `ranks` counts the bits of `used`; return the number of features."""
    found = np.cumsum(np.bitwise_count(used)) if hasattr(np, "bitwise_count") else _count_bits(used)
    if np.any(ranks != np.concatenate(([0], found))[:-1]):
        raise ValueError("ranks must count the bits of used")
    return int(found[-1]) if len(found) else 0


def _row_pointers(ends: I64, room: int) -> I64:
    """Check the ends of rows and return their row pointers."""
    starts = np.concatenate((np.zeros(1, np.int64), ends))
    if np.any(starts[1:] < starts[:-1]) or starts[-1] > room:
        raise ValueError("ends must rise to at most the size of slots")
    return starts


def _count_bits(used: U64) -> I64:
    counts = np.unpackbits(used.view(np.uint8)).reshape(len(used), 64).sum(axis=1)
    return np.asarray(np.cumsum(counts), np.int64)


@exact_jit
def _weigh_all(first, last, vocabulary, starts, slots, counts, out_ends, rows, values):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        row = slice(starts[i], starts[i + 1])
        out = (rows[row], values[row])
        out_ends[i] = _weigh(vocabulary, slots[row], counts[row], *out)  # type: ignore[no-untyped-call]


@exact_jit
def _weigh(vocabulary, slots, counts, rows, values):  # type: ignore[no-untyped-def]
    used, ranks, weights, log_counts, upper, kinds = vocabulary
    squares, factors = np.zeros(2, np.float32), np.zeros(2, np.float32)
    found = 0
    for j in range(len(slots)):
        slot = slots[j]
        word, bit = used[slot >> 6], _ONE << np.uint64(slot & 63)
        if word & bit == 0:
            continue
        feature = ranks[slot >> 6] + _popcount(word & (bit - _ONE))
        value = log_counts[counts[j]] * weights[feature]
        kind = 1 if slot >= upper else 0
        squares[kind] += value * value
        rows[found] = ~feature if kind else feature
        values[found] = value
        found += 1
    for kind in range(2):
        if squares[kind] > 0:
            factors[kind] = np.float32(1) / np.sqrt(kinds * squares[kind])
    for j in range(found):
        kind = 1 if rows[j] < 0 else 0
        rows[j] = ~rows[j] if kind else rows[j]
        values[j] *= factors[kind]
    return found


@exact_jit
def _count_labels(starts, slots, labels, used, ranks, first, out):  # type: ignore[no-untyped-def]
    for i in range(len(labels)):
        for j in range(starts[i], starts[i + 1]):
            slot = slots[j]
            word, bit = used[slot >> 6], _ONE << np.uint64(slot & 63)
            if word & bit:
                feature = ranks[slot >> 6] + _popcount(word & (bit - _ONE)) - first
                if 0 <= feature < len(out):
                    out[feature, labels[i]] += 1


@exact_jit
def _popcount(x: np.uint64) -> int:
    x = x - ((x >> _ONE) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))  # type: ignore[return-value]  # Numba's int


@exact_jit
def _score_all(first, last, starts, rows, values, matrix, factors, bias, out):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        sums = out[i]
        sums[:] = bias
        for j in range(starts[i], starts[i + 1]):
            x, row = values[j] * factors[rows[j]], matrix[rows[j]]
            for c in range(len(sums)):
                sums[c] += x * np.float32(row[c])


@exact_jit
def _score_sparse(first, last, starts, rows, values, places, matrix, factors, bias, out):  # type: ignore[no-untyped-def]
    indptr, columns = places
    for i in range(first, last):
        sums = out[i]
        sums[:] = bias
        for j in range(starts[i], starts[i + 1]):
            x = values[j] * factors[rows[j]]
            for k in range(indptr[rows[j]], indptr[rows[j] + 1]):
                sums[columns[k]] += x * np.float32(matrix[k])


class TextScorer:
    """See `sparsenet/_core.pyi`."""

    def __init__(
        self,
        pages: NDArray[np.uint16],
        entries: I32,
        word_ngrams: int,
        char_low: int,
        char_high: int,
        bits: int,
        used: U64,
        ranks: I32,
        weights: F32,
        log_counts: F32,
        matrix: NDArray[np.int8],
        factors: F32,
        bias: F32,
        indptr: I64 | None = None,
        columns: I32 | None = None,
    ) -> None:
        _check_vocabulary(bits, used, ranks, weights, log_counts)
        shape = (len(weights), len(bias)) if indptr is None else (int(indptr[-1]),)
        if matrix.shape != shape or matrix.dtype != np.int8:
            raise ValueError(f"matrix must be int8 of shape {shape}, got {matrix.shape}")
        if indptr is not None and columns is not None:
            if len(indptr) != len(weights) + 1 or indptr[0] != 0 or np.any(indptr[1:] < indptr[:-1]):
                raise ValueError(f"indptr must rise from 0 and have {len(weights) + 1} entries")
            if len(columns) != len(matrix) or columns.min(initial=0) < 0 or columns.max(initial=0) >= len(bias):
                raise ValueError(f"columns must be below the size of bias, {len(bias)}, one for each of matrix")
        if factors.shape != weights.shape:
            raise ValueError(f"factors must have {len(weights)} entries, got {len(factors)}")
        self._unicode = (pages, entries)
        self._rules = (word_ngrams, char_low, char_high, bits)
        self._vocabulary = (used, ranks, weights, log_counts)
        self._model = (matrix, factors, bias)
        self._rows = (indptr, columns)

    def scores(self, text: U8, offsets: I64, out: F32, threads: int) -> None:
        """See `sparsenet/_core.pyi`."""
        n = len(out)
        if out.ndim != 2 or out.shape[1] != len(self._model[2]) or len(offsets) != n + 1:
            raise ValueError(f"out must be of shape ({len(offsets) - 1}, {len(self._model[2])}), got {out.shape}")
        room = text_room(offsets, *self._rules)
        slots, rows = np.empty(room, np.int32), np.empty(room, np.int32)
        counts = np.empty(room, np.uint8)
        values, ends, kept = np.empty(room, np.float32), np.empty(n, np.int64), np.empty(n, np.int64)
        text_features(text, offsets, *self._unicode, *self._rules, ends, slots, counts, threads)
        char_high, bits = self._rules[2:]
        text_points(ends, slots, counts, char_high, bits, *self._vocabulary, kept, rows, values, threads)
        starts = np.concatenate((np.zeros(1, np.int64), kept))
        if self._rows[0] is None:
            parallel_for(_score_all, n, threads, starts, rows, values, *self._model, out, grain=32)
        else:
            parallel_for(_score_sparse, n, threads, starts, rows, values, self._rows, *self._model, out, grain=32)

    def best(self, text: str) -> tuple[int, float]:
        """See `sparsenet/_core.pyi`."""
        utf8 = np.frombuffer(text.encode(), np.uint8)
        out: Any = np.empty((1, len(self._model[2])), np.float32)
        self.scores(utf8, np.array([0, len(utf8)]), out, 1)
        if out.shape[1] == 1:
            return int(out[0, 0] > 0), float(abs(out[0, 0]))
        return int(out[0].argmax()), float(out[0].max())
