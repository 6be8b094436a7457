"""Dense points side by side: all of them are compared with a point, by the kernel that scores all labels exactly.

An index by feature is for points that have little in common. Where all have all features each of its lists names
everyone, and to leave out the weakest of each loses those that are nearest: it cost tree and neighbours 0.4 to 1.4
points of P@1, P@3 and P@5 (bench/notes/blends.md). A product by way of a list takes thirty times as long as one of a
matrix, too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet import kernels
from sparsenet.batches import Rows

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
#: So many numbers of all points are compared with a point at most: beyond, an answer would take milliseconds.
MOST_NUMBERS = 1 << 24


def are_few(n_points: int, n_features: int) -> bool:
    """Tell whether a point is compared with so many others of so many features, where these are dense."""
    return n_points * n_features <= MOST_NUMBERS


def is_for(points: Rows) -> bool:
    """Tell whether points are compared so, given as they are or by feature: they are dense, and few enough."""
    return points.dense and are_few(len(points), points.width)


class SideBySide:
    """Points as rows of a matrix.

    Parameters
    ----------
    index : Rows
        The same points by feature (d, n).
    """

    def __init__(self, index: Rows) -> None:
        by_feature = csr_array((index.data, index.indices, index.indptr), shape=(len(index), index.width))
        self._points: F32 = by_feature.T.toarray(order="C")
        self._no_bias = np.zeros(index.width, np.float32)

    def nearest(self, asked: Rows, near: I32, products: F32, threads: int) -> None:
        """Write the points of the largest product with each that asks to `near` (m, k), best first, and the products.

        Where fewer than k have a product above zero the others' is 0.
        """
        matrix = csr_array((asked.data, asked.indices, asked.indptr), shape=(len(asked), asked.width)).toarray()
        no_ids, no_values = np.empty(0, np.int32), np.empty(0, np.float32)
        nothing = np.zeros(len(asked) + 1, np.int64), no_ids, no_values  # no point has anything beside the matrix
        none = np.zeros(1, np.int64), no_ids, no_values
        kernels.predict_topk(matrix, self._points, self._no_bias, *nothing, *none, near, products, threads)
        np.maximum(products, 0, out=products)
