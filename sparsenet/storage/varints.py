"""Whole numbers in as few bytes as each needs: LEB128, 7 bits a byte, low bits first."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.storage.format import ModelError

#: Bytes of the largest number, and the first one that needs more.
MAX_BYTES, TOO_LARGE = 4, 1 << 28


def encode_varints(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    """Encode numbers below `TOO_LARGE`: the top bit is set on all bytes of a number but the last."""
    sizes = 1 + np.searchsorted([1 << 7, 1 << 14, 1 << 21], numbers, side="right")
    ends = np.cumsum(sizes)
    code = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    for byte in range(MAX_BYTES):
        has_byte = sizes > byte
        is_last = sizes[has_byte] == byte + 1
        code[(ends - sizes)[has_byte] + byte] = (numbers[has_byte] >> 7 * byte & 127) | np.where(is_last, 0, 128)
    return code


def decode_varints(name: str, code: NDArray[Any]) -> NDArray[np.int64]:
    """Decode numbers; errors name the array by `name`."""
    if code.dtype != np.uint8 or code.ndim != 1 or (len(code) and code[-1] > 127):
        raise ModelError(f"{name} must be a list of bytes, the last one below 128")
    is_last = code < 128
    sizes = np.diff(np.flatnonzero(is_last), prepend=-1)
    if sizes.max(initial=0) > MAX_BYTES:
        raise ModelError(f"{name} holds a number that is too large")
    byte = np.arange(len(code)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    parts = (code & 127).astype(np.int64) << 7 * byte
    return np.asarray(np.add.reduceat(parts, np.cumsum(sizes) - sizes) if len(parts) else parts)
