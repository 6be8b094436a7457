"""Choose settings for the peers that have no defaults worth the name: fastText and the dense network.

    python -m bench.tune --data DIR [DIR ...] [--systems NAME,...] [--threads 2] [--mask-seen DATA,...] [--limit 3600]
                         [--out bench/results/tuned.json]

Each setting of a system's grid is trained on nine tenths of the training points and scored on the last tenth; the best
mean of P@1, P@3 and P@5 wins. The test set is not looked at. What is there already stays, unless it is done again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
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
        found = tuned.setdefault(data.name, {})[name] = {"settings": {}, "tried": []}
        for one in _tried(runner, SYSTEMS[name], data, judges[data.name]):
            found["tried"].append(one)
            found["settings"] = _best(found["tried"])["settings"]
            options.out.write_text(json.dumps(tuned, indent=1) + "\n")
        print(f"{data.name}  {name}: {_best(found['tried'])}", file=sys.stderr, flush=True)


def _tried(runner: Runner, system: System, data: DataSet, scorer: Scorer) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*system.grid.values()):
        settings = dict(zip(system.grid, values, strict=True))
        run = runner.run(system, data, scorer, SEED, settings)
        if run["status"] == "measured":
            score = mean(run["scores"][f"P@{k}"] for k in (1, 3, 5))
            result = {"score": round(score, 5), "train_cpu_seconds": round(run["train_cpu_seconds"], 2)}
        else:
            result = {"problem": f"{run['status']}: {run['reason']}"}
        yield {"settings": settings, **result}


def _best(tried: list[dict[str, Any]]) -> dict[str, Any]:
    scored = (one for one in tried if "score" in one)
    return max(scored, key=lambda one: one["score"], default={"settings": {}})


def _options() -> argparse.Namespace:
    found = parser(__doc__, [name for name in COMPARED if SYSTEMS[name].grid])
    found.add_argument("--out", type=Path, default=Path("bench/results/tuned.json"))
    return found.parse_args()


if __name__ == "__main__":
    main()
