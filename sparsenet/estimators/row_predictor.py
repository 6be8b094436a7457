"""Answers to one text or one row of a table after another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from sparsenet.core.validation import integer
from sparsenet.estimators.predictor import set_of, with_own_parameters
from sparsenet.kernels.types import F32


class RowPredictor:
    """Predict the k best labels of a text or of a row of a table, or of many, as `topk` does.

    `TextClassifier.predictor` and `TableClassifier.predictor` create it. Several threads may use one at once. Later
    changes to the classifier's parameters do not reach it; create a new one after further training.

    Parameters
    ----------
    model : TextClassifier or TableClassifier
        A fitted classifier.
    k : int
        Number of labels to return.

    Examples
    --------
    >>> from sparsenet import TextClassifier
    >>> texts = ["play some jazz", "play the next song", "will it rain", "is it cold outside"]
    >>> predictor = TextClassifier(random_state=0).fit(texts, ["music", "music", "rain", "rain"]).predictor(k=1)
    >>> classes, probabilities = predictor.one("play a song")
    >>> classes.tolist()
    ['music']
    """

    def __init__(self, model: Any, *, k: int) -> None:
        self.k = min(integer("k", k, 1), len(model.classes_))
        self._model, self._alone = with_own_parameters(model), with_own_parameters(model)
        self._alone.n_jobs = 1
        self._known = frozenset(model.classes_.tolist())

    def __call__(self, X: Any, *, exclude: Any = None, only: Any = None) -> tuple[NDArray[Any], F32]:
        """Return the k best classes of each row and their probabilities, (n, k) each; arguments are as in `topk`."""
        classes, probabilities = self._model.topk(X, self.k, exclude=exclude, only=only)
        return classes, probabilities

    def one(
        self, row: Any, *, exclude: Iterable[Any] = (), only: Iterable[Any] | None = None
    ) -> tuple[NDArray[Any], F32]:
        """Return the top k and their probabilities, (k,) each, for one text or dict of columns, on the calling thread.

        `exclude` lists labels to leave out; unknown labels are ignored. `only` lists the labels to choose from, which
        must be known.
        """
        excluded = set_of("exclude", exclude) & self._known
        allowed = None if only is None else set_of("only", only)
        classes, probabilities = self._alone.topk([row], self.k, exclude=excluded or None, only=allowed)
        return classes[0], probabilities[0]
