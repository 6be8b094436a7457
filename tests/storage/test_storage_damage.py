"""Damaged and forged models are refused with a clear error and without harm."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsenet import storage
from sparsenet.storage import ModelError
from tests.support.forging import seal
from tests.support.storage_models import ARRAYS, MANIFEST, METADATA, assert_equal, data_file, deep


@pytest.fixture
def saved(tmp_path):
    directory = tmp_path / "model"
    storage.save(directory, ARRAYS, METADATA)
    return directory


# --- damage -----------------------------------------------------------------------------------------------


def assert_refused(directory: Path, words: str | None = None) -> None:
    """Loading must fail with an error that names a path of the model, and allocate almost nothing."""
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match=words) as caught:
            storage.load(directory)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert str(directory) in str(caught.value)


@pytest.mark.parametrize("kind", [MANIFEST, "data"])
def test_rejects_any_flipped_byte(saved, kind):
    path = data_file(saved) if kind == "data" else saved / MANIFEST
    raw = path.read_bytes()
    rng = np.random.default_rng(0)
    for position, flip in enumerate(rng.integers(1, 256, len(raw))):
        path.write_bytes(raw[:position] + bytes([raw[position] ^ flip]) + raw[position + 1 :])
        assert_refused(saved)


@pytest.mark.parametrize("kind", [MANIFEST, "data"])
def test_rejects_any_truncation(saved, kind):
    path = data_file(saved) if kind == "data" else saved / MANIFEST
    raw = path.read_bytes()
    for length in range(len(raw)):
        path.write_bytes(raw[:length])
        assert_refused(saved)
    path.write_bytes(raw + b"\n")
    assert_refused(saved)


@given(raw=st.binary(max_size=300), kind=st.sampled_from([MANIFEST, "data"]))
def test_rejects_any_other_content(raw, kind):
    with tempfile.TemporaryDirectory() as name:
        storage.save(name, ARRAYS, METADATA)
        path = data_file(Path(name)) if kind == "data" else Path(name, MANIFEST)
        path.write_bytes(raw)
        assert_refused(Path(name))


@pytest.mark.parametrize("kind", [MANIFEST, "data"])
@pytest.mark.parametrize("what", ["link", "directory", "pipe", "nothing"])
def test_reads_only_regular_files(saved, tmp_path, kind, what):
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


def test_reports_a_missing_or_empty_directory(tmp_path):
    assert_refused(tmp_path, r"is not a sparsenet model: that is a directory with manifest\.json")
    assert_refused(tmp_path / "absent", r"does not exist")


def test_does_not_read_a_huge_manifest(saved):
    with (saved / MANIFEST).open("r+b") as file:
        file.truncate(1 << 40)
    assert_refused(saved, "at most")


# --- forgeries with valid checksums -----------------------------------------------------------------------


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


def test_accepts_an_unforged_model(saved):
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
        ("metadata", {"x": deep()}, "nested deeper"),
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
def test_rejects_forged_manifests(saved, path, value, words):
    forge(saved, *path.split("/"), value=value)
    assert_refused(saved, words)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=8,
)
PLACES = ["format", "version", "data", "data/file", "data/bytes", "data/sha256", "arrays", "arrays/ids"]
PLACES += ["arrays/ids/shape", "arrays/ids/dtype", "arrays/new", "arrays/ids/new", "new"]


@given(path=st.sampled_from(PLACES), value=JSON)
def test_rejects_randomly_forged_manifests(path, value):
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
def test_rejects_forged_texts(saved, text, words):
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


def test_rejects_a_forged_header(saved):
    forge_data(saved, b'"shape":[3,4]', b'"shape":[4,3]')
    assert_refused(saved, "header does not describe")


def test_rejects_a_forged_boolean(saved):
    forge_data(saved, b"\x01\x00\x01", b"\x01\x02\x01")
    assert_refused(saved, "neither 0 nor 1")
