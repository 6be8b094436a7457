"""Choosing between options by their scores on held-out points."""

import math

import numpy as np
import pytest

from sparsenet.selection.choose import Option, Rule, choose, climb

N = 400


def scores(*n_right):
    """Return one option for each number of points that it answers right, the first points first."""
    options = [Option(f"option {i}", i) for i in range(len(n_right))]
    return options, lambda i: (np.arange(N) < n_right[i]).astype(float)


@pytest.mark.parametrize(
    ("n_right", "chosen"),
    [
        ((200, 200), 0),
        ((200, 100), 0),
        ((200, 203), 0),
        ((200, 205), 1),
        ((200, 240, 220), 1),
        ((200, 220, 240), 2),
        ((200, 203, 240), 2),
        ((200, 100, 200), 0),
    ],
)
def test_a_later_option_wins_beyond_chance(n_right, chosen):
    """Three more of 400 are within two standard errors, sqrt(3) / 400 each; five more are not."""
    assert choose(*scores(*n_right), Rule("accuracy")).value == chosen


@pytest.mark.parametrize(
    ("rule", "chosen"),
    [
        (Rule("accuracy", standard_errors=0.5), 1),
        (Rule("accuracy", standard_errors=2.0), 0),
        (Rule("accuracy", standard_errors=0.5, min_gain=0.01), 0),
        (Rule("accuracy", standard_errors=0.5, min_gain=0.007), 1),
    ],
)
def test_the_rule_sets_the_bar(rule, chosen):
    assert choose(*scores(200, 203), rule).value == chosen


def test_noise_that_cancels_is_no_gain():
    """The second option is right elsewhere, and four points more often; differences are noisy."""
    first, second = np.zeros(N), np.zeros(N)
    first[:100], second[96:200] = 1, 1
    found = choose([Option("first", first), Option("second", second)], lambda own: own, Rule("accuracy"))
    assert found.value is first
    assert found.gain == pytest.approx(4 / N)
    assert found.standard_error == pytest.approx((second - first).std(ddof=1) / math.sqrt(N))


def test_a_decision_records_its_evidence():
    found = choose(*scores(200, 240), Rule("accuracy"))
    assert found.options == ("option 0", "option 1")
    assert found.gain == pytest.approx(0.1)
    assert found.standard_error == pytest.approx(math.sqrt(0.1 * 0.9 / (N - 1)))
    assert found.n == N
    assert found.why == (
        "option 1: accuracy 10.00 percentage points above option 0 (standard error 1.50), 400 held-out points"
    )


def test_a_decision_says_why_the_default_stays():
    within = choose(*scores(200, 203), Rule("accuracy")).why
    assert within.endswith("400 held-out points, not beyond chance: option 0 stays")
    assert "0.75 percentage points above option 0" in within
    worse = choose(*scores(200, 180), Rule("accuracy"))
    assert "option 1: accuracy 5.00 percentage points below option 0" in worse.why
    assert worse.gain == pytest.approx(-0.05)


def test_each_option_is_scored_once():
    asked = []
    choose([Option(str(i), i) for i in range(3)], lambda i: asked.append(i) or np.zeros(9), Rule("P@1"))
    assert asked == [0, 1, 2]


def test_climbing_scores_each_option_once():
    asked = []
    found = climb(
        [Option(str(i), i) for i in range(4)], lambda i: asked.append(i) or np.full(9, min(i, 2)), Rule("P@1")
    )
    assert (found.value, asked) == (2, [0, 1, 2, 3])
