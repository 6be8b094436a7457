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
from pathlib import Path
from statistics import mean
from typing import Any

from bench.cache import DataSet, held_out, prepare
from bench.peers import SYSTEMS, System
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
        tried = _try_all(runner, SYSTEMS[name], data, judges[data.name])
        best = max((one for one in tried if "score" in one), key=lambda one: one["score"], default={"settings": {}})
        tuned.setdefault(data.name, {})[name] = {"settings": best["settings"], "tried": tried}
        options.out.write_text(json.dumps(tuned, indent=1) + "\n")
        print(f"{data.name}  {name}: {best}", file=sys.stderr, flush=True)


def _try_all(runner: Runner, system: System, data: DataSet, scorer: Scorer) -> list[dict[str, Any]]:
    tried = []
    for values in itertools.product(*system.grid.values()):
        settings = dict(zip(system.grid, values, strict=True))
        run = runner.run(system, data, scorer, SEED, settings)
        if run["status"] == "measured":
            score = mean(run["scores"][f"P@{k}"] for k in (1, 3, 5))
            result = {"score": round(score, 5), "train_cpu_seconds": round(run["train_cpu_seconds"], 2)}
        else:
            result = {"problem": f"{run['status']}: {run['reason']}"}
        tried.append({"settings": settings, **result})
    return tried


def _options() -> argparse.Namespace:
    found = parser(__doc__, [name for name, system in SYSTEMS.items() if system.grid])
    found.add_argument("--out", type=Path, default=Path("bench/results/tuned.json"))
    return found.parse_args()


if __name__ == "__main__":
    main()
