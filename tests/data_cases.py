"""What the tests of the readers share: both roads, compression, broken files."""

from __future__ import annotations

import bz2
import gzip
import importlib
import lzma
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
import zstandard
from conftest import MODULES, has_extension

import sparsenet.data.blocks
import sparsenet.data.svmlight
import sparsenet.data.xmc
from sparsenet.data import Dataset

ROADS = ["native", "numba"] if has_extension() else ["numba"]

COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "plain": lambda data: data,
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def use_road(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    """Let the readers use one backend."""
    module = importlib.import_module(MODULES[name])
    for user in (sparsenet.data.blocks, sparsenet.data.svmlight, sparsenet.data.xmc):
        monkeypatch.setattr(user, "kernels", module)
    return module


def same(a: Dataset, b: Dataset) -> bool:
    """Say whether two datasets are equal bit for bit."""
    pairs = [(getattr(a.X, name), getattr(b.X, name)) for name in ("indptr", "indices", "data")]
    pairs += [(getattr(a.Y, name), getattr(b.Y, name)) for name in ("indptr", "indices", "data")]
    equal = all(np.array_equal(x, y) for x, y in pairs)
    classes = np.array_equal(a.classes, b.classes) if a.classes is not None else b.classes is None
    return equal and classes and a.X.shape == b.X.shape and a.Y.shape == b.Y.shape
