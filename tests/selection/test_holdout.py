"""The hold-out: at random, by time and by group."""

import numpy as np
import pytest

from sparsenet.selection.holdout import Holdout

STRATEGIES = [("random", None), ("time", np.arange(100)[::-1]), ("group", np.arange(100) // 5)]


@pytest.mark.parametrize(("strategy", "by"), STRATEGIES, ids=[name for name, _ in STRATEGIES])
@pytest.mark.parametrize("n_held", [0, 20, 100])
def test_each_point_is_kept_or_held_out(strategy, by, n_held):
    found = Holdout.draw(100, n_held, 3, strategy, by)
    assert len(found) == len(found.held) == n_held
    np.testing.assert_array_equal(np.sort(np.concatenate((found.kept, found.held))), np.arange(100))
    for numbers in (found.kept, found.held):
        assert numbers.dtype == np.int64
        assert (np.diff(numbers) > 0).all()


def test_random_points_depend_on_the_seed_alone():
    first, again, other = (Holdout.draw(1000, 100, seed).held for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert len(np.intersect1d(first, other)) < 40
    assert first[0] < 100
    assert first[-1] > 900


def test_time_holds_out_the_last_points():
    np.testing.assert_array_equal(Holdout.draw(10, 3, 0, "time").held, [7, 8, 9])
    times = ["2020-03", "2020-01", "2020-04", "2020-02", "2020-04"]
    np.testing.assert_array_equal(Holdout.draw(5, 2, 0, "time", times).held, [2, 4])


def test_groups_stay_together():
    groups = np.random.default_rng(0).integers(0, 12, 200)
    for seed in range(5):
        found = Holdout.draw(200, 30, seed, "group", groups)
        assert not np.intersect1d(groups[found.kept], groups[found.held]).size
        assert len(found) >= 30
        assert len(found) - np.bincount(groups).max() < 30, "no more groups than needed"
    by_name = Holdout.draw(200, 30, 4, "group", [f"user {group:02d}" for group in groups])
    np.testing.assert_array_equal(by_name.held, found.held)


@pytest.mark.parametrize("n_held", [-1, 11])
def test_rejects_impossible_sizes(n_held):
    with pytest.raises(ValueError, match=f"n_held must be from 0 to the 10 points, got {n_held}"):
        Holdout.draw(10, n_held, 0)


def test_rejects_unknown_strategies():
    with pytest.raises(ValueError, match="strategy must be 'random', 'time' or 'group', got 'best'"):
        Holdout.draw(10, 2, 0, "best")
