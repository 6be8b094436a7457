"""Batches of sparse points as the kernels want them, and the memory they are worked on with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

from sparsenet import _memory, kernels
from sparsenet._validation import MAX_WIDTH

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

#: An id that one in so many points of a batch holds, and at least so many of them, gets a dense row: a vector loop over
#: all points then takes less time than one over those.
DENSE_SHARE, FEWEST_DENSE = 16, 8
#: Points that are squared or answered at a time: they may lie in a file, and be more than memory holds.
POINTS_AT_A_TIME = 1 << 16


class Workspace:
    """Arrays that are made once and used again by every batch: page faults cost more than the arithmetic."""

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[np.generic]] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[np.generic]:
        """Return an array with undefined content; an earlier one of the same name is overwritten."""
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < size:
            buffer = self._buffers[name] = _memory.empty((size + size // 8,), dtype)
        return buffer[:size].reshape(shape)


@dataclass(frozen=True)
class Rows:
    """Rows of a sparse matrix: point i holds ``indices[indptr[i] : indptr[i + 1]]``.

    Attributes
    ----------
    indptr : ndarray of shape (n + 1,), int64
        Row pointers, from 0 on.
    indices : ndarray of shape (nnz,), int32
        Ids, below `width`; those of a row are distinct, as `sum_duplicates` of SciPy makes them.
    data : ndarray of shape (nnz,), float32
        Values.
    width : int
        Number of columns.

    Examples
    --------
    >>> rows = Rows.of(csr_array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]]))
    >>> len(rows), rows.width, rows.indices.tolist()
    (2, 3, [1, 2, 0])
    """

    indptr: I64
    indices: I32
    data: F32
    width: int

    @classmethod
    def of(cls, matrix: csr_array, values: NDArray[Any] | None = None, *, keep_zeros: bool = False) -> Rows:
        """View a CSR matrix, or one with other `values`, in the types of the kernels; copies what has another type.

        Zeros that are stored are left out, in a copy, unless `keep_zeros`: who has one does not have the feature. What
        would send a kernel out of its arrays, or spoil all it touches, is a ValueError.
        """
        if getattr(matrix, "format", None) != "csr":
            raise TypeError(
                f"Rows.of takes a SciPy matrix in CSR format, got {type(matrix).__name__}: pass csr_array(X)"
            )
        indptr, indices = np.ascontiguousarray(matrix.indptr, np.int64), matrix.indices
        values = matrix.data if values is None else values
        _check_ids(indptr, indices, len(values), matrix.shape[1])
        with np.errstate(over="ignore"):  # infinity is what the check finds
            data = np.ascontiguousarray(values, np.float32)
        if len(data) and not np.isfinite([data.min(), data.max()]).all():
            raise ValueError("the matrix holds NaN, infinity or numbers beyond float32: replace or rescale them")
        rows = cls(indptr, np.ascontiguousarray(indices, np.int32), data, int(matrix.shape[1]))
        return rows if keep_zeros or data[: indptr[-1]].all() else rows._without_zeros()

    def _without_zeros(self) -> Rows:
        keep = self.data[: self.indptr[-1]] != 0
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(keep)))[self.indptr]
        return Rows(indptr, self.indices[: len(keep)][keep], self.data[: len(keep)][keep], self.width)

    def check(self, name: str) -> None:
        """Refuse rows, made by hand and not by `of`, that would send a kernel out of its arrays."""
        for part, dtype in (("indptr", np.int64), ("indices", np.int32), ("data", np.float32)):
            array = getattr(self, part)
            if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
                found = (
                    f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
                )
                raise TypeError(f"{name}.{part} must be a one-dimensional array of {dtype.__name__}, got {found}")
        try:
            _check_ids(self.indptr, self.indices, len(self.data), self.width)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def take(self, points: I64) -> Rows:
        """Gather the given points, numbers from 0 to n - 1, into new rows."""
        if points.dtype.kind not in "iu":
            raise TypeError(f"points must be whole numbers, got an array of {points.dtype}: pass np.flatnonzero(mask)")
        points = np.ascontiguousarray(points, np.int64)
        if len(points) and not 0 <= points.min() <= points.max() < len(self):
            raise IndexError(f"points go from {points.min()} to {points.max()}, and there are {len(self)} rows")
        indptr = np.zeros(len(points) + 1, np.int64)
        np.cumsum(self.indptr[points + 1] - self.indptr[points], out=indptr[1:])
        taken = Rows(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32), self.width)
        source = self.indptr, self.indices, self.data
        kernels.take_rows(*source, points, taken.indptr, taken.indices, taken.data)
        return taken

    def slice(self, begin: int, end: int) -> Rows:
        """View consecutive points without a copy of their entries."""
        first, last = self.indptr[begin], self.indptr[end]
        indptr = self.indptr[begin : end + 1] - first
        return Rows(indptr, self.indices[first:last], self.data[first:last], self.width)

    def strongest(self, most: int, strength: F32) -> Rows:
        """Cut the rows to their `most` entries of the largest `strength` (nnz,); of equal ones the first stay."""
        lengths = np.diff(self.indptr)
        long = np.flatnonzero(lengths > most)
        if not len(long):
            return self
        keep = np.ones(len(self.indices), bool)
        for i in long:
            row = slice(self.indptr[i], self.indptr[i + 1])
            least = np.partition(strength[row], lengths[i] - most)[lengths[i] - most]
            keep[row] = strength[row] > least
            places = most - np.count_nonzero(keep[row])
            keep[row][np.flatnonzero(strength[row] == least)[:places]] = True  # of equal ones the first
        indptr = np.concatenate(([0], np.cumsum(np.minimum(lengths, most))))
        return Rows(indptr, self.indices[keep], self.data[keep], self.width)

    def blocks(self, n: int) -> Iterator[Rows]:
        """Yield consecutive blocks of up to `n` points."""
        for begin in range(0, len(self), n):
            yield self.slice(begin, min(begin + n, len(self)))


def _check_ids(indptr: NDArray[Any], indices: NDArray[Any], n_values: int, width: int) -> None:
    most = min(len(indices), n_values)
    if not len(indptr) or indptr[0] != 0 or indptr[-1] > most or (indptr[1:] < indptr[:-1]).any():
        raise ValueError("indptr must rise from 0 to at most the number of entries stored: build the matrix anew")
    if len(indices) and not (indices.min() >= 0 and indices.max() < width <= MAX_WIDTH):
        raise ValueError(f"indices go from {indices.min()} to {indices.max()}, beyond the {width} columns")


def is_hit(best: I32, truth: Rows) -> NDArray[np.bool_]:
    """Tell for each point whether its best label, (n,), or which of its best labels, (n, k), are true ones."""
    numbers = np.arange(len(truth), dtype=np.int64)
    points = numbers.reshape(-1, *(1,) * (best.ndim - 1))
    owners = np.repeat(numbers, np.diff(truth.indptr))
    return np.isin(points * truth.width + best, owners * truth.width + truth.indices)


def share_right(ranked: I32, truth: Rows) -> NDArray[np.float64]:
    """Return which share of as many labels of each point as it has is right, (n,): its best ones, of those ranked."""
    asked_for = np.clip(np.diff(truth.indptr), 1, ranked.shape[1])
    hits = is_hit(ranked, truth) & (np.arange(ranked.shape[1]) < asked_for[:, None])
    return np.asarray(hits.sum(axis=1) / asked_for)


def best_first(scores: F32, k: int, *values: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the values, (n, any), of each point's k largest scores, the largest first, of equal ones the first."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return [np.take_along_axis(each, order, axis=1) for each in values]


def precisions(hits: NDArray[np.bool_], ranks: Sequence[int]) -> NDArray[np.float64]:
    """Return P@k of each point for each of some ranks k, (n, len(ranks)), of whose best labels these are right."""
    return np.stack([hits[:, :k].sum(axis=1) / k for k in ranks], axis=1)


class Slots:
    """The scratch of `transpose`: for each id its position among those present, -1 outside of a batch's life."""

    def __init__(self, width: int) -> None:
        self.array: I32 = np.full(width, -1, np.int32)
        self._used: I32 = np.empty(0, np.int32)
        self._room = Workspace()

    def transpose(self, rows: Rows) -> Postings:
        """Turn rows into postings; those of an earlier call become invalid."""
        nnz = int(rows.indptr[-1])
        ids, points = (np.asarray(self._room.take(name, (nnz,), np.int32)) for name in ("ids", "points"))
        starts = np.asarray(self._room.take("starts", (nnz + 1,), np.int64))
        values = np.asarray(self._room.take("values", (nnz,), np.float32))
        source = rows.indptr, rows.indices, rows.data
        p = kernels.transpose_batch(*source, self._used, self.array, ids, starts, points, values)
        self._used = ids[:p]
        return Postings(len(rows), self.array, ids[:p], starts[: p + 1], points, values)


@dataclass(frozen=True)
class Postings:
    """A batch of `n` points by id: the s-th id present, ``ids[s]``, is held by ``points[starts[s] : starts[s + 1]]``.

    ``slots[id]`` is s, or -1 for an id that is absent.
    """

    n: int
    slots: I32
    ids: I32
    starts: I64
    points: I32
    values: F32

    @cached_property
    def dense(self) -> DensePostings:
        """The ids that many of the points hold, spread out: once a batch, for whoever asks."""
        lengths = np.diff(self.starts)
        frequent = np.flatnonzero(lengths >= max(FEWEST_DENSE, self.n // DENSE_SHARE))
        row_of = np.full(len(lengths), -1, np.int32)
        row_of[frequent] = np.arange(len(frequent))
        rows = np.empty((len(frequent), self.n), np.float32)
        kernels.spread_postings(self.starts, self.points, self.values, row_of, rows)
        return DensePostings(row_of, rows)


class DensePostings(NamedTuple):
    """Postings of frequent ids as dense rows: row ``row_of[s]`` (or -1) of `rows` (k, n) has those of the s-th id."""

    row_of: I32
    rows: F32


@dataclass(frozen=True)
class Batch:
    """Some points with their labels, each both by point and by id."""

    features: Rows
    feature_postings: Postings
    label_postings: Postings

    def __len__(self) -> int:
        return len(self.features)


class Batcher:
    """Cuts training data into shuffled batches; the order depends on the seed and the epoch alone."""

    def __init__(self, features: Rows, labels: Rows, *, batch_size: int, seed: int) -> None:
        self._features, self._labels = features, labels
        self._size, self._seed = batch_size, seed
        self._feature_slots, self._label_slots = Slots(features.width), Slots(labels.width)

    def __len__(self) -> int:
        return -(-len(self._features) // self._size)

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch from number `first`; a batch is valid until the next is asked for."""
        order = np.random.default_rng((self._seed, epoch)).permutation(len(self._features))
        for b in range(first, len(self)):
            points = order[b * self._size : (b + 1) * self._size]
            features = self._features.take(points)
            yield Batch(
                features,
                self._feature_slots.transpose(features),
                self._label_slots.transpose(self._labels.take(points)),
            )


def squares(points: Rows) -> F32:
    """Return the squared length of each point with a constant 1; of very large numbers that is infinite."""
    found, done = np.ones(len(points), np.float32), 0
    for part in points.blocks(POINTS_AT_A_TIME):
        with np.errstate(over="ignore"):
            found[done : done + len(part)] += by_row(np.add, np.square(part.data), part.indptr)
        done += len(part)
    return found


def by_row(reduce: np.ufunc, values: NDArray[Any], indptr: NDArray[Any]) -> NDArray[Any]:
    """Reduce the values of each row by itself, so that nothing depends on other rows; an empty one gives 0."""
    found = np.zeros(len(indptr) - 1, values.dtype)
    some = np.flatnonzero(np.diff(indptr))  # between two of these there is no entry of another
    if len(some):
        found[some] = reduce.reduceat(values[: indptr[-1]], indptr[some])
    return found
