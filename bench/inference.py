"""Prediction speed at 670 thousand labels: single points, batches, and the limits of memory and arithmetic.

    python -m bench.inference [--labels 670091] [--hidden 128] [--batches 400] [--repeats 1] [--threads 1]
                              [--peers pecos] [--set NAME=JSON ...] [--out bench/results/inference.json]
    python -m bench.inference --show bench/results/inference.json

A model is trained on planted data for some batches, saved, loaded, and asked for five labels: for one point per call
on one thread, and for many points at once. Peers are trained to the end on the same data. PECOS takes hours of CPU time
at the full size; --labels makes it smaller. The rules are in bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from bench.cache import DataSet, plant
from bench.limits import machine_limits
from bench.peers import SYSTEMS
from bench.planted import Shape
from bench.report import assignment, head, keep, present, setting
from bench.runner import Runner, in_child, system_names
from bench.scoring import Scorer

#: Points per batch; each is scored against all labels.
BULK_POINTS = 1024


def main() -> None:
    """Measure, or show a kept result."""
    present(_options(), measure, markdown)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run sparsenet and the peers; the result is written after each run."""
    data = plant(Shape.with_labels(options.labels, **options.shape))
    limits = {name: machine_limits(n)["best"] for name, n in (("one", 1), ("all", options.threads))}
    report = head(threads=options.threads, repeats=options.repeats, limits=limits, data={data.name: data.facts})
    for repeat in range(options.repeats):
        for name in ("sparsenet", *options.peers):
            run = _ours(options, data, repeat) if name == "sparsenet" else _peer(name, options, data, repeat)
            report["runs"].append({"system": name, "seed": repeat, **run})
            keep(report, options.out)
            print(f"{name}: {run['status']} {run.get('reason', '')}", file=sys.stderr, flush=True)
    return report


def _ours(options: argparse.Namespace, data: DataSet, seed: int) -> dict[str, Any]:
    job = {"data": str(data.folder), "seed": seed, "batches": options.batches, "bulk_points": BULK_POINTS}
    job["settings"] = {"hidden": options.hidden, **dict(options.set)}
    return in_child("bench.inference_run", job, threads=options.threads)


def _peer(name: str, options: argparse.Namespace, data: DataSet, seed: int) -> dict[str, Any]:
    runner = Runner(threads=options.threads, limit=options.limit)
    run = runner.run(SYSTEMS[name], data, Scorer(data, mask_seen=False), seed, {})
    names = ("single_ms_p50", "single_ms_p99", "single_cpu_ms_p50", "points_per_cpu_second", "points_per_second")
    if run["status"] == "measured":
        run["modes"] = {"default": {key: run[key] for key in names} | {"P@1": run["scores"]["P@1"]}}
    return run


# --- tables --------------------------------------------------------------------------------------------------------


_HEAD = (
    "| system | mode | one point ms, p50 / p99 | CPU ms, p50 | points / s | points / CPU s | recall@5 | P@1 "
    "| model MB |"
)


def markdown(report: dict[str, Any]) -> str:
    """Return a table with a row for each way to predict, and the distance of exact scoring from its bounds."""
    lines = [
        setting(report),
        "",
        _HEAD,
        "|---" * 9 + "|",
    ]
    measured = [run for run in report["runs"] if run["status"] == "measured"]
    for system in dict.fromkeys(run["system"] for run in measured):
        runs = [run for run in measured if run["system"] == system]
        lines += [_row(system, mode, runs) for mode in runs[0]["modes"]]
    lines += ["", *[_bounds(report, run) for run in measured if run["system"] == "sparsenet"][:1]]
    failed = [run for run in report["runs"] if run["status"] != "measured"]
    return "\n".join([*lines, *(f"{run['system']}: {run['status']}: {run['reason']}" for run in failed)])


def _row(system: str, mode: str, runs: list[dict[str, Any]]) -> str:
    def middle(name: str, digits: int) -> str:
        if name not in runs[0]["modes"][mode]:
            return ""
        return f"{median(run['modes'][mode][name] for run in runs):,.{digits}f}"

    cells = [
        f"{middle('single_ms_p50', 3)} / {middle('single_ms_p99', 3)}",
        middle("single_cpu_ms_p50", 3),
        *(middle(name, 0) for name in ("points_per_second", "points_per_cpu_second")),
        *(middle(name, 3) for name in ("recall@5", "P@1")),
        f"{median(run['model_mb'] for run in runs):,.0f}",
    ]
    return f"| {system} | {mode} | {' | '.join(cells)} |"


def bounds(work: dict[str, float], limits: dict[str, float]) -> dict[str, float]:
    """Return the least seconds of exact scoring per point: single points are bound by reads, batches by arithmetic.

    >>> bounds({"bytes": 4e8, "flop": 2e8}, {"read_gbs": 40.0, "fma_gflops": 200.0})
    {'one point': 0.01, 'bulk': 0.001}
    """
    return {
        "one point": work["bytes"] / (1e9 * limits["read_gbs"]),
        "bulk": work["flop"] / (1e9 * limits["fma_gflops"]),
    }


def _bounds(report: dict[str, Any], run: dict[str, Any]) -> str:
    exact = run["modes"]["exact"]
    one, many = (bounds(run["work"], report["limits"][name]) for name in ("one", "all"))
    alone, each = 1e3 * one["one point"], 1e6 * many["bulk"]
    took = 1e6 / exact["points_per_cpu_second"] / report["threads"]
    megabytes, megaflop = run["work"]["bytes"] / 1e6, run["work"]["flop"] / 1e6
    times_alone, times_each = exact["single_cpu_ms_p50"] / alone, took / each
    return (
        f"Exact scoring of one point reads {megabytes:.0f} MB, which takes {alone:.2f} ms at the speed of a stream: "
        f"measured {times_alone:.1f} times that in CPU time. In a batch a point needs {megaflop:.0f} Mflop, "
        f"{each:.0f} us at peak arithmetic: measured {times_each:.1f} times that in CPU time. "
        f"{run['work']['wide_weights']:,.0f} weights belong to the wide path. Peak memory {run['peak_mb']:,.0f} MB."
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=int, default=670_091)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--batches", type=int, default=400, help="training batches")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", type=system_names, default=[], help="systems of bench.quality, such as pecos")
    parser.add_argument("--limit", type=float, default=7200, help="time limit for a peer in seconds")
    parser.add_argument("--set", type=assignment, action="append", default=[], help="a parameter of ExtremeClassifier")
    parser.add_argument("--shape", type=json.loads, default={}, help='JSON, such as {"points": 10000}')
    parser.add_argument("--out", type=Path, default=Path("bench/results/inference.json"))
    parser.add_argument("--show", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
