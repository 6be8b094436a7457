"""What the commands do: train, evaluate and predict, from files to files."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from tqdm import tqdm

from sparsenet import data, kernels, metrics, storage
from sparsenet._machine import default_threads
from sparsenet.data.formats import table_format
from sparsenet.estimators import ExtremeClassifier
from sparsenet.estimators.building import in_words
from sparsenet.training import checkpoints

I32 = NDArray[np.int32]
F32 = NDArray[np.float32]
#: Where recall is measured.
RECALL_AT = 100


@dataclass(frozen=True)
class Source:
    """A file of points, and how to read it.

    svmlight features are taken as they are numbered: a file that counts from 1 has a feature 0 that never occurs, and
    further files cannot be misread.
    """

    path: Path
    format: Literal["auto", "xmc", "svmlight"] = "auto"
    n_features: int | None = None
    n_labels: int | None = None
    batch_rows: int = 4096

    def read(self) -> data.Dataset:
        """Read all of it, with a bar on stderr if that is a terminal."""
        self._refuse_tables()
        options: dict[str, Any] = {"n_features": self.n_features, "n_labels": self.n_labels}
        if self.format != "xmc":
            options["zero_based"] = True
        with self._progress() as on_bytes:
            found = data.read(str(self.path), self.format, on_bytes=on_bytes, **options)
        assert isinstance(found, data.Dataset)
        return found

    def batches(self, model: ExtremeClassifier, *, with_labels: bool) -> Iterator[data.Dataset]:
        """Read it a batch at a time, for a model."""
        self._refuse_tables()
        named = _has_named_labels(model)
        return data.iter_batches(
            str(self.path),
            batch_rows=self.batch_rows,
            format=self.format,
            n_features=model.n_features_in_,
            n_labels=len(model.classes_) if with_labels and not named else None,
            classes=model.classes_ if with_labels and named else None,
            with_labels=with_labels,
        )

    def _refuse_tables(self) -> None:
        if self.format == "auto" and table_format(str(self.path)):
            problem = "is a table of texts; this command reads sparse points, in XMC-repository or svmlight format"
            raise data.DataError(str(self.path), None, problem)

    @contextmanager
    def _progress(self) -> Iterator[Callable[[int], object]]:
        size = os.stat(self.path).st_size if self.path.is_file() else None
        with tqdm(total=size, desc=f"reading {self.path.name}", unit="B", unit_scale=True, disable=None) as bar:
            yield bar.update


# --- training ---


def train(
    source: Source,
    model_path: Path,
    valid: Path | None,
    parameters: Mapping[str, Any],
    *,
    checkpoint: bool,
    resume: bool,
) -> dict[str, Any]:
    """Train, save, and return a summary for people and programs; after Ctrl-C what was learnt is saved as well."""
    storage.prepare(model_path)  # better now than after an hour of training
    started, cpu_started = time.perf_counter(), time.process_time()
    points = source.read()
    validation = _read_validation(source, valid, points)
    model = ExtremeClassifier(**parameters)
    state = _checkpoint_path(model_path) if checkpoint or resume else None
    if state and checkpoints.is_there(state) and not resume:
        _say(f"{state} of an interrupted run is replaced; --resume would have gone on with it")
    interrupted = False
    try:
        model.fit(points.X, _labels(source, points), validation=validation, checkpoint=state, resume=resume)
    except KeyboardInterrupt:
        if not hasattr(model, "network_"):
            raise  # nothing is learnt yet
        interrupted = True
        _say("interrupted: saving what was learnt" + (", --resume goes on from here" if state else ""))
    model.save(model_path)
    if state and not interrupted:
        storage.remove(state)
    return {
        "points": points.n_points,
        "features": points.n_features,
        "labels": points.n_labels,
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu_started,
        "epochs": model.n_iter_,
        "validation": _best_epoch(model.history_),
        "model": str(model_path),
        "model_bytes": sum(file.stat().st_size for file in model_path.iterdir()),
        "backend": kernels.backend(),
        "isa": kernels.isa_used(),
        "threads": model.n_jobs or default_threads(),
        "interrupted": interrupted,
    }


def describe_training(summary: Mapping[str, Any]) -> str:
    """Put a summary into words."""
    epochs = f"{summary['epochs']} epochs" + (", interrupted" if summary["interrupted"] else "")
    lines = [
        f"{summary['points']} points, {summary['features']} features, {summary['labels']} labels",
        f"{epochs} in {summary['seconds']:.1f} s ({summary['cpu_seconds']:.1f} CPU s, {summary['threads']} threads, "
        f"{summary['backend']} kernels, {summary['isa']})",
    ]
    if summary["validation"]:
        lines.append("  ".join(f"{name} {100 * value:.2f}" for name, value in summary["validation"].items()))
    return "\n".join([*lines, f"{summary['model']}: {in_words(summary['model_bytes'])}"])


def _read_validation(source: Source, valid: Path | None, points: data.Dataset) -> tuple[Any, Any] | None:
    if valid is None:
        return None
    n_labels = points.n_labels if points.classes is None else None
    held = Source(valid, format=source.format, n_features=points.n_features, n_labels=n_labels).read()
    return held.X, held.Y if points.classes is None else _named_labels(held)


def _labels(source: Source, points: data.Dataset) -> Any:
    """Return the labels as the classifier shall know them: as columns, or by what the file calls them."""
    if points.classes is None:
        return points.Y
    if points.classes.dtype.kind == "f":
        problem = f"label {points.classes[points.classes % 1 != 0][0]:g} is a fraction: labels must be whole numbers"
        raise data.DataError(str(source.path), None, problem)
    return _named_labels(points)


def _named_labels(points: data.Dataset) -> list[list[int]]:
    """Return the labels of each point by what the file calls them."""
    names = (points.Y.indices if points.classes is None else points.classes[points.Y.indices]).tolist()
    return [names[begin:end] for begin, end in zip(points.Y.indptr[:-1], points.Y.indptr[1:], strict=True)]


def _has_named_labels(model: ExtremeClassifier) -> bool:
    """Tell whether the labels are anything but the numbers of columns."""
    return not np.array_equal(model.classes_, np.arange(len(model.classes_)))


def _checkpoint_path(model_path: Path) -> Path:
    absolute = Path(os.path.abspath(model_path))
    return absolute.with_name(f"{absolute.name}.checkpoint")


def _best_epoch(history: Sequence[Mapping[str, float]]) -> dict[str, float] | None:
    """Return what validation measured of the epoch that was kept."""
    measured = [record for record in history if "P@1" in record]
    if not measured:
        return None
    best = max(measured, key=lambda record: record["P@1"])  # the first of equals, as in training
    return {name: value for name, value in best.items() if name.startswith("P@")}


# --- evaluation and prediction ---


def evaluate(
    model_path: Path, source: Source, ks: Sequence[int], *, exclude_seen: bool, threads: int | None
) -> dict[str, Any]:
    """Measure a model on a file, whose features are read block by block."""
    model = _load(model_path, threads, exclude_seen)
    started = time.perf_counter()
    truth, ranked = [], []
    for batch in source.batches(model, with_labels=True):
        truth.append(batch.Y)
        ranked.append(_best(model, batch.X, max(*ks, RECALL_AT), exclude_seen)[0])
    if not truth:
        raise data.DataError(str(source.path), None, "holds no points, so there is nothing to measure")
    # A label that was never seen in training may have a column of its own, behind the others.
    counts = np.append(model.label_counts_, np.zeros(truth[0].shape[1] - len(model.label_counts_), np.int64))
    propensity = metrics.propensities_from_counts(counts, model.n_points_)
    scores = metrics.evaluate(
        sparse.vstack(truth, format="csr"), np.concatenate(ranked), ks, propensity, recall_ks=[RECALL_AT]
    )
    return {**scores, "seconds": time.perf_counter() - started, "points": sum(map(len, ranked))}


def describe_scores(scores: Mapping[str, float]) -> str:
    """Lay scores out for reading, in percent, a metric a line."""
    rows: dict[str, list[str]] = {}
    for name, value in scores.items():
        metric, at, k = name.partition("@")
        if at:
            rows.setdefault(metric, []).append(f"@{k} {100 * value:6.2f}")
    lines = [f"{metric:<7}" + "  ".join(values) for metric, values in rows.items()]
    return "\n".join([*lines, f"{scores['points']} points in {scores['seconds']:.2f} s"])


def predict(
    model_path: Path, source: Source, k: int, format: str, *, exclude_seen: bool, threads: int | None
) -> Iterator[str]:
    """Yield the lines of a batch of points after the other."""
    model = _load(model_path, threads, exclude_seen)
    names = np.asarray(model.classes_)
    for batch in source.batches(model, with_labels=False):
        labels, probabilities = _best(model, batch.X, k, exclude_seen)
        rows = zip(labels, probabilities, strict=True)
        line = as_jsonl if format == "jsonl" else as_tsv
        yield "".join(line(names[row[row >= 0]].tolist(), p[row >= 0].tolist()) for row, p in rows)


def as_tsv(labels: list[Any], probabilities: list[float]) -> str:
    """Write an answer as ``label:probability``, separated by tabs."""
    return "\t".join(f"{label}:{p:.6g}" for label, p in zip(labels, probabilities, strict=True)) + "\n"


def as_jsonl(labels: list[Any], probabilities: list[float]) -> str:
    """Write an answer as a JSON object."""
    rounded = [float(f"{p:.6g}") for p in probabilities]
    return json.dumps({"labels": labels, "probabilities": rounded}) + "\n"


def _load(path: Path, threads: int | None, exclude_seen: bool) -> ExtremeClassifier:
    model = ExtremeClassifier.load(path)
    model.set_params(n_jobs=threads)
    if exclude_seen and model.n_features_in_ != len(model.classes_):
        raise ValueError(
            f"--exclude-seen needs data where feature i is label i, but {path} has {model.n_features_in_} features "
            f"and {len(model.classes_)} labels"
        )
    return model


def _best(model: ExtremeClassifier, X: Any, k: int, exclude_seen: bool) -> tuple[I32, F32]:
    """Return the numbers of the k best labels and their probabilities; number -1 where there are fewer."""
    n_labels = len(model.classes_)
    if not exclude_seen:
        return _topk(model, X, min(k, n_labels))
    n_seen = np.diff(X.indptr)
    labels, probabilities = _topk(model, X, min(k + int(n_seen.max(initial=0)), n_labels))
    rows = np.arange(X.shape[0])
    seen = np.repeat(rows, n_seen) * n_labels + X.indices
    dropped = np.isin(rows[:, None] * n_labels + labels, seen)
    order = np.argsort(dropped, axis=1, kind="stable")[:, :k]
    labels = np.where(dropped, -1, labels)
    return np.take_along_axis(labels, order, axis=1), np.take_along_axis(probabilities, order, axis=1)


def _topk(model: ExtremeClassifier, X: Any, k: int) -> tuple[I32, F32]:
    best = model.predict_topk(X, k)  # k entries in every row, best first
    return best.indices.reshape(-1, k), best.data.reshape(-1, k)


def _say(text: str) -> None:
    print(f"sparsenet: {text}", file=sys.stderr)
