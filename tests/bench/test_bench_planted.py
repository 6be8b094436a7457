"""Planted data: reproducible, of the requested shape, learnable, and readable from files."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import planted
from bench.planted import Shape, generate, write_xmc
from sparsenet import ExtremeClassifier, metrics
from sparsenet.data import read_xmc

SHAPE = Shape(points=4000, test_points=500, features=20_000, labels=3000)
DATA = generate(SHAPE, seed=1)


def test_data_depends_on_the_seed_only():
    again, other = generate(SHAPE, seed=1), generate(SHAPE, seed=2)
    for one, two in zip(DATA, again, strict=True):
        assert (one.indptr == two.indptr).all()
        assert (one.indices == two.indices).all()
        assert (one.data == two.data).all()
    assert (other.X.indptr != DATA.X.indptr).any()


def test_shapes_and_means_are_as_requested():
    assert DATA.X.shape == (4000, 20_000)
    assert DATA.Y_test.shape == (500, 3000)
    assert DATA.X.nnz / 4000 == pytest.approx(75, rel=0.05)
    assert DATA.Y.nnz / 4000 == pytest.approx(5.45, rel=0.05)
    assert (np.diff(DATA.X.indptr) > 0).all()
    assert (np.diff(DATA.Y.indptr) > 0).all()


@pytest.mark.parametrize("matrix", DATA, ids=planted.Planted._fields)
def test_rows_are_sorted_and_unique_with_positive_values(matrix):
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    keys = rows * np.int64(matrix.shape[1]) + matrix.indices
    assert (np.diff(keys) > 0).all()
    assert matrix.indices.max() < matrix.shape[1]
    assert (matrix.data > 0).all()
    assert np.isfinite(matrix.data).all()
    assert (matrix.data.dtype, matrix.indices.dtype) == (np.float32, np.int32)


def test_label_counts_are_one_plus_a_power_law():
    shape, total = Shape(points=10**6, test_points=0, labels=3000), 10**6
    counts: Any = np.sort(planted.label_counts(shape, total, np.random.default_rng(0)))[::-1]
    assert counts.min() >= 1
    assert counts.sum() == total
    ranks = np.log(np.arange(1000) + planted.RANK_SHIFT)
    assert np.polyfit(ranks, np.log(counts[:1000] - 1), 1)[0] == pytest.approx(-planted.RANK_POWER, abs=0.05)


def test_label_counts_are_capped():
    counts = planted.label_counts(SHAPE, 10**6, np.random.default_rng(0))
    assert counts.max() == (4000 + 500) // 20


def test_some_labels_never_occur_if_there_are_too_many():
    data = generate(Shape(points=300, test_points=50, features=500, labels=50_000, features_a_point=20), seed=0)
    assert data.Y.nnz / 300 == pytest.approx(5.45, rel=0.1)
    assert len(np.unique(data.Y.indices)) < 50_000


def test_the_data_can_be_learnt():
    model = ExtremeClassifier(hidden=32, epochs=2, n_negatives=512, n_jobs=1, random_state=0).fit(DATA.X, DATA.Y)
    found, _ = model.topk(DATA.X_test, 1)
    shuffled = np.random.default_rng(0).permutation(500)
    assert metrics.precision_at_k(DATA.Y_test, found, 1) > 0.5
    assert metrics.precision_at_k(DATA.Y_test, found[shuffled], 1) < 0.1


def test_related_labels_share_points():
    point = np.argmax(np.diff(DATA.Y.indptr) >= 4)
    labels = DATA.Y.indices[DATA.Y.indptr[point] : DATA.Y.indptr[point + 1]]
    rows = np.repeat(np.arange(4000), np.diff(DATA.Y.indptr))
    spans = np.abs(np.diff(DATA.Y.indices))[np.diff(rows) == 0]
    assert len(labels) >= 4
    assert np.median(spans) < 3000 / 20  # random pairs are a third of the labels apart


def test_files_read_back_unchanged(tmp_path: Path):
    write_xmc(tmp_path / "test.txt", DATA.X_test, DATA.Y_test)
    lines = (tmp_path / "test.txt").read_bytes().split(b"\n")
    assert lines[0] == b"500 20000 3000"
    labels, first = DATA.Y_test[:1].indices, DATA.X_test[:1]
    words = [f"{feature}:{value:.6f}" for feature, value in zip(first.indices, first.data, strict=True)]
    assert lines[1].decode() == f"{','.join(map(str, labels))} {' '.join(words)}"
    read = read_xmc(tmp_path / "test.txt")
    assert (read.X.indices == DATA.X_test.indices).all()
    np.testing.assert_allclose(read.X.data, DATA.X_test.data, atol=1e-6)
    assert (read.Y.indices == DATA.Y_test.indices).all()
    assert (read.Y.indptr == DATA.Y_test.indptr).all()


def test_temporary_memory_does_not_grow_with_the_points():
    small, large = (Shape(points=n, test_points=10, features=1000, labels=500) for n in (10_000, 20_000))

    def peak(shape: Shape) -> float:
        tracemalloc.start()
        data = generate(shape)
        result = sum(array.nbytes for m in data for array in (m.data, m.indices, m.indptr))
        held = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return held / result

    assert peak(large) < 1.1 * peak(small)


def test_the_command_writes_both_files(tmp_path: Path):
    arguments = ["--labels", "100", "--points", "200", "--test", "20", "--features", "300", "--out"]
    planted.main([*arguments, str(tmp_path / "a")])
    assert read_xmc(tmp_path / "a" / "train.txt").X.shape == (200, 300)
    assert read_xmc(tmp_path / "a" / "test.txt").Y.shape == (20, 100)
