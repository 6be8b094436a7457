"""Newton's method on convex losses, with a prior."""

import numpy as np
import pytest
from scipy.special import expit

from sparsenet.selection.newton import LossTerms, logistic_loss, newton, softmax_loss

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 3))
TRUE = np.array([1.5, -0.5, 0.25])
HITS = RNG.random(3000) < expit(X @ TRUE)


logistic = logistic_loss(X, HITS)


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
    loss = logistic_loss(np.array([[-1.0], [1.0]]), np.array([False, True]))
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


def gradients(loss, at, step=1e-6):
    """Return gradient and Hessian of a loss by central differences."""
    steps = step * np.eye(len(at))
    ups, downs = ([loss(at + sign * own) for own in steps] for sign in (1, -1))
    gradient = [(up.value - down.value) / (2 * step) for up, down in zip(ups, downs, strict=True)]
    hessian = [(up.gradient - down.gradient) / (2 * step) for up, down in zip(ups, downs, strict=True)]
    return np.array(gradient), np.array(hessian)


def test_losses_return_their_gradient_and_hessian():
    x, hits = RNG.normal(size=(40, 5, 3)), RNG.random((40, 5)) < 0.4
    hits[:, 0] = True
    counts, offset = RNG.integers(1, 9, 40).astype(float), RNG.normal(size=40)
    at = np.array([0.3, -1.0, 0.5])
    for loss in (softmax_loss(x, hits), logistic_loss(x[:, 0], hits[:, 1], counts=counts, offset=offset)):
        gradient, hessian = gradients(loss, at)
        np.testing.assert_allclose(loss(at).gradient, gradient, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(loss(at).hessian, hessian, rtol=1e-4, atol=1e-5)


def test_counts_weigh_like_repetition():
    counts = RNG.integers(1, 4, len(X))
    once = logistic_loss(X, HITS, counts=counts.astype(float))(TRUE)
    repeated = logistic_loss(np.repeat(X, counts, axis=0), np.repeat(HITS, counts))(TRUE)
    np.testing.assert_allclose(once.gradient, repeated.gradient, rtol=1e-8)
    np.testing.assert_allclose(once.value, repeated.value, rtol=1e-8)
