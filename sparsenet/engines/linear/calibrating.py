"""Fit the calibration of text models on held-out texts: Platt scaling, or a softmax with shifts by frequency."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sparsenet.core.rows import Rows
from sparsenet.engines.linear.calibration import Calibration, bent
from sparsenet.features.label_stats import log_counts
from sparsenet.kernels.types import F32, F64, I32, I64
from sparsenet.selection.newton import LossTerms, newton
from sparsenet.selection.platt import STEEPNESS, fit_platt

#: Prior means of the log steepness, and of the shift per e-fold of label frequency. Both priors have unit variance.
PRIOR = np.array([math.log(Calibration.steepness), 0.0])


def fit(scores: F32, labels: Rows, *, exclusive: bool, missed: int = 0) -> Calibration:
    """Fit the calibration by maximum a posteriori on held-out texts.

    Exclusive labels get a softmax, which ignores a common shift. Other labels get Platt scaling and a threshold.
    `missed` is the number of true labels without a score.
    """
    if exclusive:
        return Calibration(fit_softmax(scores, labels).steepness)
    truth = _dense_truth(labels, scores.shape)
    platt = Calibration(*fit_platt(scores, truth, slope=Calibration.steepness))
    return replace(platt, threshold=best_threshold(platt.probabilities(scores, exclusive=False), truth, missed))


class SoftmaxFit(NamedTuple):
    """The fitted softmax: scores plus `shifts` (n_labels,) are `bent` and multiplied by `steepness`."""

    steepness: float
    shifts: F64


def fit_softmax(
    scores: F32,
    labels: Rows,
    counts: I64 | None = None,
    costs: F32 | None = None,
    *,
    curvature: float = 0.0,
    max_shift: float = 1.0,
) -> SoftmaxFit:
    """Fit the softmax of exclusive labels: its steepness, and a shift of each label's score by its frequency.

    Each label is trained against all others, so a rare label hardly ever scores above zero and is predicted too
    rarely. Held-out texts show by how much.

    Parameters
    ----------
    counts : ndarray of shape (n_labels,), optional
        Number of training texts of each label; if None, all shifts are 0.
    costs : ndarray of shape (n_labels,), optional
        Weights of the texts of each label.
    max_shift : float
        Maximum absolute shift. By default the distance from a score of 0 to 1, where the training loss becomes 0.
        Uninformative scores would otherwise get shifts that further training could not overcome.
    """
    usable = np.diff(labels.indptr) == 1
    if counts is not None:
        # Exclude the only text of a label: when it is held out, the model lacks its label.
        usable[usable] = counts[labels.indices[labels.indptr[:-1][usable]]] > 1
    exact, truth = scores[usable].astype(np.float64), labels.indices[labels.indptr[:-1][usable]]
    weights = np.ones(len(truth)) if costs is None else costs[truth].astype(np.float64)
    # Scale to the effective sample size: one text of weight ten is less evidence than ten texts.
    weights *= weights.sum() / max(float(np.square(weights).sum()), np.finfo(np.float64).tiny)
    no_shifts = np.zeros(labels.width)
    shifts = no_shifts
    if counts is not None:
        logs = log_counts(counts)
        logs -= logs.mean()
        log_steepness, by_frequency = _fit_softmax(exact, logs, truth, weights)
        # Shifts may only raise rare labels: texts without a clear label would lower them.
        shifts = np.clip(min(by_frequency, 0.0) * logs / math.exp(log_steepness), -max_shift, max_shift)
    log_p = bent(exact + shifts, curvature)
    log_steepness, _ = _fit_softmax(log_p, no_shifts, truth, weights)
    return SoftmaxFit(min(max(math.exp(log_steepness), STEEPNESS[0]), STEEPNESS[1]), shifts)


def _fit_softmax(scores: F64, log_counts: F64, truth: I32, weights: F64) -> F64:
    """Fit the two parameters of the softmax of ``exp(at[0]) * scores + at[1] * log_counts``."""
    texts = np.arange(len(truth))

    def loss(at: F64) -> LossTerms:
        # The Hessian is the Fisher information. Sums use einsum, since starting the threads of BLAS took longer than
        # training on 3,000 texts.
        steep = math.exp(min(at[0], 100.0)) * scores  # a first step may be far too long, and is then halved
        logits = steep + at[1] * log_counts
        logits -= logits.max(axis=1, keepdims=True)
        value = -logits[texts, truth]
        p = np.exp(logits, out=logits)
        total = p.sum(axis=1)
        p /= total[:, None]
        value += np.log(total)
        by_steepness = p * steep
        mean, mean_log = by_steepness.sum(axis=1), np.einsum("nl,l->n", p, log_counts)
        square = np.einsum("nl,nl->n", by_steepness, steep) - mean**2
        cross = np.einsum("nl,l->n", by_steepness, log_counts) - mean * mean_log
        square_log = np.einsum("nl,l->n", p, log_counts**2) - mean_log**2
        gradient = np.stack((mean - steep[texts, truth], mean_log - log_counts[truth]))
        hessian = np.stack((square, cross, cross, square_log))
        return LossTerms(
            float((weights * value).sum()),
            (weights * gradient).sum(axis=1),
            (weights * hessian).sum(axis=1).reshape(2, 2),
        )

    return newton(loss, PRIOR, 1.0, tolerance=1e-3)


def _dense_truth(labels: Rows, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    truth = np.zeros(shape, bool)
    truth[np.repeat(np.arange(len(labels)), np.diff(labels.indptr)), labels.indices] = True
    return truth


def best_threshold(
    probabilities: F32,
    truth: NDArray[np.bool_],
    missed: int,
    *,
    steps: int = 1000,
    max_chosen: int = 3,
    prior_true: int = 100,
) -> float:
    """Return the probability threshold with the best micro F1 on held-out texts, shrunk towards half of the best F1.

    With exact probabilities the best threshold is half of the best F1. Probabilities from one curve for all labels are
    not exact. So this prior is averaged with the best threshold on these texts, in log-odds; the prior counts as
    `prior_true` true labels.

    Parameters
    ----------
    steps : int
        Size of the grid. It is even in the square root of the probability, since many labels need small thresholds.
    max_chosen : int
        Maximum labels chosen per true label. Without this bound, uninformative probabilities would choose all labels.
    """
    n_true = np.count_nonzero(truth) + missed
    right, chosen = (
        np.histogram(np.sqrt(p), steps, (0, 1))[0][::-1].cumsum() for p in (probabilities[truth], probabilities)
    )
    f1 = np.where(chosen <= max_chosen * n_true, 2 * right / np.maximum(chosen + n_true, 1), 0)
    half = float(f1.max()) / 2
    if half == 0:
        return Calibration.threshold
    best = (np.maximum(steps - 1 - np.flatnonzero(f1 == f1.max()), 1) / steps) ** 2  # ties, descending
    measured, prior = (math.log(p / (1 - p)) for p in (min(max(half, best[-1]), best[0]), half))
    weight = n_true / (n_true + prior_true)
    threshold = float(expit(weight * measured + (1 - weight) * prior))
    return min(max(threshold, float(best[-1])), Calibration.threshold)
