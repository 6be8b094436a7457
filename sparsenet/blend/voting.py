"""How a network and a tree decide together: the tree names labels, and both have a vote on each of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsenet.batches import Rows
from sparsenet.estimators import ExtremeClassifier
from sparsenet.estimators.inference import log_probabilities
from sparsenet.tree import TreeClassifier

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
#: From a vote to the logit of a probability: between the curves that fit held-out points of six unlike data sets best.
#: Where points have a dozen labels or more, it says too much (bench/README.md).
SLOPE, SHIFT = np.float32(0.75), np.float32(1.75)
#: The beam in which labels are named is so many times that in which the tree was trained: the third to fifth label of a
#: point often hangs where the tree alone would not look.
WIDER = 2
#: The vote for a label that nothing speaks against, which leaves room for error, and for one that no point had.
CERTAIN, UNHEARD_OF = np.float32(-1e-6), np.float32(-1e6)


def vote(
    network: ExtremeClassifier, tree: TreeClassifier, points: Rows, n: int, threads: int, weight: float = 1.0
) -> tuple[I32, F32]:
    """Return the n labels that the tree puts first for each point, (n_points, n), in the order of their votes.

    A tree's logarithms of probabilities are sums of cubes, which count what is unlikely as next to impossible. Their
    roots are on the scale of the network's: so added, neither drowns the other. `weight` is what the tree's vote counts
    beside the network's.
    """
    labels, from_tree = tree._ranked(points, n, WIDER * tree._beam(), threads)
    votes = log_probabilities(network.network_, points, labels, threads)
    votes -= np.float32(weight) * np.sqrt(np.minimum(-from_tree, -UNHEARD_OF))
    votes[np.isneginf(from_tree)] = UNHEARD_OF
    np.clip(votes, UNHEARD_OF, CERTAIN, out=votes)
    order = np.argsort(-votes, axis=1, kind="stable")
    return np.take_along_axis(labels, order, axis=1), np.take_along_axis(votes, order, axis=1)


def logits(votes: F32, slope: np.float32 = SLOPE, shift: np.float32 = SHIFT) -> F32:
    """Return the logits of the probabilities of labels with such votes: a straight line, but up to certainty."""
    slopes = slope * votes
    return np.asarray(shift + slopes - np.log(-np.expm1(slopes)))
