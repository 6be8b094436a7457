"""Files mapped into memory that can also be read by position, since the pages of a mapping count as memory."""

from __future__ import annotations

import mmap
import os
import weakref
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.memory import mapping_of
from sparsenet.core.rows import pointers_of
from sparsenet.kernels.types import I64


class FileMap(mmap.mmap):
    """A read-only mapping of a file, and the file."""

    descriptor: int

    def __new__(cls, descriptor: int) -> Self:
        """Map an open file; the caller may close it."""
        mapped = super().__new__(cls, descriptor, 0, access=mmap.ACCESS_READ)
        mapped.descriptor = os.dup(descriptor)
        weakref.finalize(mapped, os.close, mapped.descriptor)
        return mapped


def file_map_of(array: Any) -> FileMap | None:
    """Return the mapping that holds an array; None if there is none."""
    mapping = mapping_of(array)
    return mapping if isinstance(mapping, FileMap) else None


def read_parts(array: NDArray[Any], starts: I64, sizes: I64) -> NDArray[Any]:
    """Return the joined parts ``array[start : start + size]`` of an array in a `FileMap`, without mapping its pages."""
    source = file_map_of(array)
    assert source is not None
    begin = array.ctypes.data - np.ndarray(1, np.uint8, source).ctypes.data
    found = np.empty(sizes.sum(), array.dtype)
    ends = array.itemsize * pointers_of(sizes)
    failed = kernels.read_records(source.descriptor, begin + array.itemsize * starts, ends, found.view(np.uint8))
    if failed:
        raise OSError(max(failed, 0), os.strerror(failed) if failed > 0 else "a temporary file was cut short")
    return found
