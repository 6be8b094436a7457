"""What a label's score is to gain by how often the label is: measured on labels of points held out.

A network sees a label among the negatives of the batches that hold it and of a few others, and a rare one too seldom to
learn that it is rare. Neighbours and trees have biases of their own. On most data they are small, or even out; where
they do not, answers lose more by them than by anything else (bench/notes/networks.md, How often labels are).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from sparsenet.batches import precisions

F64 = NDArray[np.float64]
Bools = NDArray[np.bool_]
Derivatives = Callable[[F64], tuple[F64, F64]]
RANKS = (1, 3, 5)
#: Where fewer labels are right nothing is told.
FEW_TRUE = 100
#: A score is to gain no more than so many times the logarithm of a label's points, nor to lose more.
MOST = 1.0
#: What is believed before anything is seen counts as much as so many labels of the usual spread.
FIRMNESS = 1.0
#: Newton's method ends after so many steps, and no step of it is longer than that, on scores of unit spread.
MOST_STEPS, LONGEST_STEP, CLOSE_ENOUGH = 60, 1.0, 1e-6
#: Scores that are worth less than so much of their spread tell nothing, nor what is to be added to them.
LEAST_STEEPNESS = 0.05


def logarithms(counts: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the logarithm of how often each label is, of those that never are as of those that are once."""
    return np.log(np.maximum(counts, 1)).astype(np.float32)


def worth(scores: NDArray[np.float32], right: Bools, log_counts: NDArray[np.float32]) -> float:
    """Return what times the logarithm of a label's points is to be added to its score; all are (n_points, n_labels).

    It is asked twice: how probable each label is by itself, and which of those of a point are right. Each way is led
    astray by something else - the one by points of which nothing is known, the other by labels that go together - so
    that no more is added than both say, the second less its standard error, and nothing that makes these labels' P@1
    worse, or the mean of P@1, P@3 and P@5.

    Examples
    --------
    Scores that say too little of frequent labels, by half the logarithm of their counts:

    >>> rng = np.random.default_rng(0)
    >>> log_counts = rng.exponential(2, (2000, 16)).astype(np.float32)
    >>> scores = rng.normal(-4, 2, log_counts.shape).astype(np.float32)
    >>> right = rng.random(scores.shape) < expit(scores + 0.5 * log_counts)
    >>> 0.4 < worth(scores, right, log_counts) < 0.5
    True
    """
    spread, differs = float(np.std(scores)), float(np.std(log_counts))
    if np.count_nonzero(right) < FEW_TRUE or not 0 < spread < np.inf or differs == 0:
        return 0.0
    inputs = np.stack((scores / spread, log_counts / differs)).astype(np.float64)
    inputs -= inputs.mean(axis=(1, 2), keepdims=True)
    alone, _ = _fitted(_by_itself(inputs, right), 3)
    among, deviation = _fitted(_among_those_of_its_point(inputs, right), 2)
    sure = np.sign(among) * max(abs(among) - deviation, 0.0)
    if alone * sure <= 0:
        return 0.0
    found = float(np.clip(min(alone, sure, key=abs) * spread / differs, -MOST, MOST))
    found = round(found, 3)  # last bits, in which processors differ, would end up in every score
    before, after = (_answered(each, right) for each in (scores, scores + np.float32(found) * log_counts))
    return found if after[0] >= before[0] and after.mean() >= before.mean() else 0.0


def _answered(scores: NDArray[np.float32], right: Bools) -> F64:
    """Return the means of P@1, P@3 and P@5 by such scores."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, : RANKS[-1]]
    return np.asarray(precisions(np.take_along_axis(right, order, axis=1), RANKS).mean(axis=0))


def _by_itself(inputs: F64, right: Bools) -> Derivatives:
    """Return the derivatives of how improbable labels are, each by itself, by two factors and a shift."""
    x = np.vstack((inputs.reshape(2, -1), np.ones((1, right.size))))
    truth = right.reshape(-1).astype(np.float64)

    def derivatives(at: F64) -> tuple[F64, F64]:
        p = expit(at @ x)
        return x @ (p - truth), (x * (p * (1 - p))) @ x.T

    return derivatives


def _among_those_of_its_point(inputs: F64, right: Bools) -> Derivatives:
    """Return the derivatives of how improbable right labels are, among all of their points, by two factors."""
    some = right.any(axis=1)
    x, truth = inputs[:, some], right[some].astype(np.float64)
    n_true = truth.sum(axis=1, keepdims=True)

    def derivatives(at: F64) -> tuple[F64, F64]:
        p = n_true * softmax(np.tensordot(at, x, 1), axis=1)
        off = x - (p * x).sum(axis=2, keepdims=True) / n_true
        slope = (x * (p - truth)).sum(axis=(1, 2))
        return slope, np.einsum("ipl,jpl->ij", off * p, off)

    return derivatives


def _fitted(derivatives: Derivatives, n: int) -> tuple[float, float]:
    """Return what the second factor is to the first, by Newton's method, and its standard error."""
    at, believed = np.eye(n)[0], np.eye(n)[0]
    for _ in range(MOST_STEPS):
        slope, curvature = derivatives(at)
        curvature = curvature + FIRMNESS * np.eye(n)
        step = np.linalg.solve(curvature, slope + FIRMNESS * (at - believed))
        longest = float(np.abs(step).max())
        at = at - step * min(1.0, LONGEST_STEP / max(longest, CLOSE_ENOUGH))
        if longest < CLOSE_ENOUGH:
            break
    if at[0] < LEAST_STEEPNESS:
        return 0.0, 0.0
    return float(at[1] / at[0]), float(np.sqrt(np.linalg.inv(curvature)[1, 1]) / at[0])
