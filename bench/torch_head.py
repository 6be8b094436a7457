"""`sparsenet.torch.ExtremeHead` against output layers in plain PyTorch: one step, and the time to equal precision.

    python -m bench.torch_head [--labels 670091] [--dense-labels 33505] [--steps 40] [--data DIR ...] [--epochs 8]
                               [--layers head,sampled,dense] [--threads 1] [--out bench/results/torch-head.json]

needs PyTorch (`pip install sparsenet[torch]`). *Steps*: batches of 256 random hidden states of 128 units, about
1,400 labels a batch as in Amazon-670K. The layers take turns, and each figure is a median. The dense layer is measured
at `--dense-labels` and extrapolated in proportion to the labels. *Precision*: an embedding bag with 128 units under
each layer, on folders in the format of the extreme classification repository. P@1 of the test points and the CPU
seconds of training are kept after each epoch.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from bench.cache import prepare
from bench.report import add_result_options, head, keep, present, setting
from bench.runner import names
from bench.torch_layers import LAYERS, BagEncoder

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


def measure_precision(folder: Path, name: str, epochs: int) -> dict[str, Any]:
    """Train an encoder and a layer; return P@1 and CPU seconds after each epoch."""
    data = prepare(folder)
    torch.manual_seed(0)
    X, Y, X_test, Y_test = (data.matrix(part) for part in ("train.X", "train.Y", "test.X", "test.Y"))
    encoder, layer = BagEncoder(X.shape[1], UNITS), LAYERS[name](UNITS, Y.shape[1])
    curve, spent = [], 0.0
    for epoch in range(epochs):
        started = time.process_time()
        order = np.random.default_rng((0, epoch)).permutation(X.shape[0])
        for begin in range(0, len(order), BATCH):
            rows = np.sort(order[begin : begin + BATCH])
            labels = Y[rows]
            has_labels = np.diff(labels.indptr) > 0
            layer.loss(encoder(X[rows[has_labels]]), labels[has_labels]).backward()
            encoder.step()
            layer.step()
        spent += time.process_time() - started
        curve.append({"epoch": epoch + 1, "cpu_seconds": spent, "P@1": precision(encoder, layer, X_test, Y_test)})
        print(f"{folder.name} {name}: {curve[-1]}", flush=True)
    return {"kind": "precision", "data": folder.name, "layer": name, "curve": curve}


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
    for folder in options.data:
        for name in options.layers:
            report["runs"].append(measure_precision(folder, name, options.epochs))
            keep(report, options.out)
    return report


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
    for run in report["runs"]:
        if run["kind"] == "precision":
            scores = " ".join(f"{100 * point['P@1']:.1f}" for point in run["curve"])
            lines.append(f"| {run['data']} | {run['layer']} | {scores} | {run['curve'][-1]['cpu_seconds']:.1f} |")
    return "\n".join([*lines, "", setting(report)])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or show a result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=670_091)
    parser.add_argument("--dense-labels", type=int, default=33_505)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--data", type=Path, nargs="*", default=[], metavar="DIR")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--layers", type=names, default=list(LAYERS))
    add_result_options(parser)
    parser.set_defaults(threads=1, out=Path(".bench") / "torch-head.json")
    present(parser.parse_args(arguments), measure, markdown)


if __name__ == "__main__":
    main()
