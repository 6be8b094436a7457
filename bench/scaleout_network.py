"""What it costs to train the labels of a network in shards; a part of `bench.scaleout`.

A network is trained on planted points for an epoch: in this process, and on one and two spawned processes, in turn.
Further runs record the sizes of files, compare the bits of models of 1, 2, 4 and 8 processes, and measure P@1.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.planted import Planted, Shape, generate
from bench.scaleout_executors import bits, processes
from bench.task_recorder import Recorder
from sparsenet import Callback, ExtremeClassifier, Workers

SIZES: dict[str, Any] = {"hidden": 128, "batch_size": 1024, "epochs": 1}


def network() -> ExtremeClassifier:
    """Return the classifier of all runs."""
    return ExtremeClassifier(**SIZES, random_state=0, n_jobs=1, verbose=0)


class OnSteps(Callback):
    """A callback that does nothing after an epoch."""

    def on_epoch(self, record: dict[str, float]) -> None:
        """Do nothing."""


class Clock(OnSteps):
    """A callback that keeps the CPU seconds of this process after each step."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_batch(self, progress: Any) -> None:
        """Keep the time."""
        self.times.append(time.process_time())

    def step(self) -> float:
        """Return the mean CPU seconds of a step, without the first, which sends the layer."""
        return (self.times[-1] - self.times[0]) / (len(self.times) - 1)


def on_processes(data: Planted, n: int) -> dict[str, Any]:
    """Train on processes; return the CPU seconds of a step, and the model."""
    with processes(n) as pool:
        recorder, clock = Recorder(pool), Clock()
        model = network().fit(data.X, data.Y, executor=Workers(recorder, n_workers=n), callbacks=[clock])
    n_steps = len(clock.times)
    totals = {"tasks": 0.0, "tidying": 0.0}
    for record in recorder.records:
        totals["tasks" if record["name"] == "train_part" else "tidying"] += record["cpu"]
    tasks = [record for record in recorder.records if record["name"] == "train_part"]
    return {
        "model": model,
        "driver": clock.step(),
        "tasks": totals["tasks"] / n_steps,
        "tidying": totals["tidying"] / n_steps,
        "messages": sum(record["sent"] + record["received"] for record in tasks) / n_steps,
    }


class FileSizes(OnSteps):
    """A callback that adds up the bytes of the files of each step."""

    def __init__(self, folder: str) -> None:
        self.folder, self.sizes, self.n = Path(folder), {"batch": 0, "records": 0}, 0

    def on_batch(self, progress: Any) -> None:
        """Add the files of this step, unless they were merged at once."""
        step = progress.epoch * progress.batches + progress.batch
        found = list(self.folder.glob(f"*/steps*.{step}.*"))
        self.n += bool(found)
        for path in found:
            self.sizes["batch" if path.name.endswith("batch") else "records"] += path.stat().st_size


def files_of(data: Planted) -> dict[str, float]:
    """Return the bytes of a step's files: the batch, and the records that two tasks write."""
    with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder, processes(2) as pool:
        sizes = FileSizes(folder)
        network().fit(data.X, data.Y, executor=Workers(pool, scratch=folder), callbacks=[sizes])
    return {name: size / sizes.n for name, size in sizes.sizes.items()}


def measure_network(options: argparse.Namespace) -> dict[str, Any]:
    """Measure a network."""
    data = generate(Shape.with_labels(options.labels, points=options.points), options.seed)
    steps: dict[str, list[dict[str, float]]] = {"1": [], "2": []}
    alone, found = [], set()
    for _ in range(options.repeats):
        clock = Clock()
        usual = network().fit(data.X, data.Y, callbacks=[clock])
        alone.append(clock.step())
        for n, runs in steps.items():
            run = on_processes(data, int(n))
            sharded = run.pop("model")
            runs.append(run)
            found.add(bits(sharded))
    for many in (4, 8):
        with processes(many) as pool:
            found.add(bits(network().fit(data.X, data.Y, executor=pool)))
    wide = usual.network_.output.wide
    assert wide is not None
    return {
        "points": data.X.shape[0],
        "labels": data.Y.shape[1],
        "sizes": SIZES,
        "active": active_labels(data),
        "wide_weights_a_label": len(wide.indices) / data.Y.shape[1],
        "alone": alone,
        "workers": steps,
        "files": files_of(data),
        "models": len(found),
        "precision": {"alone": precision(usual, data), "shards": precision(sharded, data)},
    }


def active_labels(data: Planted) -> float:
    """Return the mean number of active labels of a step: its points' labels, and 256 negatives."""
    order, size = np.random.default_rng(0).permutation(data.X.shape[0]), SIZES["batch_size"]
    batches = [order[begin : begin + size] for begin in range(0, len(order), size)]
    return float(np.mean([len(np.unique(data.Y[batch].indices)) for batch in batches])) + 256


def precision(model: ExtremeClassifier, data: Planted) -> float:
    """Return P@1 on the test points."""
    first = model.topk_numbers(data.X_test, 1)[0][:, 0]
    numbers = model.classes_[first]
    return float(np.asarray(data.Y_test.tocsr()[np.arange(len(numbers)), numbers]).ravel().astype(bool).mean())


def middle(runs: list[dict[str, float]], name: str) -> float:
    """Return the median of a number of several runs."""
    return statistics.median(run[name] for run in runs)


def describe(found: dict[str, Any]) -> str:
    """Describe a result in one line."""
    parts = [f"network: {1e3 * statistics.median(found['alone']):.0f} ms CPU a step in this process"]
    for n, runs in found["workers"].items():
        cpu = {name: 1e3 * middle(runs, name) for name in ("driver", "tasks", "tidying")}
        parts.append(
            f"{n} workers: driver {cpu['driver']:.0f}, tasks {cpu['tasks']:.0f}, merging {cpu['tidying']:.0f} ms, "
            f"messages {middle(runs, 'messages') / 1e3:.1f} kB"
        )
    sizes = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in found["files"].items())
    return f"{'; '.join(parts)}; files: {sizes}; models: {found['models']}; P@1 {found['precision']}"
