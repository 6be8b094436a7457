"""Answers of networks: labels, probabilities, scores and explanations of points."""

from __future__ import annotations

from typing import Any

from sparsenet.core.rows import Rows
from sparsenet.engines.network import inference
from sparsenet.engines.network.fit_network import FittedNetwork
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.network_effects import network_effects
from sparsenet.estimators.answers import AnswersMixin
from sparsenet.estimators.explaining import Effects
from sparsenet.kernels.types import F32, I32


class NetworkAnswersMixin(AnswersMixin):
    """Answer queries by a fitted network, `_fitted`."""

    _fitted: FittedNetwork
    _spare = 64  # all labels are scored each time, which takes longer than to rank some more
    network_: Network

    def _best_by_features(self, features: Rows, k: int, n_dropped: int = 0) -> tuple[I32, F32]:
        return inference.topk(self.network_, features, k, self._threads())

    def _best_of_by_features(self, features: Rows, labels: I32, k: int) -> tuple[I32, F32]:
        return inference.topk_among(self.network_, features, labels, k, self._threads())

    def _effects(self, point: Rows, label: int) -> Effects:
        return Effects(*network_effects(self.network_, point, label))

    def _best_label(self, features: Rows) -> I32:
        # Skip the probability, which may take another pass over all labels.
        labels, _ = self.network_.topk(features, 1, self._threads())
        self._fitted.seen.answer_blank(features, labels)
        return labels[:, 0]

    def predict_proba(self, X: Any) -> F32:
        """Return the probability of every label, dense (n, n_labels).

        Rows sum to one with one label per row and under softmax; otherwise each label has an independent probability.
        Probabilities are calibrated if training has a hold-out: see `hidden`. If the matrix would be too large,
        ValueError suggests `predict_topk`.
        """
        features = self._features(X)
        scores = inference.dense_scores(self.network_, features, self._threads())
        exclusive = self._fitted.target.kind == "single"
        return self._with_blank(features, inference.dense_probabilities(self.network_, scores, exclusive=exclusive))

    def decision_function(self, X: Any) -> F32:
        """Return the scores behind `predict`, dense (n, n_labels), or the log-odds, (n,), for two classes.

        One or two rows are summed in a different order than more rows, so the last bits may differ.
        """
        features = self._features(X)
        scores = inference.dense_scores(self.network_, features, self._threads())
        scores[self._fitted.seen.blank(features)] = inference.scores_of(self.network_, self._fitted.seen.shares())
        if self._fitted.target.kind == "single" and len(self.classes_) == 2:
            return inference.log_odds(self.network_, scores)
        return scores
