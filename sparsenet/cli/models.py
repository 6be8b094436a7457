"""Load saved models of sparse points, and detect the kind of a saved model."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sparsenet import storage
from sparsenet.cli import stream_commands
from sparsenet.estimators.blend import BlendClassifier
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.loading import load
from sparsenet.estimators.recommender import Recommender
from sparsenet.estimators.table import TableClassifier
from sparsenet.estimators.text import TextClassifier
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.features.text import table_columns
from sparsenet.storage.parts import model_errors

PointClassifier = ExtremeClassifier | TreeClassifier | BlendClassifier


def is_text_model(path: Path) -> bool:
    """Return whether a directory contains a text model; raise a ModelError if it contains no model."""
    return bool(storage.metadata(path).get("model") == TextClassifier.__name__)


def is_log_model(path: Path) -> bool:
    """Return whether a directory contains a recommender; raise a ModelError if it contains no model."""
    return bool(storage.metadata(path).get("model") == Recommender.__name__)


def stream_kind(path: Path) -> str | None:
    """Return the kind of a model of a stream, "stream" or "links", else None; raise a ModelError without a model."""
    return stream_commands.KINDS.get(str(storage.metadata(path).get("model")))


def is_table_model(path: Path) -> bool:
    """Return whether a directory contains a model of a table; raise a ModelError if it contains no model."""
    return bool(storage.metadata(path).get("model") == TableClassifier.__name__)


def why_not_compressed(path: Path) -> str:
    """Explain why `compress` rejects a model of sparse points."""
    if is_log_model(path):
        return f"{path} is a recommender; only text models are compressed"
    if stream_kind(path):
        return f"{path} is a model of a stream; only text models are compressed"
    if is_table_model(path):
        return f"{path} is a model of a table; only text models are compressed"
    if isinstance(load_point_model(path), TreeClassifier):
        return f"{path} is a tree, whose weights already have 8 bits; only text models are compressed"
    return f"{path} is a model of sparse points: train --compact saves it in less space"


def known_columns(path: Path) -> table_columns.KnownColumns | None:
    """Return the table columns that a text model was trained on, or None; raise a ModelError for other directories."""
    with model_errors():
        return table_columns.unpack(storage.metadata(path))


def load_point_model(path: Path) -> PointClassifier:
    """Load a model of sparse points, or raise a ModelError."""
    model = load(path)
    if not isinstance(model, PointClassifier):
        what = "texts" if isinstance(model, TextClassifier) else "another kind"
        raise storage.ModelError(f"{path}: this is a model of {what}, not of sparse points")
    return model


def has_named_labels(model: PointClassifier) -> bool:
    """Return whether files name labels by something other than column numbers."""
    by_column = model.fitted_.target.kind in ("dense", "sparse")
    return not by_column and not np.array_equal(model.classes_, np.arange(len(model.classes_)))
