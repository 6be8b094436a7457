"""From scores to probabilities that can be believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar

from sparsenet.batches import Rows

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
#: Within these bounds, probabilities of unseen texts cannot come out as 0 or 1 because a few held out were all right.
STEEPEST = 20.0
STEEPNESSES = (-3.0, float(np.log(STEEPEST)))  # their logarithms
#: What is believed before any text is seen, as firmly as one text can tell: log steepness, give or take 1.
USUAL = float(np.log(2.0))
#: Where a search for steepness and shift begins, and the digits that it is for.
FIRST_TRIALS = np.array([[USUAL, 0.0], [USUAL + 0.5, 0.0], [USUAL, 0.5]])
CLOSE_ENOUGH = 1e-3


def fit(scores: F32, labels: Rows, *, exclusive: bool) -> tuple[float, float]:
    """Return the steepness and the shift under which held-out labels are most probable.

    Exclusive labels compete in a softmax, where a shift would change nothing.
    """
    firmness = 0.5 / max(len(scores), 1)
    # By methods that need no linear algebra: its library starts a thread for each core, which for two numbers took more
    # time than all training on 3,000 texts.
    if exclusive:
        of_softmax = _softmax_loss(scores, labels)
        best: Any = minimize_scalar(
            lambda x: of_softmax(float(np.exp(x))) + firmness * (x - USUAL) ** 2,
            bounds=STEEPNESSES,
            method="bounded",
            options={"xatol": CLOSE_ENOUGH},
        )
        return float(np.exp(best.x)), 0.0
    of_sigmoid = _sigmoid_loss(scores, labels)
    best = minimize(  # type: ignore[call-overload]  # its stubs know no function of two numbers
        lambda x: of_sigmoid(float(np.exp(x[0])), float(x[1])) + firmness * (x[0] - USUAL) ** 2,
        FIRST_TRIALS[0],
        method="Nelder-Mead",
        bounds=[STEEPNESSES, (-STEEPEST, STEEPEST)],
        options={"initial_simplex": FIRST_TRIALS, "xatol": CLOSE_ENOUGH, "fatol": np.inf},
    )
    return float(np.exp(best.x[0])), float(best.x[1])


def softmax(logits: F32) -> F32:
    """Return probabilities that sum to one in each row."""
    exact = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True, initial=-np.inf))
    return np.asarray(exact / exact.sum(axis=1, keepdims=True), np.float32)


def sigmoid(logits: F32) -> F32:
    """Return a probability for each entry."""
    return np.asarray(0.5 * (1 + np.tanh(0.5 * logits.astype(np.float64))), np.float32)


def _softmax_loss(scores: F32, labels: Rows) -> Callable[[float], float]:
    has_one = np.diff(labels.indptr) == 1
    exact, right = scores[has_one].astype(np.float64), labels.indices[labels.indptr[:-1][has_one]]

    def loss(steepness: float) -> float:
        logits = steepness * exact
        highest = logits.max(axis=1)
        total = np.log(np.exp(logits - highest[:, None]).sum(axis=1)) + highest
        return float((total - logits[np.arange(len(right)), right]).mean()) if len(right) else 0.0

    return loss


def _sigmoid_loss(scores: F32, labels: Rows) -> Callable[[float, float], float]:
    truth = np.zeros(scores.shape, bool)
    truth[np.repeat(np.arange(len(labels)), np.diff(labels.indptr)), labels.indices] = True
    signed = np.where(truth, -1.0, 1.0)
    exact = scores.astype(np.float64)

    def loss(steepness: float, shift: float) -> float:
        return float(np.logaddexp(0, signed * (steepness * exact + shift)).mean())

    return loss
