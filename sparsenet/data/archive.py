"""Check a SciPy ``.npz`` archive before it is loaded: its headers must agree with the file and fit into memory."""

from __future__ import annotations

import io
import math
import os
import tokenize
import warnings
import zipfile
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from sparsenet.core.machine import available_memory
from sparsenet.data.errors import cut

#: The members that `scipy.sparse.load_npz` reads, without their suffix ``.npy``.
MEMBERS = frozenset({"format", "shape", "_is_array", "data", "indices", "indptr", "offsets", "row", "col", "coords"})
#: The members that hold a few numbers or a word.
_SMALL = frozenset({"format", "shape", "_is_array"})
#: Errors that NumPy's parser of headers raises. A deeply nested header exhausts the stack or memory of Python's parser.
_BAD_HEADER = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    SyntaxError,
    tokenize.TokenError,
    RecursionError,
    MemoryError,
)


class _Header(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]


def check_archive(file: BinaryIO, free: int | None = None) -> None:
    """Raise a ValueError if the headers of an archive contradict the file or ask for more memory than is free.

    Only headers and the small members are read. `file` is left at its start. `free` is the number of free bytes,
    measured by default.
    """
    file_bytes = file.seek(0, os.SEEK_END)
    file.seek(0)
    if file.read(2) != b"PK":
        raise ValueError("it is not a zip archive")
    with zipfile.ZipFile(file) as archive:
        members = _members(archive)
        packed = sum(info.compress_size for info in members.values())
        if packed > file_bytes:
            raise ValueError(f"its members claim {packed} bytes, the file has {file_bytes}")
        if any(not 0 <= info.header_offset < file_bytes for info in members.values()):
            raise ValueError("its directory points beyond the file")
        headers = {name: _header(archive, name, info) for name, info in members.items()}
        shape = _read_shape(archive, members) if "shape" in members else None
    file.seek(0)
    stored = sum(info.file_size for info in members.values())
    _check_memory(stored, headers.get("data"), shape, available_memory() if free is None else free)


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the members that make up a matrix, by name."""
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.removesuffix(".npy")
        if name in members:
            raise ValueError(f"{name} occurs twice")
        if name in MEMBERS:
            members[name] = info
    return members


def _header(archive: zipfile.ZipFile, name: str, info: zipfile.ZipInfo) -> _Header:
    """Read the header of a member, and check that the member can hold what the header claims."""
    _check_size(name, info)
    with archive.open(info) as member:
        start = io.BytesIO(member.read(1 << 16))  # more than the header of any array that NumPy loads
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # loading warns again of a header that Python 2 wrote
        try:
            version = npy.read_magic(start)
            read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
            if read is None:  # version 3.0 is for field names, which no matrix has
                raise ValueError(f"version {version[0]}.{version[1]} is unknown")
            shape, _, dtype = read(start)
        except _BAD_HEADER as error:
            raise ValueError(f"{name} is not an array written by NumPy ({_first_line(error)})") from None
    claimed, held = math.prod(shape) * dtype.itemsize, info.file_size - start.tell()
    if min(shape, default=0) < 0 or dtype.itemsize == 0 or claimed != held:
        raise ValueError(f"{name} claims {dtype} values of shape {cut(str(shape), 100)}, but has {held} bytes")
    return _Header(shape, dtype)


def _check_size(name: str, info: zipfile.ZipInfo, *, small_bytes: int = 4096) -> None:
    """Refuse a member whose size in the archive's directory cannot be right."""
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is compressed in a way that SciPy does not write")
    # Deflate compresses to no less than 1 byte in 1032.
    ratio = 1 if info.compress_type == zipfile.ZIP_STORED else 1032
    if info.file_size > ratio * info.compress_size:
        raise ValueError(f"{name} claims {info.file_size} bytes, compressed to {info.compress_size}")
    if name in _SMALL and info.file_size > small_bytes:
        raise ValueError(f"{name} takes {info.file_size} bytes, but {small_bytes} are enough")


def _read_shape(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> tuple[int, int]:
    with archive.open(members["shape"]) as member:
        shape: NDArray[np.generic] = npy.read_array(member, allow_pickle=False)
    if shape.dtype.kind not in "iu" or shape.ndim != 1:
        raise ValueError("shape must hold integers")
    if len(shape) != 2:
        raise ValueError(f"it has {len(shape)} dimensions, not 2")
    rows, columns = map(int, shape)
    return rows, columns


def _check_memory(stored: int, data: _Header | None, shape: tuple[int, int] | None, free: int) -> None:
    """Refuse a matrix that cannot fit into memory: its arrays as stored, and the same as a CSR matrix."""
    entries = 0 if data is None else math.prod(data.shape)
    rows = 0 if shape is None else shape[0]
    # An entry of the final matrix takes at least a float32 and an int32, and a row two int32 and an int64.
    needed = stored + 8 * entries + 16 * rows
    if needed > free:
        of = "" if shape is None else f" of shape {cut(str(shape), 100)}"
        raise ValueError(f"a matrix{of} takes at least {needed >> 20} MB, and {free >> 20} MB are free")


def _first_line(error: BaseException) -> str:
    """Return the start of an error's message, or its name."""
    return (str(error).splitlines() or [type(error).__name__])[0][:100]
