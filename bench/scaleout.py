"""What `fit(executor=...)` costs: the driver's share of the CPU time, the overhead of one worker, and equal bits.

    python -m bench.scaleout [--part tree blend network processes dask ray mpi] [--repeats 3] [--seed 0] [--out FILE]

Each part is added to FILE when it is done; other parts of FILE do not change.

tree: a tree is trained on planted points in this process and on one spawned process in turn, CPU seconds of all
threads. Another run on one process records each task: its CPU time and the sizes of its messages.
`bench.scaleout_simulation` predicts clusters from this.

blend: the same for a blend without network, and its longest tasks.

network: a network whose labels are trained in shards (`bench.scaleout_network`).

processes, dask, ray, mpi: trees and blends on 1, 2, 4 and 8 workers of an executor that is installed, also with a
killed worker (`bench.scaleout_executors`), and how many of these models differ from the models of this process. With
``--workers``, other numbers of workers; those in FILE stay.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from bench.planted import Planted, Shape, generate
from bench.report import head, keep, setting
from bench.scaleout_executors import EXECUTORS, LABELS, MODELS, POINTS, bits, planted, processes
from bench.scaleout_network import describe, measure_network
from bench.scaleout_simulation import costs_of, network_table, node_counts, table
from bench.task_recorder import Recorder, summed
from sparsenet import BlendClassifier, TreeClassifier, kernels

WORKERS = (1, 2, 4, 8)
#: MPI refuses to start as root, or more processes than cores, without these; processes then wait without spinning.
MPI_SETTINGS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


def cpu_of_worker() -> float:
    """Return the CPU seconds of this process, once its kernels are loaded."""
    kernels.backend()
    return time.process_time()


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


def in_pairs(kind: Callable[..., Any], data: Planted, repeats: int) -> dict[str, Any]:
    """Train in this process and on one worker in turn; return the CPU seconds, and the number of different models."""
    alone, one, driver, found = [], [], [], set()
    for _ in range(repeats):
        model, seconds = trained(kind, data)
        other, own, worker = on_one_process(kind, data)
        alone.append(seconds)
        one.append(own + worker)
        driver.append(own)
        found |= {bits(model), bits(other)}
    return {
        "points": data.X.shape[0],
        "entries": int(data.X.nnz),
        "alone": alone,
        "one_worker": one,
        "driver": driver,
        "models": len(found),
        "driver_cpu": statistics.median(driver),
        "overhead": statistics.median(b / a for a, b in zip(alone, one, strict=True)) - 1,
        "driver_share": statistics.median(a / b for a, b in zip(driver, one, strict=True)),
    }


def measure_tree(options: argparse.Namespace) -> dict[str, Any]:
    """Measure a tree."""
    data = generate(Shape.with_labels(options.labels, points=options.points), options.seed)
    found = in_pairs(TreeClassifier, data, options.repeats)
    model = trained(TreeClassifier, data)[0]
    return {**found, "groups": of_groups(data, model, options.repeats), **record(data)}


def measure_blend(options: argparse.Namespace) -> dict[str, Any]:
    """Measure a blend without network, of twice as many points."""
    data = generate(Shape.with_labels(options.labels, points=2 * options.points), options.seed)
    blend = partial(BlendClassifier, network="drop")
    found = in_pairs(blend, data, options.repeats)
    with processes(1) as pool:
        recorder = Recorder(pool)
        trained(blend, data, executor=recorder)
    return {**found, "longest": {task["name"]: task["longest"] for task in summed(recorder.records)}}


def measure_equal(options: argparse.Namespace, *, executor: str) -> dict[str, Any]:
    """Return the bits of the models of an executor by number of workers, and how many differ from the usual ones."""
    data = planted()
    usual = {name: bits(model().fit(data.X, data.Y)) for name, model in MODELS.items()}
    before = kept(options).get(executor, {})
    found: dict[str, dict[str, str]] = before["bits"] if before.get("usual") == usual else {}
    for n in options.workers:
        found[str(n)] = on_workers(executor, n)
    runs = [run for own in found.values() for run in own.items()]
    differ = sum(own != usual[model.partition(",")[0]] for model, own in runs)
    return {"labels": LABELS, "points": POINTS, "usual": usual, "bits": found, "models": len(runs), "differ": differ}


def on_workers(name: str, n: int) -> dict[str, str]:
    """Return the bits of the models of an executor with n workers, in a process of its own."""
    program = ["-m", "bench.scaleout_executors", name, "--workers", str(n)]
    if name != "mpi":
        return printed([sys.executable, *program])
    beside = Path(sys.executable).with_name("mpiexec")
    mpi = [str(beside) if beside.exists() else "mpiexec", "-n", str(n + 1), sys.executable, "-m", "mpi4py.futures"]
    found = printed([*mpi, *program, "--runs", "whole"])
    with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder:
        for model in MODELS:  # a killed worker ends the job, so it starts again
            again = [*mpi, *program, "--runs", "killed", "--models", model, "--checkpoint", folder]
            assert run(again).returncode != 0, "the job went on without a worker"
            found |= printed(again)
    return found


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command."""
    return subprocess.run(command, env=os.environ | MPI_SETTINGS, capture_output=True, text=True, timeout=600)


def printed(command: list[str]) -> dict[str, str]:
    """Return the JSON that a command prints in its last line but for messages of Ray."""
    done = run(command)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])
    return found


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "tree": measure_tree,
    "blend": measure_blend,
    "network": measure_network,
    **{name: partial(measure_equal, executor=name) for name in EXECUTORS},
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=20_000)
    parser.add_argument("--points", type=int, default=60_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--workers", nargs="+", type=int, default=WORKERS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    for part in options.part:
        if find_spec(EXECUTORS.get(part, "sparsenet")) is None:
            print(f"{part} is not installed")
            continue
        found = {**head(threads=1), **PARTS[part](options)}
        if options.out:
            keep({**kept(options), part: found}, options.out)
        show(part, found)
        if part == "tree":
            print("\n".join(table(costs_of(found))))
        if part == "network":
            print("\n".join(network_table(found)))


def kept(options: argparse.Namespace) -> dict[str, Any]:
    """Return the parts in the file."""
    found: dict[str, Any] = json.loads(options.out.read_text()) if options.out and options.out.exists() else {}
    return found


def show(part: str, found: dict[str, Any]) -> None:
    """Print a part."""
    if part == "network":
        print(describe(found))
    elif part in EXECUTORS:
        print(f"{part}: {found['models']} models on {', '.join(found['bits'])} workers; {found['differ']} differ")
    else:
        share, overhead = 100 * found["driver_share"], 100 * found["overhead"]
        print(
            f"{part} of {found['points']:,} points: {statistics.median(found['alone']):.1f} CPU s; one worker: "
            f"{overhead:+.1f} %, of which the driver {share:.1f} %; models: {found['models']}"
        )
    print(setting(found))


if __name__ == "__main__":
    main()
