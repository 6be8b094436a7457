"""Classifiers in a tree of labels, in Numba: what ``csrc/tree.cpp`` does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.kernels._numba_common import F32, I32, I64, U8, checked, jit, parallel_for
from sparsenet.kernels._numba_dual import dual_train
from sparsenet.kernels._numba_heap import replace_worst, sort_heap

I8 = NDArray[np.int8]
U16 = NDArray[np.uint16]
Node = tuple[I32, F32, I8, F32]
Level = tuple[I64, I32, F32, I8, F32, I64]

CHILDREN = 16
_NO_COST = np.float32(1e30)  # of a child that is not there: no point moves its machine
_FADING = np.float32(0.8)
_POINTS_AT_A_TIME = 1024
_NOBODY = np.iinfo(np.int32).max  # worse than any child of the same score
_64_BITS = (1 << 64) - 1


# --- growing: 2-means ----------------------------------------------------------------------------------------


@checked(
    indptr="ptr r+1 nnz", indices="i32 >=nnz", data="f32 >=nnz", starts="ptr s+1 m", left="i64 s", order="out i32 m"
)
def split_sets(
    indptr: I64,
    indices: I32,
    data: F32,
    n_features: int,
    starts: I64,
    left: I64,
    seed: int,
    most_rounds: int,
    order: I32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    rows, limits = (indptr, indices, data), (n_features, np.uint64(seed), most_rounds)
    parallel_for(_split_sets, len(left), threads, rows, limits, starts, left, order)


@jit
def _split_sets(first, last, rows, limits, starts, left, order):  # type: ignore[no-untyped-def]
    n_features, seed, most_rounds = limits
    sums = np.zeros((2, n_features), np.float32)
    for b in range(first, last):
        own, n_left = order[starts[b] : starts[b + 1]], left[b]
        n = len(own)
        if n_left <= 0 or n_left >= n:
            continue
        random = _mixed(seed + np.uint64(b))
        one = np.int64(random % np.uint64(n))
        other = (one + 1 + np.int64((random >> np.uint64(32)) % np.uint64(n - 1))) % n
        sides = (own[one : one + 1].copy(), own[other : other + 1].copy())
        for _ in range(most_rounds):
            nearer = _nearer_to_left(rows, sides, own, sums)  # type: ignore[no-untyped-call]
            if not _divide(own, nearer, n_left):  # type: ignore[no-untyped-call]
                break
            sides = (own[:n_left].copy(), own[n_left:].copy())


@jit
def _mixed(seed: np.uint64) -> np.uint64:
    """Return random bits: the step of SplitMix64."""
    z = seed * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@jit
def _nearer_to_left(rows, sides, own, sums):  # type: ignore[no-untyped-def]
    """Return how much nearer each row is to the sum of one side than to that of the other; `sums` stays zero."""
    indptr, indices, data = rows
    nearer, signs = np.zeros(len(own), np.float32), (np.float32(1), np.float32(-1))
    for side in range(2):
        total, members = sums[side], sides[side]
        for i in members:
            for j in range(indptr[i], indptr[i + 1]):
                total[indices[j]] += data[j]
        dots = np.zeros(len(own), np.float32)
        for at in range(len(own)):
            for j in range(indptr[own[at]], indptr[own[at] + 1]):
                dots[at] += data[j] * total[indices[j]]
        nearer += dots * (signs[side] * _inverse_length(rows, members, total))  # type: ignore[no-untyped-call]
    return nearer


@jit
def _inverse_length(rows, members, total):  # type: ignore[no-untyped-def]
    """Return one by the length of a sum of rows, and make it zero again, so that each feature counts once."""
    indptr, indices, _ = rows
    squares = 0.0
    for i in members:
        for j in range(indptr[i], indptr[i + 1]):
            squares += np.float64(total[indices[j]]) ** 2
            total[indices[j]] = 0
    return np.float32(1 / np.sqrt(squares)) if squares > 0 else np.float32(0)


@jit
def _divide(own, nearer, n_left):  # type: ignore[no-untyped-def]
    """Have `own` begin with the rows nearest to the left, the smaller number first; tell whether others than before."""
    by_number = np.argsort(own)
    best = by_number[np.argsort(-nearer[by_number], kind="mergesort")]
    left, right = np.sort(own[best[:n_left]]), np.sort(own[best[n_left:]])
    if np.all(left == np.sort(own[:n_left])):
        return False
    own[:n_left] = left
    own[n_left:] = right
    return True


# --- training ------------------------------------------------------------------------------------------------


@checked(
    indptr="ptr n+1 nnz", indices="i32 >=nnz", data="f32 >=nnz", squares="f32 n", starts="ptr b+1 r",
    reached="i32 r", belongs="u16 r", children="ptr b+1 c",
)  # fmt: skip
def train_nodes(
    indptr: I64,
    indices: I32,
    data: F32,
    n_features: int,
    squares: F32,
    starts: I64,
    reached: I32,
    belongs: U16,
    children: I64,
    cost: float,
    cost_of_others: float,
    rarity: float,
    most_epochs: int,
    tolerance: float,
    seed: int,
    smallest: float,
    threads: int,
) -> tuple[I64, I32, F32, I8, F32]:
    """See `sparsenet/_core.pyi`."""
    counts = np.diff(children)
    wrong = counts[(counts < 0) | (counts > CHILDREN)]
    if len(wrong):
        raise ValueError(f"children must give each node 0 to {CHILDREN} children, got {wrong[0]}")
    found: list[Node] = [_nothing()] * len(counts)

    def train(first: int, last: int) -> None:
        for node in range(first, last):
            own = slice(starts[node], starts[node + 1])
            slacks = _slacks(belongs[own], counts[node], (cost, cost_of_others, rarity))
            limits = (most_epochs, tolerance, int(_mixed(np.uint64((seed + node) & _64_BITS))))
            points = _gathered(indptr, indices, data, squares, reached[own])
            found[node] = _rounded(*_trained(*points, belongs[own], slacks, limits), np.float32(smallest))

    parallel_for(train, len(counts), threads)
    parts = [np.concatenate([part, *(node[i] for node in found)]) for i, part in enumerate(_nothing())]
    features, factors, weights, bias = parts
    ends = np.cumsum([0, *(len(node[0]) for node in found)], dtype=np.int64)
    return ends, features, factors, weights, bias.reshape(-1, CHILDREN)


def _nothing() -> Node:
    empty = np.empty(0, np.float32)
    return np.empty(0, np.int32), empty, np.empty((0, CHILDREN), np.int8), empty


def _gathered(indptr: I64, indices: I32, data: F32, squares: F32, reached: I32) -> tuple[I32, I64, I32, F32, F32]:
    """Return the features of these points, and their rows with features numbered in that order."""
    begins = indptr[reached]
    pointers = np.append(0, np.cumsum(indptr[1:][reached] - begins))
    entries = np.repeat(begins - pointers[:-1], np.diff(pointers)) + np.arange(pointers[-1])
    features, places = np.unique(indices[entries], return_inverse=True)
    return features, pointers, places.astype(np.int32), data[entries], squares[reached]


def _slacks(belongs: U16, n_children: int, costs: tuple[float, float, float]) -> tuple[F32, F32]:
    """Return the slacks of points of each child, and of others: the fewer of its own there are, the more each costs."""
    cost, cost_of_others, rarity = (np.float32(value) for value in costs)
    own = ((belongs[:, None] >> np.arange(n_children, dtype=np.uint16)) & 1).sum(axis=0)
    rare = np.float32(max(len(belongs), 1)) / np.maximum(own, 1).astype(np.float32)
    positive, negative = np.full(CHILDREN, _NO_COST), np.full(CHILDREN, _NO_COST)
    positive[:n_children] = np.float32(0.5) / (cost * rare**rarity)
    negative[:n_children] = np.float32(0.5) / cost_of_others
    return positive, negative


def _trained(
    features: I32,
    pointers: I64,
    places: I32,
    data: F32,
    squares: F32,
    belongs: U16,
    slacks: tuple[F32, F32],
    limits: tuple[int, float, int],
) -> tuple[I32, F32]:
    member = (belongs[:, None] >> np.arange(CHILDREN, dtype=np.uint16)) & 1
    labels = np.nonzero(member)[1].astype(np.int32)
    label_pointers = np.append(0, np.cumsum(member.sum(axis=1, dtype=np.int64)))
    weight, epochs = np.zeros((1, len(features) + 1, CHILDREN), np.float32), np.zeros(1, np.int32)
    points = (pointers, places, data, squares, label_pointers, labels)
    positive, negative = slacks
    dual_train(*points, 0, positive, negative, *limits, weight, epochs, 1)
    return features, weight[0]


def _rounded(features: I32, weight: F32, smallest: np.float32) -> Node:
    """Round the weights of a node to 8 bits, without the rows in which none matters."""
    largest = np.abs(weight[:-1]).max(axis=1)
    kept = (largest >= smallest) & (largest > 0)
    factors = largest[kept] / np.float32(127)
    weights = np.rint(weight[:-1][kept] / factors[:, None]).astype(np.int8)
    return features[kept], factors, weights, weight[-1]


# --- search --------------------------------------------------------------------------------------------------


@checked(indptr="ptr n+1 nnz", indices="i32 >=nnz", data="f32 >=nnz", leaves="out i32 n k", scores="out f32 n k")
def search_tree(
    levels: list[Level],
    indptr: I64,
    indices: I32,
    data: F32,
    n_features: int,
    beam: int,
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
    points = (indptr, indices, data)
    parallel_for(_search_blocks, -(-len(leaves) // _POINTS_AT_A_TIME), threads, levels, points, beam, leaves, scores)


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
    first: int, last: int, levels: list[Level], points: tuple[I64, I32, F32], beam: int, leaves: I32, scores: F32
) -> None:
    for block in range(first, last):
        rows = slice(block * _POINTS_AT_A_TIME, min((block + 1) * _POINTS_AT_A_TIME, len(leaves)))
        n, n_roots = rows.stop - rows.start, len(levels[0][0]) - 1
        nodes = np.tile(np.arange(n_roots, dtype=np.int32), (n, 1))
        so_far = np.zeros((n, n_roots), np.float32)
        for depth, level in enumerate(levels):
            below = depth + 1 < len(levels)
            most = min(beam, int(level[5][-1])) if below else leaves.shape[1]
            best: tuple[Any, Any] = np.empty((n, most), np.int32), np.empty((n, most), np.float32)
            _go_down(level, points, rows.start, nodes, so_far, *best)  # type: ignore[no-untyped-call]
            nodes, so_far = best
        leaves[rows], scores[rows] = nodes, so_far


@jit
def _go_down(level, points, first, nodes, so_far, best, best_scores):  # type: ignore[no-untyped-def]
    """Find of all children of each point's nodes the best; where there are fewer, -1."""
    children = level[5]
    sums = np.empty(CHILDREN, np.float32)
    best[:] = _NOBODY
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
                score = _FADING * so_far[i, at] + penalty
                if score > scores[0] or (score == scores[0] and child < ids[0]):
                    replace_worst(ids, scores, child, score)
        sort_heap(ids, scores)
        for at in range(len(ids)):
            if ids[at] == _NOBODY:
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
    """Return the logarithm of what a machine's score does to that of its node: nothing from 1 on."""
    if score >= np.float32(1):
        return np.float32(0)
    miss = np.float32(1) - score
    return -miss * miss * miss if miss > 0 else np.float32(-np.inf)  # what is no number is worst
