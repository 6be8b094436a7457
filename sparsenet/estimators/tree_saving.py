"""A fitted tree as arrays and JSON, and back. Nothing is pickled, and nothing read is believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import MAX_WIDTH, integer, real
from sparsenet.engines.tree import machines, tree_shape
from sparsenet.engines.tree.fit_tree import Fitted
from sparsenet.engines.tree.machines import Level
from sparsenet.engines.tree.tree_shape import Shape
from sparsenet.estimators.parameters import pack_feature_names, pack_parameters, unpack_feature_names, unpack_parameters
from sparsenet.features.feature_arrays import (
    pack_labels,
    pack_scaling,
    pack_seen,
    unpack_scaling,
    unpack_seen,
    unpack_target,
)
from sparsenet.kernels.types import Arrays
from sparsenet.storage import ModelError
from sparsenet.storage.parts import check_kind, nothing_believed

if TYPE_CHECKING:
    from sparsenet.estimators.tree import TreeClassifier

Model = TypeVar("Model", bound="TreeClassifier")
KIND = "TreeClassifier"
PARTS = tuple(field.name for field in fields(Level))


def pack(model: TreeClassifier, fitted: Fitted) -> tuple[Arrays, dict[str, Any]]:
    """Return what `unpack` needs to make an equal classifier: arrays and JSON."""
    parameters = pack_parameters(model)
    model._check()  # wrong parameters, set since, would not be loaded
    seen, about_seen = pack_seen(fitted.seen)
    arrays: Arrays = {"labels": fitted.shape.labels, **seen, **pack_scaling(fitted.scaling)}
    for depth, level in enumerate(fitted.levels):
        arrays |= {f"level{depth}.{part}": getattr(level, part) for part in PARTS}
    own, about_target = pack_labels(fitted.target)
    return arrays | own | pack_feature_names(model), {
        "model": KIND,
        "parameters": parameters,
        "n_features": model.n_features_in_,
        "cost": fitted.cost,
        **about_seen,
        "n_levels": len(fitted.levels),
        "target": about_target,
        "scaling": fitted.scaling.kind,
        "named_features": hasattr(model, "feature_names_in_"),
        **pack_validation(fitted.validation),
    }


def unpack(cls: type[Model], arrays: Mapping[str, NDArray[Any]], metadata: dict[str, Any]) -> Model:
    """Make the classifier that `pack` took apart; raises ModelError where the parts do not fit together."""
    check_kind(metadata, KIND)
    with nothing_believed():
        return _unpack(cls, dict(arrays), metadata)


def _unpack(cls: type[Model], arrays: Arrays, metadata: dict[str, Any]) -> Model:
    target, labels = unpack_target(arrays, metadata["target"]), arrays["labels"]
    n_labels, n_features = len(target.classes), integer("n_features", metadata["n_features"], 1, MAX_WIDTH)
    if labels.dtype != np.int32 or labels.ndim != 1 or labels.min(initial=0) < 0 or len(labels) == 0:
        raise ModelError("labels must be positions in classes")
    depths = range(integer("n_levels", metadata["n_levels"], 1))
    levels = [Level(**{part: arrays[f"level{depth}.{part}"] for part in PARTS}) for depth in depths]
    for level in levels:
        if level.children.dtype != np.int64 or level.children.ndim != 1 or len(level.children) < 2:
            raise ModelError("children must be row pointers")
        machines.check(level, n_features)
    shape = Shape(labels, [level.children for level in levels])
    tree_shape.check(shape, n_labels)
    model = cls(**unpack_parameters(metadata["parameters"]))
    cost = real("cost", metadata.get("cost", model._check().cost), 0, 1e6, open_low=True)  # once a parameter alone
    model.n_features_in_ = n_features
    unpack_feature_names(model, arrays, metadata)
    scaling = unpack_scaling(arrays, metadata["scaling"], n_features)
    seen = unpack_seen(arrays, metadata, scaling.kind, n_labels, n_features)
    return model._adopt(Fitted(shape, levels, cost, target, scaling, seen, unpack_validation(metadata)))


def pack_validation(validation: Mapping[str, float] | None) -> dict[str, Any]:
    """Return what `unpack_validation` needs, which is nothing where nothing was measured."""
    return {} if validation is None else {"validation": dict(validation)}


def unpack_validation(metadata: Mapping[str, Any]) -> dict[str, float] | None:
    """Return what was measured of a saved model, if anything was."""
    found = metadata.get("validation")
    return None if found is None else {name: real(name, value, 0, 1) for name, value in found.items()}
