"""From scores to probabilities: the maximum-likelihood curve on held-out labels."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from sparsenet.selection.platt import fit_platt


def drawn(steepness, shift, n=20_000):
    """Return scores, and labels drawn with the probabilities of the curve."""
    rng = np.random.default_rng(0)
    scores = rng.normal(-1, 2, n).astype(np.float32)
    return scores, rng.random(n) < expit(steepness * scores.astype(np.float64) + shift)


@pytest.mark.parametrize("curve", [(0.3, 1.0), (1.0, 0.0), (4.0, -2.0)])
def test_finds_slope_and_shift(curve):
    found = fit_platt(*drawn(*curve), slope=1.0, precision=1e-6)
    assert found == pytest.approx(curve, rel=0.1, abs=0.1)


def test_counts_weigh_scores():
    scores, truth = drawn(1.5, -1.0, 500)
    counts = np.random.default_rng(1).integers(1, 50, 500)
    repeated = fit_platt(np.repeat(scores, counts), np.repeat(truth, counts), slope=1.0, precision=2.0)
    found = fit_platt(scores, truth, slope=1.0, precision=2.0, counts=counts.astype(np.float64))
    assert found == pytest.approx(repeated, rel=1e-6)

    def loss(curve):
        logits = curve[0] * scores.astype(np.float64) + curve[1]
        wrong = counts * np.logaddexp(0, np.where(truth, -logits, logits))
        return wrong.sum() + (curve[0] - 1) ** 2

    best = minimize(loss, (1.0, 0.0), method="Nelder-Mead").x
    assert found == pytest.approx(best, rel=0.01)  # which knows of no label more of each kind


@pytest.mark.parametrize("all_true", [False, True])
def test_equal_labels_keep_probabilities_away_from_zero_and_one(all_true):
    scores = np.linspace(-3, 3, 50, dtype=np.float32)
    steepness, shift = fit_platt(scores, np.full(50, all_true), slope=1.0, precision=1.0)
    assert 0.05 <= steepness <= 20
    p = expit(steepness * scores + shift)
    assert 0.001 < min(p.min(), 1 - p.max()) < max(p.max(), 1 - p.min()) < 0.999


@pytest.mark.parametrize("slope", [0.001, 100.0])
def test_fits_the_shift_again_at_a_bound_of_the_slope(slope):
    scores, truth = drawn(slope, 1.0)
    found, shift = fit_platt(scores, truth, slope=1.0, precision=1e-6, bounds=(0.5, 2.0))
    assert found == np.clip(slope, 0.5, 2.0)
    assert expit(found * scores + shift).mean() == pytest.approx(truth.mean(), abs=0.001)
