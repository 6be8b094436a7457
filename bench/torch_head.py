"""`sparsenet.torch.ExtremeHead` against output layers in plain PyTorch: one step, and the time to equal precision.

    python -m bench.torch_head [--labels 670091] [--dense-labels 33505] [--steps 40]
                               [--data DIR ...] [--texts PATH ...] [--vectors wordllama] [--epochs 6]
                               [--layers head,sampled,dense] [--threads 1] [--out bench/results/torch-head.json]
    python -m bench.torch_head --show FILE [--also FILE ...]

needs PyTorch (`pip install sparsenet[torch]`). *Steps*: batches of 256 random hidden states of 128 units, about
1,400 labels a batch as in Amazon-670K. The layers take turns, and each figure is a median. The dense layer is measured
at `--dense-labels` and extrapolated in proportion to the labels.

*Precision*: an encoder with 128 units under each layer. DIR is in the format of the extreme classification repository,
and its encoder is an embedding bag. PATH.train.jsonl and PATH.test.jsonl hold texts with labels, 100,000 and 10,000 of
which become static word vectors; their encoder is a linear layer. P@1 of the test points is kept twice an epoch, with
the CPU seconds of training, of the layer alone and of encoder and layer. --also adds the runs of further results to the
tables.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from bench.report import add_result_options, head, keep, present, setting
from bench.runner import names
from bench.torch_layers import LAYERS, BagEncoder, VectorEncoder
from bench.torch_sets import Split, of_points, of_texts

BATCH, UNITS = 256, 128
#: Labels of a point, as in Amazon-670K.
LABELS_A_POINT = 5.45
#: Test points scored at a time: bounds the scores of all labels.
BLOCK = 512


def random_labels(n_labels: int, random: np.random.Generator) -> sparse.csr_array:
    """Return the labels of a batch."""
    counts = np.maximum(random.poisson(LABELS_A_POINT, BATCH), 1)
    ids = random.integers(0, n_labels, counts.sum(), dtype=np.int32)
    Y = sparse.csr_array((np.ones(len(ids), np.float32), ids, np.append(0, np.cumsum(counts))), shape=(BATCH, n_labels))
    Y.sum_duplicates()
    return Y


def measure_steps(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Time steps of all layers in turns."""
    random = np.random.default_rng(0)
    sizes = {name: options.dense_labels if name == "dense" else options.labels for name in options.layers}
    before = resident()
    layers, memory = {}, {}
    for name in options.layers:
        layers[name] = LAYERS[name](UNITS, sizes[name])
        train_once(layers[name], sizes[name], random)  # allocates the state of the optimizer
        memory[name] = resident() - before
        before = resident()
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in layers}
    for _ in range(options.steps):
        for name, layer in layers.items():
            seconds[name].append(train_once(layer, sizes[name], random))
    runs = []
    for name, own in seconds.items():
        wall, cpu = np.median(np.array(own), axis=0)
        run = {"kind": "step", "layer": name, "labels": sizes[name], "wall_ms": 1e3 * wall, "cpu_ms": 1e3 * cpu}
        run |= {"memory_bytes": memory[name]}
        if name == "head":
            run["announced_bytes"] = sum(layers[name].head.memory(batch_size=BATCH).values())
        runs.append(run)
    return runs


def train_once(layer: Any, n_labels: int, random: np.random.Generator) -> tuple[float, float]:
    """Take a step on a random batch; return its wall and CPU seconds."""
    hidden = torch.from_numpy(random.normal(size=(BATCH, UNITS)).astype(np.float32)).relu().requires_grad_()
    labels = random_labels(n_labels, random)
    wall, cpu = time.perf_counter(), time.process_time()
    layer.loss(hidden, labels).backward()
    layer.step()
    return time.perf_counter() - wall, time.process_time() - cpu


def resident() -> int:
    """Return the peak of resident memory so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_precision(data: Split, name: str, epochs: int) -> dict[str, Any]:
    """Train an encoder and a layer; return P@1 and CPU seconds twice an epoch."""
    torch.manual_seed(0)
    make = BagEncoder if sparse.issparse(data.X) else VectorEncoder
    encoder, layer = make(data.X.shape[1], UNITS), LAYERS[name](UNITS, data.Y.shape[1])
    curve, all_seconds, layer_seconds = [], 0.0, 0.0
    for epoch in range(epochs):
        order = np.random.default_rng((0, epoch)).permutation(data.X.shape[0])
        for half, points in enumerate(np.array_split(order, 2), 1):
            started = time.process_time()
            for begin in range(0, len(points), BATCH):
                layer_seconds += train_both(encoder, layer, data, np.sort(points[begin : begin + BATCH]))
            all_seconds += time.process_time() - started
            done = {"epoch": epoch + half / 2, "cpu_seconds": all_seconds, "layer_seconds": layer_seconds}
            curve.append({**done, "P@1": precision(encoder, layer, data.X_test, data.Y_test)})
            print(f"{data.name} {name}: {curve[-1]}", flush=True)
    return {"kind": "precision", "data": data.name, "layer": name, "curve": curve}


def train_both(encoder: Any, layer: Any, data: Split, rows: NDArray[np.int64]) -> float:
    """Take a step of encoder and layer; return the CPU seconds of the layer."""
    labels = data.Y[rows]
    has_labels = np.diff(labels.indptr) > 0
    hidden = encoder(data.X[rows[has_labels]])
    own = hidden.detach().requires_grad_()  # the layer's backward pass ends here, so that it can be timed
    started = time.process_time()
    layer.loss(own, labels[has_labels]).backward()
    layer.step()
    seconds = time.process_time() - started
    hidden.backward(own.grad)
    encoder.step()
    return seconds


def precision(encoder: Any, layer: Any, X: sparse.csr_array, Y: sparse.csr_array) -> float:
    """Return the share of points whose best label is right."""
    right = 0
    for begin in range(0, X.shape[0], BLOCK):
        with torch.no_grad():
            best = layer.topk(encoder(X[begin : begin + BLOCK]), 1)[:, 0]
        right += int(Y[begin : begin + BLOCK][np.arange(len(best)), best].sum())
    return right / X.shape[0]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure steps and, for each folder, precision."""
    torch.set_num_threads(options.threads)
    report = head(threads=options.threads, torch=torch.__version__, steps=options.steps)
    if options.steps:
        report["runs"] += measure_steps(options)
        keep(report, options.out)
    sets = [partial(of_points, folder) for folder in options.data]
    sets += [partial(of_texts, path, options.vectors) for path in options.texts]
    for read in sets:
        data = read()
        for name in options.layers:
            report["runs"].append(measure_precision(data, name, options.epochs))
            keep(report, options.out)
    return report


def seconds_until(curve: list[dict[str, float]], wanted: float, kind: str) -> float:
    """Return when a curve reaches a P@1, in CPU seconds on straight lines between its points, or infinity."""
    last = {"P@1": 0.0, kind: 0.0}
    for point in curve:
        if point["P@1"] >= wanted:
            return last[kind] + (point[kind] - last[kind]) * (wanted - last["P@1"]) / (point["P@1"] - last["P@1"])
        last = point
    return math.inf


def times_to_equal(runs: list[dict[str, Any]]) -> list[str]:
    """Return table rows: the time of the head and of each other layer to a P@1 that both reach."""
    heads = {run["data"]: run["curve"] for run in runs if run["layer"] == "head"}
    lines = ["| data | against | P@1 of both | encoder and layer, CPU s | layer, CPU s |", "|---|---|---|---|---|"]
    for run in runs:
        if run["layer"] == "head" or run["data"] not in heads:
            continue
        curves = heads[run["data"]], run["curve"]
        wanted = min(max(point["P@1"] for point in curve) for curve in curves)
        cells = []
        for kind in ("cpu_seconds", "layer_seconds"):
            ours, other = (seconds_until(curve, wanted, kind) for curve in curves)
            cells.append(f"{ours:.1f} vs {other:.1f} ({other / ours:.1f} times)")
        lines.append(f"| {run['data']} | {run['layer']} | {100 * wanted:.1f} | {' | '.join(cells)} |")
    return lines


def markdown(report: dict[str, Any]) -> str:
    """Return the figures as tables."""
    steps = [run for run in report["runs"] if run["kind"] == "step"]
    lines = [
        "| layer | labels | wall ms | CPU ms | at the head's labels, wall ms | memory MB |",
        "|---|---|---|---|---|---|",
    ]
    wanted = next((run["labels"] for run in steps if run["layer"] == "head"), 0)
    lines += [
        f"| {run['layer']} | {run['labels']:,} | {run['wall_ms']:.1f} | {run['cpu_ms']:.1f} "
        f"| {run['wall_ms'] * wanted / run['labels']:,.0f} | {run['memory_bytes'] / 1e6:,.0f} |"
        for run in steps
    ]
    lines += ["", "| data | layer | P@1 after each epoch | CPU seconds |", "|---|---|---|---|"]
    precisions = [run for run in report["runs"] if run["kind"] == "precision"]
    for run in precisions:
        scores = ", ".join(f"{100 * point['P@1']:.1f}" for point in run["curve"][1::2])
        lines.append(f"| {run['data']} | {run['layer']} | {scores} | {run['curve'][-1]['cpu_seconds']:.1f} |")
    return "\n".join([*lines, "", *times_to_equal(precisions), "", setting(report)])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or show a result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=670_091)
    parser.add_argument("--dense-labels", type=int, default=33_505)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--data", type=Path, nargs="*", default=[], metavar="DIR")
    parser.add_argument("--texts", type=Path, nargs="*", default=[], metavar="PATH")
    parser.add_argument("--vectors", default="wordllama", help="a path as WordVectors.read takes it")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--layers", type=names, default=list(LAYERS))
    parser.add_argument("--also", type=Path, nargs="*", default=[], metavar="FILE")
    add_result_options(parser)
    parser.set_defaults(threads=1, out=Path(".bench") / "torch-head.json")
    options = parser.parse_args(arguments)
    others = [run for path in options.also for run in json.loads(path.read_text())["runs"]]
    present(options, measure, lambda report: markdown({**report, "runs": [*report["runs"], *others]}))


if __name__ == "__main__":
    main()
