"""Measure predictions of links against random and historical negatives, and against all targets."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sparsenet.kernels.types import F32, F64, I32, I64
from sparsenet.temporal.graph.graph_arrays import GraphArrays
from sparsenet.temporal.rank_measures import MISS, rank_measures


def random_negatives(targets: I32, known: I32, rng: np.random.Generator) -> I32:
    """Draw, for each link, another of the known targets, which ascend; the target itself if there is no other."""
    drawn = rng.integers(0, max(len(known) - 1, 1), len(targets))
    drawn += (drawn >= np.searchsorted(known, targets)) & (len(known) > 1)
    return known[drawn]


def historical_negatives(graph: GraphArrays, sources: I32, targets: I32, others: I32, rng: np.random.Generator) -> I32:
    """Draw, for each link, another target among the last links of the source; `others` where there is none."""
    neighbors = graph.neighbors[sources]
    possible = (neighbors >= 0) & (neighbors != targets[:, None])
    chosen = np.argmax(np.where(possible, rng.random(neighbors.shape), -1), axis=1)
    found = neighbors[np.arange(len(sources)), chosen]
    return np.where(possible.any(axis=1), found, others)


@dataclass
class LinkScores:
    """Logits of links and of their negatives, and ranks of right targets, collected from batches."""

    right: list[F32] = field(default_factory=list)
    random: list[F32] = field(default_factory=list)
    historical: list[F32] = field(default_factory=list)
    ranks: list[F64] = field(default_factory=list)

    def add_ranks(self, logits: F32, places: I64) -> None:
        """Add the rank of the target in column `places` for each link (row); ties count as the mean rank.

        Targets without a column are not yet known: a miss.
        """
        n = logits.shape[1]
        ranks, rows = np.full(len(places), float(MISS)), np.flatnonzero(places < n)
        right = logits[rows, places[rows]][:, None]
        ranks[rows] = 1 + (logits[rows] > right).sum(axis=1) + ((logits[rows] == right).sum(axis=1) - 1) / 2
        self.ranks.append(ranks)

    def measures(self) -> dict[str, float]:
        """Return average precision and AUC for both kinds of negatives, and what `ranks` give."""
        from sklearn.metrics import average_precision_score, roc_auc_score

        found, right = {}, np.concatenate(self.right)
        for suffix, negatives in (("", self.random), (" historical", self.historical)):
            scores = np.concatenate((right, *negatives))
            labels = np.arange(len(scores)) < len(right)
            found[f"AP{suffix}"] = float(average_precision_score(labels, scores))
            found[f"AUC{suffix}"] = float(roc_auc_score(labels, scores))
        if self.ranks:
            found |= rank_measures(np.concatenate(self.ranks))
        return found
