"""A stream of events: names, state and ranker, which learn event by event."""

from __future__ import annotations

from threading import RLock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.data.frame_columns import as_column
from sparsenet.kernels.types import F32, F64, I32, I64, Bools
from sparsenet.temporal.event_log import EventLog
from sparsenet.temporal.name_slots import NameSlots
from sparsenet.temporal.stream_arrays import StreamArrays

#: Events of one call of a kernel, after which Ctrl-C and queries of other threads have their turn.
_CHUNK = 16384
#: The part of all users or items that is removed when there are too many.
_REMOVED = 8
_LAST, _ITEM_EVENT = 1, 1  # columns of user_values and item_values


class Answers(NamedTuple):
    """Items for queries: the number of the query, the name of the item, its share, and its rank from 1."""

    rows: I64
    names: NDArray[Any]
    shares: F32
    ranks: I64


class Stream:
    """Learn from events in the order of time, and rank the next item of users.

    One lock guards all: a query waits until the running chunk of an update has ended, and sees whole events.
    """

    def __init__(
        self, arrays: StreamArrays, users: NameSlots, items: NameSlots, max_users: int, max_items: int
    ) -> None:
        self.arrays, self.users, self.items = arrays, users, items
        self.max_users, self.max_items = max_users, max_items
        self.lock = RLock()

    @classmethod
    def blank(cls, history: int, max_users: int, max_items: int) -> Stream:
        """Return a stream without events."""
        return cls(StreamArrays.blank(history), NameSlots("user"), NameSlots("item"), max_users, max_items)

    @property
    def n_events(self) -> int:
        """The number of events learnt."""
        return int(self.arrays.clock[0])

    @property
    def newest(self) -> float | None:
        """The time of the last event; None before the first."""
        return float(self.arrays.clock[2]) if self.n_events else None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, lock=RLock())

    # --- learning ---

    def learn(self, log: EventLog, refresh: int) -> I64:
        """Rank each event's item from the state before its block of `refresh` events, then learn it; return the ranks.

        An error or Ctrl-C leaves the events before it learnt.
        """
        ranks = np.zeros(len(log), np.int64)
        with self.lock:
            of_users, of_items = self.users.find(log.user_names), self.items.find(log.item_names)
        step = max(1, _CHUNK // refresh) * refresh
        first = 0
        while first < len(log):
            with self.lock:
                end = min(first + step, len(log))
                end = first + min(
                    _until_full(self.users, of_users, log.users[first:end], self.max_users),
                    _until_full(self.items, of_items, log.items[first:end], self.max_items),
                )
                users = _assign(self.users, of_users, log.user_names, log.users[first:end])
                items = _assign(self.items, of_items, log.item_names, log.items[first:end])
                self._learn(users, items, log.times[first:end], refresh, ranks[first:end])
                if end < len(log):
                    self._make_way(log, of_users, of_items, end)
                first = end
        return ranks

    def _learn(self, users: I32, items: I32, times: F64, refresh: int, ranks: I64) -> None:
        self.arrays.make_room(self.users.end, self.items.end)
        counts = self.arrays.item_counts
        counts[items] = np.maximum(counts[items], 0)  # they have a name now
        kernels.learn_stream(
            **vars(self.arrays), users=users, items=items, times=times, refresh=refresh, out_ranks=ranks
        )

    def _make_way(self, log: EventLog, of_users: I32, of_items: I32, event: int) -> None:
        """Remove the users or items without recent events if an event needs a slot and none is left."""
        if of_users[log.users[event]] < 0 and len(self.users) >= self.max_users:
            oldest = _oldest(self.users, self.arrays.user_values[:, _LAST])
            self.arrays.remove_users(oldest)
            _forget(self.users, of_users, oldest)
        if of_items[log.items[event]] < 0 and len(self.items) >= self.max_items:
            oldest = _oldest(self.items, self.arrays.item_values[:, _ITEM_EVENT])
            self.arrays.remove_items(oldest)
            _forget(self.items, of_items, oldest)

    # --- answers ---

    def rank(self, users: NDArray[Any], times: F64, k: int, threads: int) -> Answers:
        """Return the k best items of each user, with their probabilities; unknown users have no history."""
        with self.lock:
            found, shares = np.empty((len(users), k), np.int32), np.empty((len(users), k), np.float32)
            kernels.rank_stream(
                **self.arrays.state(),
                users=self.users.find(users),
                times=times,
                out_items=found,
                out_scores=shares,
                threads=threads,
            )
            return self._named(found, shares)

    def successors(self, items: NDArray[Any], k: int) -> Answers:
        """Return the k items that most often follow each item, with their fractions of all recent moves."""
        with self.lock:
            slots = self.items.find(items)
            if (slots < 0).any():
                name = items[np.argmax(slots < 0)]
                raise ValueError(f"items holds {name!r}, which the model does not know: it has no similar items")
            found, counts = self.arrays.context_items[slots], self.arrays.context_counts[slots]
            order = np.argsort(-counts, axis=1, kind="stable")[:, :k]
            shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), np.float32(1))
            return self._named(np.take_along_axis(found, order, 1), np.take_along_axis(shares, order, 1))

    def _named(self, found: I32, shares: F32) -> Answers:
        rows, ranks = np.nonzero(found >= 0)
        names = as_column([self.items.names[slot] for slot in found[rows, ranks].tolist()], "item")
        return Answers(rows, names, shares[rows, ranks], ranks + 1)


def _until_full(slots: NameSlots, known: I32, codes: I32, most: int) -> int:
    """Return how many events come before the first one whose name finds no slot."""
    unknown, events = np.unique(codes[known[codes] < 0], return_index=True)
    room = most - len(slots)
    if len(unknown) <= room:
        return len(codes)
    return int(np.flatnonzero(known[codes] < 0)[np.sort(events)[room]])


def _assign(slots: NameSlots, known: I32, names: NDArray[Any], codes: I32) -> I32:
    """Return the slots of events, after giving slots to new names in the order of events."""
    new = codes[known[codes] < 0]
    for code in dict.fromkeys(new.tolist()):
        name = names[code]
        known[code] = slots.add(name.item() if isinstance(name, np.generic) else name)
    return known[codes]


def _oldest(slots: NameSlots, last: F64) -> Bools:
    """Return a mask of an eighth of the slots in use, at least one: those whose last event is the oldest."""
    used = np.flatnonzero([name is not None for name in slots.names])
    chosen = used[np.argsort(last[used], kind="stable")[: max(1, len(used) // _REMOVED)]]
    mask = np.zeros(len(last), bool)
    mask[chosen] = True
    return mask


def _forget(slots: NameSlots, known: I32, dropped: Bools) -> None:
    slots.remove(np.flatnonzero(dropped).tolist())
    known[(known >= 0) & dropped[known]] = -1
