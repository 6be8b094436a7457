"""Answers of text models: labels, probabilities and scores of raw texts, and how good they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from sparsenet.core.machine import default_threads
from sparsenet.core.ranked import is_hit, precisions
from sparsenet.core.rows import Rows
from sparsenet.core.validation import check_weights, n_jobs, optional, real
from sparsenet.engines.text.fit_text import FittedText
from sparsenet.engines.text.word_effects import Explanation, explain
from sparsenet.estimators.excluding import Allowed, best_allowed, best_only
from sparsenet.estimators.fitted_html import FittedHtmlMixin
from sparsenet.estimators.row_predictor import RowPredictor
from sparsenet.estimators.topk_methods import TopkMixin
from sparsenet.features.text import table_columns
from sparsenet.features.text.inputs import check_any, check_lengths
from sparsenet.features.text.learnt_texts import labelled_texts, learnt_texts
from sparsenet.kernels.types import F32, I32, I64
from sparsenet.metrics.ranking import RANKS


class TextAnswersMixin(TopkMixin, FittedHtmlMixin):
    """Answer queries about raw texts by a fitted model, `_fitted`."""

    _fitted: FittedText
    classes_: NDArray[Any]
    columns_: table_columns.KnownColumns | None
    n_jobs: int | None
    validation_: dict[str, float] | None

    def predict(self, X: Any, *, threshold: float | None = None) -> Any:
        """Return the best label of each text (n,); with several labels, in the form of y, all that reach `threshold`.

        X may be texts, a file, a data frame, a list of dicts or a dict, which is one row. `threshold` is the lowest
        probability of a label, by default `threshold_`. Lists of labels begin with the best one.
        """
        fitted, texts = self._checked(), self._texts(X)
        if not fitted.exclusive:
            threshold = optional(real, "threshold", threshold, 0, 1)
            return fitted.target.decode(*fitted.answers.likely(texts, threshold, self._threads()))
        if threshold is not None:
            raise ValueError(
                "threshold must be None where each text has one label: see `topk` for probabilities, and of two "
                "classes scikit-learn's FixedThresholdClassifier and TunedThresholdClassifierCV"
            )
        return fitted.target.classes[fitted.answers.winners(texts, self._threads())]

    def predict_one(self, text: str | bytes | Mapping[str, Any]) -> Any:
        """Return the best label of one text, or of a dict of columns; a linear model takes microseconds."""
        fitted = self._fitted if hasattr(self, "_fitted") else self._checked()
        if not isinstance(text, str):
            [text] = self._texts([text])
        return fitted.target.classes[fitted.answers.best(text)]

    def predictor(self, k: int = 5) -> RowPredictor:
        """Build a `RowPredictor`, which answers as `topk` does; build a new one after further training."""
        check_is_fitted(self)
        return RowPredictor(self, k=k)

    def predict_proba(self, X: Any) -> F32:
        """Return calibrated probabilities, (n, n_labels); with one label per text, each row sums to one."""
        return self._checked().answers.probabilities(self._texts(X), self._threads())

    def predict_log_proba(self, X: Any) -> F32:
        """Return the logarithm of `predict_proba`; probabilities that underflow to 0 give minus infinity."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def decision_function(self, X: Any) -> F32:
        """Return the scores of all labels (n, n_labels); with two exclusive labels, the second's alone (n,)."""
        return self._checked().answers.scores(self._texts(X), self._threads())

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of texts whose best label is right; unknown labels are misses, with a warning if all are.

        X may be a file or a data frame with the columns that the model learnt from; y is then optional.
        """
        fitted = self._checked()
        texts, truth = labelled_texts(X, y, getattr(self, "columns_", None), fitted.target)
        check_any(texts)
        check_lengths(texts, truth)
        hits = fitted.hits(texts, truth, self._threads())
        return float(np.average(hits, weights=check_weights(sample_weight, len(texts))))

    def explain(self, text: str | Mapping[str, Any], label: Any = None) -> Explanation:
        """Explain the score of a label, by default the best one: the contribution of each word and part of a word.

        `text` may be a dict with the columns of texts that the model learnt from.
        """
        return explain(self._checked(), self._texts([text])[0], label, self._threads())

    # --- within ---

    @property
    def fitted_(self) -> FittedText:
        """The engine's fitted model, a dataclass; its fields may change between versions."""
        return self._checked()

    def _best_numbers(self, X: Any, k: int, exclude: Any, only: Any) -> tuple[I32, F32, Allowed | None]:
        fitted, texts, threads = self._checked(), self._texts(X), self._threads()
        if exclude is None and only is None:
            return *fitted.answers.topk(texts, k, threads), None
        allowed = Allowed.of(exclude, only, len(texts), fitted.target)
        k = min(k, allowed.most)

        def rank(rows: I64, n: int, n_dropped: int) -> tuple[I32, F32]:
            return fitted.answers.topk([texts[row] for row in rows.tolist()], n, threads)

        def rank_among(rows: I64, labels: I32, n: int) -> tuple[I32, F32]:
            return fitted.answers.topk_among([texts[row] for row in rows.tolist()], labels, n, threads)

        if allowed.only is None:
            return *best_allowed(rank, len(texts), k, allowed), allowed
        return *best_only(rank_among, len(texts), k, allowed), allowed

    def _validated(self, held: tuple[list[str], Rows] | None, ranks: tuple[int, ...] = RANKS) -> Self:
        """Measure the model on validation texts, if any."""
        if held is not None:
            texts, truth = held
            ranked, _ = self._fitted.answers.topk(texts, min(max(ranks), len(self.classes_)), self._threads())
            found = precisions(is_hit(ranked, truth), ranks).mean(axis=0)
            self.validation_ = {f"P@{k}": float(value) for k, value in zip(ranks, found, strict=True)}
        return self

    def _texts(self, X: Any) -> list[str]:
        """Return texts; from a frame, dicts or a file, the columns that the model learnt from."""
        return learnt_texts(X, getattr(self, "columns_", None))

    def _truth(self, texts: list[str], y: Any) -> Rows:
        """Return the labels of texts as numbers, without unknown labels."""
        check_any(texts)
        truth = self._checked().target.encode(y, drop_unknown=True)
        check_lengths(texts, truth)
        return truth

    def _threads(self) -> int:
        return n_jobs(self.n_jobs) or default_threads()

    def _checked(self) -> FittedText:
        check_is_fitted(self)
        return self._fitted
