"""Measure predictions of links against random and historical negatives, and against all targets."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sparsenet.kernels.types import F32, F64, I32
from sparsenet.temporal.graph.graph_arrays import GraphArrays


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

    def add_ranks(self, logits: F32, right: F32, is_known: NDArray[np.bool_]) -> None:
        """Add the rank of each right target among all (links, targets); ties count as the mean rank.

        Targets that are not yet known rank last.
        """
        above = (logits > right[:, None]).sum(axis=1) + (np.maximum((logits == right[:, None]).sum(axis=1), 1) - 1) / 2
        self.ranks.append(np.where(is_known, above, logits.shape[1]) + 1.0)

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
            ranks = np.concatenate(self.ranks)
            found["MRR"] = float(np.mean(1 / ranks))
            found |= {f"recall@{k}": float(np.mean(ranks <= k)) for k in (1, 10)}
        return found
