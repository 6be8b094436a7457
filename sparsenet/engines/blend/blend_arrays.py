"""Pack a fitted blend into arrays and JSON, and unpack it; unpacking checks everything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import boolean, integer, real
from sparsenet.engines.blend.combination import Combination
from sparsenet.engines.blend.fitted_blend import FEW, FittedBlend
from sparsenet.engines.blend.version1 import Version1Combination
from sparsenet.engines.neighbors import neighbor_arrays
from sparsenet.engines.network import network_arrays
from sparsenet.engines.network.fit_network import FittedNetwork
from sparsenet.engines.network.parameters import from_json, to_json
from sparsenet.engines.tree import tree_arrays
from sparsenet.engines.tree.fit_tree import FittedTree
from sparsenet.engines.tree.machines import COST
from sparsenet.features.feature_arrays import Header, pack_common, pack_decision, unpack_common, unpack_decision
from sparsenet.kernels.types import Arrays
from sparsenet.storage.format import ModelError
from sparsenet.storage.narrow import narrow, rounded, widen
from sparsenet.storage.parts import check_kind, pack_part, unpack_part

#: The kind of model, as manifests name it.
KIND = "BlendClassifier"
#: Labels of the parts, which are numbers; older models hold them.
OWN_CLASSES = ("tree.classes", "network.classes")


@dataclass(frozen=True, eq=False)
class BlendHeader:
    """The estimators' part of a saved blend.

    Attributes
    ----------
    whole, tree, network : Header
        Parameters and features of the blend and of its parts; None without a network.
    given : list of str
        The parts that the user passed as classifiers.
    untrained : dict or None
        The parameters, as JSON, of a network that the user passed and the time budget left out.
    is_dropped : bool
        Whether the user left out the network.
    """

    whole: Header
    tree: Header
    network: Header | None
    given: list[str]
    untrained: dict[str, Any] | None
    is_dropped: bool


def pack(fitted: FittedBlend, header: BlendHeader, *, small: bool = False) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and JSON of an equal blend; if `small`, of one rounded as in training."""
    network, about_network = None, None
    if fitted.network is not None and header.network is not None:
        network, about_network = network_arrays.pack(fitted.network, header.network)
    tree, about_tree = tree_arrays.pack(fitted.tree, header.tree)
    arrays, about = pack_common(header.whole, fitted)
    del about["n_features"]  # the tree has it
    neighbors, about_neighbors = neighbor_arrays.pack(fitted.neighbors)
    arrays |= {
        **pack_part("network", network or {}),
        **pack_part("tree", tree),
        **pack_part("neighbors", neighbors),
    }
    arrays = {name: array for name, array in arrays.items() if name not in OWN_CLASSES}
    narrowed = narrow(rounded(arrays) if small else arrays)
    weights = narrowed.get("network.output.weight")
    return narrowed, {
        "model": KIND,
        "rounded": weights is not None and weights.dtype == np.int8,
        **about,
        "given": header.given,
        "untrained": header.untrained,
        "dropped": header.is_dropped,
        "candidates": fitted.candidates,
        "combination": _pack_combination(fitted.combination),
        "choices": {
            name: pack_decision(choice._replace(value=to_json(name, choice.value)))
            for name, choice in fitted.choices.items()
        },
        "network": about_network,
        "tree": about_tree,
        "neighbors": about_neighbors,
        **tree_arrays.pack_validation(fitted.validation),
    }


def unpack(arrays: Arrays, metadata: Mapping[str, Any]) -> tuple[BlendHeader, FittedBlend]:
    """Return the headers and the blend; raises ModelError if the parts contradict each other."""
    check_kind(metadata, KIND)
    arrays = widen(arrays)
    n_labels = len(arrays["counts"])
    arrays = {**{name: np.arange(n_labels) for name in OWN_CLASSES}, **arrays}
    tree_header, tree = tree_arrays.unpack(unpack_part("tree", arrays), metadata["tree"])
    n_features, network_header, network = tree_header.n_features, None, None
    if metadata["network"] is not None:
        network_header, network = network_arrays.unpack(unpack_part("network", arrays), metadata["network"])
        if network_header.n_features != n_features:
            raise ModelError(f"the tree has {n_features} features, the network {network_header.n_features}")
    elif metadata["neighbors"] is None:
        raise ModelError("the model has a tree but neither a network nor neighbors")
    whole, target, scaling, seen = unpack_common(arrays, {**metadata, "n_features": n_features})
    for part, kind in ((tree, tree_arrays.KIND), (network, network_arrays.KIND)):
        if part is not None:
            _check_part(part, kind, seen.label_counts)
    shape = (seen.n_points, n_features, len(target.classes))
    neighbors = neighbor_arrays.unpack(unpack_part("neighbors", arrays), metadata["neighbors"], shape)
    if "combination" in metadata:
        combination = _unpack_combination(metadata["combination"])
    else:
        is_consistent = isinstance(tree_header.parameters.get("cost", "auto"), str) and tree.cost > COST
        combination = Version1Combination.of_saved(metadata, is_consistent=is_consistent)
    fitted = FittedBlend(
        network,
        tree,
        neighbors,
        target,
        scaling,
        seen,
        integer("candidates", metadata.get("candidates", FEW), 1),
        combination,
        {
            str(name): unpack_decision({**choice, "value": from_json(choice["value"])})
            for name, choice in metadata.get("choices", {}).items()
        },
        tree_arrays.unpack_validation(metadata),
    )
    header = BlendHeader(
        whole=whole,
        tree=tree_header,
        network=network_header,
        given=metadata["given"],
        untrained=metadata.get("untrained"),
        is_dropped=boolean("dropped", metadata.get("dropped", False)),
    )
    return header, fitted


def _check_part(part: FittedTree | FittedNetwork, kind: str, counts: NDArray[Any]) -> None:
    """Refuse a part with other labels than the blend, or with scaled points."""
    own = part.seen.label_counts
    if own.shape != counts.shape or np.any(own > counts):
        raise ModelError(f"the label counts of the {kind} contradict those of the model")
    if not np.array_equal(part.target.classes, np.arange(len(counts))):
        raise ModelError(f"the labels of the {kind} differ from the model's")
    if part.scaling.kind != "none" or part.target.kind != "sparse":
        raise ModelError(f"the {kind} must take scaled points and an indicator of labels")


def _pack_combination(combination: Combination | Version1Combination) -> dict[str, Any]:
    """Return a combination as JSON."""
    if isinstance(combination, Version1Combination):
        return {"version": 1, **combination.to_json()}
    return {
        "weights": list(combination.weights),
        "slope": combination.slope,
        "shift": combination.shift,
        "fall": combination.fall,
        "count_weight": combination.count_weight,
        "temperature": combination.temperature,
    }


def _unpack_combination(
    about: Mapping[str, Any], *, max_weight: float = 1e4, max_shift: float = 1e6
) -> Combination | Version1Combination:
    """Return a packed combination; weights are `max_weight` at most, shifts at most `max_shift` from 0."""
    if about.get("version") == 1:
        return Version1Combination.of_json(about)
    weights = about["weights"]
    if not isinstance(weights, list) or len(weights) != 3:
        raise ModelError(f"a combination has three weights, got {weights!r}")
    tree, network, neighbors = (real("weight", weight, 0, max_weight) for weight in weights)
    slope, temperature = (real(name, about[name], 0, max_weight, open_low=True) for name in ("slope", "temperature"))
    shift, fall = (real(name, about[name], -max_shift, max_shift) for name in ("shift", "fall"))
    count_weight = real("count_weight", about.get("count_weight", 0.0), -max_weight, max_weight)
    return Combination((tree, network, neighbors), slope, shift, fall, count_weight, temperature)
