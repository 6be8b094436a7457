"""SciPy archives whose headers ask for more than the file holds or memory has: refused before anything is allocated."""

from __future__ import annotations

import io
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as npy
from scipy import sparse

from sparsenet.data import DataError, read
from sparsenet.data.archive import check_archive

MEMBERS: dict[str, Any] = {
    "indices": np.array([0, 2, 1], np.int32),
    "indptr": np.array([0, 1, 2, 3], np.int32),
    "format": np.array(b"csr"),
    "shape": np.array([3, 4]),
    "data": np.ones(3),
}
COO: dict[str, Any] = {"row": np.arange(3), "col": np.arange(3), "format": np.array(b"coo")}
COO |= {name: MEMBERS[name] for name in ("shape", "data")}


def member(array: Any) -> bytes:
    """Return the bytes of an array in an archive."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def claiming(text: str, content: bytes = b"\0" * 24, version: int = 1) -> bytes:
    """Return a member with this header."""
    header = text.encode() + b"\n"
    return (
        b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(header)) + header + content
    )


def shaped(shape: str, kind: str = "<f8", content: bytes = b"\0" * 24) -> bytes:
    return claiming(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}", content)


def archive(path: Path, members: dict[str, Any], how: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", how) as file:
        for name, found in members.items():
            file.writestr(f"{name}.npy", found if isinstance(found, bytes) else member(found))
    return path


def refused(path: Path, most: int = 1 << 20) -> str:
    """Return the error of a file, which must come before much memory is taken."""
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as caught:
            read(path)
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


@pytest.mark.parametrize("how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("members", [MEMBERS, COO])
def test_reads_archives_in_either_compression(tmp_path, members, how):
    assert read(archive(tmp_path / "x.npz", members, how)).X.shape == (3, 4)


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "dia"])
@pytest.mark.parametrize("dtype", [np.float64, np.int8, bool])
def test_reads_what_scipy_writes(tmp_path, kind, dtype):
    matrix = sparse.random_array((40, 30), density=0.2, rng=np.random.default_rng(1)).astype(dtype).asformat(kind)
    for compressed in (False, True):
        sparse.save_npz(tmp_path / "x.npz", matrix, compressed=compressed)
        np.testing.assert_array_equal(read(tmp_path / "x.npz").X.toarray(), matrix.toarray().astype(np.float32))
    sparse.save_npz(tmp_path / "x.npz", type(matrix)((4, 30), dtype=dtype))
    assert read(tmp_path / "x.npz").X.shape == (4, 30)


@pytest.mark.parametrize("members", [MEMBERS, COO, COO | {"format": np.array(b"csc"), **MEMBERS}])
@pytest.mark.parametrize("shape", [[2**40, 5], [2**62, 5]])
def test_refuses_more_rows_than_fit_into_memory(tmp_path, members, shape):
    path = archive(tmp_path / "x.npz", members | {"shape": np.array(shape)})
    assert f"a matrix of shape ({shape[0]}, 5) takes" in refused(path)


@pytest.mark.parametrize("name", [*MEMBERS, "row", "col"])
@pytest.mark.parametrize(
    "shape", [f"({2**37},)", "(4,)", "(2,)", "(-3,)", f"({2**40}, {2**40}, {2**40})", f"({10**300},)"]
)
def test_refuses_headers_that_disagree_with_the_member(tmp_path, name, shape):
    path = archive(tmp_path / "x.npz", (MEMBERS if name in MEMBERS else COO) | {name: shaped(shape)})
    assert f"{name} claims float64 values of shape ({shape[1:20]}" in refused(path)


@pytest.mark.parametrize(
    "header",
    [
        "-" * 9000 + "1",
        "(" * 9000 + ")" * 9000,
        "[" * 150 + "]" * 150,
        "{'shape': (3,), 'fortran_order': False}",
        "{'descr': '<q9', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': [('a', '<f8', -1)], 'fortran_order': False, 'shape': (3,)}",
        "{'descr': ('<f8', (" + "9" * 30 + ",)), 'fortran_order': False, 'shape': (3,)}",
        "'''",
        "x" * 70,
        " " * 60_000,
    ],
)
def test_refuses_broken_headers(tmp_path, header):
    assert "data is not an array written by NumPy (" in refused(
        archive(tmp_path / "x.npz", MEMBERS | {"data": claiming(header)}), most=1 << 24
    )


def test_refuses_members_that_are_not_arrays(tmp_path):
    for found in (b"", b"csr", b"\x93NUMPY", b"\x93NUMPY\x09\0" + b" " * 99, claiming("{}", version=2)):
        assert "format is not an array written by NumPy" in refused(
            archive(tmp_path / "x.npz", MEMBERS | {"format": found})
        )
    empty = shaped("(1000000000000,)", "|S0", b"")
    assert "data claims |S0 values" in refused(archive(tmp_path / "x.npz", MEMBERS | {"data": empty}))
    header = b"\x93NUMPY\x02\0" + struct.pack("<I", 2**32 - 1) + b" " * (1 << 24)
    assert "data is not an array" in refused(archive(tmp_path / "x.npz", MEMBERS | {"data": header}))


@pytest.mark.parametrize("name", ["shape", "format"])
def test_refuses_oversized_format_and_shape_members(tmp_path, name):
    path = archive(tmp_path / "x.npz", MEMBERS | {name: np.zeros(1 << 20)})
    assert f"{name} takes {(8 << 20) + 128} bytes, but" in refused(path)


@pytest.mark.parametrize(
    ("shape", "problem"),
    [([3, 4, 1], "it has 3 dimensions, not 2"), (3, "must hold integers"), ([3.0, 4.0], "must hold integers")],
)
def test_refuses_shapes_that_are_not_two_integers(tmp_path, shape, problem):
    assert problem in refused(archive(tmp_path / "x.npz", MEMBERS | {"shape": np.array(shape)}))


def test_refuses_sizes_in_the_directory_that_deflate_cannot_reach(tmp_path):
    path = archive(tmp_path / "x.npz", MEMBERS | {"data": shaped(f"({2**37},)")})
    whole = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        claimed = file.getinfo("data.npy").file_size
    place = whole.rfind(struct.pack("<I", claimed))  # in the directory, at the end
    whole[place : place + 4] = struct.pack("<I", 2**32 - 2)
    path.write_bytes(whole)
    assert "data claims 4294967294 bytes, compressed to" in refused(path)


def test_refuses_members_that_share_the_same_bytes(tmp_path):
    path = archive(tmp_path / "x.npz", MEMBERS | {"data": np.random.default_rng(1).random(3000)})
    with zipfile.ZipFile(path) as file:
        size = file.getinfo("data.npy").compress_size
    whole = path.read_bytes()
    at = whole.find(b"PK\x01\x02")
    for name in ("indices", "indptr"):  # the directory claims the size of data for each
        entry = whole.find(f"{name}.npy".encode(), at) - 46
        whole = whole[: entry + 20] + struct.pack("<II", size, size) + whole[entry + 28 :]
    path.write_bytes(whole)
    assert "its members claim" in refused(path)


@pytest.mark.parametrize("offset", [2**32 - 2, 2**20])
def test_refuses_members_that_lie_outside_the_file(tmp_path, offset):
    path = archive(tmp_path / "x.npz", MEMBERS)
    whole = bytearray(path.read_bytes())
    entry = whole.find(b"PK\x01\x02")
    whole[entry + 42 : entry + 46] = struct.pack("<I", offset)
    path.write_bytes(whole)
    assert "its directory points beyond the file" in refused(path)
    end = whole.rfind(b"PK\x05\x06")  # a directory that begins later moves all members to before the file
    whole[entry + 42 : entry + 46] = struct.pack("<I", 0)
    whole[end + 16 : end + 20] = struct.pack("<I", entry + 9)
    path.write_bytes(whole)
    assert "its directory points beyond the file" in refused(path)


def test_refuses_a_deflate_bomb_that_does_not_fit_into_memory(tmp_path):
    path = archive(tmp_path / "x.npz", MEMBERS | {"data": np.zeros(1 << 22)})
    assert path.stat().st_size < 50_000
    message = r"a matrix of shape \(3, 4\) takes at least 64 MB, and 63 MB are free"
    with path.open("rb") as file, pytest.raises(ValueError, match=message):
        check_archive(file, free=63 << 20)


def test_refuses_other_compressions_and_repeated_members(tmp_path):
    for how in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        path = archive(tmp_path / "x.npz", MEMBERS, how)
        assert "is compressed in a way that SciPy does not write" in refused(path)
    with zipfile.ZipFile(archive(path, MEMBERS), "a") as file:
        file.writestr("data", member(np.ones(3)))
    assert "data occurs twice" in refused(path)


def test_refuses_other_files_named_npz(tmp_path):
    path = tmp_path / "x.npz"
    for content in (shaped(f"({2**37},)"), b"", b"PK", b"PK\x03\x04", b"PK\x05\x06" + b"\0" * 18):
        path.write_bytes(content)
        assert "is not a sparse matrix written by scipy.sparse.save_npz" in refused(path)
    with path.open("wb") as file:
        npy.write_array(file, np.ones(3))
    assert "it is not a zip archive" in refused(path)
