"""Nearest neighbours: the most similar training points vote for their labels."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels, metrics
from sparsenet.core.rows import POINTS_AT_A_TIME, Rows, as_matrix, by_row, transpose
from sparsenet.engines.neighbors.side_by_side import SideBySide, dense_ids, limit_dense
from sparsenet.kernels.types import F32, I32, I64

#: Maximum length of a feature's posting list, cut to its largest values: features that nearly all points have are
#: slow and discriminate least.
MOST_POINTS = 4096
#: Maximum number of postings that a query reads; features with large weights and short lists go first. Without a bound,
#: long texts among millions of points would take milliseconds.
MOST_COMPARISONS = 1 << 16
#: Options of `rarity`; data with tf-idf contain an inverse frequency already.
RARITIES = (0.0, 0.5, 1.0)
#: Bytes for each column: while the features are weighed (pointers, frequencies, rarities, weights), and afterwards
#: (pointers, weights).
BYTES_A_FEATURE, BYTES_HELD = 30, 13


@dataclass(frozen=True, eq=False, repr=False)
class Neighbors:
    """Nearest-neighbour model: an inverted index of the training points, and their labels.

    Attributes
    ----------
    index : Rows
        The posting list of each feature, (d, n_points): points of unit length after weighing.
    labels : Rows
        The labels of each point, (n_points, n_labels), all values 1.
    weights : ndarray of shape (d,), float32
        Feature weights of a query.
    rarity : float
        Exponent of the inverse feature frequency in `weights`.
    power : float
        Exponent of the cosine in a neighbour's weight.
    """

    index: Rows
    labels: Rows
    weights: F32
    rarity: float
    power: float

    #: Options of `power`, and further ones for dense points, whose cosines may all be near one.
    POWERS: ClassVar = (1.0, 2.0, 3.0, 4.0, 6.0)
    DENSE_POWERS: ClassVar = (10.0, 16.0, 25.0)

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={getattr(self, name):g}" for name in ("rarity", "power"))
        return f"<Neighbors: {len(self.labels):,} points, {settings}>"

    @classmethod
    def learn(
        cls, points: Rows, labels: Rows, k: int, *, seed: int, threads: int, sample: int = 1024, first: int = 512
    ) -> Neighbors:
        """Index the points; choose `rarity` and `power` by the leave-one-out nDCG of k neighbours on a sample.

        The `first` points of the sample choose `rarity`, which needs a search for each option.
        """
        labels = Rows(labels.indptr, labels.indices, np.ones_like(labels.data), labels.width)
        limited = limit_dense(points, seed=seed)
        by_feature = transpose(limited)
        order = np.random.default_rng(seed).permutation(len(points))[:sample]
        start, rest = np.sort(order[:first]), np.sort(order[first:])

        def with_rarity(rarity: float) -> Neighbors:
            index, weights = _weigh_features(limited, by_feature, rarity)
            return cls(index, labels, weights, rarity, cls.POWERS[0])

        neighbors, ndcg = {}, {}
        for rarity in RARITIES:
            found = with_rarity(rarity)
            neighbors[rarity] = found._nearest_others(points, start, k, threads)
            ndcg[rarity] = max(found._ndcg_by_power(start, *neighbors[rarity], threads))
            del found  # hold one index at a time, since it may be large
        found = with_rarity(max(RARITIES, key=ndcg.__getitem__))
        other = found._nearest_others(points, rest, k, threads)
        ids, products = (np.concatenate(both) for both in zip(neighbors[found.rarity], other, strict=True))
        best = found._ndcg_by_power(np.concatenate((start, rest)), ids, products, threads)
        return replace(found, power=found._powers[int(np.argmax(best))])

    def nearest(self, points: Rows, k: int, threads: int) -> tuple[I32, F32]:
        """Find the k nearest training points by inner product; return ids and products, best first."""
        k = min(k, len(self.labels))
        near, products = np.empty((len(points), k), np.int32), np.empty((len(points), k), np.float32)
        values = points.data.copy()
        values /= np.repeat(_largest_values(points), np.diff(points.indptr))  # so that no product overflows
        values *= self.weights[points.indices]
        if self._side_by_side:
            queries = Rows(points.indptr, points.indices, values, points.width)
            self._side_by_side.nearest(queries, near, products, threads)
        else:
            query, size = (points.indptr, points.indices, values), (self.index.width, MOST_COMPARISONS)
            kernels.nearest_points(*query, *_arrays(self.index), *size, near, products, threads)
        return near, products

    def voters(self, points: Rows, k: int, threads: int) -> Rows:
        """Compute the weights of the k nearest neighbours of each point; they sum to one.

        The weights are zero if a point shares no feature with any training point.
        """
        return self._neighbor_weights(*self.nearest(points, k, threads), self.power)

    def shares(self, voters: Rows, labels: I32, threads: int) -> F32:
        """Compute the neighbours' share of the vote for the candidate `labels` of each point, (n, c)."""
        shares = np.empty(labels.shape, np.float32)
        kernels.neighbor_votes(*_arrays(voters), *_arrays(self.labels), self.labels.width, labels, shares, threads)
        return shares

    def name(self, voters: Rows, n: int, threads: int) -> tuple[I32, F32]:
        """Find the n labels with the largest shares of the vote for each point, (n_points, n), labels ascending.

        Labels with a share of 0 fill up rows with fewer than n labels.
        """
        found, shares = np.empty((len(voters), n), np.int32), np.empty((len(voters), n), np.float32)
        others = np.arange(n, dtype=np.int32)
        kernels.shortlist(*_arrays(voters), *_arrays(self.labels), self._no_bias, others, found, shares, threads)
        return found, shares

    def voters_of_others(self, points: Rows, sample: I64, k: int, threads: int) -> Rows:
        """Compute `voters` for a sample of the training points, leave-one-out."""
        return self._neighbor_weights(*self._nearest_others(points, sample, k, threads), self.power)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields without the cached properties."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _no_bias(self) -> F32:
        """Return zero biases for `shortlist`; cached, since allocating them takes longer than a query."""
        return np.zeros(self.labels.width, np.float32)

    @cached_property
    def _side_by_side(self) -> SideBySide | None:
        """Return the dense matrix of the training points; None if they are sparse."""
        ids = dense_ids(self.index)
        return None if ids is None else SideBySide(self.index, ids)

    @property
    def _powers(self) -> tuple[float, ...]:
        """Return the options of `power`."""
        return self.POWERS if self._side_by_side is None else self.POWERS + self.DENSE_POWERS

    def _ndcg_by_power(self, sample: I64, near: I32, products: F32, threads: int, n_ranks: int = 5) -> list[float]:
        """Return the nDCG of the neighbours' vote on `sample` for each power."""
        true_labels, n_ranks = as_matrix(self.labels.take(sample)), min(n_ranks, self.labels.width)
        ndcg = []
        for power in self._powers:
            labels, shares = self.name(self._neighbor_weights(near, products, power), n_ranks, threads)
            ranked = np.take_along_axis(labels, np.argsort(-shares, axis=1, kind="stable"), axis=1)
            ndcg.append(metrics.ndcg_at_k(true_labels, ranked, n_ranks))
        return ndcg

    def _nearest_others(self, points: Rows, sample: I64, k: int, threads: int) -> tuple[I32, F32]:
        """Find the nearest neighbours of training points; each point is excluded from its own neighbours."""
        near, products = self.nearest(points.take(sample), k + 1, threads)
        products[near == sample[:, None]] = 0
        return near, products

    def _neighbor_weights(self, near: I32, products: F32, power: float) -> Rows:
        tiny = np.finfo(np.float32).tiny
        weights = products / np.maximum(products.max(axis=1, keepdims=True), tiny)
        weights **= np.float32(power)
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), tiny)
        indptr = np.arange(len(near) + 1) * near.shape[1]
        return Rows(indptr, near.reshape(-1), weights.reshape(-1), len(self.labels))


def _arrays(rows: Rows) -> tuple[I64, I32, F32]:
    return rows.indptr, rows.indices, rows.data


def _weigh_features(points: Rows, by_feature: Rows, rarity: float) -> tuple[Rows, F32]:
    """Weigh the features, scale points to unit length; return the posting lists and the feature weights."""
    frequency = np.diff(by_feature.indptr)
    rarities = np.maximum(frequency, 1.0)  # then in place, to save memory with millions of features
    np.divide(np.count_nonzero(np.diff(points.indptr)), rarities, out=rarities)
    np.log1p(rarities, out=rarities)
    np.power(rarities, rarity, out=rarities)
    weights = rarities.astype(np.float32)
    del rarities
    largest = max(np.abs(by_feature.data).max(initial=0), np.finfo(np.float32).tiny)  # so that no product overflows
    data = by_feature.data / largest
    data *= np.repeat(weights, frequency)
    data /= (_point_lengths(points, weights) / largest).astype(np.float32)[by_feature.indices]
    index = Rows(by_feature.indptr, by_feature.indices, data, by_feature.width)
    return index.strongest(MOST_POINTS, np.abs(data)) if dense_ids(index) is None else index, weights


def _point_lengths(points: Rows, weights: F32) -> NDArray[np.float64]:
    """Return the length of each weighted point; 1 for an empty point."""
    lengths, done = np.empty(len(points)), 0
    for part in points.blocks(POINTS_AT_A_TIME):
        squares = (part.data.astype(np.float64) * weights[part.indices]) ** 2
        lengths[done : done + len(part)] = np.sqrt(by_row(np.add, squares, part.indptr))
        done += len(part)
    return np.where(lengths > 0, lengths, 1.0)


def _largest_values(points: Rows) -> F32:
    """Return the largest absolute value of each point; 1 for an empty point."""
    largest = by_row(np.maximum, np.abs(points.data), points.indptr)
    return np.where(largest > 0, largest, np.float32(1))
