"""Find the best of a million vectors: cells, hash tables and exact scoring, FAISS, hnswlib and usearch, in one run.

    .bench/envs/finding/bin/python -m bench.finding [--vectors 200000] [--width 128]
                                   [--kind planted|texts|network|embeddings] [--texts FILE] [--k 1] [--recall 0.98]
                                   [--points 1000] [--noise 0.75,1.5] [--cells N] [--systems NAME,...]
                                   [--indexes FOLDER [--build]] [--out bench/results/finding.json]
    python -m bench.finding --show bench/results/finding.json

The planted vectors lie in clusters, and a point is a noisy copy of a vector, its label. `texts`: a vector is the mean
word vector of a line of the file, and a point that of half of its words (`wordllama`). All of these have unit length.
`network`: the vectors are the output layer of a network that was trained on planted embeddings with as many labels, and
the points are its hidden units. Other libraries get the bias as one more number, and graphs, which search by distances,
another one that makes all vectors equally long. `embeddings`: the vectors are training points of `bench.embeddings`,
ten a label, and the points are test points, whose neighbors are sought (`--k 50 --recall 0.95 --width 384`).

Each system has one knob. The lowest setting that finds --recall of the exact k best of the first two thirds of the
points is timed on the others, one call a point, on one thread. Supervised systems also list the labels of 2 points a
label. With `--indexes`, the indexes of other libraries and their building times are kept in a folder, and read from it
later; `--build` does nothing else.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench import finding_sets
from bench.finding_sets import Problem
from bench.finding_systems import OURS, PEERS, built
from bench.machine import load_average
from bench.report import head, keep, present, setting
from bench.runner import names
from sparsenet.index.exact import exact_topk
from sparsenet.index.vector_index import calibrate, share_found
from sparsenet.kernels.types import I32


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure each system; the result is written after each."""
    problems = _problems(options)
    first = next(iter(problems.values()))
    n, width = first.vectors.shape
    report = head(
        threads=1, vectors=n, width=width, **{name: getattr(options, name) for name in ("recall", "k", "kind")}
    )
    exact: dict[float | None, I32] = {}
    if not options.build:
        exact = {noise: exact_topk(p.points, p.vectors, p.bias, options.k, 1)[0] for noise, p in problems.items()}
    for name in options.systems:
        index, seconds = None, 0.0
        for noise, problem in problems.items():
            if index is None or "supervised" in name:
                del index
                index, seconds = built(name, problem, options.kind, options.indexes)
            if not options.build:
                run = {"system": name, "noise": noise, "load_average_before": load_average(), "build_cpu_s": seconds}
                report["runs"].append(run | _timed(index, name, problem, exact[noise], options))
                keep(report, options.out)
                print(report["runs"][-1], file=sys.stderr, flush=True)
        del index
        gc.collect()
    return report


def _problems(options: argparse.Namespace) -> dict[float | None, Problem]:
    """Return the problem, or a problem for each noise, all with the same vectors."""
    size = options.vectors, options.width, 3 * options.points, 0
    make: dict[str, Callable[[], Problem]] = {
        "texts": lambda: finding_sets.of_texts(options.texts, options.vectors, *size[2:]),
        "network": lambda: finding_sets.of_network(*size),
        "embeddings": lambda: finding_sets.of_embeddings(*size),
    }
    planted: dict[float | None, Problem] = {}
    if options.kind == "planted":
        planted = finding_sets.planted(*size, options.noise)
    found = planted or {None: make[options.kind]()}
    return {noise: problem._replace(n_cells=options.cells) for noise, problem in found.items()}


def _timed(index: Any, name: str, problem: Problem, exact: I32, options: argparse.Namespace) -> dict[str, Any]:
    weight, bias = problem.vectors, problem.bias
    points, held = problem.points if name in OURS else problem.extended_points(), 2 * options.points
    has_candidates = hasattr(index, "calibrate_candidates")
    if has_candidates:
        index.calibrate_candidates(points[:held], weight, bias, exact[:held], options.recall)
    found = calibrate(index, points[:held], weight, bias, exact[:held], options.recall)
    points, exact, y = points[held:], exact[held:], problem.y[held:]
    labels, walls, cpus = [], [], []
    for i in range(options.points):
        one = points[i : i + 1]
        cpu, wall = time.process_time(), time.perf_counter()
        labels.append(index.topk(one, weight, bias, options.k, found.effort)[0][0])
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    best = np.array(labels)
    return {
        "index_mb": index.nbytes / 1e6,
        "effort": found.effort,
        **({"candidates": index.n_candidates} if has_candidates else {}),
        "calibrated_recall": found.recall,
        "recall": share_found(exact, best),
        "P@1": float((best[:, 0] == y).mean()),
        "exact_P@1": float((exact[:, 0] == y).mean()),
        "wall_ms_p50": float(1e3 * np.median(walls)),
        "wall_ms_p99": float(1e3 * np.quantile(walls, 0.99)),
        "cpu_ms_p50": float(1e3 * np.median(cpus)),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    }


def markdown(report: dict[str, Any]) -> str:
    """Return a table for each noise, with a row for each system."""
    lines = [setting(report)]
    for noise in dict.fromkeys(run.get("noise") for run in report["runs"]):
        runs = [run for run in report["runs"] if run.get("noise") == noise]
        lines += [
            "",
            f"{report['vectors']:,} {report['kind']} vectors of {report['width']} numbers, k={report['k']}, recall "
            f"{report['recall']} asked for{'' if noise is None else f', noise {noise:g}'}. P@1 of exact scoring: "
            f"{runs[0]['exact_P@1']:.3f}.",
            "",
            f"| system | one point ms, p50 / p99 | CPU ms, p50 | recall@{report['k']} | P@1 | build CPU s | index MB |",
            "|---" * 7 + "|",
            *map(_row, runs),
        ]
    return "\n".join(lines)


def _row(run: dict[str, Any]) -> str:
    cells = [
        run["system"],
        f"{run['wall_ms_p50']:.3f} / {run['wall_ms_p99']:.3f}",
        *(f"{run[name]:.3f}" for name in ("cpu_ms_p50", "recall", "P@1")),
        *(f"{run[name]:,.0f}" for name in ("build_cpu_s", "index_mb")),
    ]
    return f"| {' | '.join(cells)} |"


def _numbers(text: str) -> list[float]:
    return [float(each) for each in text.split(",")]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=200_000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--kind", choices=["planted", "texts", "network", "embeddings"], default="planted")
    parser.add_argument("--texts", type=Path, help="a file with a text per line")
    parser.add_argument(
        "--noise", type=_numbers, default=[1.5], help="of planted points, relative to a vector's length"
    )
    parser.add_argument("--k", type=int, default=1)
    parser.add_argument("--recall", type=float, default=0.98)
    parser.add_argument("--points", type=int, default=1000, help="points that are timed; twice as many calibrate")
    parser.add_argument("--cells", type=int, help="number of cells; by default four times the root of the vectors")
    parser.add_argument("--systems", type=names, default=[*OURS, *PEERS])
    parser.add_argument("--indexes", type=Path, help="a folder that keeps the indexes of other libraries")
    parser.add_argument("--build", action="store_true", help="only build the indexes")
    parser.add_argument("--out", type=Path, default=Path("bench/results/finding.json"))
    parser.add_argument("--show", type=Path)
    parser.set_defaults(threads=1)
    return parser.parse_args()


if __name__ == "__main__":
    present(_options(), measure, markdown)
