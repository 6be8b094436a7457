"""A callback that times batches and can end a training; it needs nothing but Python."""

from __future__ import annotations

import time
from typing import Any

#: A model's first steps fault pages in and fill caches: they are part of an epoch, but not of what a step costs.
WARM_UP = 20


class TimeIsUp(KeyboardInterrupt):
    """What a benchmark ends a training with: as after Ctrl-C, an estimator is fitted with what was learnt by then."""


class Clock:
    """A callback that notes when each batch was done, and ends the training after so many batches.

    Whoever calls `fit` has to expect `TimeIsUp`.
    """

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
        """Nothing is to be done after an epoch."""

    @property
    def done(self) -> int:
        """How many batches have been trained on."""
        return len(self.wall) - 1

    def summary(self, warm_up: int = WARM_UP) -> dict[str, float]:
        """Return what the start and a step took; the start is what came before the second step, less one step."""
        first = min(warm_up, self.done - 1)
        steps = self.done - first
        found: dict[str, float] = {"batches": self.done, "epoch_batches": self.epoch_batches}
        for name, at in (("wall", self.wall), ("cpu", self.cpu)):
            step = (at[-1] - at[first]) / steps
            start = at[first] - at[0] - first * step
            found |= {f"start_{name}_seconds": start, f"step_{name}_seconds": step}
            found[f"epoch_{name}_seconds"] = start + self.epoch_batches * step
        return found
