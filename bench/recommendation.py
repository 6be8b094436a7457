"""The recommender against popularity, neighbors, walks, EASE and implicit, in one run.

    python -m bench.recommendation --data PATH [PATH ...] [--systems NAME,...] [--split time|last] [--threads 1]
                                   [--json FILE]

A PATH is a folder with a test.txt in the format of the extreme classification repository, whose rows hold the history
of a user and whose labels are the items to find, or a CSV file with columns of users, items and times in this order,
plain or compressed. The events of a CSV file are split: ``time`` learns from the first four fifths of the log, ``last``
from all but the last event of each user. Only items that a user has not taken before count as right.

Each system runs in a process of its own with default settings, ours on --threads and others on one. The first answer
of a model prepares the others, and counts as training. implicit needs its environment in .bench/envs (``make peers``).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import lzma
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.recommendation_peers import SYSTEMS
from bench.report import head, keep, setting
from bench.runner import in_child, names, python_of
from sparsenet.data import read_xmc
from sparsenet.features.interactions import Interactions, LogSplit


def of_folder(folder: Path) -> dict[str, Any]:
    """Return the histories of a folder's test points as a log, and their labels as items to find."""
    path = next(folder.glob("test.txt*"))
    data = read_xmc(path)
    log, truth = Interactions.of_matrix(data.X), Interactions.of_matrix(data.Y)
    return arrays(log, np.arange(log.n_users), truth)


def of_table(path: Path, split: LogSplit) -> dict[str, Any]:
    """Return the earlier events of a log, and the new items among the later ones."""
    users, items, times = (np.asarray(column) for column in read_columns(path))
    (_, own), (_, taken) = (np.unique(each, return_inverse=True) for each in (users, items))
    size = int(own.max()) + 1, int(taken.max()) + 1
    kept, held = Interactions.of(own, taken, times.astype(np.float64), None, *size).split(split, 0)
    asked = np.unique(held.users).astype(np.int64)
    return arrays(kept, asked, new_items(kept.of_users(asked), held.of_users(asked)))


def read_columns(path: Path) -> list[tuple[str, ...]]:
    """Return the first three columns of a CSV file with a header."""
    opened: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    with opened(path, "rt", newline="") as file:
        _, *rows = csv.reader(file)
    return list(zip(*rows, strict=True))[:3]


def new_items(before: Interactions, after: Interactions) -> Interactions:
    """Return the later events with items that the user had not taken before."""
    keys = [log.users * np.int64(log.n_items) + log.items for log in (before, after)]
    return after.take(~np.isin(keys[1], keys[0]))


def arrays(log: Interactions, asked: np.ndarray, truth: Interactions) -> dict[str, Any]:
    """Return a job's log, the users to answer and their right items."""
    right = truth.histories()
    times = {} if log.times is None else {"times": log.times}
    return {
        "users": log.users,
        "items": log.items,
        "n_users": log.n_users,
        "n_items": log.n_items,
        **times,
        "asked": asked,
        "truth": right.indices,
        "truth_starts": right.indptr,
    }


def shown(report: dict[str, Any]) -> str:
    """Return a report as a table."""
    lines = ["| data | system | P@1 | recall@20 | nDCG@20 | CPU s | answers a CPU s, a second |", "|---" * 7 + "|"]
    for run in report["runs"]:
        name = f"| {run['data'].removesuffix('.npz')} | {run['system']} |"
        if run["status"] != "measured":
            lines.append(f"{name} {run['reason'].strip().splitlines()[-1]} | | | | |")
            continue
        found = run["scores"]
        lines.append(
            f"{name} {100 * found['P@1']:.1f} | {found['recall@20']:.4f} | {found['nDCG@20']:.4f} "
            f"| {run['fit_cpu']:.1f} | {run['answers_per_cpu_second']:,.0f}, {run['answers_per_second']:,.0f} |"
        )
    return "\n".join([*lines, "", setting(report)])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run every system on every log."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="PATH")
    parser.add_argument("--systems", type=names, default=list(SYSTEMS))
    parser.add_argument("--split", choices=("time", "last"), default="time")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--limit", type=float, default=3600, help="seconds that a run may take")
    parser.add_argument("--json", type=Path, default=Path(".bench") / "recommendation.json", metavar="FILE")
    options = parser.parse_args(arguments)
    report = head(split=options.split, threads=options.threads)
    with tempfile.TemporaryDirectory(prefix="sparsenet-logs-") as folder:
        for path in options.data:
            log = of_folder(path) if path.is_dir() else of_table(path, options.split)
            file = Path(folder) / f"{path.name.partition('.')[0]}.npz"
            np.savez(file, **log)
            for system in options.systems:
                python = python_of("implicit") if system.startswith("implicit") else None
                job = {"system": system, "data": str(file)}
                how = {"threads": options.threads, "limit": options.limit}
                run = in_child("bench.recommendation_peers", job, python=python, **how)
                report["runs"].append(run)
                keep(report, options.json)
                print(f"{run['data']} {system}: {run.get('scores', run.get('reason'))}", flush=True)
    print(shown(report))


if __name__ == "__main__":
    main()
