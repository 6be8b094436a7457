"""What a model answers on held-out rows, and how good that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack

from sparsenet.core.ranked import is_hit, precisions
from sparsenet.core.rows import Rows
from sparsenet.engines.table.members import Member
from sparsenet.engines.table.table_points import TablePoints
from sparsenet.kernels.types import F64, Bools

#: Labels of each point that are kept.
MOST = 64


@dataclass(frozen=True, eq=False)
class HeldAnswers:
    """The probabilities of the best `MOST` labels of each held-out point, (n, n_labels)."""

    p: csr_array

    @classmethod
    def of(cls, member: Member, points: TablePoints, threads: int) -> HeldAnswers:
        """Answer points by a model that was trained without them."""
        labels, p = member.best(points, min(MOST, member.n_labels), threads)
        indptr = np.arange(len(labels) + 1, dtype=np.int64) * labels.shape[1]
        return cls(csr_array((p.reshape(-1).astype(np.float64), labels.reshape(-1), indptr), (len(p), member.n_labels)))

    @classmethod
    def stacked(cls, parts: list[HeldAnswers]) -> HeldAnswers:
        """Return the answers of all parts of the hold-out, one after the other."""
        return cls(vstack([part.p for part in parts], format="csr"))

    def mean(self, other: HeldAnswers) -> HeldAnswers:
        """Return the mean of two models' probabilities."""
        return HeldAnswers(csr_array((self.p + other.p) / 2))

    def hits(self, truth: Rows) -> Bools:
        """Return whether the best label of each point is its only true one."""
        right, largest = self._right(truth), self.p.max(axis=1).toarray().reshape(-1)
        return np.asarray((right > 0) & (right >= largest))

    def exclusive_score(self, truth: Rows) -> F64:
        """Return each point's mean of its accuracy and its Brier score from 0 to 1, for one label each.

        Accuracy alone jumps by whole points, and few held-out points would decide nothing.
        """
        squares = np.asarray(self.p.multiply(self.p).sum(axis=1)).reshape(-1)
        return np.asarray((self.hits(truth) + (1 + 2 * self._right(truth) - squares) / 2) / 2)

    def shared_score(self, truth: Rows, ranks: Sequence[int] = (1, 3, 5)) -> F64:
        """Return each point's mean precision at `ranks`, for several labels each."""
        k = min(max(ranks), self.p.shape[1])
        first = self.p.indices.reshape(self.p.shape[0], -1)[:, :k]  # best first
        return np.asarray(precisions(is_hit(first, truth), ranks).mean(axis=1))

    def _right(self, truth: Rows) -> F64:
        """Return the probability of each point's only true label."""
        return np.asarray(self.p[np.arange(len(truth)), truth.indices]).reshape(-1)
