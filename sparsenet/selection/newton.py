"""Newton's method with a Gaussian prior, for convex losses of a few parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from sparsenet.kernels.types import F64


class LossTerms(NamedTuple):
    """Negative log-likelihood, its gradient and its Hessian."""

    value: float
    gradient: F64
    hessian: F64


def newton(
    loss: Callable[[F64], LossTerms],
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
