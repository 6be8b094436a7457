"""Linear machines of a label tree: training from the root down, and beam search."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.rows import POINTS_AT_A_TIME, Rows, squares
from sparsenet.engines.tree.tree_shape import CHILDREN, Shape
from sparsenet.kernels.types import F32, I8, I32, I64, U16

Part = tuple[I64, I32, F32, I8, F32]
OnProgress = Callable[[float], object]
#: Bytes for each point and node that it reaches, while the points of a level are sorted by node.
ROUTING_BYTES = 40
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
    call_entries, thread_nodes : minimum entries of a kernel call, some tenths of a second, and minimum nodes for each
        thread. Progress and Ctrl-C are handled between calls; the machines do not depend on it.
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


def train(
    shape: Shape, points: Rows, labels: Rows, rules: Rules, seed: int, threads: int, on_progress: OnProgress
) -> list[Level]:
    """Train all machines, level by level: the trained upper levels determine which points reach a node.

    `on_progress` receives the fraction of the work done since its last call; all shares sum to 1.
    """
    true_children, squared = _true_children(shape, labels), squares(points)
    if not np.isfinite(squared).all():
        raise ValueError("X contains values whose squares overflow float32: set normalize='rows' or 'columns'")
    # Points reach all root nodes, then `wrong_ways` nodes of each level. This also estimates the work of a level.
    widths = [len(children) - 1 for children in shape.children]
    beams = [widths[0], *(min(rules.wrong_ways, width) for width in widths[1:])]
    levels: list[Level] = []
    for depth, children in enumerate(shape.children):
        if depth == 0:
            routed = np.tile(np.arange(widths[0], dtype=np.int32), (len(points), 1))
        else:
            routed, _ = search(levels, points, beams[depth], beams[depth], threads)
        arrivals = _arrivals(routed, true_children[depth], shape.parents(depth), children)
        share = beams[depth] / sum(beams)
        work = points, squared, arrivals, children
        levels.append(_train_level(*work, rules, seed + depth, threads, share, on_progress))
    return levels


def _true_children(shape: Shape, labels: Rows) -> list[tuple[I64, I64]]:
    """Return for each level the pairs of a point and a child that contains one of its labels."""
    leaf_of = np.full(labels.width, -1, np.int64)
    leaf_of[shape.labels] = np.arange(len(shape.labels))
    points = np.repeat(np.arange(len(labels)), np.diff(labels.indptr))
    child = leaf_of[labels.indices]
    levels = [(points, child)]
    for depth in range(len(shape.children) - 1, 0, -1):
        n = len(shape.children[depth]) - 1
        keys = _distinct(points * n + shape.parents(depth)[child])
        points, child = keys // n, keys % n
        levels.insert(0, (points, child))
    return levels


def _distinct(keys: I64) -> I64:
    """Return the distinct keys, ascending; sorting is 3 times as fast as NumPy's hashing."""
    keys = np.sort(keys)
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys


def _arrivals(routed: I32, true_pairs: tuple[I64, I64], parents: I64, children: I64) -> tuple[I64, I32, U16]:
    """Return the points that reach each node, and bit masks of their true children: pointers, points, masks."""
    n = len(routed)
    points, child = true_pairs
    true_keys = parents[child] * n + points
    routed_keys = routed.ravel().astype(np.int64) * n + np.repeat(np.arange(n), routed.shape[1])
    keys = _distinct(np.concatenate((true_keys, routed_keys[routed.ravel() >= 0])))
    bits = np.left_shift(1, child - children[parents[child]])
    masks = np.bincount(np.searchsorted(keys, true_keys), bits, minlength=len(keys)).astype(np.uint16)
    starts = np.searchsorted(keys, np.arange(len(children)) * n)
    return starts, (keys % n).astype(np.int32), masks


def _train_level(
    points: Rows,
    squared: F32,
    arrivals: tuple[I64, I32, U16],
    children: I64,
    rules: Rules,
    seed: int,
    threads: int,
    share: float,
    on_progress: OnProgress,
) -> Level:
    starts, reached, masks = arrivals
    point_arrays = (points.indptr, points.indices, points.data, points.width, squared)
    entries = np.append(0, np.cumsum(np.diff(points.indptr)[reached] + 1))[starts]
    costs = rules.cost, rules.cost * rules.others, rules.rarity
    parts: list[Part] = []
    for nodes in _group_nodes(entries, rules.call_entries, rules.thread_nodes * threads):
        own = slice(starts[nodes.start], starts[nodes.stop])
        node_arrays = (
            starts[nodes.start : nodes.stop + 1] - starts[nodes.start],
            reached[own],
            masks[own],
            children[nodes.start : nodes.stop + 1] - children[nodes.start],
        )
        # Seeds depend on the node alone, since the groups depend on the number of threads.
        settings: tuple[Any, ...] = (rules.epochs, rules.tolerance, seed + nodes.start, rules.smallest, threads)
        parts.append(kernels.train_nodes(*point_arrays, *node_arrays, *costs, *settings))
        on_progress(share * float((entries[nodes.stop] - entries[nodes.start]) / max(entries[-1], 1)))
    ends = np.cumsum([0, *(part[0][-1] for part in parts)])
    pointers = np.concatenate([[0], *(part[0][1:] + end for part, end in zip(parts, ends, strict=False))])
    features, factors, weights, bias = (np.concatenate([part[i] for part in parts]) for i in range(1, 5))
    return Level(pointers.astype(np.int64), features, factors, weights, bias, children)


def _group_nodes(entries: I64, min_entries: int, min_nodes: int) -> Iterator[slice]:
    """Group nodes so that each call has enough work; `entries` counts the entries before each node."""
    begin, n_nodes = 0, len(entries) - 1
    while begin < n_nodes:
        enough = int(np.searchsorted(entries, entries[begin] + min_entries))
        end = min(max(enough, begin + min_nodes), n_nodes)
        yield slice(begin, end)
        begin = end


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
