"""Arrays that begin where a cache line does: a row that straddles lines is one line more to wait for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

#: Bytes of a cache line, and of the widest vector.
LINE = 64


def zeros(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return zeros; what is not written takes no memory."""
    return _aligned(np.zeros, shape, dtype)


def empty(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array with undefined content."""
    return _aligned(np.empty, shape, dtype)


def _aligned(make: Any, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = make(size + LINE, np.uint8)
    begin = -room.ctypes.data % LINE
    return np.asarray(room[begin : begin + size].view(dtype).reshape(shape))
