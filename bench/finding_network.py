"""Measure accuracy and time of the cells of `predictor()`, on a trained network with many labels.

    python -m bench.finding_network [--labels 100000] [--width 128] [--points 2000] [--recall 0.98] [--k 1]
                                    [--out bench/results/finding-predictor.json]
    python -m bench.finding_network --show bench/results/finding-predictor.json

A network without a wide path learns two planted embeddings a label. Predictors answer the same test points, one call a
point, on one thread: by scoring all labels, by cells, and by cells that learn from the training points. The cells are
calibrated on other points.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.finding_sets import trained
from bench.machine import load_average
from bench.report import head, keep, present, setting


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure each predictor; the result is written after each."""
    report = head(**{name: getattr(options, name) for name in ("threads", "labels", "width", "points", "recall", "k")})
    began = time.process_time()
    model, data = trained(options.labels, options.width, 2 * options.points, 0)
    report["train_cpu_s"] = time.process_time() - began
    sample, points = np.split(np.ascontiguousarray(data.X_test), 2)
    y, searched = data.Y_test.indices[options.points :], {"recall": options.recall, "sample": sample}
    examples = {"examples": (data.X, data.Y.indices)}
    for name, settings in (("all labels", {}), ("cells", searched), ("cells, supervised", {**searched, **examples})):
        load, began = load_average(), time.process_time()
        predictor = model.predictor(k=options.k, candidates=16, **settings)
        run: dict[str, Any] = {"search": name, "load_average_before": load, "build_cpu_s": time.process_time() - began}
        columns, best, cpus = np.arange(options.width), [], []
        for point in points:
            began = time.process_time()
            best.append(predictor.one(columns, point)[0][0])
            cpus.append(time.process_time() - began)
        run |= {"P@1": 100 * float(np.mean(best == y)), "recall": predictor.recall(points)}
        run |= {"cpu_ms_p50": 1e3 * float(np.median(cpus)), "cpu_ms_p99": 1e3 * float(np.quantile(cpus, 0.99))}
        report["runs"].append(run)
        keep(report, options.out)
        print(run, file=sys.stderr, flush=True)
    return report


def markdown(report: dict[str, Any]) -> str:
    """Return a table with a row for each predictor."""
    lines = [
        setting(report),
        "",
        f"{report['labels']:,} labels, {report['width']} hidden units, {report['points']:,} test points, recall "
        f"{report['recall']} asked for.",
        "",
        f"| search | P@1 | recall@{report['k']} | one point, CPU ms, p50 / p99 | build CPU s |",
        "|---|---|---|---|---|",
    ]
    for run in report["runs"]:
        times = f"{run['cpu_ms_p50']:.3f} / {run['cpu_ms_p99']:.3f}"
        lines.append(
            f"| {run['search']} | {run['P@1']:.1f} | {run['recall']:.3f} | {times} | {run['build_cpu_s']:.0f} |"
        )
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=100_000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--recall", type=float, default=0.98)
    parser.add_argument("--k", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("bench/results/finding-predictor.json"))
    parser.add_argument("--show", type=Path)
    parser.set_defaults(threads=1)
    return parser.parse_args()


if __name__ == "__main__":
    present(_options(), measure, markdown)
