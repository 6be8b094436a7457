"""Our rows beside published ones.

    python -m bench.published amazon670k --data DIR [--threads 2] [--seeds 0] [--limit 86400] [--setups NAME,...]
                                         [--out bench/results/published-amazon670k.json]
    python -m bench.published amazon670k --show bench/results/published-amazon670k.json

    python -m bench.published yelp|dbpedia --data DIR [--distilbert DIR] [--set NAME=JSON ...] [--systems NAME,...]

DIR holds the task's training and test file as they are distributed: for amazon670k train.txt and test.txt of the
extreme classification repository, plain or compressed; for yelp and dbpedia train.csv and test.csv, without a header.
For these, --distilbert names a local directory of weights to fine-tune, as transformers saves them. Rows that we
measured say so, with machine, threads and commit; the others are quoted, with their source, and were measured on other
machines: they are no comparison of equals.
*Closed*: the same model and optimizer as the dense baseline. *Open*: anything goes. The rules are in bench/README.md.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench import published_text
from bench.cache import DataSet, prepare
from bench.peers import System
from bench.runner import Runner, names
from bench.running import assignment, head, keep, numbers, setting, shown_or_measured
from bench.scoring import Scorer


@dataclass(frozen=True, kw_only=True)
class Quoted:
    """A row as others published it: training seconds in all, P@1 in per cent where it was given."""

    system: str
    machine: str
    seconds: float | None
    precision: float | None
    source: str


@dataclass(frozen=True, kw_only=True)
class Task:
    """A published task.

    Attributes
    ----------
    shape : mapping
        Points, features and labels of the training file, by which the data are known to be the published ones.
    setups : mapping
        What we train, by name: parameters of `ExtremeClassifier`.
    published : sequence of Quoted
        What others reached.
    """

    shape: Mapping[str, int]
    setups: Mapping[str, Mapping[str, Any]]
    published: Sequence[Quoted]


#: Tasks on sparse points; those on text are in `bench.published_text`.
TASKS = {
    "amazon670k": Task(
        shape={"points": 490_449, "features": 135_909, "labels": 670_091},
        setups={
            # The network and the schedule that BOLT and the dense baselines have: one hidden layer of 256 units, Adam.
            "as published (closed)": {
                "hidden": 256,
                "wide": False,
                "loss": "softmax",
                "dropout": 0.0,
                "epochs": 5,
                "batch_size": 256,
                "learning_rate": 1e-3,
                "decay": "constant",
                "precision": "float32",
            },
            "defaults (open)": {},
        },
        published=[
            Quoted(system="BOLT", machine="c6i.8xlarge", seconds=1470, precision=33.6, source=published_text.BOLT),
            Quoted(system="BOLT", machine="c7g.8xlarge", seconds=935, precision=33.6, source=published_text.BOLT),
            Quoted(system="dense, TensorFlow", machine="T4G", seconds=7550, precision=None, source=published_text.BOLT),
            Quoted(system="dense, PyTorch", machine="T4G", seconds=5130, precision=None, source=published_text.BOLT),
        ],
    ),
}


def main() -> None:
    """Measure, or show what was measured."""
    options = _options()
    if not options.show and options.data is None:
        sys.exit("--data DIR is needed: it holds the task's files, which cannot be fetched from here")
    if options.task in published_text.TASKS:
        text_task = published_text.TASKS[options.task]
        report = shown_or_measured(options, partial(published_text.measure, text_task))
        print(published_text.markdown(text_task, report))
    else:
        task = TASKS[options.task]
        print(markdown(task, shown_or_measured(options, partial(measure, task))))


def measure(task: Task, options: argparse.Namespace) -> dict[str, Any]:
    """Train each set-up for each seed; the result is written after each run."""
    data = prepare(options.data)
    scorer, runner = Scorer(data, mask_seen=False), Runner(threads=options.threads, limit=options.limit)
    report = head(threads=options.threads, seeds=options.seeds, data={data.name: data.facts})
    report["is_published_data"] = is_published(task, data)
    for seed in options.seeds:
        for name in options.setups or task.setups:
            run = runner.run(System(adapter="sparsenet", settings=task.setups[name]), data, scorer, seed, {})
            report["runs"].append({"setup": name, "seed": seed, **run})
            keep(report, options.out)
    return report


def is_published(task: Task, data: DataSet) -> bool:
    """Say whether the training file has the shape of the published one."""
    return dict(task.shape) == {name: data.facts["train"][name] for name in task.shape}


def markdown(task: Task, report: dict[str, Any]) -> str:
    """Return our rows and the quoted ones in one table."""
    lines = [setting(report), ""]
    if not report["is_published_data"]:
        wanted = " x ".join(f"{size:,} {name}" for name, size in task.shape.items())
        lines += [f"**Not the published data**, which have {wanted}: our rows are no match for the quoted ones.", ""]
    lines += [
        "| system | set-up | machine | training s (CPU s) | parsing s | P@1 / P@3 / P@5 | peak MB | model MB | |",
        "|---" * 9 + "|",
    ]
    lines += [_measured(run, report) for run in report["runs"]]
    lines += [_quoted(row) for row in task.published]
    return "\n".join(lines)


def _measured(run: dict[str, Any], report: dict[str, Any]) -> str:
    machine = f"{report['machine']['cpu']}, {report['threads']} threads"
    if run["status"] != "measured":
        return f"| sparsenet | {run['setup']} | {machine} | | | | | | {run['status']}: {run['reason']} |"
    grades = " / ".join(f"{100 * run['scores'][f'P@{k}']:.1f}" for k in (1, 3, 5))
    times = f"{run['train_seconds']:,.1f} ({run['train_cpu_seconds']:,.1f}) | {run['parse_seconds']:,.1f}"
    sizes = f"{run['peak_rss_mb']:,.0f} | {run['model_mb']:,.0f}"
    state = f"measured, seed {run['seed']}, load {run['load_average_before']:.1f}"
    return f"| sparsenet | {run['setup']} | {machine} | {times} | {grades} | {sizes} | {state} |"


def _quoted(row: Quoted) -> str:
    seconds = "" if row.seconds is None else f"{row.seconds:,.0f}"
    precision = "" if row.precision is None else f"{row.precision}"
    return f"| {row.system} | 5 epochs | {row.machine} | {seconds} | | {precision} | | | quoted: {row.source} |"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=[*TASKS, *published_text.TASKS])
    parser.add_argument("--data", type=Path, metavar="DIR")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seeds", type=numbers, default=[0])
    parser.add_argument("--limit", type=float, default=86_400, help="seconds that a run may take")
    parser.add_argument("--setups", type=names, default=[], help="some of the task's set-ups")
    parser.add_argument("--systems", type=names, default=[], help="some of the systems, in a task on text")
    parser.add_argument("--distilbert", type=Path, metavar="DIR", help="weights to fine-tune, in a task on text")
    parser.add_argument("--distilbert-python", type=Path, help="an interpreter with PyTorch and transformers")
    parser.add_argument("--set", type=assignment, action="append", default=[], help="of DistilBERT, such as epochs=1")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path)
    options = parser.parse_args()
    known = TASKS[options.task].setups if options.task in TASKS else {}
    for option, given, there in (
        ("--setups", options.setups, known),
        ("--systems", options.systems, published_text.SYSTEMS if options.task in published_text.TASKS else ()),
    ):
        if unknown := sorted(set(given) - set(there)):
            parser.error(f"{option}: unknown: {', '.join(unknown)}; there are {', '.join(there) or 'none'}")
    options.out = options.out or Path(f"bench/results/published-{options.task}.json")
    return options


if __name__ == "__main__":
    main()
