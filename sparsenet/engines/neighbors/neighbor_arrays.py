"""Pack neighbors into arrays, and unpack them; unpacking checks everything."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet.core.rows import Rows
from sparsenet.core.validation import MAX_WIDTH, integer, real
from sparsenet.engines.neighbors.cell_arrays import about_cells, pack_cells, unpack_cells
from sparsenet.engines.neighbors.dense_postings import cells_of_postings
from sparsenet.engines.neighbors.narrow_postings import NarrowPostings
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.index.cells import VectorCells
from sparsenet.kernels.types import Arrays
from sparsenet.storage.format import ModelError
from sparsenet.storage.narrow import narrow_rows, of_rows


def pack(neighbors: Neighbors | None) -> tuple[Arrays, dict[str, Any] | None]:
    """Return the arrays of points and their labels, and numbers."""
    if neighbors is None:
        return {}, None
    index, cells, labels = neighbors.postings, neighbors.cells, neighbors.labels
    arrays: Arrays = {
        "labels.indptr": labels.indptr,
        "labels.indices": labels.indices,
        "weights": neighbors.weights,
    }
    about: dict[str, Any] = {
        "rarity": neighbors.rarity,
        "power": neighbors.power,
        **({"n_centroids": neighbors.n_centroids} if neighbors.n_centroids else {}),
    }
    if cells is not None:
        return arrays | pack_cells(cells), about | about_cells(cells)
    assert isinstance(index, NarrowPostings), "posting lists are rounded when they have been learnt"
    points: Arrays = {"index.indptr": index.indptr, "index.indices": index.points}
    about |= {"index": "postings", "max_comparisons": neighbors.max_comparisons}
    return arrays | points | of_rows("index.data", index.rows), about


def unpack(arrays: Arrays, about: dict[str, Any] | None, shape: tuple[int, int, int]) -> Neighbors | None:
    """Return the neighbors of a model of `shape` (points, features, labels); kernels do not check these ids again."""
    if about is None:
        return None
    n_points, n_features, n_labels = shape
    n_centroids = integer("n_centroids", about.get("n_centroids", 0), 0, n_labels)
    n_points += n_centroids
    ones = np.ones(len(arrays["labels.indices"]), np.float32)
    labels = _rows("labels", arrays["labels.indptr"], arrays["labels.indices"], ones, n_labels)
    if not 0 < n_points == len(labels):
        raise ModelError(f"the neighbors are {len(labels)} points, of a model of {n_points}")
    weights = arrays["weights"]
    if weights.shape != (n_features,) or weights.dtype != np.float32:
        raise ModelError(f"the neighbors are not of points with {n_features} features")
    if not (np.isfinite(weights).all() and weights.min() >= 0):
        raise ModelError("the weights of features of the neighbors must be finite and not negative")
    rarity, power = (real(name, about[name], 0, 100) for name in ("rarity", "power"))
    most = integer("max_comparisons", about.get("max_comparisons", Neighbors.max_comparisons), 1, MAX_WIDTH)
    index: NarrowPostings | VectorCells
    if about.get("index") == "cells":
        index = unpack_cells(arrays, about, n_points, n_features)
    else:
        index = _unpack_postings(arrays, n_points, n_features, may_be_dense="index" not in about)
    return Neighbors(index, labels, weights, rarity, power, n_centroids=n_centroids, max_comparisons=most)


def _unpack_postings(
    arrays: Arrays, n_points: int, n_features: int, *, may_be_dense: bool
) -> NarrowPostings | VectorCells:
    """Return the posting lists of sparse points. In version 0.1 they were floats, and held dense points too."""
    indptr, points = arrays["index.indptr"], arrays["index.indices"]
    points = points.astype(np.int32) if points.dtype == np.uint16 else points
    rows = narrow_rows("index.data", arrays, indptr)
    values = arrays["index.data"].astype(np.float32, copy=False)
    index = _rows("points", indptr, points, values, n_points)
    if len(index) != n_features:
        raise ModelError(f"the neighbors are not of points with {n_features} features")
    if rows is not None:
        return NarrowPostings.of(points, rows, n_points)
    return (cells_of_postings(index) if may_be_dense else None) or NarrowPostings.rounded(index)


def _rows(what: str, indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any], width: int) -> Rows:
    """Return rows after checking every number."""
    fits = indptr.ndim == 1 and len(indptr) and indptr[-1] == len(indices) == len(data)
    if not fits or indptr.dtype != np.int64 or indices.dtype != np.int32:
        raise ModelError(f"the row pointers of the {what} of the neighbors do not fit")
    return Rows.of(csr_array((data, indices, indptr), shape=(len(indptr) - 1, width)), keep_zeros=True)
