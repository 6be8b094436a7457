"""A fitted blend as arrays and JSON, and back: those of its network and of its tree, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sparsenet.blend.fitted import Fitted
from sparsenet.estimators import ExtremeClassifier
from sparsenet.estimators import persistence as networks
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
from sparsenet.tree import TreeClassifier
from sparsenet.tree import persistence as trees

if TYPE_CHECKING:
    from sparsenet.blend.classifier import BlendClassifier

Arrays = dict[str, NDArray[Any]]
Model = TypeVar("Model", bound="BlendClassifier")
KIND = "BlendClassifier"
#: Parameters that are classifiers themselves.
PARTS = {"network": ExtremeClassifier, "tree": TreeClassifier}


def pack(model: BlendClassifier, fitted: Fitted, *, small: bool = False) -> tuple[Arrays, dict[str, Any]]:
    """Return what `unpack` needs to make an equal, or if `small` nearly equal, classifier: arrays and JSON."""
    network, about_network = networks.pack(fitted.network, fitted.network._fitted, small=small)
    tree, about_tree = trees.pack(fitted.tree, fitted.tree._fitted)
    labels, about_target = pack_labels(fitted.target)
    names = getattr(model, "feature_names_in_", None)
    arrays: Arrays = {
        **{f"network.{name}": array for name, array in network.items()},
        **{f"tree.{name}": array for name, array in tree.items()},
        **labels,
        **pack_scaling(fitted.scaling),
        **({} if names is None else pack_strings(names.tolist(), "features")),
    }
    return arrays, {
        "model": KIND,
        "parameters": {name: _as_json(name, value) for name, value in model.get_params(deep=False).items()},
        "network": about_network,
        "tree": about_tree,
        "target": about_target,
        "scaling": fitted.scaling.kind,
        "named_features": names is not None,
    }


def unpack(cls: type[Model], arrays: Mapping[str, NDArray[Any]], metadata: dict[str, Any]) -> Model:
    """Make the classifier that `pack` took apart; raises ModelError where the parts do not fit together."""
    if metadata.get("model") != KIND:
        raise ModelError(f"this is a model of the kind {metadata.get('model')!r}, not a {KIND}")
    with nothing_believed():
        return _unpack(cls, dict(arrays), metadata)


def _unpack(cls: type[Model], arrays: Arrays, metadata: dict[str, Any]) -> Model:
    network = networks.unpack(ExtremeClassifier, those_of("network", arrays), metadata["network"])
    tree = trees.unpack(TreeClassifier, those_of("tree", arrays), metadata["tree"])
    target, n_features = unpack_target(arrays, metadata["target"]), network.n_features_in_
    if tree.n_features_in_ != n_features or not len(network.classes_) == len(tree.classes_) == len(target.classes):
        raise ModelError("the network and the tree are not of the same features and labels")
    if not np.array_equal(network.label_counts_, tree.label_counts_) or network.n_points_ != tree.n_points_:
        raise ModelError("the network and the tree did not learn from the same points")
    model = cls(**{name: _of_json(name, value) for name, value in metadata["parameters"].items()})
    model._check()
    model.n_features_in_ = n_features
    if metadata["named_features"]:
        model.feature_names_in_ = np.array(unpack_strings(arrays, "features"), dtype=object)
        if len(model.feature_names_in_) != n_features:
            raise ModelError(f"the model names {len(model.feature_names_in_)} of {n_features} features")
    scaling = unpack_scaling(arrays, metadata["scaling"], n_features)
    return model._adopt(Fitted(network, tree, target, scaling, tree.label_counts_, tree.n_points_))


def those_of(part: str, arrays: Arrays) -> Arrays:
    """Return the arrays of the network or the tree under their own names."""
    return {name.removeprefix(f"{part}."): array for name, array in arrays.items() if name.startswith(f"{part}.")}


def _as_json(name: str, value: Any) -> Any:
    if name in PARTS and isinstance(value, BaseEstimator):
        return {of: to_json(f"{name}__{of}", own) for of, own in value.get_params(deep=False).items()}
    return to_json(name, value)


def _of_json(name: str, value: Any) -> Any:
    if name in PARTS and value is not None:
        return PARTS[name](**{of: from_json(own) for of, own in value.items()})
    return from_json(value)
