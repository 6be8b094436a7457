"""TextClassifier against fastText, Vowpal Wabbit and scikit-learn on texts, defaults only.

python bench/text.py --data DIR [--sets NAME,...] [--systems NAME,...] [--rounds N] [--threads N]

DIR holds NAME.train.tsv and NAME.test.tsv, plain or compressed: a label, a tab and a text a line. Each run is a
process of its own, confined to as many CPUs as there are threads; rounds are interleaved. fastText and Vowpal Wabbit
live in .bench/envs (``make peers``); what is not there is not run. The result, every run by itself, goes to --json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, median
from typing import Any

from machine import describe, load_average
from text_peers import SYSTEMS

from sparsenet.data import read_table

ENVIRONMENTS = {"fasttext": "fasttext", "fasttext-25": "fasttext", "vw": "vw"}
SHOWN = ("train_cpu", "train_wall", "single_us_p50", "single_us_p99", "bulk", "model_mb")


def main() -> None:
    """Run everything and print a table for each data set."""
    options = _options()
    report: dict[str, Any] = {"machine": describe(), "threads": options.threads, "runs": []}
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    for name in options.sets:
        parts = {part: _read(options.data, name, part) for part in ("train", "test")}
        for seed in range(options.rounds):
            turn = seed % len(options.systems)
            for system in options.systems[turn:] + options.systems[:turn]:
                job = {"system": system, "seed": seed, "threads": options.threads, **parts}
                run = {"data": name, "system": system, "seed": seed, "load": load_average(), **_run(job, options.limit)}
                report["runs"].append(run)
                print(json.dumps(run), file=sys.stderr)
        print(_table(name, [run for run in report["runs"] if run["data"] == name]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(report, indent=1))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = "imdb,banking77,clinc150,sst2,trec6,agnews-4k,reddit-titles"
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", type=lambda text: text.split(","), default=names.split(","))
    parser.add_argument("--systems", type=lambda text: text.split(","), default=list(SYSTEMS))
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


def _run(job: dict[str, Any], limit: float) -> dict[str, Any]:
    home = ENVIRONMENTS.get(job["system"])
    python = Path(sys.executable) if home is None else Path(".bench/envs") / home / "bin/python"
    if not python.exists():
        return {"status": f"not run: there is no {python}, make peers"}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(job, file)
        file.flush()
        variables = {**os.environ, "OMP_NUM_THREADS": str(job["threads"])}
        command = [str(python), str(Path(__file__).with_name("text_peers.py")), file.name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit, env=variables, check=False)
        except subprocess.TimeoutExpired:
            return {"status": f"not finished in {limit:.0f} s"}
    if done.returncode:
        return {"status": f"failed: {' '.join(done.stderr.strip().splitlines()[-1:])}"}
    return {"status": "measured", **json.loads(done.stdout)}


def _table(name: str, runs: list[dict[str, Any]]) -> str:
    lines = [f"\n**{name}**\n", f"| system | accuracy | {' | '.join(SHOWN)} | |", f"|{'---|' * (len(SHOWN) + 3)}"]
    for system in dict.fromkeys(run["system"] for run in runs):
        own = [run for run in runs if run["system"] == system]
        good = [run for run in own if run["status"] == "measured"]
        states = dict.fromkeys(run["status"] for run in own)
        cells = [f"{100 * mean(run['accuracy'] for run in good):.2f}"] if good else ["-"]
        cells += [f"{median(run[key] for run in good):.4g}" if good else "-" for key in SHOWN]
        lines.append(f"| {system} | {' | '.join(cells)} | {len(good)} runs; {'; '.join(states)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
