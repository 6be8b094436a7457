"""What benchmarks of training share: a clock that can end a run, the memory announced, child processes, results."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import machine
from bench.runner import call, use_cpus
from sparsenet.engines.network import building


@contextmanager
def announced() -> Iterator[dict[str, int]]:
    """Note the memory, in bytes by purpose, that an estimator says it needs before it trains."""
    before, needed = building.check_memory, {}

    def noted(asked: dict[str, int], *rest: Any) -> None:
        needed.update(asked)
        before(asked, *rest)

    building.check_memory = noted
    try:
        yield needed
    finally:
        building.check_memory = before


def head(**settings: Any) -> dict[str, Any]:
    """Begin a result: when, on what, and how it was measured."""
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.describe(),
        **settings,
        "runs": [],
    }


def in_child(
    module: str, job: dict[str, Any], *, python: Path | None = None, threads: int, limit: float | None = None
) -> dict[str, Any]:
    """Run ``python -m module JOB RESULT`` and return its result, or why there is none; memory is then its own.

    The load average before goes into the result.
    """
    about = {**job, "data": Path(job["data"]).name, "load_average_before": machine.load_average()}
    python = python or Path(sys.executable)
    if not python.exists():
        return {**about, "status": "not run", "reason": f"there is no environment {python.parts[-3]}: make peers"}
    with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder:
        files = Path(folder) / "job.json", Path(folder) / "result.json"
        files[0].write_text(json.dumps({**job, "threads": threads}))
        problem = call([python, "-m", module, *files], threads=threads, limit=limit)
        if problem:
            return {**about, "status": "failed", "reason": problem}
        return {**about, "status": "measured", **json.loads(files[1].read_text())}


def add_result_options(parser: argparse.ArgumentParser, *, repeats: int = 1) -> None:
    """Add what `shown_or_measured` goes by, and how often to measure."""
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path)


def shown_or_measured(
    options: argparse.Namespace, measure: Callable[[argparse.Namespace], dict[str, Any]]
) -> dict[str, Any]:
    """Return a kept result, if the command line asks to show one, or measure on as many CPUs as it says."""
    if options.show:
        shown: dict[str, Any] = json.loads(options.show.read_text())
        return shown
    use_cpus(options.threads)
    return measure(options)


def present(
    options: argparse.Namespace,
    measure: Callable[[argparse.Namespace], dict[str, Any]],
    markdown: Callable[[dict[str, Any]], str],
    plot: Callable[[dict[str, Any], Path], None],
) -> None:
    """Print a result, measured now or kept, and draw it where the command line says so."""
    report = shown_or_measured(options, measure)
    print(markdown(report))
    if options.plot:
        plot(report, options.plot)


def keep(report: dict[str, Any], path: Path) -> None:
    """Write a result; after each run, so that none is ever lost."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")


def setting(report: dict[str, Any]) -> str:
    """Say when, where and how a result was measured."""
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
    """Split an argument such as ``hidden=256`` into a name and a value, which is JSON."""
    name, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"expected NAME=JSON, got {text!r}")
    return name, json.loads(value)


def numbers(text: str) -> list[int]:
    """Split an argument at its commas into numbers."""
    return [int(part) for part in text.split(",") if part]
