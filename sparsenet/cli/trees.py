"""Training of a `TreeClassifier`, from a file of points to a model; all else is as of other models of points."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparsenet import metrics, storage
from sparsenet.cli import commands
from sparsenet.cli.sources import Source, check_validation, labels_of, read_validation
from sparsenet.estimators.fitting import as_matrix
from sparsenet.tree import TreeClassifier

#: Where P@k is measured on --valid, as after each epoch of a network.
RANKS = (1, 3, 5)


def train(source: Source, model_path: Path, valid: Path | None, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Train, save, and return a summary for people and programs."""
    storage.prepare(model_path)
    clock = commands.Clock()
    check_validation(source, valid)
    points = source.points()
    held = read_validation(source, valid, points)
    model = TreeClassifier(**parameters)
    try:
        model.fit(points.X, labels_of(source, points))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(commands.nothing_saved(model_path)) from None
    model.save(model_path)
    try:
        validation = None if held is None else _measured(model, *held)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the model {model_path} is saved, and was not measured") from None
    about = {"validation": validation, "interrupted": False, "saved": True}
    return commands.about_training(points, model, model_path, clock) | about


def _measured(model: TreeClassifier, X: Any, y: Any) -> dict[str, float]:
    """Return P@k on points to measure on, whose labels may be others than those of training."""
    truth = as_matrix(model._fitted.target.encode(y, drop_unknown=True))
    ranked, _ = model.topk_numbers(X, max(RANKS))
    return {f"P@{k}": metrics.precision_at_k(truth, ranked, k) for k in RANKS}
