"""Training within a time budget."""

import time

import numpy as np
import pytest

from sparsenet import Schedule, Trainer, TrainingConfig
from sparsenet.core.rows import as_matrix
from sparsenet.engines.network.training.budget import TimeBudget
from sparsenet.engines.network.training.reports import Validation
from tests.support.networks import FEATURES, TRUTH, network
from tests.support.patience import PATIENCE
from tests.support.planted import X, Y, fast


def test_a_fit_ends_within_its_time_budget():
    started = time.perf_counter()
    model = fast(epochs=10**6, time_budget=2.0 * PATIENCE).fit(X, Y)
    took = time.perf_counter() - started
    assert 1.5 * PATIENCE < took < 2.6 * PATIENCE
    assert 1 <= model.n_iter_ < 10**6
    assert model.score(X, Y) > 0.95


def test_an_ample_budget_changes_nothing():
    free, bounded = (fast(epochs=3, time_budget=seconds).fit(X, Y) for seconds in (None, 1e6))
    weights = [model.network_.weights() for model in (free, bounded)]
    assert all(np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_no_time_at_all_still_takes_one_step():
    model = fast(time_budget=1e-9).fit(X, Y)
    assert model.n_iter_ == 1
    assert len(model.history_) == 1
    assert np.isfinite(model.history_[0]["loss"])


def trained(**parts):
    """Train for as long as the time budget allows."""
    config = TrainingConfig(epochs=10**6, batch_size=50, schedule=parts.pop("schedule", Schedule()))
    trainer = Trainer(network(16), FEATURES, TRUTH, config, **parts)
    trainer.run()
    return trainer


def test_the_rate_falls_to_its_end_within_the_budget():
    factors = []

    class Recorded(Schedule):
        def factor(self, step, total):
            factors.append(super().factor(step, total))
            return factors[-1]

    trained(schedule=Recorded(), time_budget=1.0 * PATIENCE)
    assert factors[0] > 0.9
    assert factors[-1] < 0.3
    assert np.mean(np.diff(factors) <= 0.05) > 0.99  # it falls, apart from clock noise


def test_the_last_step_follows_the_pace(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    budget = TimeBudget(10.0)
    budget.start()
    assert budget.last_step(1, 50) == 50
    for step in range(1, 5):
        now[0] += 1.0
        budget.step_done()
        assert budget.last_step(step + 1, 50) == 10
        assert budget.last_step(step + 1, 7) == 7
        assert not budget.is_spent()
    now[0] += 5.5
    budget.step_done()
    assert budget.is_spent()


@pytest.mark.parametrize("value", [0, -1, float("nan"), "soon", True])
def test_rejects_a_senseless_budget(value):
    with pytest.raises((ValueError, TypeError), match="time_budget"):
        fast(time_budget=value).fit(X, Y)


class Slow(Validation):
    """Validation data that take their time."""

    SECONDS = 0.2 * PATIENCE

    def measure(self, *arguments):
        time.sleep(self.SECONDS * len(self.features) / len(FEATURES))
        return super().measure(*arguments)


def test_validation_counts_towards_the_budget():
    started, budget = time.perf_counter(), 1.5 * PATIENCE
    trainer = trained(validation=Slow(FEATURES, as_matrix(TRUTH)), time_budget=budget)
    assert time.perf_counter() - started < budget + Slow.SECONDS / 2
    assert len(trainer.history) > 1
