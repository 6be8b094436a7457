"""Grow boosted trees by scikit-learn, and take them out of its estimator: the one file that reads its private parts.

`HistGradientBoostingClassifier` keeps its trees in private attributes, which have been the same from version 1.6 to
1.9. `extract` checks each of them, and names the version if one is missing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from sparsenet.engines.boosting.boosted_trees import MAX_CATEGORIES, WORDS, BoostedTrees, Words
from sparsenet.kernels.types import F64, I32, I64, Bools


class Grower:
    """Grow trees round by round on a matrix whose columns are numbers or category codes from 0 to 254.

    Parameters
    ----------
    is_category : ndarray of shape (n_columns,), bool
    learning_rate : float
        Factor of the leaves.
    leaves : int
        Maximum number of leaves of a tree.
    smallest_leaf : int
        Minimum number of points in a leaf.
    seed, threads : int
        The trees do not depend on the threads.
    """

    def __init__(
        self, is_category: Bools, *, learning_rate: float, leaves: int, smallest_leaf: int, seed: int, threads: int
    ) -> None:
        # scikit-learn moves categories to the front; here it finds them there, and a tree's columns are known.
        self._order = np.argsort(~is_category, kind="stable")
        self._n_categories, self._threads = int(is_category.sum()), threads
        self._codes: list[I64] = []
        self._model = HistGradientBoostingClassifier(
            learning_rate=learning_rate,
            max_leaf_nodes=leaves,
            min_samples_leaf=smallest_leaf,
            categorical_features=list(range(self._n_categories)) or None,
            early_stopping=False,
            warm_start=True,
            random_state=seed,
        )

    def grow(self, matrix: F64, labels: I32, rounds: int) -> None:
        """Train until there are this many rounds, continuing from an earlier call with the same points."""
        matrix = np.where(np.isnan(matrix).all(axis=0), 0.0, matrix)  # scikit-learn refuses columns without any number
        self._codes = [_codes(matrix, column) for column in self._order[: self._n_categories].tolist()]
        self._model.set_params(max_iter=rounds)
        with threadpool_limits(self._threads):
            self._model.fit(self._ordered(matrix), labels)

    def extract(self, rounds: int) -> tuple[BoostedTrees, I32]:
        """Return the trees of the first rounds as arrays of our own, and the labels of their outputs."""
        return extract(self._model, self._order, self._codes, rounds), self._model.classes_.astype(np.int32)

    def _ordered(self, matrix: F64) -> F64:
        return np.ascontiguousarray(matrix[:, self._order])


def _codes(matrix: F64, column: int) -> I64:
    """Return the category codes of a column, ascending."""
    x = matrix[:, column]
    codes = np.unique(x[~np.isnan(x)])
    if len(codes) and not (codes[0] >= 0 and codes[-1] < MAX_CATEGORIES and (codes == np.floor(codes)).all()):
        raise ValueError(
            f"column {column} of the matrix must hold category codes, whole numbers from 0 to {MAX_CATEGORIES - 1}, "
            f"got {codes[0]:g} to {codes[-1]:g}"
        )
    return codes.astype(np.int64)


def extract(model: Any, order: I64, codes: list[I64], rounds: int) -> BoostedTrees:
    """Return a fitted model's trees as arrays of our own.

    Parameters
    ----------
    model : HistGradientBoostingClassifier
        Fitted on columns in this `order`, categories first.
    codes : list of ndarray
        The codes of each category column, ascending: scikit-learn numbers them from 0.
    rounds : int
        Number of rounds to keep.
    """
    try:
        baseline = np.asarray(model._baseline_prediction, np.float64).reshape(-1)
        trees = [tree for one_round in model._predictors[:rounds] for tree in one_round]
        nodes = [_nodes(tree.nodes, order) for tree in trees]
        sets = [np.asarray(tree.raw_left_cat_bitsets, np.uint32).reshape(-1, WORDS) for tree in trees]
    except (AttributeError, ValueError, KeyError, TypeError) as error:
        raise RuntimeError(
            f"scikit-learn {sklearn.__version__} keeps boosted trees in another form than versions 1.6 to 1.9 "
            f"({error}): install one of those, or train with a method other than 'boosting'"
        ) from error
    sizes, set_sizes = (np.cumsum([0, *map(len, parts)])[:-1] for parts in (nodes, sets))
    for tree, first, first_set in zip(nodes, sizes.tolist(), set_sizes.tolist(), strict=True):
        tree["left"] += first
        tree["right"] += first
        tree["bits"][tree["bits"] >= 0] += first_set
    whole = np.concatenate(nodes) if nodes else np.empty(0, _NODE)
    all_sets, known = np.concatenate([*sets, np.empty((0, WORDS), np.uint32)]), _known(order, codes)
    return BoostedTrees(
        roots=sizes.astype(np.int32),
        sets=_in_codes(all_sets, whole, {int(order[i]): own for i, own in enumerate(codes)}),
        known=known,
        baseline=baseline,
        **{name: np.ascontiguousarray(whole[name]) for name in _NODE.names or ()},
    )


_NODE = np.dtype(
    [
        ("feature", np.int32),
        ("threshold", np.float64),
        ("left", np.int32),
        ("right", np.int32),
        ("missing_left", np.bool_),
        ("bits", np.int32),
        ("value", np.float64),
    ]
)


def _nodes(saved: NDArray[Any], order: I64) -> NDArray[Any]:
    """Return the nodes of one tree: leaves lead to themselves and hold the only values."""
    is_leaf, is_category = saved["is_leaf"] != 0, saved["is_categorical"] != 0
    nodes, itself = np.zeros(len(saved), _NODE), np.arange(len(saved))
    nodes["feature"] = np.where(is_leaf, -1, order[np.where(is_leaf, 0, saved["feature_idx"])])
    nodes["threshold"] = np.where(is_leaf | is_category, 0.0, saved["num_threshold"])
    nodes["left"] = np.where(is_leaf, itself, saved["left"])
    nodes["right"] = np.where(is_leaf, itself, saved["right"])
    nodes["missing_left"] = ~is_leaf & (saved["missing_go_to_left"] != 0)
    nodes["bits"] = np.where(is_category & ~is_leaf, saved["bitset_idx"].astype(np.int64), -1)
    nodes["value"] = np.where(is_leaf, saved["value"], 0.0)
    return nodes


def _known(order: I64, codes: list[I64]) -> Words:
    """Return the codes of each column as a bit set, (n_columns, 8)."""
    known = np.zeros((len(order), WORDS), np.uint32)
    for column, own in zip(order[: len(codes)].tolist(), codes, strict=True):
        known[column] = _bits(own)
    return known


def _bits(codes: I64) -> Words:
    """Return codes as a bit set of `WORDS` words."""
    found = np.zeros(WORDS, np.uint32)
    np.bitwise_or.at(found, codes >> 5, np.uint32(1) << (codes & 31).astype(np.uint32))
    return found


def _in_codes(sets: Words, nodes: NDArray[Any], codes: dict[int, I64]) -> Words:
    """Convert sets of scikit-learn's numbers of categories to sets of codes."""
    found = np.zeros_like(sets)
    for feature, own in zip(nodes["feature"].tolist(), nodes["bits"].tolist(), strict=True):
        if own >= 0:
            numbers = np.flatnonzero(np.unpackbits(sets[own].astype("<u4").view(np.uint8), bitorder="little"))
            found[own] = _bits(codes[feature][numbers[numbers < len(codes[feature])]])
    return found
