"""Calibrate scores to probabilities by Platt scaling: fit a slope and a shift on held-out labels."""

from __future__ import annotations

import numpy as np

from sparsenet.kernels.types import F32, F64, Bools
from sparsenet.selection.newton import logistic_loss, newton

#: Bounds of the slope: a few held-out points that are all right must not give probabilities of 0 and 1.
STEEPNESS = (0.05, 20.0)


def fit_platt(
    scores: F32,
    truth: Bools,
    *,
    slope: float = 1.0,
    precision: float = 0.25,
    counts: F64 | None = None,
    bounds: tuple[float, float] = STEEPNESS,
) -> tuple[float, float]:
    """Fit the slope and the shift of the log-odds ``slope * score + shift``.

    Targets are smoothed as Platt does, by one more label of each kind. Without that, points without any label would
    make all labels impossible.

    Parameters
    ----------
    slope, precision : float
        Prior mean and precision of the slope: by default a standard deviation of 2.
    counts : ndarray, optional
        Weight of each score; one by default.
    bounds : (float, float)
        Bounds of the slope.

    Examples
    --------
    Overconfident scores, which are right in only four cases of five:

    >>> from scipy.special import expit
    >>> scores = np.repeat(np.array([-9.0, 9.0], np.float32), 500)
    >>> truth = np.tile([True, False, False, False, False], 200)
    >>> truth[500:] = ~truth[500:]
    >>> slope, shift = fit_platt(scores, truth, slope=1.0, precision=1e-6)
    >>> round(float(expit(9 * slope + shift)), 2)
    0.8
    """
    x = np.stack((scores.ravel().astype(np.float64), np.ones(scores.size)), axis=-1)
    hits, weights = truth.ravel(), np.ones(scores.size) if counts is None else counts.ravel()
    n_true, n = float(weights[hits].sum()), float(weights.sum())
    n_false = n - n_true
    target = np.where(hits, (n_true + 1) / (n_true + 2), 1 / (n_false + 2))
    # Start where the mean score has the base rate: far from there the loss is flat. The shift has almost no prior.
    base_log_odds = np.log((n_true + 1) / (n_false + 1))
    start = np.array([slope, base_log_odds - slope * (weights @ x[:, 0]) / n])
    precisions = np.array([precision, 1e-9 * n])
    fitted, shift = newton(logistic_loss(x, target, counts=weights), start, precisions)
    nearest = float(np.clip(fitted, *bounds))
    if nearest != fitted:
        fixed = logistic_loss(x[:, 1:], target, counts=weights, offset=nearest * x[:, 0])
        (shift,) = newton(fixed, start[1:], precisions[1:])
    return nearest, float(shift)
