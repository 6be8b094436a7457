"""The prediction methods that the point classifiers share: top-k, sparse probabilities and exclusions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sparsenet.core.machine import default_threads
from sparsenet.core.ranked import is_hit
from sparsenet.core.rows import POINTS_AT_A_TIME, Rows, as_matrix
from sparsenet.core.validation import check_features, check_weights, integer, n_jobs, real
from sparsenet.estimators.excluding import Excluded, without
from sparsenet.features.targets import check_points
from sparsenet.kernels.types import F32, I32
from sparsenet.selection.choose import Decision


class AnswersMixin:
    """Prediction methods on top of `_best_by_features`, which finds the best k labels of each point."""

    classes_: NDArray[Any]
    n_features_in_: int
    n_jobs: Any
    normalize: str
    _fitted: Any
    #: Initial k of the search for labels above a threshold; it grows for points that need more.
    _first_k = 16
    #: Extra labels to rank at first, in case some of the best k are excluded. A blend ranks at least 32 labels anyway.
    _spare = 16
    #: Maximum number of excluded labels passed to the search, which then goes further. 0 if the search is exact.
    _max_extra_beam = 0

    @property
    def fitted_(self) -> Any:
        """The engine's fitted model, a dataclass; its fields may change between versions."""
        check_is_fitted(self)
        return self._fitted

    def _keep(self, fitted: Any) -> None:
        """Set the fitted model, and the attributes that all classifiers of points have."""
        self._fitted = fitted
        self.classes_, self.normalize_, self.choices_ = fitted.target.classes, fitted.scaling.kind, self._choices()
        self.label_counts_, self.n_points_ = fitted.seen.label_counts, fitted.seen.n_points

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[misc]  # defined by the other base class
        if "_fitted" in state:  # pickles of version 0.1 hold choices of another form, or none
            self.choices_ = self._choices()

    def _choices(self) -> dict[str, Decision]:
        """Return the decisions on parameters left to "auto"."""
        own = {"normalize": self._fitted.scaling.explained()} if self.normalize == "auto" else {}
        return {**own, **getattr(self._fitted, "choices", {})}

    def keep_validation(self, scores: Mapping[str, float]) -> None:
        """Keep scores on validation points in `fitted_.validation` of a tree or blend, for `save`."""
        self._fitted = replace(self._fitted, validation=dict(scores))

    def _best_by_features(self, features: Rows, k: int, n_dropped: int = 0) -> tuple[I32, F32]:
        """Return the positions of the k best labels of each point and their probabilities, (n, k) each, best first.

        The caller will drop about `n_dropped` labels afterwards, so the search goes further by this number.
        """
        raise NotImplementedError

    def _best(self, features: Rows, k: int, n_dropped: int = 0) -> tuple[I32, F32]:
        """Return the k best labels and probabilities; points without known features get the most frequent labels."""
        labels, p = self._best_by_features(features, k, n_dropped)
        self._fitted.seen.answer_blank(features, labels, p)
        return labels, p

    def _with_blank(self, features: Rows, p: F32) -> F32:
        """Replace the probabilities of points without known features, (n, n_labels), by label frequencies."""
        at, shares = self._fitted.seen.blank(features), self._fitted.seen.shares()
        p[at] = shares / shares.sum() if self._fitted.target.kind == "single" else shares
        return p

    def predict(self, X: Any, *, threshold: float | None = None) -> Any:
        """Predict the best class of each row, (n,), or all labels above `threshold`, in the form of y.

        `threshold` is 0.5 by default. The best value depends on the cost of a wrong label; for F1 it is often lower.
        If the probabilities of a row sum to one, as under ``loss="softmax"``, at most one label exceeds 0.5.
        """
        features, target = self._features(X), self._fitted.target
        if target.kind == "single":
            if threshold is not None:
                raise ValueError("threshold must be None where each row has one label: see `topk` for probabilities")
            return target.classes[self._best_label(features)]
        min_p = 0.5 if threshold is None else real("threshold", threshold, 0, 1)
        found = [np.empty(0, np.int32)]
        for block in features.blocks(POINTS_AT_A_TIME):
            found += self._likely(block, min_p)
        return target.decode(np.concatenate(found), np.cumsum([len(own) for own in found], dtype=np.int64))

    def _likely(self, features: Rows, min_p: float) -> list[I32]:
        """Return the labels of each point with a probability above `min_p`, best first."""
        found = [np.empty(0, np.int32)] * len(features)
        waiting, k = np.arange(len(features)), min(self._first_k, len(self.classes_))
        while len(waiting):
            labels, p = self._best(features.take(waiting), k)
            full = (p[:, -1] > min_p) & (k < len(self.classes_))
            for i in np.flatnonzero(~full):
                found[waiting[i]] = labels[i][p[i] > min_p]
            # Rank more labels for these points alone: the answer for a point must not depend on other points.
            waiting, k = waiting[full], min(4 * k, len(self.classes_))
        return found

    def _best_label(self, features: Rows) -> I32:
        return self._best(features, 1)[0][:, 0]

    def topk_numbers(self, X: Any, k: int = 5, *, exclude: Any = None) -> tuple[I32, F32]:
        """Return `topk` with positions in `classes_` instead of classes, and -1 if no label is left."""
        features = self._features(X)
        k = min(integer("k", k, 1), len(self.classes_))
        if exclude is None:
            return self._best(features, k)
        return self._best_without(features, k, Excluded.of(exclude, len(features), len(self.classes_)))

    def topk(self, X: Any, k: int = 5, *, exclude: Any = None) -> tuple[NDArray[Any], F32]:
        """Return the k best of `classes_` and their probabilities, (n, k) each, best first; k is at most n_labels.

        Each label has its own probability, even with one label per row; only rows of `predict_proba` then sum to one.
        `exclude`, (n, n_labels), sparse or dense, is nonzero for labels to leave out, such as items already bought.
        A single row, (n_labels,) or (1, n_labels), applies to all rows, such as items out of stock.
        """
        labels, probabilities = self.topk_numbers(X, k, exclude=exclude)
        short = np.flatnonzero((labels < 0).any(axis=1))
        if len(short):
            left = int((labels[short[0]] >= 0).sum())
            raise ValueError(
                f"exclude leaves row {short[0]} {left} labels, fewer than k={labels.shape[1]}: use predict_topk, whose "
                "rows may be shorter, or topk_numbers"
            )
        return self.classes_[labels], probabilities

    def predict_topk(self, X: Any, k: int = 5, *, exclude: Any = None) -> csr_array:
        """Return the probabilities of the k best labels, sparse (n, n_labels); the entries of a row are best first."""
        labels, probabilities = self.topk_numbers(X, k, exclude=exclude)
        is_left = labels >= 0
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(is_left.sum(axis=1))))
        return csr_array((probabilities[is_left], labels[is_left], indptr), shape=(len(labels), len(self.classes_)))

    def _best_without(
        self, features: Rows, k: int, excluded: Excluded, *, max_ranked: int = 1 << 24
    ) -> tuple[I32, F32]:
        """Return the k best labels of each point without excluded ones, padded with -1 and a probability of 0.

        A block of points ranks at most `max_ranked` labels.
        """
        n_excluded = excluded.counts(len(features))
        # k plus the excluded labels are always enough, rounded to powers of two so that points share calls. Few of the
        # best labels are usually excluded, so start with fewer, and rank more only for the points that need it. The
        # answer for a point must not depend on other points.
        more = np.where(n_excluded > 0, 2 ** np.ceil(np.log2(np.maximum(n_excluded, 1))).astype(np.int64), 0)
        enough, n_dropped = np.minimum(k + more, len(self.classes_)), np.minimum(more, self._max_extra_beam)
        n_ranked, waiting = np.minimum(k + self._spare, enough), np.arange(len(features))
        best, p = np.full((len(features), k), -1, np.int32), np.zeros((len(features), k), np.float32)
        while len(waiting):
            for n, passed in sorted(set(zip(n_ranked[waiting].tolist(), n_dropped[waiting].tolist(), strict=True))):
                group = waiting[(n_ranked[waiting] == n) & (n_dropped[waiting] == passed)]
                at_a_time = max(min(POINTS_AT_A_TIME, max_ranked // n), 1)
                for points in np.array_split(group, -(-len(group) // at_a_time)):
                    labels, block_p = self._best(features.take(points), n, passed)
                    best[points], p[points] = without(labels, block_p, excluded.among(labels, points), k)
            waiting = waiting[(best[waiting, -1] < 0) & (n_ranked[waiting] < enough[waiting])]
            n_ranked[waiting] = np.minimum(4 * n_ranked[waiting], enough[waiting])
        return best, p

    def indicator(self, y: Any) -> csr_array:
        """Convert y for `sparsenet.metrics` to an indicator, (n, n_labels), with a column for each of `classes_`.

        Unknown labels are dropped, with a warning if all labels are unknown.
        """
        check_is_fitted(self)
        return as_matrix(self._fitted.target.encode(y, drop_unknown=True))

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Compute the accuracy for one label per row, or P@1 for several."""
        features = self._features(X)
        _, truth = check_points(features, self._fitted.target.encode(y, drop_unknown=True))
        if len(features) == 0:
            raise ValueError("X has no rows: there must be at least one")
        weights = check_weights(sample_weight, len(features))
        return float(np.average(is_hit(self._best_label(features), truth), weights=weights))

    def _threads(self) -> int:
        threads = n_jobs(self.n_jobs)
        return default_threads() if threads is None else threads

    def _features(self, X: Any) -> Rows:
        check_is_fitted(self)
        features: Rows = self._fitted.scaling.apply(check_features(self, X, fitting=False))
        return features

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]  # defined by the other base class
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags
