"""Arrays in ``.npy`` files, mapped into memory."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.data.errors import DataError


def mapped_array(path: str | os.PathLike[str]) -> NDArray[Any]:
    """Return the array of a ``.npy`` file, mapped into memory; Python objects and damaged files are refused."""
    try:
        found: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError):  # NumPy's messages advise to unpickle, which may run code
        problem = "is damaged, or holds anything but an array of numbers as np.save writes it"
        raise DataError(os.fspath(path), None, problem) from None
    return found
