"""Explain the answers of the point classifiers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from sklearn.utils.validation import check_is_fitted

from sparsenet.core.effects import FeatureEffect, PointExplanation, Voter
from sparsenet.core.parted_matrix import PartedMatrix
from sparsenet.core.rows import Rows
from sparsenet.core.validation import check_features
from sparsenet.estimators.point_sources import query_points
from sparsenet.estimators.transaction import feature_names
from sparsenet.kernels.types import F64, I32, I64


class Effects(NamedTuple):
    """The parts of a score: of each entry of a point, (nnz,), of the neighbors, and the bias."""

    features: F64
    bias: float
    neighbors_score: float | None = None
    voters: list[Voter] | None = None


class ExplainMixin:
    """The method `explain`, on top of `_effects`."""

    classes_: NDArray[Any]
    n_features_in_: int
    _fitted: Any

    def _effects(self, point: Rows, label: int) -> Effects | None:
        """Return the parts of the score of one point for a label; None if training had no point with it."""
        raise NotImplementedError

    def _best_label(self, features: Rows) -> I32:
        raise NotImplementedError

    def _best_of(self, features: Rows, points: I64, labels: I32, k: int) -> Any:
        raise NotImplementedError

    def explain(self, X: Any, label: Any = None) -> PointExplanation:
        """Explain the score of a label for one row, by default the best one: what each feature adds.

        The parts sum to the score. They are exact for the wide path of a network, and for the active units of its deep
        path (with tanh: gradient times input). A tree's score is a function of sums over features, and is divided among
        the features like these. A blend adds the near training points that voted for the label.

        Parameters
        ----------
        X : matrix of one row, or the row alone
        label : one of `classes_`, optional
        """
        check_is_fitted(self)
        X = check_features(self, query_points(_one_row(X), self.n_features_in_), fitting=False)
        if X.shape[0] != 1:
            raise ValueError(f"X has {X.shape[0]} rows, and explain takes one: pass X[[0]]")
        point: Rows = self._fitted.scaling.apply(X)
        number = int(self._best_label(point)[0]) if label is None else self._number_of(label)
        probability = float(self._best_of(point, np.zeros(1, np.int64), np.array([number], np.int32), 1)[1][0, 0])
        if len(self._fitted.seen.blank(point)):
            effects = Effects(np.zeros(len(point.indices)), float(logit(np.clip(probability, 1e-12, 1 - 1e-7))))
        else:
            found = self._effects(point, number)
            if found is None:
                raise ValueError(f"label {label!r} had no training point, so there is no score to explain")
            effects = found
        parts = self._parts(X, point, effects.features)
        score = effects.bias + float(effects.features.sum()) + (effects.neighbors_score or 0.0)
        (name,) = self.classes_[[number]].tolist()
        rest = effects.neighbors_score, effects.voters or []
        return PointExplanation(name, score, probability, effects.bias, parts, *rest)

    def _number_of(self, label: Any) -> int:
        (number,) = self._fitted.target.find([label]).tolist()
        if number < 0:
            given = label.item() if isinstance(label, np.generic) else label
            raise ValueError(f"label must be one of the {len(self.classes_)} in classes_, got {given!r}")
        return int(number)

    def _parts(self, X: Any, point: Rows, scores: F64) -> list[FeatureEffect]:
        names, order, parts = feature_names(self), np.argsort(-np.abs(scores), kind="stable"), []
        for at in order[scores[order] != 0].tolist():
            column = int(point.indices[at])
            if isinstance(X, PartedMatrix):
                name, value = X.name(column), X.value(0, column)
            else:
                name, value = f"column {column}" if names is None else str(names[column]), float(X[0, column])
            parts.append(FeatureEffect(name, column, value, float(scores[at])))
        return parts


def _one_row(X: Any) -> Any:
    """Return a single row of numbers as a matrix of one row; anything else unchanged."""
    if isinstance(X, list | tuple) and len(X) and isinstance(X[0], int | float | np.number):
        return [X]
    is_row = isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype != object
    return X[None] if is_row else X
