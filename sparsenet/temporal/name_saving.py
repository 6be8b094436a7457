"""Names and their slots as arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparsenet.core.validation import boolean
from sparsenet.kernels.types import Arrays
from sparsenet.storage.format import ModelError
from sparsenet.storage.strings import pack_strings, unpack_strings
from sparsenet.temporal.name_slots import NameSlots


def pack_list(names: list[Any], what: str) -> tuple[Arrays, bool]:
    """Return names as arrays, and whether they are strings."""
    is_strings = bool(names) and isinstance(names[0], str)
    return pack_strings(names, what) if is_strings else {what: np.array(names, np.int64)}, is_strings


def unpack_list(arrays: Arrays, what: str, is_strings: Any) -> list[Any]:
    """Return the names that `pack_list` packed; raises ModelError if they are not distinct."""
    if not boolean(f"string_{what}", is_strings) and (arrays[what].dtype != np.int64 or arrays[what].ndim != 1):
        raise ModelError(f"{what} must be names: strings or int64, got {arrays[what].dtype}")
    names = unpack_strings(arrays, what) if is_strings else arrays[what].tolist()
    if len(set(names)) != len(names):
        raise ModelError(f"{what} must have distinct names")
    return names


def pack_names(slots: NameSlots, what: str) -> tuple[Arrays, bool]:
    """Return the names and their slots, and whether they are strings."""
    used = [slot for slot, name in enumerate(slots.names) if name is not None]
    packed, is_strings = pack_list([slots.names[slot] for slot in used], what)
    return packed | {f"{what}.slots": np.array(used, np.int32)}, is_strings


def unpack_names(arrays: Arrays, what: str, is_strings: Any, n: int) -> NameSlots:
    """Return the names of `n` slots; raises ModelError if they contradict each other."""
    slots, names = arrays[f"{what}s.slots"], unpack_list(arrays, f"{what}s", is_strings)
    if slots.dtype != np.int32 or slots.shape != (len(names),) or not (slots[1:] > slots[:-1]).all():
        raise ModelError(f"{what}s.slots must ascend, and have a number for each name")
    if len(slots) and (slots[0] < 0 or slots[-1] >= n):
        raise ModelError(f"{what}s must have slots below {n}")
    by_slot: list[Any] = [None] * n
    for slot, name in zip(slots.tolist(), names, strict=True):
        by_slot[slot] = name
    return NameSlots.of(what, by_slot)
