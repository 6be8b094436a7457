"""What scores say: probabilities that can be believed, and what is an answer by these."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import real
from sparsenet.kernels.types import F32, F64
from sparsenet.selection.platt import STEEPNESS

Scores = TypeVar("Scores", F32, F64)
#: The curvature of what scores of more than two linear models say. Training leaves a label alone where it scores 1, and
#: counts squares of what is missing: half of them would be a curvature of 0.5, by which no score beyond 1 said more.
CURVATURE = 0.4


@dataclass(frozen=True)
class Calibration:
    """What scores of a model say.

    Attributes
    ----------
    steepness, shift : float
        A score s has the log odds ``steepness * s + shift``; over exclusive labels, the softmax of these.
    threshold : float
        Where a text may have several labels, these are those of a higher probability.
    curvature : float
        Over exclusive labels, how much less the next tenth of a score says, the higher that is; see `bent`.
    """

    steepness: float = 2.0
    shift: float = 0.0
    threshold: float = 0.5
    curvature: float = 0.0

    @classmethod
    def checked(cls, values: Mapping[str, Any]) -> Self:
        """Make it of what a file says; raises ValueError where that cannot be."""
        return cls(
            real("steepness", values["steepness"], 0, math.inf, open_low=True),
            real("shift", values["shift"], -math.inf, math.inf),
            real("threshold", values.get("threshold", cls.threshold), 0, 1),
            real("curvature", values.get("curvature", cls.curvature), 0, 0.5, open_high=True),
        )

    def as_dict(self) -> dict[str, float]:
        """Return what `checked` takes."""
        return asdict(self)

    def log_odds(self, scores: F32) -> F32:
        """Return the log odds of labels that do not exclude each other."""
        return np.float32(self.steepness) * scores + np.float32(self.shift)

    def probabilities(self, scores: F32, *, exclusive: bool) -> F32:
        """Return a probability for each score; of exclusive labels, those of a row sum to one."""
        if exclusive:
            return softmax(np.float32(self.steepness) * bent(scores, self.curvature))
        return sigmoid(self.log_odds(scores))

    def scores_of(self, probabilities: F64, *, exclusive: bool) -> F64:
        """Return scores for which `probabilities` gives these."""
        p = np.clip(probabilities, np.finfo(np.float32).tiny, 1 - np.finfo(np.float32).epsneg)
        if exclusive:
            says = np.log(p) / self.steepness
            return np.asarray(2 * says / (1 + np.sqrt(1 - 4 * self.curvature * says)))  # none is above 0: all are bent
        return np.asarray((np.log(p) - np.log1p(-p) - self.shift) / self.steepness)

    def chosen(self, scores: F32, threshold: float | None = None) -> NDArray[np.bool_]:
        """Tell which labels have a higher probability than `threshold`, by default the one that was learnt."""
        border = self.threshold if threshold is None else threshold
        if border in (0, 1):
            return np.full(scores.shape, border == 0)
        return np.asarray(self.log_odds(scores) > np.float32(math.log(border / (1 - border))))


def unmeasured(n_labels: int, *, exclusive: bool) -> Calibration:
    """Return what scores are taken to say where no text was held out to ask.

    Of exclusive labels the right one stands out from however many others there are: measured steepnesses grow with
    the logarithm of their number (sst2's 2 labels 1.5, trec6's 6 2.9, banking77 4.9 to 9, clinc150 7 to 11, thousands
    of product titles 19 to 30).
    """
    if not exclusive:
        return Calibration()
    return Calibration(min(max(2 * math.log(max(n_labels, 1)) - 1, Calibration.steepness), STEEPNESS[1]))


def bent(scores: Scores, curvature: float) -> Scores:
    """Return what scores say: the higher one is, the less its next tenth says, down to a border at 1; never nothing.

    Labels keep their order, and what two opposite scores of up to 1 say differs as if nothing were bent.

    >>> bent(np.array([-1.0, 0.0, 1.0, 2.0], np.float32), 0.25).tolist()
    [-1.25, 0.0, 0.75, 1.25]
    """
    if curvature == 0:
        return scores
    inside = np.minimum(scores, 1)
    return inside - curvature * inside**2 + (1 - 2 * curvature) * (scores - inside)


def softmax(logits: F32) -> F32:
    """Return probabilities that sum to one in each row."""
    exact = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(exact / exact.sum(axis=1, keepdims=True), np.float32)


def sigmoid(logits: F32) -> F32:
    """Return a probability for each entry."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * logits.astype(np.float64))), np.float32)
