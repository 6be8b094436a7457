"""Training points that none of the parts of a blend has learnt: what it says of these tells what it is worth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.engines.blend.voting import curve_of, logits, vote
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.kernels.types import F32, I32, I64


@dataclass(frozen=True, eq=False)
class Unlearnt:
    """Points and their labels, and who votes on them.

    Neither the network nor the `judge`, which stands for the tree of the blend, has learnt these; their `voters` are
    their k nearest others among the training points.
    """

    network: ExtremeClassifier | None
    judge: TreeClassifier
    neighbors: Neighbors
    points: Rows
    labels: Rows
    voters: Rows
    k: int
    weight: float
    threads: int

    @classmethod
    def of(
        cls,
        network: ExtremeClassifier | None,
        judge: TreeClassifier,
        neighbors: Neighbors,
        points: Rows,
        labels: Rows,
        kept: I64,
        *,
        k: int,
        weight: float,
        threads: int,
    ) -> Self:
        """Take the points `kept` out of all, and look for their neighbours; `weight` is that of the tree's vote."""
        voters = neighbors.voters_of_others(points, kept, k, threads)
        return cls(network, judge, neighbors, points.take(kept), labels.take(kept), voters, k, weight, threads)

    def __len__(self) -> int:
        return len(self.points)

    def every(self, step: int) -> Self:
        """Return every so manieth of the points."""
        own = np.arange(0, len(self), step)
        points, labels, voters = (rows.take(own) for rows in (self.points, self.labels, self.voters))
        return replace(self, points=points, labels=labels, voters=voters)

    def vote(self, n: int) -> tuple[I32, F32]:
        """Return the n labels of each point that come into question, best first, and their votes."""
        among: dict[str, Any] = {"neighbors": self.neighbors, "k": self.k, "voters": self.voters, "weight": self.weight}
        return vote(self.network, self.judge, self.points, n, self.threads, **among)

    def logits(self, votes: F32) -> F32:
        """Return the logits that votes have by the usual curve."""
        return logits(votes, curve_of(self.network, self.judge, self.neighbors, self.weight))
