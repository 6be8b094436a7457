"""Centroids of labels as further points to compare dense points with.

With few points a label, the mean of a label's embeddings is nearer to a new point than each of them, since their noise
cancels out. As neighbors, centroids vote for their label like points do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsenet.core.centroids import centroids
from sparsenet.core.rows import Rows, RowSource, as_matrix, transpose
from sparsenet.engines.neighbors.unit_points import AT_A_TIME
from sparsenet.kernels.types import F32, I32, I64


@dataclass(frozen=True, eq=False)
class LabelCentroids:
    """The sums of each label's points.

    Attributes
    ----------
    labels : ndarray of shape (m,)
        The labels that have points, ascending.
    sums : ndarray of shape (m, d)
    """

    labels: I32
    sums: F32

    @classmethod
    def of(cls, points: RowSource, labels: Rows, threads: int) -> LabelCentroids:
        """Sum the points of each label, of a block of labels at a time, so that little more than the sums is taken."""
        by_label = transpose(labels)
        used = np.flatnonzero(np.diff(by_label.indptr))
        sums = np.empty((len(used), points.width), np.float32)
        for start in range(0, len(used), AT_A_TIME):
            own = slice(start, start + AT_A_TIME)
            sums[own] = as_matrix(centroids(points, by_label.take(used[own]), points.width, threads)).toarray()
        return cls(used.astype(np.int32), sums)

    def after(self, labels: Rows) -> Rows:
        """Append the label of each centroid to the labels of points."""
        indptr: I64 = np.concatenate((labels.indptr, labels.indptr[-1] + 1 + np.arange(len(self.labels))))
        indices = np.concatenate((labels.indices[: labels.indptr[-1]], self.labels))
        return Rows(indptr, indices, np.ones(len(indices), np.float32), labels.width)

    def leave_one_out(
        self, points: Rows, labels: Rows, near: I32, products: F32, weights: F32, largest: F32, n_points: int
    ) -> None:
        """Replace the products of points with centroids of their own labels by those without the point itself.

        Parameters
        ----------
        near, products : (n, k)
            The neighbors of the points, those from `n_points` on centroids, and their inner products.
        weights : ndarray of shape (d,)
            Weights of the features.
        largest : ndarray of shape (n,)
            By what the points are divided.
        """
        dense = as_matrix(points).toarray() * weights
        number = np.maximum(near.astype(np.int64) - n_points, 0)
        owned = np.zeros(near.shape, np.bool_)
        for row in range(len(points)):
            own = labels.indices[labels.indptr[row] : labels.indptr[row + 1]]
            owned[row] = (near[row] >= n_points) & np.isin(self.labels[number[row]], own)
        rows, places = np.nonzero(owned)
        others = self.sums[number[rows, places]] * weights - dense[rows]
        lengths = np.sqrt(np.einsum("ij,ij->i", others, others))
        found = np.einsum("ij,ij->i", others, dense[rows]) / np.where(lengths > 0, lengths, 1)
        alone = lengths <= 1e-4 * np.sqrt(np.einsum("ij,ij->i", dense[rows], dense[rows]))
        products[rows, places] = np.where(alone, 0, np.maximum(found / largest[rows], 0))
