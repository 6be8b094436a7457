"""The contribution of each feature of a point to a tree's score of a label."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.engines.tree.fit_tree import FittedTree
from sparsenet.engines.tree.machines import Level
from sparsenet.kernels.types import F64

#: The weight of a node's log probability in its children's, as in the kernel `search_tree`.
DISCOUNT = 0.8


def tree_effects(
    tree: FittedTree, point: Rows, label: int, of_score: Callable[[float], float]
) -> tuple[F64, float] | None:
    """Return the contribution of each entry of one point, (nnz,), to ``of_score(log probability)``, and the bias.

    A machine's margin is a sum over features, and a score a function of the margins on the path to the label. The
    change of the function from an empty point to this one is divided among the features like the margins are. None if
    the label has no leaf.
    """
    leaves = np.flatnonzero(tree.shape.labels == label)
    if not len(leaves):
        return None
    child, discount = int(leaves[0]), 1.0
    found, score, empty = np.zeros(len(point.indices)), 0.0, 0.0
    for level in reversed(tree.levels):
        node = int(np.searchsorted(level.children, child, side="right")) - 1
        terms, bias = _margin(level, node, child - int(level.children[node]), point)
        margin = bias + float(terms.sum())
        found += discount * _slope(_log_probability, bias, margin) * terms
        score, empty = score + discount * _log_probability(margin), empty + discount * _log_probability(bias)
        child, discount = node, discount * DISCOUNT
    return _slope(of_score, empty, score) * found, of_score(empty)


def _margin(level: Level, node: int, column: int, point: Rows) -> tuple[F64, float]:
    """Return the term of each entry in the margin of a machine, and its bias."""
    own = slice(level.starts[node], level.starts[node + 1])
    features, weights = level.features[own], level.weights[own, column] * level.factors[own].astype(np.float64)
    terms = np.zeros(len(point.indices))
    if len(features):
        at = np.minimum(np.searchsorted(features, point.indices), len(features) - 1)
        terms = np.where(features[at] == point.indices, weights[at], 0) * point.data
    return terms, float(level.bias[node, column])


def _log_probability(margin: float) -> float:
    return -(max(1 - margin, 0.0) ** 3)


def _slope(function: Callable[[float], float], before: float, after: float) -> float:
    """Return the mean slope of a function between two points."""
    return (function(after) - function(before)) / (after - before) if after != before else 0.0
