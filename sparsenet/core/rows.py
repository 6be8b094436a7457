"""Rows of sparse points or labels in the types of the kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet import kernels
from sparsenet.core.validation import MAX_WIDTH
from sparsenet.kernels.types import F32, I32, I64

#: Points that are squared or answered at a time: they may lie in a file, and be more than memory holds.
POINTS_AT_A_TIME = 1 << 16


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


def transpose(rows: Rows) -> Rows:
    """Swap the two sides of a sparse matrix: points by label from labels by point, ascending."""
    shape = (len(rows), rows.width)
    flipped = csr_array((rows.data, rows.indices, rows.indptr), shape=shape).T.tocsr()
    return Rows.of(flipped, keep_zeros=True)


def as_matrix(rows: Rows) -> csr_array:
    """Return rows as SciPy has them."""
    return csr_array((rows.data, rows.indices, rows.indptr), shape=(len(rows), rows.width))
