"""Fixtures of the tests of benchmark scripts: a working directory of their own, and a small planted set."""

import os

import pytest

from bench.planted import Shape, generate, write_xmc


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """Move to an empty folder, so that .bench is empty; give back the CPUs that a script pins itself to."""
    cpus = os.sched_getaffinity(0)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    os.sched_setaffinity(0, cpus)


@pytest.fixture
def small(workplace):
    """Write a planted set of 300 points and 100 labels to the folder ``small``."""
    data = generate(Shape(points=300, test_points=60, features=500, labels=100))
    folder = workplace / "small"
    folder.mkdir()
    write_xmc(folder / "train.txt", data.X, data.Y)
    write_xmc(folder / "test.txt", data.X_test, data.Y_test)
    return folder
