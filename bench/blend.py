"""What a network and a tree decide together, on held-out points: `BlendClassifier` and each of its parts.

    python -m bench.blend --data DIR [DIR ...] [--weights 0.25,0.5,1,2] [--beams 10,20] [--repeats 1] [--threads 2]
                          [--out bench/results/blend.json] [--show FILE]

A DIR is in the format of the extreme classification repository; its test set is not looked at: a tenth of the training
points is held out. One blend is trained on the others for each data set and seed, and asked with each weight of the
tree's vote, and with each beam at the default weight. The last table has the logistic curves that fit the votes best:
what the constants in sparsenet/blend/voting.py stand for.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from bench.cache import DataSet, held_out, prepare
from bench.machine import load_average
from bench.running import head, keep, setting, shown_or_measured
from sparsenet import BlendClassifier, Rows, metrics
from sparsenet.blend.voting import log_odds, vote
from sparsenet.estimators.fitting import as_matrix
from sparsenet.estimators.inference import is_hit

KS = (1, 3, 5)
#: Mean probability, and share that is right, of each point's best label, and of all labels that are likelier than not.
SHARES = ("best: said", "best: right", "likely: said", "likely: right")


def main() -> None:
    """Measure, or show what was kept, as tables."""
    print(markdown(shown_or_measured(_options(), measure)))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Train a blend for each data set and seed, and ask it in every way."""
    report = head(threads=options.threads)
    for data in map(held_out, map(prepare, options.data)):
        for seed in range(options.repeats):
            report["runs"].append(_run(data, options.weights, options.beams, seed, options.threads))
            if options.out:
                keep(report, options.out)
    return report


def _run(data: DataSet, weights: list[float], beams: list[int], seed: int, threads: int) -> dict[str, Any]:
    about: dict[str, Any] = {"data": data.name, "seed": seed, "load_average_before": load_average()}
    X, Y = data.matrix("test.X"), data.matrix("test.Y")
    cpu = time.process_time()
    model = BlendClassifier(random_state=seed, n_jobs=threads, verbose=False)
    model.fit(data.matrix("train.X"), data.matrix("train.Y"))
    about["cpu_seconds"] = time.process_time() - cpu
    scaled = as_matrix(model._features(X))
    about["calibration"] = _calibration(model, X, Y)
    ways = {
        "tree alone": model.tree_.topk_numbers(scaled, max(KS)),
        "network alone": model.network_.topk_numbers(scaled),
    }
    for weight in weights:
        ways[f"weight {weight:g}"] = model.set_params(tree_weight=weight).topk_numbers(X, max(KS))
    model.set_params(tree_weight=1.0)
    for beam in beams:
        model.tree_.set_params(beam=beam)
        ways[f"beam {beam}"] = model.topk_numbers(X, max(KS))
    return about | {"scores": {way: metrics.evaluate(Y, labels, KS) for way, (labels, _) in ways.items()}}


def _calibration(model: BlendClassifier, X: Any, Y: Any) -> dict[str, float]:
    """Fit a logistic curve to votes of all labels that are named, and compare the constants with what came true."""
    labels, votes = vote(model.network_, model.tree_, 1.0, model._features(X), model.candidates, 1)
    right = is_hit(labels, Rows.of(Y))
    curve = LogisticRegression(C=1e6).fit(votes.reshape(-1, 1), right.reshape(-1))
    said = 1 / (1 + np.exp(-log_odds(votes)))
    return {
        "slope": float(curve.coef_[0, 0]),
        "shift": float(curve.intercept_[0]),
        "best: said": float(said[:, 0].mean()),
        "best: right": float(right[:, 0].mean()),
        "likely: said": float(said[said > 0.5].mean()) if (said > 0.5).any() else float("nan"),
        "likely: right": float(right[said > 0.5].mean()) if (said > 0.5).any() else float("nan"),
    }


def markdown(report: dict[str, Any]) -> str:
    """Show a result as two tables, repeats as means.

    >>> curve = dict.fromkeys(("slope", "shift", *SHARES), 0.5)
    >>> scores = {"tree alone": {"P@1": 0.5, "P@3": 0.4, "P@5": 0.3}}
    >>> print(markdown({"runs": [{"data": "a", "scores": scores, "calibration": curve}]}).splitlines()[2])
    | tree alone | 50.0 / 40.0 / 30.0 |
    """
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in report["runs"]:
        groups.setdefault(run["data"], []).append(run)
    lines = [f"| P@1 / P@3 / P@5 | {' | '.join(groups)} |", f"|---|{'---|' * len(groups)}"]
    for way in report["runs"][0]["scores"]:
        cells = (
            " / ".join(f"{100 * mean(run['scores'][way][f'P@{k}'] for run in runs):.1f}" for k in KS)
            for runs in groups.values()
        )
        lines.append(f"| {way} | {' | '.join(cells)} |")
    lines += ["", f"| data | slope | shift | {' | '.join(SHARES)} |", f"|---|---|---|{'---|' * len(SHARES)}"]
    for name, runs in groups.items():
        of = {part: mean(run["calibration"][part] for run in runs) for part in runs[0]["calibration"]}
        shares = " | ".join(f"{100 * of[part]:.1f} %" for part in SHARES)
        lines.append(f"| {name} | {of['slope']:.2f} | {of['shift']:.2f} | {shares} |")
    about = [setting(report), ""] if "machine" in report else []
    return "\n".join([*about, *lines])


def _numbers(kind: type) -> Any:
    return lambda text: [kind(part) for part in text.split(",")]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", default=[])
    parser.add_argument("--weights", type=_numbers(float), default=[0.25, 0.5, 1, 2])
    parser.add_argument("--beams", type=_numbers(int), default=[10, 20])
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--show", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
