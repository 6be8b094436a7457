"""Train the machines of a label tree level by level, as tasks over ranges of points and of nodes.

A first task for each shard of points finds the nodes of the level that these points reach. A second one for each range
of nodes gathers the points of its nodes from all shards and trains their machines. Both depend on their numbers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsenet import kernels
from sparsenet.core.machine import release_memory
from sparsenet.core.narrow_rows import to_bfloat16
from sparsenet.core.rows import Rows, RowSource, squares
from sparsenet.core.scratch import Scratch, get_rows, put_rows
from sparsenet.core.tasks import Session, grouped
from sparsenet.engines.tree.machines import Level, Rules, search
from sparsenet.engines.tree.streamed_node import Part, train_streamed_node
from sparsenet.engines.tree.tree_memory import TreeMemory
from sparsenet.engines.tree.tree_shape import Shape
from sparsenet.kernels.types import F32, I32, I64, U16

OnProgress = Callable[[float], object]
#: The work of a level is measured in at most this many ranges of nodes; a task takes one or more.
MAX_RANGES = 1 << 12
#: A node whose points do not fit into a task reads them in parts of the entries of a task divided by this.
STREAMED_PARTS = 16
#: Every `SAMPLED`-th task of a level comes first; the memory of the others is estimated from them.
SAMPLED = 16


@dataclass(frozen=True)
class LevelPlan:
    """Settings of the tasks of a level.

    Attributes
    ----------
    depth : number of levels above.
    beam : nodes that each point reaches by its scores.
    n_shards : shards of the points.
    rules : Rules
    seed : the seed of the first node.
    threads : threads of a task.
    """

    depth: int
    beam: int
    n_shards: int
    rules: Rules
    seed: int
    threads: int


def train(
    session: Session,
    shape: Shape,
    points: RowSource,
    labels: Rows,
    rules: Rules,
    seed: int,
    threads: int,
    on_progress: OnProgress,
    levels: list[Level],
    on_level: Callable[[], object] = lambda: None,
    memory: TreeMemory | None = None,
) -> None:
    """Train all machines, level by level: the trained upper levels determine which points reach a node.

    The session has the "points" in its scratch. `levels` has the trained levels and gets the others; each time,
    `on_level` is called. `on_progress` receives the fraction of the work done since its last call; all shares sum to 1.
    `memory` announces the bytes of each step.
    """
    memory = TreeMemory.of((points, labels), rules, threads) if memory is None else memory
    squared = squares(points)
    if not np.isfinite(squared).all():
        raise ValueError("X contains values whose squares overflow float32: set normalize='rows' or 'columns'")
    put_rows(session.scratch, "labels", labels)
    session.scratch.put("squares", squared)
    # Points reach all root nodes, then `wrong_ways` nodes of each level. This also estimates the work of a level.
    widths = [len(children) - 1 for children in shape.children]
    beams = [widths[0], *(min(rules.wrong_ways, width) for width in widths[1:])]
    n_shards = -(-len(points) // rules.shard_points)
    plans = []
    for depth, child_of_label in enumerate(_child_of_label(shape, labels.width)):
        session.scratch.put(f"shape{depth}", shape.children[depth], child_of_label)
        plans.append(LevelPlan(depth, beams[depth], n_shards, rules, seed + depth, threads))
    # All points reach the nodes of the first levels, whatever the machines above, so these levels are trained together.
    n_open = sum(beam == width for beam, width in zip(beams, widths, strict=True))
    for stage in (plans[:n_open], *([plan] for plan in plans[n_open:])):
        n_known = len(levels) - stage[0].depth
        if known := stage[:n_known]:
            on_progress(sum(plan.beam for plan in known) / sum(beams))
        if rest := stage[n_known:]:
            levels += _train_levels(session, rest, shape, levels, memory, sum(beams), on_progress)
            on_level()
        for plan in stage:
            session.scratch.put(f"machines{plan.depth}", *levels[plan.depth].as_tuple())


def _child_of_label(shape: Shape, n_labels: int) -> list[I32]:
    """Return for each level the child above each label; -1 for labels without a leaf."""
    child, used = np.full(n_labels, -1, np.int32), shape.labels
    child[used] = np.arange(len(used))
    levels = [child]
    for depth in range(len(shape.children) - 1, 0, -1):
        child = child.copy()
        child[used] = shape.parents(depth)[child[used]]
        levels.insert(0, child)
    return levels


def _train_levels(
    session: Session,
    plans: list[LevelPlan],
    shape: Shape,
    above: list[Level],
    memory: TreeMemory,
    beams: int,
    on_progress: OnProgress,
) -> list[Level]:
    """Train levels that do not depend on each other; `above` are the levels before them."""
    memory.check_routing(above, [(plan.beam, len(shape.children[plan.depth]) - 1) for plan in plans])
    shards = [(plan, shard) for plan in plans for shard in range(plan.n_shards)]
    entries = session.run(route, shards)
    reaching = [sum(own for (its, _), own in zip(shards, entries, strict=True) if its is plan) for plan in plans]
    tasks, work, shares = [], [], []
    for plan, own in zip(plans, reaching, strict=True):
        bounds, before = _ranges(len(shape.children[plan.depth]) - 1), np.append(0, np.cumsum(own))
        for first, last in grouped(bounds, before, plan.rules.call_entries, plan.rules.thread_nodes * plan.threads):
            tasks.append((plan, int(bounds[first]), int(bounds[last])))
            work.append(int(before[last] - before[first]))
            shares.append(plan.beam / beams * work[-1] / max(int(before[-1]), 1))
    memory.check_training(above, np.concatenate(reaching))
    sample = set(range(0, len(tasks), SAMPLED))
    order = sorted(range(len(tasks)), key=lambda task: task not in sample)
    missing, n_rows = set(sample), 0

    def on_done(at: int, part: Part) -> None:
        nonlocal n_rows
        on_progress(shares[order[at]])
        if order[at] in missing:
            missing.remove(order[at])
            n_rows += len(part[1])
            if not missing:
                memory.check_training(above, np.concatenate(reaching), sum(work[task] for task in sample), n_rows)

    found = dict(zip(order, session.run(train_range, [tasks[task] for task in order], on_done), strict=True))
    levels = []
    for plan in plans:
        session.scratch.drop(f"arrivals{plan.depth}.")
        own = [found.pop(task) for task, (its, *_) in enumerate(tasks) if its is plan]
        levels.append(Level(*_joined(own), shape.children[plan.depth]))
    return levels


def _joined(parts: list[Part]) -> Part:
    """Join the machines of consecutive ranges of nodes; empty `parts`, so that only one array is held twice."""
    starts, features, factors, weights, bias = map(list, zip(*parts, strict=True))
    parts.clear()
    ends = np.cumsum([0, *(own[-1] for own in starts)])
    pointers = np.concatenate([[0], *(own[1:] + end for own, end in zip(starts, ends, strict=False))])
    rounded = to_bfloat16(_drained(factors))  # exact enough for weights of 8 bits, and half the size on disk
    return pointers.astype(np.int64), _drained(features), rounded, _drained(weights), _drained(bias)


def _drained(arrays: list[Any]) -> Any:
    """Concatenate the arrays, and free them."""
    if len(arrays) == 1:
        return arrays.pop()
    found = np.concatenate(arrays)
    arrays.clear()
    release_memory()  # arrays of other kinds lie between these, so the C library would keep the room
    return found


def _ranges(n_nodes: int) -> I64:
    """Return the bounds of the ranges of nodes whose work is measured."""
    n = min(n_nodes, MAX_RANGES)
    return np.arange(n + 1) * n_nodes // n


def route(scratch: Scratch, plan: LevelPlan, shard: int) -> I64:
    """Find the nodes that a shard of the points reaches, and keep its arrivals; return the entries in each range."""
    begin = shard * plan.rules.shard_points
    every, labels = scratch.get_source("points"), get_rows(scratch, "labels")
    end = min(begin + plan.rules.shard_points, len(every))
    points = every.slice(begin, end)
    children, child_of_label = scratch.get(f"shape{plan.depth}")
    if plan.beam == len(children) - 1:
        routed = np.tile(np.arange(len(children) - 1, dtype=np.int32), (len(points), 1))
    else:
        levels = [Level(*scratch.get(f"machines{depth}")) for depth in range(plan.depth)]
        routed, _ = search(levels, points, plan.beam, plan.beam, plan.threads)
    starts, reached, masks = _arrivals(routed, _true_children(labels.slice(begin, end), child_of_label), children)
    entries = np.append(0, np.cumsum(np.diff(points.indptr)[reached] + 1))[starts]
    reached += begin
    scratch.put(f"arrivals{plan.depth}.{shard}", starts, reached, masks)
    found: I64 = np.diff(entries[_ranges(len(children) - 1)])
    return found


def _true_children(labels: Rows, child_of_label: I32) -> tuple[I64, I64]:
    """Return the pairs of a point and a child that contains one of its labels."""
    points = np.repeat(np.arange(len(labels)), np.diff(labels.indptr))
    n = int(child_of_label.max(initial=0)) + 1
    keys = _distinct(points * n + child_of_label[labels.indices])
    return keys // n, keys % n


def _distinct(keys: I64) -> I64:
    """Return the distinct keys, ascending; sorting is 3 times as fast as NumPy's hashing."""
    keys = np.sort(keys)
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys


def _arrivals(routed: I32, true_pairs: tuple[I64, I64], children: I64) -> tuple[I64, I32, U16]:
    """Return the points that reach each node, and bit masks of their true children: pointers, points, masks."""
    n = len(routed)
    points, child = true_pairs
    parents = np.repeat(np.arange(len(children) - 1), np.diff(children))
    true_keys = parents[child] * n + points
    routed_keys = routed.ravel().astype(np.int64) * n + np.repeat(np.arange(n), routed.shape[1])
    keys = _distinct(np.concatenate((true_keys, routed_keys[routed.ravel() >= 0])))
    bits = np.left_shift(1, child - children[parents[child]])
    masks = np.bincount(np.searchsorted(keys, true_keys), bits, minlength=len(keys)).astype(np.uint16)
    starts = np.searchsorted(keys, np.arange(len(children)) * n)
    return starts, (keys % n).astype(np.int32), masks


def train_range(scratch: Scratch, plan: LevelPlan, first: int, last: int) -> Part:
    """Train the machines of a range of nodes."""
    points, (squared,) = scratch.get_source("points"), scratch.get("squares")
    children = scratch.get(f"shape{plan.depth}")[0][first : last + 1]
    arrivals, children, seed = _gathered(scratch, plan, first, last), children - children[0], plan.seed + first
    if isinstance(points, Rows):
        return _train_nodes(points, squared, arrivals, children, plan, seed)
    return _joined(list(_train_streamed(points, squared, arrivals, children, plan, seed)))


def _train_nodes(
    points: Rows, squared: F32, arrivals: tuple[I64, I32, U16], children: I64, plan: LevelPlan, seed: int
) -> Part:
    rules, point_arrays = plan.rules, (points.indptr, points.indices, points.data, points.width, squared)
    costs = rules.cost, rules.cost * rules.others, rules.rarity
    # Seeds depend on the node alone, since the ranges depend on the number of threads.
    settings: tuple[Any, ...] = (rules.epochs, rules.tolerance, seed, rules.smallest, plan.threads)
    part: Part = kernels.train_nodes(*point_arrays, *arrivals, children, *costs, *settings)
    return part


def _train_streamed(
    points: RowSource, squared: F32, arrivals: tuple[I64, I32, U16], children: I64, plan: LevelPlan, seed: int
) -> Iterator[Part]:
    """Train nodes whose points are on disk: as many at a time as have few entries together, or one part by part."""
    starts, reached, masks = arrivals
    entries = np.append(0, np.cumsum(points.sizes[reached], dtype=np.int64))[starts]
    first, limit = 0, plan.rules.call_entries
    while first < len(children) - 1:
        last = max(int(np.searchsorted(entries, entries[first] + limit, side="right")) - 1, first + 1)
        own, nodes = slice(starts[first], starts[last]), slice(first, last + 1)
        if entries[last] - entries[first] <= limit:
            rows, ids = points.in_memory(reached[own])
            few = starts[nodes] - starts[first], ids, masks[own]
            yield _train_nodes(rows, squares(rows), few, children[nodes] - children[first], plan, seed + first)
        else:
            n_children = int(children[last] - children[first])
            how = plan.rules, seed + first, limit // STREAMED_PARTS
            yield train_streamed_node(points, squared, reached[own], masks[own], n_children, *how)
        first = last


def _gathered(scratch: Scratch, plan: LevelPlan, first: int, last: int) -> tuple[I64, I32, U16]:
    """Return the arrivals of a range of nodes from all shards, in order of the points."""
    parts = []
    for shard in range(plan.n_shards):
        starts, reached, masks = scratch.get(f"arrivals{plan.depth}.{shard}")
        own = slice(starts[first], starts[last])
        parts.append((np.diff(starts[first : last + 1]), reached[own], masks[own]))
    counts = np.stack([part[0] for part in parts])
    starts = np.append(0, np.cumsum(counts.sum(axis=0)))
    begins = starts[:-1] + np.cumsum(counts, axis=0) - counts  # where the points of each shard begin in each node
    reached, masks = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.uint16)
    for begin, (count, arrived, mask) in zip(begins, parts, strict=True):
        at = np.repeat(begin - (np.cumsum(count) - count), count) + np.arange(len(arrived))
        reached[at], masks[at] = arrived, mask
    return starts, reached, masks
