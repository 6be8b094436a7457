"""What an error costs the tree of a blend: more where a tree for which it does answers better.

Where labels are consistent, such as the source of a package of software by its description, few training points
contradict each other, and machines that fit them closely are better by a point of P@1. Where labels are noisy they are
worse by several (bench/notes/blends.md, Where labels are consistent).
"""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from sparsenet.core.ranked import share_right
from sparsenet.core.rows import Rows
from sparsenet.engines.blend.trust import fit_without
from sparsenet.engines.blend.voting import named_by
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.kernels.types import F64, I64

#: Costs that are tried after the usual one, each if the one before was better.
DEARER = (2.0, 4.0)
#: As many labels of each point are looked at as it has, up to so many. To look at more, as nDCG does, found nothing on
#: half of the sets whose first label gains: what is not found any more is further down than what is.
RANKS = 5


def costing(tree: TreeClassifier, cost: float) -> TreeClassifier:
    """Return a tree like this one, for the points that it was trained on, if any; if open an error costs so much."""
    other: TreeClassifier = clone(tree)
    other._usual_cost = cost
    if tree.__sklearn_is_fitted__():
        other._grown = tree._fitted.shape  # which does not go by it, and is a quarter of the work
    return other


def best(judge: TreeClassifier, points: Rows, labels: Rows, kept: I64, threads: int) -> TreeClassifier:
    """Return the tree that answers the points kept from it best: this one, or one for which errors cost more.

    The first of these has to be better by more than the standard error of the difference.
    """
    answered = _answered(judge, points, labels, kept, threads)
    for cost in DEARER:
        other = fit_without(costing(judge, cost), points, labels, kept)
        by_other = _answered(other, points, labels, kept, threads)
        gains, is_first = by_other - answered, cost == DEARER[0]
        if gains.sum() <= 0 or (is_first and gains.sum() ** 2 <= np.square(gains).sum()):
            break
        judge, answered = other, by_other
    return judge


def _answered(tree: TreeClassifier, points: Rows, labels: Rows, kept: I64, threads: int) -> F64:
    """Return which share of as many labels of each point as it has, its best ones, are right."""
    return share_right(named_by(tree, points.take(kept), min(RANKS, labels.width), threads)[0], labels.take(kept))
