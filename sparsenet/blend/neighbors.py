"""The training points that are most like a point, and what their labels say: a part of a blend that learns by heart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels, metrics
from sparsenet.batches import Rows, squares
from sparsenet.estimators.fitting import as_matrix
from sparsenet.wide import transpose

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
#: A feature names so many points at most, those in which it is strongest: what nearly all points hold tells them apart
#: least, and would take the most time.
MOST_POINTS = 4096
#: What is tried out on a sample of the training points, each answered by the others: how much more a rare feature
#: counts than a frequent one, which tf-idf has in the data, and how much more a near point than one further off.
RARITIES, POWERS = (0.0, 0.5, 1.0), (1.0, 2.0, 3.0, 4.0, 6.0)
SAMPLE, RANKS = 1024, 5


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Training points by feature, and their labels.

    Attributes
    ----------
    index : Rows
        By feature (d, n_points), the points that hold it, and what it adds to the product with a point that does.
    labels : Rows
        The labels of each point (n_points, n_labels), with ones.
    weights : ndarray of shape (d,), float32
        What the features of a point that asks are multiplied by.
    rarity : float
        How much more rare features count: the power of the inverse frequency by which they are multiplied.
    power : float
        How much more near points count: the power of the cosine.
    """

    index: Rows
    labels: Rows
    weights: F32
    rarity: float
    power: float

    @classmethod
    def learn(cls, points: Rows, labels: Rows, k: int, *, seed: int, threads: int) -> Neighbors:
        """Remember points, and weigh features and nearness as answers a sample of them best by the k nearest others."""
        labels = Rows(labels.indptr, labels.indices, np.ones_like(labels.data), labels.width)
        by_feature = transpose(points)
        sample = np.sort(np.random.default_rng(seed).permutation(len(points))[:SAMPLE])
        asked, truth = points.take(sample), as_matrix(labels.take(sample))
        best, most, n_ranks = None, -1.0, min(RANKS, labels.width)
        for rarity in RARITIES:
            index, weights = _weighted(by_feature, rarity)
            found = cls(index, labels, weights, rarity, POWERS[0])
            near, products = found.nearest(asked, k + 1, threads)
            products[near == sample[:, None]] = 0  # nobody answers for himself
            for power in POWERS:
                named, shares = found.name(_voters(near, products, power, len(points)), n_ranks, threads)
                ranked = np.take_along_axis(named, np.argsort(-shares, axis=1, kind="stable"), axis=1)
                right = metrics.ndcg_at_k(truth, ranked, n_ranks)
                if right > most:
                    best, most = cls(index, labels, weights, rarity, power), right
        assert best is not None
        return best

    def nearest(self, points: Rows, k: int, threads: int) -> tuple[I32, F32]:
        """Return the k training points of the largest product with each point, best first, and the products."""
        near, products = np.empty((len(points), k), np.int32), np.empty((len(points), k), np.float32)
        asked = points.data * self.weights[points.indices]
        asked /= np.repeat(np.sqrt(squares(points)), np.diff(points.indptr))  # so that no product overflows
        index = (self.index.indptr, self.index.indices, self.index.data)
        kernels.nearest_points(points.indptr, points.indices, asked, *index, self.index.width, near, products, threads)
        return near, products

    def voters(self, points: Rows, k: int, threads: int) -> Rows:
        """Return the share that each training point has of the vote for each point: of k points at most, in sum one."""
        return _voters(*self.nearest(points, k, threads), self.power, len(self.labels))

    def shares(self, voters: Rows, labels: I32, threads: int) -> F32:
        """Return how much of the vote is for each of the `labels` named for a point, (n, c)."""
        own = (self.labels.indptr, self.labels.indices, self.labels.data)
        shares = np.empty(labels.shape, np.float32)
        voting = (voters.indptr, voters.indices, voters.data)
        kernels.neighbor_votes(*voting, *own, self.labels.width, labels, shares, threads)
        return shares

    def name(self, voters: Rows, n: int, threads: int) -> tuple[I32, F32]:
        """Return the n labels of the largest shares for each point and these, (n_points, n), labels ascending.

        Where fewer labels have any, others with a share of 0 fill the row.
        """
        found, shares = np.empty((len(voters), n), np.int32), np.empty((len(voters), n), np.float32)
        voting = (voters.indptr, voters.indices, voters.data)
        own = (self.labels.indptr, self.labels.indices, self.labels.data)
        none = np.zeros(self.labels.width, np.float32)
        kernels.shortlist(*voting, *own, none, np.arange(n, dtype=np.int32), found, shares, threads)
        return found, shares


def _weighted(by_feature: Rows, rarity: float) -> tuple[Rows, F32]:
    """Return features by frequency times values, divided by the length of each point, and those weights of features."""
    frequency = np.maximum(np.diff(by_feature.indptr), 1)
    weights = (np.log1p(by_feature.width / frequency) ** rarity).astype(np.float32)
    data = by_feature.data * np.repeat(weights, np.diff(by_feature.indptr))
    squares = np.bincount(by_feature.indices, data.astype(np.float64) ** 2, by_feature.width)
    lengths = np.sqrt(np.maximum(squares, np.finfo(np.float32).tiny)).astype(np.float32)
    data /= lengths[by_feature.indices]
    index = Rows(by_feature.indptr, by_feature.indices, data, by_feature.width)
    return index.strongest(MOST_POINTS, np.abs(data)), weights


def _voters(near: I32, products: F32, power: float, n_points: int) -> Rows:
    """Return what each of the nearest points has of a vote, which is one for each point that asks."""
    tiny = np.finfo(np.float32).tiny
    own = products / np.maximum(products.max(axis=1, keepdims=True), tiny)  # so that no power overflows
    own **= np.float32(power)
    own /= np.maximum(own.sum(axis=1, keepdims=True), tiny)
    return Rows(np.arange(0, near.size + 1, near.shape[1]), near.reshape(-1), own.reshape(-1), n_points)
