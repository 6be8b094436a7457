"""Fit the weight of a label's log count in its score, on labels of held-out points.

A network meets a rare label in too few batches to learn that it is rare; neighbors and trees have biases of their own
(bench/notes/networks.md, How often labels are).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax

from sparsenet.core.ranked import best_first, precisions
from sparsenet.kernels.types import F64, Bools
from sparsenet.selection.newton import LossTerms, newton

LossFunction = Callable[[F64], LossTerms]
RANKS = (1, 3, 5)
#: With fewer true labels nothing is fitted.
FEW_TRUE = 100


def log_counts_of(counts: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return `log(max(count, 1))` of each label."""
    return np.log(np.maximum(counts, 1)).astype(np.float32)


def fit_log_count_weight(
    scores: NDArray[np.float32],
    right: Bools,
    log_counts: NDArray[np.float32],
    *,
    limit: float = 1.0,
    precision: float = 1.0,
    max_steps: int = 60,
) -> float:
    """Return the factor of a label's log count to add to its score; all arrays are (n_points, n_labels).

    Two logistic fits estimate it: each label by itself, and the labels of a point against each other. The first is
    biased by points without known features, the second by labels that occur together. The result is the smaller of
    both, the second less its standard error. It is 0 if it would lower P@1 or the mean of P@1, P@3 and P@5.

    Parameters
    ----------
    limit : float
        Bound of the absolute value.
    precision : float
        Precision of the prior, in which the score has weight 1 and the log count 0.

    Examples
    --------
    Scores that lack half the log count:

    >>> rng = np.random.default_rng(0)
    >>> log_counts = rng.exponential(2, (2000, 16)).astype(np.float32)
    >>> scores = rng.normal(-4, 2, log_counts.shape).astype(np.float32)
    >>> right = rng.random(scores.shape) < expit(scores + 0.5 * log_counts)
    >>> 0.4 < fit_log_count_weight(scores, right, log_counts) < 0.5
    True
    """
    if np.count_nonzero(right) < FEW_TRUE or not np.isfinite(scores).all():
        return 0.0
    clipped = _clip_outliers(scores)
    spread, count_spread = float(np.std(clipped)), float(np.std(log_counts))
    if not 0 < spread < np.inf or count_spread == 0:
        return 0.0
    inputs = np.stack((clipped / spread, log_counts.astype(np.float64) / count_spread))
    inputs -= inputs.mean(axis=(1, 2), keepdims=True)
    alone, _ = _ratio(_binary(inputs, right), 3, precision, max_steps)
    among, deviation = _ratio(_softmax(inputs, right), 2, precision, max_steps)
    found = float(np.clip(_smaller(alone, among, deviation) * spread / count_spread, -limit, limit))
    found = round(found, 3)  # the last bits differ among CPUs and would enter every score
    before, after = (_precisions(each, right) for each in (scores, scores + np.float32(found) * log_counts))
    return found if after[0] >= before[0] and after.mean() >= before.mean() else 0.0


def _clip_outliers(scores: NDArray[np.float32], share: float = 0.01) -> F64:
    """Clip scores to the range of nearly all points: one wild point must not dominate."""
    exact = scores.astype(np.float64)
    return np.clip(exact, np.quantile(exact.min(axis=1), share), np.quantile(exact.max(axis=1), 1 - share))


def _smaller(alone: float, among: float, deviation: float) -> float:
    """Return the smaller estimate, the second less its standard error; 0 if the signs differ."""
    sure = math.copysign(max(abs(among) - deviation, 0.0), among)
    return min(alone, sure, key=abs) if alone * sure > 0 else 0.0


def _precisions(scores: NDArray[np.float32], right: Bools) -> F64:
    """Return the means of P@1, P@3 and P@5."""
    (ranked,) = best_first(scores, RANKS[-1], right)
    return np.asarray(precisions(ranked, RANKS).mean(axis=0))


def _binary(inputs: F64, right: Bools) -> LossFunction:
    """Return the loss of each label by itself, with two weights and a shift."""
    x = np.vstack((inputs.reshape(2, -1), np.ones((1, right.size))))
    truth = right.reshape(-1).astype(np.float64)

    def loss(weights: F64) -> LossTerms:
        z = np.einsum("i,il->l", weights, x)
        p = expit(z)
        gradient = np.einsum("il,l->i", x, p - truth)
        hessian = np.einsum("il,jl->ij", x * (p * (1 - p)), x)
        return LossTerms(float((np.logaddexp(0, z) - truth * z).sum()), gradient, hessian)

    return loss


def _softmax(inputs: F64, right: Bools) -> LossFunction:
    """Return the loss of the true labels in a softmax over the labels of a point, with two weights."""
    some = right.any(axis=1)
    x, truth = inputs[:, some], right[some].astype(np.float64)
    n_true = truth.sum(axis=1, keepdims=True)

    def loss(weights: F64) -> LossTerms:
        z = np.einsum("i,ipl->pl", weights, x)
        p = n_true * softmax(z, axis=1)
        off = x - (p * x).sum(axis=2, keepdims=True) / n_true
        value = (n_true[:, 0] * logsumexp(z, axis=1) - (truth * z).sum(axis=1)).sum()
        return LossTerms(float(value), (x * (p - truth)).sum(axis=(1, 2)), np.einsum("ipl,jpl->ij", off * p, off))

    return loss


def _ratio(
    loss: LossFunction, n: int, precision: float = 1.0, max_steps: int = 60, least_weight: float = 0.05
) -> tuple[float, float]:
    """Return the second weight over the first and its standard error; zeros if the scores carry almost no weight."""
    at = newton(loss, np.eye(n)[0], precision, max_steps=max_steps)
    _, gradient, hessian = loss(at)
    gradient, hessian = gradient + precision * (at - np.eye(n)[0]), hessian + precision * np.eye(n)
    if at[0] < least_weight or np.abs(np.linalg.solve(hessian, gradient)).max() > 1e-3:  # not converged
        return 0.0, 0.0
    return float(at[1] / at[0]), float(np.sqrt(np.linalg.inv(hessian)[1, 1]) / at[0])
