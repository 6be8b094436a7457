"""Losses of `sparsenet.temporal` and PyTorch Geometric (PyG), step by step from equal weights and memory.

    .bench/envs/pyg/bin/python -m bench.tgn_equal --data CSV [--batches 10,200] [--count 100] [--json FILE]

Run it in the environment of PyG, which also needs scikit-learn. Before each step, PyG gets the weights and the memory
of `sparsenet`; then both take the step on the same links and negatives, without dropout. Neighbors, messages and
gradients are their own. Without equal weights before each step, rounding grows: weights of the time encoding are
multiplied by seconds. Two faults of torch-geometric 2.8.1 are mended, as `bench.peers.pyg` explains.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench.peers.pyg import Run
from bench.report import head, keep, numbers
from bench.tgn import NEIGHBORS, RATE, WIDTH, batches_of, graph_log
from sparsenet.temporal.graph.graph_arrays import GraphArrays
from sparsenet.temporal.graph.link_training import train_batch
from sparsenet.temporal.graph.link_weights import LinkShape, LinkWeights


def differences(log: dict[str, Any], size: int, count: int) -> Iterator[float]:
    """Yield the difference of the losses of each step."""
    weights, rng = LinkWeights.random(LinkShape(WIDTH, 1), 0), np.random.default_rng(1)
    graph = GraphArrays.blank(log["n_nodes"], WIDTH, NEIGHBORS, 1)
    part = {name: log[name][: size * count] for name in ("sources", "targets", "times", "features")}
    run = Run({**part, "n_nodes": log["n_nodes"]}, WIDTH, 0.0, exact=True)
    run.start()
    for batch, rows in batches_of(part, size):
        views = weights.views()
        run.network.set_weights({**views, "time_weights": views["times"]})
        with torch.no_grad():
            run.network.memory.memory.copy_(torch.from_numpy(graph.memory))
        negatives = rng.integers(log["first_target"], log["n_nodes"], len(batch))
        other = run.step(rows, torch.from_numpy(negatives))
        yield train_batch(graph, weights, batch, negatives.astype(np.int32), rng, 0.0, RATE, 1) - other


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare at each batch size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, metavar="CSV")
    parser.add_argument("--batches", type=numbers, default=[10, 200])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--json", type=Path, default=Path(".bench") / "tgn-equal.json", metavar="FILE")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    report = head(threads=1)
    log = graph_log(options.data, None)
    for size in options.batches:
        found = np.abs(list(differences(log, size, options.count)))
        run = {"batch": size, "steps": len(found), "largest": float(found.max()), "median": float(np.median(found))}
        report["runs"].append(run)
        keep(report, options.json)
        print(run, flush=True)


if __name__ == "__main__":
    main()
