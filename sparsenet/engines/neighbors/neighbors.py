"""Nearest neighbors: the most similar training points vote for their labels."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from sparsenet import kernels
from sparsenet.core.ranked import best_first
from sparsenet.core.rows import POINTS_AT_A_TIME, Rows, RowSource, as_matrix, by_row, transpose
from sparsenet.core.scratch import Scratch, get_rows, put_rows, take_rows
from sparsenet.core.tasks import HERE, TaskRunner
from sparsenet.engines.neighbors.label_centroids import LabelCentroids
from sparsenet.engines.neighbors.side_by_side import MAX_DENSE_CELLS, SideBySide, dense_ids, limit_dense
from sparsenet.kernels.types import F32, F64, I32, I64
from sparsenet.metrics.ranking import find_hits
from sparsenet.selection.choose import Decision, Option, Rule, choose

#: Bytes for each column: while the features are weighed (pointers, frequencies, rarities, weights), and afterwards
#: (pointers, weights).
BYTES_A_FEATURE, BYTES_HELD = 30, 13


@dataclass(frozen=True)
class NeighborRules:
    """Bounds of the search for neighbors, and the options that a sample of the points chooses from.

    Attributes
    ----------
    max_points : int
        Maximum length of a feature's posting list, cut to its largest values: features that nearly all points have are
        slow and discriminate least.
    max_cells : int
        Maximum numbers in the matrix of dense points.
    rarities : tuple of float
        Options of `Neighbors.rarity`; data with tf-idf contain an inverse frequency already.
    powers, dense_powers, centroid_powers : tuples of float
        Options of `Neighbors.power`, and further ones for dense points, whose cosines may all be near one, and for
        centroids, which are nearer than points.
    sample, first : int
        Points of the sample. The `first` of them choose the rarity, which needs a search for each option.
    best : Rule
        The best option wins, since no option is dearer than another.
    better : Rule
        Centroids must be better beyond chance, since they take more memory and time.
    """

    max_points: int = 4096
    max_cells: int = MAX_DENSE_CELLS
    rarities: tuple[float, ...] = (0.0, 0.5, 1.0)
    powers: tuple[float, ...] = (1.0, 2.0, 3.0, 4.0, 6.0)
    dense_powers: tuple[float, ...] = (10.0, 16.0, 25.0)
    centroid_powers: tuple[float, ...] = (40.0, 64.0)
    sample: int = 1024
    first: int = 512
    best: Rule = field(default_factory=lambda: Rule("nDCG@5 of the neighbors", standard_errors=0.0))
    better: Rule = field(default_factory=lambda: Rule("nDCG@5 of the neighbors", standard_errors=2.0, min_gain=0.002))


RULES = NeighborRules()


@dataclass(frozen=True, eq=False, repr=False)
class Neighbors:
    """Nearest-neighbor model: an inverted index of the training points, and their labels.

    Attributes
    ----------
    index : Rows
        The posting list of each feature, (d, n_points): points of unit length after weighing.
    labels : Rows
        The labels of each point, (n_points, n_labels), all values 1. The last of dense points may be centroids.
    weights : ndarray of shape (d,), float32
        Feature weights of a query.
    rarity : float
        Exponent of the inverse feature frequency in `weights`.
    power : float
        Exponent of the cosine in a neighbor's weight.
    rules : NeighborRules
        Not saved: a loaded model has the default ones.
    n_centroids : int
        The number of centroids of labels at the end of the points.
    max_comparisons : int
        Maximum number of postings that a query reads; features with large weights and short lists go first.
    centroids : LabelCentroids, optional
        Not saved: the sums that leave a point out of its own centroids.
    """

    index: Rows
    labels: Rows
    weights: F32
    rarity: float
    power: float
    rules: NeighborRules = RULES
    n_centroids: int = 0
    max_comparisons: int = 1 << 16
    centroids: LabelCentroids | None = None

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={getattr(self, name):g}" for name in ("rarity", "power"))
        own = f" and {self.n_centroids:,} centroids" if self.n_centroids else ""
        return f"<Neighbors: {self.n_points:,} points{own}, {settings}>"

    @property
    def n_points(self) -> int:
        """The number of training points."""
        return len(self.labels) - self.n_centroids

    @property
    def is_sparse(self) -> bool:
        """Whether points are compared by posting lists."""
        return self._side_by_side is None

    @classmethod
    def learn(
        cls,
        points: Rows,
        labels: Rows,
        k: int,
        *,
        seed: int,
        threads: int,
        rules: NeighborRules = RULES,
        runner: TaskRunner = HERE,
    ) -> tuple[Neighbors, dict[str, Decision]]:
        """Index the points; choose `rarity` and `power` by the leave-one-out nDCG of k neighbors on a sample.

        Return the neighbors and both decisions. Tasks of `runner` build and measure the indexes.
        """
        labels = Rows(labels.indptr, labels.indices, np.ones_like(labels.data), labels.width)
        limited = limit_dense(points, seed=seed, max_cells=rules.max_cells)
        order = np.random.default_rng(seed).permutation(len(points))[: rules.sample]
        start, rest = np.sort(order[: rules.first]), np.sort(order[rules.first :])
        with runner.session() as session:
            for name, rows in (("points", limited), ("labels", labels)):
                put_rows(session.scratch, name, rows)
            for name, sample in (("start", start), ("rest", rest)):
                session.scratch.put(name, sample)
                put_rows(session.scratch, f"{name}-points", points.take(sample))
            session.run(transpose_points, [()])
            tasks = [(rarity, k, runner.task_threads(threads), rules) for rarity in rules.rarities]
            near, scores = zip(*session.run(measure_rarity, tasks), strict=True)
            by_option = dict(zip(rules.rarities, scores, strict=True))
            options = [Option(f"{each:g}", each) for each in by_option]
            by_rarity = choose(options, by_option.__getitem__, rules.best)
            at = rules.rarities.index(by_rarity.value)
            [by_option] = session.run(index_points, [(*tasks[at], near[at])])
            index, weights = take_rows(session.scratch, "index"), session.scratch.take("weights")[0]
        options = [Option(f"{each:g}", each) for each in by_option]
        by_power = choose(options, by_option.__getitem__, rules.best)
        found = cls(index, labels, weights, by_rarity.value, by_power.value, rules)
        decisions, sample = {"rarity": by_rarity, "power": by_power}, np.concatenate((start, rest))
        return found._or_with_centroids(points, limited, sample, k, threads, by_option[by_power.value], decisions)

    def _or_with_centroids(
        self,
        points: Rows,
        limited: Rows,
        sample: I64,
        k: int,
        threads: int,
        before: F64,
        decisions: dict[str, Decision],
    ) -> tuple[Neighbors, dict[str, Decision]]:
        """Add the centroids of the labels to dense points, if the vote is better then.

        `before` is the nDCG of each point of the `sample` without them.
        """
        rules = self.rules
        if (
            self._side_by_side is None
            or np.count_nonzero(np.diff(transpose(self.labels).indptr)) * points.width > rules.max_cells
        ):
            return self, decisions
        own = LabelCentroids.of(points, self.labels, threads)
        both, labels = own.after(limited, self.labels)
        more = replace(rules, max_cells=2 * rules.max_cells)
        index, weights = _weigh_features(both, transpose(both), self.rarity, more)
        found = Neighbors(index, labels, weights, self.rarity, self.power, rules, len(own.labels), centroids=own)
        near = found._nearest_others(points.take(sample), sample, k, threads)
        by_option = found._ndcg_by_power(sample, *near, threads)
        options = [Option(f"{each:g}", each) for each in by_option]
        by_power = choose(options, by_option.__getitem__, rules.best)
        scores = {"points": before, "centroids": by_option[by_power.value]}
        decision = choose([Option(name, name) for name in scores], scores.__getitem__, rules.better)
        decisions = decisions | {"centroids": decision}
        if decision.value == "points":
            return self, decisions
        return replace(found, power=by_power.value), decisions | {"power": by_power}

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
            query, size = (points.indptr, points.indices, values), (self.index.width, self.max_comparisons)
            kernels.nearest_points(*query, *_arrays(self.index), *size, near, products, threads)
        return near, products

    def vote_weights(self, points: Rows, k: int, threads: int) -> Rows:
        """Compute the weights of the k nearest neighbors of each point; they sum to one.

        The weights are zero if a point shares no feature with any training point.
        """
        return self._vote_weights(*self.nearest(points, k, threads), self.power)

    def shares(self, weights: Rows, labels: I32, threads: int) -> F32:
        """Compute the neighbors' share of the vote for the candidate `labels` of each point, (n, c)."""
        shares = np.empty(labels.shape, np.float32)
        kernels.neighbor_votes(*_arrays(weights), *_arrays(self.labels), self.labels.width, labels, shares, threads)
        return shares

    def propose(self, weights: Rows, n: int, threads: int) -> tuple[I32, F32]:
        """Find the n labels with the largest shares of the vote for each point, (n_points, n), labels ascending.

        Labels with a share of 0 fill up rows with fewer than n labels.
        """
        found, shares = np.empty((len(weights), n), np.int32), np.empty((len(weights), n), np.float32)
        others = np.arange(n, dtype=np.int32)
        kernels.shortlist(*_arrays(weights), *_arrays(self.labels), self._no_bias, others, found, shares, threads)
        return found, shares

    def leave_one_out_weights(self, points: RowSource, sample: I64, k: int, threads: int) -> Rows:
        """Compute `vote_weights` for a sample of the training points, each without itself."""
        return self._vote_weights(*self._nearest_others(points.take(sample), sample, k, threads), self.power)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields without the cached properties and what is not saved."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("rules", "centroids")}

    @cached_property
    def _no_bias(self) -> F32:
        """Return zero biases for `shortlist`; cached, since allocating them takes longer than a query."""
        return np.zeros(self.labels.width, np.float32)

    @cached_property
    def _side_by_side(self) -> SideBySide | None:
        """Return the dense matrix of the training points; None if they are sparse."""
        ids = dense_ids(self.index, max_cells=self.rules.max_cells * (2 if self.n_centroids else 1))
        return None if ids is None else SideBySide(self.index, ids)

    @property
    def _powers(self) -> tuple[float, ...]:
        """Return the options of `power`."""
        dense = () if self._side_by_side is None else self.rules.dense_powers
        return self.rules.powers + dense + (self.rules.centroid_powers if self.n_centroids else ())

    def _ndcg_by_power(self, sample: I64, near: I32, products: F32, threads: int, n_ranks: int = 5) -> dict[float, F64]:
        """Return the nDCG of the neighbors' vote on each point of `sample` for each power."""
        truth, n_ranks = as_matrix(self.labels.take(sample)), min(n_ranks, self.labels.width)
        found = {}
        for power in self._powers:
            labels, shares = self.propose(self._vote_weights(near, products, power), n_ranks, threads)
            found[power] = find_hits(truth, best_first(shares, n_ranks, labels)[0], n_ranks).ndcg_of_points(n_ranks)
        return found

    def _nearest_others(self, queries: Rows, sample: I64, k: int, threads: int) -> tuple[I32, F32]:
        """Find the nearest neighbors of a sample of the training points, each excluded from its own neighbors."""
        near, products = self.nearest(queries, k + 1 + (k if self.n_centroids else 0), threads)
        products[near == sample[:, None]] = 0
        if self.centroids is not None:
            about = self.labels.take(sample), near, products, self.weights, _largest_values(queries), self.n_points
            self.centroids.leave_one_out(queries, *about)
            products, near = best_first(products, k + 1, products, near)
        return near, products

    def _vote_weights(self, near: I32, products: F32, power: float) -> Rows:
        tiny = np.finfo(np.float32).tiny
        weights = products / np.maximum(products.max(axis=1, keepdims=True), tiny)
        weights **= np.float32(power)
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), tiny)
        indptr = np.arange(len(near) + 1) * near.shape[1]
        return Rows(indptr, near.reshape(-1), weights.reshape(-1), len(self.labels))


def transpose_points(scratch: Scratch) -> None:
    """Keep the points of each feature."""
    put_rows(scratch, "by-feature", transpose(get_rows(scratch, "points")))


def measure_rarity(
    scratch: Scratch, rarity: float, k: int, threads: int, rules: NeighborRules
) -> tuple[tuple[I32, F32], F64]:
    """Return the neighbors of the first points of the sample, and the nDCG of their vote by its best power."""
    found, start = _with_rarity(scratch, rarity, rules), scratch.get("start")[0]
    near = found._nearest_others(get_rows(scratch, "start-points"), start, k, threads)
    return near, max(found._ndcg_by_power(start, *near, threads).values(), key=np.mean)


def index_points(
    scratch: Scratch, rarity: float, k: int, threads: int, rules: NeighborRules, near: tuple[I32, F32]
) -> dict[float, F64]:
    """Keep the index with a rarity; return the nDCG of the sample by power, given what `measure_rarity` found."""
    found, rest = _with_rarity(scratch, rarity, rules), scratch.get("rest")[0]
    put_rows(scratch, "index", found.index)
    scratch.put("weights", found.weights)
    other = found._nearest_others(get_rows(scratch, "rest-points"), rest, k, threads)
    ids, products = (np.concatenate(both) for both in zip(near, other, strict=True))
    return found._ndcg_by_power(np.concatenate((scratch.get("start")[0], rest)), ids, products, threads)


def _with_rarity(scratch: Scratch, rarity: float, rules: NeighborRules) -> Neighbors:
    points, by_feature, labels = (get_rows(scratch, name) for name in ("points", "by-feature", "labels"))
    index, weights = _weigh_features(points, by_feature, rarity, rules)
    return Neighbors(index, labels, weights, rarity, rules.powers[0], rules)


def _arrays(rows: Rows) -> tuple[I64, I32, F32]:
    return rows.indptr, rows.indices, rows.data


def _weigh_features(points: Rows, by_feature: Rows, rarity: float, rules: NeighborRules = RULES) -> tuple[Rows, F32]:
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
    if dense_ids(index, max_cells=rules.max_cells) is None:
        index = index.strongest(rules.max_points, np.abs(data))
    return index, weights


def _point_lengths(points: Rows, weights: F32) -> F64:
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
