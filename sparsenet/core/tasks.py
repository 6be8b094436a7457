"""Pure tasks of a training: where they run, and the arrays that they share.

A task is a function of a module, called with the scratch of its session and small arguments. Its result depends on
these alone. So tasks may run in any process and in any order, and the model is the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np

from sparsenet.core.scratch import MemoryScratch, Scratch
from sparsenet.kernels.types import I64

OnDone = Callable[[int, Any], object]


class Session(Protocol):
    """A run of tasks that share arrays."""

    @property
    def scratch(self) -> Scratch:
        """Where the shared arrays are."""

    def run(
        self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], on_done: OnDone | None = None
    ) -> list[Any]:
        """Return ``function(scratch, *each)`` for each of the arguments, in their order.

        `on_done` receives the position and the result of each task that is done.
        """


class Host(NamedTuple):
    """A machine whose workers have run tasks.

    Attributes
    ----------
    name : its name in the network.
    is_own : whether it is the machine of this process.
    n_workers : workers there that have run a task: processes, or their threads.
    available : bytes of memory that were available before the first one.
    """

    name: str
    is_own: bool
    n_workers: int
    available: int


class TaskRunner(Protocol):
    """Where tasks run."""

    @property
    def n_workers(self) -> int:
        """Return the number of tasks that run at the same time."""

    def hosts(self) -> list[Host] | None:
        """Return the machines whose workers have run tasks; None if tasks run in this process."""

    def session(self) -> AbstractContextManager[Session]:
        """Open a session; its shared arrays are gone at its end."""

    def task_threads(self, threads: int) -> int:
        """Return the threads of each task; this process may use `threads`."""


class _HereSession:
    """Tasks in this process, one after the other."""

    def __init__(self) -> None:
        self.scratch = MemoryScratch()

    def run(
        self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], on_done: OnDone | None = None
    ) -> list[Any]:
        found = []
        for at, own in enumerate(arguments):
            found.append(function(self.scratch, *own))
            if on_done is not None:
                on_done(at, found[at])
        return found


class Here:
    """Run tasks in this process; arrays stay where they are."""

    n_workers = 1

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open a session."""
        yield _HereSession()

    def hosts(self) -> list[Host] | None:
        """Return None: tasks run in this process."""
        return None

    def task_threads(self, threads: int) -> int:
        """Return the threads of each task: all, since one task runs at a time."""
        return threads


HERE = Here()


def grouped(bounds: I64, before: I64, min_work: int, min_items: int) -> Iterator[tuple[int, int]]:
    """Group consecutive ranges so that each task has enough work and items.

    Range i has the items from ``bounds[i]`` to ``bounds[i + 1] - 1``; `before` counts the work before each range.

    Examples
    --------
    >>> import numpy as np
    >>> list(grouped(np.arange(6), np.array([0, 5, 6, 7, 12, 13]), min_work=6, min_items=1))
    [(0, 2), (2, 4), (4, 5)]
    """
    first = 0
    while first < len(bounds) - 1:
        enough = int(np.searchsorted(before, before[first] + min_work))
        last = max(enough, int(np.searchsorted(bounds, bounds[first] + min_items)))
        yield first, (first := min(last, len(bounds) - 1))
