"""Pack a `BlendClassifier`, with all its parts, into arrays and JSON, and unpack it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from sparsenet.core.seeds import check_seed
from sparsenet.core.validation import boolean, integer
from sparsenet.engines.blend.blend_arrays import (
    NEIGHBOR_ENTRIES,
    pack_choices,
    pack_combination,
    pack_neighbors,
    unpack_choices,
    unpack_combination,
    unpack_neighbors,
)
from sparsenet.engines.blend.fit_blend import FEW, FittedBlend
from sparsenet.engines.blend.version1 import Version1Combination
from sparsenet.engines.network import network_arrays
from sparsenet.engines.network.parameters import pack_parameters, to_json, unpack_parameters
from sparsenet.engines.tree.machines import COST
from sparsenet.engines.tree.tree_arrays import pack_validation, unpack_validation
from sparsenet.estimators import network_saving, tree_saving
from sparsenet.estimators.blend_parts import DROPPED, OF_THE_WHOLE, PARTS
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.transaction import adopt_features, feature_names
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.features.feature_arrays import (
    pack_feature_names,
    pack_labels,
    pack_scaling,
    pack_seen,
    unpack_feature_names,
    unpack_scaling,
    unpack_seen,
    unpack_target,
)
from sparsenet.kernels.types import Arrays
from sparsenet.storage import ModelError
from sparsenet.storage.parts import check_kind, nothing_believed, pack_part, unpack_part

#: The kind of model, as manifests name it.
KIND = "BlendClassifier"


def pack(model: Any, *, small: bool = False) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and JSON of a fitted classifier; if `small`, of a nearly equal one in fewer bits.

    With ``n_neighbors=0`` the training points are left out.
    """
    fitted: FittedBlend = model._fitted
    model._check()  # invalid parameters could not be loaded
    check_seed(model.random_state)
    neighbors = fitted.neighbors if model.n_neighbors > 0 else None
    if fitted.network is None and neighbors is None:
        raise ValueError("n_neighbors is 0 and this model has no network, so only tree_ would be saved: save that")
    network, about_network = _pack_network(model.network_, small=small)
    tree, about_tree = tree_saving.pack(model.tree_)
    untrained = model.network if fitted.network is None else None
    if isinstance(untrained, ExtremeClassifier):
        _check_untrained(untrained)
    for about in filter(None, (about_tree, about_network)):  # equal models are equal files on any machine
        about["parameters"]["n_jobs"] = to_json("n_jobs", model.n_jobs)
    labels, about_target = pack_labels(fitted.target)
    seen, about_seen = pack_seen(fitted.seen)
    names = feature_names(model)
    arrays: Arrays = {
        **pack_part("network", network),
        **pack_part("tree", tree),
        **pack_part("neighbors", pack_neighbors(neighbors, small=small)),
        **seen,
        **labels,
        **pack_scaling(fitted.scaling),
        **pack_feature_names(names),
    }
    is_part = {"network": model.network_ is not None, "tree": True}
    return arrays, {
        "model": KIND,
        "parameters": pack_parameters(model.get_params(deep=False), but=PARTS),
        "given": [name for name in PARTS if isinstance(getattr(model, name), BaseEstimator) and is_part[name]],
        "untrained": pack_parameters(untrained.get_params(deep=False))
        if isinstance(untrained, BaseEstimator)
        else None,
        "dropped": isinstance(model.network, str),
        **about_seen,
        "candidates": fitted.candidates,
        "combination": pack_combination(fitted.combination),
        "choices": pack_choices(fitted.choices),
        "network": about_network,
        "tree": about_tree,
        "neighbors": None if neighbors is None else {name: getattr(neighbors, name) for name in NEIGHBOR_ENTRIES},
        "target": about_target,
        "scaling": fitted.scaling.kind,
        "named_features": names is not None,
        **pack_validation(fitted.validation),
    }


def unpack(cls: Any, arrays: Arrays, metadata: dict[str, Any]) -> Any:
    """Return a packed classifier; raises ModelError if its parts contradict each other."""
    check_kind(metadata, KIND)
    with nothing_believed():
        return _unpack(cls, dict(arrays), metadata)


def _unpack(cls: Any, arrays: Arrays, metadata: dict[str, Any]) -> Any:
    tree = tree_saving.unpack(TreeClassifier, unpack_part("tree", arrays), metadata["tree"])
    network = None
    if metadata["network"] is not None:
        network = network_saving.unpack(ExtremeClassifier, unpack_part("network", arrays), metadata["network"])
    elif metadata["neighbors"] is None:
        raise ModelError("the model has a tree but neither a network nor neighbours")
    if network is not None and network.n_features_in_ != tree.n_features_in_:
        both = tree.n_features_in_, network.n_features_in_
        raise ModelError(f"the tree has {both[0]} features, the network {both[1]}")
    target, n_features = unpack_target(arrays, metadata["target"]), tree.n_features_in_
    scaling = unpack_scaling(arrays, metadata["scaling"], n_features)
    seen = unpack_seen(arrays, metadata, scaling.kind, len(target.classes), n_features)
    parts = {"tree": tree} | ({} if network is None else {"network": network})
    for part in parts.values():
        _check_part(part, seen.label_counts)
    given: dict[str, Any] = {name: _as_given(part) for name, part in parts.items() if name in metadata["given"]}
    if untrained := metadata.get("untrained"):
        given["network"] = _check_untrained(ExtremeClassifier(**unpack_parameters(untrained)))
    if boolean("dropped", metadata.get("dropped", False)):
        given["network"] = DROPPED
    shape = (seen.n_points, n_features, len(target.classes))
    neighbors = unpack_neighbors(unpack_part("neighbors", arrays), metadata["neighbors"], shape)
    model = cls(**unpack_parameters(metadata["parameters"]), **given)
    if scaling.is_of_table and neighbors is None:
        model.n_neighbors = 0  # old models of tables had none, whatever the parameter was
    model._check()
    check_seed(model.random_state)
    adopt_features(model, n_features, unpack_feature_names(arrays, metadata, n_features))
    if "combination" in metadata:
        combination = unpack_combination(metadata["combination"])
    else:
        is_consistent = isinstance(tree.cost, str) and tree.cost_ > COST
        combination = Version1Combination.of_saved(metadata, is_consistent=is_consistent)
    fitted = FittedBlend(
        None if network is None else network._fitted,
        tree._fitted,
        neighbors,
        target,
        scaling,
        seen,
        integer("candidates", metadata.get("candidates", FEW), 1),
        combination,
        unpack_choices(metadata.get("choices", {})),
        unpack_validation(metadata),
    )
    return model._adopt(fitted, tree, network)


def _check_untrained(network: ExtremeClassifier) -> ExtremeClassifier:
    """Check the parameters of an untrained network, and return it."""
    network._options()
    check_seed(network.random_state)
    return network


def _pack_network(network: ExtremeClassifier | None, *, small: bool) -> tuple[Arrays, dict[str, Any] | None]:
    """Return the arrays and JSON of the network, or nothing without one."""
    if network is None:
        return {}, None
    try:
        parameters = network.get_params(deep=False)
        return network_arrays.pack(network._fitted, parameters, network.n_features_in_, small=small)
    except ValueError as error:
        raise ValueError(f"network_: {error}") from None


def _check_part(part: ExtremeClassifier | TreeClassifier, counts: NDArray[Any]) -> None:
    """Refuse a part with other labels than the model, or with scaled points."""
    fitted, name = part._fitted, type(part).__name__
    if part.label_counts_.shape != counts.shape or np.any(part.label_counts_ > counts):
        raise ModelError(f"the label counts of the {name} contradict those of the model")
    if not np.array_equal(part.classes_, np.arange(len(counts))):
        raise ModelError(f"the labels of the {name} differ from the model's")
    if fitted.scaling.kind != "none" or fitted.target.kind != "sparse":
        raise ModelError(f"the {name} must take scaled points and an indicator of labels")


def _as_given(part: BaseEstimator) -> Any:
    """Return an unfitted classifier with the parameters of a part."""
    usual = type(part)().get_params(deep=False)
    return clone(part).set_params(**{name: usual[name] for name in OF_THE_WHOLE})
