"""Boosted trees as flat arrays, and their scores of a matrix of numbers and category codes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from sparsenet.kernels.types import F64, I32, I64, Bools
from sparsenet.storage.format import ModelError

#: Categories of a column: scikit-learn's limit. A bit set has `WORDS` words of 32 bits.
MAX_CATEGORIES, WORDS = 255, 8
#: Pairs of a point and a tree that walk down at a time: about 40 bytes each.
PAIRS_AT_A_TIME = 1 << 18
Words = NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """The nodes of all trees, tree after tree; tree t adds to the score of output ``t % n_outputs``.

    Attributes
    ----------
    roots : ndarray of shape (n_trees,), int32
        The first node of each tree.
    feature : ndarray of shape (n_nodes,), int32
        The column that a node tests; -1 for leaves.
    threshold : ndarray of shape (n_nodes,), float64
        Numbers up to this go left.
    left, right : ndarray of shape (n_nodes,), int32
        The children, which come later in the arrays; leaves lead to themselves.
    missing_left : ndarray of shape (n_nodes,), bool
        Whether missing values, and unknown categories, go left.
    bits : ndarray of shape (n_nodes,), int32
        The row of `sets` with the categories that go left; -1 for numbers.
    sets : ndarray of shape (n_sets, 8), uint32
    known : ndarray of shape (n_columns, 8), uint32
        The category codes of training, as bit sets; all zero for numbers.
    value : ndarray of shape (n_nodes,), float64
        The amount that a leaf adds to the score; 0 elsewhere.
    baseline : ndarray of shape (n_outputs,), float64
        The scores before the first tree; a single one for two classes.
    """

    roots: I32
    feature: I32
    threshold: F64
    left: I32
    right: I32
    missing_left: Bools
    bits: I32
    sets: Words
    known: Words
    value: F64
    baseline: F64

    @property
    def n_outputs(self) -> int:
        """Number of scores of a point: one for two classes, else one for each class."""
        return len(self.baseline)

    @property
    def n_rounds(self) -> int:
        """Number of rounds of boosting; each grows a tree for each output."""
        return len(self.roots) // self.n_outputs

    @cached_property
    def is_category(self) -> Bools:
        """Which columns hold category codes."""
        return np.asarray(self.known.any(axis=1))

    def scores(self, matrix: F64) -> F64:
        """Return the scores of each point, (n, n_outputs).

        Each point adds its leaves in the order of the trees, so its scores do not depend on other points.
        """
        columns = self._known_only(matrix)
        out = np.repeat(self.baseline[None], len(matrix), axis=0)
        step = max(1, PAIRS_AT_A_TIME // max(len(self.roots), 1))
        for begin in range(0, len(matrix), step):
            own = slice(begin, min(begin + step, len(matrix)))
            added = self.value[self._leaves(columns[own])].reshape(own.stop - begin, self.n_rounds, self.n_outputs)
            for one_round in range(self.n_rounds):  # one by one: a sum in pairs would have other last bits
                out[own] += added[:, one_round]
        return out

    def probabilities(self, matrix: F64) -> F64:
        """Return the probability of each class, (n, n_classes)."""
        scores = self.scores(matrix)
        if self.n_outputs > 1:
            return np.asarray(softmax(scores, axis=1))
        second = expit(scores[:, 0])
        return np.stack((1 - second, second), axis=1)

    def _leaves(self, columns: F64) -> I64:
        """Return the leaf of each point in each tree, (n * n_trees,), by point."""
        n, n_trees = len(columns), len(self.roots)
        node = np.tile(self.roots.astype(np.int64), n)
        row = np.repeat(np.arange(n), n_trees)
        walking = np.flatnonzero(self.feature[node] >= 0)
        while len(walking):
            at = node[walking]
            x = columns[row[walking], self.feature[at]]
            node[walking] = np.where(self._goes_left(at, x), self.left[at], self.right[at])
            walking = walking[self.feature[node[walking]] >= 0]
        return node

    def _goes_left(self, at: I64, x: F64) -> Bools:
        """Return whether values `x` go left at the nodes `at`."""
        missing = np.isnan(x)
        goes = np.where(missing, self.missing_left[at], x <= self.threshold[at])
        where = np.flatnonzero((self.bits[at] >= 0) & ~missing)
        if len(where):
            code = x[where].astype(np.int64)
            words = self.sets[self.bits[at[where]], code >> 5]
            goes[where] = (words >> (code & 31).astype(np.uint32)) & np.uint32(1) != 0
        return np.asarray(goes)

    def _known_only(self, matrix: F64) -> F64:
        """Return the matrix with unknown categories as missing values."""
        if not self.is_category.any():
            return matrix
        found = matrix.copy()
        for column in np.flatnonzero(self.is_category):
            x = found[:, column]
            code = np.where((x >= 0) & (x < 32 * WORDS), x, 0).astype(np.int64)
            is_known = (self.known[column, code >> 5] >> (code & 31).astype(np.uint32)) & np.uint32(1) != 0
            x[~is_known | (code != x)] = np.nan
        return found


def check_trees(trees: BoostedTrees, n_columns: int, n_classes: int) -> None:
    """Raise ModelError for arrays that would lead a walk out of a tree, or in a circle."""
    n_nodes, n_outputs = len(trees.feature), 1 if n_classes == 2 else n_classes
    of_nodes = ("threshold", "left", "right", "missing_left", "bits", "value")
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(of_nodes, (n_nodes,))
    shapes |= {"known": (n_columns, WORDS), "baseline": (n_outputs,)}
    types: dict[str, Any] = dict.fromkeys(("roots", "feature", "left", "right", "bits"), np.int32)
    types |= dict.fromkeys(("threshold", "value", "baseline"), np.float64)
    types |= {"missing_left": np.bool_, "sets": np.uint32, "known": np.uint32}
    for name, dtype in types.items():
        array = getattr(trees, name)
        if array.dtype != dtype or array.shape != shapes.get(name, array.shape):
            raise ModelError(f"{name} of boosted trees must be {np.dtype(dtype)}, got {array.dtype} {array.shape}")
    if trees.roots.ndim != 1 or trees.feature.ndim != 1 or trees.sets.ndim != 2 or trees.sets.shape[1] != WORDS:
        raise ModelError("the arrays of boosted trees have the wrong number of dimensions")
    _check_walks(trees, n_nodes, n_columns)
    if not (np.isfinite(trees.value).all() and np.isfinite(trees.baseline).all()):
        raise ModelError("the leaves of boosted trees hold NaN or infinity")
    if np.isnan(trees.threshold).any():
        raise ModelError("the thresholds of boosted trees hold NaN")


def _check_walks(trees: BoostedTrees, n_nodes: int, n_columns: int) -> None:
    roots, nodes = trees.roots, np.arange(n_nodes)
    if len(roots) % trees.n_outputs or (len(roots) and not 0 <= roots.min() <= roots.max() < n_nodes):
        raise ModelError("the roots of boosted trees must be nodes, the same number for each output")
    if n_nodes and not -1 <= trees.feature.min() <= trees.feature.max() < n_columns:
        raise ModelError(f"the nodes of boosted trees must test one of {n_columns} columns")
    inner = trees.feature >= 0
    for children in (trees.left, trees.right):
        later = (children > nodes) & (children < n_nodes)
        if not np.where(inner, later, children == nodes).all():
            raise ModelError("the children of a node of boosted trees must come after it")
    if n_nodes and not -1 <= trees.bits.min() <= trees.bits.max() < len(trees.sets):
        raise ModelError("the category sets of boosted trees must be rows of `sets`")
    tests = inner & (trees.bits >= 0)
    if (inner & (trees.is_category[trees.feature] != tests)).any():
        raise ModelError("nodes of boosted trees must test numbers by thresholds and categories by sets")
