"""Newton's method with a Gaussian prior, and the convex losses that it minimises here."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax

from sparsenet.kernels.types import F64, Bools


class LossTerms(NamedTuple):
    """Negative log-likelihood, its gradient and its Hessian."""

    value: float
    gradient: F64
    hessian: F64


LossFunction = Callable[[F64], LossTerms]


def newton(
    loss: LossFunction,
    prior_mean: F64,
    prior_precision: F64 | float,
    *,
    tolerance: float = 1e-6,
    max_steps: int = 100,
) -> F64:
    """Return the parameters that minimise the loss plus half the precision times the squared distance to the prior.

    Steps that lead uphill are halved; with a positive precision the sum is strictly convex, so this converges.

    Examples
    --------
    One observation of 3 with unit variance, and a prior of unit precision at 1:

    >>> newton(lambda x: LossTerms(0.5 * float((x[0] - 3) ** 2), x - 3, np.eye(1)), np.array([1.0]), 1.0)
    array([2.])
    """
    precision = np.broadcast_to(np.asarray(prior_precision, np.float64), prior_mean.shape)

    def total(at: F64) -> LossTerms:
        value, gradient, hessian = loss(at)
        off = at - prior_mean
        return LossTerms(
            value + 0.5 * float(precision @ off**2), gradient + precision * off, hessian + np.diag(precision)
        )

    at = prior_mean.astype(np.float64)
    here = total(at)
    for _ in range(max_steps):
        step = np.linalg.solve(here.hessian, here.gradient)
        while True:
            if not np.abs(step).max() >= tolerance:  # NaN ends the search, too
                return at
            there = total(at - step)
            if there.value <= here.value:
                break
            step = step / 2
        at, here = at - step, there
    return at


def logistic_loss(
    x: F64,
    target: Bools | F64,
    *,
    counts: F64 | None = None,
    offset: NDArray[np.floating] | float = 0.0,
    block: int = 1 << 16,
) -> LossFunction:
    """Return the logistic loss of `target`, 0 to 1, with log-odds linear in x, (n, d), plus an `offset`.

    `counts` weighs the observations. They are added up in blocks: there may be a score for each text and label.
    """
    n, d = x.shape
    offsets = np.broadcast_to(offset, n)

    def loss(weights: F64) -> LossTerms:
        total = LossTerms(0.0, np.zeros(d), np.zeros((d, d)))
        for own in (slice(begin, begin + block) for begin in range(0, n, block)):
            part, wanted = x[own], target[own]
            logits = np.einsum("nd,d->n", part, weights) + offsets[own]
            p = expit(logits)
            losses, off, curvature = np.logaddexp(0, logits) - wanted * logits, p - wanted, p * (1 - p)
            if counts is not None:
                losses, off, curvature = counts[own] * losses, counts[own] * off, counts[own] * curvature
            total = LossTerms(
                total.value + float(losses.sum()),
                total.gradient + np.einsum("nd,n->d", part, off),
                total.hessian + np.einsum("nd,ne->de", part * curvature[:, None], part),
            )
        return total

    return loss


def softmax_loss(x: F64, hits: Bools) -> LossFunction:
    """Return the softmax loss of the hits among each observation's options, (n, c, d); observations count alike."""
    target = hits / hits.sum(axis=1, keepdims=True)

    def loss(weights: F64) -> LossTerms:
        scores = np.einsum("ncd,d->nc", x, weights)
        p = softmax(scores, axis=1)
        mean = np.einsum("nc,ncd->nd", p, x)
        value = float((logsumexp(scores, axis=1) - np.where(hits, target * scores, 0).sum(axis=1)).sum())
        off = np.sqrt(p)[..., None] * (x - mean[:, None])
        return LossTerms(value, np.einsum("nc,ncd->d", p - target, x), np.einsum("ncd,nce->de", off, off))

    return loss
