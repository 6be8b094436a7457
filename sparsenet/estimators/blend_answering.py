"""Answers of blends: labels, probabilities and explanations of points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from sparsenet.core.memory import check_cells
from sparsenet.core.rows import Rows
from sparsenet.core.validation import integer
from sparsenet.engines.blend.blend_effects import blend_effects
from sparsenet.engines.blend.combination import Combination
from sparsenet.engines.blend.fast_ranking import FastRanking
from sparsenet.engines.blend.fitted_blend import FittedBlend
from sparsenet.engines.blend.version1 import Version1Combination
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.network.options import is_auto
from sparsenet.estimators.answers import AnswersMixin
from sparsenet.estimators.excluding import without
from sparsenet.estimators.explaining import Effects
from sparsenet.estimators.tree import MAX_EXTRA_BEAM, TreeClassifier
from sparsenet.features.label_stats import LabelStats
from sparsenet.kernels.types import F32, I32, I64


class BlendAnswersMixin(AnswersMixin):
    """Answer queries by a fitted blend, `_fitted`."""

    _fitted: FittedBlend
    _max_extra_beam = MAX_EXTRA_BEAM
    tree_: TreeClassifier
    label_counts_: I64
    candidates: int | str
    n_neighbors: int

    def predict_proba(self, X: Any) -> F32:
        """Return the probability of every label, dense (n, n_labels).

        Labels that neither the tree nor the neighbors propose get 0. Rows sum to one with one label per row; otherwise
        each label has an independent probability. If the matrix would be too large, ValueError suggests `predict_topk`.
        """
        features = self._features(X)
        check_cells(len(features), len(self.classes_))
        out = np.zeros((len(features), len(self.classes_)), np.float32)
        combination, exclusive = self._combination(), self._fitted.target.kind == "single"
        for own, labels, scores in self._ranked(features, self._candidates()):
            if exclusive:
                p = combination.exclusive_probabilities(scores)
            else:
                p = combination.probabilities(scores, self.label_counts_[labels])
            np.put_along_axis(out[own], labels.astype(np.int64), p, 1)
        return self._with_blank(features, out)

    def _given_candidates(self) -> int | None:
        """Return the number of candidates; None for ``"auto"``."""
        return None if is_auto(self.candidates) else integer("candidates", self.candidates, 1)

    def _candidates(self) -> int:
        given = self._given_candidates()
        return min(self._fitted.candidates if given is None else given, len(self.classes_))

    def _neighbors(self) -> tuple[Neighbors | None, int]:
        """Return the neighbors and the number that votes; (None, 0) without neighbors."""
        k, neighbors = integer("n_neighbors", self.n_neighbors, 0), self._fitted.neighbors
        if k == 0 and self._fitted.network is None:
            raise ValueError("n_neighbors is 0, and this model has no network: set at least 1")
        if k > 0 and neighbors is None:
            raise ValueError(
                f"n_neighbors is {k}, and this model does not hold its training points: fit it so, or set 0"
            )
        return (neighbors, min(k, len(neighbors.labels))) if neighbors is not None and k > 0 else (None, 0)

    def _best_by_features(self, features: Rows, k: int, n_dropped: int = 0) -> tuple[I32, F32]:
        """Return the k best labels of each point and their probabilities; widen the search by `n_dropped`."""
        labels, p = np.empty((len(features), k), np.int32), np.empty((len(features), k), np.float32)
        combination = self._combination()
        for own, found, scores in self._ranked(features, max(self._candidates(), k), n_dropped, n_best=k):
            labels[own] = found
            p[own] = combination.probabilities(scores, self.label_counts_[found])
        return labels, p

    def _best_one(self, k: int) -> Callable[[Rows], tuple[I32, F32]]:
        beam, n = integer("beam", self.tree_.beam, 1), max(self._candidates(), k)
        fast = self._fitted.fast_ranking(n, k=self._neighbors()[1], beam=beam)
        if fast is None:
            return super()._best_one(k)
        return partial(_fast_best, fast, k, self._combination(), self.label_counts_, self._fitted.seen)

    def _best_of_by_features(self, features: Rows, labels: I32, k: int) -> tuple[I32, F32]:
        """Rank the given labels next to the usual candidates, whose ranks enter the probabilities."""
        best, best_p = np.empty((len(features), k), np.int32), np.empty((len(features), k), np.float32)
        combination, is_given = self._combination(), np.zeros(len(self.classes_), np.bool_)
        is_given[labels] = True
        for own, found, scores in self._ranked(features, self._candidates(), among=labels):
            p = combination.probabilities(scores, self.label_counts_[found])
            best[own], best_p[own] = without(found, p, is_given[found], k)
        return best, best_p

    def _effects(self, point: Rows, label: int) -> Effects | None:
        found = blend_effects(self._fitted, point, label, self._neighbors()[1], self._threads())
        return None if found is None else Effects(*found)

    def _likely(self, features: Rows, min_p: float) -> list[I32]:
        """Return the labels of each point with a probability of at least `min_p`, best first; 0 if no candidate."""
        labels, p = self._best(features, len(self.classes_) if min_p == 0 else self._candidates())
        return [own[probable >= min_p] for own, probable in zip(labels, p, strict=True)]

    def _ranked(
        self, features: Rows, n: int, n_dropped: int = 0, among: I32 | None = None, n_best: int | None = None
    ) -> Iterator[tuple[slice, I32, F32]]:
        """Yield blocks of points, the `n_best` of n labels proposed for each, best first, and their scores."""
        beam, k = integer("beam", self.tree_.beam, 1), self._neighbors()[1]
        how: dict[str, Any] = {"beam": beam, "threads": self._threads(), "n_dropped": n_dropped, "among": among}
        how["n_best"] = n_best
        return self._fitted.rank(features, n, k=k, **how)

    def _combination(self) -> Combination | Version1Combination:
        return self._fitted.combining(self._neighbors()[1])


def _fast_best(
    fast: FastRanking, k: int, combination: Any, counts: I64, seen: LabelStats, point: Rows
) -> tuple[I32, F32]:
    """Return the k best labels of a point; unlike a closure, a `partial` of this function can be pickled."""
    labels, scores = fast.rank(point, k, 1)
    p: F32 = combination.probabilities(scores, counts[labels])
    seen.answer_blank(point, labels, p)
    return labels, p
