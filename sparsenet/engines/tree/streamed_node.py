"""Train one node of a label tree on points that are read part by part, with the result of `train_nodes`, bit for bit.

Coordinate descent visits the points in random order, so each pass reads them again. Only a few numbers a point stay in
memory: its place in the order, its labels in the node, and its 16 dual variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sparsenet import kernels
from sparsenet.core.rows import Rows, RowSource
from sparsenet.engines.tree.machines import Rules
from sparsenet.engines.tree.tree_shape import CHILDREN
from sparsenet.kernels.types import F32, I8, I32, I64, U16

Part = tuple[I64, I32, F32, I8, F32]
#: As in csrc/engine/dual.cpp.
MAX_SHORT_PASSES, MAX_SHORT_STRIDES, PADDING = 4, 4, 1e29
_BITS = np.arange(CHILDREN, dtype=np.uint16)


@dataclass(frozen=True)
class _Node:
    """The points of a node, and their features numbered in ascending order by `places`."""

    points: RowSource
    reached: I32
    masks: U16
    squared: F32
    places: I32
    slacks: tuple[F32, F32]
    part_points: int

    def parts(self, n: int) -> Iterator[tuple[int, int]]:
        """Return the bounds of parts of `n` points that are read at a time."""
        return pairwise([*range(0, n, self.part_points), n])

    def visit(self, order: I32, active: int, rest: float, stride: float, weight: F32, alpha: F32) -> tuple[int, float]:
        """Visit the first `active` points of `order`; return how many violate optimality, and the largest violation."""
        kept, worst = 0, 0.0
        for begin, end in self.parts(active):
            own = order[begin:end].copy()
            rows, (members, labels) = self.points.take(self.reached[own].astype(np.int64)), _labels(self.masks[own])
            rows = Rows(rows.indptr, self.places[rows.indices], rows.data, len(weight) - 1)
            point_arrays = rows.indptr, rows.indices, rows.data, self.squared[self.reached[own]], members, labels
            own_alpha = alpha[own]
            kept, violation = kernels.dual_pass(
                *point_arrays, *self.slacks, order, begin, kept, rest, stride, weight, own_alpha
            )
            alpha[own] = own_alpha
            worst = max(worst, violation)
        return kept, worst


def train_streamed_node(
    points: RowSource,
    squared: F32,
    reached: I32,
    masks: U16,
    n_children: int,
    rules: Rules,
    seed: int,
    part_entries: int,
) -> Part:
    """Train the machines of a node, reading about `part_entries` entries of its points at a time."""
    part_points = max(part_entries * len(points) // max(points.n_entries, 1), 1)
    slacks = np.empty(CHILDREN, np.float32), np.empty(CHILDREN, np.float32)
    counts = np.zeros(CHILDREN, np.int64)
    for own in _cut(masks, part_points):
        counts += ((own[:, None] >> _BITS) & 1).sum(axis=0, dtype=np.int64)
    costs = rules.cost, rules.cost * rules.others, rules.rarity
    kernels.node_slacks(counts, len(masks), n_children, *costs, *slacks)
    places = np.full(points.width, -1, np.int32)
    for own in _cut(reached, part_points):
        places[points.take(own.astype(np.int64)).indices] = 0
    features = np.flatnonzero(places == 0).astype(np.int32)
    places[features] = np.arange(len(features))
    node = _Node(points, reached, masks, squared, places, slacks, part_points)
    return _rounded(features, _trained(node, len(features), rules, seed), np.float32(rules.smallest))


def _cut(numbers: I32 | U16, n: int) -> Iterator[I32 | U16]:
    return (numbers[begin : begin + n] for begin in range(0, len(numbers), n))


def _trained(node: _Node, n_features: int, rules: Rules, seed: int) -> F32:
    """Return the weights of the node, (n_features + 1, 16): the passes of csrc/engine/dual.cpp."""
    n, tolerance = len(node.reached), float(np.float32(rules.tolerance))
    weight, alpha = np.zeros((n_features + 1, CHILDREN), np.float32), np.zeros((n, CHILDREN), np.float32)
    is_padding = node.slacks[1] >= PADDING
    alpha[:, is_padding] = 1 / node.slacks[1][is_padding]
    order, n_drawn = np.arange(n, dtype=np.int32), 0
    active, in_a_row = n, 0
    for epoch in range(rules.epochs if n else 0):
        has_all = active == n
        in_a_row = 0 if has_all else in_a_row + 1
        kernels.shuffle_order(order[:active], seed, n_drawn)
        n_drawn += max(active - 1, 0)
        stride = _stride(epoch, rules.epochs)
        active, violation = node.visit(order, active, tolerance / 2, stride, weight, alpha)
        if violation > tolerance and active > 0 and in_a_row < MAX_SHORT_PASSES:
            continue
        if has_all and violation <= tolerance:
            break
        active = n
    return weight


def _stride(epoch: int, max_epochs: int) -> float:
    full = max_epochs - min(MAX_SHORT_STRIDES, max_epochs // 2)
    return 1.0 if epoch < full else 1 / (2 + epoch - full)


def _labels(masks: U16) -> tuple[I64, I32]:
    """Return row pointers and numbers of the children that each point belongs to."""
    is_member = ((masks[:, None] >> _BITS) & 1).astype(bool)
    pointers = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.count_nonzero(is_member, axis=1))))
    return pointers, np.nonzero(is_member)[1].astype(np.int32)


def _rounded(features: I32, weight: F32, smallest: np.float32) -> Part:
    """Round the weights to 8 bits, and drop rows whose weights are all smaller than `smallest`."""
    largest = np.abs(weight[:-1]).max(axis=1, initial=0)
    kept = (largest >= smallest) & (largest > 0)
    factors = largest[kept] / np.float32(127)
    weights = np.rint(weight[:-1][kept] / factors[:, None]).astype(np.int8)
    return np.array([0, len(factors)]), features[kept], factors, weights, weight[-1:].copy()
