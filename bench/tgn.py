"""A temporal graph network on a CPU: `TemporalLinkPredictor` and the example of PyTorch Geometric (PyG).

    python -m bench.tgn --steps [--batches 10,200] [--features N] [--events N] [--repeats N]
    python -m bench.tgn --nodes 250000,25000000 [--batches 10,200]

``--steps`` needs ``--data CSV``, a log as for `bench.streams`. Both write to ``--json FILE``; ``--append`` adds runs to
it. One thread, CPU time. PyG runs in its environment of ``make peers``. Both systems have 100 units of memory and 10
neighbors. The log has no features, so links get one that is 0; ``--features 172`` draws as many as the original data
have.

``--steps`` runs both systems in turn from equal weights on the same events, and reports the median of the later half of
the steps. ``--nodes`` times steps of random links among many nodes. `bench.tgn_accuracy` measures accuracy.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench import machine
from bench.report import add, begin_result, numbers, setting
from bench.runner import python_of, use_cpus
from bench.streams import of_table
from sparsenet.temporal.graph.graph_arrays import GraphArrays
from sparsenet.temporal.graph.link_training import LinkBatch, train_batch
from sparsenet.temporal.graph.link_weights import LinkShape, LinkWeights

WIDTH, NEIGHBORS, RATE, DROPOUT = 100, 10, 1e-4, 0.1


def graph_log(path: Path, events: int | None, features: int = 0) -> dict[str, Any]:
    """Return the nodes, times and features of a log of sources and targets."""
    log = of_table(path, mutual=False)
    first, n = int(log["user"].max()) + 1, len(log["user"][:events])
    drawn = np.random.default_rng(2).normal(size=(n, features)).astype(np.float32)
    return {
        "sources": log["user"][:events].astype(np.int64),
        "targets": (first + log["item"][:events]).astype(np.int64),
        "times": (log["time"] - log["time"][0])[:events].astype(np.int64),
        "features": drawn if features else np.zeros((n, 1), np.float32),
        "n_nodes": first + int(log["item"].max()) + 1,
        "first_target": first,
    }


@contextmanager
def peer(
    log: dict[str, Any], runs: list[dict[str, Any]], dropout: float, *, exact: bool = False, at_reading: bool = False
) -> Iterator[Any]:
    """Start PyG, and yield a function that does its next run and returns the results.

    `exact` mends two faults. `at_reading` computes messages when the memory is read, in the test as in training.
    """
    with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder:
        np.savez(Path(folder) / "log.npz", **log)
        job = {"log": f"{folder}/log.npz", "folder": folder, "runs": runs, "width": WIDTH, "dropout": dropout}
        job |= {"first_target": int(log["first_target"]), "exact": exact, "at_reading": at_reading}
        (Path(folder) / "job.json").write_text(json.dumps(job))
        command: list[str | Path] = [python_of("pyg"), "-m", "bench.peers.pyg", Path(folder) / "job.json"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin
            assert process.stdout
            streams = process.stdin, process.stdout

            def next_run() -> dict[str, Any]:
                streams[0].write("\n")
                streams[0].flush()
                number = streams[1].readline().strip()
                with np.load(Path(folder) / f"run{number}.npz") as found:
                    return {name: found[name] for name in found.files}

            yield next_run


def batches_of(log: dict[str, Any], size: int) -> Iterator[tuple[LinkBatch, slice]]:
    """Yield the batches of a log, and their rows."""
    for first in range(0, len(log["sources"]), size):
        rows = slice(first, first + size)
        sources, targets = (log[name][rows].astype(np.int32) for name in ("sources", "targets"))
        yield LinkBatch(sources, targets, log["times"][rows].astype(np.float64), log["features"][rows]), rows


def timed_steps(graph: GraphArrays, weights: LinkWeights, log: dict[str, Any], size: int, negatives: Any) -> Any:
    """Train on a log; return the loss and the CPU seconds of each step."""
    rng, found = np.random.default_rng(0), []
    for batch, rows in batches_of(log, size):
        began = time.process_time()
        loss = train_batch(graph, weights, batch, negatives[rows], rng, DROPOUT, RATE, 1)
        found.append((loss, time.process_time() - began))
    return np.array(found).T


def later_median(seconds: Any) -> float:
    """Return the median of the later half, in ms."""
    return 1000 * float(np.median(seconds[len(seconds) // 2 :]))


def steps(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Time steps of both systems in turn."""
    log, rng = graph_log(options.data, options.events, options.features), np.random.default_rng(1)
    n, n_features = log["features"].shape
    shape = LinkShape(WIDTH, n_features)
    negatives = rng.integers(log["first_target"], log["n_nodes"], n)
    weights = {name: array.copy() for name, array in LinkWeights.random(shape, 0).views().items()}
    weights["time_weights"] = weights.pop("times")
    turns = [size for _ in range(options.repeats) for size in options.batches]
    runs = [{"seed": 0, "n_train": min(n, 500 * size), "batch": size, "epochs": 1} for size in turns]
    with peer({**log, "negatives": negatives, **weights}, runs, DROPOUT) as next_run:
        for size, run in zip(turns, runs, strict=True):
            part = {name: log[name][: run["n_train"]] for name in ("sources", "targets", "times", "features")}
            load = machine.load_average()
            own = timed_steps(
                GraphArrays.blank(log["n_nodes"], WIDTH, NEIGHBORS, n_features),
                LinkWeights.random(shape, 0),
                part,
                size,
                negatives.astype(np.int32),
            )
            other = next_run()
            yield {
                "batch": size,
                "features": n_features,
                "load_average_before": load,
                "steps": len(own[0]),
                "sparsenet_ms": later_median(own[1]),
                "pyg_ms": later_median(other["seconds"]),
                "mean_loss": [float(np.mean(own[0])), float(np.mean(other["losses"]))],
            }


def nodes(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Time steps of random links among nodes whose state is full."""
    shape, rng = LinkShape(WIDTH, 0), np.random.default_rng(0)
    graphs = {}
    for n in options.nodes:
        graph = graphs[n] = GraphArrays.blank(n, WIDTH, NEIGHBORS, 0)
        for first in range(0, n, 1 << 20):  # so that all pages are in memory
            rows = slice(first, min(first + (1 << 20), n))
            graph.neighbors[rows] = rng.integers(0, n, (rows.stop - first, NEIGHBORS), np.int32)
            graph.memory[rows], graph.neighbor_times[rows], graph.counts[rows] = 0.1, -1.0, NEIGHBORS
    for _ in range(options.repeats):
        for size in options.batches:
            for n, graph in graphs.items():
                count = 100 * size
                log = {name: rng.integers(0, n, count) for name in ("sources", "targets")}
                log |= {"times": np.arange(count), "features": np.zeros((count, 0), np.float32)}
                load = machine.load_average()
                negatives = rng.integers(0, n, count).astype(np.int32)
                seconds = timed_steps(graph, LinkWeights.random(shape, 0), log, size, negatives)[1]
                yield {"nodes": n, "batch": size, "load_average_before": load, "sparsenet_ms": later_median(seconds)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure in one of two ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="CSV")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--nodes", type=numbers)
    parser.add_argument("--batches", type=numbers, default=[10, 200])
    parser.add_argument("--events", type=int)
    parser.add_argument("--features", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, default=Path(".bench") / "tgn.json", metavar="FILE")
    parser.add_argument("--append", action="store_true")
    options = parser.parse_args(arguments)
    use_cpus(1)
    report = begin_result(options.json, append=options.append, threads=1)
    for run in (steps if options.steps else nodes)(options):
        add(report, run, options.json)
        print(run, flush=True)
    print(setting(report))


if __name__ == "__main__":
    main()
