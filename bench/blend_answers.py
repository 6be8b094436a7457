"""Compare blends with PECOS: accuracy with and without rounding, time of answers and training, size and memory.

    make peers
    python -m bench.blend_answers --data DIR [DIR ...] [--threads 1] [--repeats 2] [--out FILE]
    python -m bench.blend_answers --show FILE

Systems run as in `bench.quality`. The memory of a model is what loading it adds to the resident memory of a process
that has imported the library. Blends "with floats" are trained from the same seed and never rounded. With several
repeats, a second table has the effect of rounding on precision: the mean difference of equal seeds, with its standard
error.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from bench.quality import compare, options_of
from bench.report import setting
from bench.runner import parser

NAMES = {
    "pecos": "PECOS",
    "sparsenet-tree": "`TreeClassifier`",
    "sparsenet-light": '`BlendClassifier(network="drop")`',
    "sparsenet-light-floats": "the same, with floats",
    "sparsenet-blend": "`BlendClassifier`",
    "sparsenet-blend-floats": "the same, with floats",
}
ROUNDED = ("sparsenet-light", "sparsenet-blend")
RANKS = ("P@1", "P@3", "P@5")
HEAD = (
    "| data | system | P@1 / P@3 / P@5 | one point, CPU ms | points per CPU s | training CPU s | MB on disk "
    "| MB in memory |"
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or show a result."""
    options = _options(arguments)
    print(markdown(json.loads(options.show.read_text()) if options.show else compare(options)))


def markdown(report: dict[str, Any]) -> str:
    """Return a row for each data set and system: means of precision, and medians of the rest."""
    rows = [_row(report, data, system) for data in report["data"] for system in report["systems"]]
    return "\n".join([setting(report), "", HEAD, "|---" * 8 + "|", *rows, *_effect_of_rounding(report)])


def _effect_of_rounding(report: dict[str, Any]) -> list[str]:
    """Return a table of the mean change of precision by rounding; nothing if no blend has two seeds of both kinds."""
    rows = []
    for data in report["data"]:
        for system in ROUNDED:
            seeds = [_scores_by_seed(report, data, name) for name in (system, f"{system}-floats")]
            both = sorted(seeds[0].keys() & seeds[1].keys())
            if len(both) < 2:
                continue
            changes = [[100 * (seeds[0][seed][rank] - seeds[1][seed][rank]) for seed in both] for rank in RANKS]
            cells = [f"{mean(change):+.3f} ± {stdev(change) / math.sqrt(len(both)):.3f}" for change in changes]
            rows.append(f"| {data} | {NAMES[system]} | {len(both)} | {' | '.join(cells)} |")
    head = f"| data | system | seeds | {' | '.join(f'{rank} by rounding' for rank in RANKS)} |"
    return ["", head, "|---" * 6 + "|", *rows] if rows else []


def _scores_by_seed(report: dict[str, Any], data: str, system: str) -> dict[int, dict[str, float]]:
    runs = [run for run in report["runs"] if (run["data"], run["system"]) == (data, system)]
    return {run["seed"]: run["scores"] for run in runs if run["status"] == "measured"}


def _row(report: dict[str, Any], data: str, system: str) -> str:
    runs = [run for run in report["runs"] if (run["data"], run["system"]) == (data, system)]
    runs = [run for run in runs if run["status"] == "measured"]
    if not runs:
        return f"| {data} | {NAMES[system]} |" + " |" * 6

    def middle(name: str, show: Callable[[float], str]) -> str:
        found = [run[name] for run in runs if run.get(name)]
        return show(median(found)) if found else ""

    scores = " / ".join(f"{100 * mean(run['scores'][name] for run in runs):.2f}" for name in RANKS)
    cells = [
        scores,
        middle("single_cpu_ms_p50", "{:.3f}".format),
        middle("points_per_cpu_second", "{:,.0f}".format),
        *(middle(name, "{:.1f}".format) for name in ("train_cpu_seconds", "model_mb", "loaded_mb")),
    ]
    return f"| {data} | {NAMES[system]} | {' | '.join(cells)} |"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    found = options_of(parser(__doc__, list(NAMES), needs_data=False), Path("bench/results/blend-answers.json"))
    found.add_argument("--show", type=Path)
    found.set_defaults(threads=1, repeats=2, data=[])
    return found.parse_args(arguments)


if __name__ == "__main__":
    main()
