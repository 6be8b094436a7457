"""What the parts of a blend decide together, on held-out points: `BlendClassifier` and each of its parts.

    python -m bench.blend --data DIR [DIR ...] [--weights 0.25,0.5,1,2] [--beams 10,20] [--neighbors 0,20,50,100]
                          [--repeats 1] [--threads 2] [--out bench/results/blend.json] [--show FILE]

A DIR is in the format of the extreme classification repository; its test set is not looked at: a tenth of the training
points is held out. One blend is trained on the others for each data set and seed, and asked with each weight of the
tree's vote, which is 1 in `BlendClassifier`, with each beam, with so many neighbours, and without its network. The last
tables have the curves that fit the votes best, of the form of which engines/blend/voting.py has one for each company
of voters and all data.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from bench.cache import DataSet, held_out, prepare
from bench.machine import load_average
from bench.running import add_result_options, head, keep, setting, shown_or_measured
from sparsenet import BlendClassifier, Rows, metrics
from sparsenet.core.ranked import is_hit
from sparsenet.core.rows import as_matrix
from sparsenet.engines.blend.voting import curve_of, logits, vote

KS = (1, 3, 5)
#: Mean probability, and share that is right, of each point's best label, and of all labels that are likelier than not.
SHARES = ("best: said", "best: right", "likely: said", "likely: right")
#: Who votes.
COMPANIES = ("without neighbours", "with neighbours", "without a network")


def main() -> None:
    """Measure, or show what was kept, as tables."""
    print(markdown(shown_or_measured(_options(), measure)))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Train a blend for each data set and seed, and ask it in every way."""
    report = head(threads=options.threads)
    for data in map(held_out, map(prepare, options.data)):
        for seed in range(options.repeats):
            report["runs"].append(_run(data, options, seed))
            if options.out:
                keep(report, options.out)
    return report


def _run(data: DataSet, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    threads = options.threads
    about: dict[str, Any] = {"data": data.name, "seed": seed, "load_average_before": load_average()}
    cpu = time.process_time()
    model = BlendClassifier(random_state=seed, n_jobs=threads, verbose=False)
    model.fit(data.matrix("train.X"), data.matrix("train.Y"))
    about["cpu_seconds"] = time.process_time() - cpu
    Y, points = data.matrix("test.Y"), model._features(data.matrix("test.X"))
    scaled = as_matrix(points)
    of_tree = (model.tree_, points, model.candidates_, threads)
    both = (model.network_, *of_tree)
    all_three = {"neighbors": model.neighbors_, "k": model.n_neighbors}
    about["neighbors"] = {name: getattr(model.neighbors_, name) for name in ("rarity", "power", "trust")}
    votes = (vote(*both), vote(*both, **all_three), vote(None, *of_tree, **all_three))
    voters = ((model.network_, None), (model.network_, model.neighbors_), (None, model.neighbors_))
    about["calibration"] = {
        company: _calibration(*found, Y, curve_of(own[0], model.tree_, own[1]))
        for company, found, own in zip(COMPANIES, votes, voters, strict=True)
    }
    ways = {
        "tree alone": model.tree_.topk_numbers(scaled, max(KS)),
        "network alone": model.network_.topk_numbers(scaled),
        "tree and neighbours": votes[2],
    }
    for k in options.neighbors:
        ways[f"{k} neighbours"] = vote(*both, neighbors=model.neighbors_, k=k)
    for weight in options.weights:
        ways[f"weight {weight:g}"] = vote(*both, **all_three, weight=weight)
    for beam in options.beams:
        model.tree_.set_params(beam=beam)
        ways[f"beam {beam}"] = vote(*both, **all_three)
    return about | {"scores": {way: metrics.evaluate(Y, labels, KS) for way, (labels, _) in ways.items()}}


def _calibration(labels: Any, votes: Any, Y: Any, in_use: tuple[float, float]) -> dict[str, float]:
    """Fit a curve to votes on all labels that are named, and compare the one in use with what came true."""
    right, said = is_hit(labels, Rows.of(Y)), expit(logits(votes, in_use))

    def surprise(curve: Any) -> float:
        odds = logits(votes.astype(np.float64), tuple(curve))
        return float(np.logaddexp(0, np.where(right, -odds, odds)).mean())

    slope, shift = minimize(surprise, in_use, method="Nelder-Mead").x
    likely = said > 0.5
    shares = (
        said[:, 0].mean(),
        right[:, 0].mean(),
        *(part[likely].mean() if likely.any() else 0 for part in (said, right)),
    )
    return {"slope": float(slope), "shift": float(shift), **dict(zip(SHARES, map(float, shares), strict=True))}


def markdown(report: dict[str, Any]) -> str:
    """Show a result as tables, repeats as means.

    >>> curves = dict.fromkeys(COMPANIES, dict.fromkeys(("slope", "shift", *SHARES), 0.5))
    >>> scores = {"tree alone": {"P@1": 0.5, "P@3": 0.4, "P@5": 0.3}}
    >>> print(markdown({"runs": [{"data": "a", "scores": scores, "calibration": curves}]}).splitlines()[2])
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
    for company in COMPANIES:
        lines += ["", f"| {company} | slope | shift | {' | '.join(SHARES)} |", f"|---|---|---|{'---|' * len(SHARES)}"]
        for name, runs in groups.items():
            curves = [run["calibration"][company] for run in runs]
            of = {part: mean(curve[part] for curve in curves) for part in curves[0]}
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
    parser.add_argument("--neighbors", type=_numbers(int), default=[0, 20, 50, 100])
    add_result_options(parser)
    return parser.parse_args()


if __name__ == "__main__":
    main()
