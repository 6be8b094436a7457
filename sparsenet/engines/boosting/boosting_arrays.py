"""Boosted trees as arrays and JSON, and back; unpacking checks everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from sparsenet.core.validation import integer
from sparsenet.engines.boosting.boosted_trees import BoostedTrees, check_trees
from sparsenet.engines.boosting.fit_boosting import FittedBoosting
from sparsenet.kernels.types import Arrays
from sparsenet.storage.format import ModelError

PARTS = tuple(field.name for field in fields(BoostedTrees))


def pack(fitted: FittedBoosting) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and JSON of equal trees."""
    arrays: Arrays = {part: getattr(fitted.trees, part) for part in PARTS}
    return {**arrays, "labels": fitted.labels}, {"n_labels": fitted.n_labels}


def unpack(arrays: Arrays, about: Mapping[str, Any], n_columns: int) -> FittedBoosting:
    """Return the trees; raises ModelError if they could not be walked safely."""
    n_labels, labels = integer("n_labels", about["n_labels"], 2), arrays["labels"]
    if labels.dtype != np.int32 or labels.ndim != 1 or len(labels) < 2:
        raise ModelError("the labels of boosted trees must be at least two positions in classes")
    if labels.min() < 0 or labels.max() >= n_labels or (np.diff(labels) <= 0).any():
        raise ModelError(f"the labels of boosted trees must ascend from 0 to {n_labels - 1} at most")
    trees = BoostedTrees(**{part: arrays[part] for part in PARTS})
    check_trees(trees, n_columns, len(labels))
    return FittedBoosting(trees, labels, n_labels)
