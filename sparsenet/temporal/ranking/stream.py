"""A stream of events: names, state and ranker, which learn event by event."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.data.frame_columns import as_column
from sparsenet.features.logs import Kinds
from sparsenet.kernels.types import F32, F64, I32, I64, Bools
from sparsenet.temporal.event_log import EventLog
from sparsenet.temporal.event_stream import EventStream
from sparsenet.temporal.feature_columns import FeatureColumns, ItemTable
from sparsenet.temporal.name_slots import NamedEvents, NameSlots
from sparsenet.temporal.rank_measures import MISS
from sparsenet.temporal.ranking.stream_arrays import ITEM_EVENT, USER_EVENT, StreamArrays
from sparsenet.temporal.ranking.stream_rules import StreamRules

#: Events of one call of a kernel, after which Ctrl-C and queries of other threads have their turn.
_CHUNK = 16384


class Answers(NamedTuple):
    """Items for queries: the number of the query, the name of the item, its share, and its rank from 1."""

    rows: I64
    names: NDArray[Any]
    shares: F32
    ranks: I64


class Stream(EventStream):
    """Learn from events in the order of time, and rank the next item of users.

    A mutual stream has one object for the slots of users and items: they are the same things.
    """

    def __init__(
        self,
        arrays: StreamArrays,
        users: NameSlots,
        items: NameSlots,
        max_users: int,
        max_items: int,
        event_columns: FeatureColumns,
        item_table: ItemTable,
    ) -> None:
        super().__init__()
        self.arrays, self.users, self.items = arrays, users, items
        self.event_columns, self.item_table = event_columns, item_table
        most = min(max_users, max_items)
        self.max_users, self.max_items = (most, most) if self.mutual else (max_users, max_items)

    @classmethod
    def blank(
        cls,
        history: int,
        max_users: int,
        max_items: int,
        *,
        mutual: bool,
        event_columns: FeatureColumns,
        item_table: ItemTable,
        rules: StreamRules,
    ) -> Stream:
        """Return a stream without events."""
        users = NameSlots("user")
        items = users if mutual else NameSlots("item")
        arrays = StreamArrays.blank(history, event_columns.n_features, item_table.columns.n_features, rules=rules)
        return cls(arrays, users, items, max_users, max_items, event_columns, item_table)

    @property
    def mutual(self) -> bool:
        """Whether users and items are the same things."""
        return self.users is self.items

    @property
    def kinds(self) -> Kinds:
        """The kinds of the names of users and items."""
        return self.users.kind, self.items.kind

    def _position(self) -> tuple[float, float]:
        return self.arrays.clock[0], self.arrays.clock[2]

    # --- learning ---

    def learn(self, log: EventLog, refresh: int, *, ranking: bool, item_table: ItemTable | None = None) -> I64:
        """Rank each event's item, if wanted, from the state before its block of `refresh` events, then learn it.

        An `item_table` replaces the features of all items before. Ctrl-C leaves the running chunk and the events before
        it learnt.
        """
        features = self.event_columns.encode(log.frame)[log.rows]
        ranks = np.zeros(len(log) if ranking else 0, np.int64)
        with self.lock:
            columns = self._columns(log)  # may refuse the log, so nothing changes before
            if item_table is not None:
                self._set_item_table(item_table)
        step = max(1, _CHUNK // refresh) * refresh
        first = 0
        while first < len(log):
            with self.whole():
                end = first + min(column.until_full(first, first + step) for column in columns)
                ends = [column.end_after(first, end) for column in columns]
                self.arrays.make_room(ends[0], ends[-1], self.max_users, self.max_items)  # no name lacks a row
                slots = np.concatenate([column.assign(first, end) for column in columns], axis=1)
                self._learn(slots, log.times[first:end], features[first:end], refresh, ranks[first:end])
                if end < len(log):
                    self._make_way(columns, end)
                first = end
        return ranks

    def _columns(self, log: EventLog) -> list[NamedEvents]:
        """Return the names of each event: of user and item together if they are the same things."""
        if self.mutual:
            log = log.mutual()
            codes = np.column_stack((log.users, log.items))
            return [NamedEvents(self.users, log.user_names, codes, self.max_users)]
        return [
            NamedEvents(self.users, log.user_names, log.users[:, None], self.max_users),
            NamedEvents(self.items, log.item_names, log.items[:, None], self.max_items),
        ]

    def _set_item_table(self, table: ItemTable) -> None:
        """Replace the features of all items."""
        with self.lock:
            self.item_table = table
            self.arrays.item_features[: self.items.end] = table.of(self.items.names)

    def _learn(self, slots: I32, times: F64, features: F32, refresh: int, ranks: I64) -> None:
        users, items = np.ascontiguousarray(slots.T)
        counts = self.arrays.item_counts
        named = slots if self.mutual else slots[:, 1:]
        new = np.unique(named[counts[named] < 0])
        self._describe(new)
        counts[new] = 0
        kernels.learn_stream(
            **vars(self.arrays),
            users=users,
            items=items,
            times=times,
            features=features,
            mutual=self.mutual,
            refresh=refresh,
            out_ranks=ranks,
        )
        if len(ranks):
            ranks[_are_unknown(items, named, new, refresh)] = MISS

    def _describe(self, items: I32) -> None:
        """Set the features of new items."""
        if self.item_table.names:
            self.arrays.item_features[items] = self.item_table.of([self.items.names[item] for item in items.tolist()])

    def _make_way(self, columns: list[NamedEvents], event: int) -> None:
        """Remove the users or items without recent events if an event finds no slot."""
        for column in columns:
            if column.is_full_at(event):
                oldest = column.slots.oldest(self._last_events(column.slots))
                if column.slots is self.users:
                    self.arrays.remove_users(oldest)
                if column.slots is self.items:
                    self.arrays.remove_items(oldest)
                column.forget(oldest)

    def _last_events(self, slots: NameSlots) -> F64:
        """Return the number of the last event in each slot, -1 without events: times may be equal."""
        arrays, found = self.arrays, []
        if slots is self.users:
            found.append(np.where(arrays.user_values[:, 0] > 0, arrays.user_values[:, USER_EVENT], -1))
        if slots is self.items:
            found.append(np.where(arrays.item_counts > 0, arrays.item_values[:, ITEM_EVENT], -1))
        return np.asarray(np.maximum.reduce(found))

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


def _are_unknown(items: I32, named: I32, new: I32, refresh: int) -> Bools:
    """Return a mask of the events whose item is `new` and first `named` (n, any) in the same block of `refresh`."""
    distinct, firsts = np.unique(named, return_index=True)
    first_events = firsts[np.searchsorted(distinct, items)] // named.shape[1]
    same_block = first_events // refresh == np.arange(len(items)) // refresh
    unknown: Bools = np.isin(items, new) & same_block
    return unknown
