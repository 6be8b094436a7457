"""A file of points gives back what was written, and refuses what is damaged."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from sparsenet.data import DataError, iter_batches, point_file, read
from sparsenet.data.point_cache import stored_batches, stored_matrix, stored_text
from sparsenet.data.point_file import PointWriter, StoredPoints
from sparsenet.features.scaled_file import scaled_file
from sparsenet.features.scaling import Scaling
from tests.support.data_cases import BACKEND_PARAMS, use_backend
from tests.support.file_limits import files_up_to

RNG = np.random.default_rng(0)


@pytest.fixture(params=BACKEND_PARAMS, autouse=True)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return use_backend(monkeypatch, request.param)


def points(values: Callable[[int], Any], n: int = 300, width: int = 200_000) -> Any:
    """Return rows of 0 to 40 random ids, whose gaps are short and long."""
    ids = [np.sort(RNG.choice(width, RNG.integers(0, 41), replace=False)) for _ in range(n)]
    indptr = np.cumsum([0, *map(len, ids)])
    return sparse.csr_array((values(indptr[-1]), np.concatenate(ids), indptr), shape=(n, width))


VALUES: dict[str, tuple[Callable[[int], Any], int]] = {
    "ones": (lambda n: np.ones(n, np.float32), 0),
    "counts": (lambda n: RNG.integers(0, 65_536, n).astype(np.float32), 2),
    "float32": (lambda n: RNG.normal(size=n).astype(np.float32), 4),
    "float64": (lambda n: RNG.normal(size=n), 8),
    "minus zero": (lambda n: np.where(RNG.random(n) < 0.5, -0.0, 1.0), 4),
}


def same(X: Any, Y: Any) -> bool:
    ids = (np.array_equal(getattr(X, part), getattr(Y, part)) for part in ("indptr", "indices"))
    return X.shape == Y.shape and all(ids) and X.data.tobytes() == Y.data.tobytes()


@pytest.mark.parametrize("kind", VALUES)
def test_every_bit_comes_back(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point_file, "BLOCK_ROWS", 64)
    values, value_bytes = VALUES[kind]
    X = points(values)
    stored = stored_matrix(X, tmp_path)
    X = X.astype(np.float64)
    assert same(stored[:], X)
    assert same(sparse.vstack([block for _, block in stored.blocks()], format="csr"), X)
    order = RNG.permutation(300)[:100]
    assert same(stored[order], X[order])
    n_bytes = os.path.getsize(stored.path)
    assert n_bytes < (value_bytes + 2.2) * X.nnz + 4000


def test_ids_reach_the_largest_column(tmp_path: Path) -> None:
    width = 2**31 - 1
    ids = [[0, 1, 32_767, 32_768, 65_536, 98_305, width - 1], [width - 1], [], [0, width - 1]]
    indptr = np.cumsum([0, *map(len, ids)])
    X = sparse.csr_array((np.arange(1.0, 11.0), np.concatenate([*map(np.int64, ids)]), indptr), shape=(4, width))
    assert same(stored_matrix(X, tmp_path)[:], X[:])


def test_an_array_comes_back_as_an_array(tmp_path: Path) -> None:
    X = np.where(RNG.random((50, 9)) < 0.5, 0, RNG.normal(size=(50, 9)))
    np.save(tmp_path / "X.npy", X)
    stored = stored_matrix(np.load(tmp_path / "X.npy", mmap_mode="r"), tmp_path)
    assert stored.is_dense
    np.testing.assert_array_equal(stored[np.array([3, 1, 3])], X[[3, 1, 3]])


def test_a_malformed_record_is_found(reader: ModuleType) -> None:
    indptr = np.array([0, 2, 4])
    out, ends = np.empty(24, np.uint8), np.empty(3, np.int64)
    reader.encode_rows(indptr, np.array([1, 70_000, 0, 5], np.int32), np.ones(4), 0, out, ends)
    args = np.zeros(2, np.uint8), 70_001, indptr, np.empty(4, np.int32), np.empty(4)
    assert reader.decode_rows(out, ends, *args, threads=1) == -1
    narrow = args[0], 70_000, *args[2:]
    assert reader.decode_rows(out, ends, *narrow, threads=2) == 0  # an id beyond the width
    out[ends[1] + 3] |= 0x80  # the last gap of the second row becomes the first half of a long one
    assert reader.decode_rows(out, ends, *args, threads=1) == 1


def test_texts_give_the_points_of_read(tmp_path: Path) -> None:
    lines = {"xmc": ["300 50 10"], "svmlight": []}
    rows = [f"{i % 3},{i % 7 + 3} {i % 40}:1.5 {i % 40 + 3}:2" for i in range(299)] + ["1"]
    for name, head in lines.items():
        path = tmp_path / f"{name}.txt"
        path.write_text("\n".join([*head, *rows]) + "\n")
        wanted, stored = read(path), stored_text(str(path), tmp_path / "cache")
        assert same(stored.X[:], wanted.X.astype(np.float64))
        assert same(stored.Y, wanted.Y)
    path.write_text(path.read_text().replace("1,", "-1.5,"))
    stored = stored_text(str(path), tmp_path / "other")
    assert stored.classes is not None
    assert stored.classes.tolist() == read(path).classes.tolist()


def test_batches_give_the_points_of_the_whole(tmp_path: Path) -> None:
    X = points(lambda n: np.ones(n))
    y = RNG.integers(0, 5, 300)
    stored, labels = stored_batches(((X[i : i + 70], y[i : i + 70]) for i in range(0, 300, 70)), tmp_path)
    assert same(stored[:], X)
    np.testing.assert_array_equal(np.concatenate(labels), y)
    (tmp_path / "a.txt").write_text("3 5 2\n0 1:1\n1 2:1\n0 3:1\n")
    assert stored_batches(iter_batches(tmp_path / "a.txt", batch_rows=2), tmp_path)[0].shape == (3, 5)
    with pytest.raises(ValueError, match="batch 1 has 4 dense columns, but batch 0 has 200000 sparse columns"):
        stored_batches([(X, y), (np.ones((2, 4)), y[:2])], tmp_path)
    with pytest.raises(ValueError, match="batch 1: X holds NaN in row 0, column 1"):
        stored_batches([(X, y), (np.array([[0.0, np.nan]]), y[:1])], tmp_path)
    with pytest.raises(ValueError, match="batch 1: X has 2 rows, y has 1: one y for each row"):
        stored_batches([(X, y), (X[:2], y[:1]), (X[:1], y[:2])], tmp_path)
    with pytest.raises(ValueError, match=r"batch 0 holds no labels: yield \(X, y\)"):
        stored_batches([(X, None)], tmp_path)
    with pytest.raises(ValueError, match="batch 0: X must be a matrix, got dict"):
        stored_batches([({"words": X}, y)], tmp_path)
    with pytest.raises(ValueError, match="batch 0: y must be labels, one entry for each row, got str"):
        stored_batches([(X[:3], "abc")], tmp_path)
    assert stored_batches([(X, y)], tmp_path)[0].shape == X.shape  # a failure leaves nothing in the way


def test_batches_without_rows_are_skipped(tmp_path: Path) -> None:
    X, y = np.eye(3), [0, 1, 0]
    stored, labels = stored_batches([(X[:0], []), (X, y), (X[:0], [])], tmp_path)
    assert stored.shape == (3, 3)
    assert labels == [None, y, None]
    with pytest.raises(ValueError, match="there are no rows"):
        stored_batches([(X[:0], [])], tmp_path)


def test_a_file_without_points_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("0 5 2\n")
    with pytest.raises(DataError, match=r"a\.txt: holds no points"):
        stored_text(str(tmp_path / "a.txt"), tmp_path / "cache")


def test_a_folder_with_the_name_of_the_file_is_named(tmp_path: Path) -> None:
    path = Path(stored_matrix(sparse.csr_array(np.eye(3)), tmp_path).path)
    path.unlink()
    path.mkdir()
    with pytest.raises(IsADirectoryError, match=path.name):
        stored_matrix(sparse.csr_array(np.eye(3)), tmp_path)


def test_the_cache_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    with pytest.raises(DataError, match="a: is a file, and the cache must be a folder"):
        stored_matrix(np.eye(3), tmp_path / "a")


def test_a_stream_may_reuse_its_buffers(tmp_path: Path) -> None:
    def batches() -> Iterator[Any]:
        X, y = np.zeros((1, 3)), np.zeros(1, int)
        for i in range(3):
            X[:], y[:] = i, i
            yield X, y

    stored, labels = stored_batches(batches(), tmp_path)
    assert stored[:].tolist() == [[i] * 3 for i in range(3)]
    assert np.concatenate(labels).tolist() == [0, 1, 2]


def test_a_source_is_stored_once_and_must_not_change(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("0 1:1\n1 2:1\n")
    (made,) = {stored_text(str(path), tmp_path / "cache").X.path for _ in range(2)}
    modified = os.stat(made).st_mtime_ns
    assert os.stat(stored_text(str(path), tmp_path / "cache").X.path).st_mtime_ns == modified
    path.write_text("0 1:1\n1 2:3\n")
    with pytest.raises(DataError, match=r"a\.txt: was changed after its points were stored: remove .*\.points to"):
        stored_text(str(path), tmp_path / "cache")


def test_long_rows_of_a_text_are_not_collected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, most = tmp_path / "a.txt", []
    row = " ".join(f"{i}:1" for i in range(2000))
    path.write_text("".join(f"{i % 3} {row}\n" for i in range(600)))
    append = PointWriter.append
    monkeypatch.setattr(PointWriter, "append", lambda self, X: most.append(X.nnz) or append(self, X))
    assert stored_text(str(path), tmp_path).X.nnz == 600 * 2000
    assert max(most) < 600 * 2000 / 2


@pytest.mark.parametrize("damage", ["cut", "empty", "table", "description", "record"])
def test_damage_is_an_error_that_names_the_file(damage: str, tmp_path: Path) -> None:
    stored = stored_matrix(points(lambda n: RNG.normal(size=n)), tmp_path)
    path, data = Path(stored.path), bytearray(Path(stored.path).read_bytes())
    place = {"table": len(data) - 700, "description": len(data) - 60, "record": 500}
    if damage in place:
        data[place[damage]] ^= 1
    path.write_bytes({"cut": data[:-100], "empty": b""}.get(damage, data))
    with pytest.raises(DataError, match=f"{path.name}: the cache of points is damaged or was cut short: remove it"):
        list(StoredPoints(path).blocks())


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("width",), 2**31),
        (("tables",), None),
        (("tables", "sizes", "offset"), -1),
        (("tables", "blocks", "n"), 2**40),
        (("tables", "long_gaps", "n"), 7),
    ],
)
def test_a_forged_description_is_refused(place: tuple[str, ...], value: Any, tmp_path: Path) -> None:
    path = Path(stored_matrix(points(lambda n: np.ones(n)), tmp_path).path)
    data, last = path.read_bytes(), point_file._LAST
    offset, n_bytes, *_ = last.unpack(data[-last.size :])
    description = inner = json.loads(data[offset : offset + n_bytes])
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    _replace_description(path, json.dumps(description).encode())
    with pytest.raises(DataError, match="damaged or was cut short"):
        StoredPoints(path)


@pytest.mark.parametrize("text", [b"{", b"[]", b"\xff"])
def test_a_description_that_is_no_json_object_is_refused(text: bytes, tmp_path: Path) -> None:
    path = Path(stored_matrix(points(lambda n: np.ones(n)), tmp_path).path)
    _replace_description(path, text)
    with pytest.raises(DataError, match="damaged or was cut short"):
        StoredPoints(path)


def test_forged_sizes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point_file, "_smallest", lambda numbers: numbers)
    with PointWriter(tmp_path / "a.points") as writer:
        writer.append(sparse.csr_array(np.eye(2)))
        writer._rows = [(np.array([5, -3], np.int32), np.zeros(2, np.int32))]  # as many bytes as the two rows
        with pytest.raises(DataError, match="damaged or was cut short"):
            writer.finish(2)


def _replace_description(path: Path, text: bytes) -> None:
    data, last = path.read_bytes(), point_file._LAST
    offset, _, _, end = last.unpack(data[-last.size :])
    path.write_bytes(data[:offset] + text + last.pack(offset, len(text), zlib.crc32(text), end))


def test_a_file_cut_while_in_use_is_an_error(tmp_path: Path) -> None:
    stored = stored_matrix(points(lambda n: np.ones(n)), tmp_path)
    os.truncate(stored.path, 400)
    with pytest.raises(DataError, match="damaged or was cut short"):
        stored[250:]


def test_no_room_names_the_folder_and_leaves_no_file(tmp_path: Path) -> None:
    X = points(lambda n: RNG.normal(size=n))
    stored_matrix(X, tmp_path / "roomy")  # compiles the kernel: Numba writes a file then
    message = f"File too large.* cache folder {tmp_path}; name another folder"
    with files_up_to(4096), pytest.raises(OSError, match=message):
        stored_matrix(X, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["roomy"]


def test_no_room_for_the_scaled_points_names_the_folder(tmp_path: Path) -> None:
    stored = stored_matrix(points(lambda n: RNG.normal(size=n)), tmp_path)
    stored[:1]  # compiles the kernel: Numba writes a file then
    message = f"File too large.* cache folder {tmp_path}; name another folder"
    with files_up_to(4096), pytest.raises(OSError, match=message):
        scaled_file(stored, Scaling("rows"))
    assert list(tmp_path.iterdir()) == [Path(stored.path)]


def test_a_full_disk_names_the_folder_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=f"No space left on device.*cache folder {tmp_path}; make room there") as caught:
        stored_matrix(points(lambda n: np.ones(n)), tmp_path)
    assert caught.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())


def test_a_second_process_waits_and_takes_the_file_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = points(lambda n: RNG.normal(size=n))
    waits, finish, first_waits, made = threading.Event(), PointWriter.finish, fcntl.flock, []

    def flock(file: Any, operation: int) -> None:
        if made:
            waits.set()  # the second one is here
        made.append(file)
        first_waits(file, operation)

    def slow_finish(self: PointWriter, *given: Any, **more: Any) -> StoredPoints:
        assert waits.wait(10)
        return finish(self, *given, **more)

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(PointWriter, "finish", slow_finish)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: stored_matrix(X, tmp_path), range(2))
    assert os.path.samefile(f"/proc/self/fd/{first._file}", f"/proc/self/fd/{second._file}")
    assert same(second[:], X)
    assert [path.suffix for path in tmp_path.iterdir()] == [".points"]


def test_streams_leave_no_file_and_wait_for_no_other_stream(tmp_path: Path) -> None:
    def batches(n: int) -> Iterator[tuple[Any, Any]]:
        if n:
            stored, _ = stored_batches(batches(n - 1), tmp_path)
            assert stored[:].tolist() == [[n - 1] * 3] * 2
        yield np.full((2, 3), n), np.arange(2)
        assert not list(tmp_path.iterdir())  # a killed process leaves nothing

    assert stored_batches(batches(1), tmp_path)[0][:].tolist() == [[1] * 3] * 2
    assert not list(tmp_path.iterdir())


def test_blocks_have_a_bounded_number_of_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(point_file, "BLOCK_ENTRIES", 50)
    X = points(lambda n: np.ones(n))
    stored = stored_matrix(X, tmp_path)
    blocks = [block for _, block in stored.blocks()]
    assert max(block.nnz for block in blocks if block.shape[0] > 1) <= 50
    assert same(sparse.vstack(blocks, format="csr"), X)
    assert same(stored[:], X)


def test_a_killed_conversion_starts_again(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, numpy as np\n"
        "from sparsenet.data.point_cache import PointWriter, stored_matrix\n"
        "PointWriter.finish = lambda *given, **more: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"stored_matrix(np.eye(3), {str(tmp_path)!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [path.suffix for path in tmp_path.iterdir()] == [".part"]
    stored = stored_matrix(np.eye(3), tmp_path)
    np.testing.assert_array_equal(stored[:], np.eye(3))
    assert list(tmp_path.iterdir()) == [Path(stored.path)]


def test_a_writer_that_waited_for_another_one_spares_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, first, flock = tmp_path / "x.points", PointWriter(tmp_path / "x.points"), fcntl.flock
    X = points(lambda n: np.ones(n))

    def finish_before(file: Any, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        with first:
            first.append(X)
            first.finish(X.shape[1])
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", finish_before)
    with PointWriter(path):
        assert same(StoredPoints(path)[:], X.astype(np.float64))
    assert list(tmp_path.iterdir()) == [path]
