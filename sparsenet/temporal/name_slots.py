"""Slots of an array for names that come and go."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.kernels.types import I32

_KINDS = {True: "strings", False: "whole numbers"}


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
    def end(self) -> int:
        """The number of slots, free ones among them included."""
        return len(self.names)

    def find(self, names: NDArray[Any]) -> I32:
        """Return the slot of each name, -1 if it has none; refuse strings where names are numbers, and vice versa."""
        wanted = names.tolist()
        if wanted and self._slots and isinstance(wanted[0], str) != isinstance(next(iter(self._slots)), str):
            found, known = _KINDS[isinstance(wanted[0], str)], _KINDS[not isinstance(wanted[0], str)]
            raise ValueError(
                f"{self.what}s are named by {found}, and the model knows them by {known}: convert the column"
            )
        return np.fromiter((self._slots.get(name, -1) for name in wanted), np.int32, len(wanted))

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
