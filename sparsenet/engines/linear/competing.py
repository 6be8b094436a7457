"""Fit the softmax of exclusive labels on held-out texts: its steepness, and a shift of each label's scores.

Each label is trained against all others, so a label of few texts hardly ever scores above zero and wins too seldom.
Held-out texts show how much too seldom.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.rows import Rows
from sparsenet.engines.linear.calibration import bent
from sparsenet.kernels.types import F32, F64, I32, I64
from sparsenet.selection.platt import STEEPNESS

#: Relative change of the slope, and change of the shift, at which a search ends; and its steps at most.
CLOSE_ENOUGH, MOST_STEPS = 1e-3, 100
#: Bounds of the logarithm of the steepness.
LOG_STEEPNESS = tuple(map(math.log, STEEPNESS))


@dataclass(frozen=True, kw_only=True)
class CompetitionPrior:
    """Normal priors of the fitted numbers, each as strong as one text, and bounds of the shifts.

    Attributes
    ----------
    log_steepness : float
        Mean; the standard deviation is 1.
    by_rarity : float
        Standard deviation of the shift for each e-fold in label frequency; the mean is 0. It only raises rare labels:
        otherwise texts without a clear label would lower them, and rare labels that do stand out would lose.
    own : float
        Standard deviation of each label's own shift, beyond its rarity.
    fewest : int
        A shift is fitted for labels with this many texts. Rarer labels get the mean shift of the rarest fitted ones.
    farthest : float
        Largest shift: the distance from a score of 0 to 1, where the loss of training becomes 0.
    """

    log_steepness: float = math.log(2.0)
    by_rarity: float = 1.0
    own: float = 0.2
    fewest: int = 2
    farthest: float = 1.0


PRIOR = CompetitionPrior()


@dataclass(frozen=True, eq=False)
class Competition:
    """The fitted softmax: scores plus `shifts` (n_labels,) are `bent` and multiplied by `steepness`."""

    steepness: float
    shifts: F64


def fit(
    scores: F32, labels: Rows, counts: I64 | None = None, costs: F32 | None = None, *, curvature: float = 0.0
) -> Competition:
    """Fit the softmax to the labels of held-out texts by maximum posterior.

    `counts` (n_labels,) are the texts of each label; without them all shifts are 0. `costs` (n_labels,) are weights of
    the texts of each label.
    """
    found = _fit_shifts(scores, labels, counts, costs)
    log_p = bent(found.data.scores + found.shifts[found.known], curvature)
    at = _minimum(replace(found.data, scores=log_p, shifted=False))
    return Competition(math.exp(at.log_steepness), found.shifts)


def cross_fitted(scores: F32, labels: Rows, counts: I64 | None, costs: F32 | None = None) -> I32:
    """Return the winning labels, with shifts fitted on the other half of the texts."""
    if counts is None:
        return np.asarray(scores.argmax(axis=1), np.int32)
    best = np.zeros(len(scores), np.int32)
    for half in (0, 1):
        others = np.arange(1 - half, len(scores), 2)
        shifts = _fit_shifts(scores[others], labels.take(others), counts, costs).shifts
        best[half::2] = (scores[half::2] + shifts).argmax(axis=1)
    return best


class _FittedShifts(NamedTuple):
    """Shifts of all labels, a mask of the labels with a fitted shift, and the data of these."""

    shifts: F64
    known: NDArray[np.bool_]
    data: _HeldOutScores


def _fit_shifts(scores: F32, labels: Rows, counts: I64 | None, costs: F32 | None) -> _FittedShifts:
    has_one = np.diff(labels.indptr) == 1
    exact, right = scores[has_one].astype(np.float64), labels.indices[labels.indptr[:-1][has_one]]
    # The only text of a label is never right when held out, since its model lacks the label.
    known = np.ones(labels.width, bool) if counts is None else counts >= PRIOR.fewest
    shifts = np.zeros(labels.width)
    if counts is None or not known[right].any():
        return _FittedShifts(shifts, np.ones_like(known), _HeldOutScores.of(exact, right, None, costs))
    usable, number = known[right], np.cumsum(known, dtype=np.int32) - 1
    own_costs = None if costs is None else costs[known]
    data = _HeldOutScores.of(exact[usable][:, known], number[right[usable]], counts[known], own_costs)
    at = _minimum(data)
    own = (at.by_rarity * data.log_counts + at.own) / math.exp(at.log_steepness)
    # Uninformative scores would get shifts that later learning could not overcome.
    shifts[known] = np.clip(own, -PRIOR.farthest, PRIOR.farthest)
    shifts[~known] = shifts[known & (counts == counts[known].min())].mean()
    shifts[~known & (counts == 0)] = shifts.min()  # no evidence for labels without texts
    return _FittedShifts(shifts, known, data)


def _minimum(data: _HeldOutScores) -> _Parameters:
    """Minimise the loss by damped Newton steps."""
    # Without linear algebra: its library starts a thread for each core, which took longer than the rest of training on
    # 3,000 texts.
    at = _Parameters(PRIOR.log_steepness, 0.0, np.zeros(len(data.log_counts)))
    loss, probabilities = data.loss(at)
    for _ in range(MOST_STEPS):
        step, length = data.step(at, probabilities), 1.0
        while True:
            there = at.after(step, length)
            lower, found = data.loss(there)
            if lower <= loss or length < CLOSE_ENOUGH:
                break
            length /= 2
        if lower > loss:
            break
        moved = there.distance(at)
        at, loss, probabilities = there, lower, found
        if moved < CLOSE_ENOUGH:
            break
    return at


def _centred_logs(counts: I64) -> F64:
    """Return the logarithms of counts, minus their mean."""
    logarithms = np.log(np.maximum(counts, 1.0))
    return np.asarray(logarithms - logarithms.mean(), np.float64)


@dataclass(frozen=True, eq=False)
class _Parameters:
    """The numbers to fit, or a step: log steepness, shift by rarity, and each label's own shift."""

    log_steepness: float
    by_rarity: float
    own: F64

    def after(self, step: _Parameters, length: float) -> _Parameters:
        """Return the parameters after a fraction of a step, within their bounds."""
        log_steepness = min(max(self.log_steepness + length * step.log_steepness, LOG_STEEPNESS[0]), LOG_STEEPNESS[1])
        by_rarity = min(self.by_rarity + length * step.by_rarity, 0.0)
        return _Parameters(log_steepness, by_rarity, self.own + length * step.own)

    def is_bound(self, step: float) -> bool:
        """Tell whether a step of the log steepness leaves its bounds."""
        low, high = LOG_STEEPNESS
        return (self.log_steepness == low and step < 0) or (self.log_steepness == high and step > 0)

    def distance(self, other: _Parameters) -> float:
        """Return the largest absolute difference of a parameter."""
        own = float(np.abs(self.own - other.own).max(initial=0))
        return max(abs(self.log_steepness - other.log_steepness), abs(self.by_rarity - other.by_rarity), own)


@dataclass(frozen=True, eq=False)
class _HeldOutScores:
    """Scores (n, n_labels), right labels and weights (n,), and centred log counts of labels (n_labels,)."""

    scores: F64
    right: I32
    weights: F64
    log_counts: F64
    shifted: bool

    @classmethod
    def of(cls, scores: F64, right: I32, counts: I64 | None, costs: F32 | None) -> _HeldOutScores:
        """Weight the texts by the costs of their labels; without `counts`, only the steepness is fitted."""
        weights = np.ones(len(right)) if costs is None else costs[right].astype(np.float64)
        # Scale to the effective sample size: one text of weight ten is less evidence than ten texts.
        weights *= weights.sum() / max(float(np.square(weights).sum()), np.finfo(np.float64).tiny)
        log_counts = np.zeros(scores.shape[1]) if counts is None else _centred_logs(counts)
        return cls(scores, right, weights, log_counts, counts is not None)

    def loss(self, at: _Parameters) -> tuple[float, F64]:
        """Return the negative log posterior, and the probabilities of all labels."""
        logits = math.exp(at.log_steepness) * self.scores
        logits += at.by_rarity * self.log_counts + at.own
        logits -= logits.max(axis=1, keepdims=True)
        losses = -logits[np.arange(len(logits)), self.right]
        np.exp(logits, out=logits)
        total = logits.sum(axis=1)
        logits /= total[:, None]
        losses += np.log(total)
        squares = (at.log_steepness - PRIOR.log_steepness) ** 2 + (at.by_rarity / PRIOR.by_rarity) ** 2
        return _dot(self.weights, losses) + (squares + float(np.square(at.own / PRIOR.own).sum())) / 2, logits

    def step(self, at: _Parameters, probabilities: F64) -> _Parameters:
        """Return the Newton step: joint for steepness and rarity, diagonal for the labels' own shifts."""
        steepness, texts, weights = math.exp(at.log_steepness), np.arange(len(self.scores)), self.weights
        expected = probabilities * self.scores
        mean, square = expected.sum(axis=1), np.einsum("ij,ij->i", expected, self.scores)
        slope = steepness * _dot(weights, mean - self.scores[texts, self.right])
        slope = slope + at.log_steepness - PRIOR.log_steepness
        curve = steepness**2 * _dot(weights, square - mean**2) + 1
        if not self.shifted:
            return _Parameters(-slope / curve, 0.0, np.zeros_like(at.own))
        rarity = self.log_counts
        common, common_square = (np.einsum("ij,j->i", probabilities, of) for of in (rarity, rarity**2))
        slope_rarity = _dot(weights, common - rarity[self.right]) + at.by_rarity / PRIOR.by_rarity**2
        curve_rarity = _dot(weights, common_square - common**2) + 1 / PRIOR.by_rarity**2
        covariance = np.einsum("ij,j->i", expected, rarity) - mean * common
        both = steepness * _dot(weights, covariance)
        determinant = curve * curve_rarity - both**2
        weighted = np.multiply(probabilities, weights[:, None], out=expected)
        often = weighted.sum(axis=0)
        own = often - np.bincount(self.right, weights, minlength=len(often)) + at.own / PRIOR.own**2
        # The diagonal may understate the curvature up to twofold, since labels compete; the line search then halves
        # the step.
        bound = often - np.einsum("ij,ij->j", weighted, probabilities) + 1 / PRIOR.own**2
        along, by_rarity = (both * slope_rarity - curve_rarity * slope), (both * slope - curve * slope_rarity)
        along, by_rarity = along / determinant, by_rarity / determinant
        # If one of the two is at its bound, step in the other alone.
        if at.is_bound(along):
            along, by_rarity = 0.0, -slope_rarity / curve_rarity
        if at.by_rarity == 0 and by_rarity > 0:
            along, by_rarity = -slope / curve, 0.0
        return _Parameters(along, by_rarity, -own / bound)


def _dot(weights: F64, values: F64) -> float:
    return float(np.einsum("i,i->", weights, values))
