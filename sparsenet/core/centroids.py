"""Label centroids: the sum of each label's points."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.rows import POINTS_AT_A_TIME, Rows, RowSource, by_row, parts_of, pointers_of
from sparsenet.kernels.types import I64

#: Entries added up per block: a block takes a fraction of a second, and Ctrl-C works between blocks.
BLOCK_ENTRIES = 1 << 22


def support_bound(features: RowSource, label_points: Rows, budget: int) -> I64:
    """Return an upper bound on the number of features in each label's centroid."""
    return np.minimum(_entries(features, label_points), min(budget, features.width))


def _entries(features: RowSource, label_points: Rows) -> I64:
    """Return the number of entries of the points of each label."""
    sizes = features.sizes
    blocks = label_points.blocks(POINTS_AT_A_TIME)
    parts = (by_row(np.add, sizes[own.indices].astype(np.int64), own.indptr) for own in blocks)
    return np.concatenate([np.empty(0, np.int64), *parts])


def owners_of(indptr: I64) -> I64:
    """Return the row of each entry."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def label_blocks(features: RowSource, label_points: Rows) -> list[tuple[int, int]]:
    """Return the first and last labels of blocks with about `BLOCK_ENTRIES` entries to add up each."""
    return parts_of(pointers_of(_entries(features, label_points)), BLOCK_ENTRIES)


def centroids(features: RowSource, label_points: Rows, budget: int, threads: int) -> Rows:
    """Return the sum of each label's points, cut to the `budget` features with the largest sums."""
    entries = _entries(features, label_points)
    bound = np.minimum(entries, min(budget, features.width))
    capacity = int(bound.sum())
    indices, data = np.empty(capacity, np.int32), np.empty(capacity, np.float32)  # unwritten pages take no memory
    indptr = np.zeros(len(label_points) + 1, np.int64)
    for begin, end in parts_of(pointers_of(entries), BLOCK_ENTRIES):
        own = label_points.slice(begin, end)
        points, ids = features.in_memory(own.indices)
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(bound[begin:end])))
        room = slice(indptr[begin], indptr[begin] + starts[-1])
        kernels.label_centroids(
            own.indptr,
            ids,
            points.indptr,
            points.indices,
            points.data,
            points.width,
            np.full(end - begin, budget, np.int64),
            starts,
            indices[room],
            data[room],
            ends := np.empty(end - begin, np.int64),
            threads,
        )
        indptr[begin + 1 : end + 1] = indptr[begin] + ends
    return Rows(indptr, indices[: indptr[-1]], data[: indptr[-1]], features.width)


def lengths(rows: Rows) -> NDArray[np.float64]:
    """Return the Euclidean length of each row, 0 for empty rows."""
    return np.asarray(np.sqrt(by_row(np.add, np.square(rows.data, dtype=np.float64), rows.indptr)))


#: Bytes that the accumulator of sparse rows takes for each feature, present or not: see csrc/core/sparse_sum.h.
SUM_BYTES = 9.125
