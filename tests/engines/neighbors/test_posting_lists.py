"""Posting lists of points on disk: the bits of those in memory, in files next to the points."""

from __future__ import annotations

import errno
import os
import tempfile
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sparsenet import Rows, Workers, kernels
from sparsenet.core import spilling
from sparsenet.core.file_map import FileMap, file_map_of, read_parts
from sparsenet.core.rows import transpose
from sparsenet.core.spilling import Spill
from sparsenet.core.workers import task_runner
from sparsenet.data import streamed_rows
from sparsenet.data.point_cache import stored_matrix
from sparsenet.data.streamed_rows import StreamedRows
from sparsenet.engines.blend.rounding import rounded_neighbors
from sparsenet.engines.neighbors import narrow_postings, neighbors, posting_lists
from sparsenet.engines.neighbors.fit_neighbors import NeighborRules, fit, peak_memory
from sparsenet.engines.neighbors.narrow_postings import posting_arrays

RNG = np.random.default_rng(0)
N, D = 900, 120
COUNTS = sparse.csr_array(RNG.poisson(0.1 * RNG.gamma(0.3, 1, D), (N, D)).astype(np.float32))
LABELS = Rows.of(sparse.csr_array(np.eye(9, dtype=np.float32)[RNG.integers(0, 9, N)]))


def on_disk(X: Any, folder: Path) -> StreamedRows:
    return StreamedRows(stored_matrix(X, folder))


def assert_equal(a: Rows, b: Rows) -> None:
    assert a.width == b.width
    for one, other in zip(a.arrays(), b.arrays(), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting_lists, "ENTRIES_AT_A_TIME", 100)


@pytest.mark.parametrize(
    "X", [COUNTS, COUNTS[:0], sparse.csr_array((5, 7), dtype=np.float32)], ids=["some", "0", "empty"]
)
def test_points_on_disk_are_transposed(X: Any, tmp_path: Path) -> None:
    points = on_disk(X, tmp_path)
    assert_equal(posting_lists.by_feature(points, Spill.beside(points, "lists")), transpose(Rows.of(X)))


@pytest.mark.parametrize("room", [100, 1 << 30])
def test_large_lists_of_points_in_memory_are_in_files(room: int, tmp_path: Path) -> None:
    points = Rows.of(COUNTS)
    usual, _ = fit(points, LABELS, 5, seed=0, threads=1)
    found, _ = fit(points, LABELS, 5, seed=0, threads=1, spill=Spill(room, tmp_path))
    assert isinstance(usual.postings, Rows)
    assert isinstance(found.postings, Rows)
    assert_equal(found.postings, usual.postings)
    assert found.postings.data.flags.writeable == (room > 100)


def test_large_lists_of_workers_are_in_the_shared_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points, folders = Rows.of(COUNTS), []
    usual, _ = fit(points, LABELS, 5, seed=0, threads=1)
    made = Spill.new_file
    monkeypatch.setattr(Spill, "new_file", lambda spill: folders.append(spill.folder) or made(spill))
    monkeypatch.setattr(spilling, "available_memory", lambda: 0)
    with ThreadPoolExecutor(1) as pool, task_runner(Workers(pool, scratch=tmp_path)) as runner:
        found, _ = fit(points, LABELS, 5, seed=0, threads=1, runner=runner)
    assert isinstance(usual.postings, Rows)
    assert isinstance(found.postings, Rows)
    assert_equal(found.postings, usual.postings)
    assert {Path(str(folder)).parent for folder in folders} == {tmp_path}
    assert not any(tmp_path.iterdir())


def test_workers_keep_to_the_memory_limit_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    made = posting_lists.by_feature
    monkeypatch.setattr(
        posting_lists, "by_feature", lambda points, spill: given.append(spill.max_bytes) or made(points, spill)
    )
    with ThreadPoolExecutor(1) as pool, task_runner(Workers(pool, scratch=tmp_path)) as runner:
        fit(Rows.of(COUNTS), LABELS, 5, seed=0, threads=1, runner=runner, spill=Spill.within(16))
    assert given == [0]


@pytest.mark.parametrize("max_points", [20, 4096])
def test_neighbors_of_points_on_disk_are_the_same(max_points: int, tmp_path: Path) -> None:
    rules = NeighborRules(max_points=max_points)
    X = COUNTS.copy()
    X.data[::7] *= -0.3
    points: Any = Rows.of(X), on_disk(X, tmp_path)
    found = [fit(own, LABELS, 5, seed=0, threads=1, rules=rules) for own in points]
    (one, choices), (other, others) = found
    in_8_bits = [
        rounded_neighbors(each, Spill.beside(p, "lists")) for each, p in zip((one, other), points, strict=True)
    ]
    for a, b in ((one, other), in_8_bits):
        assert a.postings is not None
        assert b.postings is not None
        for array, mapped in zip(posting_arrays(a.postings), posting_arrays(b.postings), strict=True):
            np.testing.assert_array_equal(array, mapped)
        in_memory, in_file = posting_arrays(a.postings)[2], posting_arrays(b.postings)[2]
        assert (in_memory.flags.writeable, in_file.flags.writeable) == (True, False)
    np.testing.assert_array_equal(one.weights, other.weights)
    assert (one.rarity, one.power) == (other.rarity, other.power)
    assert [each.gain for each in choices.values()] == [each.gain for each in others.values()]


def test_memory_does_not_grow_with_the_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting_lists, "ENTRIES_AT_A_TIME", 1 << 15)
    monkeypatch.setattr(streamed_rows, "ENTRIES_AT_A_TIME", 1 << 14)
    n = 20_000
    ids = np.sort(RNG.random((n, 300)).argpartition(30, axis=1)[:, :30], axis=1)
    X = sparse.csr_array((np.ones(ids.size, np.float32), ids.ravel(), np.arange(0, ids.size + 1, 30)), shape=(n, 300))
    points, labels = on_disk(X, tmp_path), Rows.of(sparse.csr_array(np.ones((n, 1), np.float32)))
    rules = NeighborRules(sample=64, first=32)
    tracemalloc.start()
    fit(points, labels, 5, seed=0, threads=1, rules=rules)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    announced = peak_memory(points, labels) + points.buffer_bytes
    assert 0.4 * announced < peak < 1.1 * announced < 0.4 * 16 * X.nnz, (peak, announced)


def test_a_full_disk_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = on_disk(COUNTS, tmp_path)

    def full(**_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(OSError, match=f"posting lists of the points take .* of the folder {tmp_path}; make room"):
        fit(points, LABELS, 5, seed=0, threads=1)


def test_searches_read_lists_without_mapping_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, search = list[int](), kernels.nearest_points

    def nearest_points(indptr: Any, indices: Any, data: Any, *index: Any) -> None:
        assert file_map_of(index[1]) is file_map_of(index[2]) is None
        sizes.append(int(index[0][-1]))
        search(indptr, indices, data, *index)

    found, _ = fit(on_disk(COUNTS, tmp_path), LABELS, 5, seed=0, threads=1)
    monkeypatch.setattr(kernels, "nearest_points", nearest_points)
    for each in (found, rounded_neighbors(found, Spill(0, tmp_path))):
        sizes.clear()
        each.nearest_others(Rows.of(COUNTS), np.arange(N), 5, 1)
        assert len(sizes) > 10
        assert max(sizes) < COUNTS.nnz / 2


def test_searches_hold_the_lists_of_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = fit(on_disk(COUNTS, tmp_path), LABELS, 5, seed=0, threads=1)
    made, read = list[weakref.ref[Any]](), narrow_postings.read_lists

    def read_lists(*index: Any) -> Any:
        assert all(each() is None for each in made)
        own = read(*index)
        made.append(weakref.ref(own))
        return own

    monkeypatch.setattr(neighbors, "read_lists", read_lists)
    found.nearest_others(Rows.of(COUNTS), np.arange(N), 5, 1)
    assert len(made) > 10


def test_parts_of_a_file_are_read_by_position(tmp_path: Path) -> None:
    (tmp_path / "numbers").write_bytes(np.arange(1000, dtype=np.int32).tobytes())
    with (tmp_path / "numbers").open("rb") as file:
        array = np.ndarray(1000, np.int32, FileMap(file.fileno()))[100:]
    assert read_parts(array, np.array([5, 0, 7]), np.array([2, 0, 1])).tolist() == [105, 106, 107]
    os.truncate(tmp_path / "numbers", 404)
    with pytest.raises(OSError, match="cut short"):
        read_parts(array, np.array([5]), np.array([2]))
