"""What a fitted classifier predicts, in the forms that scikit-learn and people with a million labels expect."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sparsenet._machine import default_threads
from sparsenet._validation import check_features, integer
from sparsenet.batches import Rows
from sparsenet.estimators import inference
from sparsenet.estimators.fitting import Fitted, check_points
from sparsenet.estimators.predictor import Predictor
from sparsenet.model import Network


class PredictionMixin:
    """The methods of `ExtremeClassifier` that only read the model."""

    network_: Network
    classes_: NDArray[Any]
    n_features_in_: int
    n_jobs: Any
    _fitted: Fitted

    def _threads(self) -> int:
        return default_threads() if self.n_jobs in (None, -1) else int(self.n_jobs)

    def predict(self, X: Any) -> Any:
        """Return the best class of each row (n,), or its labels of a probability above one half in the form of y.

        With ``loss="softmax"`` the probabilities of a row sum to one, so at most one of them exceeds a half.
        """
        features = self._features(X)
        target = self._fitted.target
        if target.kind == "single":
            labels, _ = self.network_.topk(features, 1, self._threads())
            return target.classes[labels[:, 0]]
        return target.decode(*inference.above_half(self.network_, features, self._threads()))

    def predict_topk(self, X: Any, k: int = 5) -> csr_array:
        """Return the probabilities of the k best labels, sparse (n, n_labels); entries of a row stand best first."""
        labels, probabilities = self.topk_numbers(X, k)
        n, k = labels.shape
        shape = (n, len(self.classes_))
        return csr_array((probabilities.reshape(-1), labels.reshape(-1), np.arange(n + 1) * k), shape=shape)

    def topk(self, X: Any, k: int = 5) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Return the k best of `classes_` and their probabilities, (n, k) each, best first; k is cut to n_labels."""
        labels, probabilities = self.topk_numbers(X, k)
        return self.classes_[labels], probabilities

    def topk_numbers(self, X: Any, k: int = 5) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Do the same as `topk` with positions in `classes_` instead of the classes."""
        features = self._features(X)
        k = min(integer("k", k, 1), len(self.classes_))
        return inference.topk(self.network_, features, k, self._threads())

    def predictor(
        self,
        k: int = 5,
        *,
        candidates: int = 100,
        postings: int = 2048,
        recall: float | None = None,
        sample: Any = None,
    ) -> Predictor:
        """Make ready for answers in a fraction of a millisecond, from a shortlist instead of all labels.

        The wide path, read by feature, chooses `candidates` labels for each point, and only these are scored exactly:
        the more, the slower, and the surer that the best are among them, as `Predictor.recall` measures. Each feature
        can name `postings` labels. With a `recall`, such as 0.95, and a `sample` of a few hundred points, such as a
        validation set, it can name no more than that takes, and answers come sooner.
        """
        check_is_fitted(self)
        return Predictor(self, k=k, candidates=candidates, postings=postings, recall=recall, sample=sample)

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """Return the probability of every label, dense (n, n_labels).

        With one label a row, and under softmax, those of a row sum to one; else each label has its own. Where that
        would be absurdly large, a ValueError points to `predict_topk`.
        """
        features = self._features(X)
        scores = inference.dense_scores(self.network_, features, self._threads())
        exclusive = self._fitted.target.kind == "single"
        return inference.dense_probabilities(self.network_, scores, exclusive=exclusive)

    def decision_function(self, X: Any) -> NDArray[np.float32]:
        """Return the scores behind `predict`, dense (n, n_labels); for two classes, one label a row, log odds (n,)."""
        features = self._features(X)
        scores = inference.dense_scores(self.network_, features, self._threads())
        if self._fitted.target.kind == "single" and len(self.classes_) == 2:
            return inference.log_odds(self.network_, scores)
        return scores

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of rows whose best label is right: accuracy for one label a row, P@1 for several."""
        features = self._features(X)
        _, truth = check_points(features, self._fitted.target.encode(y, drop_unknown=True))
        best, _ = self.network_.topk(features, 1, self._threads())
        hits = inference.is_hit(best[:, 0], truth)
        return float(np.average(hits, weights=None if sample_weight is None else np.asarray(sample_weight)))

    def _features(self, X: Any) -> Rows:
        check_is_fitted(self)
        return self._fitted.scaling.apply(check_features(self, X, fitting=False))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]  # of what it is mixed into
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags
