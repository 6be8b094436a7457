"""Newton's method on convex losses, with a prior."""

import numpy as np
import pytest
from scipy.special import expit

from sparsenet.selection.newton import LossTerms, newton

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 3))
TRUE = np.array([1.5, -0.5, 0.25])
HITS = RNG.random(3000) < expit(X @ TRUE)


def logistic(weights):
    z = X @ weights
    p = expit(z)
    return LossTerms(float((np.logaddexp(0, z) - HITS * z).sum()), X.T @ (p - HITS), (X.T * (p * (1 - p))) @ X)


def quadratic(target):
    return lambda at: LossTerms(0.5 * float(((at - target) ** 2).sum()), at - target, np.eye(len(target)))


def test_recovers_planted_weights():
    found = newton(logistic, np.zeros(3), 1e-6)
    np.testing.assert_allclose(found, TRUE, atol=0.15)
    np.testing.assert_allclose(logistic(found).gradient, 0, atol=1e-4)


@pytest.mark.parametrize("start", [100.0, -30.0])
def test_converges_from_afar(start):
    """Full steps from a flat part of the loss would lead uphill."""
    found = newton(logistic, np.full(3, start), 1e-8)
    np.testing.assert_allclose(found, newton(logistic, np.zeros(3), 1e-8), atol=1e-3)


def test_the_prior_weighs_like_observations():
    target, prior = np.array([3.0, -1.0]), np.array([1.0, 1.0])
    np.testing.assert_allclose(newton(quadratic(target), prior, 1.0), [2.0, 0.0])
    np.testing.assert_allclose(newton(quadratic(target), prior, 3.0), [1.5, 0.5])
    np.testing.assert_allclose(newton(quadratic(target), prior, np.array([1.0, 3.0])), [2.0, 0.5])


def test_without_evidence_the_prior_stays():
    flat = lambda at: LossTerms(0.0, np.zeros(2), np.zeros((2, 2)))  # noqa: E731
    np.testing.assert_array_equal(newton(flat, np.array([0.5, 2.2]), 1.0), [0.5, 2.2])


def test_separable_data_stays_finite():
    points = np.array([[-1.0], [1.0]])
    hits = np.array([False, True])

    def loss(weights):
        z = points @ weights
        p = expit(z)
        hessian = (points.T * (p * (1 - p))) @ points
        return LossTerms(float((np.logaddexp(0, z) - hits * z).sum()), points.T @ (p - hits), hessian)

    found = newton(loss, np.zeros(1), 0.01)
    assert 2 < found[0] < 10
    np.testing.assert_allclose(loss(found).gradient + 0.01 * found, 0, atol=1e-5)


def test_ends_after_the_given_number_of_steps():
    one, two = (newton(logistic, np.zeros(3), 1e-6, max_steps=steps) for steps in (1, 2))
    best = newton(logistic, np.zeros(3), 1e-6)
    assert np.abs(one - best).max() > np.abs(two - best).max() > 1e-6


def test_leaves_the_prior_mean_unchanged():
    prior = np.zeros(3)
    newton(logistic, prior, 1.0)
    np.testing.assert_array_equal(prior, 0)
