"""Events by key and time, and the last ones before a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sparsenet.kernels.types import F64, I32, I64, Arrays, Bools
from sparsenet.storage.format import ModelError


class Look(NamedTuple):
    """The last events before each of n times, the latest first: (n, length) codes, -1 for none, and times."""

    code: I64
    time: F64


@dataclass(frozen=True, eq=False)
class Track:
    """Events, sorted by key and then by time; events of one time keep their order.

    Attributes
    ----------
    key : ndarray of int64
    time : ndarray of float64
    code : ndarray of int32
        What happened.
    """

    key: I64
    time: F64
    code: I32

    @classmethod
    def empty(cls) -> Track:
        """Return no events."""
        return cls(np.empty(0, np.int64), np.empty(0), np.empty(0, np.int32))

    @classmethod
    def of(cls, key: I64, time: F64, code: I64) -> Track:
        """Sort the events of rows; a row with a negative key or code is none."""
        rows = np.flatnonzero((key >= 0) & (code >= 0))
        rows = rows[np.lexsort((time[rows], key[rows]))]
        return cls(key[rows], time[rows], code[rows].astype(np.int32))

    def __len__(self) -> int:
        return len(self.key)

    @cached_property
    def _n_keys(self) -> int:
        return int(self.key[-1]) + 1 if len(self) else 0

    @cached_property
    def starts(self) -> I64:
        """The first event of each key, and the number of events at the end."""
        return np.searchsorted(self.key, np.arange(self._n_keys + 1))

    def _take(self, events: I64 | Bools) -> Track:
        return Track(self.key[events], self.time[events], self.code[events])

    def last(self, n: int, n_keys: int, max_events: int) -> Track:
        """Return the last `n` events of each key; if they are too many, of the keys with the latest events."""
        ends = np.searchsorted(self.key, np.arange(n_keys), side="right")
        kept = self._take(np.arange(len(self)) >= ends[self.key] - n) if len(self) else self
        if len(kept) <= max_events:
            return kept
        ends = np.searchsorted(kept.key, np.arange(n_keys), side="right")
        has_events = np.diff(ends, prepend=0) > 0
        latest = np.where(has_events, kept.time[ends - 1], -np.inf)
        order = np.argsort(-latest, kind="stable")
        chosen = np.zeros(n_keys, bool)
        chosen[order[np.cumsum(np.diff(ends, prepend=0)[order]) <= max_events]] = True
        return kept._take(chosen[kept.key])

    def of_keys(self, keys: I64) -> Track:
        """Return the events of some keys, which ascend."""
        keys = keys[keys < self._n_keys]
        lengths = self.starts[keys + 1] - self.starts[keys]
        return self._take(
            np.repeat(self.starts[keys] - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())
        )

    def joined(self, more: Track) -> Track:
        """Join further events; what both have counts once, so that rows may be encoded after they were learnt."""
        known = self._take(~self._are_in(more))
        key, time, code = (np.concatenate((getattr(known, n), getattr(more, n))) for n in ("key", "time", "code"))
        order = np.lexsort((time, key))
        return Track(key[order], time[order], code[order])

    def _are_in(self, more: Track) -> Bools:
        """Return the mask of events that `more` has, too."""
        found = np.zeros(len(self), bool)
        if len(self) and len(more):
            key, time, code = (np.concatenate((getattr(more, n), getattr(self, n))) for n in ("key", "time", "code"))
            order = np.lexsort((np.arange(len(key)), code, time, key))  # among equals, `more` comes first
            own = order >= len(more)
            key, time, code = key[order], time[order], code[order]
            is_new = np.concatenate(([True], (np.diff(key) != 0) | (np.diff(time) != 0) | (np.diff(code) != 0)))
            first = np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0))
            found[order[own] - len(more)] = ~own[first[own]]
        return found

    def longest(self) -> int:
        """Return the largest number of events of one key."""
        return int(np.unique(self.key, return_counts=True)[1].max(initial=0))

    def before(self, key: I64, time: F64, n: int) -> Look:
        """Return the last `n` events of each key that are earlier than each time; a key of -1 has none."""
        place = self._places(key, time)
        available = np.where(key >= 0, place - np.searchsorted(self.key, key), 0)
        length = max(int(min(available.max(initial=0), n)), 1)
        event = place[:, None] - 1 - np.arange(length)
        there = np.arange(length) < available[:, None]
        if not len(self):
            return Look(np.full(there.shape, -1), np.full(there.shape, np.nan))
        event = np.where(there, event, 0)
        return Look(np.where(there, self.code[event], -1), np.where(there, self.time[event], np.nan))

    def _places(self, key: I64, time: F64) -> I64:
        """Return the number of events that are before each key and time."""
        keys, times = np.concatenate((key, self.key)), np.concatenate((time, self.time))
        are_events = np.arange(len(keys)) >= len(key)
        order = np.lexsort((are_events, times, keys))  # a time is before the events of the same time
        n_before = np.empty(len(keys), np.int64)
        n_before[order] = np.cumsum(are_events[order])
        return n_before[: len(key)]

    @classmethod
    def restore(cls, arrays: Arrays, n_keys: int, n_codes: int) -> Track:
        """Check and return the events of a saved model."""
        key, time, code = arrays["key"], arrays["time"], arrays["code"]
        if key.dtype != np.int64 or time.dtype != np.float64 or code.dtype != np.int32:
            raise ModelError("the events of a history must be keys of int64, times of float64 and codes of int32")
        if key.ndim != 1 or key.shape != time.shape or key.shape != code.shape:
            raise ModelError("the events of a history must each have a key, a time and a code")
        if len(key) and not (0 <= key.min() <= key.max() < n_keys and 0 <= code.min() <= code.max() < n_codes):
            raise ModelError(f"the events of a history must be of {n_keys} keys, and their codes below {n_codes}")
        is_sorted = (np.diff(key) > 0) | ((np.diff(key) == 0) & (np.diff(time) >= 0))
        if not np.isfinite(time).all() or not is_sorted.all():
            raise ModelError("the events of a history must be sorted by key and time, and times be finite")
        return cls(key, time, code)
