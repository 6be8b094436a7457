"""Models on disk, of whatever kind: which it is, and those of sparse points, which the commands treat alike."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sparsenet import storage
from sparsenet.blend import BlendClassifier
from sparsenet.blend import persistence as blends
from sparsenet.estimators import ExtremeClassifier
from sparsenet.text import persistence as texts
from sparsenet.tree import TreeClassifier
from sparsenet.tree import persistence as trees

PointClassifier = ExtremeClassifier | TreeClassifier | BlendClassifier
#: Kinds of models of points; what is none of them is left to the loader of the first.
POINT_KINDS: dict[str | None, type[PointClassifier]] = {
    "ExtremeClassifier": ExtremeClassifier,
    trees.KIND: TreeClassifier,
    blends.KIND: BlendClassifier,
}


def kind_of(path: Path) -> str | None:
    """Tell what kind of model a directory holds, believing it for now; what is no model is left to the loader."""
    try:
        return str(json.loads((path / storage.MANIFEST).read_bytes())["metadata"]["model"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def is_of_texts(path: Path) -> bool:
    """Tell whether a directory holds a model of texts, believing it for now."""
    return kind_of(path) == texts.KIND


def why_not_compressed(path: Path) -> str:
    """Say why `compress` leaves a model alone that is none of texts; a ModelError where it is none at all."""
    storage.load(path)
    if kind_of(path) == trees.KIND:
        return f"{path} is no model of texts but a tree, whose weights have 8 bits as it is"
    return f"{path} is no model of texts: train --compact saves others in less room"


def load_of_points(path: Path) -> PointClassifier:
    """Load a model of sparse points, or raise a ModelError."""
    return POINT_KINDS.get(kind_of(path), ExtremeClassifier).load(path)


def has_named_labels(model: PointClassifier) -> bool:
    """Tell whether files call labels anything but the numbers of columns; those of an indicator they do not."""
    by_column = model._fitted.target.kind in ("dense", "sparse")
    return not by_column and not np.array_equal(model.classes_, np.arange(len(model.classes_)))
