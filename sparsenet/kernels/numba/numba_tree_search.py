"""Beam search in a label tree in Numba: see ``csrc/tree/search.cpp``."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.numba.numba_heap import replace_worst, sort_heap
from sparsenet.kernels.numba.numba_tree_train import CHILDREN
from sparsenet.kernels.types import F32, I8, I32, I64, U8

Level = tuple[I64, I32, F32, I8, F32, I64]

_DECAY = np.float32(0.8)
_POINTS_AT_A_TIME = 1024
_NO_CHILD = np.iinfo(np.int32).max  # loses every tie


@checked(
    indptr="ptr n+1 nnz", indices="i32 >=nnz", data="f32 >=nnz", names="i32 l",
    leaves="out i32 n k", scores="out f32 n k",
)  # fmt: skip
def search_tree(
    levels: list[Level],
    indptr: I64,
    indices: I32,
    data: F32,
    n_features: int,
    beam: int,
    names: I32,
    leaves: I32,
    scores: F32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    _check_levels(levels)
    if beam < 1:
        raise ValueError(f"beam must be at least 1, got {beam}")
    if leaves.shape[1] < 1:
        raise ValueError("leaves must have a column for each leaf that is wanted")
    if len(names) != levels[-1][5][-1]:
        raise ValueError(f"names must have {levels[-1][5][-1]} entries, one for each of the leaves, got {len(names)}")
    points, out = (indptr, indices, data), (leaves, scores)
    parallel_for(_search_blocks, -(-len(leaves) // _POINTS_AT_A_TIME), threads, levels, points, beam, names, *out)


def _check_levels(levels: list[Level]) -> None:
    if not levels:
        raise ValueError("levels must not be empty")
    n_nodes = None
    for level in levels:
        if not isinstance(level, tuple) or len(level) != 6:
            raise ValueError("levels must each be a tuple of 6 arrays")
        starts, features, factors, weights, bias, children = level
        if getattr(weights, "dtype", None) != np.int8:
            raise ValueError(f"weights must have dtype int8, got {getattr(weights, 'dtype', type(weights).__name__)}")
        _check_level(starts, features, factors, weights.view(np.uint8), bias, children)
        if n_nodes is not None and len(starts) - 1 != n_nodes:
            raise ValueError("levels must each have as many nodes as the one above has children")
        n_nodes = children[-1]


@checked(starts="ptr b+1 r", features="i32 r", factors="f32 r", weights="u8 r _", bias="f32 b _", children="ptr b+1 c")
def _check_level(starts: I64, features: I32, factors: F32, weights: U8, bias: F32, children: I64) -> None:
    for name, array in (("weights", weights), ("bias", bias)):
        if array.shape[1] != CHILDREN:
            raise ValueError(f"{name} has shape[1] = {array.shape[1]}, expected {CHILDREN}")


def _search_blocks(
    first: int,
    last: int,
    levels: list[Level],
    points: tuple[I64, I32, F32],
    beam: int,
    names: I32,
    leaves: I32,
    scores: F32,
) -> None:
    for block in range(first, last):
        rows = slice(block * _POINTS_AT_A_TIME, min((block + 1) * _POINTS_AT_A_TIME, len(leaves)))
        n, n_roots = rows.stop - rows.start, len(levels[0][0]) - 1
        nodes = np.tile(np.arange(n_roots, dtype=np.int32), (n, 1))
        path_scores = np.zeros((n, n_roots), np.float32)
        for depth, level in enumerate(levels):
            below = depth + 1 < len(levels)
            most = min(beam, int(level[5][-1])) if below else leaves.shape[1]
            best: tuple[Any, Any] = np.empty((n, most), np.int32), np.empty((n, most), np.float32)
            own = np.arange(level[5][-1], dtype=np.int32) if below else names
            _expand_level(level, points, rows.start, nodes, path_scores, own, *best)  # type: ignore[no-untyped-call]
            nodes, path_scores = best
        leaves[rows], scores[rows] = nodes, path_scores


@jit
def _expand_level(level, points, first, nodes, path_scores, names, best, best_scores):  # type: ignore[no-untyped-def]
    """Find the names of the best children of each point's nodes, padded with -1."""
    children = level[5]
    sums = np.empty(CHILDREN, np.float32)
    best[:] = _NO_CHILD
    best_scores[:] = -np.inf
    for i in range(len(nodes)):
        ids, scores = best[i], best_scores[i]
        for at in range(nodes.shape[1]):
            node = nodes[i, at]
            if node < 0:
                break
            _score(level, points, first + i, node, sums)  # type: ignore[no-untyped-call]
            for child in range(children[node], children[node + 1]):
                penalty = _penalty(sums[child - children[node]])  # type: ignore[no-untyped-call]
                score = _DECAY * path_scores[i, at] + penalty
                if score > scores[0] or (score == scores[0] and names[child] < ids[0]):
                    replace_worst(ids, scores, names[child], score)
        sort_heap(ids, scores)
        for at in range(len(ids)):
            if ids[at] == _NO_CHILD:
                ids[at] = -1


@jit
def _score(level, points, i, node, sums):  # type: ignore[no-untyped-def]
    starts, features, factors, weights, bias, _ = level
    indptr, indices, data = points
    low, high = starts[node], starts[node + 1]
    sums[:] = bias[node]
    for j in range(indptr[i], indptr[i + 1]):
        row = low + np.searchsorted(features[low:high], indices[j])
        if row < high and features[row] == indices[j]:
            x = data[j] * factors[row]
            for c in range(CHILDREN):
                sums[c] += x * np.float32(weights[row, c])


@jit
def _penalty(score):  # type: ignore[no-untyped-def]
    """Return the log-probability penalty of a machine's score: zero from 1 on."""
    if score >= np.float32(1):
        return np.float32(0)
    miss = np.float32(1) - score
    return -miss * miss * miss if miss > 0 else np.float32(-np.inf)  # NaN is the worst score
