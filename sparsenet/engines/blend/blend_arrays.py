"""Pack the neighbors, combination and decisions of a blend into arrays and JSON; unpacking checks everything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet.core.rows import Rows
from sparsenet.core.validation import integer, optional, real
from sparsenet.engines.blend.combination import Combination
from sparsenet.engines.blend.version1 import Version1Combination
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.network.parameters import from_json, to_json
from sparsenet.kernels.types import Arrays
from sparsenet.selection.choose import Decision
from sparsenet.storage.format import ModelError

#: Entries of neighbors in a manifest.
NEIGHBOR_ENTRIES = ("rarity", "power")


def pack_combination(combination: Combination | Version1Combination) -> dict[str, Any]:
    """Return a combination as JSON."""
    if isinstance(combination, Version1Combination):
        return {"version": 1, **combination.to_json()}
    return {
        "weights": list(combination.weights),
        "slope": combination.slope,
        "shift": combination.shift,
        "fall": combination.fall,
        "temperature": combination.temperature,
    }


def unpack_combination(
    about: Mapping[str, Any], *, most: float = 1e4, furthest: float = 1e6
) -> Combination | Version1Combination:
    """Return a packed combination; weights are `most` at most, shifts at most `furthest` from 0."""
    if about.get("version") == 1:
        return Version1Combination.of_json(about)
    weights = about["weights"]
    if not isinstance(weights, list) or len(weights) != 3:
        raise ModelError(f"a combination has three weights, got {weights!r}")
    tree, network, neighbors = (real("weight", weight, 0, most) for weight in weights)
    slope, temperature = (real(name, about[name], 0, most, open_low=True) for name in ("slope", "temperature"))
    shift, fall = (real(name, about[name], -furthest, furthest) for name in ("shift", "fall"))
    return Combination((tree, network, neighbors), slope, shift, fall, temperature)


def pack_choices(choices: Mapping[str, Decision]) -> dict[str, Any]:
    """Return decisions as JSON."""
    return {name: {key: to_json(key, value) for key, value in own._asdict().items()} for name, own in choices.items()}


def unpack_choices(saved: Mapping[str, Any]) -> dict[str, Decision]:
    """Return the decisions that `pack_choices` packed."""
    return {str(name): _unpack_decision(own) for name, own in saved.items()}


def _unpack_decision(saved: Mapping[str, Any]) -> Decision:
    found = Decision(**{key: from_json(value) for key, value in saved.items()})
    if not all(isinstance(text, str) for text in (found.why, *found.options)):
        raise ModelError("a choice has its reason and its options in words")
    for name in ("gain", "standard_error"):
        optional(real, name, getattr(found, name), -math.inf, math.inf)
    integer("n", found.n, 0)
    return found


def pack_neighbors(neighbors: Neighbors | None, *, small: bool) -> Arrays:
    """Return the inverted index of points and their labels; if `small`, in 16 bits where possible."""
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


def unpack_neighbors(arrays: Arrays, about: dict[str, Any] | None, shape: tuple[int, int, int]) -> Neighbors | None:
    """Return the neighbors of a model of `shape` (points, features, labels); kernels do not check these ids again."""
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
        raise ModelError(f"the neighbors are {len(labels)} points, of a model of {n_points}")
    if len(index) != n_features or weights.shape != (n_features,) or weights.dtype != np.float32:
        raise ModelError(f"the neighbors are not of points with {n_features} features")
    if not (np.isfinite(weights).all() and weights.min() >= 0):
        raise ModelError("the weights of features of the neighbors must be finite and not negative")
    rarity, power = (real(name, about[name], 0, 100) for name in ("rarity", "power"))
    return Neighbors(index, labels, weights, rarity, power)


def _rows(what: str, indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any], width: int) -> Rows:
    """Return rows after checking every number."""
    fits = indptr.ndim == 1 and len(indptr) and indptr[-1] == len(indices) == len(data)
    if not fits or indptr.dtype != np.int64 or indices.dtype != np.int32:
        raise ModelError(f"the row pointers of the {what} of the neighbors do not fit")
    return Rows.of(csr_array((data, indices, indptr), shape=(len(indptr) - 1, width)), keep_zeros=True)
