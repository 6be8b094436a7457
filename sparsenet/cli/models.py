"""Models on disk, of whatever kind: which it is, and those of sparse points, which the commands treat alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sparsenet import storage
from sparsenet.estimators import text_saving as texts
from sparsenet.estimators import tree_saving as trees
from sparsenet.estimators.blend import BlendClassifier
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.loading import load
from sparsenet.estimators.text import TextClassifier
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.features.text import table_columns
from sparsenet.storage.parts import nothing_believed

PointClassifier = ExtremeClassifier | TreeClassifier | BlendClassifier


def kind_of(path: Path) -> str | None:
    """Return the kind of model that a manifest names; None if there is none, which the loader then reports."""
    try:
        return str(storage.metadata(path)["model"])
    except (storage.ModelError, KeyError):
        return None


def check(path: Path) -> None:
    """Raise a ModelError where a directory holds no model of any kind."""
    storage.metadata(path)


def is_of_texts(path: Path) -> bool:
    """Tell whether a directory holds a model of texts, believing it for now."""
    return kind_of(path) == texts.KIND


def why_not_compressed(path: Path) -> str:
    """Say why `compress` leaves a model alone that is none of texts; a ModelError where it is none at all."""
    storage.load(path)
    if kind_of(path) == trees.KIND:
        return f"{path} is no model of texts but a tree, whose weights have 8 bits as it is"
    return f"{path} is no model of texts: train --compact saves others in less room"


def columns_of(path: Path) -> table_columns.KnownColumns | None:
    """Return the columns that a model of texts learnt from, if it knows some; a ModelError where it is none."""
    with nothing_believed():
        return table_columns.unpack(storage.metadata(path))


def load_of_points(path: Path) -> PointClassifier:
    """Load a model of sparse points, or raise a ModelError."""
    model = load(path)
    if isinstance(model, TextClassifier):
        raise storage.ModelError(f"{path}: this is a model of texts, not of sparse points")
    return model


def has_named_labels(model: PointClassifier) -> bool:
    """Tell whether files call labels anything but the numbers of columns; those of an indicator they do not."""
    by_column = model._fitted.target.kind in ("dense", "sparse")
    return not by_column and not np.array_equal(model.classes_, np.arange(len(model.classes_)))
