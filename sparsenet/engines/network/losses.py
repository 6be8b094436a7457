"""Losses over the sampled output: each replaces a tile of logits by its gradient, in place.

A tile has one row per active label and one column per point. `Positives` holds the true labels. `expected` holds the
probability that each active label would have been sampled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.kernels.types import F32, I32, I64


@dataclass(frozen=True)
class Positives:
    """The points that have each active label as a true label: ``points[indptr[l] : indptr[l + 1]]``."""

    indptr: I64
    points: I32

    def per_point(self, n: int) -> I64:
        """Count the true labels of each of `n` points."""
        return np.bincount(self.points, minlength=n)


class Loss(Protocol):
    """The training objective.

    Set ``log_odds = True`` if scores are the log-odds of each label on its own. Biases then start from label
    frequencies, scores can be calibrated on a hold-out, and probabilities are computed in logarithms.

    Examples
    --------
    A loss that weights positives three times; `pair_gradient` is only needed for ``per_sample=True``:

    >>> class Weighted(Loss):
    ...     log_odds = True
    ...
    ...     def gradient(self, logits, positives, expected, threads):
    ...         is_true = np.zeros(logits.shape, bool)
    ...         owners = np.repeat(np.arange(len(logits)), np.diff(positives.indptr))
    ...         is_true[owners, positives.points] = True
    ...         weight = np.where(is_true, 3, 1) / logits.shape[1]
    ...         loss = weight * (np.logaddexp(0, logits) - is_true * logits)
    ...         logits[:] = weight * (self.probabilities(logits) - is_true)
    ...         return float(loss.sum())
    ...
    ...     def probabilities(self, scores):
    ...         return np.exp(-np.logaddexp(np.float32(0), -scores))
    >>> from sparsenet import ExtremeClassifier
    >>> model = ExtremeClassifier(hidden=4, loss=Weighted(), random_state=0)
    >>> model.fit(np.eye(5), list("abcde")).score(np.eye(5), list("abcde"))
    1.0
    """

    def gradient(self, logits: F32, positives: Positives, expected: F32, threads: int) -> float:
        """Replace `logits` (a, n) by the gradient of the mean loss per point; return the mean loss."""

    def pair_gradient(self, logits: F32, indptr: I64, is_positive: NDArray[np.bool_], expected: F32) -> float:
        """Compute `gradient` for points with active sets of their own: ``logits[indptr[i] : indptr[i + 1]]``."""

    def probabilities(self, scores: F32) -> F32:
        """Turn scores into the probability of each label on its own."""


def gives_log_odds(loss: Loss) -> bool:
    """Check whether the scores of a loss are the log-odds of each label on its own."""
    return bool(getattr(loss, "log_odds", False))


@dataclass(frozen=True, kw_only=True)
class BinaryCrossEntropy:
    """Binary cross-entropy: an independent yes-or-no decision for each label.

    Parameters
    ----------
    smoothing : float
        Targets are ``smoothing`` and ``1 - smoothing`` instead of 0 and 1.
    reweight : float
        Weigh each negative by ``expected ** -reweight``. 0 applies no correction and trains better with hard
        negatives. 1 makes the sampled loss an unbiased estimate of the full loss if each point has its own active set
        (``per_sample=True``). In a shared active set, 1 overweights the labels of the other points, which are always
        active.

    Examples
    --------
    Two active labels; the only point has the first one:

    >>> logits = np.zeros((2, 1), np.float32)
    >>> positives = Positives(indptr=np.array([0, 1, 1]), points=np.array([0], np.int32))
    >>> loss = BinaryCrossEntropy().gradient(logits, positives, expected=np.ones(2, np.float32), threads=1)
    >>> round(loss, 3), logits.ravel().tolist()
    (1.386, [-0.5, 0.5])
    """

    smoothing: float = 0.0
    reweight: float = 0.0
    log_odds: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 0.5:
            raise ValueError(f"smoothing must be in [0, 0.5), got {self.smoothing}")
        if not 0 <= self.reweight <= 1:
            raise ValueError(f"reweight must be in [0, 1], got {self.reweight}")

    def gradient(self, logits: F32, positives: Positives, expected: F32, threads: int) -> float:
        """Replace `logits` (a, n) by the gradient of the mean loss per point; return the mean loss."""
        losses = np.empty(len(logits))
        kernels.bce_gradient(
            logits,
            positives.indptr,
            positives.points,
            np.ones(len(positives.points), np.float32),
            self._negative_weights(expected),
            self.smoothing,
            1.0 / logits.shape[1],
            losses,
            threads,
        )
        return float(losses.sum())

    def pair_gradient(self, logits: F32, indptr: I64, is_positive: NDArray[np.bool_], expected: F32) -> float:
        """Compute `gradient` for points with active sets of their own."""
        target = np.where(is_positive, 1 - self.smoothing, self.smoothing)
        weight = np.where(is_positive, 1.0, self._negative_weights(expected)) / (len(indptr) - 1)
        loss = weight * (np.logaddexp(0.0, logits) - target * logits)
        logits[:] = weight * (self.probabilities(logits) - target)
        return float(loss.sum())

    def probabilities(self, scores: F32) -> F32:
        """Return the logistic function of the scores."""
        return np.exp(-np.logaddexp(np.float32(0), -scores)).astype(np.float32)

    def _negative_weights(self, expected: F32) -> F32:
        return np.power(np.maximum(expected, 1e-6), -self.reweight, dtype=np.float32)


@dataclass(frozen=True, kw_only=True)
class SampledSoftmax:
    """One softmax over the active labels; the target is spread evenly over a point's true labels.

    With `correct`, each logit is reduced by the logarithm of the label's sampling probability. The sampled softmax is
    then an asymptotically unbiased estimate of the full one (Bengio and Senecal 2008, "Adaptive importance sampling to
    accelerate training of a neural probabilistic language model") if each point has its own active set
    (``per_sample=True``). In a shared active set, the labels of other points are always active and are overweighted.

    Parameters
    ----------
    smoothing : float
        Fraction of the target that is spread over all active labels.
    correct : bool
        Correct for the sampling probabilities.

    Examples
    --------
    Two active labels; the only point has the first one:

    >>> logits = np.zeros((2, 1), np.float32)
    >>> positives = Positives(indptr=np.array([0, 1, 1]), points=np.array([0], np.int32))
    >>> loss = SampledSoftmax().gradient(logits, positives, expected=np.ones(2, np.float32), threads=1)
    >>> round(loss, 3), logits.ravel().tolist()
    (0.693, [-0.5, 0.5])
    """

    smoothing: float = 0.0
    correct: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.smoothing < 1:
            raise ValueError(f"smoothing must be in [0, 1), got {self.smoothing}")

    def gradient(self, logits: F32, positives: Positives, expected: F32, threads: int) -> float:
        """Replace `logits` (a, n) by the gradient of the mean loss per point; return the mean loss."""
        losses = np.empty(logits.shape[1])
        share = 1.0 / np.maximum(positives.per_point(logits.shape[1]), 1)
        kernels.softmax_gradient(
            logits,
            positives.indptr,
            positives.points,
            share[positives.points].astype(np.float32),
            self._log_expected(expected),
            self.smoothing,
            1.0 / logits.shape[1],
            losses,
            threads,
        )
        return float(losses.sum())

    def pair_gradient(self, logits: F32, indptr: I64, is_positive: NDArray[np.bool_], expected: F32) -> float:
        """Compute `gradient` for points with active sets of their own; no active set may be empty."""
        n, lengths = len(indptr) - 1, np.diff(indptr)
        z = logits.astype(np.float64) - self._log_expected(expected)
        z -= np.repeat(np.maximum.reduceat(z, indptr[:-1]), lengths)
        positives = np.add.reduceat(is_positive.astype(np.float64), indptr[:-1])
        counted = np.repeat(positives > 0, lengths)
        exponentials = np.exp(z)
        sums = np.repeat(np.add.reduceat(exponentials, indptr[:-1]), lengths)
        target = (1 - self.smoothing) * is_positive / np.repeat(np.maximum(positives, 1), lengths)
        target += self.smoothing / np.repeat(lengths, lengths)
        logits[:] = counted * (exponentials / sums - target) / n
        return float((counted * target * (np.log(sums) - z)).sum() / n)

    def probabilities(self, scores: F32) -> F32:
        """Return the softmax over the last axis: probabilities among the given labels."""
        exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.asarray(exponentials / exponentials.sum(axis=-1, keepdims=True), np.float32)

    def _log_expected(self, expected: F32) -> F32:
        if not self.correct:
            return np.zeros_like(expected)
        return np.log(np.maximum(expected, 1e-12), dtype=np.float32)
