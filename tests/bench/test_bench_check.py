"""The guard against slower commits: statistics, verdicts and table."""

import numpy as np
import pytest

from bench import check


def test_the_interval_covers_the_median():
    rng = np.random.default_rng(0)
    for n in (6, 9, 15, 27):
        samples = rng.standard_normal((4000, n))
        held = [low <= 0 <= high for low, high in map(check.interval, samples.tolist())]
        assert np.mean(held) >= 0.94


def test_the_interval_of_few_values_is_their_range():
    assert check.interval([3.0, 1.0, 2.0]) == (1.0, 3.0)


@pytest.mark.parametrize(
    ("ratios", "state"),
    [
        ([0.93] * 9, "FAILS"),
        ([0.90, 0.91, 0.92, 0.93, 0.94, 0.93, 0.92, 0.91, 0.99], "FAILS"),
        ([0.96] * 9, "holds"),
        ([1.2] * 9, "holds"),
        # The median is below the limit, but the interval includes 1: it may be noise.
        ([0.80, 0.85, 0.90, 0.91, 0.94, 1.02, 1.05, 1.10, 1.20], "unresolved"),
        # The median is above the limit, but the interval reaches far below it.
        ([0.80, 0.85, 0.90, 0.97, 1.00, 1.02, 1.05, 1.10, 1.20], "unresolved"),
    ],
)
def test_decides_by_the_median_and_its_interval(ratios, state):
    assert check.decide(ratios, limit=0.05).state == state


def test_load_that_slows_both_sides_of_a_round_cancels_out():
    rounds = [{"base": {"rate": speed}, "this": {"rate": 0.9 * speed}} for speed in (100, 55, 20, 98, 60, 99, 30)]
    ratios = check.ratios_of(rounds)["rate"]
    assert ratios == pytest.approx([0.9] * 7)
    assert check.decide(ratios, 0.05).state == "FAILS"


def test_figures_of_only_one_side_are_left_out():
    assert check.ratios_of([{"base": {"a": 1.0}, "this": {"a": 2.0, "b": 1.0}}]) == {"a": [2.0]}


def test_the_table_names_the_largest_loss_that_noise_could_hide():
    rounds = [{"base": {"rate": 100.0}, "this": {"rate": r}, "load_average_before": 0.0} for r in (99.0, 97.0, 100.0)]
    verdict = check.decide(check.ratios_of(rounds)["rate"], 0.05)
    about = {"cpu": "a CPU", "isa_used": "avx2", "commit": "0" * 40, "uncommitted_changes": True}
    report = {
        "started": "today",
        "machine": about,
        "base": "1" * 40,
        "runs": rounds,
        "verdicts": {"rate": vars(verdict)},
    }
    text = check.markdown(report)
    assert "| rate | 100 | 99 | 0.990 | 0.970 to 1.000 | holds |" in text
    assert "The least certain figure, rate, could hide a loss of up to 3.0 %." in text
