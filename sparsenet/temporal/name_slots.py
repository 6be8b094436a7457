"""Slots of an array for names that come and go."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.features.name_kinds import in_kind
from sparsenet.kernels.types import F64, I32, I64, Bools


def n_removed(n: int) -> int:
    """Return how many of `n` names are removed when there is no room: an eighth, at least one."""
    return max(1, n // 8)


class NameSlots:
    """The slot of each name: new names get the lowest free slot.

    Examples
    --------
    >>> slots = NameSlots("user")
    >>> slots.add("ann"), slots.add("bob")
    (0, 1)
    >>> slots.remove([0])
    >>> slots.add("cas"), slots.end
    (0, 2)
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.names: list[Any] = []  # by slot; None if it is free
        self._slots: dict[Any, int] = {}
        self._free: list[int] = []  # a heap

    @classmethod
    def of(cls, what: str, names: list[Any]) -> NameSlots:
        """Return names with known slots; None for free ones."""
        found = cls(what)
        found.names = names
        found._slots = {name: slot for slot, name in enumerate(names) if name is not None}
        found._free = [slot for slot, name in enumerate(names) if name is None]  # ascending: a heap
        return found

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def kind(self) -> str | None:
        """The kind of the names: "O" for strings, "i" for whole numbers, None without names."""
        return None if not self._slots else "O" if isinstance(next(iter(self._slots)), str) else "i"

    @property
    def end(self) -> int:
        """The number of slots, free ones among them included."""
        return len(self.names)

    def find(self, names: NDArray[Any]) -> I32:
        """Return the slot of each name, -1 if it has none."""
        wanted, fits = in_kind(names, self.kind)
        slots = np.fromiter((self._slots.get(name, -1) for name in wanted.tolist()), np.int32, len(wanted))
        return np.where(fits, slots, np.int32(-1))

    def add(self, name: Any) -> int:
        """Return a slot for a new name."""
        if self._free:
            slot = heapq.heappop(self._free)
            self.names[slot] = name
        else:
            slot = len(self.names)
            self.names.append(name)
        self._slots[name] = slot
        return slot

    def remove(self, slots: Any) -> None:
        """Free some slots."""
        for slot in slots:
            del self._slots[self.names[slot]]
            self.names[slot] = None
            heapq.heappush(self._free, slot)

    def oldest(self, last: F64) -> Bools:
        """Return a mask of an eighth of the names, at least one: those whose last event is the oldest."""
        used = np.flatnonzero([name is not None for name in self.names])
        mask = np.zeros(len(last), bool)
        mask[used[np.argsort(last[used], kind="stable")[: n_removed(len(used))]]] = True
        return mask


class NamedEvents:
    """The names of events, as positions in `names` (n, width), which get slots in the order of events.

    New names have the kind of the known ones.
    """

    def __init__(self, slots: NameSlots, names: NDArray[Any], codes: I32, most: int) -> None:
        self.slots, self._names, self._codes, self._most = slots, names, codes, most
        self._known = slots.find(names)

    def first_events(self, first: int, end: int) -> I64:
        """Return the first event of each new name among some events, counted from `first`, ascending."""
        codes = self._codes[first:end]
        flat = codes.ravel()
        places = np.flatnonzero(self._known[flat] < 0)
        firsts = np.sort(places[np.unique(flat[places], return_index=True)[1]])
        events: I64 = firsts // codes.shape[1]
        return events

    def until_full(self, first: int, end: int) -> int:
        """Return how many events from `first` on, before `end`, find a slot for each name."""
        firsts, room = self.first_events(first, end), self._most - len(self.slots)
        return min(end, len(self._codes)) - first if len(firsts) <= room else int(firsts[room])

    def is_full_at(self, event: int) -> bool:
        """Return whether an event has more new names than there are free slots."""
        return self.until_full(event, event + 1) == 0

    def end_after(self, first: int, end: int) -> int:
        """Return the number of slots when events from `first` on, before `end`, have theirs."""
        return max(self.slots.end, len(self.slots) + len(self.first_events(first, end)))

    def assign(self, first: int, end: int) -> I32:
        """Return the slots of events, (n, width), after giving slots to new names."""
        codes = self._codes[first:end]
        flat = codes.ravel()
        for code in dict.fromkeys(flat[self._known[flat] < 0].tolist()):
            name = self._names[code]
            self._known[code] = self.slots.add(name.item() if isinstance(name, np.generic) else name)
        return self._known[codes]

    def forget(self, dropped: Bools) -> None:
        """Free some slots, given as a mask."""
        self.slots.remove(np.flatnonzero(dropped).tolist())
        self._known[(self._known >= 0) & dropped[self._known]] = -1
