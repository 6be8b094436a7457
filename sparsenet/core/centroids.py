"""Label centroids: the sum of each label's points."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.rows import Rows, by_row
from sparsenet.kernels.types import I64

#: Entries added up per block: a block takes a fraction of a second, and Ctrl-C works between blocks.
BLOCK_ENTRIES = 1 << 22


def support_bound(features: Rows, label_points: Rows, budget: int) -> I64:
    """Return an upper bound on the number of features in each label's centroid."""
    entries = np.diff(_entries_before(features, label_points))
    return np.minimum(entries, min(budget, features.width))


def _entries_before(features: Rows, label_points: Rows) -> I64:
    """Return the running sum, over labels, of the entries of their points, (n_labels + 1,)."""
    lengths = np.diff(features.indptr)[label_points.indices]
    totals: I64 = np.concatenate(([0], np.cumsum(lengths)))[label_points.indptr]
    return totals


def owners_of(indptr: I64) -> I64:
    """Return the row of each entry."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def label_blocks(features: Rows, label_points: Rows) -> list[int]:
    """Return the bounds of blocks of labels with about `BLOCK_ENTRIES` entries to add up each."""
    before = _entries_before(features, label_points)[:-1]
    return [0, *(np.flatnonzero(np.diff(before // BLOCK_ENTRIES)) + 1).tolist(), len(label_points)]


def centroids(features: Rows, label_points: Rows, budget: int, threads: int) -> Rows:
    """Return the sum of each label's points, cut to the `budget` features with the largest sums."""
    starts = np.concatenate(([0], np.cumsum(support_bound(features, label_points, budget))))
    indices, data = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
    ends = np.empty(len(label_points), np.int64)
    kernels.label_centroids(
        label_points.indptr,
        label_points.indices,
        features.indptr,
        features.indices,
        features.data,
        features.width,
        np.full(len(label_points), budget, np.int64),
        starts,
        indices,
        data,
        ends,
        threads,
    )
    indptr = np.concatenate((np.zeros(1, np.int64), ends))
    return Rows(indptr, indices[: indptr[-1]].copy(), data[: indptr[-1]].copy(), features.width)


def lengths(rows: Rows) -> NDArray[np.float64]:
    """Return the Euclidean length of each row, 0 for empty rows."""
    return np.asarray(np.sqrt(by_row(np.add, np.square(rows.data, dtype=np.float64), rows.indptr)))


#: Bytes that the accumulator of sparse rows takes for each feature, present or not: see csrc/core/sparse_sum.h.
SUM_BYTES = 9.125
