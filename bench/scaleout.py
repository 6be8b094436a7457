"""What `fit(executor=...)` costs: the driver's share of the CPU time, the overhead of one worker, and equal bits.

    python -m bench.scaleout [--labels 50000] [--points 150000] [--repeats 3] [--seed 0] [--out FILE]
    python -m bench.scaleout --part blend [--labels 50000] [--points 150000] [--seed 0] --out FILE

A tree is trained on planted points in this process and on one spawned process in turn, CPU seconds of all threads.
Another run on one process records each task: its CPU time and the sizes of its messages. Runs on 2, 4 and 8 processes,
and one whose worker is killed, compare the bits of the models. `bench.scaleout_simulation` predicts clusters from this.
`--part blend` trains a blend without network once in each way, and adds it to the file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import pickle
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.planted import Planted, Shape, generate
from bench.report import head, keep, setting
from bench.scaleout_simulation import costs_of, node_counts, table
from sparsenet import BlendClassifier, TreeClassifier, Workers, kernels


def processes(n: int) -> ProcessPoolExecutor:
    """Return a pool of spawned processes."""
    return ProcessPoolExecutor(n, mp_context=multiprocessing.get_context("spawn"))


def bits(model: TreeClassifier) -> str:
    """Return a hash of all arrays of a tree."""
    found, fitted = hashlib.sha256(), model.fitted_
    for array in (fitted.shape.labels, *(array for level in fitted.levels for array in level.as_tuple())):
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


def cpu_of_worker() -> float:
    """Return the CPU seconds of this process, once its kernels are loaded."""
    kernels.backend()
    return time.process_time()


def timed(call: Callable[..., Any], *arguments: Any) -> tuple[Any, float, int]:
    """Return the result of a call, its CPU seconds and its size in a message."""
    begun = time.process_time()
    outcome = call(*arguments)
    return outcome, time.process_time() - begun, len(pickle.dumps(outcome))


def of_groups(data: Planted, model: TreeClassifier, repeats: int) -> dict[str, float]:
    """Return the CPU seconds of a root with 16 children by the number of threads, which share its children."""
    n, leaves = data.X.shape[0], model.fitted_.shape.labels
    child = np.zeros(data.Y.shape[1], np.int64)
    child[leaves] = np.arange(len(leaves)) * 16 // len(leaves)
    of_point = np.repeat(np.arange(n), np.diff(data.Y.indptr))
    masks = np.zeros(n, np.uint16)
    np.bitwise_or.at(masks, of_point, (1 << child[data.Y.indices]).astype(np.uint16))
    rows = np.repeat(np.arange(n), np.diff(data.X.indptr))
    squares = np.bincount(rows, data.X.data.astype(np.float64) ** 2, n)
    points = (data.X.indptr.astype(np.int64), data.X.indices, (data.X.data / np.sqrt(squares)[rows]).astype(np.float32))
    nodes = (np.array([0, n]), np.arange(n, dtype=np.int32), masks, np.array([0, 16]))
    rules, found, machines = model._check(), dict[str, list[float]](), set[bytes]()
    for _ in range(repeats):
        for threads in (1, 2, 4):
            begun = time.process_time()
            root = kernels.train_nodes(
                *points, data.X.shape[1], np.full(n, 2, np.float32), *nodes, rules.cost, rules.cost, 0.0,
                rules.epochs, rules.tolerance, 0, rules.smallest, threads,
            )  # fmt: skip
            found.setdefault(str(threads), []).append(time.process_time() - begun)
            machines.add(b"".join(array.tobytes() for array in root))
    assert len(machines) == 1
    return {threads: statistics.median(seconds) for threads, seconds in found.items()}


class Recorder(Executor):
    """An executor that records the tasks it passes on."""

    def __init__(self, pool: Executor) -> None:
        self.pool, self.records = pool, list[dict[str, Any]]()

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **_: Any) -> Future[Any]:
        """Pass a task on, and record it when it is done."""
        function, _scratch, own = arguments
        record = {
            "name": function.__name__,
            "depth": getattr(own[0], "depth", -1) if own else -1,
            "sent": len(pickle.dumps((call, arguments))),
        }
        outer: Future[Any] = Future()

        def done(inner: Future[Any]) -> None:
            outcome, cpu, received = inner.result()
            value = int(outcome.value.sum()) if function.__name__ == "route" else 0
            self.records.append({**record, "cpu": cpu, "received": received, "value": value})
            outer.set_result(outcome)

        self.pool.submit(timed, call, *arguments).add_done_callback(done)
        return outer


def summed(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add up the tasks of each function and depth."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for record in records:
        key = record["name"], record["depth"]
        total = found.setdefault(key, {"name": key[0], "depth": key[1], "tasks": 0, "longest": 0.0})
        total["tasks"] += 1
        total["longest"] = max(total["longest"], record["cpu"])
        for what in ("cpu", "sent", "received", "value"):
            total[what] = total.get(what, 0) + record[what]
    return list(found.values())


def trained(kind: Callable[..., Any], data: Planted, **how: Any) -> tuple[Any, float]:
    """Train a classifier; return it and the CPU seconds of this process."""
    begun = time.process_time()
    model = kind(random_state=0, n_jobs=1, verbose=0).fit(data.X, data.Y, **how)
    return model, time.process_time() - begun


def on_one_process(kind: Callable[..., Any], data: Planted) -> tuple[Any, float, float]:
    """Train on one process; return the model and the CPU seconds of driver and worker, without its start."""
    with processes(1) as pool:
        before = pool.submit(cpu_of_worker).result()
        model, driver = trained(kind, data, executor=pool)
        return model, driver, pool.submit(cpu_of_worker).result() - before


def record(data: Planted) -> dict[str, Any]:
    """Record all tasks of a tree, and the driver's CPU seconds for a task that does nothing."""
    with processes(1) as pool:
        recorder = Recorder(pool)
        trained(TreeClassifier, data, executor=recorder)
        begun, n = time.process_time(), 1000
        for future in [pool.submit(abs, number) for number in range(n)]:
            future.result()
        driver_task = (time.process_time() - begun) / n
    labels = int((np.diff(data.Y.tocsc().indptr) > 0).sum())
    return {
        "tasks": summed(recorder.records),
        "driver_task": driver_task,
        "centroid_bytes": 8 * 128 * labels,
        "halvings": int(np.ceil(np.log2(node_counts(labels)[-1]))),
        "data": {
            "points": data.X.shape[0],
            "labels": labels,
            "entries": int(data.X.nnz),
            "labels_a_point": data.Y.nnz / data.X.shape[0],
        },
    }


def with_a_killed_worker(data: Planted) -> str:
    """Kill a worker after the first level; return the bits of the tree."""
    pools: list[ProcessPoolExecutor] = []

    def pool() -> ProcessPoolExecutor:
        pools.append(processes(2))
        return pools[-1]

    with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder:

        def kill() -> None:
            while not list(Path(folder).glob("*/machines0")):
                time.sleep(0.01)
            os.kill(next(iter(pools[0]._processes)), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        found = bits(trained(TreeClassifier, data, executor=Workers(pool, scratch=folder))[0])
        killer.join()
    assert len(pools) == 2
    return found


def measure(data: Planted, report: dict[str, Any], repeats: int) -> None:
    """Add all measurements to a report."""
    alone, one, driver = [], [], []
    found = set()
    for _ in range(repeats):
        model, seconds = trained(TreeClassifier, data)
        alone.append(seconds)
        other, own, worker = on_one_process(TreeClassifier, data)
        one.append(own + worker)
        driver.append(own)
        found |= {bits(model), bits(other)}
    for n in (2, 4, 8):
        with processes(n) as pool:
            found.add(bits(trained(TreeClassifier, data, executor=pool)[0]))
    found.add(with_a_killed_worker(data))
    report |= {"alone": alone, "one_worker": one, "driver": driver, "models": len(found)}
    report["driver_cpu"] = statistics.median(driver)
    report["overhead"] = statistics.median(b / a for a, b in zip(alone, one, strict=True)) - 1
    report["driver_share"] = statistics.median(a / b for a, b in zip(driver, one, strict=True))
    report["groups"] = of_groups(data, model, repeats)
    report |= record(data)


def measure_blend(data: Planted) -> dict[str, Any]:
    """Return the CPU seconds of a blend without network, in this process and on one worker, and its longest tasks."""
    blend = partial(BlendClassifier, network="drop")
    _, seconds = trained(blend, data)
    _, own, worker = on_one_process(blend, data)
    with processes(1) as pool:
        recorder = Recorder(pool)
        trained(blend, data, executor=recorder)
    longest = {task["name"]: task["longest"] for task in summed(recorder.records)}
    size = {"points": data.X.shape[0], "entries": int(data.X.nnz)}
    return {**size, "alone": seconds, "one_worker": own + worker, "driver": own, "longest": longest}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=50_000)
    parser.add_argument("--points", type=int, default=150_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", choices=["tree", "blend"], default="tree")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    data = generate(Shape.with_labels(options.labels, points=options.points), options.seed)
    if options.part == "tree":
        report: dict[str, Any] = head(threads=1)
        measure(data, report, options.repeats)
    else:
        report = json.loads(options.out.read_text())
        report["blend"] = measure_blend(data)
    if options.out:
        keep(report, options.out)
    show(report)


def show(report: dict[str, Any]) -> None:
    """Print the shares, the overhead and the predictions."""
    print(
        f"driver: {100 * report['driver_share']:.1f} % of the CPU time; one worker: {100 * report['overhead']:+.1f} %; "
        f"models: {report['models']}"
    )
    if blend := report.get("blend"):
        share, overhead = blend["driver"] / blend["one_worker"], blend["one_worker"] / blend["alone"] - 1
        print(f"blend of {blend['points']:,} points: driver {100 * share:.1f} %; one worker: {100 * overhead:+.1f} %")
    print("\n".join(table(costs_of(report))))
    print(setting(report))


if __name__ == "__main__":
    main()
