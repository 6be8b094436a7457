"""Search a hold-out in the tree and the neighbors of a blend, as tasks over shards of its points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.core.scratch import Scratch, get_rows, put_rows
from sparsenet.core.tasks import Session
from sparsenet.engines.neighbors.narrow_postings import posting_arrays, postings_of
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.tree.fit_tree import FittedTree, best_labels
from sparsenet.engines.tree.machines import Level
from sparsenet.kernels.types import F32, I32, I64


@dataclass(frozen=True)
class HoldoutSearch:
    """Search the tree and the neighbors for held-out points, in shards that are merged in their order.

    Attributes
    ----------
    session : Session
    points : Rows
        The held-out points.
    held : ndarray
        Their numbers among the training points, which are the neighbors.
    threads : int
        Threads of a task.
    shard_points : int
        Points of a task.
    """

    session: Session
    points: Rows
    held: I64
    threads: int
    shard_points: int = 512

    def __post_init__(self) -> None:
        put_rows(self.session.scratch, "held-points", self.points)
        self.session.scratch.put("held", self.held)

    def tree(self, tree: FittedTree) -> Callable[[int, int], tuple[I32, F32]]:
        """Keep a tree for the tasks; return `FittedTree.rank` for a number of labels and a beam."""
        scratch, n_labels = self.session.scratch, len(tree.target.classes)
        scratch.put("tree", tree.shape.labels, *(array for level in tree.levels for array in level.as_tuple()))

        def rank(n: int, beam: int) -> tuple[I32, F32]:
            labels, scores = zip(*self._run(rank_in_shard, n, beam, n_labels, self.threads), strict=True)
            return np.concatenate(labels), np.concatenate(scores)

        return rank

    def neighbors(self, neighbors: Neighbors, k: int) -> Callable[[int], Rows]:
        """Keep neighbors for the tasks; return `vote_weights` for a maximum of comparisons, each point without itself.

        Dense points are searched in this process.
        """
        index, labels = neighbors.postings, neighbors.labels
        if index is None:
            nearest = neighbors.nearest_others(self.points, self.held, k, self.threads)
            return lambda most: neighbors.weigh_votes(*nearest, neighbors.power)
        self.session.scratch.put("index", *(array for array in posting_arrays(index) if array is not None))
        put_rows(self.session.scratch, "labels", labels)
        self.session.scratch.put("weights", neighbors.weights)

        def weights(most: int) -> Rows:
            parts = self._run(nearest_in_shard, k, most, self.threads)
            near, products = (np.concatenate(part) for part in zip(*parts, strict=True))
            return neighbors.weigh_votes(near, products, neighbors.power)

        return weights

    def _run(self, function: Callable[..., Any], *how: Any) -> list[Any]:
        bounds = range(0, len(self.held), self.shard_points)
        return self.session.run(function, [(begin, begin + self.shard_points, *how) for begin in bounds])


def rank_in_shard(
    scratch: Scratch, begin: int, end: int, n: int, beam: int, n_labels: int, threads: int
) -> tuple[I32, F32]:
    """Rank labels by the tree for a shard of the held-out points."""
    points, (names, *arrays) = _shard(scratch, begin, end)[0], scratch.get("tree")
    n_each = len(Level.__dataclass_fields__)
    levels = [Level(*arrays[first : first + n_each]) for first in range(0, len(arrays), n_each)]
    return best_labels(levels, names, np.arange(n_labels, dtype=np.int32), points, n, beam=beam, threads=threads)


def nearest_in_shard(
    scratch: Scratch, begin: int, end: int, k: int, max_comparisons: int, threads: int
) -> tuple[I32, F32]:
    """Find the neighbors of a shard of the held-out points, each without itself."""
    labels, (weights,) = get_rows(scratch, "labels"), scratch.get("weights")
    index = postings_of(len(labels), *scratch.get("index"))
    neighbors = Neighbors(index, labels, weights, 0.0, 1.0, max_comparisons=max_comparisons)
    return neighbors.nearest_others(*_shard(scratch, begin, end), k, threads)


def _shard(scratch: Scratch, begin: int, end: int) -> tuple[Rows, I64]:
    points, (held,) = get_rows(scratch, "held-points"), scratch.get("held")
    end = min(end, len(held))
    return points.slice(begin, end), held[begin:end]
