"""Softmax regression on sparse features by L-BFGS: the exact linear model for few classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import logsumexp, softmax
from threadpoolctl import threadpool_limits

from sparsenet.core.machine import available_memory
from sparsenet.core.memory import in_words
from sparsenet.core.rows import Rows, as_matrix
from sparsenet.core.validation import integer
from sparsenet.kernels.types import F32, F64, I32, Arrays
from sparsenet.storage.format import ModelError

#: Weights, gradients and the last ten steps of L-BFGS.
_COPIES = 25


@dataclass(frozen=True)
class LogisticRules:
    """How softmax regression is trained.

    Attributes
    ----------
    costs : tuple of float
        Costs of an error against half the squared norm of the weights, ascending.
    usual_cost : float
        The cost without held-out points.
    steps : int
        Maximum steps of L-BFGS for each cost.
    """

    costs: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0)
    usual_cost: float = 1.0
    steps: int = 200


@dataclass(frozen=True, eq=False)
class FittedLogistic:
    """Weights, (n_features, n_labels), biases, (n_labels,), and the cost that they were trained with."""

    weights: F32
    bias: F32
    cost: float

    def probabilities(self, points: Rows) -> F32:
        """Return the probability of each label, (n, n_labels)."""
        return np.asarray(softmax(self.scores(points), axis=1))

    def scores(self, points: Rows) -> F32:
        """Return the score of each label, (n, n_labels)."""
        return np.asarray(as_matrix(points) @ self.weights + self.bias, np.float32)

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return arrays and JSON for `of_arrays`."""
        return {"weights": self.weights, "bias": self.bias}, {"cost": self.cost}

    @classmethod
    def of_arrays(cls, arrays: Arrays, about: Mapping[str, Any], n_features: int) -> FittedLogistic:
        """Restore and check a model."""
        weights, bias = arrays["weights"], arrays["bias"]
        shape = (n_features, integer("n_labels", len(bias), 1))
        if weights.dtype != np.float32 or bias.dtype != np.float32 or weights.shape != shape or bias.ndim != 1:
            raise ModelError(f"the weights of softmax regression must be float32 {shape}, got {weights.shape}")
        if not (np.isfinite(weights).all() and np.isfinite(bias).all()):
            raise ModelError("the weights of softmax regression hold NaN or infinity")
        return cls(weights, bias, float(about["cost"]))


def fit(
    points: Rows, labels: I32, n_labels: int, rules: LogisticRules, costs: Iterable[float]
) -> Iterator[FittedLogistic]:
    """Train softmax regression with one cost after the other; each starts from the weights of the one before.

    Parameters
    ----------
    labels : ndarray of shape (n,), int32
        One label for each point.
    """
    _check_memory(points, n_labels)
    x = as_matrix(points).astype(np.float64)
    weights = np.zeros((points.width + 1, n_labels))
    for cost in costs:
        weights = _minimised(x, labels, weights, cost, rules.steps)
        yield FittedLogistic(weights[:-1].astype(np.float32), weights[-1].astype(np.float32), cost)


def _check_memory(points: Rows, n_labels: int) -> None:
    """Refuse to train if the steps of L-BFGS, or the scores of all rows, do not fit into memory."""
    needed = 8 * n_labels * (_COPIES * points.width + 3 * len(points)) + 24 * len(points.indices)
    available = available_memory()
    if needed > available:
        found = f"{in_words(needed)}, and {in_words(available)} are available"
        size = f"{points.width:,} features x {n_labels:,} classes"
        raise MemoryError(f"softmax regression of {size} needs about {found}: use method='blend'")


def _minimised(x: csr_array, labels: I32, start: F64, cost: float, steps: int) -> F64:
    """Return the weights, with biases in the last row, that minimise the log loss plus the squared norm."""
    n, transposed, row = x.shape[0], x.T.tocsr(), np.arange(x.shape[0])
    penalty = 1 / (cost * n)

    def loss(flat: F64) -> tuple[float, F64]:
        weights = flat.reshape(start.shape)
        scores = x @ weights[:-1] + weights[-1]
        total = logsumexp(scores, axis=1)
        value = float((total - scores[row, labels]).mean()) + 0.5 * penalty * float(np.square(weights[:-1]).sum())
        off = np.exp(scores - total[:, None])
        off[row, labels] -= 1
        off /= n
        gradient = np.empty_like(weights)
        gradient[:-1] = transposed @ off + penalty * weights[:-1]
        gradient[-1] = off.sum(axis=0)
        return value, gradient.reshape(-1)

    # A smaller fall of the loss changes no answer.
    with threadpool_limits(1, user_api="blas"):  # how a dot product is split over threads shows in the last bits
        found = minimize(loss, start.reshape(-1), jac=True, method="L-BFGS-B", options={"maxiter": steps, "ftol": 1e-6})
    return np.asarray(found.x).reshape(start.shape)
