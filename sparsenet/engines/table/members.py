"""The kinds of models of a table behind one interface: probabilities of all labels, or of the best ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sparsenet.core.ranked import best_first
from sparsenet.engines.blend.fit_blend import BlendOptions
from sparsenet.engines.blend.fitted_blend import FittedBlend
from sparsenet.engines.boosting.fit_boosting import FittedBoosting
from sparsenet.engines.network import inference
from sparsenet.engines.network.fit_network import FittedNetwork
from sparsenet.engines.table.logistic import FittedLogistic
from sparsenet.engines.table.table_points import TablePoints
from sparsenet.engines.tree.fit_tree import FittedTree
from sparsenet.engines.tree.machines import Rules
from sparsenet.kernels.types import F32, I32


class Member(ABC):
    """A fitted model of a table."""

    kind: ClassVar[str]

    @abstractmethod
    def dense(self, points: TablePoints, threads: int) -> F32:
        """Return the probability of each label, (n, n_labels), for a block of points."""

    @property
    @abstractmethod
    def n_labels(self) -> int:
        """Number of labels."""

    @property
    def needs_rows(self) -> bool:
        """Whether the model reads the sparse features."""
        return True

    @property
    def needs_matrix(self) -> bool:
        """Whether the model reads the matrix."""
        return False

    def blocks(self, points: TablePoints, *, max_cells: int = 1 << 22) -> Iterator[TablePoints]:
        """Yield blocks of points with at most `max_cells` probabilities, which fit into memory."""
        yield from points.blocks(max(1, max_cells // self.n_labels))

    def probabilities(self, points: TablePoints, threads: int) -> F32:
        """Return the probability of each label, (n, n_labels)."""
        found = [np.empty((0, self.n_labels), np.float32)]
        return np.concatenate(found + [self.dense(block, threads) for block in self.blocks(points)])

    def best(self, points: TablePoints, k: int, threads: int, n_dropped: int = 0) -> tuple[I32, F32]:
        """Return the k best labels of each point and their probabilities, (n, k) each, best first."""
        labels, values = [np.empty((0, k), np.int32)], [np.empty((0, k), np.float32)]
        for block in self.blocks(points):
            p = self.dense(block, threads)
            every = np.broadcast_to(np.arange(self.n_labels, dtype=np.int32), p.shape)
            own, likely = best_first(p, k, every, p)
            labels.append(own)
            values.append(likely)
        return np.concatenate(labels), np.concatenate(values)

    def best_of(self, points: TablePoints, labels: I32, k: int, threads: int) -> tuple[I32, F32]:
        """Return the k best of some labels for each point and their probabilities, (n, k) each, best first."""
        found, values = [np.empty((0, k), np.int32)], [np.empty((0, k), np.float32)]
        for block in self.blocks(points):
            p = self.dense(block, threads)[:, labels]
            own, likely = best_first(p, k, np.broadcast_to(labels, p.shape), p)
            found.append(own)
            values.append(likely)
        return np.concatenate(found), np.concatenate(values)


@dataclass(frozen=True, eq=False)
class LinearMember(Member):
    """Softmax regression."""

    kind = "linear"
    model: FittedLogistic

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.model.bias)

    def dense(self, points: TablePoints, threads: int) -> F32:
        """Return the probability of each label."""
        return self.model.probabilities(points.rows)


@dataclass(frozen=True, eq=False)
class BoostingMember(Member):
    """Boosted trees."""

    kind = "boosting"
    model: FittedBoosting

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.model.n_labels

    @property
    def needs_rows(self) -> bool:
        """Boosting reads the matrix alone."""
        return False

    @property
    def needs_matrix(self) -> bool:
        """Boosting reads the matrix."""
        return True

    def dense(self, points: TablePoints, threads: int) -> F32:
        """Return the probability of each label."""
        return self.model.probabilities(points.matrix).astype(np.float32)


@dataclass(frozen=True, eq=False)
class MemberOfRows(Member):
    """A model of sparse points, which knows its labels; `exclusive`: probabilities of a row sum to one."""

    model: FittedTree | FittedNetwork | FittedBlend
    exclusive: bool
    n_features: int

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.model.target.classes)


@dataclass(frozen=True, eq=False)
class TreeMember(MemberOfRows):
    """A tree of linear machines."""

    kind = "tree"
    model: FittedTree

    def dense(self, points: TablePoints, threads: int) -> F32:
        """Return the probability of each label; 0 for labels that the beam does not reach."""
        found = np.zeros((len(points), self.n_labels), np.float32)
        for at, labels, logits in self.model.all_logits(points.rows, beam=Rules.wrong_ways, threads=threads):
            p = np.where(labels < 0, np.float32(0), 1 / (1 + np.exp(-np.clip(logits, -30, 30), dtype=np.float32)))
            if self.exclusive:
                p /= p.sum(axis=1, keepdims=True)
            np.add.at(found, (at[:, None], np.maximum(labels, 0)), p)
        return found


@dataclass(frozen=True, eq=False)
class NetworkMember(MemberOfRows):
    """A network with a wide path."""

    kind = "network"
    model: FittedNetwork

    def dense(self, points: TablePoints, threads: int) -> F32:
        """Return the probability of each label."""
        scores = inference.dense_scores(self.model.network, points.rows, threads)
        return inference.dense_probabilities(self.model.network, scores, exclusive=self.exclusive)


@dataclass(frozen=True, eq=False)
class BlendMember(MemberOfRows):
    """A blend of tree, network and neighbors, whose candidates have the probabilities."""

    kind = "blend"
    model: FittedBlend

    def dense(self, points: TablePoints, threads: int) -> F32:
        """Return the probability of each label; 0 for labels that are not candidates."""
        found = np.zeros((len(points), self.n_labels), np.float32)
        labels, p = self.best(points, self._n_candidates(1), threads)
        np.put_along_axis(found, labels.astype(np.int64), p, 1)
        return found

    def best(self, points: TablePoints, k: int, threads: int, n_dropped: int = 0) -> tuple[I32, F32]:
        """Return the k best labels of each point and their probabilities, without scoring all labels."""
        labels, p = np.empty((len(points), k), np.int32), np.empty((len(points), k), np.float32)
        neighbors = self.model.neighbors
        n_neighbors = 0 if neighbors is None else min(BlendOptions.n_neighbors, len(neighbors.labels))
        combination, counts = self.model.combining(n_neighbors), self.model.seen.label_counts
        ranked = self.model.rank(
            points.rows,
            self._n_candidates(k),
            k=n_neighbors,
            beam=Rules.wrong_ways,
            threads=threads,
            n_dropped=n_dropped,
        )
        for own, found, scores in ranked:
            labels[own] = found[:, :k]
            if self.exclusive:
                p[own] = combination.exclusive_probabilities(scores)[:, :k]
            else:
                p[own] = combination.probabilities(scores[:, :k], counts[labels[own]])
        return labels, p

    def _n_candidates(self, k: int) -> int:
        return min(max(self.model.candidates, k), self.n_labels)


@dataclass(frozen=True, eq=False)
class AverageMember(Member):
    """The mean of the probabilities of two models."""

    kind = "average"
    models: tuple[Member, Member]

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.models[0].n_labels

    @property
    def needs_rows(self) -> bool:
        """Whether one of the models reads the sparse features."""
        return any(model.needs_rows for model in self.models)

    @property
    def needs_matrix(self) -> bool:
        """Whether one of the models reads the matrix."""
        return any(model.needs_matrix for model in self.models)

    def dense(self, points: TablePoints, threads: int) -> F32:
        """Return the mean probability of each label."""
        first, second = (model.dense(points, threads) for model in self.models)
        return (first + second) / np.float32(2)
