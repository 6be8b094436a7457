"""Logs of interactions: who took which item, when and how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet.core.rows import Rows, by_row
from sparsenet.kernels.types import F32, F64, I32, I64, Bools
from sparsenet.selection.holdout import Holdout

LogSplit = Literal["last", "time", "random"]
SPLITS = ("last", "time", "random")
#: How weights count in a history: not at all, by their logarithm, or in proportion.
AMOUNTS = ("ignored", "log", "linear")


@dataclass(frozen=True, eq=False)
class Interactions:
    """Events as numbers, ordered by user, then by time; events at one time keep their order in the log.

    Attributes
    ----------
    users, items : ndarray of shape (n,), int32
        Numbers below `n_users` and `n_items`.
    times : ndarray of shape (n,), float64, or None
        In any unit; None if the log has none.
    weights : ndarray of shape (n,), float32
        Above zero; all 1 if the log has none.
    n_users, n_items : int
        A user or an item may have no event.

    Examples
    --------
    >>> log = Interactions.of([1, 0, 1], [2, 0, 1], [7.0, 1.0, 3.0], None, n_users=2, n_items=3)
    >>> log.users.tolist(), log.items.tolist()
    ([0, 1, 1], [0, 1, 2])
    """

    users: I32
    items: I32
    times: F64 | None
    weights: F32
    n_users: int
    n_items: int

    @classmethod
    def of(
        cls,
        users: NDArray[Any] | list[int],
        items: NDArray[Any] | list[int],
        times: NDArray[Any] | list[float] | None,
        weights: NDArray[Any] | list[float] | None,
        n_users: int,
        n_items: int,
    ) -> Interactions:
        """Sort events by user and time; ids must be in range, and times and weights finite."""
        own, taken = np.asarray(users, np.int32), np.asarray(items, np.int32)
        when = None if times is None else np.asarray(times, np.float64)
        amounts = np.ones(len(own), np.float32) if weights is None else np.asarray(weights, np.float32)
        order = np.argsort(own, kind="stable") if when is None else np.lexsort((when, own))
        return cls(
            own[order], taken[order], None if when is None else when[order], amounts[order], int(n_users), int(n_items)
        )

    @classmethod
    def of_matrix(cls, X: csr_array) -> Interactions:
        """Take a CSR matrix of users by items: its values are the weights; zeros are dropped."""
        rows = Rows.of(X)
        users = np.repeat(np.arange(len(rows), dtype=np.int32), np.diff(rows.indptr))
        used = slice(rows.indptr[-1])
        return cls(users, rows.indices[used].copy(), None, rows.data[used].copy(), len(rows), rows.width)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def starts(self) -> I64:
        """Return the position of each user's first event, and of the end, (n_users + 1,)."""
        starts: I64 = np.zeros(self.n_users + 1, np.int64)
        np.cumsum(np.bincount(self.users, minlength=self.n_users), out=starts[1:])
        return starts

    @property
    def recency(self) -> I64:
        """Return the number of later events of the same user, for each event: 0 for the last one."""
        return np.asarray(self.starts[self.users + 1] - 1 - np.arange(len(self)))

    def histories(self) -> Rows:
        """Return the summed weights of each user's items, (n_users, n_items)."""
        return self.weighted(self.weights)

    def weighted(self, values: F32) -> Rows:
        """Sum a value of each event by user and item, (n_users, n_items); items ascend within a user."""
        shape = self.n_users, self.n_items
        matrix = csr_array((values, self.items, self.starts), shape=shape, copy=True)
        matrix.sum_duplicates()  # in place
        return Rows.of(matrix, keep_zeros=True)

    def amounts(self, how: str, unit: float) -> F32:
        """Return the amount of each event's item: the item's summed weights relative to the largest of the user.

        `how` is one of `AMOUNTS`; ``"log"`` takes the logarithm of 1 plus the sum in units.
        """
        if how == "ignored" or not len(self):
            return np.ones(len(self), np.float32)
        _, of_event = np.unique(self.users.astype(np.int64) * self.n_items + self.items, return_inverse=True)
        totals = np.bincount(of_event, self.weights.astype(np.float64))[of_event] / unit
        totals = np.log1p(totals) if how == "log" else totals
        largest = by_row(np.maximum, totals, self.starts)
        return np.asarray(totals / largest[self.users], np.float32)

    def latest(self) -> Interactions:
        """Return the last event of each user with each item, in the order of events."""
        keys = self.users.astype(np.int64) * max(self.n_items, 1) + self.items
        _, first = np.unique(keys[::-1], return_index=True)
        return self.take(np.sort(len(self) - 1 - first))

    def take(self, events: I64 | Bools) -> Interactions:
        """Return some of the events, of the same users and items."""
        times = None if self.times is None else self.times[events]
        return Interactions(
            self.users[events], self.items[events], times, self.weights[events], self.n_users, self.n_items
        )

    def of_users(self, users: I64) -> Interactions:
        """Return the events of distinct `users`, who are numbered from 0 in this order."""
        number = np.full(self.n_users, -1, np.int32)
        number[users] = np.arange(len(users))
        own = number[self.users]
        found = np.flatnonzero(own >= 0)
        found = found[np.argsort(own[found], kind="stable")]
        times = None if self.times is None else self.times[found]
        return Interactions(own[found], self.items[found], times, self.weights[found], len(users), self.n_items)

    def split(
        self, strategy: LogSplit, seed: int, n_users: int | None = None, share: float = 0.2
    ) -> tuple[Interactions, Interactions]:
        """Split the log into events to learn from and events held out, of users with both.

        Parameters
        ----------
        strategy : {"last", "time", "random"}
            ``"last"`` holds out each user's last event, and ``"random"`` a share of each user's items, at least one.
            ``"time"`` cuts the log at one time and holds out the last share of all events. Events of users without
            earlier events are in neither part.
        seed : int
            Draws the items of ``"random"`` and the users of `n_users`.
        n_users : int, optional
            Hold out events of this many users only; the default is all. A ``"time"`` split still cuts everyone's log.
        share : float
            The fraction of the log, or of each user's items, above 0 and below 1.
        """
        if strategy not in SPLITS:
            raise ValueError(f"split must be one of {', '.join(map(repr, SPLITS))}, got {strategy!r}")
        if strategy != "random" and self.times is None:
            raise ValueError(
                f"split={strategy!r} needs the time of each event: name the column of times, or use 'random'"
            )
        held = {"last": self._is_last, "time": self._is_late, "random": self._is_masked}[strategy](seed, share)
        n_kept = np.bincount(self.users[~held], minlength=self.n_users)
        has_both = (n_kept > 0) & (np.bincount(self.users[held], minlength=self.n_users) > 0)
        if n_users is not None and n_users < has_both.sum():
            candidates = np.flatnonzero(has_both)
            has_both[candidates[Holdout.draw(len(candidates), n_users, seed).kept]] = False
        shown = held & has_both[self.users]
        return self.take(~held if strategy == "time" else ~shown), self.take(shown)

    def _is_last(self, seed: int, share: float) -> Bools:
        return np.asarray(self.recency == 0)

    def _is_late(self, seed: int, share: float) -> Bools:
        assert self.times is not None
        n_held = round(share * len(self))
        if not n_held:
            return np.zeros(len(self), bool)
        cut = np.partition(self.times, len(self) - n_held)[len(self) - n_held]
        return np.asarray(self.times >= cut)

    def _is_masked(self, seed: int, share: float) -> Bools:
        """Mask all events of a random share of each user's distinct items; one item alone stays."""
        pairs, of_event = np.unique(self.users.astype(np.int64) * self.n_items + self.items, return_inverse=True)
        users = pairs // max(self.n_items, 1)
        counts = np.bincount(users, minlength=self.n_users)
        order = np.lexsort((np.random.default_rng((seed, 3)).random(len(pairs)), users))
        ranks = np.empty(len(pairs), np.int64)
        ranks[order] = np.arange(len(pairs)) - (np.cumsum(counts) - counts)[users]
        n_held = np.where(counts > 1, np.maximum(np.round(share * counts), 1), 0)
        return np.asarray(ranks < n_held[users])[of_event]
