"""A callback that times batches and can end training; it needs only the standard library."""

from __future__ import annotations

import time
from typing import Any

#: The first steps fault pages in and fill caches. They count for an epoch, but not for the cost of a step.
WARM_UP = 20


class TimeIsUp(KeyboardInterrupt):
    """Ends training like Ctrl-C: the estimator keeps what it has learnt so far."""


class Clock:
    """A callback that records the end of each batch, and raises `TimeIsUp` out of `fit` after `batches` of them."""

    def __init__(self, batches: int | None = None) -> None:
        self.batches = batches
        self.wall, self.cpu = [time.perf_counter()], [time.process_time()]
        self.epoch_batches = 0

    def on_batch(self, progress: Any) -> None:
        self.wall.append(time.perf_counter())
        self.cpu.append(time.process_time())
        self.epoch_batches = progress.batches
        if self.batches is not None and self.done >= self.batches:
            raise TimeIsUp

    def on_epoch(self, record: dict[str, float]) -> None:
        """Do nothing: batches are timed, epochs are not."""

    @property
    def done(self) -> int:
        """Number of finished batches."""
        return len(self.wall) - 1

    def summary(self, warm_up: int = WARM_UP) -> dict[str, float]:
        """Return the seconds of a step and of the start: the warm-up minus the normal time of its steps."""
        first = min(warm_up, self.done - 1)
        steps = self.done - first
        found: dict[str, float] = {"batches": self.done, "epoch_batches": self.epoch_batches}
        for name, at in (("wall", self.wall), ("cpu", self.cpu)):
            step = (at[-1] - at[first]) / steps
            start = at[first] - at[0] - first * step
            found |= {f"start_{name}_seconds": start, f"step_{name}_seconds": step}
            found[f"epoch_{name}_seconds"] = start + self.epoch_batches * step
        return found
