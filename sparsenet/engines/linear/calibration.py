"""Convert scores to calibrated probabilities, and to sets of labels by a threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit

from sparsenet.core.validation import real
from sparsenet.kernels.types import F32, F64
from sparsenet.selection.platt import STEEPNESS

Scores = TypeVar("Scores", F32, F64)
#: Curvature for linear models of three and more labels. The squared hinge loss, flat beyond a score of 1, suggests 0.5,
#: but then scores beyond 1 would all count the same.
CURVATURE = 0.4


@dataclass(frozen=True)
class Calibration:
    """The map from scores to probabilities.

    Attributes
    ----------
    steepness, shift : float
        A score s has the log-odds ``steepness * s + shift``; exclusive labels have the softmax of these.
    threshold : float
        If a text may have several labels, `predict` returns the labels with a higher probability.
    curvature : float
        For exclusive labels: how much the slope falls as scores rise; see `bent`.
    """

    steepness: float = 2.0
    shift: float = 0.0
    threshold: float = 0.5
    curvature: float = 0.0

    @classmethod
    def checked(cls, values: Mapping[str, Any]) -> Self:
        """Check the values of a saved model; raise ValueError if one is impossible."""
        return cls(
            real("steepness", values["steepness"], 0, math.inf, open_low=True),
            real("shift", values["shift"], -math.inf, math.inf),
            real("threshold", values.get("threshold", cls.threshold), 0, 1),
            real("curvature", values.get("curvature", cls.curvature), 0, 0.5, open_high=True),
        )

    def as_dict(self) -> dict[str, float]:
        """Return the values that `checked` takes."""
        return asdict(self)

    def log_odds(self, scores: F32) -> F32:
        """Return the log-odds of labels that do not exclude each other."""
        return np.float32(self.steepness) * scores + np.float32(self.shift)

    def probabilities(self, scores: F32, *, exclusive: bool) -> F32:
        """Return a probability for each score; with exclusive labels, each row sums to one."""
        if exclusive:
            return softmax(np.float32(self.steepness) * bent(scores, self.curvature))
        return sigmoid(self.log_odds(scores))

    def scores_of(self, probabilities: F64, *, exclusive: bool) -> F64:
        """Invert `probabilities`: return scores that have these probabilities."""
        p = np.clip(probabilities, np.finfo(np.float32).tiny, 1 - np.finfo(np.float32).epsneg)
        if exclusive:
            log_p = np.log(p) / self.steepness  # at most 0, so every score is in the curved part
            return np.asarray(2 * log_p / (1 + np.sqrt(1 - 4 * self.curvature * log_p)))
        return np.asarray((np.log(p) - np.log1p(-p) - self.shift) / self.steepness)

    def chosen(self, scores: F32, threshold: float | None = None) -> NDArray[np.bool_]:
        """Return the mask of labels whose probability is at least `threshold`, by default the fitted one."""
        border = self.threshold if threshold is None else threshold
        odds = self.log_odds(scores)
        # Few labels are near or above the threshold, so few probabilities are computed.
        lowest = np.float32(logit(min(border, 1 - 2**-24)) - 1e-3)
        chosen = np.asarray(odds >= lowest)
        chosen[chosen] = sigmoid(odds[chosen]) >= np.float32(border)
        return chosen


def unmeasured(n_labels: int, *, exclusive: bool) -> Calibration:
    """Return a default calibration for training without held-out texts.

    Measured steepness grows with the logarithm of the number of exclusive labels: 1.5 on sst2 (2 labels), 2.9 on trec6
    (6), 5 to 9 on banking77 (77), 7 to 11 on clinc150 (150), and 19 to 30 on product titles (thousands).
    """
    if not exclusive:
        return Calibration()
    return Calibration(min(max(2 * math.log(max(n_labels, 1)) - 1, Calibration.steepness), STEEPNESS[1]))


def bent(scores: Scores, curvature: float) -> Scores:
    """Bend scores: their slope falls linearly up to a score of 1, and stays constant and positive beyond.

    The order of labels stays, and so does the difference of two opposite scores of at most 1.

    >>> bent(np.array([-1.0, 0.0, 1.0, 2.0], np.float32), 0.25).tolist()
    [-1.25, 0.0, 0.75, 1.25]
    """
    if curvature == 0:
        return scores
    inside = np.minimum(scores, 1)
    return inside - curvature * inside**2 + (1 - 2 * curvature) * (scores - inside)


def softmax(logits: F32) -> F32:
    """Return the softmax of each row."""
    exact = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(exact / exact.sum(axis=1, keepdims=True), np.float32)


def sigmoid(logits: F32) -> F32:
    """Return the logistic function of each entry."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * logits.astype(np.float64))), np.float32)
