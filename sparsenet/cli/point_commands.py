"""Evaluation and prediction of sparse points."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import sparse

from sparsenet import data
from sparsenet.cli.models import PointClassifier, load_point_model
from sparsenet.cli.point_files import PointFile, UnknownFeatures
from sparsenet.cli.reporting import SkippedLines, memory_for
from sparsenet.cli.results import RECALL_AT, answer_line, draw, score_rankings
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.kernels.types import F32, I32


def evaluate(given: SimpleNamespace) -> dict[str, Any]:
    """Measure a model on a file, which is read in batches."""
    source = PointFile(given.data, given.format, batch_rows=given.batch_size, labels=given.labels_file)
    model = _load(given)
    started, ks = time.perf_counter(), given.k
    truth, best, longer = [], [], []
    for batch in source.batches(model, with_labels=True):
        exclude = batch.X if given.exclude_seen else None
        truth.append(batch.Y)
        longer.append(_best(model, batch.X, max(*ks, RECALL_AT), exclude))
        # Trees and blends consider more labels for a larger k, and may rank the first ones differently.
        as_predicted = max(ks) >= RECALL_AT or isinstance(model, ExtremeClassifier)
        best.append(longer[-1] if as_predicted else _best(model, batch.X, max(ks), exclude))
    if not truth:
        raise data.DataError(str(source.path), None, "holds no points, so there is nothing to measure")
    n_unseen = truth[0].shape[1] - len(model.label_counts_)  # columns of labels that the model does not know
    numbers, deep = (
        np.pad(np.concatenate([labels for labels, _ in found]), ((0, 0), (0, n_unseen)), constant_values=-1)
        for found in (best, longer)
    )
    right = sparse.vstack(truth, format="csr")
    if right.nnz == 0:
        problem = "holds no labels, so there is nothing to measure"
        apart = "" if source.labels else "; if they have a file of their own, name it with --labels-file"
        raise data.DataError(str(source.labels or source.path), None, problem + apart)
    if given.plot is not None:
        names = [*np.asarray(model.classes_).tolist(), *["unseen"] * n_unseen]
        draw(given.plot, right, numbers, np.concatenate([probabilities for _, probabilities in best]), names)
    scores = score_rankings(right, numbers, ks, model, given.propensity, deep)
    return {**scores, "seconds": time.perf_counter() - started, "points": len(numbers)}


def predict(given: SimpleNamespace) -> Iterator[str]:
    """Yield the answers of one batch of points after another."""
    source = PointFile(given.data, given.input_format, batch_rows=given.batch_size)
    model, threshold = _load(given), float(given.threshold)
    names = np.asarray(model.classes_)
    skipped, unknown = SkippedLines(), UnknownFeatures(model.n_features_in_)
    for batch in source.batches(model, with_labels=False, on_skipped=skipped.add, wider=True):
        unknown.drop(batch.X)
        labels, probabilities = _best(model, batch.X, given.k, batch.X if given.exclude_seen else None)
        rows = zip(labels, probabilities, (labels >= 0) & (probabilities >= threshold), strict=True)
        yield "".join(answer_line(given.format, names[row[kept]].tolist(), p[kept].tolist()) for row, p, kept in rows)
    skipped.report(source.path, "blank lines and comments are not points")
    unknown.report(source.path)


def _best(model: PointClassifier, X: Any, k: int, exclude: Any) -> tuple[I32, F32]:
    n_labels, n_features = len(model.classes_), model.n_features_in_
    with memory_for(f"scoring {X.shape[0]} points by {n_features} features and {n_labels} labels: lower --batch-size"):
        return model.topk_numbers(X, k, exclude=exclude)


def _load(given: SimpleNamespace) -> PointClassifier:
    with memory_for(f"loading {given.model}"):
        model = load_point_model(given.model)
    model.set_params(n_jobs=given.threads)
    if given.exclude_seen and model.n_features_in_ != len(model.classes_):
        raise ValueError(
            f"--exclude-seen needs data where feature i is label i, but {given.model} has {model.n_features_in_} "
            f"features and {len(model.classes_)} labels"
        )
    return model
