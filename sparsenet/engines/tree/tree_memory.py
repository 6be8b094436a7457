"""The memory that training a tree takes, announced step by step before it is taken.

The bytes of points, labels, centroids and arrivals are known before they are taken. The size of a level's machines is
estimated from its first tasks, a sample of the nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.machine import available_memory
from sparsenet.core.memory import announce, bytes_in_memory, own_bytes
from sparsenet.core.rows import Rows
from sparsenet.engines.tree.machines import ROUTING_BYTES, Level, Rules
from sparsenet.engines.tree.tree_shape import CENTROID_FEATURES, CHILDREN
from sparsenet.features.targets import Points
from sparsenet.kernels.types import I64

#: Bytes of a row of a machine, and of its weights alone, which are held twice when the parts of a level are joined.
ROW_BYTES, ROW_WEIGHTS = CHILDREN + 8, CHILDREN
#: Bytes of an entry, id and value, and of a point of a node in training: 16 dual variables, order, labels, pointers.
ENTRY_BYTES, POINT_BYTES = 8, 96
#: A step is shown if it needs this many times as much as the one shown before.
MORE = 1.1


@dataclass
class TreeMemory:
    """Announce the memory of each step of a training, and refuse steps beyond a limit.

    Attributes
    ----------
    points : (Rows or StreamedRows, Rows)
    rules : Rules
    threads : int
    held : mapping
        Bytes that stay in use throughout, by purpose.
    limit : int
        Bytes that training may take, those in `held` included.
    is_given : bool
        Whether a user has set the limit.
    shown : bool
        Whether to print the bytes.
    """

    points: Points
    rules: Rules
    threads: int
    held: Mapping[str, int]
    limit: int
    is_given: bool
    shown: bool
    _announced: int = field(default=0, init=False)

    @classmethod
    def of(
        cls,
        points: Points,
        rules: Rules,
        threads: int,
        *,
        held: Mapping[str, int] | None = None,
        shared: Sequence[NDArray[Any]] = (),
        memory_limit: int | None = None,
        shown: bool = False,
    ) -> Self:
        """Count the points besides what the caller holds, and set the limit; None: all the memory there is.

        `shared` are arrays that are not counted, such as those in `held`.
        """
        held = {**(held or {}), "points": (held or {}).get("points", 0) + own_bytes(points, shared)}
        limit = available_memory() + sum(held.values()) if memory_limit is None else memory_limit
        return cls(points, rules, threads, held, limit, is_given=memory_limit is not None, shown=shown)

    def check_growing(self) -> None:
        """Announce the labels by point turned round, then centroids, which are held twice when they are joined."""
        points, labels = self.points
        entries = labels.n_entries * self._mean_entries
        n = int(min(entries, labels.width * min(CENTROID_FEATURES, points.width)))
        turned = ENTRY_BYTES * (labels.n_entries + labels.width)
        self._check({"growing": max(turned + ENTRY_BYTES * n, 2 * ENTRY_BYTES * n)})

    def check_routing(self, levels: list[Level], sizes: Sequence[tuple[int, int]]) -> None:
        """Announce a bound of the arrivals of further levels, each with its beam and number of nodes.

        A point reaches the nodes of the beam and the nodes of its labels.
        """
        points, labels = self.points
        n = sum(min(len(points) * beam + labels.n_entries, len(points) * n_nodes) for beam, n_nodes in sizes)
        self._check({"tree": _bytes_of(levels), "routing": ROUTING_BYTES * n})

    def check_training(self, levels: list[Level], work: I64, trained: float = 0.0, n_rows: int = 0) -> None:
        """Announce arrivals, the largest task, and the machines of further levels below `levels`.

        Parameters
        ----------
        work :
            Entries and points that reach each range of nodes.
        trained, n_rows :
            The work of the nodes that are trained, and the rows of their machines.
        """
        arrivals = int(ROUTING_BYTES * work.sum() / (1 + self._mean_entries))
        rows = int(n_rows * work.sum() / trained) if trained else 0
        routing = max(arrivals + self._task_bytes(work), ROW_WEIGHTS * rows)
        self._check({"tree": _bytes_of(levels) + ROW_BYTES * rows, "routing": routing})

    def _task_bytes(self, work: I64) -> int:
        """Return the bytes of the largest nodes, one for each thread, while they are trained at the same time."""
        points = self.points[0]
        everything = len(points) + points.n_entries
        largest = np.minimum(np.sort(work)[-self.threads :], everything)
        n = largest / (1 + self._mean_entries)
        entries = n * self._mean_entries
        weights = 4 * CHILDREN * np.minimum(entries, points.width)
        if len(work) < self.threads:
            weights *= 2  # threads that share a node have weights of their own
        if isinstance(points, Rows):
            # As in csrc/tree/train.cpp: a node that all points reach need not copy them.
            is_copied = (largest < everything) | (ENTRY_BYTES * entries < 4 * CHILDREN * points.width)
            return int(ENTRY_BYTES * entries[is_copied].sum() + POINT_BYTES * n.sum() + weights.sum())
        most = self.rules.call_entries  # read from disk for the nodes of a task; then each thread gathers a node
        read = min(most, points.n_entries) + min(most, entries.sum())
        return int(POINT_BYTES * n.max(initial=0) + ENTRY_BYTES * read + weights.sum())

    @property
    def _mean_entries(self) -> float:
        points = self.points[0]
        return points.n_entries / max(len(points), 1)

    def _check(self, needed: Mapping[str, int]) -> None:
        needed = {purpose: size for purpose, size in {**self.held, **needed}.items() if size}
        total = sum(needed.values())
        shown = self.shown and total > MORE * self._announced
        if shown:
            self._announced = total
        problem = announce(needed, self.limit, is_given=self.is_given, shown=shown)
        if problem is not None:
            raise MemoryError(f"{problem}: raise memory_limit, lower beam or use fewer points")


def _bytes_of(levels: list[Level]) -> int:
    return bytes_in_memory(array for level in levels for array in level.as_tuple())
