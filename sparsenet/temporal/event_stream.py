"""The base class of streams: locks, and the position in time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

from sparsenet.engines.network.training.interrupts import deferred_interrupt
from sparsenet.features.logs import Kinds


class EventStream(ABC):
    """The state of a model that learns events in the order of time.

    `lock` guards the state: a query waits until the running part of an update has ended, and sees whole events.
    `writing` is held for a whole update, so that one ends before the next one begins. Pickles hold no locks.
    """

    def __init__(self) -> None:
        self.lock, self.writing = RLock(), RLock()

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Hold `lock`, and let Ctrl-C wait for the end."""
        with self.lock, deferred_interrupt() as interrupted:
            yield
        if interrupted.is_set():
            raise KeyboardInterrupt

    @property
    @abstractmethod
    def kinds(self) -> Kinds:
        """The kinds of the names of both ends of an event."""

    @abstractmethod
    def _position(self) -> tuple[float, float]:
        """Return the number of events learnt, and the time of the last one."""

    @property
    def n_events(self) -> int:
        """The number of events learnt."""
        with self.lock:
            return int(self._position()[0])

    @property
    def newest(self) -> float | None:
        """The time of the last event; None before the first."""
        with self.lock:
            n_events, newest = self._position()
            return float(newest) if n_events else None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("lock", "writing")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, lock=RLock(), writing=RLock())
