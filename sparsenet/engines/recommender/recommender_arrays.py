"""Pack a fitted recommender into arrays and JSON, and unpack it; unpacking checks everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet.core.rows import Rows
from sparsenet.core.validation import choice, real
from sparsenet.engines.recommender.fit_recommender import FittedRecommender
from sparsenet.engines.recommender.item_lists import RelatedItems
from sparsenet.engines.recommender.recommender_parts import NAMES, RecommenderParts
from sparsenet.engines.recommender.recommender_rules import RULES, RecommenderRules
from sparsenet.features.feature_arrays import pack_decision, unpack_decision
from sparsenet.features.interactions import AMOUNTS
from sparsenet.kernels.types import F32, Arrays
from sparsenet.storage.format import ModelError

#: The lists of related items, by their names in a model.
_LISTS = ("walk", "regression", "successors")


def pack(fitted: FittedRecommender) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the JSON of an equal recommender."""
    parts = fitted.parts
    arrays: Arrays = {"factors": parts.factors, "users_of": parts.users_of, "trend": parts.trend}
    for name in _LISTS:
        lists: Rows = getattr(parts.lists, name)
        arrays |= {f"{name}.indptr": lists.indptr, f"{name}.indices": lists.indices, f"{name}.data": lists.data}
    choices = {name: pack_decision(_as_json(choice)) for name, choice in fitted.choices.items()}
    return arrays, {
        "debias": parts.debias,
        "amounts": parts.amounts,
        "unit": parts.unit,
        "weights": [float(weight) for weight in fitted.weights],
        "repeats": [float(weight) for weight in fitted.repeats],
        "choices": choices,
    }


def unpack(arrays: Arrays, metadata: Mapping[str, Any], rules: RecommenderRules = RULES) -> FittedRecommender:
    """Return the recommender, which answers by `rules`; raises ModelError if its parts contradict each other."""
    users_of, trend, factors = arrays["users_of"], arrays["trend"], arrays["factors"]
    if users_of.dtype != np.int64 or users_of.ndim != 1 or users_of.min(initial=0) < 0:
        raise ModelError("users_of must hold a whole number for each item")
    n_items = len(users_of)
    _check_floats("trend", trend, (n_items,))
    _check_floats("factors", factors, (n_items, factors.shape[1] if factors.ndim == 2 else 0))
    lists = {name: _lists(name, arrays, n_items) for name in _LISTS}
    parts = RecommenderParts(
        RelatedItems(**lists),
        factors=factors,
        users_of=users_of,
        trend=trend,
        debias=real("debias", metadata["debias"], 0, 1),
        amounts=choice("amounts", metadata["amounts"], AMOUNTS),
        unit=real("unit", metadata["unit"], 0, np.finfo(np.float64).max, open_low=True),
        rules=rules,
    )
    choices = {str(name): unpack_decision(own) for name, own in metadata["choices"].items()}
    choices = {name: own._replace(value=_from_json(own.value)) for name, own in choices.items()}
    weights, repeats = _weights(metadata["weights"], len(NAMES)), _weights(metadata["repeats"], 2)
    return FittedRecommender(parts, weights, repeats, choices)


def _weights(weights: Any, n: int, most: float = 1e6) -> F32:
    if not isinstance(weights, list) or len(weights) != n:
        raise ModelError(f"expected {n} weights, got {weights!r}")
    return np.array([real("weight", weight, 0, most) for weight in weights], np.float32)


def _as_json(choice: Any) -> Any:
    return choice._replace(value=list(choice.value)) if isinstance(choice.value, tuple) else choice


def _from_json(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check_floats(name: str, array: NDArray[Any], shape: tuple[int, ...]) -> None:
    if array.dtype != np.float32 or array.shape != shape or not np.isfinite(array).all():
        raise ModelError(
            f"{name} must hold finite numbers in float32 of shape {shape}, got {array.dtype} {array.shape}"
        )


def _lists(name: str, arrays: Arrays, n_items: int) -> Rows:
    """Return the lists of all items after checking every number; kernels do not check these ids again."""
    indptr, indices, data = (arrays[f"{name}.{part}"] for part in ("indptr", "indices", "data"))
    if indptr.dtype != np.int64 or indices.dtype != np.int32 or data.dtype != np.float32:
        raise ModelError(f"the types of {name} are {indptr.dtype}, {indices.dtype} and {data.dtype}")
    if indptr.shape != (n_items + 1,) or not indptr[-1] == len(indices) == len(data):
        raise ModelError(f"the row pointers of {name} do not fit {n_items} items")
    rows = Rows.of(csr_array((data, indices, indptr), shape=(n_items, n_items)), keep_zeros=True)
    ascends: NDArray[np.bool_] = rows.indices[1:] > rows.indices[:-1]
    ends = rows.indptr[1:-1]
    ascends[ends[(ends > 0) & (ends < len(rows.indices))] - 1] = True
    if not ascends.all():  # a repeated id would count twice
        raise ModelError(f"the ids of {name} must ascend in each row")
    return rows
