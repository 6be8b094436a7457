"""Pack a `TreeClassifier` into arrays and JSON, and unpack it."""

from __future__ import annotations

from typing import Any

from sparsenet.engines.network.parameters import pack_parameters, unpack_parameters
from sparsenet.engines.tree import tree_arrays
from sparsenet.estimators.transaction import adopt_features, feature_names
from sparsenet.features.feature_arrays import pack_feature_names, unpack_feature_names
from sparsenet.kernels.types import Arrays
from sparsenet.storage.parts import check_kind, nothing_believed


def pack(model: Any) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and JSON of a fitted classifier."""
    parameters = pack_parameters(model.get_params(deep=False))
    model._check()  # invalid parameters could not be loaded
    arrays, about = tree_arrays.pack(model._fitted, model.n_features_in_)
    names = feature_names(model)
    return arrays | pack_feature_names(names), {
        **about,
        "parameters": parameters,
        "named_features": names is not None,
    }


def unpack(cls: Any, arrays: Arrays, metadata: dict[str, Any]) -> Any:
    """Return a packed classifier; raises ModelError if its parts contradict each other."""
    check_kind(metadata, tree_arrays.KIND)
    with nothing_believed():
        model = cls(**unpack_parameters(metadata["parameters"]))
        fitted = tree_arrays.unpack(arrays, metadata, model._check().cost)
        n_features = metadata["n_features"]
        return adopt_features(model, n_features, unpack_feature_names(arrays, metadata, n_features))._adopt(fitted)
