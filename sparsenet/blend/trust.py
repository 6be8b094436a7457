"""How much the neighbours' vote counts beside network and tree: measured on points that the tree has not learnt.

How good their answers are differs more from data to data than how good the others' are, and what is best goes by it:
where their best label was right 0.81 times as often as the tree's, half of their usual vote was better by 0.4 points of
P@1, and where it was right more often than the tree's, twice as much by 0.7 (bench/README.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsenet.batches import Rows
from sparsenet.blend.neighbors import Neighbors
from sparsenet.blend.voting import WIDER
from sparsenet.estimators.fitting import as_matrix
from sparsenet.estimators.inference import is_hit
from sparsenet.tree import TreeClassifier

I64 = NDArray[np.int64]
#: One point of so many is measured on, at most MOST of them; fewer than FEWEST tell too little: with 290, citeulike-t
#: gained nothing from what the same rule, measured on 2,069 points, would have brought it.
EVERY, FEWEST, MOST = 64, 1024, 2048
#: Neighbours that are right so many times as often as the tree have their usual vote, and twice that where they are
#: right by so much more often, within limits.
AS_USUAL, TWICE_AS_MUCH, LEAST, UTMOST = 0.95, 0.09, 0.375, 2.0


def learn(
    tree: TreeClassifier, points: Rows, labels: Rows, k: int, *, seed: int, threads: int, beside_a_network: bool
) -> Neighbors:
    """Train the tree, and return how its points answer as neighbours, and what that counts."""
    kept = kept_from_tree(len(points), seed) if beside_a_network else np.empty(0, np.int64)
    tree.fit(as_matrix(points), as_matrix(without(labels, kept)))
    neighbors = Neighbors.learn(points, labels, k, seed=seed, threads=threads)
    return replace(neighbors, trust=measured(neighbors, tree, points, labels, kept, k=k, threads=threads))


def kept_from_tree(n_points: int, seed: int) -> I64:
    """Choose points to measure on, ascending; of few points none."""
    n = min(n_points // EVERY, MOST)
    chosen = np.random.default_rng((seed, 3)).choice(n_points, n if n >= FEWEST else 0, replace=False, shuffle=False)
    return np.sort(chosen)


def without(labels: Rows, points: I64) -> Rows:
    """Take the labels away from some points: so a tree does not learn them."""
    lengths, stays = np.diff(labels.indptr), np.ones(len(labels), bool)
    stays[points] = False
    kept = np.repeat(stays, lengths)
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths * stays)))
    return Rows(indptr, labels.indices[kept], labels.data[kept], labels.width)


def measured(
    neighbors: Neighbors, tree: TreeClassifier, points: Rows, labels: Rows, kept: I64, *, k: int, threads: int
) -> float:
    """Return by what the vote of the k nearest is multiplied, 1 where no points were kept from the tree."""
    if len(kept) == 0:
        return 1.0
    truth = labels.take(kept)
    by_tree = tree._ranked(points.take(kept), 1, WIDER * tree._beam(), threads)[0][:, 0]
    right = is_hit(neighbors.best_by_others(points, kept, k, threads), truth).sum()
    as_often = right / max(is_hit(by_tree, truth).sum(), 1)
    doublings = min((as_often - AS_USUAL) / TWICE_AS_MUCH, 9.0)  # where the tree is never right there is no end
    return float(np.clip(2.0**doublings, LEAST, UTMOST))
