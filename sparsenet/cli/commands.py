"""What the commands do: train, evaluate and predict, from files to files."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from sparsenet import data, kernels, metrics
from sparsenet.cli import runs
from sparsenet.cli.models import PointClassifier, load_of_points
from sparsenet.cli.reporting import SkippedLines, memory_for, say
from sparsenet.cli.sources import Source, UnknownFeatures, labels_of
from sparsenet.core.machine import default_threads
from sparsenet.core.memory import in_words
from sparsenet.core.printing import CONTROLS
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.kernels.types import F32, I32, I64

#: Where recall is measured beside the ranks asked for.
RECALL_AT = 100
#: The constants A and B of the propensities behind PSP@k, unless others are asked for.
PROPENSITY = 0.55, 1.5
#: Measures that go by no rank, and how people know them.
WHOLE = {"accuracy": "accuracy", "micro_f1": "micro F1", "macro_f1": "macro F1"}
#: What a label in TSV must not hold, and what stands for it.
ESCAPES = CONTROLS | str.maketrans({"\t": r"\t", "\n": r"\n", "\r": r"\r", "\\": r"\\"})


# --- training ---


def train(
    source: Source,
    model_path: Path,
    valid: Source | None,
    parameters: Mapping[str, Any],
    *,
    checkpoint: bool | None,
    resume: bool,
    compact: bool,
) -> dict[str, Any]:
    """Train, save, and return a summary for people and programs; after Ctrl-C what was learnt is saved as well.

    Without a word on a `checkpoint` (None) there is one as long as it can be written.
    """
    clock, points, validation = runs.begin(source, model_path, valid)
    model = ExtremeClassifier(**parameters)
    state, kept_in = runs.state_of(model_path, checkpoint, resume=resume)
    interrupted = False
    try:
        with runs.advice_on_size(points):
            model.fit(points.X, labels_of(source, points), validation=validation, **kept_in)
    except KeyboardInterrupt:
        if not hasattr(model, "network_"):
            raise KeyboardInterrupt(runs.nothing_saved(model_path)) from None
        interrupted = True
    saved = runs.end(model, model_path, state, model.n_iter_, interrupted=interrupted, compact=compact)
    about = {"epochs": model.n_iter_, "validation": best_epoch(model.history_)}
    return about_training(points, model, model_path, clock) | about | {"interrupted": interrupted, "saved": saved}


def about_training(points: data.Dataset, model: PointClassifier, model_path: Path, clock: runs.Clock) -> dict[str, Any]:
    """Return what a summary says of every model of points."""
    return {
        "points": points.n_points,
        "features": points.n_features,
        "labels": points.n_labels,
        "normalize": model.normalize_,
        **clock.seconds(),
        "model": str(model_path),
        "model_bytes": sum(file.stat().st_size for file in model_path.iterdir()),
        "backend": kernels.backend(),
        "isa": kernels.isa_used(),
        "threads": model.n_jobs or default_threads(),
    }


def describe_training(summary: Mapping[str, Any]) -> str:
    """Put a summary into words."""
    epochs = ""  # of a tree, whose nodes differ in that
    if "epochs" in summary:
        epochs = count(summary["epochs"], "epoch") + (", interrupted in " if summary["interrupted"] else " in ")
    lines = [
        ", ".join(count(summary[f"{kind}s"], kind) for kind in ("point", "feature", "label"))
        + f"; normalize={summary['normalize']}",
        f"{epochs}{summary['seconds']:.1f} s ({summary['cpu_seconds']:.1f} CPU s, "
        f"{count(summary['threads'], 'thread')}, {summary['backend']} kernels, {summary['isa']})",
    ]
    if summary["validation"]:
        lines.append("  ".join(f"{name} {100 * value:.2f}" for name, value in summary["validation"].items()))
    model = f"{summary['model']}: {in_words(summary['model_bytes'])}" + ("" if summary["saved"] else ", as it was")
    return "\n".join([*lines, model])


def count(n: float, noun: str) -> str:
    """Say how many there are of what has a regular plural."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def best_epoch(history: Sequence[Mapping[str, float]]) -> dict[str, float] | None:
    """Return what validation measured of the epoch that was kept."""
    measured = [record for record in history if "P@1" in record]
    if not measured:
        return None
    best = max(measured, key=lambda record: record["P@1"])  # the first of equals, as in training
    return {name: value for name, value in best.items() if name.startswith("P@")}


# --- evaluation and prediction ---


def evaluate(
    model_path: Path,
    source: Source,
    ks: Sequence[int],
    *,
    exclude_seen: bool,
    threads: int | None,
    plot: Path | None = None,
    propensity: tuple[float, float] = PROPENSITY,
) -> dict[str, Any]:
    """Measure a model on a file, whose features are read block by block."""
    model = _load(model_path, threads, exclude_seen)
    started = time.perf_counter()
    truth, best, longer = [], [], []
    for batch in source.batches(model, with_labels=True):
        exclude = batch.X if exclude_seen else None
        truth.append(batch.Y)
        longer.append(_best(model, batch.X, max(*ks, RECALL_AT), exclude))
        # Trees, and blends of them, look at more labels the more are asked for, and rank these otherwise.
        as_predicted = max(ks) >= RECALL_AT or isinstance(model, ExtremeClassifier)
        best.append(longer[-1] if as_predicted else _best(model, batch.X, max(ks), exclude))
    if not truth:
        raise data.DataError(str(source.path), None, "holds no points, so there is nothing to measure")
    # A label that was never seen in training may have a column of its own, behind the others, and is not predicted.
    n_unseen = truth[0].shape[1] - len(model.label_counts_)
    numbers, deep = (
        np.pad(np.concatenate([labels for labels, _ in found]), ((0, 0), (0, n_unseen)), constant_values=-1)
        for found in (best, longer)
    )
    right = sparse.vstack(truth, format="csr")
    if right.nnz == 0:
        problem = "holds no labels, so there is nothing to measure"
        apart = "" if source.labels else "; if they have a file of their own, name it with --labels-file"
        raise data.DataError(str(source.labels or source.path), None, problem + apart)
    if plot is not None:
        names = [*np.asarray(model.classes_).tolist(), *["unseen"] * n_unseen]
        draw(plot, right, numbers, np.concatenate([probabilities for _, probabilities in best]), names)
    scores = measured(right, numbers, ks, model.label_counts_, model.n_points_, deep, propensity)
    return {**scores, "seconds": time.perf_counter() - started, "points": len(numbers)}


def draw(path: Path, truth: Any, ranked: I32, probabilities: F32, names: Sequence[Any]) -> None:
    """Save a picture of the best answers."""
    from sparsenet import plots

    plots.evaluation(plots.Answers(truth, ranked[:, 0], probabilities[:, 0], names)).savefig(path)


def measured(
    truth: Any,
    ranked: I32,
    ks: Sequence[int],
    counts: I64,
    n_points: int,
    deep: I32 | None = None,
    propensity: tuple[float, float] = PROPENSITY,
) -> dict[str, float]:
    """Score rankings; `counts` says how often training had each label of `n_points`, and not those behind these.

    Recall at 100 is that of `deep` rankings, if they are others. Labels that training never had are counted, and said:
    they can only be missed.
    """
    counts = np.append(counts, np.zeros(truth.shape[1] - len(counts), np.int64))
    propensities = metrics.propensities_from_counts(counts, n_points, *propensity)
    scores = metrics.evaluate(truth, ranked, ks, propensities)
    if RECALL_AT not in ks:
        scores[f"recall@{RECALL_AT}"] = metrics.recall_at_k(truth, ranked if deep is None else deep, RECALL_AT)
    return {**scores, "true_labels": len(truth.indices), "unknown_labels": count_unknown(truth, counts)}


def count_unknown(truth: Any, counts: I64) -> int:
    """Return how many of the labels to be found training had never, by `counts` or behind these; say so, if any."""
    n_unknown = len(truth.indices) - int(np.count_nonzero(counts[truth.indices[truth.indices < len(counts)]]))
    if n_unknown:
        found = f"{n_unknown} of {count(len(truth.indices), 'label')} to be found"
        say(f"{found} were never seen in training: the model cannot know them")
    return n_unknown


def describe_scores(scores: Mapping[str, float], noun: str = "point") -> str:
    """Lay scores out for reading, in percent, a metric a line."""
    rows: dict[str, list[str]] = {}
    for name, value in scores.items():
        metric, at, k = name.partition("@")
        if at:
            rows.setdefault(metric, []).append(f"@{k} {100 * value:6.2f}")
    lines = [f"{metric:<7}" + "  ".join(values) for metric, values in rows.items()]
    lines += [f"{words:<11}{100 * scores[name]:6.2f}" for name, words in WHOLE.items() if name in scores]
    return "\n".join([*lines, f"{count(scores['points'], noun)} in {scores['seconds']:.2f} s"])


def predict(
    model_path: Path,
    source: Source,
    k: int,
    format: str,
    *,
    exclude_seen: bool,
    threads: int | None,
    threshold: float = 0.0,
) -> Iterator[str]:
    """Yield the lines of a batch of points after the other, without labels less probable than a threshold."""
    model = _load(model_path, threads, exclude_seen)
    names = np.asarray(model.classes_)
    skipped, unknown = SkippedLines(), UnknownFeatures(model.n_features_in_)
    for batch in source.batches(model, with_labels=False, on_skipped=skipped.add, wider=True):
        unknown.drop(batch.X)
        labels, probabilities = _best(model, batch.X, k, batch.X if exclude_seen else None)
        kept = (labels >= 0) & (probabilities >= threshold)
        rows = zip(labels, probabilities, kept, strict=True)
        line = as_jsonl if format == "jsonl" else as_tsv
        yield "".join(line(names[row[own]].tolist(), p[own].tolist()) for row, p, own in rows)
    skipped.tell(source.path, "blank lines and comments are no points")
    unknown.tell(source.path)


def as_tsv(labels: list[Any], probabilities: list[float]) -> str:
    """Write an answer as ``label:probability``, by tabs; what would break the line, or a terminal obey, is escaped."""
    pairs = zip(labels, probabilities, strict=True)
    return "\t".join(f"{str(label).translate(ESCAPES)}:{p:.6g}" for label, p in pairs) + "\n"


def as_jsonl(labels: list[Any], probabilities: list[float]) -> str:
    """Write an answer as a JSON object."""
    rounded = [float(f"{p:.6g}") for p in probabilities]
    return json.dumps({"labels": labels, "probabilities": rounded}) + "\n"


def _best(model: PointClassifier, X: Any, k: int, exclude: Any) -> tuple[I32, F32]:
    n_labels, n_features = len(model.classes_), model.n_features_in_
    with memory_for(f"scoring {X.shape[0]} points by {n_features} features and {n_labels} labels: lower --batch-size"):
        return model.topk_numbers(X, k, exclude=exclude)


def _load(path: Path, threads: int | None, exclude_seen: bool) -> PointClassifier:
    with memory_for(f"loading {path}"):
        model = load_of_points(path)
    model.set_params(n_jobs=threads)
    if exclude_seen and model.n_features_in_ != len(model.classes_):
        raise ValueError(
            f"--exclude-seen needs data where feature i is label i, but {path} has {model.n_features_in_} features "
            f"and {len(model.classes_)} labels"
        )
    return model
