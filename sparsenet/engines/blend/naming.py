"""How many labels come into question for a point: measured on training points that none of the parts has learnt.

Where a network knows far more than the tree, as of names that are told by their characters, what it would put first is
often not among the 32 labels that the tree names. Elsewhere four times as many change nothing, and take half as long
again to answer by.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.ranked import is_hit
from sparsenet.engines.blend.unlearnt import Unlearnt

#: As many labels as a tree names, and as many as it names where that is better.
FEW, MANY = 32, 128
#: Better is what has more labels right among the best so many, by so much in the mean and so many standard errors.
RANKS, BY, STANDARD_ERRORS = (1, 3, 5), 0.001, 2.0


def measured(unlearnt: Unlearnt) -> int:
    """Return how many labels are to be named, by what has more right on points that no part has learnt."""
    if unlearnt.network is None or len(unlearnt) < 2 or unlearnt.labels.width <= FEW:
        return FEW

    def precisions(n: int) -> NDArray[np.float64]:
        named, _ = unlearnt.vote(n)
        right = is_hit(named[:, : max(RANKS)], unlearnt.labels)
        return np.asarray(np.mean([right[:, :rank].mean(axis=1) for rank in RANKS], axis=0))

    gains = precisions(min(MANY, unlearnt.labels.width)) - precisions(FEW)
    is_better = gains.mean() > max(BY, STANDARD_ERRORS * gains.std() / math.sqrt(len(gains)))
    return MANY if is_better else FEW
