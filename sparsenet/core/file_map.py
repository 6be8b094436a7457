"""Files mapped into memory that can also be read by position, since the pages of a mapping count as memory."""

from __future__ import annotations

import mmap
import os
import weakref
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsenet.kernels.types import I64


class FileMap(mmap.mmap):
    """A read-only mapping of a file, and the file."""

    number: int

    def __new__(cls, number: int) -> Self:
        """Map the open file with this number; the caller may close it."""
        mapped = super().__new__(cls, number, 0, access=mmap.ACCESS_READ)
        mapped.number = os.dup(number)
        weakref.finalize(mapped, os.close, mapped.number)
        return mapped


def file_map_of(array: Any) -> FileMap | None:
    """Return the mapping that holds an array; None if there is none."""
    while array is not None and not isinstance(array, FileMap):
        array = getattr(array, "base", None)
    return array


def read_parts(array: NDArray[Any], starts: I64, sizes: I64) -> NDArray[Any]:
    """Return the joined parts ``array[start : start + size]`` of an array in a `FileMap`, without mapping its pages."""
    source = file_map_of(array)
    assert source is not None
    begin = array.ctypes.data - np.frombuffer(source, np.uint8).ctypes.data
    found = np.empty(sizes.sum(), array.dtype)
    bytes_found, done = found.view(np.uint8).data, 0
    for start, size in zip((begin + array.itemsize * starts).tolist(), (array.itemsize * sizes).tolist(), strict=True):
        while size:
            n_read = os.preadv(source.number, [bytes_found[done : done + size]], start)
            if n_read == 0:
                raise OSError("a temporary file ended early: was it cut off?")
            start, size, done = start + n_read, size - n_read, done + n_read
    return found
