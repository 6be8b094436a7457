"""A fitted tree as arrays and JSON, and back. Nothing is pickled, and nothing read is believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sparsenet._validation import integer
from sparsenet.estimators.persistence import (
    from_json,
    nothing_believed,
    pack_labels,
    pack_scaling,
    to_json,
    unpack_scaling,
    unpack_target,
)
from sparsenet.storage import ModelError, pack_strings, unpack_strings
from sparsenet.tree import growing, machines
from sparsenet.tree.growing import Shape
from sparsenet.tree.machines import Level

if TYPE_CHECKING:
    from sparsenet.tree.classifier import Fitted, TreeClassifier

Arrays = dict[str, NDArray[Any]]
KIND = "TreeClassifier"
PARTS = tuple(field.name for field in fields(Level))


def pack(model: TreeClassifier, fitted: Fitted) -> tuple[Arrays, dict[str, Any]]:
    """Return what `unpack` needs to make an equal classifier: arrays and JSON."""
    arrays: Arrays = {"labels": fitted.shape.labels, "counts": fitted.label_counts, **pack_scaling(fitted.scaling)}
    for depth, level in enumerate(fitted.levels):
        arrays |= {f"level{depth}.{part}": getattr(level, part) for part in PARTS}
    own, about_target = pack_labels(fitted.target)
    names = getattr(model, "feature_names_in_", None)
    if names is not None:
        arrays |= pack_strings(names.tolist(), "features")
    return arrays | own, {
        "model": KIND,
        "parameters": {name: to_json(name, value) for name, value in model.get_params(deep=False).items()},
        "n_features": model.n_features_in_,
        "n_points": fitted.n_points,
        "n_levels": len(fitted.levels),
        "target": about_target,
        "scaling": fitted.scaling.kind,
        "named_features": names is not None,
    }


def unpack(
    arrays: Mapping[str, NDArray[Any]], metadata: dict[str, Any]
) -> tuple[dict[str, Any], int, NDArray[Any] | None, Fitted]:
    """Return parameters, the number of features, their names and all else that `pack` took apart, or a ModelError."""
    if metadata.get("model") != KIND:
        raise ModelError(f"this is a model of the kind {metadata.get('model')!r}, not a {KIND}")
    with nothing_believed():
        return _unpack(dict(arrays), metadata)


def _unpack(arrays: Arrays, metadata: dict[str, Any]) -> tuple[dict[str, Any], int, NDArray[Any] | None, Fitted]:
    from sparsenet.tree.classifier import Fitted

    target, counts, labels = unpack_target(arrays, metadata["target"]), arrays["counts"], arrays["labels"]
    n_labels, n_features = len(target.classes), integer("n_features", metadata["n_features"], 1)
    if counts.dtype != np.int64 or counts.shape != (n_labels,) or counts.min(initial=0) < 0:
        raise ModelError(f"counts must hold a whole number for each label, got {counts.dtype} of shape {counts.shape}")
    if labels.dtype != np.int32 or labels.ndim != 1 or labels.min(initial=0) < 0 or len(labels) == 0:
        raise ModelError("labels must be positions in classes")
    depths = range(integer("n_levels", metadata["n_levels"], 1))
    levels = [Level(**{part: arrays[f"level{depth}.{part}"] for part in PARTS}) for depth in depths]
    for level in levels:
        if level.children.dtype != np.int64 or level.children.ndim != 1 or len(level.children) < 2:
            raise ModelError("children must be row pointers")
        machines.check(level, n_features)
    shape = Shape(labels, [level.children for level in levels])
    growing.check(shape, n_labels)
    parameters = {name: from_json(value) for name, value in metadata["parameters"].items()}
    names = np.array(unpack_strings(arrays, "features"), dtype=object) if metadata["named_features"] else None
    scaling, n_points = (
        unpack_scaling(arrays, metadata["scaling"], n_features),
        integer("n_points", metadata["n_points"], 0),
    )
    return parameters, n_features, names, Fitted(shape, levels, target, scaling, counts, n_points)
