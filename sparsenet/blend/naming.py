"""How many labels come into question for a point: measured on training points that none of the parts has learnt.

Where a network knows far more than the tree, as of names that are told by their characters, what it would put first is
often not among the 32 labels that the tree names. Elsewhere four times as many change nothing, and take half as long
again to answer by.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sparsenet.batches import Rows, is_hit
from sparsenet.blend.neighbors import Neighbors
from sparsenet.blend.voting import vote
from sparsenet.estimators import ExtremeClassifier
from sparsenet.tree import TreeClassifier

I64 = NDArray[np.int64]
#: As many labels as a tree names, and as many as it names where that is better.
FEW, MANY = 32, 128
#: Better is what has more labels right among the best so many, by so much in the mean and so many standard errors.
RANKS, BY, STANDARD_ERRORS = (1, 3, 5), 0.001, 2.0


def measured(
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
) -> int:
    """Return how many labels are to be named, by what has more right on the points kept.

    Neither the network nor the `judge`, which stands for the tree of the blend, has learnt these; their neighbours are
    their k nearest others.
    """
    if network is None or len(kept) < 2 or labels.width <= FEW:
        return FEW
    asked, truth = points.take(kept), labels.take(kept)
    voters = neighbors.voters_of_others(points, kept, k, threads)

    def precisions(n: int) -> NDArray[np.float64]:
        parts = network, judge, asked
        named, _ = vote(*parts, n, threads, neighbors=neighbors, k=k, voters=voters, weight=weight)
        right = is_hit(named[:, : max(RANKS)], truth)
        return np.asarray(np.mean([right[:, :rank].mean(axis=1) for rank in RANKS], axis=0))

    gains = precisions(min(MANY, labels.width)) - precisions(FEW)
    is_better = gains.mean() > max(BY, STANDARD_ERRORS * gains.std() / math.sqrt(len(gains)))
    return MANY if is_better else FEW
