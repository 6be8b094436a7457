"""TextClassifier against fastText, Vowpal Wabbit and scikit-learn on texts, defaults only.

python -m bench.text --data DIR [--sets NAME,...] [--systems NAME,...] [--rounds N] [--threads N]

DIR holds NAME.train.tsv and NAME.test.tsv, plain or compressed: a label, a tab and a text a line. Each run is a
process of its own, confined to as many CPUs as there are threads; rounds are interleaved. fastText and Vowpal Wabbit
live in .bench/envs (``make peers``); what is not there is not run. The result, every run by itself, goes to --json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import mean, median
from typing import Any

from bench.runner import names, python_of, use_cpus
from bench.running import head, in_child, keep, setting
from bench.text_peers import SYSTEMS
from sparsenet.data import read_table

#: Whose library is not there where sparsenet is.
ENVIRONMENTS = {"fasttext": "fasttext", "fasttext-25": "fasttext", "vw": "vw"}
SHOWN = ("train_cpu", "train_wall", "single_us_p50", "single_us_p99", "bulk", "model_mb")


def main() -> None:
    """Run everything and print a table for each data set."""
    options = _options()
    use_cpus(options.threads)
    report = head(threads=options.threads)
    with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder:
        for name in options.sets:
            data = Path(folder) / name
            data.write_text(json.dumps({part: _read(options.data, name, part) for part in ("train", "test")}))
            _measure(options, data, report)
            print(_table(name, [run for run in report["runs"] if run["data"] == name]), flush=True)
    print(f"\n{setting(report)}")


def _measure(options: argparse.Namespace, data: Path, report: dict[str, Any]) -> None:
    """Let each system have its turn in each round, in an order that moves on."""
    for seed in range(options.rounds):
        turn = seed % len(options.systems)
        for system in options.systems[turn:] + options.systems[:turn]:
            python = python_of(ENVIRONMENTS.get(system, "sparsenet"))
            job = {"data": str(data), "system": system, "seed": seed}
            run = in_child("bench.text_peers", job, python=python, threads=options.threads, limit=options.limit)
            report["runs"].append(run)
            print(json.dumps(run), file=sys.stderr)
            if options.json:
                keep(report, options.json)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sets = ["imdb", "banking77", "clinc150", "sst2", "trec6", "agnews-4k", "reddit-titles"]
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", type=names, default=sets)
    parser.add_argument("--systems", type=names, default=list(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=float, default=1800, help="seconds that a run may take")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def _read(folder: Path, name: str, part: str) -> tuple[list[str], list[str]]:
    (path,) = folder.glob(f"{name}.{part}.tsv*")
    table = read_table(path, text=1, target=0, quotes=False)
    assert table.texts is not None
    assert table.labels is not None
    return table.texts, [labels[0] for labels in table.labels]


def _table(name: str, runs: list[dict[str, Any]]) -> str:
    lines = [f"\n**{name}**\n", f"| system | accuracy | {' | '.join(SHOWN)} | |", f"|{'---|' * (len(SHOWN) + 3)}"]
    for system in dict.fromkeys(run["system"] for run in runs):
        own = [run for run in runs if run["system"] == system]
        good = [run for run in own if run["status"] == "measured"]
        states = dict.fromkeys(": ".join(filter(None, (run["status"], run.get("reason")))) for run in own)
        cells = [f"{100 * mean(run['accuracy'] for run in good):.2f}"] if good else ["-"]
        cells += [f"{median(run[key] for run in good):.4g}" if good else "-" for key in SHOWN]
        lines.append(f"| {system} | {' | '.join(cells)} | {len(good)} runs; {'; '.join(states)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
