"""What a label's score is to gain by how often the label is."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from sparsenet.selection import frequency
from sparsenet.selection.frequency import FEW_TRUE, MOST, logarithms, worth


def labels(frequent, *, n=3000, k=32, steepness=1.0, seed=0):
    """Return scores of labels, which are right, and logarithms of their counts, of which scores want so much more."""
    rng = np.random.default_rng(seed)
    log_counts = rng.exponential(1.5, (n, k)).astype(np.float32)
    scores = rng.normal(-4, 2, (n, k)).astype(np.float32)
    right = rng.random((n, k)) < expit(steepness * (scores + frequent * log_counts))
    return scores, right, log_counts


@pytest.mark.parametrize("steepness", [0.5, 2.0])
@pytest.mark.parametrize("frequent", [-0.5, -0.2, 0.2, 0.6])
def test_what_is_missing_is_found(frequent, steepness):
    assert worth(*labels(frequent, steepness=steepness)) == pytest.approx(frequent, abs=0.1)


@pytest.mark.parametrize("seed", range(5))
def test_where_nothing_is_missing_next_to_nothing_is_added(seed):
    assert abs(worth(*labels(0.0, seed=seed))) < 0.03


def test_it_does_not_depend_on_what_all_scores_have_in_common():
    scores, right, log_counts = labels(0.4)
    found = worth(scores, right, log_counts)
    assert worth(10 * scores - 5, right, log_counts) == pytest.approx(min(10 * found, MOST), abs=0.01)
    assert worth(scores / 10 + 3, right, log_counts) == pytest.approx(found / 10, abs=0.01)
    assert worth(scores, right, log_counts + 7) == pytest.approx(found, abs=0.01)


def test_no_more_is_added_than_both_ways_of_asking_say():
    """Of some points nothing is right, and they name frequent labels: of a point's own labels that tells nothing."""
    scores, right, log_counts = labels(0.0)
    off = np.arange(len(scores)) % 2 == 0
    right[off], log_counts[off] = False, log_counts[off] + 3
    alone = frequency._fitted(frequency._by_itself(np.stack((scores, log_counts)).astype(float), right), 3)[0]
    assert alone < -0.1
    assert abs(worth(scores, right, log_counts)) < 0.03


def test_what_makes_answers_worse_is_not_added(monkeypatch):
    scores, right, log_counts = labels(0.4)
    assert worth(scores, right, log_counts) > 0.3
    precisions = iter([np.array([0.5, 0.4, 0.3]), np.array([0.49, 0.5, 0.5])])
    monkeypatch.setattr(frequency, "_answered", lambda *_: next(precisions))
    assert worth(scores, right, log_counts) == 0


def test_what_makes_the_first_few_worse_is_not_added_either(monkeypatch):
    scores, right, log_counts = labels(0.4)
    for after, is_added in (([0.5, 0.4, 0.29], False), ([0.5, 0.4, 0.3], True)):
        answered = iter([np.array([0.5, 0.4, 0.3]), np.array(after)])
        monkeypatch.setattr(frequency, "_answered", lambda *_, answered=answered: next(answered))
        assert (worth(scores, right, log_counts) != 0) == is_added


@pytest.mark.parametrize(
    ("alone", "among", "deviation", "agreed"),
    [(0.5, 0.3, 0.1, 0.2), (0.1, 0.3, 0.1, 0.1), (-0.5, -0.3, 0.1, -0.2), (0.5, -0.3, 0.1, 0), (0.5, 0.05, 0.1, 0)],
)
def test_the_smaller_of_two_findings_counts_if_they_agree(alone, among, deviation, agreed):
    assert frequency._agreed(alone, among, deviation) == pytest.approx(agreed)


@pytest.mark.parametrize("apart", [10.0, 30.0])
def test_right_labels_that_stand_out_are_told_from_each_other(apart):
    """One label of each point is far above all others, which lie close together."""
    rng = np.random.default_rng(0)
    log_counts = rng.exponential(1.5, (2000, 32)).astype(np.float32)
    scores = rng.normal(-8, 0.3, log_counts.shape).astype(np.float32)
    scores[:, :3] += np.float32(apart) + rng.normal(0, 1, (2000, 3)).astype(np.float32)
    best = (scores + 0.5 * log_counts + rng.gumbel(size=scores.shape))[:, :3].argmax(axis=1)
    right = np.arange(32) == best[:, None]
    assert worth(scores, right, log_counts) == pytest.approx(0.5, abs=0.15)


def test_what_is_found_has_few_digits():
    found = worth(*labels(0.4))
    assert found == round(found, 3) != 0


@pytest.mark.parametrize("wild", [300.0, 1e4, 1e30])
@pytest.mark.parametrize("where", [(7, 3), (7, slice(None))], ids=["a score", "a point"])
def test_a_point_of_wild_scores_is_no_more_than_a_point(wild, where):
    scores, right, log_counts = labels(0.4, n=512)
    usual = worth(scores, right, log_counts)
    scores[where] *= np.float32(wild)
    assert worth(scores, right, log_counts) == pytest.approx(usual, abs=0.05)


def test_a_search_that_does_not_end_tells_nothing(monkeypatch):
    assert worth(*labels(0.4)) > 0.3
    monkeypatch.setattr(frequency, "MOST_STEPS", 2)
    assert worth(*labels(0.4)) == 0


def test_the_search_ends_where_no_other_is_better():
    """From far off, where whole steps would lead away."""
    rng = np.random.default_rng(1)
    x = rng.standard_t(1.5, (2, 400, 16)).clip(-40, 40)
    right = rng.random(x.shape[1:]) < expit(0.1 * x[0] + 0.5 * x[1] - 3)
    loss = frequency._by_itself(x, right)
    found, deviation = frequency._fitted(loss, 3)
    best = minimize(lambda at: loss(at)[0] + ((at - [1, 0, 0]) ** 2).sum() / 2, np.zeros(3)).x
    assert found == pytest.approx(best[1] / best[0], rel=1e-3)
    assert 0 < deviation < abs(found)


def test_scores_that_hardly_matter_are_no_measure():
    """Of a score that says nothing, any multiple of anything else is little."""
    rng = np.random.default_rng(0)
    log_counts = rng.exponential(1.5, (3000, 32)).astype(np.float32)
    scores = rng.normal(0, 2, log_counts.shape).astype(np.float32)
    right = rng.random(scores.shape) < expit(0.015 * scores + log_counts - 5)
    assert worth(scores, right, log_counts) == 0


def test_nothing_is_told_by_few_or_equal_labels():
    scores, right, log_counts = labels(0.6)
    few = np.zeros_like(right)
    few.flat[np.flatnonzero(right)[: FEW_TRUE - 1]] = True
    assert worth(scores, few, log_counts) == 0
    assert worth(scores, right, np.full_like(log_counts, 2.0)) == 0
    assert worth(np.zeros_like(scores), right, log_counts) == 0
    assert worth(-scores, right, np.zeros_like(log_counts)) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_scores_that_are_no_numbers_tell_nothing(bad):
    scores, right, log_counts = labels(0.6)
    scores[7, 3] = bad
    with np.errstate(invalid="ignore"):
        assert worth(scores, right, log_counts) == 0


def test_scores_that_are_worth_nothing_are_given_nothing():
    scores, right, log_counts = labels(0.6)
    assert worth(-scores, right, log_counts) == 0


def test_scores_that_leave_nothing_to_tell_do_not_run_away():
    scores, _, log_counts = labels(0.0)
    assert abs(worth(scores, scores > -2, log_counts)) < 0.01


def test_labels_without_points_are_taken_as_having_one():
    np.testing.assert_array_equal(logarithms(np.array([0, 1, 2])), np.log(np.array([1, 1, 2], np.float32)))
