"""The cost of a point from 10 thousand to 3 million labels, beside a dense network and beside what the machine can do.

    python -m bench.scale [--labels 10000,100000,670091,3000000] [--hidden 128,256] [--batches 200 | --epoch]
                          [--repeats 1] [--threads 1] [--dense-batches 3] [--profile] [--set NAME=JSON ...]
                          [--out bench/results/scale.json]
    python -m bench.scale --show bench/results/scale.json [--plot FILE.png]

Planted data (`bench/planted.py`) of the shape of Amazon-670K; points in proportion to the labels up to 490,449, so at
3 million labels many never occur. Each run is a process of its own; sizes take turns within a round. sparsenet trains
on all points for one epoch (--epoch), or for the first batches of one; the time of an epoch is then *extrapolated*:
the start, and a step's time after the first 20 times the number of steps. The dense network's epoch always is.
The rules are in bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench import timers
from bench.cache import plant
from bench.limits import least_step_seconds, machine_limits, mean
from bench.planted import Shape
from bench.runner import python_of
from bench.running import assignment, head, in_child, keep, numbers, present, setting

BATCH_SIZE = 256


def main() -> None:
    """Measure, or show what was measured."""
    present(_options(), measure, markdown, plot)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run all that the command line asks for; the result is written after each run."""
    report = head(
        threads=options.threads, repeats=options.repeats, limits={"all": machine_limits(options.threads)}, data={}
    )
    for repeat in range(options.repeats):
        for hidden in options.hidden:
            for labels in options.labels:
                data = plant(Shape.with_labels(labels, **options.shape))
                report["data"][str(labels)] = data.facts
                job = {"labels": labels, "hidden": hidden, "seed": repeat, "data": str(data.folder)}
                for run in _systems(job, options, first=repeat == 0):
                    report["runs"].append(run)
                    keep(report, options.out)
                    print(_brief(run), file=sys.stderr, flush=True)
    return report


def _systems(job: dict[str, Any], options: argparse.Namespace, *, first: bool) -> list[dict[str, Any]]:
    settings = {"hidden": job["hidden"], "batch_size": BATCH_SIZE, **dict(options.set)}
    ours = {**job, "system": "sparsenet", "settings": settings, "profile": options.profile}
    ours |= {"batches": None if options.epoch else options.batches, "touch_gb": options.touch_gb}
    before = machine_limits(options.threads, "median")
    runs = [in_child("bench.scale_run", ours, threads=options.threads)]
    runs[0]["limits_beside"] = mean([before, machine_limits(options.threads, "median")])
    if options.dense_batches and first and job["labels"] <= options.dense_most:
        dense = {**job, "system": "dense", "batches": options.dense_batches, "batch_size": BATCH_SIZE}
        if python_of("dense").exists():
            runs.append(in_child("bench.dense_steps", dense, python=python_of("dense"), threads=options.threads))
        else:
            reason = "there is no environment for dense: make peers"
            runs.append({**dense, "data": Path(job["data"]).name, "status": "not run", "reason": reason})
    return runs


# --- what came of it -----------------------------------------------------------------------------------------------


def of(report: dict[str, Any], system: str, hidden: int, labels: int) -> list[dict[str, Any]]:
    """Return the runs of a system at a size that were measured."""
    wanted = (system, hidden, labels, "measured")
    return [run for run in report["runs"] if (run["system"], run["hidden"], run["labels"], run["status"]) == wanted]


def middle(runs: Sequence[dict[str, Any]], name: str) -> float:
    """Return the median of a figure over runs."""
    return float(median(run[name] for run in runs))


def exponent(labels: Sequence[float], costs: Sequence[float]) -> float:
    """Return b of the fit cost = a * labels ** b: least squares over logarithms.

    >>> round(exponent([10, 100, 1000], [2, 4, 8]), 3)
    0.301
    """
    return float(np.polyfit(np.log(labels), np.log(costs), 1)[0])


def markdown(report: dict[str, Any]) -> str:
    """Return tables: each size beside dense and roofline, the exponents, and profiles if there are any."""
    parts = [setting(report), "\n".join([_HEAD, "|---" * 11 + "|", *_rows(report)])]
    parts += [_growth(report, hidden) for hidden in _values(report, "hidden")]
    parts += [_problem(run) for run in report["runs"] if run["status"] != "measured"]
    for run in report["runs"]:
        if run.get("profile"):
            step, start = timers.markdown(run["profile"]), timers.markdown(run["profile_of_start"], 0.01)
            parts.append(f"A step of {_size(run)}:\n\n{step}")
            parts.append(f"The start, the first steps included, as one step:\n\n{start}")
    return "\n\n".join(part for part in parts if part)


_HEAD = (
    "| labels | units | us a point, CPU (wall) | epoch, CPU s (wall) | of it start | "
    "| dense, epoch CPU s (extrapolated) | dense / ours "
    "| roofline beside it (at best), epoch s | ours / roofline beside it (at best) "
    "| memory MB, peak / announced |"
)


def _values(report: dict[str, Any], name: str) -> list[int]:
    return sorted({run[name] for run in report["runs"]})


def _rows(report: dict[str, Any]) -> list[str]:
    pairs = [(labels, hidden) for hidden in _values(report, "hidden") for labels in _values(report, "labels")]
    return [_row(report, labels, hidden) for labels, hidden in pairs if of(report, "sparsenet", hidden, labels)]


def _row(report: dict[str, Any], labels: int, hidden: int) -> str:
    runs, dense = of(report, "sparsenet", hidden, labels), of(report, "dense", hidden, labels)
    point = [1e6 * middle(runs, f"step_{clock}_seconds") / runs[0]["batch_size"] for clock in ("cpu", "wall")]
    epoch = [middle(runs, f"epoch_{clock}_seconds") for clock in ("cpu", "wall")]
    whole = runs[0]["batches"] == runs[0]["epoch_batches"]
    least, times_least = beside_roofline(report, runs, report["limits"]["all"])
    beside, times_beside = beside_roofline(report, runs)
    against = f"{middle(dense, 'epoch_cpu_seconds'):,.0f}" if dense else "not run"
    ratio = f"{middle(dense, 'epoch_cpu_seconds') / epoch[0]:.0f}" if dense else ""
    # What is announced is enough for answers, too, and these take more than training where there is a wide path.
    peaks = [run.get("peak_with_prediction_mb", run["peak_mb"]) for run in runs]
    grown = median(peak - run["rss_before_mb"] for peak, run in zip(peaks, runs, strict=True))
    announced = sum(runs[0]["needed_mb"].values())
    return (
        f"| {labels:,} | {hidden} | {point[0]:.0f} ({point[1]:.0f}) | {epoch[0]:.1f} ({epoch[1]:.1f}) "
        f"| {middle(runs, 'start_cpu_seconds'):.1f} | {'measured' if whole else 'extrapolated'} | {against} | {ratio} "
        f"| {beside:.1f} ({least:.1f}) | {times_beside:.1f} ({times_least:.1f}) "
        f"| {grown:,.0f} / {announced:,.0f} = {grown / announced:.2f} |"
    )


def beside_roofline(
    report: dict[str, Any], runs: Sequence[dict[str, Any]], limits: dict[str, float] | None = None
) -> tuple[float, float]:
    """Return the least seconds of an epoch by some limits, and how many times as long it took; medians of the runs.

    Without these a run's are what the machine gave before and after it, if that was measured. Rooflines are of all
    threads together, so the wall clock is what they bound; under load CPU seconds tell more.
    """
    least, times = [], []
    for run in runs:
        own = limits or run.get("limits_beside", report["limits"]["all"])
        least.append(least_step_seconds(run["work"], own)["total"] * run["epoch_batches"])
        times.append(run["epoch_cpu_seconds"] / report["threads"] / least[-1])
    return median(least), median(times)


def growth(report: dict[str, Any], hidden: int) -> tuple[list[int], list[float]]:
    """Return sizes and what a point costs there, in CPU microseconds."""
    sizes = [labels for labels in _values(report, "labels") if of(report, "sparsenet", hidden, labels)]
    runs = [of(report, "sparsenet", hidden, labels) for labels in sizes]
    return sizes, [1e6 * middle(some, "step_cpu_seconds") / some[0]["batch_size"] for some in runs]


def _growth(report: dict[str, Any], hidden: int) -> str:
    sizes, costs = growth(report, hidden)
    if len(sizes) < 2:
        return ""
    power = exponent(sizes, costs)
    return f"{hidden} units: a point's cost grows as L^{power:.3f} from {sizes[0]:,} to {sizes[-1]:,} labels."


def _size(run: dict[str, Any]) -> str:
    return f"{run['system']} at {run['labels']:,} labels, {run['hidden']} units"


def _problem(run: dict[str, Any]) -> str:
    return f"{_size(run)}: {run['status']}: {run['reason']}"


def _brief(run: dict[str, Any]) -> str:
    if run["status"] != "measured":
        return _problem(run)
    grade = f", P@1 {100 * run['P@1']:.1f}" if "P@1" in run else ""
    cpu, wall = (1e3 * run[f"step_{clock}_seconds"] for clock in ("cpu", "wall"))
    return f"{_size(run)}: a step {cpu:.1f} CPU ms, {wall:.1f} ms; load {run['load_average_before']:.1f}{grade}"


def plot(report: dict[str, Any], path: Path) -> None:
    """Draw the cost of a point against the number of labels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for hidden in _values(report, "hidden"):
        sizes, costs = growth(report, hidden)
        power = f", $L^{{{exponent(sizes, costs):.2f}}}$" if len(sizes) > 1 else ""
        axes.plot(sizes, costs, "o-", label=f"{hidden} units{power}")
        bound = [costs[0] * (size / sizes[0]) ** 0.3 for size in sizes]
        axes.plot(sizes, bound, ":", color="grey", label="$L^{0.3}$")
    axes.set(xscale="log", yscale="log", xlabel="labels", ylabel="CPU microseconds a point", title="A training step")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=numbers, default=[10_000, 100_000, 670_091, 3_000_000])
    parser.add_argument("--hidden", type=numbers, default=[128, 256])
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--epoch", action="store_true", help="train on all batches of an epoch")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dense-batches", type=int, default=3, help="0: no dense network")
    parser.add_argument("--dense-most", type=int, default=670_091, help="most labels for the dense network: memory")
    parser.add_argument("--touch-gb", type=float, default=0.0, help="memory that is used once before time is taken")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--set", type=assignment, action="append", default=[], help="a parameter of ExtremeClassifier")
    parser.add_argument("--shape", type=json.loads, default={}, help='JSON, such as {"points": 10000}')
    parser.add_argument("--out", type=Path, default=Path("bench/results/scale.json"))
    parser.add_argument("--show", type=Path)
    parser.add_argument("--plot", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
