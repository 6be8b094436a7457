"""The benchmark of real tables: its split, and how it shows failures."""

from __future__ import annotations

import numpy as np
import pytest

from bench import real_tables
from bench.real_tables import Table


def test_split_drops_rows_without_a_class_and_cuts():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x": np.arange(50), "name": ["a", None] * 25, "y": [*range(49), None]})
    train, test = real_tables.split(Table(frame, "y"), 20, seed=0)
    assert (len(train), len(test)) == (16, 4)
    assert not set(train["x"]) & set(test["x"])
    assert real_tables._texts(train[["name"]])["name"].isin(["a", "missing"]).all()


def test_small_tables_are_split_until_enough_rows_are_tested():
    assert [real_tables.n_splits(rows) for rows in (100, 1313, 10_000, 50_000)] == [10, 8, 1, 1]


def test_shows_failures_and_the_gain_over_the_best_other_system():
    about = {"cpu": "a CPU", "isa_used": "scalar", "commit": "0" * 40, "uncommitted_changes": False}
    shared = {"rows": 188, "classes": 7, "splits": 1, "cpu_seconds": 3.4, "tested": 4}
    runs = [
        {"data": "cars", "system": "sparsenet", "right": 100.0, "hits": "f0", **shared},
        {"data": "cars", "system": "hist", "right": 50.0, "hits": "c0", **shared},
        {"data": "cars", "system": "catboost", "failed": "more than 60 CPU seconds"},
    ]
    shown = real_tables.markdown({"started": "now", "threads": 1, "machine": about, "runs": runs})
    assert shown.endswith("| cars | 188 | 7 | 1 | 100.0 (3.4 s) | 50.0 (3.4 s) | none | +50.0 ± 25.0 |")
