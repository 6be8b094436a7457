"""Time to quality: how fast sparsenet with fewer epochs reaches the final P@1 of another system.

    python -m bench.target --data DIR [DIR ...] [--systems pecos,...] [--ours sparsenet-light] [--epochs 1,2,3,5,8]
                           [--repeats 5] [--threads 2] [--seeds 0,1,2,3,4] [--set NAME=JSON ...] [--mask-seen DATA,...]
                           [--out bench/results/target.json] [--plot FILE]
    python -m bench.target --show bench/results/target.json

Each number of epochs is a separate fit with a complete learning-rate schedule. The epochs of a tree are the most passes
over the points of a node. In each round every system and every number of epochs runs once. The rules of
`bench.quality` apply.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from bench.cache import DataSet, prepare
from bench.peers import COMPARED, SYSTEMS
from bench.report import assignment, head, keep, numbers, present, setting
from bench.runner import Runner, parser, scorers

#: The parameter that sets the epochs of each of our systems.
OURS = {
    "sparsenet": "epochs",
    "sparsenet-tree": "epochs",
    "sparsenet-light": "tree__epochs",
    "sparsenet-blend": "network__epochs",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or show a kept result."""
    present(_options(arguments), measure, markdown, plot)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run every system; the result is written after each run."""
    data_sets = [prepare(path) for path in options.data]
    facts = {data.name: data.facts for data in data_sets}
    report = head(
        threads=options.threads,
        seeds=options.seeds[: options.repeats],
        mask_seen=options.mask_seen,
        data=facts,
        ours=options.ours,
    )
    for run in _runs(options, data_sets):
        report["runs"].append(run)
        keep(report, options.out)
    return report


def _runs(options: argparse.Namespace, data_sets: list[DataSet]) -> Iterator[dict[str, Any]]:
    scorer_of = scorers(data_sets, options.mask_seen)
    runner = Runner(threads=options.threads, limit=options.limit)
    turns: list[tuple[str, dict[str, Any]]] = [(name, {}) for name in options.systems if name not in OURS]
    turns += [(options.ours, {**dict(options.set), OURS[options.ours]: epochs}) for epochs in options.epochs]
    for repeat in range(options.repeats):
        shift, seed = repeat % len(turns), options.seeds[repeat % len(options.seeds)]
        for data in data_sets:
            for name, changes in turns[shift:] + turns[:shift]:
                run = runner.run(SYSTEMS[name], data, scorer_of[data.name], seed, changes)
                yield {"data": data.name, "system": name, "seed": seed, **run}


# --- tables --------------------------------------------------------------------------------------------------------


def curves(report: dict[str, Any], data: str) -> dict[str, list[dict[str, float]]]:
    """Return training time and P@1 of each system for each number of epochs, fastest first."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for run in report["runs"]:
        if run["data"] == data and run["status"] == "measured":
            epochs = run["settings"][OURS[report["ours"]]] if run["system"] == report["ours"] else 0
            groups.setdefault((run["system"], epochs), []).append(run)
    found: dict[str, list[dict[str, float]]] = {}
    for (system, epochs), runs in groups.items():
        point = {"epochs": epochs, "P@1": mean(run["scores"]["P@1"] for run in runs)}
        point |= {clock: median(run[f"train_{clock}"] for run in runs) for clock in ("cpu_seconds", "seconds")}
        found.setdefault(system, []).append(point)
    return {system: sorted(points, key=lambda point: point["cpu_seconds"]) for system, points in found.items()}


def reached(points: list[dict[str, float]], target: float) -> dict[str, float] | None:
    """Return the fastest fit whose P@1 is at least the target."""
    return next((point for point in points if point["P@1"] >= target), None)


def markdown(report: dict[str, Any]) -> str:
    """Return a table with a row for each system to match, and our P@1 for each number of epochs."""
    lines = [
        setting(report),
        "",
        "| data | system | P@1 | its CPU s (wall) | ours at the same P@1 | CPU s (wall) | share of its CPU s |",
    ]
    lines.append("|---" * 7 + "|")
    for data in report["data"]:
        found = curves(report, data)
        ours = found.pop(report["ours"], [])
        lines += [_row(data, name, points[0], ours) for name, points in found.items()]
    for data in report["data"]:
        ours = curves(report, data).get(report["ours"], [])
        steps = [f"{p['epochs']:.0f}: {100 * p['P@1']:.1f} in {p['cpu_seconds']:.1f} CPU s" for p in ours]
        lines += ["", f"{data}, epochs: {'; '.join(steps) or 'not measured'}"]
    return "\n".join(lines)


def _row(data: str, name: str, theirs: dict[str, float], ours: list[dict[str, float]]) -> str:
    row = f"| {data} | {name} | {100 * theirs['P@1']:.1f} | {theirs['cpu_seconds']:.3g} ({theirs['seconds']:.3g}) |"
    as_good = reached(ours, theirs["P@1"])
    if as_good is None:
        return f"{row} not reached | - | - |"
    time = f"{as_good['cpu_seconds']:.3g} ({as_good['seconds']:.3g})"
    share = as_good["cpu_seconds"] / theirs["cpu_seconds"]
    return f"{row} {as_good['epochs']:.0f} epochs: {100 * as_good['P@1']:.1f} | {time} | {100 * share:.0f} % |"


def plot(report: dict[str, Any], path: Path) -> None:
    """Plot P@1 over CPU seconds of training, one panel per data set."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(report["data"]), 4), layout="constrained")
    for axes, data in zip(figure.subplots(1, len(report["data"]), squeeze=False)[0], report["data"], strict=True):
        for name, points in curves(report, data).items():
            seconds, scores = ([point[key] for point in points] for key in ("cpu_seconds", "P@1"))
            axes.plot(seconds, [100 * score for score in scores], "o-" if name == report["ours"] else "s", label=name)
        axes.set(title=data, xlabel="training, CPU s", ylabel="P@1, %", xscale="log")
        axes.legend()
    figure.savefig(path)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    found = parser(__doc__, [name for name in COMPARED if not name.startswith("sparsenet")], needs_data=False)
    found.add_argument("--ours", choices=list(OURS), default="sparsenet", help="which of our systems")
    found.add_argument("--epochs", type=numbers, default=[1, 2, 3, 5, 8])
    found.add_argument("--repeats", type=int, default=5)
    found.add_argument("--seeds", type=numbers, default=[0, 1, 2, 3, 4])
    found.add_argument(
        "--set",
        type=assignment,
        action="append",
        default=[],
        metavar="NAME=JSON",
        help="a further setting of our system",
    )
    found.add_argument("--out", type=Path, default=Path("bench/results/target.json"))
    found.add_argument("--show", type=Path, help="show a kept result")
    found.add_argument("--plot", type=Path)
    options = found.parse_args(arguments)
    if not options.data and not options.show:
        found.error("name data sets by --data, or a kept result by --show")
    return options


if __name__ == "__main__":
    main()
