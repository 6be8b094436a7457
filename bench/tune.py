"""Choose settings for peers without useful defaults: fastText and the dense network.

    python -m bench.tune --data DIR [DIR ...] [--systems NAME,...] [--threads 2] [--mask-seen DATA,...] [--limit 3600]
                         [--at-once 1] [--anew] [--out bench/results/tuned.json]

Each setting of a system's grid is trained on nine tenths of the training points and scored on the last tenth. The best
mean of P@1, P@3 and P@5 wins. The test set is not used. The file is written after each run and counts the settings that
remain. Settings that were tried with the same metric are skipped, unless `--anew` is given. Settings are tried in the
order of the grid, and data sets take turns, so cheap settings belong at the front of a grid. `--at-once` runs several
settings at the same time, which makes each of them slower.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, TypeAlias

from bench.cache import held_out, prepare
from bench.peers import COMPARED, SYSTEMS, System
from bench.runner import Runner, parser, scorers, use_cpus

SEED = 0
#: Trains a system with some settings on a data set of this name, and returns the measurements.
Run: TypeAlias = Callable[[System, str, dict[str, Any]], dict[str, Any]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Tune each system on each data set."""
    options = parse(arguments)
    use_cpus(options.threads * options.at_once)
    data_sets = {data.name: data for data in (held_out(prepare(path)) for path in options.data)}
    scorer_of = scorers(list(data_sets.values()), options.mask_seen)
    runner = Runner(threads=options.threads, limit=options.limit)

    def run(system: System, data: str, settings: dict[str, Any]) -> dict[str, Any]:
        return runner.run(system, data_sets[data], scorer_of[data], SEED, settings)

    tune(options, list(data_sets), SYSTEMS, run)


def tune(options: argparse.Namespace, data_sets: list[str], systems: Mapping[str, System], run: Run) -> None:
    """Try the settings of each system on each data set; the file is written after each run."""
    tuned = json.loads(options.out.read_text()) if options.out.exists() else {}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    searches = []
    for data, name in itertools.product(data_sets, options.systems):
        masks = data in options.mask_seen
        tried = [] if options.anew else _tried_before(tuned.get(data, {}).get(name, {}), masks)
        searches.append(Search(data=data, name=name, system=systems[name], masks=masks, tried=tried))
    with ThreadPoolExecutor(options.at_once) as pool:
        runs = {pool.submit(_try, run, *one): one[0] for one in _in_turn(searches)}
        try:
            for done in as_completed(runs):
                search = runs[done]
                search.tried.append(done.result())
                tuned.setdefault(search.data, {})[search.name] = search.entry()
                options.out.write_text(json.dumps(tuned, indent=1) + "\n")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # running settings finish, waiting ones are dropped
            raise
    for search in searches:
        print(f"{search.data}  {search.name}: {_best(search.tried)}", file=sys.stderr, flush=True)


@dataclass(frozen=True, kw_only=True)
class Search:
    """The settings of a system that were tried on a data set."""

    data: str
    name: str
    system: System
    masks: bool
    tried: list[dict[str, Any]]

    def left(self) -> list[dict[str, Any]]:
        """Return the settings of the grid that were not tried."""
        grid = self.system.grid
        settings = (dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values()))
        done = [one["settings"] for one in self.tried]
        return [one for one in settings if one not in done]

    def entry(self) -> dict[str, Any]:
        """Return the entry for the file."""
        found = {"settings": _best(self.tried)["settings"], "tried": self.tried, "left": len(self.left())}
        return {**found, "mask_seen": True} if self.masks else found


def _in_turn(searches: list[Search]) -> list[tuple[Search, dict[str, Any]]]:
    """Interleave the searches: the first setting of each, then the second of each, and so on."""
    rounds = itertools.zip_longest(*([(search, settings) for settings in search.left()] for search in searches))
    return [one for turn in rounds for one in turn if one is not None]


def _tried_before(entry: dict[str, Any], masks: bool) -> list[dict[str, Any]]:
    """Return the settings of an entry that did run with the same metric; an entry may also hold a remark instead."""
    tried = entry.get("tried")
    if not isinstance(tried, list) or entry.get("mask_seen", False) != masks:
        return []
    return [one for one in tried if not one.get("problem", "").startswith("not run")]


def _try(run: Run, search: Search, settings: dict[str, Any]) -> dict[str, Any]:
    found = run(search.system, search.data, settings)
    if found["status"] != "measured":
        return {"settings": settings, "problem": f"{found['status']}: {found['reason']}"}
    score = mean(found["scores"][f"P@{k}"] for k in (1, 3, 5))
    return {"settings": settings, "score": round(score, 5), "train_cpu_seconds": round(found["train_cpu_seconds"], 2)}


def _best(tried: list[dict[str, Any]]) -> dict[str, Any]:
    scored = (one for one in tried if "score" in one)
    return max(scored, key=lambda one: one["score"], default={"settings": {}})


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options."""
    found = parser(__doc__, [name for name in COMPARED if SYSTEMS[name].grid])
    found.add_argument("--at-once", type=int, default=1, metavar="N", help="settings to run at the same time")
    found.add_argument("--anew", action="store_true", help="repeat settings that were tried")
    found.add_argument("--out", type=Path, default=Path("bench/results/tuned.json"))
    return found.parse_args(arguments)


if __name__ == "__main__":
    main()
