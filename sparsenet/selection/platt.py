"""Calibrate scores to probabilities by Platt scaling: fit a slope and a shift on held-out labels."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sparsenet.kernels.types import F32, F64

#: Bounds of the slope: a few held-out points that are all right must not give probabilities of 0 and 1.
STEEPNESS = (0.05, 20.0)
#: Relative change of the slope, and change of the shift, at which a search ends; and its steps at most.
CLOSE_ENOUGH, MOST_STEPS = 1e-3, 100


def fit_platt(
    scores: F32,
    truth: NDArray[np.bool_],
    *,
    log_slope: float,
    precision: float,
    counts: F64 | None = None,
    bounds: tuple[float, float] = STEEPNESS,
    tolerance: float = CLOSE_ENOUGH,
    max_steps: int = MOST_STEPS,
) -> tuple[float, float]:
    """Fit the slope and the shift of the logit by Newton's method with Levenberg-Marquardt damping.

    Targets are smoothed as Platt does, by one more label of each kind. Without that, points without any label would
    make all labels impossible.

    Parameters
    ----------
    log_slope, precision : float
        Prior mean of the logarithm of the slope. The mean loss grows by `precision` times the squared distance to it.
    counts : ndarray, optional
        Weight of each score; one by default.
    bounds : (float, float)
        Bounds of the slope.

    Examples
    --------
    Overconfident scores, which are right in only four cases of five:

    >>> scores = np.repeat(np.array([-9.0, 9.0], np.float32), 500)
    >>> truth = np.tile([True, False, False, False, False], 200)
    >>> truth[500:] = ~truth[500:]
    >>> slope, shift = fit_platt(scores, truth, log_slope=0.0, precision=1e-6)
    >>> round(float(expit(9 * slope + shift)), 2)
    0.8
    """
    max_damping, tiny = 1e9, 1e-12  # `tiny` keeps the curvature of certain answers above zero
    exact = scores.astype(np.float64)
    n = float(truth.size if counts is None else counts.sum())
    n_true = float(np.count_nonzero(truth) if counts is None else counts[truth].sum())
    n_false = n - n_true
    target = np.where(truth, (n_true + 1) / (n_true + 2), 1 / (n_false + 2))

    def mean(values: F64) -> float:
        return float(values.mean() if counts is None else (counts * values).sum() / n)

    def loss(slope: float, shift: float) -> float:
        logits = slope * exact + shift
        return mean(np.logaddexp(0, logits) - target * logits) + precision * (math.log(slope) - log_slope) ** 2

    # Start where the mean score has the base rate: far from there the loss is flat.
    slope = math.exp(log_slope)
    shift = math.log((n_true + 1) / (n_false + 1)) - slope * mean(exact)
    reached, damping = loss(slope, shift), 0.0
    for _ in range(max_steps):
        p = expit(slope * exact + shift)
        off, weight = p - target, p * (1 - p)
        prior = 2 * precision / slope
        d_slope = mean(off * exact) + prior * (math.log(slope) - log_slope)
        d_shift, h_shift = mean(off), mean(weight)
        weight *= exact
        h_both, h_slope = mean(weight), mean(weight * exact) + prior / slope
        while True:
            down, across = h_slope * (1 + damping) + tiny, h_shift * (1 + damping) + tiny
            turned = slope + (h_both * d_shift - across * d_slope) / max(down * across - h_both**2, tiny**2)
            turned = min(max(turned, bounds[0]), bounds[1])
            # At a bound of the slope, take the best shift for that slope.
            moved = shift - (d_shift + h_both * (turned - slope)) / across
            now = loss(turned, moved)
            if now <= reached:
                break
            damping = max(4 * damping, tolerance)
            if damping > max_damping:
                return float(slope), float(shift)
        close = abs(turned - slope) < tolerance * slope and abs(moved - shift) < tolerance
        slope, shift, reached, damping = turned, moved, now, damping / 4
        if close and damping < 1:
            break
    return float(slope), float(shift)
