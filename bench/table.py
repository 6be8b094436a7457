"""Markdown of a comparison: ``python -m bench.table bench/results/quality.json``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from bench.report import setting

Runs = Sequence[dict[str, Any]]

HEAD = (
    "| system | P@1 / P@3 / P@5 | nDCG@5 | PSP@1 / 3 / 5 | train CPU s (wall) | parse CPU s "
    "| one point ms, p50 / p99 | points / CPU s | peak MB | model MB | |"
)


def markdown(report: dict[str, Any]) -> str:
    """Return a table for each data set, after one line on machine, commit and settings."""
    seeds = ", ".join(str(seed) for seed in report["seeds"][: report["repeats"]])
    rounds = f"{report['repeats']} rounds, seeds {seeds}"
    parts = [f"{setting(report)} Means of scores, and medians of other columns, over {rounds}."]
    for name, facts in report["data"].items():
        shape = " x ".join(f"{facts['train'][key]:,} {key}" for key in ("points", "features", "labels"))
        masked = "; seen items masked" if name in report["mask_seen"] else ""
        rows = [_row(report, name, system) for system in report["systems"]]
        parts.append("\n".join([f"**{name}** ({shape}{masked})\n", HEAD, "|---" * 11 + "|", *rows]))
    return "\n\n".join(parts)


def _row(report: dict[str, Any], data: str, system: str) -> str:
    runs = [run for run in report["runs"] if (run["data"], run["system"]) == (data, system)]
    measured = [run for run in runs if run["status"] == "measured"]
    problems = [f"{run['status']}: {run['reason']}" for run in runs if run["status"] != "measured"]
    state = "; ".join([*([f"measured, {len(measured)} runs"] if measured else []), *problems]) or "not run"
    cells = _cells(measured) if measured else ["-"] * 9
    return f"| {system} | {' | '.join(cells)} | {state} |"


def _cells(runs: Runs) -> list[str]:
    def score(*names: str) -> str:
        return " / ".join(f"{100 * mean(run['scores'][name] for run in runs):.1f}" for name in names)

    def middle(name: str, show: Callable[[float], str]) -> str:
        return show(median(run[name] for run in runs))

    return [
        score("P@1", "P@3", "P@5"),
        score("nDCG@5"),
        score("PSP@1", "PSP@3", "PSP@5"),
        f"{middle('train_cpu_seconds', _three)} ({middle('train_seconds', _three)})",
        middle("parse_cpu_seconds", _three),
        f"{middle('single_ms_p50', _three)} / {middle('single_ms_p99', _three)}",
        middle("points_per_cpu_second", lambda value: f"{value:,.0f}"),
        middle("peak_rss_mb", lambda value: f"{value:,.0f}"),
        middle("model_mb", _three),
    ]


def _three(value: float) -> str:
    """Format a number with about three digits and without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    print(markdown(json.loads(Path(sys.argv[1]).read_text())))
