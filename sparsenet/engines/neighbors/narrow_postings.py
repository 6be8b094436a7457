"""Posting lists of sparse points in 8 bits: what remains of the points once their neighbors have been learnt."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.file_map import read_parts
from sparsenet.core.narrow_rows import NarrowRows, round_rows
from sparsenet.core.rows import Rows, pointers_of
from sparsenet.core.spilling import Spill
from sparsenet.engines.neighbors.posting_lists import parts
from sparsenet.kernels.types import F32, I8, I32, I64, U16

#: Points whose numbers fit into 16 bits.
SHORT = 1 << 16
#: Keeps arrays in memory.
IN_MEMORY = Spill(sys.maxsize)


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
    def rounded(cls, index: Rows, spill: Spill = IN_MEMORY) -> Self:
        """Round the values of posting lists to 8 bits, in parts, and copy the rest."""
        kind = np.uint16 if index.width <= SHORT else np.int32
        points, codes, steps = spill.growing(kind), spill.growing(np.int8), [np.empty(0, np.uint16)]
        for part in parts(index):
            values = part.data.copy()
            round_rows(values, part.indptr)
            rows = NarrowRows.of(values, part.indptr)
            assert rows is not None, "rows that were rounded once have exact codes"
            codes.append(rows.codes)
            steps.append(rows.steps)
            points.append(part.indices)
        all_rows = NarrowRows(codes.joined(), np.concatenate(steps), index.indptr)
        return cls(points.joined(), all_rows, index.width)

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


def read_lists(index: Rows | NarrowPostings, features: I64) -> Rows | NarrowPostings:
    """Read the posting lists of some features from a file into memory."""
    indptr, points, values, steps = posting_arrays(index)
    starts, sizes = indptr[features], indptr[features + 1] - indptr[features]
    own_points, own_values = (read_parts(array, starts, sizes) for array in (points, values))
    own_steps = None if steps is None else steps[features]
    return postings_of(index.width, pointers_of(sizes), own_points, own_values, own_steps)
