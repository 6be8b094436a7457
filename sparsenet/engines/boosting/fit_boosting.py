"""Train boosted trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from sparsenet.engines.boosting.boosted_trees import WORDS, BoostedTrees
from sparsenet.engines.boosting.grown_trees import Grower
from sparsenet.kernels.types import F64, I32, Bools


@dataclass(frozen=True)
class BoostingRules:
    """How trees are grown; the first three are scikit-learn's defaults.

    Attributes
    ----------
    learning_rate, leaves, smallest_leaf :
        Factor of the leaves, most leaves of a tree, and fewest points of a leaf.
    rounds : tuple of int
        Numbers of rounds, ascending.
    usual_rounds : int
        Rounds without held-out points.
    """

    learning_rate: float = 0.1
    leaves: int = 31
    smallest_leaf: int = 20
    rounds: tuple[int, ...] = (25, 50, 100, 200, 400)
    usual_rounds: int = 100


@dataclass(frozen=True, eq=False)
class FittedBoosting:
    """Boosted trees, and the label of each of their outputs.

    Attributes
    ----------
    trees : BoostedTrees
    labels : ndarray, int32
        The labels with training points, ascending: the classes of the trees.
    n_labels : int
        Number of all labels; the others have probability 0.
    """

    trees: BoostedTrees
    labels: I32
    n_labels: int

    def probabilities(self, matrix: F64) -> F64:
        """Return the probability of each label, (n, n_labels)."""
        found = np.zeros((len(matrix), self.n_labels))
        found[:, self.labels] = self.trees.probabilities(matrix)
        return found


def fit(
    matrix: F64,
    is_category: Bools,
    labels: I32,
    n_labels: int,
    rules: BoostingRules,
    rounds: Iterable[int],
    *,
    seed: int,
    threads: int,
) -> Iterator[FittedBoosting]:
    """Train boosted trees on numbers and category codes, NaN where missing, and yield them after each of `rounds`.

    Parameters
    ----------
    labels : ndarray of shape (n,), int32
        One label for each point. If all are the same, as without the only held-out row of a class, no tree is grown.
    rounds : iterable of int
        Numbers of rounds, ascending.
    """
    known = np.unique(labels)
    if len(known) == 1:
        yield from (_constant(int(known[0]), matrix.shape[1], n_labels) for _ in rounds)
        return
    grower = Grower(
        is_category,
        learning_rate=rules.learning_rate,
        leaves=rules.leaves,
        smallest_leaf=rules.smallest_leaf,
        seed=seed,
        threads=threads,
    )
    for n_rounds in rounds:
        grower.grow(matrix, labels, n_rounds)
        trees, known = grower.extract(n_rounds)
        yield FittedBoosting(trees, known, n_labels)


def _constant(label: int, n_columns: int, n_labels: int, log_odds: float = 16.0) -> FittedBoosting:
    """Return a model without trees that always answers one label."""
    other, ids = int(label == 0), np.empty(0, np.int32)
    trees = BoostedTrees(
        roots=ids,
        feature=ids,
        threshold=np.empty(0),
        left=ids,
        right=ids,
        missing_left=np.empty(0, np.bool_),
        bits=ids,
        sets=np.zeros((0, WORDS), np.uint32),
        value=np.empty(0),
        known=np.zeros((n_columns, WORDS), np.uint32),
        baseline=np.array([log_odds if label > other else -log_odds]),
    )
    return FittedBoosting(trees, np.sort(np.array([label, other], np.int32)), n_labels)
