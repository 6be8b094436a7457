"""What a label's score is to gain by how often the label is: measured on labels of points held out.

A network sees a label among the negatives of the batches that hold it and of a few others, and a rare one too seldom to
learn that it is rare. Neighbours and trees have biases of their own. On most data they are small, or even out; where
they do not, answers lose more by them than by anything else (bench/notes/networks.md, How often labels are).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax

from sparsenet.core.ranked import best_first, precisions
from sparsenet.kernels.types import F64, Bools

#: Of some factors: how improbable that makes what is right, and the first and second derivatives.
Judged = tuple[float, F64, F64]
Loss = Callable[[F64], Judged]
RANKS = (1, 3, 5)
#: Where fewer labels are right nothing is told.
FEW_TRUE = 100
#: A score is to gain no more than so many times the logarithm of a label's points, nor to lose more.
MOST = 1.0
#: What is believed before anything is seen counts as much as so many labels of the usual spread.
FIRMNESS = 1.0
#: Newton's method ends when a step is as short as this, on scores of unit spread; what has not ended after so many
#: steps tells nothing.
CLOSE_ENOUGH, MOST_STEPS = 1e-6, 60
#: Scores that are worth less than so much of their spread tell nothing, nor what is to be added to them.
LEAST_STEEPNESS = 0.05
#: No score counts as more than the best label has in all but so large a share of the points, nor as less than the last:
#: a point of wild numbers is no more than one point.
WILD = 0.01


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
    if np.count_nonzero(right) < FEW_TRUE or not np.isfinite(scores).all():
        return 0.0
    tame = _tamed(scores)
    spread, differs = float(np.std(tame)), float(np.std(log_counts))
    if not 0 < spread < np.inf or differs == 0:
        return 0.0
    inputs = np.stack((tame / spread, log_counts.astype(np.float64) / differs))
    inputs -= inputs.mean(axis=(1, 2), keepdims=True)
    alone, _ = _fitted(_by_itself(inputs, right), 3)
    among, deviation = _fitted(_among_those_of_its_point(inputs, right), 2)
    found = float(np.clip(_agreed(alone, among, deviation) * spread / differs, -MOST, MOST))
    found = round(found, 3)  # last bits, in which processors differ, would end up in every score
    before, after = (_answered(each, right) for each in (scores, scores + np.float32(found) * log_counts))
    return found if after[0] >= before[0] and after.mean() >= before.mean() else 0.0


def _tamed(scores: NDArray[np.float32]) -> F64:
    """Return scores of which none is beyond those of nearly all points."""
    exact = scores.astype(np.float64)
    return np.clip(exact, np.quantile(exact.min(axis=1), WILD), np.quantile(exact.max(axis=1), 1 - WILD))


def _agreed(alone: float, among: float, deviation: float) -> float:
    """Return the smaller of two findings, the second less its standard error, and nothing if they contradict."""
    sure = math.copysign(max(abs(among) - deviation, 0.0), among)
    return min(alone, sure, key=abs) if alone * sure > 0 else 0.0


def _answered(scores: NDArray[np.float32], right: Bools) -> F64:
    """Return the means of P@1, P@3 and P@5 by such scores."""
    (ranked,) = best_first(scores, RANKS[-1], right)
    return np.asarray(precisions(ranked, RANKS).mean(axis=0))


def _by_itself(inputs: F64, right: Bools) -> Loss:
    """Return how improbable labels are, each by itself, by two factors and a shift."""
    x = np.vstack((inputs.reshape(2, -1), np.ones((1, right.size))))
    truth = right.reshape(-1).astype(np.float64)

    def loss(at: F64) -> tuple[float, F64, F64]:
        z = np.einsum("i,il->l", at, x)
        p = expit(z)
        slope = np.einsum("il,l->i", x, p - truth)
        return float((np.logaddexp(0, z) - truth * z).sum()), slope, np.einsum("il,jl->ij", x * (p * (1 - p)), x)

    return loss


def _among_those_of_its_point(inputs: F64, right: Bools) -> Loss:
    """Return how improbable right labels are, among all of their points, by two factors."""
    some = right.any(axis=1)
    x, truth = inputs[:, some], right[some].astype(np.float64)
    n_true = truth.sum(axis=1, keepdims=True)

    def loss(at: F64) -> tuple[float, F64, F64]:
        z = np.einsum("i,ipl->pl", at, x)
        p = n_true * softmax(z, axis=1)
        off = x - (p * x).sum(axis=2, keepdims=True) / n_true
        improbable = (n_true[:, 0] * logsumexp(z, axis=1) - (truth * z).sum(axis=1)).sum()
        return float(improbable), (x * (p - truth)).sum(axis=(1, 2)), np.einsum("ipl,jpl->ij", off * p, off)

    return loss


def _fitted(loss: Loss, n: int) -> tuple[float, float]:
    """Return what the second factor is to the first, by Newton's method, and its standard error.

    Both losses are convex: steps that each lead down end where nothing is better.
    """
    believed = np.eye(n)[0]

    def judged(at: F64) -> Judged:
        improbable, slope, curvature = loss(at)
        off = at - believed
        return improbable + FIRMNESS / 2 * (off**2).sum(), slope + FIRMNESS * off, curvature + FIRMNESS * np.eye(n)

    at, here = believed, judged(believed)
    for _ in range(MOST_STEPS):
        step = _step_down(judged, at, here)
        if step is None:
            break
        at, here = step
    else:
        return 0.0, 0.0
    curvature = here[2]
    if at[0] < LEAST_STEEPNESS:
        return 0.0, 0.0
    return float(at[1] / at[0]), float(np.sqrt(np.linalg.inv(curvature)[1, 1]) / at[0])


def _step_down(judged: Loss, at: F64, here: Judged) -> tuple[F64, Judged] | None:
    """Return where a step of Newton's leads to, or half of it, and so on; none where it leads hardly anywhere."""
    reached, slope, curvature = here
    step = np.linalg.solve(curvature, slope)
    while np.abs(step).max() >= CLOSE_ENOUGH:
        there = judged(at - step)
        if there[0] <= reached:
            return at - step, there
        step /= 2
    return None
