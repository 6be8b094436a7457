"""How a network and a tree decide together: the tree names labels, and both have a vote on each of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sparsenet.batches import Rows
from sparsenet.estimators import ExtremeClassifier
from sparsenet.losses import BinaryCrossEntropy
from sparsenet.tree import TreeClassifier

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
#: From a vote to the logit of a probability. Fitted to held-out points, five of six unlike data sets came to slopes of
#: 0.7 to 0.9 and, but for one of noisy labels, to shifts of 1.3 to 2.5 (bench/README.md).
SLOPE, SHIFT = np.float32(0.8), np.float32(2)


def vote(
    network: ExtremeClassifier, tree: TreeClassifier, weight: float, points: Rows, n: int, threads: int
) -> tuple[I32, F32]:
    """Return the n labels that the tree puts first for each point, (n_points, n), in the order of their votes.

    A tree's logarithms of probabilities are sums of cubes, which count what is unlikely as next to impossible. Their
    roots are on the scale of the network's: so added, neither drowns the other.
    """
    labels, from_tree = tree._ranked(points, n, threads)
    votes = _log_probabilities(network, network.network_.scores_of(points, labels, threads))
    # In place of no probability at all, which labels of no training point have: they come last, weight or none.
    votes -= weight * np.sqrt(np.minimum(-from_tree, np.float32(1e6)))
    order = np.argsort(-votes, axis=1, kind="stable")
    return np.take_along_axis(labels, order, axis=1), np.take_along_axis(votes, order, axis=1)


def log_odds(votes: F32) -> F32:
    """Return the logits of the probabilities of labels with such votes."""
    return SLOPE * votes + SHIFT


def _log_probabilities(network: ExtremeClassifier, scores: F32) -> F32:
    """Return logarithms of the network's probabilities; under softmax, of shares among the labels that were named."""
    if isinstance(network.network_.output.loss, BinaryCrossEntropy):
        return -np.logaddexp(np.float32(0), -scores)
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
