"""The memory that this process holds, and whether the C library can return freed memory to the system."""

import ctypes
import mmap
from pathlib import Path

import pytest

needs_malloc_trim = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="another C library")


def resident():
    """Return the bytes of this process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
