"""The names of the nodes of a temporal graph, and their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import MAX_WIDTH
from sparsenet.kernels.types import I32, I64, Bools
from sparsenet.temporal.event_log import EventLog
from sparsenet.temporal.name_slots import NamedEvents, NameSlots


@dataclass(frozen=True, eq=False)
class NodeRows:
    """The rows of the nodes of events.

    Attributes
    ----------
    sources, targets : ndarray of shape (n,), int32
    known : ndarray of shape (n + 1,), int64
        The number of possible targets before each event, and after the last one.
    """

    sources: I32
    targets: I32
    known: I64


class NodeNames:
    """Rows for sources and for targets, in the order of their first event. In a mutual graph they share them."""

    def __init__(self, sources: NameSlots, targets: NameSlots, source_rows: I32, target_rows: I32) -> None:
        self.sources, self.targets = sources, targets
        self.source_rows, self.target_rows = source_rows, target_rows

    @classmethod
    def blank(cls, *, mutual: bool) -> NodeNames:
        """Return no names."""
        sources, rows = NameSlots("source"), np.zeros(0, np.int32)
        return cls(sources, sources if mutual else NameSlots("target"), rows, rows)

    @property
    def mutual(self) -> bool:
        """Whether sources and targets are the same things."""
        return self.sources is self.targets

    @property
    def end(self) -> int:
        """The number of nodes."""
        return len(self.sources) if self.mutual else len(self.sources) + len(self.targets)

    def find(self, names: NDArray[Any], *, targets: bool) -> I32:
        """Return the row of each name; unknown names get the row behind the last one."""
        slots = (self.targets if targets else self.sources).find(names)
        rows = np.append(self.target_rows if targets else self.source_rows, np.int32(self.end))
        return rows[slots]  # -1 finds the last one

    def assign(self, log: EventLog, most: int) -> NodeRows:
        """Return the rows of the nodes of events, after giving rows to new names.

        These are the events before the first one that would make more than `most` nodes.
        """
        columns = self._columns(log)
        firsts = np.sort(np.concatenate([column.first_events(0, len(log)) for column in columns]))
        room = max(0, most - self.end)
        n = len(log) if len(firsts) <= room else int(firsts[room])
        return self._assign_mutual(columns, n) if self.mutual else self._assign_both(columns, n)

    def _columns(self, log: EventLog) -> list[NamedEvents]:
        """Return the names of sources and targets, in one column if they are the same things."""
        if self.mutual:
            log = log.mutual()
            return [NamedEvents(self.sources, log.user_names, np.column_stack((log.users, log.items)), MAX_WIDTH)]
        return [
            NamedEvents(self.sources, log.user_names, log.users[:, None], MAX_WIDTH),
            NamedEvents(self.targets, log.item_names, log.items[:, None], MAX_WIDTH),
        ]

    def _assign_mutual(self, columns: list[NamedEvents], n: int) -> NodeRows:
        before = self.end
        rows = columns[0].assign(0, n)
        self.source_rows = self.target_rows = np.arange(self.end, dtype=np.int32)
        sources, targets = np.ascontiguousarray(rows.T)
        return NodeRows(sources, targets, _known(rows.max(axis=1, initial=-1), before))

    def _assign_both(self, columns: list[NamedEvents], n: int) -> NodeRows:
        n_sources, n_targets, end = len(self.sources), len(self.targets), self.end
        sources, targets = (column.assign(0, n)[:, 0] for column in columns)
        first_sources, first_targets = _first_events(sources, n_sources), _first_events(targets, n_targets)
        order = np.argsort(np.concatenate((2 * first_sources, 2 * first_targets + 1)))
        rows = np.empty(len(order), np.int32)
        rows[order] = np.arange(end, end + len(order))
        self.source_rows = np.concatenate((self.source_rows, rows[: len(first_sources)]))
        self.target_rows = np.concatenate((self.target_rows, rows[len(first_sources) :]))
        return NodeRows(self.source_rows[sources], self.target_rows[targets], _known(targets, n_targets))

    def keep(self, kept: Bools) -> None:
        """Forget the other nodes, and close the gaps between the rows."""
        new = np.cumsum(kept, dtype=np.int32) - 1
        sources = _kept(self.sources, self.source_rows, kept, new)
        targets = sources if self.mutual else _kept(self.targets, self.target_rows, kept, new)
        (self.sources, self.source_rows), (self.targets, self.target_rows) = sources, targets


def _kept(slots: NameSlots, rows: I32, kept: Bools, new: I32) -> tuple[NameSlots, I32]:
    """Return the slots and the new rows of the names that stay."""
    names = [slots.names[slot] for slot in np.flatnonzero(kept[rows]).tolist()]
    return NameSlots.of(slots.what, names), new[rows[kept[rows]]]


def _first_events(slots: I32, before: int) -> I64:
    """Return the first event of each slot from `before` on."""
    found, firsts = np.unique(slots, return_index=True)
    return firsts[found >= before]


def _known(slots: I32, before: int) -> I64:
    """Return the number of possible targets before each event, and after the last one."""
    return np.maximum.accumulate(np.concatenate(([before], slots.astype(np.int64) + 1)))
