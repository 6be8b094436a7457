"""Dense points side by side: all of them are compared with a point, by the kernel that scores all labels exactly.

An index by feature is for points that have little in common. Where all have all features each of its lists names
everyone, and to leave out the weakest of each loses those that are nearest: neighbours then know a tenth to a half less
(bench/notes/blends.md). A product by way of a list takes thirty times as long as one of a matrix, too.
"""

from __future__ import annotations

import numpy as np

from sparsenet.core.rows import Rows, as_matrix
from sparsenet.index.exact import exact_topk
from sparsenet.kernels.types import F32, I32, I64

#: So many numbers of all points are compared with a point at most, which takes 2 to 3 ms: of more points some stand for
#: the rest. An eighth of them knew about as much as all by an index of the strongest, or more, and took no longer.
MOST_NUMBERS = 1 << 24
#: Numbers of points that ask, laid out at a time.
NUMBERS_AT_A_TIME = 1 << 22
#: The share of all values that dense points have, and that a sample of these has in any case. Zeros that are stored
#: count, as those of standardised columns that never change: in an index they would take the same room.
DENSE, DENSE_SAMPLE = 0.5, 0.45


def few_enough(points: Rows, *, seed: int) -> Rows:
    """Return points, of which too many dense ones have become empty: a sample is left."""
    most = max(MOST_NUMBERS // max(points.width, 1), 1)
    if len(points.indices) < DENSE * len(points) * points.width or len(points) <= most:
        return points
    stay = np.sort(np.random.default_rng(seed).permutation(len(points))[:most])
    taken, lengths = points.take(stay), np.zeros(len(points) + 1, np.int64)
    lengths[stay + 1] = np.diff(taken.indptr)
    return Rows(np.cumsum(lengths), taken.indices, taken.data, points.width)


def compared(index: Rows) -> I64 | None:
    """Return the numbers of the points in an index by feature (d, n), ascending; None unless they are dense and few."""
    longest, most = int(np.diff(index.indptr).max(initial=0)), min(len(index.indices) / DENSE_SAMPLE, MOST_NUMBERS)
    if longest * len(index) > most:  # there are as many points at least: most indexes are told by that
        return None
    numbers = np.flatnonzero(np.bincount(index.indices, minlength=index.width))
    return numbers if 0 < len(numbers) * len(index) <= most else None


class SideBySide:
    """Points as rows of a matrix.

    Parameters
    ----------
    index : Rows
        The same points by feature (d, n).
    numbers : ndarray
        What `compared` has of it.
    """

    def __init__(self, index: Rows, numbers: I64) -> None:
        places = np.zeros(index.width, np.int32)
        places[numbers] = np.arange(len(numbers))
        by_feature = Rows(index.indptr, places[index.indices], index.data, len(numbers))
        self._points: F32 = np.ascontiguousarray(as_matrix(by_feature).toarray().T)
        self._numbers = numbers.astype(np.int32)
        self._no_bias = np.zeros(len(numbers), np.float32)

    def nearest(self, asked: Rows, near: I32, products: F32, threads: int) -> None:
        """Write the points of the largest product with each that asks to `near` (m, k), best first, and the products.

        Where fewer than k have a product above zero the others' is 0.
        """
        k, done = min(near.shape[1], len(self._numbers)), 0
        near[:, k:], products[:, k:] = 0, 0
        for part in asked.blocks(max(NUMBERS_AT_A_TIME // max(asked.width, 1), 1)):
            found, best = exact_topk(as_matrix(part).toarray(), self._points, self._no_bias, k, threads)
            own = slice(done, done + len(part))
            near[own, :k], products[own, :k] = self._numbers[found], np.maximum(best, 0)
            done = own.stop
