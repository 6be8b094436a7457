"""Fit the number of steps of a run into a time limit."""

from __future__ import annotations

import time

#: Steps needed to measure the pace.
ENOUGH = 5


class TimeBudget:
    """Estimates how many steps fit into the remaining time, at the mean pace so far.

    Parameters
    ----------
    seconds : float or None
        Time limit of a run, counted from `start`; None for no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._started, self._paced_since, self._taken = 0.0, 0.0, 0
        self._pace_before: float | None = None

    def start(self) -> None:
        """Start the clock."""
        self._started = self._paced_since = time.perf_counter()
        self._taken, self._pace_before = 0, None

    def change_pace(self) -> None:
        """Measure the pace again when the cost of a step changes; keep the old pace for the first `ENOUGH` steps."""
        self._pace_before = self._pace() if self._taken else self._pace_before
        self._paced_since, self._taken = time.perf_counter(), 0

    def not_steps(self, seconds: float) -> None:
        """Exclude seconds that have passed from the pace: they were not spent on steps."""
        self._paced_since += seconds

    def reserve(self, seconds: float) -> None:
        """Reserve seconds for the work after the last step."""
        if self._seconds is not None:
            self._seconds -= seconds

    def is_limited(self) -> bool:
        """Return whether there is a time limit."""
        return self._seconds is not None

    def step_done(self) -> None:
        """Count a step."""
        self._taken += 1

    def last_step(self, step: int, planned: int) -> int:
        """Return the number of the last step that fits, at most `planned`; `step` is the number of the next one."""
        if self._seconds is None or not self._has_pace():
            return planned
        return min(planned, step + int(self._left() / self._pace()) - 1)

    def steps(self, done: int, planned: int) -> int | None:
        """Estimate the total number of steps when `done` are done; None without a limit."""
        return None if self._seconds is None else max(done, self.last_step(done + 1, planned))

    def is_spent(self) -> bool:
        """Return whether another step would exceed the limit; the first step always runs."""
        return self._seconds is not None and self._has_pace() and self._left() < self._pace()

    def _left(self) -> float:
        assert self._seconds is not None
        return self._seconds - (time.perf_counter() - self._started)

    def _has_pace(self) -> bool:
        return self._taken > 0 or self._pace_before is not None

    def _pace(self) -> float:
        if self._pace_before is not None and self._taken < ENOUGH:
            return self._pace_before
        return (time.perf_counter() - self._paced_since) / self._taken
