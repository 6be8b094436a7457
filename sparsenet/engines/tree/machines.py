"""What decides in a tree: the machines of each level, trained from the root down, and asked with a beam."""

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
#: Entries of points that a call of the kernel trains on at least, some tenths of a second, and nodes for each thread:
#: between two calls progress is told, and Ctrl-C heard.
LEAST_ENTRIES, NODES_A_THREAD = 1 << 22, 4
#: What an error costs where nothing is known of the data (bench/notes/trees.md, Passes, rows, nodes, growing).
COST = 0.5
#: What `others` and `rarity` of `Rules` are where points have at most the first number of labels, and labels at most
#: the first number of points, in the mean. With more labels they come nearer to errors that all count alike, and with
#: the second number they are there; with more points a third of it is left. Held out, P@1 and P@5 gain 2.4 and 1.8
#: points on calls of functions, 0.7 and 1.2 on wordnet, 0.3 and 0.9 on reddit-l; on delicious, where a point has 19
#: labels, they would lose 2.2 and 1.4. Where labels have hundreds of points, the third to fifth label gains (0.2 to 0.6
#: points with a third of it), and with more of it probabilities would be too high (bench/notes/trees.md).
OTHERS, RARITY = 0.5, 0.25
LABELS_A_POINT, POINTS_A_LABEL = (4, 16), (128, 256)
OF_FREQUENT_LABELS = 1 / 3


@dataclass(frozen=True)
class Rules:
    """How machines are trained.

    Attributes
    ----------
    cost : of an error on a point that is a child's, against the length of the weights.
    others : how much as much an error costs on a point that is not.
    rarity : the fewer points of its node are a child's, the more one of them costs: by that ratio to this power.
    wrong_ways : to how many nodes of each level a point is led by its scores, beside those that its labels are in: what
        does not belong there has to be told from what does.
    epochs, tolerance : when training a node ends.
    smallest : rows of weights that are all smaller are left out, with points of length 1.
    """

    cost: float = COST
    others: float = 1.0
    rarity: float = 0.0
    wrong_ways: int = 10
    epochs: int = 7
    tolerance: float = 0.1
    smallest: float = 0.2

    def fitting(self, labels: Rows, counts: I64) -> Self:
        """Return the rules with `others` and `rarity` as labels want them of which each has `counts` points."""
        labels_a_point, points_a_label = (
            len(labels.indices) / max(int(np.count_nonzero(held)), 1) for held in (np.diff(labels.indptr), counts)
        )
        rare = _fewness(points_a_label, *POINTS_A_LABEL)
        share = _fewness(labels_a_point, *LABELS_A_POINT) * (rare + OF_FREQUENT_LABELS * (1 - rare))
        return replace(self, others=OTHERS**share, rarity=RARITY * share)


def _fewness(mean: float, few: int, many: int) -> float:
    """Return 1 for few or less, 0 for many or more, and what lies between by the logarithm."""
    return min(max(math.log(many / max(mean, 1.0)) / math.log(many / few), 0.0), 1.0)


@dataclass(frozen=True)
class Level:
    """The machines of the nodes of a level; weights are 8 bits wide.

    Attributes
    ----------
    starts : (n_nodes + 1,): the rows of node b are ``starts[b] ... starts[b + 1] - 1``.
    features, factors : (rows,): the feature of each row, ascending within a node, and what its weights are times.
    weights : (rows, 16), a column for each child.
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
        """Return the arrays in the order in which kernels take them."""
        return self.starts, self.features, self.factors, self.weights, self.bias, self.children


def search(
    levels: list[Level], points: Rows, beam: int, k: int, threads: int, names: I32 | None = None
) -> tuple[I32, F32]:
    """Return the k best children of the lowest level, (n, k), -1 where the beam meets fewer, and their log scores.

    They are called by `names` if these are given, else by their numbers, the smaller first where scores are equal.
    """
    names = np.arange(levels[-1].children[-1], dtype=np.int32) if names is None else names
    found, scores = np.empty((len(points), k), np.int32), np.empty((len(points), k), np.float32)
    machines, done = [level.as_tuple() for level in levels], 0
    for part in points.blocks(POINTS_AT_A_TIME):
        out = slice(done, done + len(part))
        about_points = (part.indptr, part.indices, part.data, part.width)
        kernels.search_tree(machines, *about_points, beam, names, found[out], scores[out], threads)
        done = out.stop
    return found, scores


def train(
    shape: Shape, points: Rows, labels: Rows, rules: Rules, seed: int, threads: int, told: Callable[[float], object]
) -> list[Level]:
    """Train all machines, a level at a time: which points reach a node is known when those above it are trained.

    `told` hears what share of the whole, 1, is done since: by how many points each node is trained on.
    """
    own, squared = _ways(shape, labels), squares(points)
    if not np.isfinite(squared).all():
        raise ValueError("X holds numbers whose squares are beyond float32: set normalize='rows' or 'columns'")
    # All points go to all upper nodes, and then to as many as they are led to: the best guess of what is to come.
    widths = [len(children) - 1 for children in shape.children]
    ways = [widths[0], *(min(rules.wrong_ways, width) for width in widths[1:])]
    levels: list[Level] = []
    for depth, children in enumerate(shape.children):
        if depth == 0:
            led = np.tile(np.arange(widths[0], dtype=np.int32), (len(points), 1))
        else:
            led, _ = search(levels, points, ways[depth], ways[depth], threads)
        arrivals = _arrivals(led, own[depth], shape.parents(depth), children)
        share = ways[depth] / sum(ways)
        levels.append(_trained(points, squared, arrivals, children, rules, seed + depth, threads, share, told))
    return levels


def _ways(shape: Shape, labels: Rows) -> list[tuple[I64, I64]]:
    """Return for each level pairs of a point and a child of the level that one of the point's labels is under."""
    leaf_of = np.full(labels.width, -1, np.int64)
    leaf_of[shape.labels] = np.arange(len(shape.labels))
    points = np.repeat(np.arange(len(labels)), np.diff(labels.indptr))
    child = leaf_of[labels.indices]
    ways = [(points, child)]
    for depth in range(len(shape.children) - 1, 0, -1):
        n = len(shape.children[depth]) - 1
        keys = _distinct(points * n + shape.parents(depth)[child])
        points, child = keys // n, keys % n
        ways.insert(0, (points, child))
    return ways


def _distinct(keys: I64) -> I64:
    """Return each key once, ascending: by sorting, which takes a third of the time of NumPy's hashing."""
    keys = np.sort(keys)
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys


def _arrivals(led: I32, own: tuple[I64, I64], parents: I64, children: I64) -> tuple[I64, I32, U16]:
    """Return which points reach each node, and a bit for each child that they belong to: pointers, points, bits."""
    n = len(led)
    points, child = own
    here = parents[child] * n + points
    there = led.ravel().astype(np.int64) * n + np.repeat(np.arange(n), led.shape[1])
    keys = _distinct(np.concatenate((here, there[led.ravel() >= 0])))
    bits = np.left_shift(1, child - children[parents[child]])
    belongs = np.bincount(np.searchsorted(keys, here), bits, minlength=len(keys)).astype(np.uint16)
    starts = np.searchsorted(keys, np.arange(len(children)) * n)
    return starts, (keys % n).astype(np.int32), belongs


def _trained(
    points: Rows,
    squared: F32,
    arrivals: tuple[I64, I32, U16],
    children: I64,
    rules: Rules,
    seed: int,
    threads: int,
    share: float,
    told: Callable[[float], object],
) -> Level:
    starts, reached, belongs = arrivals
    about_points = (points.indptr, points.indices, points.data, points.width, squared)
    entries = np.append(0, np.cumsum(np.diff(points.indptr)[reached] + 1))[starts]
    costs = rules.cost, rules.cost * rules.others, rules.rarity
    parts: list[Part] = []
    for nodes in _groups(entries, NODES_A_THREAD * threads):
        own = slice(starts[nodes.start], starts[nodes.stop])
        about_nodes = (
            starts[nodes.start : nodes.stop + 1] - starts[nodes.start],
            reached[own],
            belongs[own],
            children[nodes.start : nodes.stop + 1] - children[nodes.start],
        )
        # A node's seed is its own, however they are grouped, which depends on threads.
        how: tuple[Any, ...] = (rules.epochs, rules.tolerance, seed + nodes.start, rules.smallest, threads)
        parts.append(kernels.train_nodes(*about_points, *about_nodes, *costs, *how))
        told(share * float((entries[nodes.stop] - entries[nodes.start]) / max(entries[-1], 1)))
    ends = np.cumsum([0, *(part[0][-1] for part in parts)])
    pointers = np.concatenate([[0], *(part[0][1:] + end for part, end in zip(parts, ends, strict=False))])
    features, factors, weights, bias = (np.concatenate([part[i] for part in parts]) for i in range(1, 5))
    return Level(pointers.astype(np.int64), features, factors, weights, bias, children)


def _groups(entries: I64, fewest: int) -> Iterator[slice]:
    """Cut the nodes, before each of which there are so many entries, into groups of enough nodes and entries."""
    begin, n_nodes = 0, len(entries) - 1
    while begin < n_nodes:
        enough = int(np.searchsorted(entries, entries[begin] + LEAST_ENTRIES))
        end = min(max(enough, begin + fewest), n_nodes)
        yield slice(begin, end)
        begin = end


def check(level: Level, n_features: int) -> None:
    """Refuse in words machines, such as some that were read, that fit no node or no feature."""
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
            raise ValueError(f"{name} holds what is not finite")
    if level.starts[0] != 0 or level.starts[-1] != n_rows or np.any(np.diff(level.starts) < 0):
        raise ValueError("starts must rise from 0 to the number of rows")
    if level.features.min(initial=0) < 0 or level.features.max(initial=0) >= n_features:
        raise ValueError("features must be columns of X")
    nodes = np.repeat(np.arange(n_nodes), np.diff(level.starts))
    if np.any(np.diff(nodes * np.int64(n_features) + level.features) <= 0):
        raise ValueError("features must ascend within a node")
