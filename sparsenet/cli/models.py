"""Saved models: their kind, and one loader for all models of sparse points."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sparsenet import storage
from sparsenet.estimators.blend import BlendClassifier
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.loading import load
from sparsenet.estimators.text import TextClassifier
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.features.text import table_columns
from sparsenet.storage.parts import model_errors

PointClassifier = ExtremeClassifier | TreeClassifier | BlendClassifier


def is_text_model(path: Path) -> bool:
    """Tell a text model from one of sparse points; raise a ModelError if a directory contains no model."""
    return bool(storage.metadata(path).get("model") == TextClassifier.__name__)


def why_not_compressed(path: Path) -> str:
    """Return why `compress` refuses a model of sparse points."""
    if isinstance(load_point_model(path), TreeClassifier):
        return f"{path} is a tree, whose weights already have 8 bits; only text models are compressed"
    return f"{path} is a model of sparse points: train --compact saves it in less space"


def known_columns(path: Path) -> table_columns.KnownColumns | None:
    """Return the columns that a text model learnt from, if it has some; raise a ModelError for other directories."""
    with model_errors():
        return table_columns.unpack(storage.metadata(path))


def load_point_model(path: Path) -> PointClassifier:
    """Load a model of sparse points, or raise a ModelError."""
    model = load(path)
    if isinstance(model, TextClassifier):
        raise storage.ModelError(f"{path}: this is a model of texts, not of sparse points")
    return model


def has_named_labels(model: PointClassifier) -> bool:
    """Tell whether labels have other names in files than the numbers of columns."""
    by_column = model.fitted_.target.kind in ("dense", "sparse")
    return not by_column and not np.array_equal(model.classes_, np.arange(len(model.classes_)))
