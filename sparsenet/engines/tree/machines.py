"""Linear machines of a label tree: their training parameters, their arrays, and beam search."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.rows import POINTS_AT_A_TIME, Rows
from sparsenet.engines.tree.tree_shape import CHILDREN
from sparsenet.kernels.types import F32, I8, I32, I64

#: Bytes for each point and node that it reaches: its number and the mask of its children there.
ROUTING_BYTES = 6
#: The default cost of an error (bench/notes/trees.md).
COST = 0.5
#: `Rules.others` and `Rules.rarity` for few labels per point, and the fraction of both for frequent labels. They
#: help rare labels, but cost accuracy if points have many labels (bench/notes/trees.md).
OTHERS, RARITY = 0.5, 0.25
OF_FREQUENT_LABELS = 1 / 3


@dataclass(frozen=True)
class Rules:
    """Training parameters of the machines.

    Attributes
    ----------
    cost : cost of an error on a positive, relative to the regulariser.
    others : cost of an error on a negative, relative to a positive.
    rarity : exponent of the ratio of a node's points to a child's points, which multiplies the cost of its positives.
    wrong_ways : nodes of each level that a point reaches by its scores, in addition to the nodes of its labels. These
        points are the hard negatives of the nodes below.
    epochs, tolerance : stopping rule of a node.
    smallest : rows whose weights are all smaller are dropped, given points of length 1.
    call_entries, thread_nodes : minimum entries of a training task, some tenths of a second, and minimum nodes for each
        thread. Progress and Ctrl-C are handled between tasks; the machines do not depend on it.
    shard_points : points that one task routes; the machines do not depend on it.
    """

    cost: float = COST
    others: float = 1.0
    rarity: float = 0.0
    wrong_ways: int = 10
    epochs: int = 7
    tolerance: float = 0.1
    smallest: float = 0.2
    call_entries: int = 1 << 22
    thread_nodes: int = 4
    shard_points: int = POINTS_AT_A_TIME

    def fitting(
        self,
        labels: Rows,
        counts: I64,
        labels_range: tuple[int, int] = (4, 16),
        points_range: tuple[int, int] = (128, 256),
    ) -> Self:
        """Choose `others` and `rarity` by the mean labels per point and the mean points per label (`counts`).

        `OTHERS` and `RARITY` fade to equal costs over `labels_range` labels per point, and to `OF_FREQUENT_LABELS` of
        their effect over `points_range` points per label.
        """
        labels_per_point, points_per_label = (
            len(labels.indices) / max(int(np.count_nonzero(counted)), 1) for counted in (np.diff(labels.indptr), counts)
        )
        few_points = _fade(points_per_label, *points_range)
        share = _fade(labels_per_point, *labels_range) * (few_points + OF_FREQUENT_LABELS * (1 - few_points))
        return replace(self, others=OTHERS**share, rarity=RARITY * share)


def _fade(mean: float, few: int, many: int) -> float:
    """Interpolate by the logarithm: 1 for `few` or less, 0 for `many` or more."""
    return min(max(math.log(many / max(mean, 1.0)) / math.log(many / few), 0.0), 1.0)


@dataclass(frozen=True)
class Level:
    """The machines of all nodes of a level, with 8-bit weights.

    Attributes
    ----------
    starts : (n_nodes + 1,): the rows of node b are ``starts[b] ... starts[b + 1] - 1``.
    features, factors : (rows,): the feature of each row, ascending within a node, and the scale of its weights.
    weights : (rows, 16), one column for each child.
    bias : (n_nodes, 16)
    children : see `Shape`.
    """

    starts: I64
    features: I32
    factors: F32
    weights: I8
    bias: F32
    children: I64

    def as_tuple(self) -> tuple[I64, I32, F32, I8, F32, I64]:
        """Return the arrays in the order of the kernels' arguments."""
        return self.starts, self.features, self.factors, self.weights, self.bias, self.children


def search(
    levels: list[Level], points: Rows, beam: int, k: int, threads: int, names: I32 | None = None
) -> tuple[I32, F32]:
    """Find the k best leaves of each point by beam search; return `names` of the leaves and log scores, (n, k) each.

    Without `names`, leaves are numbered. Ties go to the smaller one. Rows with fewer than k leaves are filled with -1.
    """
    names = np.arange(levels[-1].children[-1], dtype=np.int32) if names is None else names
    found, scores = np.empty((len(points), k), np.int32), np.empty((len(points), k), np.float32)
    machines, done = [level.as_tuple() for level in levels], 0
    for part in points.blocks(POINTS_AT_A_TIME):
        out = slice(done, done + len(part))
        point_arrays = (part.indptr, part.indices, part.data, part.width)
        kernels.search_tree(machines, *point_arrays, beam, names, found[out], scores[out], threads)
        done = out.stop
    return found, scores


def check(level: Level, n_features: int) -> None:
    """Reject malformed machines, as from a damaged file, with a ValueError."""
    n_nodes, n_rows = len(level.children) - 1, len(level.features)
    shapes: dict[str, tuple[NDArray[Any], type, tuple[int, ...]]] = {
        "starts": (level.starts, np.int64, (n_nodes + 1,)),
        "features": (level.features, np.int32, (n_rows,)),
        "factors": (level.factors, np.float32, (n_rows,)),
        "weights": (level.weights, np.int8, (n_rows, CHILDREN)),
        "bias": (level.bias, np.float32, (n_nodes, CHILDREN)),
    }
    for name, (array, dtype, shape) in shapes.items():
        if array.dtype != dtype or array.shape != shape:
            raise ValueError(f"{name} must be {np.dtype(dtype)} of shape {shape}, got {array.dtype} of {array.shape}")
        if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
            raise ValueError(f"{name} must be finite")
    if level.starts[0] != 0 or level.starts[-1] != n_rows or np.any(np.diff(level.starts) < 0):
        raise ValueError("starts must rise from 0 to the number of rows")
    if level.features.min(initial=0) < 0 or level.features.max(initial=0) >= n_features:
        raise ValueError("features must be columns of X")
    nodes = np.repeat(np.arange(n_nodes), np.diff(level.starts))
    if np.any(np.diff(nodes * np.int64(n_features) + level.features) <= 0):
        raise ValueError("features must ascend within a node")
