"""A temporal graph network on a CPU: `TemporalLinkPredictor` and the example of PyTorch Geometric (PyG).

    python -m bench.tgn --steps [--batches 10,200] [--features N] [--events N] [--repeats N]
    python -m bench.tgn --accuracy [--batches 10,200] [--epochs N] [--seed N] [--systems sparsenet,pyg]
    python -m bench.tgn --sizes 1,10,100 [--events N] [--plot FILE]
    python -m bench.tgn --nodes 250000,25000000 [--batches 10,200]

All but the last need ``--data CSV``, a log as for `bench.streams`; all write to ``--json FILE``. One thread, CPU time.
PyG runs in its environment of ``make peers``. Both systems have 100 units of memory and 10 neighbors. The log has no
features, so links get one that is 0; ``--steps --features 172`` draws as many as the original data have. The first 70 %
of the events train, 15 % more only go into memory, and the last 15 % are the test.

``--steps`` runs both systems in turn from equal weights on the same events, and reports the median of the later half of
the steps. ``--accuracy`` trains on whole epochs: average precision and AUC on all test events. ``--sizes``
compares batch sizes after one epoch. ``--nodes`` times steps of random links among many nodes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from bench import machine
from bench.report import head, keep, numbers, setting
from bench.runner import python_of, use_cpus
from bench.streams import of_table
from sparsenet.temporal import TemporalLinkPredictor
from sparsenet.temporal.graph.graph_arrays import GraphArrays
from sparsenet.temporal.graph.link_training import LinkBatch, train_batch
from sparsenet.temporal.graph.link_weights import LinkShape, LinkWeights

WIDTH, NEIGHBORS, RATE, DROPOUT = 100, 10, 1e-4, 0.1
TRAINED, TESTED = 0.7, 0.85


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
def peer(log: dict[str, Any], runs: list[dict[str, Any]], dropout: float) -> Iterator[Any]:
    """Start PyG, and yield a function that does its next run and returns the results."""
    with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder:
        np.savez(Path(folder) / "log.npz", **log)
        job = {"log": f"{folder}/log.npz", "folder": folder, "runs": runs, "width": WIDTH, "dropout": dropout}
        job |= {"first_target": int(log["first_target"]), "exact": False}
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


def accuracy(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Train on the first events, and measure on the last ones."""
    log = graph_log(options.data, options.events)
    if "pyg" in options.systems:
        yield from pyg_accuracy(log, options)
    if "sparsenet" in options.systems:
        for size in options.batches:
            yield own_accuracy(log, size, options.epochs, options.seed, options.ranking)


def pyg_accuracy(log: dict[str, Any], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    n = len(log["sources"])
    first = int(TESTED * n) - int(TRAINED * n)
    run = {"seed": options.seed, "n_train": int(TRAINED * n), "batch": options.pyg_batch, "epochs": options.epochs}
    with peer(log, [run | {"n_test": n, "test_batch": options.pyg_batch}], DROPOUT) as next_run:
        found = next_run()
    for epoch in range(options.epochs):
        scores = found[f"scores{epoch}"][:, first:]
        labels = np.repeat([1, 0], scores.shape[1])
        yield {
            "system": "pyg",
            "batch": options.pyg_batch,
            "epochs": epoch + 1,
            "events": n,
            "seed": options.seed,
            "cpu_seconds_of_training": float(found["seconds"].sum()) * (epoch + 1) / options.epochs,
            "scores": {
                "AP": float(average_precision_score(labels, scores.ravel())),
                "AUC": float(roc_auc_score(labels, scores.ravel())),
            },
        }


def own_accuracy(log: dict[str, Any], size: int, epochs: int, seed: int, ranking: bool) -> dict[str, Any]:
    n = len(log["sources"])
    columns = {"source": log["sources"], "target": log["targets"], "time": log["times"], "zero": log["features"][:, 0]}
    bounds = [0, int(TRAINED * n), int(TESTED * n), n]
    train, later, test = (
        {name: values[first:end] for name, values in columns.items()} for first, end in pairwise(bounds)
    )
    model = TemporalLinkPredictor(batch_size=size, epochs=epochs, n_jobs=1, random_state=seed, verbose=False)
    began = time.process_time()
    model.fit(train, event_features=["zero"])
    seconds = time.process_time() - began
    model.update(later, train=False)
    return {
        "system": "sparsenet",
        "batch": size,
        "epochs": epochs,
        "events": n,
        "seed": seed,
        "loss": model.loss_,
        "cpu_seconds_of_training": seconds,
        "events_per_cpu_second": epochs * bounds[1] / seconds,
        "scores": model.score(test, train=False, ranking=ranking),
    }


def sizes(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Compare batch sizes after one epoch."""
    log = graph_log(options.data, options.events)
    for size in options.sizes:
        yield own_accuracy(log, size, 1, options.seed, ranking=False)


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


def plot(report: dict[str, Any], path: Path) -> None:
    """Draw average precision and events a second by batch size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    runs = report["runs"]
    figure, left = pyplot.subplots(figsize=(6, 3.6), layout="constrained")
    right, at = left.twinx(), [run["batch"] for run in runs]
    left.semilogx(at, [100 * run["scores"]["AP"] for run in runs], "o-", color="tab:blue")
    right.loglog(at, [run["events_per_cpu_second"] for run in runs], "s--", color="tab:orange")
    left.set(xlabel="batch size", ylabel="average precision in % (solid)")
    right.set_ylabel("events learnt a CPU second (dashed)")
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure in one of four ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="CSV")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--accuracy", action="store_true")
    parser.add_argument("--sizes", type=numbers)
    parser.add_argument("--nodes", type=numbers)
    parser.add_argument("--batches", type=numbers, default=[10, 200])
    parser.add_argument("--systems", default="sparsenet,pyg")
    parser.add_argument("--pyg-batch", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--events", type=int)
    parser.add_argument("--features", type=int, default=0)
    parser.add_argument("--ranking", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--plot", type=Path, metavar="FILE")
    parser.add_argument("--json", type=Path, default=Path(".bench") / "tgn.json", metavar="FILE")
    options = parser.parse_args(arguments)
    use_cpus(1)
    report = head(threads=1)
    ways = {"steps": steps, "accuracy": accuracy, "sizes": sizes, "nodes": nodes}
    for run in next(ways[name] for name in ways if getattr(options, name))(options):
        report["runs"].append(run)
        keep(report, options.json)
        print(run, flush=True)
    if options.plot:
        plot(report, options.plot)
    print(setting(report))


if __name__ == "__main__":
    main()
