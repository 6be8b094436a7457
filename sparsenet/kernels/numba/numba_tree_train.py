"""Train the classifiers at the nodes of a label tree in Numba: see ``csrc/tree/train.cpp``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, parallel_for
from sparsenet.kernels.numba.numba_dual import dual_passes, dual_train, move_to_front, visit_points
from sparsenet.kernels.numba.numba_split_mix import split_mix
from sparsenet.kernels.types import F32, I8, I32, I64, U16

Node = tuple[I32, F32, I8, F32]

CHILDREN = 16
_NO_COST = np.float32(1e30)  # slack of a missing child, so that no point moves its machine
_64_BITS = (1 << 64) - 1


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
    nodes: list[Node] = [_empty_node()] * len(counts)

    def train(first: int, last: int) -> None:
        for node in range(first, last):
            own = slice(starts[node], starts[node + 1])
            slacks = _slacks(belongs[own], counts[node], (cost, cost_of_others, rarity))
            limits = (most_epochs, tolerance, int(split_mix(np.uint64((seed + node) & _64_BITS))))
            points = _gather_points(indptr, indices, data, squares, reached[own])
            nodes[node] = _quantize(*_train_node(*points, belongs[own], slacks, limits), np.float32(smallest))

    parallel_for(train, len(counts), threads)
    parts = [np.concatenate([part, *(node[i] for node in nodes)]) for i, part in enumerate(_empty_node())]
    features, factors, weights, bias = parts
    ends = np.cumsum([0, *(len(node[0]) for node in nodes)], dtype=np.int64)
    return ends, features, factors, weights, bias.reshape(-1, CHILDREN)


def _empty_node() -> Node:
    empty = np.empty(0, np.float32)
    return np.empty(0, np.int32), empty, np.empty((0, CHILDREN), np.int8), empty


def _gather_points(indptr: I64, indices: I32, data: F32, squares: F32, reached: I32) -> tuple[I32, I64, I32, F32, F32]:
    """Return the distinct features of the given points, and their rows with renumbered features."""
    begins = indptr[reached]
    pointers = np.append(0, np.cumsum(indptr[1:][reached] - begins))
    entries = np.repeat(begins - pointers[:-1], np.diff(pointers)) + np.arange(pointers[-1])
    features, places = np.unique(indices[entries], return_inverse=True)
    return features, pointers, places.astype(np.int32), data[entries], squares[reached]


def _slacks(belongs: U16, n_children: int, costs: tuple[float, float, float]) -> tuple[F32, F32]:
    """Return the slacks of positives and negatives of each child; positives of rare children cost more."""
    cost, cost_of_others, rarity = (np.float32(value) for value in costs)
    own = ((belongs[:, None] >> np.arange(n_children, dtype=np.uint16)) & 1).sum(axis=0)
    rare = np.float32(max(len(belongs), 1)) / np.maximum(own, 1).astype(np.float32)
    positive, negative = np.full(CHILDREN, _NO_COST), np.full(CHILDREN, _NO_COST)
    positive[:n_children] = np.float32(0.5) / (cost * rare**rarity)
    negative[:n_children] = np.float32(0.5) / cost_of_others
    return positive, negative


@checked(belongs="u16 n", features="i32 f")
def train_node_by_parts(
    read: Callable[[I32], tuple[I64, I32, F32, F32]],
    part_points: int,
    belongs: U16,
    features: I32,
    n_children: int,
    cost: float,
    cost_of_others: float,
    rarity: float,
    most_epochs: int,
    tolerance: float,
    seed: int,
    smallest: float,
) -> tuple[I64, I32, F32, I8, F32]:
    """See `sparsenet/_core.pyi`."""
    weight = np.zeros((len(features) + 1, CHILDREN), np.float32)
    slacks = _slacks(belongs, n_children, (cost, cost_of_others, rarity))

    def visit(order: I32, rest: np.float32, stride: np.float32, alpha: F32) -> tuple[int, np.float32]:
        kept, most = 0, np.float32(0)
        for first in range(0, len(order), part_points):
            own = order[first : first + part_points].copy()
            points, own_alpha = (*read(own), *_children(belongs[own])), alpha[own]
            local = np.arange(len(own), dtype=np.int32)
            active, violation = visit_points(points, slacks, 0, local, rest, stride, weight, own_alpha)
            alpha[own], is_active = own_alpha, np.zeros(len(own), np.bool_)
            is_active[local[:active]] = True
            kept, most = move_to_front(order, first, kept, is_active), max(most, violation)
        return kept, most

    own_seed = int(split_mix(np.uint64(seed & _64_BITS)))
    dual_passes(len(belongs), slacks[1], most_epochs, tolerance, own_seed, visit)
    kept_features, factors, weights, bias = _quantize(features, weight, np.float32(smallest))
    return np.array([0, len(factors)]), kept_features, factors, weights, bias[None].copy()


def _children(belongs: U16) -> tuple[I64, I32]:
    """Return row pointers and numbers of the children that each point belongs to."""
    member = (belongs[:, None] >> np.arange(CHILDREN, dtype=np.uint16)) & 1
    return np.append(0, np.cumsum(member.sum(axis=1, dtype=np.int64))), np.nonzero(member)[1].astype(np.int32)


def _train_node(
    features: I32,
    pointers: I64,
    places: I32,
    data: F32,
    squares: F32,
    belongs: U16,
    slacks: tuple[F32, F32],
    limits: tuple[int, float, int],
) -> tuple[I32, F32]:
    weight, epochs = np.zeros((1, len(features) + 1, CHILDREN), np.float32), np.zeros(1, np.int32)
    points = (pointers, places, data, squares, *_children(belongs))
    positive, negative = slacks
    dual_train(*points, 0, positive, negative, *limits, weight, epochs, 1)
    return features, weight[0]


def _quantize(features: I32, weight: F32, smallest: np.float32) -> Node:
    """Round the weights of a node to 8 bits, dropping rows with only negligible weights."""
    largest = np.abs(weight[:-1]).max(axis=1)
    kept = (largest >= smallest) & (largest > 0)
    factors = largest[kept] / np.float32(127)
    weights = np.rint(weight[:-1][kept] / factors[:, None]).astype(np.int8)
    return features[kept], factors, weights, weight[-1]
