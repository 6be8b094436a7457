"""Exact nearest neighbors of dense points by matrix products.

An inverted index suits sparse points. For dense points, every posting list contains all points, and truncated lists
miss the nearest ones (bench/notes/blends.md). A matrix product is also 30 times as fast as posting lists.
"""

from __future__ import annotations

import numpy as np

from sparsenet.core.rows import Rows, as_matrix
from sparsenet.index.exact import exact_topk
from sparsenet.kernels.types import F32, I32, I64

#: Maximum numbers in the matrix of training points, for 2 to 3 ms a query; larger sets are sampled. An eighth of the
#: points was about as accurate as an index of all of them.
MAX_DENSE_CELLS = 1 << 24


def limit_dense(points: Rows, *, seed: int, max_cells: int = MAX_DENSE_CELLS, min_density: float = 0.5) -> Rows:
    """Limit dense points to a random sample by emptying all other rows; return sparse points unchanged.

    Points are dense if at least `min_density` of their values are stored, zeros included.
    """
    limit = max(max_cells // max(points.width, 1), 1)
    if len(points.indices) < min_density * len(points) * points.width or len(points) <= limit:
        return points
    kept = np.sort(np.random.default_rng(seed).permutation(len(points))[:limit])
    sample, lengths = points.take(kept), np.zeros(len(points) + 1, np.int64)
    lengths[kept + 1] = np.diff(sample.indptr)
    return Rows(np.cumsum(lengths), sample.indices, sample.data, points.width)


def dense_ids(index: Rows, *, max_cells: int = MAX_DENSE_CELLS, min_density: float = 0.45) -> I64 | None:
    """Return the ids of the points in an index (d, n), ascending; None unless they are dense and few.

    `min_density` is slightly lower than in `limit_dense`, since a sample may have fewer values.
    """
    longest, limit = int(np.diff(index.indptr).max(initial=0)), min(len(index.indices) / min_density, max_cells)
    if longest * len(index) > limit:  # a quick lower bound on the size of the matrix
        return None
    ids = np.flatnonzero(np.bincount(index.indices, minlength=index.width))
    return ids if 0 < len(ids) * len(index) <= limit else None


class SideBySide:
    """A dense matrix of points, searched exhaustively.

    Parameters
    ----------
    index : Rows
        The points by feature, (d, n).
    ids : ndarray
        Their ids, from `dense_ids`.
    block_numbers : int
        Numbers in a block of queries.
    """

    def __init__(self, index: Rows, ids: I64, *, block_numbers: int = 1 << 22) -> None:
        positions = np.zeros(index.width, np.int32)
        positions[ids] = np.arange(len(ids))
        by_feature = Rows(index.indptr, positions[index.indices], index.data, len(ids))
        self._points: F32 = np.ascontiguousarray(as_matrix(by_feature).toarray().T)
        self._ids = ids.astype(np.int32)
        self._no_bias = np.zeros(len(ids), np.float32)
        self._block_numbers = block_numbers

    def nearest(self, queries: Rows, near: I32, products: F32, threads: int) -> None:
        """Find the points with the largest inner product for each query; products below zero become 0.

        Write ids to `near` and products to `products`, (m, k) each, best first.
        """
        k, done = min(near.shape[1], len(self._ids)), 0
        near[:, k:], products[:, k:] = 0, 0
        for part in queries.blocks(max(self._block_numbers // max(queries.width, 1), 1)):
            found, best = exact_topk(as_matrix(part).toarray(), self._points, self._no_bias, k, threads)
            own = slice(done, done + len(part))
            near[own, :k], products[own, :k] = self._ids[found], np.maximum(best, 0)
            done = own.stop
