"""The prediction methods that the point classifiers share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sparsenet.core.machine import default_threads
from sparsenet.core.ranked import is_hit, precisions
from sparsenet.core.rows import POINTS_AT_A_TIME, Rows
from sparsenet.core.validation import check_features, check_weights, n_jobs, real
from sparsenet.estimators.excluding import Allowed, best_allowed, best_only
from sparsenet.estimators.explaining import ExplainMixin
from sparsenet.estimators.fitted_html import FittedHtmlMixin
from sparsenet.estimators.point_sources import labelled_points, query_points
from sparsenet.estimators.predictor import Predictor
from sparsenet.estimators.topk_methods import TopkMixin
from sparsenet.features.part_scaling import PartScaling
from sparsenet.features.targets import LoadedPoints, check_points
from sparsenet.kernels.types import F32, I32, I64
from sparsenet.metrics.ranking import RANKS
from sparsenet.selection.choose import Decision


class AnswersMixin(TopkMixin, ExplainMixin, FittedHtmlMixin):
    """Prediction methods on top of `_best_by_features`, which finds the best k labels of each point."""

    classes_: NDArray[Any]
    n_features_in_: int
    n_jobs: Any
    normalize: str
    _fitted: Any
    #: Initial k of the search for labels that reach a threshold; it grows for points that need more.
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
        self.parts_ = fitted.scaling.widths if isinstance(fitted.scaling, PartScaling) else None
        self.label_counts_, self.n_points_ = fitted.seen.label_counts, fitted.seen.n_points

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # type: ignore[misc]  # defined by the other base class
        if "_fitted" in state:  # pickles of version 0.1 hold choices of another form, or none
            self.choices_ = self._choices()

    def _choices(self) -> dict[str, Decision]:
        """Return the decisions on parameters left to "auto"."""
        own = {"normalize": self._fitted.scaling.explained()} if self.normalize == "auto" else {}
        return {**own, **getattr(self._fitted, "choices", {})}

    @property
    def validation_(self) -> dict[str, float] | None:
        """Precision at 1, 3 and 5 on the validation data of `fit`; None without these."""
        check_is_fitted(self)
        if hasattr(self, "history_"):
            measured = [record for record in self.history_ if "P@1" in record]
            best: dict[str, float] = max(measured, key=lambda record: record["P@1"], default={})
            return {name: value for name, value in best.items() if name.startswith("P@")} or None
        found = getattr(self._fitted, "validation", None)
        return None if found is None else dict(found)

    def keep_validation(self, scores: Mapping[str, float]) -> None:
        """Keep scores on validation points in `validation_` of a tree or blend, for `save`."""
        self._fitted = replace(self._fitted, validation=dict(scores))

    def _validated(self, held: LoadedPoints | None, ranks: tuple[int, ...] = RANKS) -> Self:
        """Measure the model on scaled validation points, if any."""
        if held is not None:
            points, truth = held
            ranked, _ = self._best(points, min(max(ranks), len(self.classes_)))
            found = precisions(is_hit(ranked, truth), ranks).mean(axis=0)
            self.keep_validation({f"P@{k}": float(value) for k, value in zip(ranks, found, strict=True)})
        return self

    def _best_by_features(self, features: Rows, k: int, n_dropped: int = 0) -> tuple[I32, F32]:
        """Return the positions of the k best labels of each point and their probabilities, (n, k) each, best first.

        The caller will drop about `n_dropped` labels afterwards, so the search goes further by this number.
        """
        raise NotImplementedError

    def _best_of_by_features(self, features: Rows, labels: I32, k: int) -> tuple[I32, F32]:
        """Return the k best of the given labels, ascending, for each point, and their probabilities, best first."""
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
        """Predict the best class of each row, (n,), or all labels whose probability is at least `threshold`.

        Several labels come in the form of y. `threshold` is 0.5 by default. The best value depends on the cost of a
        wrong label; for F1 it is often lower. If the probabilities of a row sum to one, as under ``loss="softmax"``,
        hardly ever do two labels reach 0.5.
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
        """Return the labels of each point with a probability of at least `min_p`, best first."""
        found = [np.empty(0, np.int32)] * len(features)
        waiting, k = np.arange(len(features)), min(self._first_k, len(self.classes_))
        while len(waiting):
            labels, p = self._best(features.take(waiting), k)
            full = (p[:, -1] >= min_p) & (k < len(self.classes_))
            for i in np.flatnonzero(~full):
                found[waiting[i]] = labels[i][p[i] >= min_p]
            # Rank more labels for these points alone: the answer for a point must not depend on other points.
            waiting, k = waiting[full], min(4 * k, len(self.classes_))
        return found

    def _best_label(self, features: Rows) -> I32:
        return self._best(features, 1)[0][:, 0]

    def _best_numbers(self, X: Any, k: int, exclude: Any, only: Any) -> tuple[I32, F32, Allowed | None]:
        features = self._features(X)
        if exclude is None and only is None:
            return *self._best(features, k), None
        allowed = Allowed.of(exclude, only, len(features), self._fitted.target)
        return *self._best_allowed(features, min(k, allowed.most), allowed), allowed

    def _best_allowed(self, features: Rows, k: int, allowed: Allowed, *, max_ranked: int = 1 << 24) -> tuple[I32, F32]:
        """Return the k best allowed labels of each point, padded with -1 and a probability of 0."""
        if allowed.only is not None:
            return best_only(partial(self._best_of, features), len(features), k, allowed)

        def rank(points: I64, n: int, n_dropped: int) -> tuple[I32, F32]:
            return self._best(features.take(points), n, n_dropped)

        how = {"spare": self._spare, "max_dropped": self._max_extra_beam, "max_ranked": max_ranked}
        return best_allowed(rank, len(features), k, allowed, **how)

    def _best_of(self, features: Rows, points: I64, labels: I32, k: int) -> tuple[I32, F32]:
        """Return the k best of some labels, ascending, for the given points."""
        block = features.take(points)
        found, p = self._best_of_by_features(block, labels, k)
        self._fitted.seen.answer_blank(block, found, p, labels)
        return found, p

    def predictor(self, k: int = 5) -> Predictor:
        """Build a `Predictor`, which answers one point after another with little overhead, as `topk` does."""
        check_is_fitted(self)
        return Predictor(self, k=k)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Compute the accuracy for one label per row, or P@1 for several; y is None for files, which hold labels."""
        check_is_fitted(self)
        X, y = labelled_points(X, y, self.n_features_in_, self._fitted.target)
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
        features: Rows = self._fitted.scaling.apply(
            check_features(self, query_points(X, self.n_features_in_), fitting=False)
        )
        return features

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]  # defined by the other base class
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags
