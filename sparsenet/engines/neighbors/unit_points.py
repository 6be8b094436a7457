"""Dense points at unit length, compared with all of them while a model learns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsenet.core.ranked import best_first
from sparsenet.core.rows import POINTS_AT_A_TIME, Rows, RowSource, as_matrix, by_row
from sparsenet.index.cells.spherical_kmeans import normalized
from sparsenet.index.exact import exact_topk
from sparsenet.kernels.types import F32, I32, I64

#: Vectors made at a time, since that takes 24 bytes a number.
AT_A_TIME = 1 << 14


def is_dense(points: RowSource, *, min_density: float = 0.5) -> bool:
    """Return whether at least `min_density` of all values are stored, zeros included.

    An inverted index suits sparse points. Each posting list of dense points would hold all of them, and truncated lists
    miss the nearest ones (bench/notes/blends.md).
    """
    return 0 < points.n_entries >= min_density * len(points) * points.width


@dataclass(frozen=True, eq=False)
class UnitPoints:
    """Weighted points at unit length, made when they are read.

    Attributes
    ----------
    points : RowSource
    weights : ndarray of shape (d,)
        Weights of the features.
    sums : ndarray of shape (m, d), optional
        Further vectors before their weights, numbered after the points.
    """

    points: RowSource
    weights: F32
    sums: F32 | None = None

    @property
    def width(self) -> int:
        """Numbers of a point."""
        return self.points.width

    @property
    def ids(self) -> I64:
        """Numbers of the points that have features, and of the further vectors."""
        n = len(self.points)
        filled = np.flatnonzero(self.points.sizes)
        return filled if self.sums is None else np.concatenate((filled, n + np.arange(len(self.sums))))

    def take(self, at: I64) -> F32:
        """Return the vectors numbered `at`."""
        found, is_point = np.empty((len(at), self.width), np.float32), at < len(self.points)
        for start in range(0, len(at), AT_A_TIME):
            own = slice(start, start + AT_A_TIME)
            found[own][is_point[own]] = as_matrix(self.points.take(at[own][is_point[own]])).toarray()
            if self.sums is not None:
                found[own][~is_point[own]] = self.sums[at[own][~is_point[own]] - len(self.points)]
            found[own] = self._unit(found[own])
        return found

    def nearest(self, queries: F32, k: int, threads: int) -> tuple[I32, F32]:
        """Return the k vectors of the largest products with each query, and these, by comparing with all."""
        shape, ids = (len(queries), k), self.ids
        near, products = np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)
        for start in range(0, len(ids), POINTS_AT_A_TIME):
            own = ids[start : start + POINTS_AT_A_TIME]
            found, best = exact_topk(queries, self.take(own), np.zeros(len(own), np.float32), k, threads)
            near, products = np.hstack((near, own.astype(np.int32)[found])), np.hstack((products, best))
            products, near = best_first(products, k, products, near)
        return near, products

    def _unit(self, dense: F32) -> F32:
        peaks = np.abs(dense).max(axis=1, keepdims=True)
        peaks[peaks == 0] = 1
        scaled: F32 = dense / peaks  # so that no square overflows
        return normalized(scaled * self.weights)


def largest_values(points: Rows) -> F32:
    """Return the largest absolute value of each point; 1 for an empty point."""
    largest = by_row(np.maximum, np.abs(points.data), points.indptr)
    return np.where(largest > 0, largest, np.float32(1))
