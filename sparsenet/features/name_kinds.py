"""Names of users and items are strings or whole numbers, and 17 and "17" are one name.

CSV files name everything by strings, Parquet files and data frames often by whole numbers. A model keeps the kind of
its training log, and further names are converted to it.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.data.frame_columns import objects
from sparsenet.kernels.types import Bools

#: The kinds of names in words, by the kind of their array.
KINDS = {"O": "strings", "i": "whole numbers"}
_WHOLE_NUMBER = re.compile("0|-?[1-9][0-9]{0,18}")
_INT64 = np.iinfo(np.int64)


def in_kind(names: NDArray[Any], kind: str | None) -> tuple[NDArray[Any], Bools]:
    """Return names as strings ("O") or as whole numbers ("i"), and a mask of the names that have this kind.

    None changes nothing. "017" is not 17.

    Examples
    --------
    >>> in_kind(np.array(["17", "017", "tea"], object), "i")
    (array([17,  0,  0]), array([ True, False, False]))
    >>> in_kind(np.array([17]), "O")[0]
    array(['17'], dtype=object)
    """
    if kind in (None, names.dtype.kind) or not len(names):
        return names, np.ones(len(names), bool)
    if kind == "O":
        return objects([str(name) for name in names.tolist()]), np.ones(len(names), bool)
    found = [_whole_number(name) for name in names.tolist()]
    fits: Bools = np.array([number is not None for number in found], bool)
    return np.array([number or 0 for number in found], np.int64), fits


def _whole_number(name: str) -> int | None:
    """Return the number that a string spells as Python does; None if there is none in 64 bits."""
    number = int(name) if _WHOLE_NUMBER.fullmatch(name) else None
    return None if number is None or not _INT64.min <= number <= _INT64.max else number
