"""A linear model of texts: one-vs-rest weights, 8 bits each, and what turns scores into probabilities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.batches import Rows

F32 = NDArray[np.float32]
I8 = NDArray[np.int8]
#: A label of a block that is there to fill it up: no point moves it.
_NO_COST = 1e30


@dataclass(frozen=True, kw_only=True)
class LinearRules:
    """How linear models are trained.

    Attributes
    ----------
    cost : float
        Of an error, against the length of the weights: more fits the training texts more closely.
    epochs, tolerance : when a label's training ends.
    """

    cost: float = 1.0
    epochs: int = 10
    tolerance: float = 0.1


def train(
    points: Rows,
    labels: Rows,
    rules: LinearRules,
    seed: int,
    threads: int,
    *,
    costs: F32 | None = None,
    start: F32 | None = None,
) -> F32:
    """Return the weights of each label, (n_features + 1, n_labels), the last row the biases.

    `costs` (n_labels,) multiplies the cost of the positive points of a label; `start` is pulled towards, not zero.
    """
    n_labels, width = labels.width, block_width(labels.width)
    n_blocks = -(-n_labels // width)
    weight = np.zeros((n_blocks, points.width + 1, width), np.float32)
    if start is not None:
        padded = np.zeros((points.width + 1, n_blocks * width), np.float32)
        padded[:, :n_labels] = start
        weight[...] = padded.reshape(points.width + 1, n_blocks, width).transpose(1, 0, 2)
    negative = np.full(n_blocks * width, _NO_COST, np.float32)
    negative[:n_labels] = 0.5 / rules.cost
    positive = negative.copy()
    if costs is not None:
        positive[:n_labels] /= costs
    passes = np.zeros(n_blocks, np.int32)
    about_points = (points.indptr, points.indices, points.data, squares(points))
    about_labels = (labels.indptr, labels.indices, 0, positive, negative)
    about_training = (rules.epochs, rules.tolerance, seed, weight, passes, threads)
    arguments: tuple[Any, ...] = (*about_points, *about_labels, *about_training)
    kernels.dual_train(*arguments)
    return np.ascontiguousarray(weight.transpose(1, 0, 2).reshape(points.width + 1, -1)[:, :n_labels])


def block_width(n_labels: int) -> int:
    """Return how many labels are trained at a time, one of those that the kernel has."""
    return next((width for width in (1, 4, 8) if n_labels <= width), 16)


def squares(points: Rows) -> F32:
    """Return the squared length of each point with a constant 1."""
    sums = np.zeros(len(points.data) + 1)
    np.cumsum(np.square(points.data, dtype=np.float64), out=sums[1:])
    return (1 + sums[points.indptr[1:]] - sums[points.indptr[:-1]]).astype(np.float32)


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Weights of 8 bits with a factor for each feature, biases, and the steepness of probabilities.

    Attributes
    ----------
    matrix : shape (n_features, n_columns), int8
    factors : shape (n_features,)
    bias : shape (n_columns,)
    steepness, shift : float
        A score s has the log odds ``steepness * s + shift``; over exclusive labels, the softmax of these.
    """

    matrix: I8
    factors: F32
    bias: F32
    steepness: float = 2.0
    shift: float = 0.0

    @classmethod
    def rounded(cls, weight: F32) -> LinearModel:
        """Round weights with biases in the last row to 8 bits."""
        largest = np.abs(weight[:-1]).max(axis=1, initial=0)
        factors = (largest / 127).astype(np.float32)
        inverse = np.divide(1, factors, out=np.zeros_like(factors), where=factors > 0)
        matrix = np.rint(weight[:-1] * inverse[:, None]).astype(np.int8)
        return cls(matrix, factors, weight[-1].copy())

    def weights(self) -> F32:
        """Return the weights as they were before they were rounded, nearly."""
        return np.concatenate([self.matrix * self.factors[:, None], self.bias[None]]).astype(np.float32)

    def calibrated(self, steepness: float, shift: float) -> LinearModel:
        """Return the same model with other probabilities."""
        return replace(self, steepness=steepness, shift=shift)

    def scores(self, points: Rows, threads: int) -> F32:
        """Score points: (n, n_columns)."""
        out = np.empty((len(points), len(self.bias)), np.float32)
        dense = np.ascontiguousarray(self.matrix * self.factors[:, None])
        kernels.csr_matmul(points.indptr, points.indices, points.data, dense, out, threads)
        out += self.bias
        return out
