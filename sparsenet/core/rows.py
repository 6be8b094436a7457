"""Rows: a CSR matrix of points or labels in the types of the kernels."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet import kernels
from sparsenet.core.validation import MAX_WIDTH
from sparsenet.kernels.types import F32, I32, I64

#: Points processed at a time: memory-mapped points may exceed memory.
POINTS_AT_A_TIME = 1 << 16


class RowSource(Protocol):
    """Rows of points in memory (`Rows`) or on disk; engines take either, and learn the same from both."""

    @property
    def width(self) -> int:
        """Number of columns."""

    @property
    def sizes(self) -> NDArray[Any]:
        """Number of entries of each row."""

    @property
    def n_entries(self) -> int:
        """Number of entries of all rows."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def take(self, points: I64) -> Rows:
        """Gather the rows numbered `points` into memory."""

    def slice(self, begin: int, end: int) -> Rows:
        """Return consecutive rows in memory."""

    def select(self, points: I64) -> Self:
        """Return the rows numbered `points`, ascending, without reading rows on disk."""

    def blocks(self, n: int) -> Iterator[Rows]:
        """Yield all rows in consecutive blocks of up to `n` rows."""

    def in_memory(self, points: I32) -> tuple[Rows, I32]:
        """Return rows in memory that hold at least `points`, and the numbers of `points` among them, in their order."""

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return the arrays that are held in memory."""

    @property
    def buffer_bytes(self) -> int:
        """Bytes that reading a block takes."""

    @property
    def folder(self) -> str | None:
        """The folder of rows on disk; None in memory."""

    def checksum(self) -> str:
        """Return the size and a checksum of the rows, to compare the data of two runs."""

    def check(self, name: str) -> None:
        """Reject rows that a kernel cannot read safely."""


@dataclass(frozen=True)
class Rows:
    """Rows of a sparse matrix: point i has the ids ``indices[indptr[i] : indptr[i + 1]]``.

    Attributes
    ----------
    indptr : ndarray of shape (n + 1,), int64
        Row pointers, starting at 0.
    indices : ndarray of shape (nnz,), int32
        Ids below `width`, distinct within a row (see `sum_duplicates` of SciPy).
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
        """View a CSR matrix in the types of the kernels, copying only arrays of another type.

        `values` replaces the data of the matrix. Explicit zeros are dropped, in a copy, unless `keep_zeros`. Ids out of
        range and values that are not finite in float32 raise a ValueError.
        """
        if getattr(matrix, "format", None) != "csr":
            raise TypeError(
                f"Rows.of takes a SciPy matrix in CSR format, got {type(matrix).__name__}: pass csr_array(X)"
            )
        indptr, indices = np.ascontiguousarray(matrix.indptr, np.int64), matrix.indices
        values = matrix.data if values is None else values
        _check_ids(indptr, indices, len(values), matrix.shape[1])
        with np.errstate(over="ignore"):  # overflow gives infinity, which the next check finds
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
        """Reject rows, built without `of`, whose types or ids a kernel cannot read safely."""
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

    def checksum(self) -> str:
        """Return the size and a checksum of the rows, to compare the data of two runs."""
        checksum, n = 0, self.indptr[-1]
        for array in (self.indptr, self.indices[:n], self.data[:n]):
            checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
        return f"{len(self)} x {self.width} of checksum {checksum:08x}"

    def take(self, points: I64) -> Rows:
        """Gather the rows numbered `points`, from 0 to n - 1, into new rows."""
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

    @property
    def sizes(self) -> I64:
        """Number of entries of each row."""
        return np.diff(self.indptr)

    @property
    def n_entries(self) -> int:
        """Number of entries of all rows."""
        return int(self.indptr[-1])

    def select(self, points: I64) -> Rows:
        """Return the rows numbered `points`."""
        return self.take(points)

    def in_memory(self, points: I32) -> tuple[Rows, I32]:
        """Return these rows and `points`; see `RowSource`."""
        return self, points

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return the arrays."""
        return self.indptr, self.indices, self.data

    @property
    def buffer_bytes(self) -> int:
        """Bytes that reading a block takes: none."""
        return 0

    @property
    def folder(self) -> None:
        """Return None: the rows are in memory."""
        return None

    def slice(self, begin: int, end: int) -> Rows:
        """Return a view of consecutive rows."""
        first, last = self.indptr[begin], self.indptr[end]
        indptr = self.indptr[begin : end + 1] - first
        return Rows(indptr, self.indices[first:last], self.data[first:last], self.width)

    def strongest(self, n_max: int, strength: F32) -> Rows:
        """Cut each row to its `n_max` entries of the largest `strength` (nnz,); ties keep the first."""
        lengths = np.diff(self.indptr)
        long = np.flatnonzero(lengths > n_max)
        if not len(long):
            return self
        keep = np.ones(len(self.indices), bool)
        for i in long:
            row = slice(self.indptr[i], self.indptr[i + 1])
            cutoff = np.partition(strength[row], lengths[i] - n_max)[lengths[i] - n_max]
            keep[row] = strength[row] > cutoff
            n_tied = n_max - np.count_nonzero(keep[row])
            keep[row][np.flatnonzero(strength[row] == cutoff)[:n_tied]] = True
        indptr = np.concatenate(([0], np.cumsum(np.minimum(lengths, n_max))))
        return Rows(indptr, self.indices[keep], self.data[keep], self.width)

    def blocks(self, n: int) -> Iterator[Rows]:
        """Yield views of consecutive blocks of up to `n` rows."""
        for begin in range(0, len(self), n):
            yield self.slice(begin, min(begin + n, len(self)))


def _check_ids(indptr: NDArray[Any], indices: NDArray[Any], n_values: int, width: int) -> None:
    n_max = min(len(indices), n_values)
    if not len(indptr) or indptr[0] != 0 or indptr[-1] > n_max or (indptr[1:] < indptr[:-1]).any():
        raise ValueError("indptr must rise from 0 to at most the number of entries stored: build the matrix again")
    if len(indices) and not (indices.min() >= 0 and indices.max() < width <= MAX_WIDTH):
        raise ValueError(f"indices go from {indices.min()} to {indices.max()}, beyond the {width} columns")


def pointers_of(sizes: NDArray[Any]) -> I64:
    """Return the row pointers of rows of these sizes."""
    return np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)))


def parts_of(indptr: I64, n_entries: int) -> list[tuple[int, int]]:
    """Return the first and last rows of parts with about `n_entries` entries."""
    n = len(indptr) - 1
    cuts = np.flatnonzero(np.diff(indptr[:-1] // n_entries)) + 1 if n else np.empty(0, np.int64)
    return list(pairwise([0, *cuts.tolist(), n]))


def squares(points: RowSource) -> F32:
    """Return 1 plus the squared length of each point, for the bias feature; infinite on overflow."""
    found, done = np.ones(len(points), np.float32), 0
    for part in points.blocks(POINTS_AT_A_TIME):
        with np.errstate(over="ignore"):
            found[done : done + len(part)] += by_row(np.add, np.square(part.data), part.indptr)
        done += len(part)
    return found


def sum_of_squares(points: RowSource) -> float:
    """Return the sum of the squares of all values, added up row by row, so that it does not depend on blocks."""
    squared, done = np.zeros(len(points)), 0
    for part in points.blocks(POINTS_AT_A_TIME):
        squared[done : done + len(part)] = by_row(np.add, np.square(part.data, dtype=np.float64), part.indptr)
        done += len(part)
    return float(squared.sum())


def by_row(reduce: np.ufunc, values: NDArray[Any], indptr: NDArray[Any]) -> NDArray[Any]:
    """Reduce the values of each row independently of the other rows; empty rows give 0."""
    found = np.zeros(len(indptr) - 1, values.dtype)
    filled = np.flatnonzero(np.diff(indptr))  # empty rows in between have no entries, so `reduceat` can skip them
    if len(filled):
        found[filled] = reduce.reduceat(values[: indptr[-1]], indptr[filled])
    return found


def transpose(rows: Rows) -> Rows:
    """Transpose rows, for example labels by point into points by label, with ids ascending."""
    # SciPy would copy ids to 64 bits to match the row pointers, and build the result in 64 bits.
    indptr = rows.indptr.astype(np.int32) if rows.indptr[-1] < MAX_WIDTH else rows.indptr
    flipped = csr_array((rows.data, rows.indices, indptr), shape=(len(rows), rows.width)).T.tocsr()
    return Rows.of(flipped, keep_zeros=True)


def as_matrix(rows: Rows) -> csr_array:
    """Return rows as a SciPy CSR array."""
    return csr_array((rows.data, rows.indices, rows.indptr), shape=(len(rows), rows.width))
