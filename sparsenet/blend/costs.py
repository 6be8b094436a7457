"""What an error costs the tree of a blend: more where a tree for which it does is right more often.

Where labels are consistent, such as the source of a package of software by its description, few training points
contradict each other, and machines that fit them closely are better by a point of P@1. Where labels are noisy they are
worse by several (bench/notes/blends.md, Where labels are consistent).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from sparsenet.batches import Rows, is_hit
from sparsenet.blend.trust import fit_without
from sparsenet.blend.voting import WIDER
from sparsenet.tree import TreeClassifier

I64 = NDArray[np.int64]
#: Costs that are tried after the usual one, each if the one before was better.
DEARER = (2.0, 4.0)


def is_open(tree: TreeClassifier) -> bool:
    """Tell whether what an error costs is left to be found."""
    return isinstance(tree.cost, str)


def costing(tree: TreeClassifier, cost: float) -> TreeClassifier:
    """Return an untrained tree like this one, for which an error costs so much if that is left open."""
    other: TreeClassifier = clone(tree)
    other._usual_cost = cost
    return other


def best(judge: TreeClassifier, points: Rows, labels: Rows, kept: I64, threads: int) -> TreeClassifier:
    """Return the tree that answers the points kept from it best: this one, or one for which errors cost more.

    The first of these has to be right more often by more than the standard error of the difference.
    """
    right = _right(judge, points, labels, kept, threads)
    for cost in DEARER:
        other = fit_without(costing(judge, cost), points, labels, kept)
        found = _right(other, points, labels, kept, threads)
        gain, is_first = np.count_nonzero(found) - np.count_nonzero(right), cost == DEARER[0]
        if gain <= 0 or (is_first and gain**2 <= np.count_nonzero(found != right)):
            break
        judge, right = other, found
    return judge


def _right(tree: TreeClassifier, points: Rows, labels: Rows, kept: I64, threads: int) -> NDArray[np.bool_]:
    best_labels = tree._ranked(points.take(kept), 1, WIDER * tree._beam(), threads)[0][:, 0]
    return is_hit(best_labels, labels.take(kept))
