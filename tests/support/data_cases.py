"""Shared by the tests of readers: both backends, compression, broken files, numbers that are hard to round."""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
import time
from collections.abc import Callable
from decimal import Decimal, localcontext
from io import BytesIO
from types import ModuleType

import numpy as np
import pytest
import zstandard

import sparsenet.data.blocks
import sparsenet.data.point_file
import sparsenet.data.svmlight
import sparsenet.data.xmc
from sparsenet.data import Dataset
from sparsenet.data.sources import ReadSizes, Source
from tests.support.backends import MODULES, has_extension

BACKENDS = ["native", "numba"] if has_extension() else ["numba"]
#: The same for fixtures: `make test` runs the first backend only.
BACKEND_PARAMS = [pytest.param(name, marks=pytest.mark.levels if name != BACKENDS[0] else []) for name in BACKENDS]

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def time_ratio(work: Callable[[int], object], n: int) -> float:
    """Return how many times longer work on 4 `n` takes than on `n`: 4 if it is linear, 16 if it is quadratic."""

    def seconds(size: int) -> float:
        began = time.process_time()
        work(size)
        return time.process_time() - began

    return min(seconds(4 * n) for _ in range(2)) / min(seconds(n) for _ in range(4))


def use_backend(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    """Make the readers use one backend."""
    module = importlib.import_module(MODULES[name])
    for user in (sparsenet.data.blocks, sparsenet.data.svmlight, sparsenet.data.xmc, sparsenet.data.point_file):
        monkeypatch.setattr(user, "kernels", module)
    return module


def in_blocks(content: bytes, **sizes: int) -> Source:
    """Return a stream that is read with other `ReadSizes` than files are."""
    return Source(BytesIO(content), "stream", sizes=ReadSizes(**sizes))


def same(a: Dataset, b: Dataset) -> bool:
    """Return whether two datasets are equal bit for bit."""
    pairs = [(getattr(a.X, name), getattr(b.X, name)) for name in ("indptr", "indices", "data")]
    pairs += [(getattr(a.Y, name), getattr(b.Y, name)) for name in ("indptr", "indices", "data")]
    equal = all(np.array_equal(x, y) for x, y in pairs)
    classes = np.array_equal(a.classes, b.classes) if a.classes is not None else b.classes is None
    return equal and classes and a.X.shape == b.X.shape and a.Y.shape == b.Y.shape


HARD_NUMBERS = [
    "1.00000005960464477539062500000000001",  # just above the middle of two floats, and in the middle
    "1.000000059604644775390625",
    "16777217",
    "16777219",
    "0.1e-44",
    "7.006492321624085e-46",  # half the least float, and just above
    "7.006492321624086e-46",
    "1e-400",
    "0.000000000000000000000000000000000000000000000000001e50",
    "123456789012345678901234567890",
    "340282346638528859811704183484516925440",
    "340282356779733661637539395458142568447.9",  # barely rounds to the largest float
    "0" * 400 + "1." + "0" * 900 + "1",
    "000000000000000000000000.5",
    "0e99999999999999999999",
    "-0",
    "1E+2",
    "4.5e-324",
    "1" + "0" * 400 + "e-400",
    "12345678.12345678",
    "123456789.123456789",
]


def nearest_float32(text: str) -> np.float32:
    """Round exactly: compare with the midpoints of neighboring floats as decimals."""
    with localcontext() as context:
        context.prec = 3000
        exact = Decimal(text.replace("e99999999999999999999", ""))  # zero; Decimal has no such exponents
        largest = np.finfo(np.float32).max
        near = np.float32(np.clip(float(text), -largest, largest))
        if exact == 0:
            return near
        candidates = [np.nextafter(near, -largest), near, np.nextafter(near, largest)]
        return min(candidates, key=lambda c: (abs(Decimal(float(c)) - exact), int(c.view(np.uint32)) & 1))
