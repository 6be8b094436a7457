"""The names of the nodes of a temporal graph, and their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import MAX_WIDTH
from sparsenet.kernels.types import I32, I64
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

    def assign(self, log: EventLog) -> NodeRows:
        """Return the rows of the nodes of events, after giving rows to new names."""
        return self._assign_mutual(log.mutual()) if self.mutual else self._assign_both(log)

    def _assign_mutual(self, log: EventLog) -> NodeRows:
        before = self.end
        rows = _assigned(self.sources, log.user_names, np.column_stack((log.users, log.items)))
        self.source_rows = self.target_rows = np.arange(self.end, dtype=np.int32)
        sources, targets = np.ascontiguousarray(rows.T)
        return NodeRows(sources, targets, _known(rows.max(axis=1, initial=-1), before))

    def _assign_both(self, log: EventLog) -> NodeRows:
        n_sources, n_targets, end = len(self.sources), len(self.targets), self.end
        sources = _assigned(self.sources, log.user_names, log.users[:, None])[:, 0]
        targets = _assigned(self.targets, log.item_names, log.items[:, None])[:, 0]
        first_sources, first_targets = _first_events(sources, n_sources), _first_events(targets, n_targets)
        order = np.argsort(np.concatenate((2 * first_sources, 2 * first_targets + 1)))
        rows = np.empty(len(order), np.int32)
        rows[order] = np.arange(end, end + len(order))
        self.source_rows = np.concatenate((self.source_rows, rows[: len(first_sources)]))
        self.target_rows = np.concatenate((self.target_rows, rows[len(first_sources) :]))
        return NodeRows(self.source_rows[sources], self.target_rows[targets], _known(targets, n_targets))


def _assigned(slots: NameSlots, names: NDArray[Any], codes: I32) -> I32:
    """Return the slots of the names of events, after giving slots to new names in the order of events."""
    return NamedEvents(slots, names, codes, MAX_WIDTH).assign(0, len(codes))


def _first_events(slots: I32, before: int) -> I64:
    """Return the first event of each slot from `before` on."""
    found, firsts = np.unique(slots, return_index=True)
    return firsts[found >= before]


def _known(slots: I32, before: int) -> I64:
    """Return the number of possible targets before each event, and after the last one."""
    return np.maximum.accumulate(np.concatenate(([before], slots.astype(np.int64) + 1)))
