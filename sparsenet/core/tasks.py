"""Pure tasks of a training: where they run, and the arrays that they share.

A task is a function of a module, called with the scratch of its session and small arguments. Its result depends on
these alone. So tasks may run in any process and in any order, and the model is the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from sparsenet.core.scratch import MemoryScratch, Scratch

OnDone = Callable[[int], object]


class Session(Protocol):
    """A run of tasks that share arrays."""

    @property
    def scratch(self) -> Scratch:
        """Where the shared arrays are."""

    def run(
        self, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], on_done: OnDone | None = None
    ) -> list[Any]:
        """Return ``function(scratch, *each)`` for each of the arguments, in their order.

        `on_done` receives the position of each task that is done.
        """


class TaskRunner(Protocol):
    """Where tasks run."""

    def session(self) -> AbstractContextManager[Session]:
        """Open a session; its shared arrays are gone at its end."""


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
                on_done(at)
        return found


class Here:
    """Run tasks in this process; arrays stay where they are."""

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Open a session."""
        yield _HereSession()


HERE = Here()
