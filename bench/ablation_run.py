"""Train one variant for `bench.ablation` in a separate process: ``python -m bench.ablation_run JOB RESULT``."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from bench.cache import load
from bench.clock import TimeIsUp
from sparsenet import ExtremeClassifier, SampledSoftmax, kernels, metrics
from sparsenet.core.batches import Batcher
from sparsenet.core.rows import Rows, as_matrix
from sparsenet.engines.network.building import build
from sparsenet.engines.network.optim import Schedule
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.network.training import Trainer
from sparsenet.features.kinds import are_dense
from sparsenet.features.units import scaled
from sparsenet.index.hashing import LSHConfig
from sparsenet.kernels.types import I64

#: The final learning rate as a share of the first, as in the default `Schedule`.
FINAL = Schedule().final
TOP = 5


class Budget:
    """A time budget that starts now, and a callback that counts steps and ends training when the budget is spent."""

    def __init__(self, seconds: float, now: Callable[[], float]) -> None:
        self.seconds, self._now = seconds, now
        self._begin = now()
        self.start = self.epochs = 0.0
        self.steps = 0
        self.index_recall: float | None = None

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return self._now() - self._begin

    def on_batch(self, progress: Any) -> None:
        self.steps += 1
        self.epochs = progress.epoch + progress.batch / progress.batches
        self.index_recall = progress.index_recall
        if self.spent >= self.seconds:
            raise TimeIsUp

    def on_epoch(self, record: Mapping[str, float]) -> None:
        """Do nothing: time ends training, epochs do not."""


def clock_of(name: str, threads: int) -> Callable[[], float]:
    """Return a clock of wall seconds, or of CPU seconds divided by threads."""
    return time.perf_counter if name == "wall" else lambda: time.process_time() / threads


@dataclass(frozen=True)
class BudgetSchedule:
    """The default `Schedule`, a linear decay, over time instead of steps."""

    budget: Budget

    def factor(self, step: int, total: int) -> float:
        """Return the current factor of the learning rate."""
        left = 1 - min(self.budget.spent / self.budget.seconds, 1)
        return FINAL + (1 - FINAL) * left


class ClusteredBatcher(Batcher):
    """Batches of points whose signs under random projections agree; batches come in random order.

    The projections of each epoch are new. With `period` 2, every other epoch is shuffled.
    """

    n_bits, period = 16, 1

    def __init__(self, features: Rows, labels: Rows, *, batch_size: int, seed: int) -> None:
        super().__init__(features, labels, batch_size=batch_size, seed=seed)
        self._matrix, self._shuffle = as_matrix(features), (batch_size, seed)

    def order(self, epoch: int) -> I64:
        size, seed = self._shuffle
        order = super().order(epoch)
        if epoch % self.period:
            return order
        rng = np.random.default_rng((seed, epoch, 1))
        signs = self._matrix @ rng.standard_normal((self._matrix.shape[1], self.n_bits), np.float32) > 0
        codes = signs @ (1 << np.arange(self.n_bits))
        order = order[np.argsort(codes[order], kind="stable")]
        whole = len(order) // size * size
        batches = rng.permutation(order[:whole].reshape(-1, size))
        return np.concatenate((batches.ravel(), order[whole:]))


class AlternatingBatcher(ClusteredBatcher):
    """Clustered and shuffled epochs in turns."""

    period = 2


BATCHERS = {"shuffled": Batcher, "clustered": ClusteredBatcher, "alternating": AlternatingBatcher}


def parameters(settings: Mapping[str, Any], n_labels: int) -> dict[str, Any]:
    """Turn the settings of a job into parameters of `ExtremeClassifier`; `batches` is none.

    >>> parameters({"sampler": "lsh-dwta", "hidden": 64}, n_labels=1000)["sampler"].family
    'dwta'
    """
    found = {name: value for name, value in settings.items() if name != "batches"}
    if str(found.get("sampler", "")).startswith("lsh-"):
        found["sampler"] = LSHConfig.for_size(n_labels, found["sampler"].removeprefix("lsh-"))
    if "correct" in found:
        found["loss"] = SampledSoftmax(correct=found.pop("correct"))
    return found


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Train for the time of the job, set-up included, and score the test points."""
    X, Y, X_test, Y_test = (load(job["data"], name) for name in ("train.X", "train.Y", "test.X", "test.Y"))
    batcher = BATCHERS[job["settings"].get("batches", "shuffled")]
    model = ExtremeClassifier(**parameters(job["settings"], Y.shape[1]))
    threads = job["threads"]
    budget = Budget(job["seconds"], clock_of(job["clock"], threads))
    settings = NetworkOptions.of(model.get_params(deep=False))
    labels, how = Rows.of(Y), {"seed": job["seed"], "threads": threads}
    scaling, features = scaled(X, labels, settings.normalize, **how)
    points = features, labels
    settings = settings.for_points(len(points[0]), dense=are_dense(points[0]))
    network, settings = build(settings, *points, **how)
    config = settings.training(X.shape[0], **how)
    config = replace(config, epochs=1_000_000, schedule=BudgetSchedule(budget))  # type: ignore[arg-type]
    with patch("sparsenet.engines.network.training.trainer.Batcher", batcher):
        trainer = Trainer(network, *points, config, callbacks=[budget])
    budget.start = budget.spent
    with suppress(TimeIsUp):
        trainer.run()
    spent = budget.spent
    ranked, _ = network.topk(scaling.apply(X_test), TOP, threads)
    scores = metrics.evaluate(Y_test, ranked, (1, 3, 5), metrics.propensities(Y))
    return {
        "isa": kernels.isa_used(),
        "epochs": budget.epochs,
        "steps": budget.steps,
        "steps_a_second": budget.steps / (spent - budget.start),
        "start_seconds": budget.start,
        "spent_seconds": spent,
        "index_recall": budget.index_recall,
        **{name: float(value) for name, value in scores.items()},
    }


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps(main(json.loads(Path(sys.argv[1]).read_text()))))
