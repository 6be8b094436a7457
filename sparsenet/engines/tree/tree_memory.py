"""The memory that training a tree takes, announced step by step before it is taken.

The bytes of points, labels, centroids and arrivals are known before they are taken. The size of a level's machines is
estimated from its first tasks, a sample of the nodes.

With workers, the limit holds for each machine. This process holds the points, the labels and the tree. Arrivals are
files there, so a worker takes the memory of its task alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.host_memory import needs_by_host
from sparsenet.core.machine import available_memory
from sparsenet.core.memory import announce, bytes_in_memory, own_bytes
from sparsenet.core.rows import Rows
from sparsenet.core.tasks import HERE, TaskRunner
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
        Threads of a task.
    held : mapping
        Bytes that stay in use throughout, by purpose.
    limit : int
        Bytes that training may take on a machine, those in `held` included.
    is_given : bool
        Whether a user has set the limit.
    shown : bool
        Whether to print the bytes.
    runner : TaskRunner
        Where the tasks run.
    """

    points: Points
    rules: Rules
    threads: int
    held: Mapping[str, int]
    limit: int
    is_given: bool
    shown: bool
    runner: TaskRunner = HERE
    _announced: Counter[bool] = field(default_factory=Counter, init=False)

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
        runner: TaskRunner = HERE,
    ) -> Self:
        """Count the points besides what the caller holds, and set the limit; None: all the memory there is.

        `shared` are arrays that are not counted, such as those in `held`.
        """
        held = {**(held or {}), "points": (held or {}).get("points", 0) + own_bytes(points, shared)}
        limit = available_memory() + sum(held.values()) if memory_limit is None else memory_limit
        return cls(points, rules, threads, held, limit, memory_limit is not None, shown, runner)

    def check_growing(self) -> None:
        """Announce the labels by point turned round, then centroids, which are held twice when they are joined."""
        points, labels = self.points
        entries = labels.n_entries * self._mean_entries
        n = int(min(entries, labels.width * min(CENTROID_FEATURES, points.width)))
        turned, joined = ENTRY_BYTES * (labels.n_entries + labels.width), ENTRY_BYTES * n
        if self.runner.hosts() is None:
            self._check({"growing": max(turned + joined, 2 * joined)})
        else:
            self._check({"growing": turned}, lambda n_tasks: joined)  # one task joins them

    def check_routing(self, levels: list[Level], sizes: Sequence[tuple[int, int]]) -> None:
        """Announce a bound of the arrivals of further levels, each with its beam and number of nodes.

        A point reaches the nodes of the beam and the nodes of its labels.
        """
        points, labels = self.points
        n = sum(min(len(points) * beam + labels.n_entries, len(points) * n_nodes) for beam, n_nodes in sizes)
        routing, tree = ROUTING_BYTES * n, _bytes_of(levels)
        if self.runner.hosts() is None:
            self._check({"tree": tree, "routing": routing})
        else:
            share = min(self.rules.shard_points / max(len(points), 1), 1.0)
            self._check({"tree": tree}, lambda n_tasks: int(min(n_tasks * share, 1.0) * routing))

    def check_training(self, levels: list[Level], work: I64, trained: float = 0.0, n_rows: int = 0) -> None:
        """Announce arrivals, the largest task, and the machines of further levels below `levels`.

        Parameters
        ----------
        work :
            Entries and points that reach each range of nodes.
        trained, n_rows :
            The work of the nodes that are trained, and the rows of their machines.
        """
        rows = int(n_rows * work.sum() / trained) if trained else 0
        tree, joining = _bytes_of(levels) + ROW_BYTES * rows, ROW_WEIGHTS * rows
        if self.runner.hosts() is None:
            arrivals = int(ROUTING_BYTES * work.sum() / (1 + self._mean_entries))
            self._check({"tree": tree, "routing": max(arrivals + self._task_bytes(work, self.threads), joining)})
        else:
            self._check(
                {"tree": tree, "joining": joining}, lambda n_tasks: self._task_bytes(work, n_tasks * self.threads)
            )

    def _task_bytes(self, work: I64, threads: int) -> int:
        """Return the bytes of the largest nodes, one for each thread, while they are trained at the same time."""
        points = self.points[0]
        everything = len(points) + points.n_entries
        largest = np.minimum(np.sort(work)[-threads:], everything)
        n = largest / (1 + self._mean_entries)
        entries = n * self._mean_entries
        weights = 4 * CHILDREN * np.minimum(entries, points.width)
        if len(work) < threads:
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

    def _check(self, needed: Mapping[str, int], of_tasks: Callable[[int], int] = lambda n_tasks: 0) -> None:
        """Announce the bytes of this process, and by `of_tasks` the bytes of the tasks of a host's workers."""
        how: dict[str, Any] = {"is_given": self.is_given, "of_workers": lambda host: of_tasks(host.n_workers)}
        for own, limit, is_own in needs_by_host(self.runner, {**self.held, **needed}, self.limit, **how):
            total = sum(own.values())
            shown = self.shown and total > MORE * self._announced[is_own]
            if shown:
                self._announced[is_own] = total
            problem = announce(own, limit, is_given=self.is_given, shown=shown)
            if problem is not None:
                raised = "raise memory_limit, " if self.is_given else ""
                raise MemoryError(f"{problem}: {raised}lower beam or use fewer points")


def _bytes_of(levels: list[Level]) -> int:
    return bytes_in_memory(array for level in levels for array in level.as_tuple())
