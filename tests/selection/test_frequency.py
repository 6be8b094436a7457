"""The weight of a label's log count in its score."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from sparsenet.selection import frequency
from sparsenet.selection.frequency import FEW_TRUE, fit_log_count_weight, log_counts_of


def labels(frequent, *, n=3000, k=32, steepness=1.0, seed=0):
    """Return scores of labels, the right ones, and log counts; the scores lack `frequent` times the log counts."""
    rng = np.random.default_rng(seed)
    log_counts = rng.exponential(1.5, (n, k)).astype(np.float32)
    scores = rng.normal(-4, 2, (n, k)).astype(np.float32)
    right = rng.random((n, k)) < expit(steepness * (scores + frequent * log_counts))
    return scores, right, log_counts


@pytest.mark.parametrize("steepness", [0.5, 2.0])
@pytest.mark.parametrize("frequent", [-0.5, -0.2, 0.2, 0.6])
def test_finds_the_missing_log_count_weight(frequent, steepness):
    assert fit_log_count_weight(*labels(frequent, steepness=steepness)) == pytest.approx(frequent, abs=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_adds_almost_nothing_if_nothing_is_missing(seed):
    assert abs(fit_log_count_weight(*labels(0.0, seed=seed))) < 0.03


def test_ignores_a_shift_common_to_all_scores():
    scores, right, log_counts = labels(0.4)
    found = fit_log_count_weight(scores, right, log_counts)
    assert fit_log_count_weight(10 * scores - 5, right, log_counts) == pytest.approx(min(10 * found, 1.0), abs=0.01)
    assert fit_log_count_weight(scores / 10 + 3, right, log_counts) == pytest.approx(found / 10, abs=0.01)
    assert fit_log_count_weight(scores, right, log_counts + 7) == pytest.approx(found, abs=0.01)


def test_takes_the_smaller_of_both_estimates():
    """Half of the points have no right label and frequent candidates: they say nothing about the weight."""
    scores, right, log_counts = labels(0.0)
    off = np.arange(len(scores)) % 2 == 0
    right[off], log_counts[off] = False, log_counts[off] + 3
    alone = frequency._ratio(frequency._binary(np.stack((scores, log_counts)).astype(float), right), 3)[0]
    assert alone < -0.1
    assert abs(fit_log_count_weight(scores, right, log_counts)) < 0.03


def test_adds_nothing_that_lowers_precision(monkeypatch):
    scores, right, log_counts = labels(0.4)
    assert fit_log_count_weight(scores, right, log_counts) > 0.3
    precisions = iter([np.array([0.5, 0.4, 0.3]), np.array([0.49, 0.5, 0.5])])
    monkeypatch.setattr(frequency, "_precisions", lambda *_: next(precisions))
    assert fit_log_count_weight(scores, right, log_counts) == 0


def test_adds_nothing_that_lowers_precision_at_five(monkeypatch):
    scores, right, log_counts = labels(0.4)
    for after, is_added in (([0.5, 0.4, 0.29], False), ([0.5, 0.4, 0.3], True)):
        answered = iter([np.array([0.5, 0.4, 0.3]), np.array(after)])
        monkeypatch.setattr(frequency, "_precisions", lambda *_, answered=answered: next(answered))
        assert (fit_log_count_weight(scores, right, log_counts) != 0) == is_added


@pytest.mark.parametrize(
    ("alone", "among", "deviation", "agreed"),
    [(0.5, 0.3, 0.1, 0.2), (0.1, 0.3, 0.1, 0.1), (-0.5, -0.3, 0.1, -0.2), (0.5, -0.3, 0.1, 0), (0.5, 0.05, 0.1, 0)],
)
def test_agreeing_estimates_give_the_smaller_one(alone, among, deviation, agreed):
    assert frequency._smaller(alone, among, deviation) == pytest.approx(agreed)


@pytest.mark.parametrize("apart", [10.0, 30.0])
def test_finds_the_weight_beside_a_dominating_label(apart):
    """One label of each point scores far above all others, which lie close together."""
    rng = np.random.default_rng(0)
    log_counts = rng.exponential(1.5, (2000, 32)).astype(np.float32)
    scores = rng.normal(-8, 0.3, log_counts.shape).astype(np.float32)
    scores[:, :3] += np.float32(apart) + rng.normal(0, 1, (2000, 3)).astype(np.float32)
    best = (scores + 0.5 * log_counts + rng.gumbel(size=scores.shape))[:, :3].argmax(axis=1)
    right = np.arange(32) == best[:, None]
    assert fit_log_count_weight(scores, right, log_counts) == pytest.approx(0.5, abs=0.15)


def test_rounds_the_weight_to_few_digits():
    found = fit_log_count_weight(*labels(0.4))
    assert found == round(found, 3) != 0


@pytest.mark.parametrize("wild", [300.0, 1e4, 1e30])
@pytest.mark.parametrize("where", [(7, 3), (7, slice(None))], ids=["a score", "a point"])
def test_a_point_of_wild_scores_does_not_dominate(wild, where):
    scores, right, log_counts = labels(0.4, n=512)
    usual = fit_log_count_weight(scores, right, log_counts)
    scores[where] *= np.float32(wild)
    assert fit_log_count_weight(scores, right, log_counts) == pytest.approx(usual, abs=0.05)


def test_a_search_that_does_not_converge_gives_zero():
    assert fit_log_count_weight(*labels(0.4)) > 0.3
    assert fit_log_count_weight(*labels(0.4), max_steps=2) == 0


def test_the_search_ends_at_an_optimum():
    """Start far away, where full Newton steps would diverge."""
    rng = np.random.default_rng(1)
    x = rng.standard_t(1.5, (2, 400, 16)).clip(-40, 40)
    right = rng.random(x.shape[1:]) < expit(0.1 * x[0] + 0.5 * x[1] - 3)
    loss = frequency._binary(x, right)
    found, deviation = frequency._ratio(loss, 3)
    penalized: Any = lambda at: loss(at)[0] + ((at - [1, 0, 0]) ** 2).sum() / 2  # noqa: E731
    best = minimize(penalized, np.zeros(3)).x
    assert found == pytest.approx(best[1] / best[0], rel=1e-3)
    assert 0 < deviation < abs(found)


def test_scores_of_almost_no_weight_give_zero():
    """If scores carry almost no information, a multiple of them cannot measure log counts."""
    rng = np.random.default_rng(0)
    log_counts = rng.exponential(1.5, (3000, 32)).astype(np.float32)
    scores = rng.normal(0, 2, log_counts.shape).astype(np.float32)
    right = rng.random(scores.shape) < expit(0.015 * scores + log_counts - 5)
    assert fit_log_count_weight(scores, right, log_counts) == 0


def test_few_or_equal_labels_give_zero():
    scores, right, log_counts = labels(0.6)
    few = np.zeros_like(right)
    few.flat[np.flatnonzero(right)[: FEW_TRUE - 1]] = True
    assert fit_log_count_weight(scores, few, log_counts) == 0
    assert fit_log_count_weight(scores, right, np.full_like(log_counts, 2.0)) == 0
    assert fit_log_count_weight(np.zeros_like(scores), right, log_counts) == 0
    assert fit_log_count_weight(-scores, right, np.zeros_like(log_counts)) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_not_finite_give_zero(bad):
    scores, right, log_counts = labels(0.6)
    scores[7, 3] = bad
    with np.errstate(invalid="ignore"):
        assert fit_log_count_weight(scores, right, log_counts) == 0


def test_inverted_scores_give_zero():
    scores, right, log_counts = labels(0.6)
    assert fit_log_count_weight(-scores, right, log_counts) == 0


def test_separable_scores_do_not_diverge():
    scores, _, log_counts = labels(0.0)
    assert abs(fit_log_count_weight(scores, scores > -2, log_counts)) < 0.01


def test_labels_without_points_count_as_one():
    np.testing.assert_array_equal(log_counts_of(np.array([0, 1, 2])), np.log(np.array([1, 1, 2], np.float32)))
