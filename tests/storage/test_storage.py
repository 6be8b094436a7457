"""Saved models: round trips, models that cannot be saved, and paths."""

from __future__ import annotations

import errno
import os
import tempfile
import tracemalloc

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sparsenet import storage
from sparsenet.storage import ModelError
from tests.support.storage_models import ARRAYS, MANIFEST, METADATA, assert_equal, data_file, deep, model


@pytest.fixture
def saved(tmp_path):
    directory = tmp_path / "model"
    storage.save(directory, ARRAYS, METADATA)
    return directory


# --- round trips ------------------------------------------------------------------------------------------


def test_round_trip(saved):
    arrays, metadata = storage.load(saved)
    assert_equal(arrays, ARRAYS)
    assert metadata == METADATA


DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i4", ">f8", np.longlong]
LAYOUTS = [lambda a: a, np.transpose, lambda a: a[..., ::-2] if a.ndim else a, np.asfortranarray]


@given(data=st.data(), dtype=st.sampled_from(DTYPES), layout=st.sampled_from(LAYOUTS))
def test_any_array_round_trips(data, dtype, layout):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5))
    array = layout(data.draw(hnp.arrays(dtype, shape)))
    with tempfile.TemporaryDirectory() as directory:
        storage.save(directory, {"first": array, "second": array.copy()}, {})
        arrays, _ = storage.load(directory)
    for found in arrays.values():
        assert found.dtype == array.dtype.newbyteorder("<")
        assert found.shape == array.shape
        np.testing.assert_array_equal(found, array)


def test_saves_arrays_larger_than_a_chunk():
    big = {"wide": np.random.default_rng(0).random((700, 700)).T, "long": np.arange(3_000_001, dtype=np.uint8)}
    with tempfile.TemporaryDirectory() as directory:
        storage.save(directory, big, {})
        assert_equal(storage.load(directory)[0], big)


def test_saves_a_model_without_arrays_or_metadata(tmp_path):
    storage.save(tmp_path, {}, {})
    assert storage.load(tmp_path) == ({}, {})


def test_the_safetensors_library_reads_the_data(saved):
    assert_equal(safetensors.numpy.load_file(data_file(saved)), ARRAYS)


def test_saving_does_not_double_memory(tmp_path):
    arrays = {"a": np.zeros((2048, 1024), np.float32), "b": np.zeros((1024, 2048), np.float32).T}
    tracemalloc.start()
    storage.save(tmp_path, arrays, {})
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    storage.load(tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()


def test_equal_models_give_equal_files(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    storage.save(first, ARRAYS, METADATA)
    storage.save(second, dict(reversed(ARRAYS.items())), dict(reversed(METADATA.items())))
    names = sorted(os.listdir(first))
    assert names == sorted(os.listdir(second))
    assert all((first / name).read_bytes() == (second / name).read_bytes() for name in names)


@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_metadata_floats_round_trip_exactly(value):
    with tempfile.TemporaryDirectory() as directory:
        storage.save(directory, {}, {"x": value})
        assert storage.load(directory)[1]["x"].hex() == value.hex()


# --- strings ----------------------------------------------------------------------------------------------


@given(strings=st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_strings_round_trip(strings):
    packed = storage.pack_strings(strings, "labels")
    assert {name: array.dtype for name, array in packed.items()} == {
        "labels.utf8": np.uint8,
        "labels.offsets": np.int64,
    }
    assert storage.unpack_strings(packed, "labels") == strings


def test_rejects_a_lone_surrogate():
    with pytest.raises(ValueError, match=r"labels holds 'x\\ud800'"):
        storage.pack_strings(["a", "x\ud800"], "labels")


BAD_OFFSETS = [[], [0, 1], [0, 3, 2], [1, 2], [0, 2, 1, 2], [0, -1, 2], [0, 9, 2]]


@pytest.mark.parametrize("offsets", BAD_OFFSETS)
def test_rejects_bad_string_offsets(offsets):
    packed = storage.pack_strings(["ab"]) | {"strings.offsets": np.array(offsets, np.int64)}
    with pytest.raises(ModelError, match=r"strings\.offsets must rise"):
        storage.unpack_strings(packed)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"strings.utf8": np.array([0xC3, 0xA9], np.uint8), "strings.offsets": np.array([0, 1, 2])}, "invalid UTF-8"),
        ({"strings.utf8": np.zeros(2, np.int8)}, "one-dimensional, of uint8"),
        ({"strings.offsets": np.zeros((1, 2), np.int64)}, "one-dimensional, of uint8"),
        ({"strings.offsets": np.zeros(2, np.int32)}, "one-dimensional, of uint8"),
    ],
)
def test_rejects_bad_string_bytes(change, words):
    with pytest.raises(ModelError, match=words):
        storage.unpack_strings(storage.pack_strings(["ab"]) | change)


def test_rejects_missing_strings():
    with pytest.raises(ModelError, match="does not hold the strings 'labels'"):
        storage.unpack_strings({}, "labels")


# --- unsupported content ----------------------------------------------------------------------------------


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
        ({"a": deep()}, "nested deeper"),
        ({"a": "x" * (5 << 20)}, "Save large data as arrays"),
    ],
)
def test_rejects_metadata_that_json_would_change(tmp_path, metadata, words):
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
def test_rejects_unsupported_arrays(tmp_path, arrays, words):
    with pytest.raises(ValueError, match=words):
        storage.save(tmp_path / "model", arrays, {})
    assert not (tmp_path / "model").exists()


# --- paths ------------------------------------------------------------------------------------------------


def test_creates_parent_directories(tmp_path):
    storage.save(tmp_path / "a" / "b", *model(1))
    assert storage.load(str(tmp_path / "a" / "b"))[1] == {"number": 1}


def test_keeps_foreign_files_beside_a_model(saved):
    (saved / "notes.txt").write_text("mine")
    (saved / "arrays-mine.safetensors").write_text("mine too")
    storage.save(saved, *model(1))
    assert (saved / "notes.txt").read_text() == "mine"
    assert (saved / "arrays-mine.safetensors").exists()
    assert storage.load(saved)[1] == {"number": 1}


@pytest.mark.parametrize("name", ["notes.txt", MANIFEST, ".hidden"])
def test_refuses_a_directory_of_other_files(tmp_path, name):
    (tmp_path / name).write_text('{"format": "web-app"}')
    with pytest.raises(FileExistsError, match=rf"holds '{name}' and no sparsenet model"):
        storage.save(tmp_path, *model(1))
    assert os.listdir(tmp_path) == [name]


def test_refuses_a_file_instead_of_a_directory(tmp_path):
    (tmp_path / "model").write_text("x")
    with pytest.raises(NotADirectoryError, match="choose another name"):
        storage.save(tmp_path / "model", *model(1))
    with pytest.raises(ModelError, match=r"model: cannot be read: Not a directory"):
        storage.load(tmp_path / "model")


@pytest.mark.parametrize("saves", [True, False])
def test_remove_keeps_a_model_saved_meanwhile(saved, monkeypatch, saves):
    removing = os.rmdir

    def late(path):
        if saves:
            storage.save(path, {"bias": np.ones(3)}, {})
        else:
            removing(path)
        removing(path)

    monkeypatch.setattr(os, "rmdir", late)
    storage.remove(saved)
    assert saved.exists() == saves
    if saves:
        assert storage.load(saved)[0]["bias"].tolist() == [1, 1, 1]


def test_remove_reports_why_it_failed(saved, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))

    monkeypatch.setattr(os, "rmdir", refuse)
    with pytest.raises(PermissionError, match=saved.name):
        storage.remove(saved)


def test_removes_leftovers_of_a_killed_process(saved):
    left = [saved / ".sparsenet-0123456789abcdef.tmp", saved / "arrays-0123456789abcdef.safetensors"]
    for path in left:
        path.write_bytes(b"torn")
    storage.save(saved, *model(1))
    assert len(os.listdir(saved)) == 2


def test_saves_after_a_killed_first_save(tmp_path):
    (tmp_path / ".sparsenet-0123456789abcdef.tmp").write_bytes(b"torn")
    storage.save(tmp_path, *model(1))
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize("position", [10, 200, -10])
def test_overwrites_a_damaged_model(saved, position):
    raw = bytearray((saved / MANIFEST).read_bytes())
    raw[position] = 0xFF
    (saved / MANIFEST).write_bytes(raw)
    storage.save(saved, *model(1))
    assert storage.load(saved)[1] == {"number": 1}
    assert len(os.listdir(saved)) == 2


def test_follows_a_link_to_a_directory(saved, tmp_path):
    (tmp_path / "latest").symlink_to(saved)
    storage.save(tmp_path / "latest", *model(2))
    assert storage.load(saved)[1] == {"number": 2}
