"""TextClassifier against fastText, Vowpal Wabbit and scikit-learn, with default settings.

    python -m bench.text --data DIR [--sets NAME,...] [--systems NAME,...] [--rounds N | --folds N] [--threads N]
                         [--unbalanced] [--json FILE]

DIR holds NAME.train.tsv and NAME.test.tsv, plain or compressed, with a label, a tab and a text per line. Each run is a
separate process on --threads CPUs; rounds are interleaved. fastText and Vowpal Wabbit need their environments in
.bench/envs (``make peers``), otherwise they are not run. Every run is written to FILE.

With --folds N the test texts are not used: each of N rounds holds out another part of the training texts. That
compares systems more precisely if there are few test texts. With --unbalanced the first label keeps all of its texts
and the last one a tenth, in both training and test. Each round draws a new order of the labels.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median, stdev
from typing import Any

from bench.report import head, keep, setting
from bench.runner import in_child, names, python_of, use_cpus
from bench.text_peers import SYSTEMS
from sparsenet.data import read_table

#: The environments of systems that do not run in that of sparsenet.
ENVIRONMENT_OF = {"fasttext": "fasttext", "fasttext-25": "fasttext", "vw": "vw"}
#: Texts and the label of each.
Labelled = tuple[list[str], list[str]]
#: The share of its texts that the rarest label keeps with --unbalanced.
LEAST_SHARE = 0.1
SHOWN = ("macro_f1", "train_cpu", "train_wall", "single_us_p50", "single_us_p99", "bulk", "model_mb")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run everything and print a table for each data set."""
    options = _options(arguments)
    use_cpus(options.threads)
    report = head(threads=options.threads)
    with tempfile.TemporaryDirectory(prefix="sparsenet-bench-") as folder:
        for name in options.sets:
            _measure(options, name, Path(folder) / name, report)
            print(_table(name, [run for run in report["runs"] if run["data"] == name]), flush=True)
    print(f"\n{setting(report)}")


def _measure(options: argparse.Namespace, name: str, data: Path, report: dict[str, Any]) -> None:
    """Run each system once per round, in an order that rotates."""
    train = read(options.data, name, "train")
    test = None if options.folds else read(options.data, name, "test")
    for seed in range(options.folds or options.rounds):
        parts = held_out(train, options.folds, seed) if test is None else (train, test)
        if options.unbalanced:
            parts = unbalanced(parts, seed)
        data.write_text(json.dumps(dict(zip(("train", "test"), parts, strict=True))))
        turn = seed % len(options.systems)
        for system in options.systems[turn:] + options.systems[:turn]:
            python = python_of(ENVIRONMENT_OF.get(system, "sparsenet"))
            job = {"data": str(data), "system": system, "seed": seed}
            run = in_child("bench.text_peers", job, python=python, threads=options.threads, limit=options.limit)
            run |= {"fold": f"{seed + 1} of {options.folds}"} if options.folds else {}
            report["runs"].append(run | ({"unbalanced": True} if options.unbalanced else {}))
            print(json.dumps(report["runs"][-1]), file=sys.stderr)
            if options.json:
                keep(report, options.json)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sets = ["imdb", "banking77", "clinc150", "sst2", "trec6", "agnews-4k", "reddit-titles"]
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", type=names, default=sets)
    parser.add_argument("--systems", type=names, default=list(SYSTEMS))
    rounds = parser.add_mutually_exclusive_group()
    rounds.add_argument("--rounds", type=int, default=5)
    rounds.add_argument("--folds", type=int, help="rounds of cross-validation on the training texts")
    parser.add_argument("--unbalanced", action="store_true", help="keep unequal shares of the texts of each label")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=float, default=1800, help="seconds that a run may take")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    if options.folds is not None and options.folds < 2:
        parser.error("--folds: at least 2")
    return options


def held_out(data: Labelled, folds: int, fold: int) -> tuple[Labelled, Labelled]:
    """Split texts for cross-validation into training and held-out parts; the split is always the same."""
    order = random.Random(0).sample(range(len(data[0])), len(data[0]))
    texts, labels = data
    parts = [position for at, position in enumerate(order) if at % folds != fold], order[fold::folds]
    train, test = (([texts[i] for i in part], [labels[i] for i in part]) for part in parts)
    return train, test


def unbalanced(parts: tuple[Labelled, Labelled], seed: int) -> tuple[Labelled, Labelled]:
    """Thin out labels in random order: keep all texts of the first, a tenth of the last, in geometric steps."""
    draw = random.Random(seed)
    names = sorted(set(parts[0][1]))
    steps = zip(draw.sample(names, len(names)), range(len(names)), strict=True)
    share = {label: LEAST_SHARE ** (step / max(len(names) - 1, 1)) for label, step in steps}
    kept = []
    for texts, labels in parts:
        own: dict[str, list[int]] = {}
        for i, label in enumerate(labels):
            own.setdefault(label, []).append(i)
        some = (draw.sample(own[label], math.ceil(share.get(label, 1.0) * len(own[label]))) for label in sorted(own))
        rows = sorted(i for part in some for i in part)
        kept.append(([texts[i] for i in rows], [labels[i] for i in rows]))
    return kept[0], kept[1]


def read(folder: Path, name: str, part: str) -> Labelled:
    """Return the texts and labels of the training or test part of a set."""
    (path,) = folder.glob(f"{name}.{part}.tsv*")
    table = read_table(path, text=1, target=0, quotes=False)
    assert table.texts is not None
    assert table.labels is not None
    return table.texts, [labels[0] for labels in table.labels]


def _table(name: str, runs: list[dict[str, Any]]) -> str:
    head = f"| system | accuracy | behind sparsenet | {' | '.join(SHOWN)} | |"
    lines = [f"\n**{name}**\n", head, f"|{'---|' * (len(SHOWN) + 4)}"]
    measured = [run for run in runs if run["status"] == "measured"]
    ours = {run["seed"]: run["accuracy"] for run in measured if run["system"] == "sparsenet"}
    for system in dict.fromkeys(run["system"] for run in runs):
        own, good = ([run for run in some if run["system"] == system] for some in (runs, measured))
        states = dict.fromkeys(": ".join(filter(None, (run["status"], run.get("reason")))) for run in own)
        behind = [ours[run["seed"]] - run["accuracy"] for run in good if run["seed"] in ours]
        cells = [f"{100 * mean(run['accuracy'] for run in good):.2f}"] if good else ["-"]
        cells.append(_difference(behind) if system != "sparsenet" else "")
        cells += [f"{median(run[key] for run in good):.4g}" if good else "-" for key in SHOWN]
        lines.append(f"| {system} | {' | '.join(cells)} | {len(good)} runs; {'; '.join(states)} |")
    return "\n".join(lines)


def _difference(paired: list[float]) -> str:
    """Format the mean difference within rounds, in points, and its standard error."""
    if len(paired) < 2:
        return f"{100 * paired[0]:.2f}" if paired else "-"
    return f"{100 * mean(paired):.2f} ± {100 * stdev(paired) / len(paired) ** 0.5:.2f}"


if __name__ == "__main__":
    main()
