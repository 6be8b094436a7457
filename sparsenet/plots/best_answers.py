"""The data behind the pictures: the best label of each point and its true labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline


@dataclass(frozen=True)
class BestAnswers:
    """The best label of each point, its probability, and the true labels.

    Attributes
    ----------
    truth : sparse matrix (n, n_labels)
    best : shape (n,), numbers of labels
    probability : shape (n,)
    names : sequence of n_labels
    """

    truth: Any
    best: NDArray[np.int32]
    probability: NDArray[np.float32]
    names: Sequence[Any]

    @classmethod
    def of(cls, model: Any, X: Any, y: Any) -> BestAnswers:
        """Predict with a fitted classifier, or a pipeline that ends in one. Labels that it does not know are misses."""
        model, X = _last_of(model, X)
        best = model.predict_topk(X, 1)
        rows = model.fitted_.target.encode(y, drop_unknown=True)  # like `score`
        if len(rows) != best.shape[0]:
            raise ValueError(f"y has {len(rows)} entries for {best.shape[0]} points: it must have one for each")
        truth = sparse.csr_array((np.ones(len(rows.indices)), rows.indices, rows.indptr), shape=best.shape)
        return cls(truth, best.indices.astype(np.int32), best.data, model.classes_.tolist())

    def __post_init__(self) -> None:
        if len(self.best) == 0:
            raise ValueError("there are no points, so there is nothing to draw")

    @property
    def hits(self) -> NDArray[np.bool_]:
        """Whether each best label was right."""
        return np.asarray(self.truth[np.arange(len(self.best)), self.best]).reshape(-1) > 0

    @property
    def exclusive(self) -> bool:
        """Whether no point has several labels."""
        return bool(np.diff(self.truth.indptr).max(initial=0) <= 1)

    @property
    def n_without_label(self) -> int:
        """Number of points without a label that the model knows."""
        return int(np.count_nonzero(np.diff(self.truth.indptr) == 0))

    def confusions(self) -> Any:
        """Count points by their true label (rows) and best label (columns), sparse (n_labels, n_labels)."""
        if not self.exclusive:
            raise ValueError("confusions need one label per point: with several labels, none is mistaken for another")
        known = np.diff(self.truth.indptr) == 1
        pairs = (self.truth.indices, self.best[known])
        width = len(self.names)
        return sparse.coo_array((np.ones(len(pairs[0])), pairs), shape=(width, width)).tocsr()


def _last_of(model: Any, X: Any) -> tuple[Any, Any]:
    """Return the classifier at the end of a pipeline, and X as the steps before it transform it."""
    while isinstance(model, Pipeline):
        X, model = model[:-1].transform(X) if len(model) > 1 else X, model[-1]
    if not hasattr(model, "predict_topk"):
        raise TypeError(
            "model must be a fitted classifier of sparsenet, or a Pipeline that ends in one, got "
            f"{type(model).__name__}"
        )
    return model, X
