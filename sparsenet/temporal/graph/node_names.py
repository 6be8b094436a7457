"""The names of the nodes of a temporal graph, and their rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.kernels.types import I32, I64
from sparsenet.temporal.event_log import EventLog
from sparsenet.temporal.name_slots import NameSlots


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
        codes = np.column_stack((log.users, log.items)).ravel()
        slots, before = self.sources.find(log.user_names), self.end
        _add_new(self.sources, log.user_names, codes, slots)
        self.source_rows = self.target_rows = np.arange(self.end, dtype=np.int32)
        rows = slots[codes].reshape(-1, 2)
        sources, targets = np.ascontiguousarray(rows.T)
        return NodeRows(sources, targets, _known(rows.max(axis=1, initial=-1), before))

    def _assign_both(self, log: EventLog) -> NodeRows:
        sources, targets = self.sources.find(log.user_names), self.targets.find(log.item_names)
        before, end = len(self.targets), self.end
        first_sources = _add_new(self.sources, log.user_names, log.users, sources)
        first_targets = _add_new(self.targets, log.item_names, log.items, targets)
        order = np.argsort(np.concatenate((2 * first_sources, 2 * first_targets + 1)))
        rows = np.empty(len(order), np.int32)
        rows[order] = np.arange(end, end + len(order))
        self.source_rows = np.concatenate((self.source_rows, rows[: len(first_sources)]))
        self.target_rows = np.concatenate((self.target_rows, rows[len(first_sources) :]))
        slots = targets[log.items]
        return NodeRows(self.source_rows[sources[log.users]], self.target_rows[slots], _known(slots, before))


def _add_new(slots: NameSlots, names: NDArray[Any], codes: I32, found: I32) -> I64:
    """Give slots to names that have none, in the order of events; return their first events. Updates `found`."""
    distinct, firsts = np.unique(codes, return_index=True)
    order = np.argsort(firsts)
    new = order[found[distinct[order]] < 0]
    for code in distinct[new].tolist():
        name = names[code]
        found[code] = slots.add(name.item() if isinstance(name, np.generic) else name)
    return firsts[new]


def _known(slots: I32, before: int) -> I64:
    """Return the number of possible targets before each event, and after the last one."""
    return np.maximum.accumulate(np.concatenate(([before], slots.astype(np.int64) + 1)))
