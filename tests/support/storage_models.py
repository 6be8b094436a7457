"""Models for the tests of storage, and access to their files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

MANIFEST = "manifest.json"
ARRAYS = {
    "weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "ids": np.array([5, -1], dtype=np.int32),
    "mask": np.array([True, False, True]),
    "empty": np.empty((0, 7), np.float64),
    "scalar": np.array(3, dtype=np.int64),
}
METADATA = {"epochs": 3, "rate": 0.1, "names": ["a", "\u00e9"], "none": None, "nested": {"deep": [True]}}


def model(number: int, size: int = 5):
    return {"a": np.full((3, size), number, np.int64)}, {"number": number}


def assert_equal(found, expected):
    assert set(found) == set(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        np.testing.assert_array_equal(found[name], array)
        assert found[name].flags.writeable


def data_file(directory: Path) -> Path:
    (path,) = directory.glob("arrays-*.safetensors")
    return path


def deep() -> list:
    """Nest lists deeper than a manifest may."""
    nested: list = []
    for _ in range(40):
        nested = [nested]
    return nested
