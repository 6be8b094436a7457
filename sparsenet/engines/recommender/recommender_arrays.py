"""Pack a fitted recommender into arrays and JSON, and unpack it; unpacking checks everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet.core.rows import Rows
from sparsenet.engines.recommender.fit_recommender import FittedRecommender
from sparsenet.features.feature_arrays import pack_decision, unpack_decision
from sparsenet.kernels.types import Arrays
from sparsenet.storage.format import ModelError


def pack(fitted: FittedRecommender) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the JSON of an equal recommender."""
    arrays: Arrays = {
        "lists.indptr": fitted.lists.indptr,
        "lists.indices": fitted.lists.indices,
        "lists.data": fitted.lists.data,
        "popularity": fitted.popularity,
    }
    return arrays, {"choices": {name: pack_decision(choice) for name, choice in fitted.choices.items()}}


def unpack(arrays: Arrays, metadata: Mapping[str, Any]) -> FittedRecommender:
    """Return the recommender; raises ModelError if its parts contradict each other."""
    popularity = arrays["popularity"]
    if popularity.dtype != np.int64 or popularity.ndim != 1 or popularity.min(initial=0) < 0:
        raise ModelError("popularity must hold a whole number for each item")
    n_items = len(popularity)
    lists = _rows("lists", arrays, n_items)
    if len(lists) != n_items:
        raise ModelError(f"the model has lists of {len(lists)} items, and {n_items} items")
    choices = {str(name): unpack_decision(choice) for name, choice in metadata["choices"].items()}
    return FittedRecommender(lists, popularity, choices)


def _rows(name: str, arrays: Arrays, width: int) -> Rows:
    """Return rows after checking every number."""
    indptr, indices, data = (arrays[f"{name}.{part}"] for part in ("indptr", "indices", "data"))
    if indptr.dtype != np.int64 or indices.dtype != np.int32 or data.dtype != np.float32:
        raise ModelError(f"the types of {name} are {indptr.dtype}, {indices.dtype} and {data.dtype}")
    if indptr.ndim != 1 or not len(indptr) or not indptr[-1] == len(indices) == len(data):
        raise ModelError(f"the row pointers of {name} do not fit")
    rows = Rows.of(csr_array((data, indices, indptr), shape=(len(indptr) - 1, width)), keep_zeros=True)
    _check_distinct(name, rows)
    return rows


def _check_distinct(name: str, rows: Rows) -> None:
    """Refuse rows whose ids do not ascend: repeated ones would count twice."""
    ascends: NDArray[np.bool_] = rows.indices[1:] > rows.indices[:-1]
    ends = rows.indptr[1:-1]
    ascends[ends[(ends > 0) & (ends < len(rows.indices))] - 1] = True
    if not ascends.all():
        raise ModelError(f"the ids of {name} must ascend in each row")
