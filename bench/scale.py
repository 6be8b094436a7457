"""Training cost per point from 10 thousand to 3 million labels, next to a dense network and to the roofline.

    python -m bench.scale [--labels 10000,100000,670091,3000000] [--hidden 128,256] [--batches 200 | --epoch]
                          [--repeats 1] [--threads 1] [--dense-batches 3] [--set NAME=JSON ...]
                          [--before CHECKOUT] [--out bench/results/scale.json]
    python -m bench.scale --show bench/results/scale.json [--plot FILE.png]

The data is planted (`bench/planted.py`) in the shape of Amazon-670K. The number of points grows with the labels up to
490,449; with 3 million labels, a large part of them never occurs. Each run is a separate process, and sizes alternate
within a round. sparsenet trains for a whole epoch (--epoch) or for its first batches. In the second case the epoch is
*extrapolated*: the time of the start, plus the number of steps times the time of a step after the first 20. The epoch
of the dense network is always extrapolated. `--before` names a checkout of an older commit, with its extension built:
it trains after each run of this one, with the same settings. The rules are in bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.cache import plant
from bench.limits import least_step_seconds, machine_limits, mean
from bench.planted import Shape
from bench.report import assignment, head, keep, numbers, present, setting
from bench.runner import in_child, python_of

BATCH_SIZE = 256


def main() -> None:
    """Measure, or show a kept result."""
    present(_options(), measure, markdown, plot)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run every size; the result is written after each run."""
    limits = {"all": machine_limits(options.threads)["best"]}
    report = head(threads=options.threads, repeats=options.repeats, limits=limits, data={})
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
    ours = {**job, "system": "sparsenet", "settings": settings}
    ours |= {"batches": None if options.epoch else options.batches, "touch_gb": options.touch_gb}
    before = machine_limits(options.threads)["median"]
    runs = [in_child("bench.scale_run", ours, threads=options.threads)]
    runs[0]["limits_beside"] = mean([before, machine_limits(options.threads)["median"]])
    if options.before:
        older = {**ours, "system": "before", "profile": False}
        runs.append(in_child("bench.scale_run", older, checkout=options.before.resolve(), threads=options.threads))
    if options.dense_batches and first and job["labels"] <= options.dense_most:
        dense = {**job, "system": "dense", "batches": options.dense_batches, "batch_size": BATCH_SIZE}
        if python_of("dense").exists():
            runs.append(in_child("bench.dense_steps", dense, python=python_of("dense"), threads=options.threads))
        else:
            reason = "no environment for dense: run make peers"
            runs.append({**dense, "data": Path(job["data"]).name, "status": "not run", "reason": reason})
    return runs


# --- tables --------------------------------------------------------------------------------------------------------


def measured_runs(report: dict[str, Any], system: str, hidden: int, labels: int) -> list[dict[str, Any]]:
    """Return the successful runs of a system at one size."""
    wanted = (system, hidden, labels, "measured")
    return [run for run in report["runs"] if (run["system"], run["hidden"], run["labels"], run["status"]) == wanted]


def median_of(runs: Sequence[dict[str, Any]], name: str) -> float:
    """Return the median of a field over runs."""
    return float(median(run[name] for run in runs))


def exponent(labels: Sequence[float], costs: Sequence[float]) -> float:
    """Fit cost = a * labels ** b by least squares over logarithms, and return b.

    >>> round(exponent([10, 100, 1000], [2, 4, 8]), 3)
    0.301
    """
    return float(np.polyfit(np.log(labels), np.log(costs), 1)[0])


def markdown(report: dict[str, Any]) -> str:
    """Return a table with each size next to the dense network and the roofline, and the growth exponents."""
    parts = [setting(report), "\n".join([_HEAD, "|---" * 11 + "|", *_rows(report)])]
    parts += [against_before(report)]
    parts += [_growth(report, hidden) for hidden in _values(report, "hidden")]
    parts += [_problem(run) for run in report["runs"] if run["status"] != "measured"]
    return "\n\n".join(part for part in parts if part)


_HEAD = (
    "| labels | units | us a point, CPU (wall) | epoch, CPU s (wall) | of it start | "
    "| dense, epoch CPU s (extrapolated) | dense / ours "
    "| roofline around the run (best), epoch s | ours / roofline around the run (best) "
    "| memory MB, peak / announced |"
)


def _values(report: dict[str, Any], name: str) -> list[int]:
    return sorted({run[name] for run in report["runs"]})


def _rows(report: dict[str, Any]) -> list[str]:
    return [
        _row(report, labels, hidden)
        for hidden, labels in product(_values(report, "hidden"), _values(report, "labels"))
        if measured_runs(report, "sparsenet", hidden, labels)
    ]


def _row(report: dict[str, Any], labels: int, hidden: int) -> str:
    runs, dense = measured_runs(report, "sparsenet", hidden, labels), measured_runs(report, "dense", hidden, labels)
    point = [1e6 * median_of(runs, f"step_{clock}_seconds") / runs[0]["batch_size"] for clock in ("cpu", "wall")]
    epoch = [median_of(runs, f"epoch_{clock}_seconds") for clock in ("cpu", "wall")]
    whole = runs[0]["batches"] == runs[0]["epoch_batches"]
    least_at_best, times_at_best = against_roofline(report, runs, report["limits"]["all"])
    least, times = against_roofline(report, runs)
    dense_epoch = f"{median_of(dense, 'epoch_cpu_seconds'):,.0f}" if dense else "not run"
    ratio = f"{median_of(dense, 'epoch_cpu_seconds') / epoch[0]:.0f}" if dense else ""
    # The announced memory also covers prediction, which needs more than training if there is a wide path.
    peaks = [run.get("peak_with_prediction_mb", run["peak_mb"]) for run in runs]
    grown = median(peak - run["rss_before_mb"] for peak, run in zip(peaks, runs, strict=True))
    announced = sum(runs[0]["needed_mb"].values())
    return (
        f"| {labels:,} | {hidden} | {point[0]:.0f} ({point[1]:.0f}) | {epoch[0]:.1f} ({epoch[1]:.1f}) "
        f"| {median_of(runs, 'start_cpu_seconds'):.1f} | {'measured' if whole else 'extrapolated'} "
        f"| {dense_epoch} | {ratio} | {least:.1f} ({least_at_best:.1f}) | {times:.1f} ({times_at_best:.1f}) "
        f"| {grown:,.0f} / {announced:,.0f} = {grown / announced:.2f} |"
    )


def against_roofline(
    report: dict[str, Any], runs: Sequence[dict[str, Any]], limits: dict[str, float] | None = None
) -> tuple[float, float]:
    """Return the least time of an epoch in seconds, and measured time over least time: medians over runs.

    Without `limits`, each run uses the limits that were measured right before and after it. Limits are for all
    threads together, so they are compared with CPU seconds divided by threads, which other load disturbs least.
    """
    least, times = [], []
    for run in runs:
        own = limits or run.get("limits_beside", report["limits"]["all"])
        least.append(least_step_seconds(run["work"], own)["total"] * run["epoch_batches"])
        times.append(run["epoch_cpu_seconds"] / report["threads"] / least[-1])
    return median(least), median(times)


def against_before(report: dict[str, Any]) -> str:
    """Return a table of the ratios of CPU time, this commit over the older one: medians over pairs of runs."""
    rows = []
    for labels, hidden in product(_values(report, "labels"), _values(report, "hidden")):
        ours, before = (measured_runs(report, system, hidden, labels) for system in ("sparsenet", "before"))
        pairs = [(run, older) for older in before for run in ours if run["seed"] == older["seed"]]
        if pairs:
            step, epoch = (
                median(run[name] / older[name] for run, older in pairs)
                for name in ("step_cpu_seconds", "epoch_cpu_seconds")
            )
            rows.append(f"| {labels:,} | {hidden} | {len(pairs)} | {step:.3f} | {epoch:.3f} |")
    title = "| labels | units | pairs | step, CPU time over the older commit's | epoch |"
    return "\n".join([title, "|---" * 5 + "|", *rows]) if rows else ""


def growth(report: dict[str, Any], hidden: int) -> tuple[list[int], list[float]]:
    """Return the sizes and the cost of a point at each, in CPU microseconds."""
    sizes = [labels for labels in _values(report, "labels") if measured_runs(report, "sparsenet", hidden, labels)]
    runs = [measured_runs(report, "sparsenet", hidden, labels) for labels in sizes]
    return sizes, [1e6 * median_of(some, "step_cpu_seconds") / some[0]["batch_size"] for some in runs]


def _growth(report: dict[str, Any], hidden: int) -> str:
    sizes, costs = growth(report, hidden)
    if len(sizes) < 2:
        return ""
    power = exponent(sizes, costs)
    return f"{hidden} units: the cost of a point grows as L^{power:.3f} from {sizes[0]:,} to {sizes[-1]:,} labels."


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
    """Plot the cost of a point against the number of labels."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot()
    for hidden in _values(report, "hidden"):
        sizes, costs = growth(report, hidden)
        power = f", $L^{{{exponent(sizes, costs):.2f}}}$" if len(sizes) > 1 else ""
        axes.plot(sizes, costs, "o-", label=f"{hidden} units{power}")
        bound = [costs[0] * (size / sizes[0]) ** 0.3 for size in sizes]
        axes.plot(sizes, bound, ":", color="grey", label="$L^{0.3}$")
    axes.set(xscale="log", yscale="log", xlabel="labels", ylabel="CPU microseconds per point", title="A training step")
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
    parser.add_argument("--dense-batches", type=int, default=3, help="0 skips the dense network")
    parser.add_argument(
        "--dense-most", type=int, default=670_091, help="most labels for the dense network, which is limited by memory"
    )
    parser.add_argument("--before", type=Path, help="a checkout of an older commit to compare with")
    parser.add_argument("--touch-gb", type=float, default=0.0, help="memory to touch before timing starts")
    parser.add_argument("--set", type=assignment, action="append", default=[], help="a parameter of ExtremeClassifier")
    parser.add_argument("--shape", type=json.loads, default={}, help='JSON, such as {"points": 10000}')
    parser.add_argument("--out", type=Path, default=Path("bench/results/scale.json"))
    parser.add_argument("--show", type=Path)
    parser.add_argument("--plot", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
