"""A fitted blend as arrays and JSON, and back: those of its parts, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, clone

from sparsenet.core.rows import Rows
from sparsenet.core.seeds import check_seed
from sparsenet.core.validation import boolean, integer, real
from sparsenet.engines.blend.correction import FURTHEST, STEEPEST, USUAL, Correction
from sparsenet.engines.blend.fit_blend import Fitted
from sparsenet.engines.blend.naming import FEW
from sparsenet.engines.blend.parts import DROPPED, OF_THE_WHOLE, PARTS
from sparsenet.engines.blend.trust import LEAST, UTMOST, UTMOST_OF_TREE
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.network.parameters import (
    pack_feature_names,
    pack_parameters,
    to_json,
    unpack_feature_names,
    unpack_parameters,
)
from sparsenet.estimators import network_saving as networks
from sparsenet.estimators import tree_saving as trees
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.features.feature_arrays import (
    pack_labels,
    pack_scaling,
    pack_seen,
    unpack_scaling,
    unpack_seen,
    unpack_target,
)
from sparsenet.kernels.types import Arrays
from sparsenet.selection import frequency
from sparsenet.storage import ModelError
from sparsenet.storage.parts import check_kind, nothing_believed, pack_part, unpack_part

if TYPE_CHECKING:
    from sparsenet.estimators.blend import BlendClassifier

Model = TypeVar("Model", bound="BlendClassifier")
KIND = "BlendClassifier"
#: What is said of neighbours beside their arrays.
OF_NEIGHBORS = ("rarity", "power", "trust")


def pack(model: BlendClassifier, fitted: Fitted, *, small: bool = False) -> tuple[Arrays, dict[str, Any]]:
    """Return what `unpack` needs to make an equal, or if `small` nearly equal, classifier: arrays and JSON.

    Training points of which none has a vote are left out.
    """
    model._check()  # wrong parameters, set since, would not be loaded
    check_seed(model.random_state)
    neighbors = fitted.neighbors if model.n_neighbors > 0 else None
    network, about_network = _pack_network(fitted.network, small=small)
    if fitted.network is None and neighbors is None:
        raise ValueError("n_neighbors is 0, and this model has no network: nothing but tree_ would be saved")
    tree, about_tree = trees.pack(fitted.tree, fitted.tree._fitted)
    untrained = model.network if fitted.network is None else None
    if isinstance(untrained, ExtremeClassifier):
        _check_untrained(untrained)
    for about in filter(None, (about_tree, about_network)):  # equal models are equal files on any machine
        about["parameters"]["n_jobs"] = to_json("n_jobs", model.n_jobs)
    labels, about_target = pack_labels(fitted.target)
    seen, about_seen = pack_seen(fitted.seen)
    arrays: Arrays = {
        **pack_part("network", network),
        **pack_part("tree", tree),
        **pack_part("neighbors", _pack_neighbors(neighbors, small=small)),
        **seen,
        **labels,
        **pack_scaling(fitted.scaling),
        **pack_feature_names(model),
    }
    return arrays, {
        "model": KIND,
        "parameters": pack_parameters(model, but=PARTS),
        "given": [name for name in PARTS if isinstance(getattr(model, name), BaseEstimator) and getattr(fitted, name)],
        "untrained": pack_parameters(untrained) if isinstance(untrained, BaseEstimator) else None,
        "dropped": isinstance(model.network, str),
        **about_seen,
        "candidates": fitted.candidates,
        "tree_weight": fitted.tree_weight,
        "correction": fitted.correction._asdict(),
        "network": about_network,
        "tree": about_tree,
        "neighbors": None if neighbors is None else {name: getattr(neighbors, name) for name in OF_NEIGHBORS},
        "target": about_target,
        "scaling": fitted.scaling.kind,
        "named_features": hasattr(model, "feature_names_in_"),
        **trees.pack_validation(fitted.validation),
    }


def unpack(cls: type[Model], arrays: Mapping[str, NDArray[Any]], metadata: dict[str, Any]) -> Model:
    """Make the classifier that `pack` took apart; raises ModelError where the parts do not fit together."""
    check_kind(metadata, KIND)
    with nothing_believed():
        return _unpack(cls, dict(arrays), metadata)


def _unpack(cls: type[Model], arrays: Arrays, metadata: dict[str, Any]) -> Model:
    tree = trees.unpack(TreeClassifier, unpack_part("tree", arrays), metadata["tree"])
    network = None
    if metadata["network"] is not None:
        network = networks.unpack(ExtremeClassifier, unpack_part("network", arrays), metadata["network"])
    elif metadata["neighbors"] is None:
        raise ModelError("there is neither a network nor neighbours beside the tree")
    if network is not None and network.n_features_in_ != tree.n_features_in_:
        both = tree.n_features_in_, network.n_features_in_
        raise ModelError(f"the tree is one of {both[0]} features, and the network of {both[1]}")
    target, n_features = unpack_target(arrays, metadata["target"]), tree.n_features_in_
    scaling = unpack_scaling(arrays, metadata["scaling"], n_features)
    seen = unpack_seen(arrays, metadata, scaling.kind, len(target.classes), n_features)
    parts = {"tree": tree} | ({} if network is None else {"network": network})
    for part in parts.values():
        _check_part(part, seen.label_counts)
    given: dict[str, Any] = {name: _as_given(part) for name, part in parts.items() if name in metadata["given"]}
    if untrained := metadata.get("untrained"):
        given["network"] = _check_untrained(ExtremeClassifier(**unpack_parameters(untrained)))
    if boolean("dropped", metadata.get("dropped", False)):  # which older models could not be
        given["network"] = DROPPED
    shape = (seen.n_points, n_features, len(target.classes))
    neighbors = _unpack_neighbors(unpack_part("neighbors", arrays), metadata["neighbors"], shape)
    model = cls(**unpack_parameters(metadata["parameters"]), **given)
    if scaling.is_of_table and neighbors is None:
        model.n_neighbors = 0  # older models of tables had none, whatever that said
    model._check()
    check_seed(model.random_state)
    model.n_features_in_ = n_features
    unpack_feature_names(model, arrays, metadata)
    weight = real(
        "tree_weight", metadata.get("tree_weight", 1.0), 1, UTMOST_OF_TREE
    )  # which older models did not measure
    correction = metadata.get("correction", USUAL._asdict())  # likewise
    slope = real("slope", correction["slope"], 0, STEEPEST, open_low=True)
    among = real("among", correction["among"], 0, STEEPEST, open_low=True)
    shift = real("shift", correction["shift"], -FURTHEST, FURTHEST)
    frequent = real("frequent", correction.get("frequent", 0.0), -frequency.MOST, frequency.MOST)  # likewise
    correction = Correction(slope, shift, among, frequent)
    candidates = integer("candidates", metadata.get("candidates", FEW), 1)  # likewise
    about = scaling, seen, candidates, weight, correction, trees.unpack_validation(metadata)
    return model._adopt(Fitted(network, tree, neighbors, target, *about))


def _check_untrained(network: ExtremeClassifier) -> ExtremeClassifier:
    """Return a network that further training would fit, its parameters checked."""
    network._settings()
    check_seed(network.random_state)
    return network


def _pack_network(network: ExtremeClassifier | None, *, small: bool) -> tuple[Arrays, dict[str, Any] | None]:
    """Return the arrays of a network and what is said about it, of none nothing."""
    if network is None:
        return {}, None
    try:
        return networks.pack(network, network._fitted, small=small)
    except ValueError as error:
        raise ValueError(f"network_, the network of this model: {error}") from None


def _pack_neighbors(neighbors: Neighbors | None, *, small: bool) -> Arrays:
    """Return the points by feature and their labels; if `small`, by numbers of 16 bits where that is enough."""
    if neighbors is None:
        return {}
    index, labels = neighbors.index, neighbors.labels
    few = small and index.width <= np.iinfo(np.uint16).max + 1
    return {
        "index.indptr": index.indptr,
        "index.indices": index.indices.astype(np.uint16) if few else index.indices,
        "index.data": index.data.astype(np.float16) if small else index.data,
        "labels.indptr": labels.indptr,
        "labels.indices": labels.indices,
        "weights": neighbors.weights,
    }


def _unpack_neighbors(arrays: Arrays, about: dict[str, Any] | None, shape: tuple[int, int, int]) -> Neighbors | None:
    """Return the neighbours of a model of so many points, features and labels; kernels follow their numbers unasked."""
    if about is None:
        return None
    n_points, n_features, n_labels = shape
    values, weights = arrays["index.data"].astype(np.float32), arrays["weights"]
    points = arrays["index.indices"]
    points = points.astype(np.int32) if points.dtype == np.uint16 else points
    index = _rows("points", arrays["index.indptr"], points, values, n_points)
    ones = np.ones(len(arrays["labels.indices"]), np.float32)
    labels = _rows("labels", arrays["labels.indptr"], arrays["labels.indices"], ones, n_labels)
    if not 0 < n_points == len(labels):
        raise ModelError(f"the neighbours are {len(labels)} points, of a model of {n_points}")
    if len(index) != n_features or weights.shape != (n_features,) or weights.dtype != np.float32:
        raise ModelError(f"the neighbours are none of points of {n_features} features")
    if not (np.isfinite(weights).all() and weights.min() >= 0):
        raise ModelError("the weights of features of the neighbours must be finite and not negative")
    rarity, power = (real(name, about[name], 0, 100) for name in ("rarity", "power"))
    trust = real("trust", about.get("trust", 1.0), LEAST, UTMOST)  # which older models did not measure
    return Neighbors(index, labels, weights, rarity, power, trust)


def _rows(what: str, indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any], width: int) -> Rows:
    """Return rows whose every number has been looked at."""
    fits = indptr.ndim == 1 and len(indptr) and indptr[-1] == len(indices) == len(data)
    if not fits or indptr.dtype != np.int64 or indices.dtype != np.int32:
        raise ModelError(f"the row pointers of the {what} of the neighbours do not fit")
    return Rows.of(csr_array((data, indices, indptr), shape=(len(indptr) - 1, width)), keep_zeros=True)


def _check_part(part: ExtremeClassifier | TreeClassifier, counts: NDArray[Any]) -> None:
    """Refuse in words a part that is none of points as they are scaled, and labels as they are counted."""
    fitted, name = part._fitted, type(part).__name__
    if part.label_counts_.shape != counts.shape or np.any(part.label_counts_ > counts):
        raise ModelError(f"the {name} has learnt other labels than the model counts")
    if not np.array_equal(part.classes_, np.arange(len(counts))):
        raise ModelError(f"the labels of the {name} are not those of the model")
    if fitted.scaling.kind != "none" or fitted.target.kind != "sparse":
        raise ModelError(f"the {name} is none of scaled points and an indicator of labels")


def _as_given(part: BaseEstimator) -> Any:
    """Return a classifier like the one of which a part was made."""
    usual = type(part)().get_params(deep=False)
    return clone(part).set_params(**{name: usual[name] for name in OF_THE_WHOLE})
