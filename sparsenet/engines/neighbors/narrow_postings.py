"""Posting lists of sparse points in 8 bits: what remains of the points once their neighbors have been learnt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.narrow_rows import NarrowRows, round_rows
from sparsenet.core.rows import Rows
from sparsenet.kernels.types import F32, I8, I32, I64, U16

#: Points whose numbers fit into 16 bits.
SHORT = 1 << 16


@dataclass(frozen=True, eq=False)
class NarrowPostings:
    """The points that have each feature, ascending, with values in 8 bits.

    Attributes
    ----------
    points : ndarray of uint16 or, from `SHORT` points on, of int32
    rows : NarrowRows
        The values, a row for each feature.
    width : int
        The number of points.
    """

    points: I32 | U16
    rows: NarrowRows
    width: int

    @classmethod
    def rounded(cls, index: Rows) -> Self:
        """Round the values of posting lists to 8 bits."""
        n, values = index.indptr[-1], index.data.copy()
        round_rows(values[:n], index.indptr)
        rows = NarrowRows.of(values[:n], index.indptr)
        assert rows is not None, "rows that were rounded once have exact codes"
        return cls.of(index.indices[:n], rows, index.width)

    @classmethod
    def of(cls, points: I32, rows: NarrowRows, width: int) -> Self:
        """Hold the numbers of points in as few bits as they need."""
        return cls(points.astype(np.uint16) if width <= SHORT else points, rows, width)

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @property
    def indptr(self) -> I64:
        """Row pointers of the lists."""
        assert self.rows.indptr is not None
        return self.rows.indptr

    def arrays(self) -> list[NDArray[Any]]:
        """Return the arrays that are held."""
        return [self.indptr, self.points, *self.rows.arrays()]


def posting_arrays(index: Rows | NarrowPostings) -> tuple[I64, I32 | U16, F32 | I8, U16 | None]:
    """Return pointers, points, values and steps of posting lists, in the order of the kernels' arguments."""
    if isinstance(index, Rows):  # while a model learns
        return index.indptr, index.indices, index.data, None
    return index.indptr, index.points, index.rows.codes, index.rows.steps


def postings_of(
    n_points: int, indptr: I64, points: Any, values: Any, steps: U16 | None = None
) -> Rows | NarrowPostings:
    """Return posting lists by their `posting_arrays`."""
    if steps is None:
        return Rows(indptr, points, values, n_points)
    return NarrowPostings(points, NarrowRows(values, steps, indptr), n_points)
