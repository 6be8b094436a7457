"""Planted points written block by block equal the points of `bench.planted.generate`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench import planted
from bench.beyond_memory import read, write
from bench.planted import Shape, generate

SHAPE = Shape(points=300, test_points=50, features=500, labels=40, features_a_point=12.0)


@pytest.mark.parametrize("mapped", [False, True])
def test_files_hold_the_generated_points(mapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted, "CHUNK", 64)
    write(tmp_path, SHAPE, seed=1)
    for name, matrix in generate(SHAPE, seed=1)._asdict().items():
        found = read(tmp_path, name[0], mapped=mapped, testing=name.endswith("_test"))
        assert found.shape == matrix.shape
        for part in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(found, part), getattr(matrix, part))
