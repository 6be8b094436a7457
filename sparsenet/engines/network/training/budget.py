"""A run that is to end by a certain time."""

from __future__ import annotations

import time

#: So many steps say how long the next ones will take.
ENOUGH = 5


class TimeBudget:
    """How many steps fit into the time there is, at the pace of those taken so far.

    Parameters
    ----------
    seconds : float or None
        What a run may take from `start` on; None: as long as it needs.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._started, self._paced_since, self._taken = 0.0, 0.0, 0
        self._pace_before: float | None = None

    def start(self) -> None:
        """Begin to count."""
        self._started = self._paced_since = time.perf_counter()
        self._taken, self._pace_before = 0, None

    def change_pace(self) -> None:
        """Forget how long steps took once there are some new ones to go by, which take other times."""
        self._pace_before = self._pace() if self._taken else self._pace_before
        self._paced_since, self._taken = time.perf_counter(), 0

    def not_steps(self, seconds: float) -> None:
        """Take note that so many seconds of those that have passed went to something else, and not to steps."""
        self._paced_since += seconds

    def reserve(self, seconds: float) -> None:
        """Keep so many seconds for what comes after the last step."""
        if self._seconds is not None:
            self._seconds -= seconds

    def is_limited(self) -> bool:
        """Say whether there is an end."""
        return self._seconds is not None

    def step_done(self) -> None:
        """Take note of a step."""
        self._taken += 1

    def last_step(self, step: int, planned: int) -> int:
        """Return the number of the last step that fits, at most `planned`, if `step` is the next."""
        if self._seconds is None or not self._has_pace():
            return planned
        return min(planned, step + int(self._left() / self._pace()) - 1)

    def steps(self, done: int, planned: int) -> int | None:
        """Return how many steps there will be in all if `done` are; None without a limit."""
        return None if self._seconds is None else max(done, self.last_step(done + 1, planned))

    def is_spent(self) -> bool:
        """Say whether another step would take too long; a first one is always taken."""
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
