"""The training points that are most like a point, and what their labels say: a part of a blend that learns by heart."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels, metrics
from sparsenet.core.rows import POINTS_AT_A_TIME, Rows, as_matrix, by_row, transpose
from sparsenet.engines.neighbors.side_by_side import SideBySide, compared, few_enough
from sparsenet.kernels.types import F32, I32, I64

#: A feature names so many points at most, those in which it is strongest: what nearly all points hold tells them apart
#: least, and would take the most time.
MOST_POINTS = 4096
#: A point is compared by so many entries of the index at most, those of its features that are strongest for the number
#: of their entries: long texts among very many points would take milliseconds.
MOST_COMPARISONS = 1 << 16
#: What is tried out on a sample of the training points, each answered by the others: how much more a rare feature
#: counts than a frequent one, which tf-idf has in the data, and how much more a near point than one further off.
#: Of dense points, whose cosines may all be near one, higher powers are tried, too.
RARITIES, POWERS, POWERS_OF_DENSE = (0.0, 0.5, 1.0), (1.0, 2.0, 3.0, 4.0, 6.0), (10.0, 16.0, 25.0)
SAMPLE, RANKS = 1024, 5
#: By so many of the sample it is chosen how much rare features count: each of these choices is a search of its own.
FOR_RARITY = 512
#: The bytes that a feature takes, present or not: while all are weighed (pointers, how frequent and how rare each is,
#: weights), and from then on (pointers, weights).
BYTES_A_FEATURE, BYTES_HELD = 30, 13


@dataclass(frozen=True, eq=False, repr=False)
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

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={getattr(self, name):g}" for name in ("rarity", "power"))
        return f"<Neighbors: {len(self.labels):,} points, {said}>"

    @classmethod
    def learn(cls, points: Rows, labels: Rows, k: int, *, seed: int, threads: int) -> Neighbors:
        """Remember points, and weigh features and nearness as answers a sample of them best by the k nearest others."""
        labels = Rows(labels.indptr, labels.indices, np.ones_like(labels.data), labels.width)
        held = few_enough(points, seed=seed)
        by_feature = transpose(held)
        order = np.random.default_rng(seed).permutation(len(points))[:SAMPLE]
        few, rest = np.sort(order[:FOR_RARITY]), np.sort(order[FOR_RARITY:])

        def by(rarity: float) -> Neighbors:
            index, weights = _weighted(held, by_feature, rarity)
            return cls(index, labels, weights, rarity, POWERS[0])

        answers, rights = {}, {}
        for rarity in RARITIES:
            found = by(rarity)
            answers[rarity] = found._others(points, few, k, threads)
            rights[rarity] = max(found._rights(few, *answers[rarity], threads))
            del found  # an index may be large: there is one at a time
        found = by(max(RARITIES, key=rights.__getitem__))
        others = found._others(points, rest, k, threads)
        near, products = (np.concatenate(both) for both in zip(answers[found.rarity], others, strict=True))
        right = found._rights(np.concatenate((few, rest)), near, products, threads)
        return replace(found, power=found._powers[int(np.argmax(right))])

    def nearest(self, points: Rows, k: int, threads: int) -> tuple[I32, F32]:
        """Return the k training points of the largest product with each point, best first, and the products."""
        k = min(k, len(self.labels))
        near, products = np.empty((len(points), k), np.int32), np.empty((len(points), k), np.float32)
        asked = points.data.copy()
        asked /= np.repeat(_largest(points), np.diff(points.indptr))  # so that no product overflows
        asked *= self.weights[points.indices]
        if self._side_by_side:
            asking = Rows(points.indptr, points.indices, asked, points.width)
            self._side_by_side.nearest(asking, near, products, threads)
        else:
            question, size = (points.indptr, points.indices, asked), (self.index.width, MOST_COMPARISONS)
            kernels.nearest_points(*question, *_arrays(self.index), *size, near, products, threads)
        return near, products

    def voters(self, points: Rows, k: int, threads: int) -> Rows:
        """Return the share that each training point has of the vote for each point: of k points at most, in sum one.

        Where no training point has anything in common with a point, it is nothing.
        """
        return self._voters(*self.nearest(points, k, threads), self.power)

    def shares(self, voters: Rows, labels: I32, threads: int) -> F32:
        """Return how much of the vote is for each of the `labels` named for a point, (n, c)."""
        shares = np.empty(labels.shape, np.float32)
        kernels.neighbor_votes(*_arrays(voters), *_arrays(self.labels), self.labels.width, labels, shares, threads)
        return shares

    def name(self, voters: Rows, n: int, threads: int) -> tuple[I32, F32]:
        """Return the n labels of the largest shares for each point and these, (n_points, n), labels ascending.

        Where fewer labels have any, others with a share of 0 fill the row.
        """
        found, shares = np.empty((len(voters), n), np.int32), np.empty((len(voters), n), np.float32)
        others = np.arange(n, dtype=np.int32)
        kernels.shortlist(*_arrays(voters), *_arrays(self.labels), self._no_bias, others, found, shares, threads)
        return found, shares

    def voters_of_others(self, points: Rows, sample: I64, k: int, threads: int) -> Rows:
        """Return what `voters` does of a sample of the training points, whose own labels have no vote."""
        return self._voters(*self._others(points, sample, k, threads), self.power)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle no more than what was given."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _no_bias(self) -> F32:
        """Return what labels have before anyone votes; making it anew would take longer than a point's answer."""
        return np.zeros(self.labels.width, np.float32)

    @cached_property
    def _side_by_side(self) -> SideBySide | None:
        """Return the training points as they are compared where they are dense; None where the index is searched."""
        numbers = compared(self.index)
        return None if numbers is None else SideBySide(self.index, numbers)

    @property
    def _powers(self) -> tuple[float, ...]:
        """Return the powers of nearness that are tried out."""
        return POWERS if self._side_by_side is None else POWERS + POWERS_OF_DENSE

    def _rights(self, sample: I64, near: I32, products: F32, threads: int) -> list[float]:
        """Return how well training points are answered by those `near` them, with each of the powers."""
        truth, n_ranks = as_matrix(self.labels.take(sample)), min(RANKS, self.labels.width)
        rights = []
        for power in self._powers:
            named, shares = self.name(self._voters(near, products, power), n_ranks, threads)
            ranked = np.take_along_axis(named, np.argsort(-shares, axis=1, kind="stable"), axis=1)
            rights.append(metrics.ndcg_at_k(truth, ranked, n_ranks))
        return rights

    def _others(self, points: Rows, sample: I64, k: int, threads: int) -> tuple[I32, F32]:
        """Return what `nearest` does of training points: nobody answers for himself."""
        near, products = self.nearest(points.take(sample), k + 1, threads)
        products[near == sample[:, None]] = 0
        return near, products

    def _voters(self, near: I32, products: F32, power: float) -> Rows:
        tiny = np.finfo(np.float32).tiny
        own = products / np.maximum(products.max(axis=1, keepdims=True), tiny)
        own **= np.float32(power)
        own /= np.maximum(own.sum(axis=1, keepdims=True), tiny)
        indptr = np.arange(len(near) + 1) * near.shape[1]
        return Rows(indptr, near.reshape(-1), own.reshape(-1), len(self.labels))


def _arrays(rows: Rows) -> tuple[I64, I32, F32]:
    return rows.indptr, rows.indices, rows.data


def _weighted(points: Rows, by_feature: Rows, rarity: float) -> tuple[Rows, F32]:
    """Return points of unit length by feature, once features are weighed, and the weights of features."""
    frequency = np.diff(by_feature.indptr)
    rarities = np.maximum(frequency, 1.0)  # and the rest in place: of very many features each array is long
    np.divide(np.count_nonzero(np.diff(points.indptr)), rarities, out=rarities)
    np.log1p(rarities, out=rarities)
    np.power(rarities, rarity, out=rarities)
    weights = rarities.astype(np.float32)
    del rarities
    unit = max(np.abs(by_feature.data).max(initial=0), np.finfo(np.float32).tiny)  # so that no product overflows
    data = by_feature.data / unit
    data *= np.repeat(weights, frequency)
    data /= (_lengths(points, weights) / unit).astype(np.float32)[by_feature.indices]
    index = Rows(by_feature.indptr, by_feature.indices, data, by_feature.width)
    return index.strongest(MOST_POINTS, np.abs(data)) if compared(index) is None else index, weights


def _lengths(points: Rows, weights: F32) -> NDArray[np.float64]:
    """Return the length of each point of so weighed features; 1 for a point of none."""
    lengths, done = np.empty(len(points)), 0
    for part in points.blocks(POINTS_AT_A_TIME):
        squares = (part.data.astype(np.float64) * weights[part.indices]) ** 2
        lengths[done : done + len(part)] = np.sqrt(by_row(np.add, squares, part.indptr))
        done += len(part)
    return np.where(lengths > 0, lengths, 1.0)


def _largest(points: Rows) -> F32:
    """Return the largest absolute value of each point; 1 for a point of none."""
    largest = by_row(np.maximum, np.abs(points.data), points.indptr)
    return np.where(largest > 0, largest, np.float32(1))
