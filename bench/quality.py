"""Compare sparsenet with other systems: accuracy, training time, prediction speed, memory, model size.

    make peers
    python -m bench.quality --data DIR [DIR ...] [--systems NAME,...] [--repeats 5] [--threads 2] [--seeds 0,1,2,3,4]
                            [--mask-seen DATA,...] [--tuned bench/results/tuned.json] [--limit 3600]
                            [--out bench/results/quality.json]

A DIR holds one training and one test file in the format of the extreme classification repository. Each system runs in
a separate process and environment. In each round every system runs once, in an order that rotates from round to round.
`sparsenet.metrics` scores all of them. The rules are in bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.cache import DataSet, prepare
from bench.peers import COMPARED, SYSTEMS
from bench.report import head, keep, numbers
from bench.runner import Runner, parser, scorers, use_cpus
from bench.table import markdown


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison and print a table for each data set."""
    print(markdown(compare(_options(arguments))))


def compare(options: argparse.Namespace) -> dict[str, Any]:
    """Run every system; the report is written after each run, so that an interruption loses nothing."""
    use_cpus(options.threads)
    data_sets = [prepare(path) for path in options.data]
    report = _head(options, data_sets)
    for run in _runs(options, data_sets):
        report["runs"].append(run)
        keep(report, options.out)
        print(_brief(run), file=sys.stderr, flush=True)
    return report


def _runs(options: argparse.Namespace, data_sets: list[DataSet]) -> Iterator[dict[str, Any]]:
    """Run each system in each round; a system that failed on a data set is skipped from then on."""
    scorer_of = scorers(data_sets, options.mask_seen)
    tuned = json.loads(options.tuned.read_text()) if options.tuned else {}
    runner = Runner(threads=options.threads, limit=options.limit)
    given_up = set()
    for repeat in range(options.repeats):
        shift, seed = repeat % len(options.systems), options.seeds[repeat % len(options.seeds)]
        for data in data_sets:
            for name in options.systems[shift:] + options.systems[:shift]:
                if (data.name, name) in given_up:
                    continue
                changes = tuned.get(data.name, {}).get(name, {}).get("settings", {})
                run = runner.run(SYSTEMS[name], data, scorer_of[data.name], seed, changes)
                if run["status"] != "measured":
                    given_up.add((data.name, name))
                yield {"data": data.name, "system": name, "repeat": repeat, "seed": seed, **run}


def _head(options: argparse.Namespace, data_sets: list[DataSet]) -> dict[str, Any]:
    return head(
        threads=options.threads,
        repeats=options.repeats,
        seeds=options.seeds,
        limit_seconds=options.limit,
        mask_seen=options.mask_seen,
        systems=options.systems,
        data={data.name: data.facts for data in data_sets},
    )


def _brief(run: dict[str, Any]) -> str:
    name = f"{time.strftime('%H:%M:%S')}  {run['data']}  {run['system']}  seed {run['seed']}: "
    if run["status"] != "measured":
        return f"{name}{run['status']}: {run['reason']}"
    return f"{name}P@1 {100 * run['scores']['P@1']:.2f}, trained in {run['train_cpu_seconds']:.1f} CPU s"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    return options_of(parser(__doc__, COMPARED), Path("bench/results/quality.json")).parse_args(arguments)


def options_of(found: argparse.ArgumentParser, out: Path) -> argparse.ArgumentParser:
    """Add the options of `compare`."""
    found.add_argument("--repeats", type=int, default=5)
    found.add_argument("--seeds", type=numbers, default=[0, 1, 2, 3, 4])
    found.add_argument("--tuned", type=Path, help="a file that bench.tune wrote")
    found.add_argument("--out", type=Path, default=out)
    return found


if __name__ == "__main__":
    main()
