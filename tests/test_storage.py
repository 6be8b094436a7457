"""Saved models: what comes back, what survives a crash, and what is refused."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sparsenet import storage
from sparsenet.storage import ModelError

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


@pytest.fixture
def saved(tmp_path):
    directory = tmp_path / "model"
    storage.save(directory, ARRAYS, METADATA)
    return directory


def data_file(directory: Path) -> Path:
    (path,) = directory.glob("arrays-*.safetensors")
    return path


# --- what comes back --------------------------------------------------------------------------------------


def test_round_trip(saved):
    arrays, metadata = storage.load(saved)
    assert_equal(arrays, ARRAYS)
    assert metadata == METADATA


DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i4", ">f8", np.longlong]
LAYOUTS = [lambda a: a, np.transpose, lambda a: a[..., ::-2] if a.ndim else a, np.asfortranarray]


@settings(deadline=None)
@given(data=st.data(), dtype=st.sampled_from(DTYPES), layout=st.sampled_from(LAYOUTS))
def test_any_array_comes_back(data, dtype, layout):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    array = layout(data.draw(hnp.arrays(dtype, shape)))
    with tempfile.TemporaryDirectory() as directory:
        storage.save(directory, {"first": array, "second": array.copy()}, {})
        arrays, _ = storage.load(directory)
    for found in arrays.values():
        assert found.dtype == array.dtype.newbyteorder("<")
        assert found.shape == array.shape
        np.testing.assert_array_equal(found, array)


def test_arrays_larger_than_a_piece():
    big = {"wide": np.random.default_rng(0).random((700, 700)).T, "long": np.arange(3_000_001, dtype=np.uint8)}
    with tempfile.TemporaryDirectory() as directory:
        storage.save(directory, big, {})
        assert_equal(storage.load(directory)[0], big)


def test_no_arrays_and_no_metadata(tmp_path):
    storage.save(tmp_path, {}, {})
    assert storage.load(tmp_path) == ({}, {})


def test_the_safetensors_library_reads_the_data(saved):
    assert_equal(safetensors.numpy.load_file(data_file(saved)), ARRAYS)


def test_memory_is_not_doubled(tmp_path):
    arrays = {"a": np.zeros((2048, 1024), np.float32), "b": np.zeros((1024, 2048), np.float32).T}
    tracemalloc.start()
    storage.save(tmp_path, arrays, {})
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    storage.load(tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()


def test_equal_models_are_equal_files(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    storage.save(first, ARRAYS, METADATA)
    storage.save(second, dict(reversed(ARRAYS.items())), dict(reversed(METADATA.items())))
    names = sorted(os.listdir(first))
    assert names == sorted(os.listdir(second))
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


@given(value=st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=30, deadline=None)
def test_floats_of_the_metadata_come_back_exactly(value):
    with tempfile.TemporaryDirectory() as directory:
        storage.save(directory, {}, {"x": value})
        assert storage.load(directory)[1]["x"].hex() == value.hex()


# --- strings ----------------------------------------------------------------------------------------------


@given(strings=st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_strings_come_back(strings):
    packed = storage.pack_strings(strings, "labels")
    assert {name: array.dtype for name, array in packed.items()} == {
        "labels.utf8": np.uint8,
        "labels.offsets": np.int64,
    }
    assert storage.unpack_strings(packed, "labels") == strings


def test_a_lone_surrogate_is_refused():
    with pytest.raises(ValueError, match=r"labels holds 'x\\ud800'"):
        storage.pack_strings(["a", "x\ud800"], "labels")


BAD_OFFSETS = [[], [0, 1], [0, 3, 2], [1, 2], [0, 2, 1, 2], [0, -1, 2], [0, 9, 2]]


@pytest.mark.parametrize("offsets", BAD_OFFSETS)
def test_bad_offsets(offsets):
    packed = storage.pack_strings(["ab"]) | {"strings.offsets": np.array(offsets, np.int64)}
    with pytest.raises(ModelError, match=r"strings\.offsets must rise"):
        storage.unpack_strings(packed)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"strings.utf8": np.array([0xC3, 0xA9], np.uint8), "strings.offsets": np.array([0, 1, 2])}, "not UTF-8"),
        ({"strings.utf8": np.zeros(2, np.int8)}, "one-dimensional, of uint8"),
        ({"strings.offsets": np.zeros((1, 2), np.int64)}, "one-dimensional, of uint8"),
        ({"strings.offsets": np.zeros(2, np.int32)}, "one-dimensional, of uint8"),
    ],
)
def test_bad_strings(change, words):
    with pytest.raises(ModelError, match=words):
        storage.unpack_strings(storage.pack_strings(["ab"]) | change)


def test_missing_strings():
    with pytest.raises(ModelError, match="does not hold the strings 'labels'"):
        storage.unpack_strings({}, "labels")


# --- what cannot be saved ---------------------------------------------------------------------------------

DEEP: list = []
for _ in range(40):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"a": {"b": [1.0, float("nan")]}}, r"metadata\.a\.b\[1\] is nan"),
        ({"a": float("-inf")}, r"metadata\.a is -inf"),
        ({"a": (1, 2)}, r"metadata\.a is of type tuple"),
        ({"a": np.float32(1)}, r"metadata\.a is of type float32"),
        ({"a": b"x"}, r"metadata\.a is of type bytes"),
        ({1: 2}, "keys of JSON are strings"),
        ({"a": 2**64}, "more than 64 bits"),
        ({"a": DEEP}, "nested deeper"),
        ({"a": "x" * (5 << 20)}, "Save large data as arrays"),
    ],
)
def test_metadata_that_json_would_change(tmp_path, metadata, words):
    with pytest.raises(ValueError, match=words):
        storage.save(tmp_path / "model", {}, metadata)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"a": np.array([None])}, "dtype object"),
        ({"a": np.array(["x"])}, "dtype <U1"),
        ({"a": np.zeros(1, complex)}, "dtype complex128"),
        ({"a": np.zeros(1, [("x", "i4")])}, "a model holds"),
        ({"a": [1, 2]}, "must be a NumPy array, got list"),
        ({"../a": np.zeros(1)}, "name must consist"),
        ({"": np.zeros(1)}, "name must consist"),
        ({"__metadata__": np.zeros(1)}, "name must consist"),
    ],
)
def test_arrays_that_a_model_does_not_hold(tmp_path, arrays, words):
    with pytest.raises(ValueError, match=words):
        storage.save(tmp_path / "model", arrays, {})
    assert not (tmp_path / "model").exists()


# --- where it may be saved --------------------------------------------------------------------------------


def test_parents_are_made(tmp_path):
    storage.save(tmp_path / "a" / "b", *model(1))
    assert storage.load(str(tmp_path / "a" / "b"))[1] == {"number": 1}


def test_foreign_files_survive_beside_a_model(saved):
    (saved / "notes.txt").write_text("mine")
    (saved / "arrays-mine.safetensors").write_text("mine too")
    storage.save(saved, *model(1))
    assert (saved / "notes.txt").read_text() == "mine"
    assert (saved / "arrays-mine.safetensors").exists()
    assert storage.load(saved)[1] == {"number": 1}


@pytest.mark.parametrize("name", ["notes.txt", MANIFEST, ".hidden"])
def test_a_directory_with_other_files_is_refused(tmp_path, name):
    (tmp_path / name).write_text('{"format": "web-app"}')
    with pytest.raises(FileExistsError, match=rf"holds '{name}' and no sparsenet model"):
        storage.save(tmp_path, *model(1))
    assert os.listdir(tmp_path) == [name]


def test_a_file_instead_of_a_directory(tmp_path):
    (tmp_path / "model").write_text("x")
    with pytest.raises(NotADirectoryError, match="choose another name"):
        storage.save(tmp_path / "model", *model(1))
    with pytest.raises(ModelError, match=r"model: cannot be read: Not a directory"):
        storage.load(tmp_path / "model")


def test_what_a_killed_process_left_is_removed(saved):
    left = [saved / ".sparsenet-0123456789abcdef.tmp", saved / "arrays-0123456789abcdef.safetensors"]
    for path in left:
        path.write_bytes(b"torn")
    storage.save(saved, *model(1))
    assert len(os.listdir(saved)) == 2


def test_a_first_save_that_was_killed_does_not_block_the_next(tmp_path):
    (tmp_path / ".sparsenet-0123456789abcdef.tmp").write_bytes(b"torn")
    storage.save(tmp_path, *model(1))
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize("position", [10, 200, -10])
def test_a_damaged_model_may_be_saved_over(saved, position):
    raw = bytearray((saved / MANIFEST).read_bytes())
    raw[position] = 0xFF
    (saved / MANIFEST).write_bytes(raw)
    storage.save(saved, *model(1))
    assert storage.load(saved)[1] == {"number": 1}
    assert len(os.listdir(saved)) == 2


def test_a_link_to_a_directory_is_followed(saved, tmp_path):
    (tmp_path / "latest").symlink_to(saved)
    storage.save(tmp_path / "latest", *model(2))
    assert storage.load(saved)[1] == {"number": 2}


# --- crashes ----------------------------------------------------------------------------------------------

CRASHES = """
import itertools, os, random, shutil, signal, sys, time
import numpy as np
from sparsenet import storage

directory = sys.argv[1]

def model(number, size=5):
    return {"a": np.full((3, size), number, np.int64)}, {"number": number}

def check():
    arrays, metadata = storage.load(directory)
    assert (arrays["a"] == metadata["number"]).all()
    return metadata["number"]

def die_before(step):
    left = iter(range(step))
    def dying(function):
        def call(*args, **options):
            if next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **options)
        return call
    for name in ("open", "write", "fsync", "replace", "unlink", "close", "mkdir"):
        setattr(os, name, dying(getattr(os, name)))

def in_child(action):
    child = os.fork()
    if not child:
        action()
        os._exit(0)
    return child

def replace_dying(step):
    die_before(step)
    storage.save(directory, *model(1))

def every_step(old):
    for step in itertools.count():
        shutil.rmtree(directory, ignore_errors=True)
        if old:
            storage.save(directory, *model(0))
        _, status = os.waitpid(in_child(lambda: replace_dying(step)), 0)
        try:
            print(check())
        except storage.ModelError:
            assert not old
            print("none")
        storage.save(directory, *model(2))
        assert check() == 2 and len(os.listdir(directory)) == 2
        if status == 0:
            return

def save_for_ever(first):
    for number in itertools.count(first):
        storage.save(directory, *model(number, 20_000))

def killed_at_any_time():
    random.seed(0)
    for attempt in range(40):
        child = in_child(lambda: save_for_ever(1000 * attempt))
        time.sleep(random.uniform(0.001, 0.04))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print(check())

globals()[sys.argv[2]](*map(int, sys.argv[3:]))
"""


def crash(directory: Path, *arguments: str) -> list[str]:
    command = [sys.executable, "-c", CRASHES, str(directory), *arguments]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_killed_before_any_step_the_old_model_or_the_new_one_is_complete(tmp_path):
    outcomes = crash(tmp_path / "model", "every_step", "1")
    switch = outcomes.index("1")
    assert switch > 10
    assert outcomes == ["0"] * switch + ["1"] * (len(outcomes) - switch)


def test_killed_before_any_step_of_the_first_save(tmp_path):
    outcomes = crash(tmp_path / "model", "every_step", "0")
    switch = outcomes.index("1")
    assert outcomes == ["none"] * switch + ["1"] * (len(outcomes) - switch)


def test_killed_at_any_time(tmp_path):
    storage.save(tmp_path / "model", *model(-1, 20_000))
    assert len(set(crash(tmp_path / "model", "killed_at_any_time"))) > 3  # else nothing was killed in a save


def test_order_of_what_makes_it_durable(saved, monkeypatch):
    """Data on disk before its name, its name before the manifest's, and old data removed last."""
    calls = []

    def recorded(name):
        function = getattr(os, name)

        def call(target, *arguments, **options):
            what = os.path.basename(os.readlink(f"/proc/self/fd/{target}")) if name == "fsync" else target
            calls.append((name, what))
            return function(target, *arguments, **options)

        return call

    old = data_file(saved).name
    for name in ("fsync", "replace", "unlink"):
        monkeypatch.setattr(os, name, recorded(name))
    storage.save(saved, *model(1))
    data, manifest = calls[0][1], calls[1][1]
    assert calls == [
        ("fsync", data),
        ("fsync", manifest),
        ("replace", data),
        ("fsync", "model"),
        ("replace", manifest),
        ("fsync", "model"),
        ("unlink", old),
    ]


def failing(monkeypatch, step: int, number: int) -> None:
    """Make the given one of the next writes, syncs and renames fail."""
    steps = itertools.count()

    def wrap(function):
        def call(*arguments, **options):
            if next(steps) == step:
                raise OSError(number, os.strerror(number))
            return function(*arguments, **options)

        return call

    for name in ("write", "fsync", "replace"):
        monkeypatch.setattr(os, name, wrap(getattr(os, name)))


def caught(action: Callable[[], None]) -> OSError | None:
    try:
        action()
    except OSError as error:
        return error
    return None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EIO])
def test_a_failure_at_any_step_keeps_a_complete_model_and_leaves_nothing_behind(tmp_path, number):
    outcomes = []
    for step in itertools.count():
        storage.save(tmp_path / "model", *model(0))
        with pytest.MonkeyPatch.context() as patch:
            failing(patch, step, number)
            error = caught(lambda: storage.save(tmp_path / "model", *model(1)))
        if error is None:
            break
        assert error.errno == number
        assert error.filename == str(tmp_path / "model")
        metadata = storage.load(tmp_path / "model")[1]
        outcomes.append(metadata["number"])
        assert ("unchanged" in str(error)) == (metadata["number"] == 0)
        assert len(os.listdir(tmp_path / "model")) == 2
    assert outcomes == [0] * (len(outcomes) - 1) + [1]
    assert len(outcomes) >= 8


def test_short_writes_are_continued(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    storage.save(tmp_path, ARRAYS, METADATA)
    monkeypatch.undo()
    assert_equal(storage.load(tmp_path)[0], ARRAYS)


FULL_DISK = """
set -e
mount -t tmpfs -o size=256k none "$1"
"$2" - "$1" <<'END'
import errno, os, sys
import numpy as np
from sparsenet import storage
directory = os.path.join(sys.argv[1], "model")
storage.save(directory, {"a": np.ones(1000)}, {"number": 1})
try:
    storage.save(directory, {"a": np.ones(1_000_000)}, {})
except OSError as error:
    assert error.errno == errno.ENOSPC and directory in str(error), error
else:
    raise AssertionError("the disk was not full")
assert storage.load(directory)[1] == {"number": 1}
assert len(os.listdir(directory)) == 2
END
"""


def in_namespace(*command: str) -> list[str]:
    return ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), *command]


def can_mount(directory: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    command = in_namespace("mount", "-t", "tmpfs", "none", str(directory))
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_a_disk_that_is_really_full(tmp_path):
    if not can_mount(tmp_path):
        pytest.skip("needs the right to mount a small file system")
    command = in_namespace("sh", "-c", FULL_DISK, "sh", str(tmp_path), sys.executable)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_no_permission(saved):
    saved.chmod(0o500)
    with pytest.raises(PermissionError, match=r"unchanged.*model"):
        storage.save(saved, *model(1))
    saved.chmod(0o700)
    data_file(saved).chmod(0)
    with pytest.raises(ModelError, match=r"safetensors: cannot be read: Permission denied"):
        storage.load(saved)


# --- at the same time -------------------------------------------------------------------------------------


def test_two_savers_and_a_loader(tmp_path):
    storage.save(tmp_path, *model(0, 1000))
    threads = [
        threading.Thread(
            target=lambda first=first: [
                storage.save(tmp_path, *model(number, 1000)) for number in range(first, first + 30)
            ]
        )
        for first in (0, 100)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        arrays, metadata = storage.load(tmp_path)
        assert (arrays["a"] == metadata["number"]).all()
    assert len(os.listdir(tmp_path)) == 2


def test_a_save_between_manifest_and_data_is_noticed(saved, monkeypatch):
    parse, numbers = storage.parse_manifest, iter([1, 2])

    def parse_then_save(*arguments):
        manifest = parse(*arguments)
        for number in itertools.islice(numbers, 1):
            storage.save(saved, *model(number))
        return manifest

    monkeypatch.setattr(storage, "parse_manifest", parse_then_save)
    assert storage.load(saved)[1] == {"number": 2}


def test_a_file_system_without_locks_will_do(tmp_path, monkeypatch):
    def flock(fd, operation):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    storage.save(tmp_path, *model(1))
    assert storage.load(tmp_path)[1] == {"number": 1}


def test_a_lock_that_fails_otherwise_is_an_error(tmp_path, monkeypatch):
    def flock(fd, operation):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="Input/output error"):
        storage.save(tmp_path, *model(1))


# --- damage -----------------------------------------------------------------------------------------------


def assert_refused(directory: Path, words: str | None = None) -> None:
    """Loading must fail in words that name a path of the model, and allocate next to nothing."""
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match=words) as caught:
            storage.load(directory)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert str(directory) in str(caught.value)


@pytest.mark.parametrize("kind", [MANIFEST, "data"])
def test_any_flipped_byte_is_an_error(saved, kind):
    path = data_file(saved) if kind == "data" else saved / MANIFEST
    raw = path.read_bytes()
    rng = np.random.default_rng(0)
    for position, flip in enumerate(rng.integers(1, 256, len(raw))):
        path.write_bytes(raw[:position] + bytes([raw[position] ^ flip]) + raw[position + 1 :])
        assert_refused(saved)


@pytest.mark.parametrize("kind", [MANIFEST, "data"])
def test_any_truncation_is_an_error(saved, kind):
    path = data_file(saved) if kind == "data" else saved / MANIFEST
    raw = path.read_bytes()
    for length in range(len(raw)):
        path.write_bytes(raw[:length])
        assert_refused(saved)
    path.write_bytes(raw + b"\n")
    assert_refused(saved)


@settings(deadline=None)
@given(raw=st.binary(max_size=300), kind=st.sampled_from([MANIFEST, "data"]))
def test_any_other_content_is_an_error(raw, kind):
    with tempfile.TemporaryDirectory() as name:
        storage.save(name, ARRAYS, METADATA)
        path = data_file(Path(name)) if kind == "data" else Path(name, MANIFEST)
        path.write_bytes(raw)
        assert_refused(Path(name))


@pytest.mark.parametrize("kind", [MANIFEST, "data"])
@pytest.mark.parametrize("what", ["link", "directory", "pipe", "nothing"])
def test_only_regular_files_are_read(saved, tmp_path, kind, what):
    path = data_file(saved) if kind == "data" else saved / MANIFEST
    path.rename(tmp_path / "elsewhere")
    words = {"link": "symbolic link", "nothing": "missing" if kind == "data" else "is not a sparsenet model"}
    if what == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif what == "directory":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    assert_refused(saved, words.get(what, "not a regular file"))


def test_no_directory_and_an_empty_one(tmp_path):
    assert_refused(tmp_path, r"is not a sparsenet model: that is a directory with manifest\.json")
    assert_refused(tmp_path / "absent", r"does not exist")


def test_a_huge_manifest_is_not_read(saved):
    with (saved / MANIFEST).open("r+b") as file:
        file.truncate(1 << 40)
    assert_refused(saved, "at most")


# --- malice: the checksums are right ----------------------------------------------------------------------


def seal(directory: Path, text: str) -> None:
    """Write a manifest, given without its last line and brace, as `save` would."""
    body = text.encode()
    digest = hashlib.sha256(body).hexdigest()
    (directory / MANIFEST).write_bytes(body + f',\n  "sha256": "{digest}"\n}}\n'.encode())


def content_of(directory: Path) -> dict:
    content = json.loads((directory / MANIFEST).read_text())
    del content["sha256"]
    return content


def forge(directory: Path, *path: str, value: object) -> None:
    content = content_of(directory)
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    seal(directory, json.dumps(content, indent=2, sort_keys=True).removesuffix("\n}"))


def test_forging_nothing_is_accepted(saved):
    forge(saved, "version", value=1)
    assert_equal(storage.load(saved)[0], ARRAYS)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("version", 2, "newer sparsenet: format 2, this one reads up to 1; upgrade"),
        ("version", True, "version not valid"),
        ("version", "1", "version not valid"),
        ("version", 0, "version not valid"),
        ("format", "other", "not a manifest of sparsenet"),
        ("extra", 1, "its fields"),
        ("arrays", [], "arrays not valid"),
        ("metadata", [], "metadata not valid"),
        ("metadata", {"x": DEEP}, "nested deeper"),
        ("metadata", {"x": float("nan")}, "NaN is not JSON"),
        ("metadata", {"x": 10**30}, "more than 64 bits"),
        ("data", 1, "data not valid"),
        ("data/sha256", "0" * 63 + "G", "data.sha256"),
        ("data/sha256", "0" * 64, "data .its size or name"),
        ("data/file", "../secret", "data .its size or name"),
        ("data/bytes", 1, "data .its size or name"),
        ("arrays/weight", 1, "arrays.weight is not valid"),
        ("arrays/weight", {"dtype": "F32"}, "arrays.weight is not valid"),
        ("arrays/weight/dtype", "OBJECT", "arrays.weight.dtype"),
        ("arrays/weight/dtype", [], "arrays.weight.dtype"),
        ("arrays/weight/dtype", "I32", "header does not describe"),
        ("arrays/weight/dtype", "F64", "data .its size or name"),
        ("arrays/weight/shape", [4, 3], "header does not describe"),
        ("arrays/weight/shape", [-3, -4], "arrays.weight.shape"),
        ("arrays/weight/shape", [3.0, 4], "arrays.weight.shape"),
        ("arrays/weight/shape", [True, 12], "arrays.weight.shape"),
        ("arrays/weight/shape", [2**40], "data .its size or name"),
        ("arrays/weight/shape", [2**62, 2**62], "arrays.weight.shape"),
        ("arrays/empty/shape", [0, 2**62], "arrays.empty.shape"),
        ("arrays/weight/shape", [1] * 33, "arrays.weight.shape"),
        ("arrays/..%2Fx", {"dtype": "F32", "shape": [0]}, "arrays"),
    ],
)
def test_forged_manifests(saved, path, value, words):
    forge(saved, *path.split("/"), value=value)
    assert_refused(saved, words)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=8,
)
PLACES = ["format", "version", "data", "data/file", "data/bytes", "data/sha256", "arrays", "arrays/ids"]
PLACES += ["arrays/ids/shape", "arrays/ids/dtype", "arrays/new", "arrays/ids/new", "new"]


@settings(deadline=None)
@given(path=st.sampled_from(PLACES), value=JSON)
def test_randomly_forged_manifests(path, value):
    with tempfile.TemporaryDirectory() as name:
        storage.save(name, ARRAYS, METADATA)
        forge(Path(name), *path.split("/"), value=value)
        if path == "version" and type(value) is int and value == 1:
            return
        assert_refused(Path(name))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{" + '"a": ' + "[" * 100_000, "not valid"),
        ("{" + '"a": ' + "[" * 100_000 + "]" * 100_000, "not valid"),
        ('{"format": "sparsenet-model", "format": "sparsenet-model"', "key is repeated"),
        ('{"a": ' + "9" * 5000, "not valid"),
        ('{"a": "\udcff"'.encode("utf-8", "surrogateescape").decode("latin-1"), "not a manifest"),
    ],
)
def test_forged_texts(saved, text, words):
    seal(saved, text)
    assert_refused(saved, words)


def forge_data(directory: Path, old: bytes, new: bytes) -> None:
    path = data_file(directory)
    raw = path.read_bytes()
    assert len(old) == len(new)
    assert raw.count(old) == 1
    raw = raw.replace(old, new)
    path.unlink()
    content, digest = content_of(directory), hashlib.sha256(raw).hexdigest()
    content["data"] |= {"sha256": digest, "file": f"arrays-{digest[:16]}.safetensors"}
    (directory / content["data"]["file"]).write_bytes(raw)
    seal(directory, json.dumps(content, indent=2, sort_keys=True).removesuffix("\n}"))


def test_forged_header(saved):
    forge_data(saved, b'"shape":[3,4]', b'"shape":[4,3]')
    assert_refused(saved, "header does not describe")


def test_forged_boolean(saved):
    forge_data(saved, b"\x01\x00\x01", b"\x01\x02\x01")
    assert_refused(saved, "neither 0 nor 1")
