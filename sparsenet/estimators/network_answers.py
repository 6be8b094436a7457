"""The prediction methods of `ExtremeClassifier`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from sparsenet.core.rows import Rows
from sparsenet.engines.network import inference
from sparsenet.engines.network.fit_network import FittedNetwork
from sparsenet.engines.network.model import Network
from sparsenet.estimators.answers import AnswersMixin
from sparsenet.estimators.predictor import Predictor


class PredictionMixin(AnswersMixin):
    """Prediction methods of `ExtremeClassifier`, which only read the model."""

    network_: Network
    _fitted: FittedNetwork
    _spare = 64  # all labels are scored each time, which takes longer than to rank some more

    def _best_by_features(
        self, features: Rows, k: int, unwanted: int = 0
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        return inference.topk(self.network_, features, k, self._threads())

    def _best_label(self, features: Rows) -> NDArray[np.int32]:
        # Skip the probability, which may take another pass over all labels.
        labels, _ = self.network_.topk(features, 1, self._threads())
        self._fitted.seen.answer_blank(features, labels)
        return labels[:, 0]

    def predictor(
        self,
        k: int = 5,
        *,
        candidates: int = 100,
        postings: int = 2048,
        recall: float | None = None,
        sample: Any = None,
    ) -> Predictor:
        """Build a `Predictor`, which answers in a fraction of a millisecond from a shortlist of labels.

        The wide path chooses `candidates` labels for each point, and only these are scored exactly. More candidates
        are slower, but increase the recall, which `Predictor.recall` measures. Each feature proposes at most `postings`
        labels. Given a `recall`, such as 0.95, and a `sample` of a few hundred points, such as a validation set, the
        fewest postings that reach the recall are used, which is faster.
        """
        check_is_fitted(self)
        return Predictor(self, k=k, candidates=candidates, postings=postings, recall=recall, sample=sample)

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Return the probability of every label, dense (n, n_labels).

        Rows sum to one with one label a row and under softmax; otherwise each label has an independent probability.
        Probabilities are calibrated if training has a hold-out: see `hidden`. If the matrix would be too large,
        ValueError suggests `predict_topk`.
        """
        features = self._features(X)
        scores = inference.dense_scores(self.network_, features, self._threads())
        exclusive = self._fitted.target.kind == "single"
        return self._with_blank(features, inference.dense_probabilities(self.network_, scores, exclusive=exclusive))

    def decision_function(self, X: Any) -> NDArray[np.float32]:
        """Return the scores behind `predict`, dense (n, n_labels), or the log-odds, (n,), for two classes.

        One or two rows are summed in a different order than more rows, so the last bits may differ.
        """
        features = self._features(X)
        scores = inference.dense_scores(self.network_, features, self._threads())
        scores[self._fitted.seen.blank(features)] = inference.scores_of(self.network_, self._fitted.seen.shares())
        if self._fitted.target.kind == "single" and len(self.classes_) == 2:
            return inference.log_odds(self.network_, scores)
        return scores
