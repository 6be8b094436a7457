"""Accuracy within a time budget: `ExtremeClassifier(time_budget=..., hidden=...)` on held-out points.

    python -m bench.budget --data DIR [DIR ...] --seconds 3,6,12 [--hidden auto,0,128,256] [--repeats 1] [--threads 2]
                           [--out bench/results/budget.json] [--show FILE]

A DIR is in the format of the extreme classification repository. A tenth of its training points is held out; its test
set is not used. Widths alternate within each budget. The budget is wall time, so nothing else should run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from bench.cache import DataSet, held_out, prepare
from bench.machine import load_average
from bench.report import add_result_options, head, keep, present, setting
from sparsenet import ExtremeClassifier, metrics

KS = (1, 3, 5)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, or show a kept result, as a table."""
    present(_options(arguments), measure, markdown)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Train with each width in each budget."""
    report = head(threads=options.threads)
    for data in map(held_out, map(prepare, options.data)):
        for seconds in options.seconds:
            for seed in range(options.repeats):
                for hidden in options.hidden:
                    report["runs"].append(_run(data, seconds, hidden, seed, options.threads))
                    if options.out:
                        keep(report, options.out)
    return report


def _run(data: DataSet, seconds: float, hidden: int | str, seed: int, threads: int) -> dict[str, Any]:
    about = {"data": data.name, "seconds": seconds, "hidden": hidden, "seed": seed}
    about["load_average_before"] = load_average()
    X, Y = data.matrix("train.X"), data.matrix("train.Y")
    wall, cpu = time.perf_counter(), time.process_time()
    model = ExtremeClassifier(hidden=hidden, time_budget=seconds, random_state=seed, n_jobs=threads, verbose=False)
    model.fit(X, Y)
    took = {"wall_seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    labels = model.topk(data.matrix("test.X"), max(KS))[0]
    scores = metrics.evaluate(data.matrix("test.Y"), labels, KS)
    # n_iter_ includes a last epoch that was cut short.
    return {**about, **took, "width": model.network_.output.n_inputs, "epochs": model.n_iter_, "scores": scores}


def markdown(report: dict[str, Any]) -> str:
    """Return a table with means over repeats.

    >>> run = {"data": "a", "seconds": 3, "hidden": "auto", "width": 0, "epochs": 5, "wall_seconds": 3.01}
    >>> run["scores"] = {"P@1": 0.5, "P@3": 0.4, "P@5": 0.3}
    >>> print(markdown({"runs": [run]}).splitlines()[-1])
    | a | 3 | auto | 0 | 5 | 3.0 | 50.0 / 40.0 / 30.0 |
    """
    lines = [
        "| data | budget, s | hidden | units | epochs | took, s | P@1 / P@3 / P@5 |",
        "|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for run in report["runs"]:
        groups.setdefault((run["data"], run["seconds"], run["hidden"]), []).append(run)
    for key, runs in groups.items():
        widths, epochs = ("-".join(map(str, sorted({run[name] for run in runs}))) for name in ("width", "epochs"))
        scores = " / ".join(f"{100 * mean(run['scores'][f'P@{k}'] for run in runs):.1f}" for k in KS)
        took = mean(run["wall_seconds"] for run in runs)
        lines.append("| " + " | ".join([*map(str, key), widths, epochs, f"{took:.1f}", scores]) + " |")
    about = [setting(report), ""] if "machine" in report else []
    return "\n".join([*about, *lines])


def _widths(text: str) -> list[int | str]:
    return [part if part == "auto" else int(part) for part in text.split(",")]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", default=[])
    parser.add_argument("--seconds", type=lambda text: [json.loads(part) for part in text.split(",")], default=[10])
    parser.add_argument("--hidden", type=_widths, default=["auto", 0, 128, 256])
    add_result_options(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
