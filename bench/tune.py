"""Choose settings for the peers that have no defaults worth the name: fastText and the dense network.

    python -m bench.tune --data DIR [DIR ...] [--systems NAME,...] [--threads 2] [--mask-seen DATA,...] [--limit 3600]
                         [--anew] [--out bench/results/tuned.json]

Each setting of a system's grid is trained on nine tenths of the training points and scored on the last tenth; the best
mean of P@1, P@3 and P@5 wins. The test set is not looked at. The file is written after each run, and says how many
settings are left; what has been tried by the same measure is not tried again, unless `--anew`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from pathlib import Path
from statistics import mean
from typing import Any

from bench.cache import DataSet, held_out, prepare
from bench.peers import COMPARED, SYSTEMS, System
from bench.runner import Runner, parser, scorers, use_cpus
from bench.scoring import Scorer

SEED = 0


def main() -> None:
    """Tune what the command line names."""
    options = _options()
    use_cpus(options.threads)
    data_sets = [held_out(prepare(path)) for path in options.data]
    judges = scorers(data_sets, options.mask_seen)
    runner = Runner(threads=options.threads, limit=options.limit)
    tuned = json.loads(options.out.read_text()) if options.out.exists() else {}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for data, name in itertools.product(data_sets, options.systems):
        of_data = tuned.setdefault(data.name, {})
        masks = data.name in options.mask_seen
        tried = [] if options.anew else _tried_before(of_data.get(name, {}), masks)
        left = _left(SYSTEMS[name], tried)
        while left:
            tried.append(_try(runner, SYSTEMS[name], data, judges[data.name], left.pop(0)))
            found = {"settings": _best(tried)["settings"], "tried": tried, "left": len(left)}
            of_data[name] = {**found, "mask_seen": True} if masks else found
            options.out.write_text(json.dumps(tuned, indent=1) + "\n")
        print(f"{data.name}  {name}: {_best(tried)}", file=sys.stderr, flush=True)


def _tried_before(entry: dict[str, Any], masks: bool) -> list[dict[str, Any]]:
    """Return what an entry says was tried, and did run, by the same measure; of what was not tuned it says why."""
    tried = entry.get("tried")
    if not isinstance(tried, list) or entry.get("mask_seen", False) != masks:
        return []
    return [one for one in tried if not one.get("problem", "").startswith("not run")]


def _left(system: System, tried: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the settings of a grid that are not among those tried."""
    all_of_them = (dict(zip(system.grid, values, strict=True)) for values in itertools.product(*system.grid.values()))
    done = [one["settings"] for one in tried]
    return [settings for settings in all_of_them if settings not in done]


def _try(runner: Runner, system: System, data: DataSet, scorer: Scorer, settings: dict[str, Any]) -> dict[str, Any]:
    run = runner.run(system, data, scorer, SEED, settings)
    if run["status"] != "measured":
        return {"settings": settings, "problem": f"{run['status']}: {run['reason']}"}
    score = mean(run["scores"][f"P@{k}"] for k in (1, 3, 5))
    return {"settings": settings, "score": round(score, 5), "train_cpu_seconds": round(run["train_cpu_seconds"], 2)}


def _best(tried: list[dict[str, Any]]) -> dict[str, Any]:
    scored = (one for one in tried if "score" in one)
    return max(scored, key=lambda one: one["score"], default={"settings": {}})


def _options() -> argparse.Namespace:
    found = parser(__doc__, [name for name in COMPARED if SYSTEMS[name].grid])
    found.add_argument("--anew", action="store_true", help="try again what has been tried")
    found.add_argument("--out", type=Path, default=Path("bench/results/tuned.json"))
    return found.parse_args()


if __name__ == "__main__":
    main()
