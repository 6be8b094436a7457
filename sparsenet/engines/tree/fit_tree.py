"""Train a tree of linear machines, and rank labels by it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.progress import is_wanted, parts_done
from sparsenet.core.rows import Rows, RowSource, sum_of_squares
from sparsenet.core.scratch import put_rows
from sparsenet.core.tasks import HERE, TaskRunner
from sparsenet.engines.tree.level_checkpoint import LevelCheckpoint
from sparsenet.engines.tree.machines import Level, Rules, search
from sparsenet.engines.tree.restricting import restricted
from sparsenet.engines.tree.train_levels import train
from sparsenet.engines.tree.tree_memory import TreeMemory
from sparsenet.engines.tree.tree_shape import CHILDREN, MAX_ROOTS, Shape, grow
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.scaling import Scaling
from sparsenet.features.targets import Points, Target
from sparsenet.kernels.types import F32, I32, I64

#: Logit of a label's probability: slope times the root of its penalty, plus shift. Fitted to held-out points of twelve
#: data sets (bench/notes/trees.md).
SLOPE, SHIFT = np.float32(-2.5), np.float32(2.8)
#: Block size of `all_logits`, in points times leaves: about 40 bytes each.
CELLS_AT_A_TIME = 1 << 18
#: Maximum number of labels that a restricted search scores without exception.
EXACT = 1 << 12


@dataclass(frozen=True)
class FittedTree:
    """A trained tree, and what turns X into its rows and its rows' labels into y.

    Attributes
    ----------
    shape : Shape
        The label of each leaf, and the children of each node.
    levels : list of Level
        The machines, from the root down.
    cost : float
        The cost of an error in training.
    target : Target
    scaling : Scaling
    seen : LabelStats
        Statistics of the training points.
    validation : mapping, optional
        Measures on held-out points, by name.
    """

    shape: Shape
    levels: list[Level]
    cost: float
    target: Target
    scaling: Scaling
    seen: LabelStats
    validation: Mapping[str, float] | None = None

    def rank(self, points: Rows, k: int, *, beam: int, threads: int, among: I32 | None = None) -> tuple[I32, F32]:
        """Return the k best labels of each point, (n, k), best first, and the logarithms of their probabilities.

        The beam is doubled for points that meet fewer than k labels. Labels without training points come last. Only
        labels `among` the given ones, distinct and ascending, are ranked. Each of them is scored if these are at most
        `EXACT`.
        """
        names, levels, labels = self.shape.labels, self.levels, np.arange(len(self.target.classes), dtype=np.int32)
        if among is not None:
            names, levels = restricted(self.shape, self.levels, among)
            beam, labels = (max(beam, len(among)) if len(among) <= EXACT else beam), among
        return best_labels(levels, names, labels, points, k, beam=beam, threads=threads)

    def all_logits(self, points: Rows, *, beam: int, threads: int) -> Iterator[tuple[I64, I32, F32]]:
        """Yield blocks of points: numbers of their rows, labels that the beam meets (-1 for none), and their logits."""
        names, done = self.shape.labels, 0
        max_scored = min(len(names), CHILDREN * max(beam, MAX_ROOTS))
        for block in points.blocks(max(1, CELLS_AT_A_TIME // max_scored)):
            labels, scores = search(self.levels, block, beam, max_scored, threads, names)
            # Finite, so that improbable labels keep their order.
            yield np.arange(done, done + len(block)), labels, np.maximum(logits(scores), np.finfo(np.float32).min)
            done += len(block)


def best_labels(
    levels: list[Level], names: I32, labels: I32, points: Rows, k: int, *, beam: int, threads: int
) -> tuple[I32, F32]:
    """Rank the k best of `labels` for each point, as `FittedTree.rank` does; `names` are the labels of the leaves."""
    in_tree = min(k, len(names))
    if in_tree == 0:
        found, scores = np.empty((len(points), 0), np.int32), np.empty((len(points), 0), np.float32)
    else:
        found, scores = search(levels, points, beam, in_tree, threads, names)
        while np.any(found[:, -1] < 0):  # some points met fewer than k
            beam, few = 2 * beam, np.flatnonzero(found[:, -1] < 0)
            found[few], scores[few] = search(levels, points.take(few), beam, in_tree, threads, names)
    if k > in_tree:
        others = np.setdiff1d(labels, names)[: k - in_tree]
        found = np.hstack((found, np.tile(others, (len(found), 1))))
        scores = np.hstack((scores, np.full((len(scores), k - in_tree), -np.inf, np.float32)))
    return found, scores


def fit(
    points: Points,
    rules: Rules,
    *,
    seed: int,
    threads: int,
    target: Target | None = None,
    scaling: Scaling | None = None,
    seen: LabelStats | None = None,
    verbose: bool | None = False,
    runner: TaskRunner = HERE,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    memory_limit: int | None = None,
    shared: Sequence[NDArray[Any]] = (),
    held: Mapping[str, int] | None = None,
) -> FittedTree:
    """Train a tree on rows of features and labels.

    Parameters
    ----------
    points : (Rows, Rows)
        Features, scaled, and labels.
    rules : Rules
    target, scaling, seen :
        Kept with the result; by default labels are column numbers and features are unscaled.
    runner : TaskRunner
        Where the tasks run; this process by default.
    checkpoint, resume :
        Keep each trained level in this directory, and go on after the last one there.
    memory_limit, shared, held :
        Bytes that training may take on a machine, arrays of the caller that do not count, and bytes that the caller
        counted.
    """
    features, labels = points
    target = Target.of_columns(labels.width) if target is None else target
    seen = LabelStats.of_rows(features.width, labels.width).with_points(features, labels) if seen is None else seen
    if scaling is None or scaling.kind == "none":
        rules = replace(rules, smallest=rules.smallest / _typical_length(features))
    rules = rules.fitting(labels, seen.label_counts)
    kept = None if checkpoint is None else LevelCheckpoint.of(checkpoint, features, labels, rules, seed)
    found = kept.load(features.width, labels) if kept is not None and resume else None
    with runner.session() as session:
        put_rows(session.scratch, "points", features)
        threads = runner.task_threads(threads)
        about_memory: dict[str, Any] = {"held": held, "shared": shared, "memory_limit": memory_limit, "runner": runner}
        memory = TreeMemory.of(points, rules, threads, shown=is_wanted(verbose), **about_memory)
        memory.check_growing()
        shape, levels = (grow(session, features, labels, seed, threads), []) if found is None else found

        def on_level() -> None:
            if kept is not None:
                kept.save(shape, levels)

        with parts_done(1, f"{len(features):,} points", verbose) as on_progress:
            train(session, shape, features, labels, rules, seed, threads, on_progress, levels, on_level, memory)
    return FittedTree(shape, levels, rules.cost, target, scaling or Scaling("none"), seen)


def logits(scores: F32) -> F32:
    """Return the logits of probabilities for scores, which are at most 0."""
    found = np.negative(scores)
    np.sqrt(found, out=found)
    found *= SLOPE
    found += SHIFT
    return found


def _typical_length(points: RowSource) -> float:
    """Return the root of the mean square of the points' lengths; 1 where all are empty."""
    total = sum_of_squares(points)
    return math.sqrt(total / len(points)) if total > 0 else 1.0
