"""A model's answers on held-out rows, and their accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array, vstack

from sparsenet.core.ranked import is_hit, precisions
from sparsenet.core.rows import Rows
from sparsenet.engines.table.members import Member
from sparsenet.engines.table.table_points import TablePoints
from sparsenet.kernels.types import F64, I32, Bools
from sparsenet.metrics.ranking import RANKS


@dataclass(frozen=True, eq=False)
class HeldAnswers:
    """The probabilities of the best labels of each point, (n, n_labels), and these labels, best first."""

    p: csr_array
    ranked: I32

    @classmethod
    def of(cls, member: Member, points: TablePoints, threads: int, *, most: int = 64) -> HeldAnswers:
        """Answer points by a model that was trained without them; keep the `most` best labels of each."""
        labels, p = member.best(points, min(most, member.n_labels), threads)
        indptr = np.arange(len(labels) + 1, dtype=np.int64) * labels.shape[1]
        p64 = p.reshape(-1).astype(np.float64)
        return cls(csr_array((p64, labels.reshape(-1), indptr), (len(p), member.n_labels)), labels)

    @classmethod
    def stacked(cls, parts: list[HeldAnswers]) -> HeldAnswers:
        """Return the answers of all parts of the hold-out, one after the other."""
        return cls(vstack([part.p for part in parts], format="csr"), np.concatenate([part.ranked for part in parts]))

    def mean(self, other: HeldAnswers) -> HeldAnswers:
        """Return the mean of two models' probabilities, and the best label."""
        p = csr_array((self.p + other.p) / 2)
        return HeldAnswers(p, np.asarray(p.argmax(axis=1), np.int32).reshape(-1, 1))

    def hits(self, truth: Rows) -> Bools:
        """Return whether the best label of each point is a true one."""
        return is_hit(self.ranked[:, 0], truth)

    def exclusive_score(self, truth: Rows) -> F64:
        """Return each point's mean of its accuracy and its Brier score from 0 to 1, for one label each.

        Accuracy alone jumps by whole points, and few held-out points would decide nothing.
        """
        right = np.asarray(self.p[np.arange(len(truth)), truth.indices]).reshape(-1)
        squares = np.asarray(self.p.multiply(self.p).sum(axis=1)).reshape(-1)
        return np.asarray((self.hits(truth) + (1 + 2 * right - squares) / 2) / 2)

    def shared_score(self, truth: Rows, ranks: Sequence[int] = RANKS) -> F64:
        """Return each point's mean precision at `ranks`, for several labels each."""
        first = self.ranked[:, : max(ranks)]
        return np.asarray(precisions(is_hit(first, truth), ranks).mean(axis=1))
