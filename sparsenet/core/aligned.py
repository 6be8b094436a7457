"""Arrays aligned to cache lines: a row that straddles two lines costs one more memory access."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

#: Bytes of a cache line and of the widest vector register.
LINE = 64


def zeros(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an aligned array of zeros; pages never written take no memory."""
    return _aligned(np.zeros, shape, dtype)


def empty(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an aligned array with undefined content."""
    return _aligned(np.empty, shape, dtype)


def _aligned(allocate: Any, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    size = math.prod(shape) * np.dtype(dtype).itemsize
    buffer = allocate(size + LINE, np.uint8)
    begin = -buffer.ctypes.data % LINE
    return np.asarray(buffer[begin : begin + size].view(dtype).reshape(shape))
