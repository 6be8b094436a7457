"""Result files: what they record, how they are kept and shown, and the options that go with them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import machine
from bench.runner import use_cpus


def head(**settings: Any) -> dict[str, Any]:
    """Begin a result: the time, the machine and the settings of the measurement."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        **settings,
        "runs": [],
    }


def add_result_options(parser: argparse.ArgumentParser, *, repeats: int = 1) -> None:
    """Add the options that `present` reads, and the number of repeats."""
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path)


def present(
    options: argparse.Namespace,
    measure: Callable[[argparse.Namespace], dict[str, Any]],
    markdown: Callable[[dict[str, Any]], str],
    plot: Callable[[dict[str, Any], Path], None] | None = None,
) -> None:
    """Print the result that ``--show`` names, or measure on ``--threads`` CPUs; plot it if ``--plot`` is given."""
    if options.show:
        report = json.loads(options.show.read_text())
    else:
        use_cpus(options.threads)
        report = measure(options)
    print(markdown(report))
    if plot and options.plot:
        plot(report, options.plot)


def begin_result(path: Path, *, append: bool, **settings: Any) -> dict[str, Any]:
    """Begin a result, or with `append` go on with the runs in a file, under a new head."""
    report = head(**settings)
    if append and path.exists():
        report["runs"] = json.loads(path.read_text())["runs"]
    return report


def add(report: dict[str, Any], run: dict[str, Any], path: Path) -> None:
    """Add a run and its commit, and write the result."""
    report["runs"].append(run | {"commit": report["machine"]["commit"]})
    keep(report, path)


def keep(report: dict[str, Any], path: Path) -> None:
    """Write a result. Call this after each run, so that an interruption loses nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")


def setting(report: dict[str, Any]) -> str:
    """Describe in one line when, where and how a result was measured."""
    about = report["machine"]
    loads = [run["load_average_before"] for run in report["runs"] if "load_average_before" in run]
    changed = " with uncommitted changes" if about["uncommitted_changes"] else ""
    load = f"load average before a run {min(loads):.1f} to {max(loads):.1f}" if loads else "no run"
    parts = [
        f"{report['started']}: {about['cpu']} ({about['isa_used']}), {report['threads']} threads; sparsenet "
        f"{about['commit'][:10]}{changed}; {load}."
    ]
    for name, limits in report.get("limits", {}).items():
        rates = ", ".join(f"{kind} {limits[f'{kind}_gbs']:.1f}" for kind in ("read", "gather", "update"))
        threads = "one thread" if name == "one" else "all threads"
        parts.append(
            f"Limits of {threads}, measured in the same run: FMA {limits['fma_gflops']:.0f} GFLOP/s, {rates} GB/s."
        )
    return " ".join(parts)


def assignment(text: str) -> tuple[str, Any]:
    """Parse ``NAME=JSON``, such as ``hidden=256``."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=JSON, got {text!r}")
    return name, json.loads(value)


def numbers(text: str) -> list[int]:
    """Parse a list of integers separated by commas."""
    return [int(part) for part in text.split(",") if part]
