"""Measure rankings of any model, and format scores and predictions for the terminal, TSV or JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparsenet import metrics
from sparsenet.cli.reporting import count, say
from sparsenet.core.printing import CONTROLS
from sparsenet.kernels.types import F32, I32, I64

#: Recall is always measured at this rank, in addition to the ranks of --k.
RECALL_AT = 100
#: Metrics without a rank, and their names in the output.
UNRANKED = {"accuracy": "accuracy", "micro_f1": "micro F1", "macro_f1": "macro F1"}
#: Escapes of characters that would break a line of TSV or control a terminal.
ESCAPES = CONTROLS | str.maketrans({"\t": r"\t", "\n": r"\n", "\r": r"\r", "\\": r"\\"})


def draw(path: Path, truth: Any, ranked: I32, probabilities: F32, names: Sequence[Any]) -> None:
    """Save a plot of calibration and confusions."""
    from sparsenet import plots

    plots.evaluation(plots.Answers(truth, ranked[:, 0], probabilities[:, 0], names)).savefig(path)


def score_rankings(
    truth: Any, ranked: I32, ks: Sequence[int], model: Any, propensity: tuple[float, float], deep: I32 | None = None
) -> dict[str, float]:
    """Score rankings; recall at 100 is measured on `deep` rankings, if they differ from `ranked`.

    Columns of `truth` beyond the labels of the model are labels that were not in the training data.
    """
    counts = np.append(model.label_counts_, np.zeros(truth.shape[1] - len(model.label_counts_), np.int64))
    n_points = model.n_texts_ if hasattr(model, "n_texts_") else model.n_points_
    scores = metrics.evaluate(truth, ranked, ks, metrics.propensities_from_counts(counts, n_points, *propensity))
    if RECALL_AT not in ks:
        scores[f"recall@{RECALL_AT}"] = metrics.recall_at_k(truth, ranked if deep is None else deep, RECALL_AT)
    return {**scores, "true_labels": len(truth.indices), "unknown_labels": count_unknown(truth, counts)}


def count_unknown(truth: Any, counts: I64) -> int:
    """Count the true labels that were not in the training data, and report the number unless it is 0."""
    n_unknown = len(truth.indices) - int(np.count_nonzero(counts[truth.indices[truth.indices < len(counts)]]))
    if n_unknown:
        found = f"{n_unknown} of {count(len(truth.indices), 'true label')}"
        say(f"{found} were never seen in training: the model cannot predict them")
    return n_unknown


def best_epoch(history: Sequence[Mapping[str, float]]) -> dict[str, float] | None:
    """Return the validation scores of the epoch that was kept."""
    records = [record for record in history if "P@1" in record]
    if not records:
        return None
    best = max(records, key=lambda record: record["P@1"])  # ties go to the first, as in training
    return {name: value for name, value in best.items() if name.startswith("P@")}


def describe(scores: Mapping[str, float], noun: str = "point") -> str:
    """Format scores in percent, one metric per line."""
    rows: dict[str, list[str]] = {}
    for name, value in scores.items():
        metric, at, k = name.partition("@")
        if at:
            rows.setdefault(metric, []).append(f"@{k} {100 * value:6.2f}")
    lines = [f"{metric:<7}" + "  ".join(values) for metric, values in rows.items()]
    lines += [f"{words:<11}{100 * scores[name]:6.2f}" for name, words in UNRANKED.items() if name in scores]
    return "\n".join([*lines, f"{count(scores['points'], noun)} in {scores['seconds']:.2f} s"])


def answer_line(format: str, labels: list[Any], probabilities: list[float]) -> str:
    r"""Format a prediction as a JSON object, or as ``label:probability`` separated by tabs.

    >>> answer_line("tsv", ["a", "b\n"], [0.75, 0.25])
    'a:0.75\tb\\n:0.25\n'
    """
    if format == "jsonl":
        return json.dumps({"labels": labels, "probabilities": [float(f"{p:.6g}") for p in probabilities]}) + "\n"
    pairs = zip(labels, probabilities, strict=True)
    return "\t".join(f"{str(label).translate(ESCAPES)}:{p:.6g}" for label, p in pairs) + "\n"
