"""How much the votes of neighbours and tree count: measured on points that a tree has not learnt.

How good their answers are differs more from data to data than how good the others' are, and what is best goes by it:
where they had their best label right at odds of half to 0.7 of the tree's, a tenth to a third of their usual vote was
better, and where at the tree's odds or higher ones, twice as much (bench/notes/blends.md).
"""

from __future__ import annotations

import math

import numpy as np
from sklearn.base import clone

from sparsenet.core.ranked import is_hit
from sparsenet.core.rows import Rows, as_matrix
from sparsenet.core.seeds import run_seed
from sparsenet.engines.blend.voting import named_by
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.network.network_holdout import n_for_trial
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.kernels.types import I32, I64
from sparsenet.selection.holdout import split

#: One point of so many is measured on, at most MOST of them, and the tree goes without it, where that makes FEWEST.
EVERY, FEWEST, MOST = 64, 1024, 2048
#: Of fewer points that many would be missed: there a tree of its own learns all but a tenth. Where that is fewer than
#: these, nothing is measured.
SHARE_APART, FEWEST_APART = 10, 512
#: Neighbours whose odds of being right have a logarithm that is higher than the tree's by so much have their usual
#: vote, and by so much more, twice that, within limits. What is usual is believed as firmly as so many points can tell.
AS_USUAL, TWICE_AS_MUCH, LEAST, UTMOST = -0.1, 0.16, 1 / 16, 2.0
FIRMNESS = 300
#: A tree whose errors cost more than usual counts twice as much for each so much that the logarithm of its odds is
#: above the network's, up to a limit. Where some points can tell, the limit is what is believed before, as firmly as
#: above: where none can, it counts as usual.
#: Other trees' votes stay: where features are what is sought, as in what users have seen, such points say the tree is
#: better where it is not (bench/notes/blends.md, Where labels are consistent).
TREE_TWICE_AS_MUCH, UTMOST_OF_TREE = 0.06, 4.0


def judged_by(tree: TreeClassifier, points: Rows, labels: Rows, seed: int) -> tuple[I64, TreeClassifier]:
    """Return points to measure on, if there are enough, and a tree that has not learnt them.

    That is the tree itself if it has gone without what `kept_from_tree` says.
    """
    kept = kept_from_tree(labels, seed)
    if len(kept) > 0:
        return kept, tree
    kept = kept_apart(labels, seed)
    return kept, fit_without(clone(tree).set_params(verbose=False), points, labels, kept) if len(kept) > 0 else tree


def kept_from_tree(labels: Rows, seed: int) -> I64:
    """Choose points to measure on without which the tree is trained, ascending; of few points none."""
    return _drawn(labels, len(labels) // EVERY, FEWEST, seed)


def kept_apart(labels: Rows, seed: int) -> I64:
    """Choose points to measure on where the tree learns all, ascending; of very few points none."""
    return _drawn(labels, len(labels) // SHARE_APART, FEWEST_APART, seed)


def kept_from_all(network: ExtremeClassifier | None, labels: Rows, seed: int) -> I64:
    """Return the points that neither the tree that judges nor the network, if there is one, has learnt, ascending."""
    n = len(kept_from_tree(labels, seed)) or len(kept_apart(labels, seed))
    if network is not None:
        settings = network._settings()
        n = min(n, 0 if settings.validation_fraction else n_for_trial(settings, len(labels), labels.width))
    return _first_drawn(len(labels), n, seed)


def _drawn(labels: Rows, n: int, fewest: int, seed: int) -> I64:
    """Choose n points, or none where these are too few, or no label would be left to train on."""
    kept = _first_drawn(len(labels), min(n, MOST) if n >= fewest else 0, seed)
    has_label = np.diff(labels.indptr) > 0
    return kept if np.count_nonzero(has_label[kept]) < np.count_nonzero(has_label) else kept[:0]


def _first_drawn(n_points: int, n: int, seed: int) -> I64:
    """Draw points as the network does that has this seed: of any two such draws one is part of the other."""
    return split(n_points, n, run_seed(seed))[1]


def fit_without(tree: TreeClassifier, points: Rows, labels: Rows, kept: I64) -> TreeClassifier:
    """Train a tree on all points but these: without their labels they would be examples of what has none."""
    if len(kept) > 0:
        rest = np.delete(np.arange(len(points)), kept)
        points, labels = points.take(rest), labels.take(rest)
    return tree.fit(as_matrix(points), as_matrix(labels))


def measured(
    neighbors: Neighbors, tree: TreeClassifier, points: Rows, labels: Rows, kept: I64, *, k: int, threads: int
) -> float:
    """Return by what the vote of the k nearest is multiplied, 1 where no points were kept from the tree."""
    truth = labels.take(kept)
    n = int(np.count_nonzero(np.diff(truth.indptr)))
    if n == 0:
        return 1.0
    by_tree = named_by(tree, points.take(kept), 1, threads)[0][:, 0]
    ahead = _log_odds(neighbors.best_by_others(points, kept, k, threads), truth, n) - _log_odds(by_tree, truth, n)
    ahead = (n * ahead + FIRMNESS * AS_USUAL) / (n + FIRMNESS)
    return float(np.clip(2.0 ** ((ahead - AS_USUAL) / TWICE_AS_MUCH), LEAST, UTMOST))


def on_equal_terms(
    network: ExtremeClassifier, tree: TreeClassifier, judge: TreeClassifier, points: Rows, labels: Rows, seed: int
) -> TreeClassifier:
    """Return a judge that has learnt all but what the network has not learnt either: this one, if it is the tree.

    One that went without a tenth of the points is a point of P@1 behind where labels have few of them. Where there is
    nothing that the network has not learnt, it judges no network.
    """
    kept = kept_from_all(network, labels, seed)
    if judge is tree or len(kept) == 0:
        return judge
    alike = clone(tree).set_params(verbose=False)
    alike._usual_cost = tree.cost_  # left open as the tree's is, which tells by which curve it says how sure it is
    return fit_without(alike, points, labels, kept)


def of_tree(
    network: ExtremeClassifier, judge: TreeClassifier, points: Rows, labels: Rows, *, seed: int, threads: int
) -> float:
    """Return by what a tree's vote is multiplied beside a network, 1 where there is nothing that tells.

    The judge has not learnt what is kept apart or from the tree, and the network not what it kept for its own trial.
    """
    kept = kept_from_all(network, labels, seed)
    truth = labels.take(kept)
    n = int(np.count_nonzero(np.diff(truth.indptr)))
    if n == 0:
        return 1.0
    by_tree = named_by(judge, points.take(kept), 1, threads)[0][:, 0]
    by_network = network.network_.topk(points.take(kept), 1, threads)[0][:, 0]
    ahead = _log_odds(by_tree, truth, n) - _log_odds(by_network, truth, n)
    believed = TREE_TWICE_AS_MUCH * math.log2(UTMOST_OF_TREE)
    ahead = (n * ahead + FIRMNESS * believed) / (n + FIRMNESS)
    return float(np.clip(2.0 ** (ahead / TREE_TWICE_AS_MUCH), 1.0, UTMOST_OF_TREE))


def _log_odds(best: I32, truth: Rows, n: int) -> float:
    """Return the logarithm of the odds of being right, as if half a point more were right and half a one wrong."""
    right = int(is_hit(best, truth).sum())
    return math.log((right + 0.5) / (n - right + 0.5))
