"""The published tasks on text: what they are, what others reached, and how our rows and theirs are shown."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.published_systems import SYSTEMS
from bench.runner import python_of
from bench.running import head, in_child, keep, setting


@dataclass(frozen=True, kw_only=True)
class QuotedText:
    """A row as others published it, in their words."""

    system: str
    machine: str
    seconds: str
    accuracy: str
    source: str


@dataclass(frozen=True, kw_only=True)
class TextTask:
    """A published task on text.

    Attributes
    ----------
    fields : int
        Of a row of train.csv and test.csv: the label, and one or more that make up the text.
    shape : mapping
        Texts of both files and labels, by which the data are known to be the published ones.
    published : sequence of QuotedText
        What others reached.
    """

    fields: int
    shape: Mapping[str, int]
    published: Sequence[QuotedText]


BOLT = "BOLT: Meisburger et al., CIKM 2023"


def _rows(accuracy: str, seconds: str) -> list[QuotedText]:
    machines = "32 vCPUs, Graviton3 and Ice Lake"
    ours = QuotedText(system="BOLT UDT", machine=machines, seconds=seconds, accuracy=accuracy, source=BOLT)
    return [ours, QuotedText(system="DistilBERT", machine="a GPU", seconds="over 3,600", accuracy="", source=BOLT)]


TASKS = {
    "yelp": TextTask(
        fields=2, shape={"train": 560_000, "test": 38_000, "labels": 2}, published=_rows("92.9 to 93.2", "29 to 47")
    ),
    "dbpedia": TextTask(
        fields=3, shape={"train": 560_000, "test": 70_000, "labels": 14}, published=_rows("98.1 to 98.2", "14 to 23")
    ),
}


def measure(task: TextTask, options: argparse.Namespace) -> dict[str, Any]:
    """Train each system for each seed; the result is written after each run."""
    report = head(threads=options.threads, seeds=options.seeds, data={options.data.name: _hashes(options.data)})
    for seed in options.seeds:
        for system in options.systems or SYSTEMS:
            report["runs"].append({"system": system, "seed": seed, **_run(task, options, system, seed)})
            shapes = [run["shape"] for run in report["runs"] if "shape" in run]
            report["is_published_data"] = bool(shapes) and all(shape == dict(task.shape) for shape in shapes)
            keep(report, options.out)
    return report


def _run(task: TextTask, options: argparse.Namespace, system: str, seed: int) -> dict[str, Any]:
    settings = dict(options.set) if system == "distilbert" else {}
    job = {"data": str(options.data), "fields": task.fields, "system": system, "seed": seed, "settings": settings}
    if system == "distilbert":
        if options.distilbert is None:
            return {"status": "not run", "reason": "no weights: --distilbert DIR names a directory that has them"}
        job["distilbert"] = str(options.distilbert.resolve())
    python = options.distilbert_python if system == "distilbert" else None
    run = in_child(
        "bench.published_systems",
        job,
        python=python or python_of(system),
        threads=options.threads,
        limit=options.limit,
    )
    return {**run, "distilbert": options.distilbert.name} if "distilbert" in run else run


def _hashes(folder: Path) -> dict[str, str]:
    found = {}
    for name in ("train.csv", "test.csv"):
        with (folder / name).open("rb") as file:
            found[f"{name} sha256"] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def markdown(task: TextTask, report: dict[str, Any]) -> str:
    """Return our rows and the quoted ones in one table."""
    lines = [setting(report), ""]
    if not report["is_published_data"]:
        wanted = ", ".join(f"{size:,} {name}" for name, size in task.shape.items())
        lines += [f"**Not the published data**, which have {wanted}: our rows are no match for the quoted ones.", ""]
    lines += [
        "| system | machine | training s (CPU s) | parsing s | accuracy % | texts / s | one text ms, p50 / p99 "
        "| peak MB | model MB | |",
        "|---" * 10 + "|",
    ]
    lines += [_measured(run, report) for run in report["runs"]]
    lines += [
        f"| {row.system} | {row.machine} | {row.seconds} | | {row.accuracy} | | | | | quoted: {row.source} |"
        for row in task.published
    ]
    return "\n".join(lines)


def _measured(run: dict[str, Any], report: dict[str, Any]) -> str:
    if run["status"] != "measured":
        return f"| {run['system']} | | | | | | | | | {run['status']}: {run['reason']} |"
    machine = f"{report['machine']['cpu']}, {report['threads']} threads"
    machine = machine if run["device"] == "CPU" else f"{run['device']}, {machine}"
    cells = [
        f"{run['train_seconds']:,.1f} ({run['train_cpu_seconds']:,.1f})",
        f"{run['parse_seconds']:,.1f}",
        f"{100 * run['accuracy']:.2f}",
        f"{run['texts_per_second']:,.0f}",
        f"{run['single_ms_p50']:.3g} / {run['single_ms_p99']:.3g}",
        f"{run['peak_rss_mb']:,.0f}",
        f"{run['model_mb']:,.1f}",
        f"measured, seed {run['seed']}, load {run['load_average_before']:.1f}",
    ]
    return f"| {run['system']} | {machine} | {' | '.join(cells)} |"
