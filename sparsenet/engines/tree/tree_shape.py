"""The shape of a label tree: similar labels share a node, similar nodes share a parent."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from sparsenet import kernels
from sparsenet.core.centroids import SUM_BYTES, centroids, label_blocks, lengths
from sparsenet.core.rows import Rows, RowSource, transpose
from sparsenet.core.scratch import Scratch, get_rows, put_rows
from sparsenet.core.tasks import Session, grouped
from sparsenet.kernels.types import I32, I64

#: Maximum children of a node, which the kernels train side by side.
CHILDREN = 16
#: Maximum number of root nodes, which are all scored for each point.
MAX_ROOTS = 4
#: A tree grows from the largest features of label centroids; more gain nothing (bench/notes/trees.md).
CENTROID_FEATURES = 128


@dataclass(frozen=True)
class Shape:
    """Nodes and leaves of a tree.

    Attributes
    ----------
    labels : the label of each leaf. Labels without points have no leaf.
    children : row pointers for each level from the root down. The children of node b are
        ``children[b] ... children[b + 1] - 1``: nodes of the next level, or leaves.
    """

    labels: I32
    children: list[I64]

    def parents(self, level: int) -> I64:
        """Return the parent of each child of a level."""
        counts = np.diff(self.children[level])
        return np.repeat(np.arange(len(counts)), counts)


def bytes_per_feature(n_labels: int, threads: int) -> float:
    """Return the bytes for each column that growing a tree takes, the peak of training."""
    sums = 1 if n_labels <= CHILDREN else 2  # sums of a label's points, or of both halves of a set of labels
    return sums * SUM_BYTES * min(threads, n_labels)


def grow(
    session: Session,
    points: RowSource,
    labels: Rows,
    seed: int,
    threads: int,
    *,
    centroid_features: int = CENTROID_FEATURES,
    n_rounds: int = 5,
    task_labels: int = 1 << 14,
) -> Shape:
    """Grow a tree by balanced spherical 2-means of the label centroids, from the top down.

    More `n_rounds` gain nothing (bench/notes/trees.md). The session has the "points" in its
    scratch. A task splits sets of at least `task_labels` labels; the shape does not depend on it.
    """
    of_label, scratch = transpose(labels), session.scratch
    used_labels = np.flatnonzero(np.diff(of_label.indptr)).astype(np.int32)
    put_rows(scratch, "points-by-label", of_label)
    blocks = label_blocks(points, of_label)
    del of_label  # the sums of many labels need the room
    session.run(sum_labels, [(block, *bounds, centroid_features, threads) for block, bounds in enumerate(blocks)])
    scratch.drop("points-by-label")
    session.run(join_sums, [(len(blocks),)])
    scratch.drop("sums")
    capacities = [CHILDREN]
    while -(-len(used_labels) // capacities[0]) > MAX_ROOTS:
        capacities.insert(0, capacities[0] * CHILDREN)
    order, starts, levels = used_labels, np.array([0, len(used_labels)]), []
    for level, capacity in enumerate(capacities):
        parts = -(-np.diff(starts) // capacity)
        plan = SplitPlan(seed + level, n_rounds, threads)
        order, starts = _split(session, plan, order, starts, parts, task_labels)
        levels.append((parts, starts))
    scratch.drop("centroids")
    # The children of a node are its parts; the children of the lowest nodes are labels.
    children = [np.concatenate(([0], np.cumsum(parts))) for parts, _ in levels[1:]]
    return Shape(order, [*children, levels[-1][1]])


def sum_labels(scratch: Scratch, block: int, first: int, last: int, budget: int, threads: int) -> None:
    """Keep the centroids of a block of labels, of unit length."""
    points, of_label = scratch.get_source("points"), get_rows(scratch, "points-by-label")
    put_rows(scratch, f"sums.{block}", _unit_length(centroids(points, of_label.slice(first, last), budget, threads)))


def join_sums(scratch: Scratch, n_blocks: int) -> None:
    """Put the centroids of all blocks of labels behind each other."""
    parts = [get_rows(scratch, f"sums.{block}") for block in range(n_blocks)]
    lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.indptr) for part in parts)])
    indices, data = (np.concatenate([getattr(part, name) for part in parts]) for name in ("indices", "data"))
    put_rows(scratch, "centroids", Rows(np.cumsum(lengths), indices, data, parts[0].width))


@dataclass(frozen=True)
class SplitPlan:
    """Settings of the tasks that split sets of labels: the seed of the first set, rounds of 2-means, threads."""

    seed: int
    n_rounds: int
    threads: int


def _split(session: Session, plan: SplitPlan, order: I32, starts: I64, parts: I64, task_labels: int) -> tuple[I32, I64]:
    """Split each set into parts of about equal size by repeated halving; return the labels and the parts' bounds."""
    while np.any(parts > 1):
        left_parts = parts // 2
        left = np.diff(starts) * left_parts // parts
        groups = grouped(np.arange(len(starts)), starts, task_labels, plan.threads)
        tasks = [
            (plan, first, order[starts[first] : starts[last]], starts[first : last + 1], left[first:last])
            for first, last in groups
        ]
        order = np.concatenate(session.run(split_range, tasks))
        cut = parts > 1
        middle = starts[:-1] + left
        parts = np.stack((np.where(cut, left_parts, parts), np.where(cut, parts - left_parts, 0)), axis=1).ravel()
        begins = np.stack((starts[:-1], middle), axis=1).ravel()
        starts, parts = np.append(begins[parts > 0], starts[-1]), parts[parts > 0]
    return order, starts


def split_range(scratch: Scratch, plan: SplitPlan, first: int, order: I32, starts: I64, left: I64) -> I32:
    """Split a range of sets from number `first` on; return their labels in the new order."""
    rows, order = get_rows(scratch, "centroids"), order.copy()
    row_arrays = (rows.indptr, rows.indices, rows.data, rows.width)
    kernels.split_sets(*row_arrays, starts - starts[0], left, plan.seed + first, plan.n_rounds, order, plan.threads)
    return order


def _unit_length(rows: Rows) -> Rows:
    length = lengths(rows)
    length[length == 0] = 1
    # In place: with millions of labels, these are gigabytes.
    rows.data[:] /= np.repeat(length.astype(np.float32), np.diff(rows.indptr))
    return rows


def check(shape: Shape, n_labels: int) -> None:
    """Reject a malformed tree, as from a damaged file, with a ValueError."""
    labels = shape.labels
    if labels.dtype != np.int32 or labels.ndim != 1 or labels.min(initial=0) < 0 or len(labels) == 0:
        raise ValueError("labels must be positions in classes")
    if any(pointers.dtype != np.int64 or pointers.ndim != 1 or len(pointers) < 2 for pointers in shape.children):
        raise ValueError("children must be row pointers")
    sizes = [len(pointers) - 1 for pointers in shape.children]
    for pointers, below in zip(shape.children, [*sizes[1:], len(labels)], strict=True):
        steps = np.diff(pointers)
        if pointers[0] != 0 or pointers[-1] != below or steps.min(initial=0) < 0 or steps.max(initial=0) > CHILDREN:
            raise ValueError(f"children must assign 0 to {CHILDREN} of the {below} nodes or leaves below to each node")
    if sizes[0] > MAX_ROOTS:
        raise ValueError(f"the top level of children must have at most {MAX_ROOTS} nodes, got {sizes[0]}")
    if any(above > below for above, below in pairwise([*sizes, len(labels)])):
        raise ValueError("a level must not have more nodes than the one below it")
    if labels.max(initial=0) >= n_labels or np.bincount(labels).max(initial=0) > 1:
        raise ValueError(f"labels must be positions among {n_labels}, each with one leaf at most")
