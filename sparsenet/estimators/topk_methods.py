"""The methods `topk`, `topk_numbers`, `predict_topk` and `indicator` of every classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils.validation import check_is_fitted

from sparsenet.core.rows import as_matrix
from sparsenet.core.validation import integer
from sparsenet.estimators.excluding import Allowed
from sparsenet.kernels.types import F32, I32


class TopkMixin:
    """Return the best labels, on top of `_best_numbers`."""

    classes_: NDArray[Any]
    _fitted: Any

    def _best_numbers(self, X: Any, k: int, exclude: Any, only: Any) -> tuple[I32, F32, Allowed | None]:
        """Return label numbers and probabilities, padded with -1 and 0, and the validated restrictions, if any."""
        raise NotImplementedError

    def topk_numbers(self, X: Any, k: int = 5, *, exclude: Any = None, only: Any = None) -> tuple[I32, F32]:
        """Return `topk` with positions in `classes_` instead of classes, and -1 if no label is left."""
        return self._numbered(X, k, exclude, only)[:2]

    def topk(self, X: Any, k: int = 5, *, exclude: Any = None, only: Any = None) -> tuple[NDArray[Any], F32]:
        """Return the k best of `classes_` and their probabilities, (n, k) each, best first; k is at most n_labels.

        Each label has its own probability, even with one label per row; only rows of `predict_proba` then sum to one.

        Parameters
        ----------
        X : as in `fit`
        k : int
            Number of labels; at most the number that `only` allows in every row.
        exclude : labels to leave out, such as items already bought
            Names of labels: one list for all rows, or a list with a list for each row. Or a mask, (n, n_labels) or
            (n_labels,) for all rows, sparse or dense, which is nonzero for these labels. Numbers of a mask's shape are
            a mask; booleans always are, and sets never.
        only : labels to choose from, such as items in stock
            In the same forms. Up to 4,096 labels are all scored. For more, networks still score all, and trees and
            blends score the labels that a beam search reaches.
        """
        labels, probabilities, allowed = self._numbered(X, k, exclude, only)
        if allowed is not None:
            advice = "use predict_topk, whose rows may be shorter, or topk_numbers"
            if (error := allowed.error(labels, advice)) is not None:
                raise error
        return self.classes_[labels], probabilities

    def predict_topk(self, X: Any, k: int = 5, *, exclude: Any = None, only: Any = None) -> csr_array:
        """Return the probabilities of the k best labels, sparse (n, n_labels); the entries of a row are best first."""
        labels, probabilities = self.topk_numbers(X, k, exclude=exclude, only=only)
        is_left = labels >= 0
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(is_left.sum(axis=1))))
        return csr_array((probabilities[is_left], labels[is_left], indptr), shape=(len(labels), len(self.classes_)))

    def indicator(self, y: Any) -> csr_array:
        """Convert y for `sparsenet.metrics` to an indicator, (n, n_labels), with a column for each of `classes_`.

        Unknown labels are dropped, with a warning if all labels are unknown.
        """
        check_is_fitted(self)
        return as_matrix(self._fitted.target.encode(y, drop_unknown=True))

    def _numbered(self, X: Any, k: int, exclude: Any, only: Any) -> tuple[I32, F32, Allowed | None]:
        check_is_fitted(self)
        return self._best_numbers(X, min(integer("k", k, 1), len(self.classes_)), exclude, only)
