"""Train one node of a label tree on points that are read part by part: bit for bit the result of `train_nodes`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sparsenet import kernels
from sparsenet.core.rows import RowSource
from sparsenet.engines.tree.machines import Rules
from sparsenet.kernels.types import F32, I8, I32, I64, U16

Part = tuple[I64, I32, F32, I8, F32]


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
    """Train the machines of a node, reading about `part_entries` entries of its points at a time.

    Coordinate descent visits the points in random order, so each pass reads them again.
    """
    part_points = max(part_entries * len(points) // max(points.n_entries, 1), 1)
    places = np.full(points.width, -1, np.int32)
    for own in _cut(reached, part_points):
        places[points.take(own.astype(np.int64)).indices] = 0
    features = np.flatnonzero(places == 0).astype(np.int32)
    places[features] = np.arange(len(features))

    def read(numbers: I32) -> tuple[I64, I32, F32, F32]:
        own = reached[numbers]
        rows = points.take(own.astype(np.int64))
        return rows.indptr, places[rows.indices], rows.data, squared[own]

    costs = rules.cost, rules.cost * rules.others, rules.rarity
    settings: tuple[Any, ...] = rules.epochs, rules.tolerance, seed, rules.smallest
    part: Part = kernels.train_node_by_parts(read, part_points, masks, features, n_children, *costs, *settings)
    return part


def _cut(numbers: I32, n: int) -> Iterator[I32]:
    return (numbers[begin : begin + n] for begin in range(0, len(numbers), n))
