"""Fit a calibration by maximum likelihood on held-out texts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sparsenet.core.rows import Rows
from sparsenet.engines.linear import competing
from sparsenet.engines.linear.calibration import Calibration
from sparsenet.kernels.types import F32
from sparsenet.selection.platt import fit_platt


def fit(scores: F32, labels: Rows, *, exclusive: bool, missed: int = 0) -> Calibration:
    """Return the calibration that makes the labels of held-out texts most probable.

    Exclusive labels compete in a softmax, which ignores a shift. Other labels get a threshold too. `missed` is the
    number of true labels without a score.
    """
    if exclusive:
        return Calibration(competing.fit(scores, labels).steepness)
    truth = _as_table(labels, scores.shape)
    found = Calibration(*fit_platt(scores, truth, slope=Calibration.steepness))
    return replace(found, threshold=_best_threshold(found.probabilities(scores, exclusive=False), truth, missed))


def _as_table(labels: Rows, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    truth = np.zeros(shape, bool)
    truth[np.repeat(np.arange(len(labels)), np.diff(labels.indptr)), labels.indices] = True
    return truth


def _best_threshold(
    probabilities: F32,
    truth: NDArray[np.bool_],
    missed: int,
    *,
    steps: int = 1000,
    most_named: int = 3,
    prior_true: int = 100,
) -> float:
    """Return the probability threshold with the best F1 over all pairs of a text and a label.

    With exact probabilities the best threshold is half of the best F1. One curve for all labels is not exact, so the
    threshold with the best F1 on these texts is mixed in, in log-odds; the prior counts as `prior_true` true labels.

    Parameters
    ----------
    steps : int
        Size of the grid, on the square root of the probability: with many labels the threshold is small.
    most_named : int
        Most labels chosen for each true one. Without this bound, useless probabilities would choose all labels.
    """
    n_true = np.count_nonzero(truth) + missed
    right, named = (
        np.histogram(np.sqrt(some), steps, (0, 1))[0][::-1].cumsum() for some in (probabilities[truth], probabilities)
    )
    f1 = np.where(named <= most_named * n_true, 2 * right / np.maximum(named + n_true, 1), 0)
    half = float(f1.max()) / 2
    if half == 0:
        return Calibration.threshold
    best = (np.maximum(steps - 1 - np.flatnonzero(f1 == f1.max()), 1) / steps) ** 2  # ties, descending
    found, expected = (math.log(p / (1 - p)) for p in (min(max(half, best[-1]), best[0]), half))
    trust = n_true / (n_true + prior_true)
    between = float(expit(trust * found + (1 - trust) * expected))
    return min(max(between, float(best[-1])), Calibration.threshold)
