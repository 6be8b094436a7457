"""Fit calibrations by maximum a posteriori on held-out texts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sparsenet.core.rows import Rows
from sparsenet.engines.linear.calibration import Calibration, bent
from sparsenet.kernels.types import F32, F64, I32, I64
from sparsenet.selection.newton import LossTerms, newton
from sparsenet.selection.platt import STEEPNESS, fit_platt

#: Prior means of the log steepness and of the shift for each e-fold in label frequency; both priors have unit variance
#: and are as strong as one text.
PRIOR = np.array([math.log(Calibration.steepness), 0.0])


def fit(scores: F32, labels: Rows, *, exclusive: bool, missed: int = 0) -> Calibration:
    """Return the calibration that makes the labels of held-out texts most probable.

    Exclusive labels compete in a softmax, which ignores a shift. Other labels get a threshold too. `missed` is the
    number of true labels without a score.
    """
    if exclusive:
        return Calibration(fit_softmax(scores, labels).steepness)
    truth = _as_table(labels, scores.shape)
    found = Calibration(*fit_platt(scores, truth, slope=Calibration.steepness))
    return replace(found, threshold=_best_threshold(found.probabilities(scores, exclusive=False), truth, missed))


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
    most_shift: float = 1.0,
) -> SoftmaxFit:
    """Fit the softmax of exclusive labels: its steepness, and a shift of each label's scores by its frequency.

    Each label is trained against all others, so a label of few texts hardly ever scores above zero and wins too
    seldom. Held-out texts show how much too seldom.

    Parameters
    ----------
    counts : ndarray of shape (n_labels,), optional
        Training texts of each label; without them all shifts are 0.
    costs : ndarray of shape (n_labels,), optional
        Weights of the texts of each label.
    most_shift : float
        Largest shift: the distance from a score of 0 to 1, where the loss of training becomes 0. Uninformative scores
        would get shifts that later learning could not overcome.
    """
    usable = np.diff(labels.indptr) == 1
    if counts is not None:
        # The only text of a label is never right when held out, since its model lacks the label.
        usable[usable] = counts[labels.indices[labels.indptr[:-1][usable]]] > 1
    exact, right = scores[usable].astype(np.float64), labels.indices[labels.indptr[:-1][usable]]
    weights = np.ones(len(right)) if costs is None else costs[right].astype(np.float64)
    # Scale to the effective sample size: one text of weight ten is less evidence than ten texts.
    weights *= weights.sum() / max(float(np.square(weights).sum()), np.finfo(np.float64).tiny)
    nothing = np.zeros(labels.width)
    shifts = nothing
    if counts is not None:
        logs = np.log(np.maximum(counts, 1.0))
        logs -= logs.mean()
        log_steepness, by_frequency = _fit_softmax(exact, logs, right, weights)
        # Shifts only raise rare labels: otherwise texts without a clear label would lower them.
        shifts = np.clip(min(by_frequency, 0.0) * logs / math.exp(log_steepness), -most_shift, most_shift)
    log_p = bent(exact + shifts, curvature)
    log_steepness, _ = _fit_softmax(log_p, nothing, right, weights)
    return SoftmaxFit(min(max(math.exp(log_steepness), STEEPNESS[0]), STEEPNESS[1]), shifts)


def _fit_softmax(scores: F64, log_counts: F64, right: I32, weights: F64) -> F64:
    """Fit the two parameters of the softmax of ``exp(at[0]) * scores + at[1] * log_counts``."""
    texts = np.arange(len(right))

    def loss(at: F64) -> LossTerms:
        # The Hessian is the Fisher information. Sums are einsum's: threads of BLAS took longer than the training of
        # 3,000 texts.
        steep = math.exp(min(at[0], 100.0)) * scores  # a first step may be far too long, and is then halved
        logits = steep + at[1] * log_counts
        logits -= logits.max(axis=1, keepdims=True)
        value = -logits[texts, right]
        p = np.exp(logits, out=logits)
        total = p.sum(axis=1)
        p /= total[:, None]
        value += np.log(total)
        by_steepness = p * steep
        mean, mean_log = by_steepness.sum(axis=1), np.einsum("nl,l->n", p, log_counts)
        square = np.einsum("nl,nl->n", by_steepness, steep) - mean**2
        both = np.einsum("nl,l->n", by_steepness, log_counts) - mean * mean_log
        square_log = np.einsum("nl,l->n", p, log_counts**2) - mean_log**2
        gradient = np.stack((mean - steep[texts, right], mean_log - log_counts[right]))
        hessian = np.stack((square, both, both, square_log))
        return LossTerms(
            float((weights * value).sum()),
            (weights * gradient).sum(axis=1),
            (weights * hessian).sum(axis=1).reshape(2, 2),
        )

    return newton(loss, PRIOR, 1.0, tolerance=1e-3)


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
    most_chosen: int = 3,
    prior_true: int = 100,
) -> float:
    """Return the probability threshold with the best F1 over all pairs of a text and a label.

    With exact probabilities the best threshold is half of the best F1. One curve for all labels is not exact, so the
    threshold with the best F1 on these texts is mixed in, in log-odds; the prior counts as `prior_true` true labels.

    Parameters
    ----------
    steps : int
        Size of the grid, on the square root of the probability: with many labels the threshold is small.
    most_chosen : int
        Most labels chosen for each true one. Without this bound, useless probabilities would choose all labels.
    """
    n_true = np.count_nonzero(truth) + missed
    right, chosen = (
        np.histogram(np.sqrt(some), steps, (0, 1))[0][::-1].cumsum() for some in (probabilities[truth], probabilities)
    )
    f1 = np.where(chosen <= most_chosen * n_true, 2 * right / np.maximum(chosen + n_true, 1), 0)
    half = float(f1.max()) / 2
    if half == 0:
        return Calibration.threshold
    best = (np.maximum(steps - 1 - np.flatnonzero(f1 == f1.max()), 1) / steps) ** 2  # ties, descending
    found, expected = (math.log(p / (1 - p)) for p in (min(max(half, best[-1]), best[0]), half))
    trust = n_true / (n_true + prior_true)
    between = float(expit(trust * found + (1 - trust) * expected))
    return min(max(between, float(best[-1])), Calibration.threshold)
