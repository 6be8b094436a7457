"""A file of sparse points, read row by row or in blocks, so that points need not fit into memory.

The file begins with blocks of rows, each row a record (``csrc/io/records.h``). Tables follow: the length of each row,
the number of its long gaps, and the rows, bytes, value size and CRC-32 of each block. Then come the labels, if the
source had some, a description in JSON, and a fixed-size end that locates it. The file has its name only when it is
complete.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import IO, Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.disk_errors import disk_errors
from sparsenet.core.validation import MAX_WIDTH
from sparsenet.data.dataset import csr
from sparsenet.data.errors import DataError
from sparsenet.kernels.types import F64, I64, U8

START, END = b"sparsenet points 1\n", b"end of points\n\0\0"
#: Offset and size of the description, its CRC-32, and the end mark.
_LAST = struct.Struct(f"<QQL{len(END)}s")
#: Rows that share the size of their values and a checksum: up to this many, and with up to this many entries unless
#: one row has more.
BLOCK_ROWS, BLOCK_ENTRIES = 4096, 1 << 20


def check_cache(cache: Any) -> None:
    """Refuse what is not the path of a folder."""
    if not isinstance(cache, str | os.PathLike) or not os.fspath(cache):
        raise ValueError(f"cache must be the path of a folder, got {cache!r}: it is created if it is missing")


def cache_folder(cache: str | os.PathLike[str]) -> Path:
    """Return the folder of a cache, which is created if it is missing."""
    check_cache(cache)
    folder = Path(cache)
    if folder.exists() and not folder.is_dir():
        raise DataError(os.fspath(folder), None, "is a file, and the cache must be a folder: name another one")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class PointWriter:
    """Write a `StoredPoints` block by block; it gets its name in `finish`, and leaves nothing behind if that fails.

    A `temporary` one has no name, but is in the folder of `path`.
    """

    def __init__(self, path: Path, *, temporary: bool = False) -> None:
        self.path, self._part = path, None if temporary else path.with_name(path.name + ".part")
        with cache_errors(self.path):
            cache_folder(path.parent)
            self._file = self._unnamed() if self._part is None else self._locked(self._part)
            self._file.write(START)
        self._rows: list[tuple[NDArray[np.int32], NDArray[np.int32]]] = []
        self._blocks: list[tuple[int, int, int, int]] = []
        self._n_nonzero, self._lowest, self._crc, self._is_done = 0, 0.0, 0, False

    def _unnamed(self) -> IO[bytes]:
        return tempfile.TemporaryFile(dir=self.path.parent)  # closed by __exit__

    def _locked(self, part: Path) -> IO[bytes]:
        """Open the file under its temporary name, empty; wait for another process that writes it."""
        while True:
            file = open(part, "a+b")  # noqa: SIM115  # closed by __exit__
            fcntl.flock(file, fcntl.LOCK_EX)  # the system frees it if its owner dies
            if _is_named(file, part):
                file.seek(0)
                file.truncate()  # of a run that was killed
                return file
            file.close()  # its writer has just renamed or removed it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._part is not None:
            if not self._is_done:
                self._part.unlink(missing_ok=True)  # while the lock is held: later the name may be of another process
            fcntl.flock(self._file, fcntl.LOCK_UN)  # the points that `finish` returned have the same open file
        with suppress(OSError):  # a full disk has raised, and `finish` has written everything
            self._file.close()

    @property
    def n_rows(self) -> int:
        """The number of rows so far."""
        return sum(n for n, *_ in self._blocks)

    def append(self, matrix: Any) -> None:
        """Append the rows of a canonical CSR matrix."""
        begin, indptr = 0, matrix.indptr
        while begin < matrix.shape[0]:
            n_fitting = int(np.searchsorted(indptr, int(indptr[begin]) + BLOCK_ENTRIES, side="right")) - 1 - begin
            end = min(begin + min(max(n_fitting, 1), BLOCK_ROWS), matrix.shape[0])
            pointers = np.asarray(indptr[begin : end + 1], np.int64)
            own = slice(pointers[0], pointers[-1])
            self._append_block(pointers - pointers[0], matrix.indices[own], matrix.data[own])
            begin = end

    def _append_block(self, indptr: I64, indices: NDArray[Any], data: NDArray[Any]) -> None:
        values = data.astype(np.float64)
        value_bytes = _value_bytes(values)
        out, ends = np.empty(len(values) * (4 + value_bytes), np.uint8), np.empty(len(indptr), np.int64)
        kernels.encode_rows(indptr, np.ascontiguousarray(indices, np.int32), values, value_bytes, out, ends)
        record, sizes = out[: ends[-1]].data, np.diff(indptr)
        checksum = zlib.crc32(record)
        with cache_errors(self.path):
            self._file.write(record)
        long_gaps = (np.diff(ends) - (2 + value_bytes) * sizes) // 2
        self._rows.append((sizes.astype(np.int32), long_gaps.astype(np.int32)))
        self._blocks.append((len(sizes), len(record), value_bytes, checksum))
        self._n_nonzero += int(np.count_nonzero(values))
        self._lowest = min(self._lowest, float(values.min(initial=0)))
        self._crc = zlib.crc32(checksum.to_bytes(4, "little"), self._crc)

    def finish(
        self,
        width: int,
        *,
        is_dense: bool = False,
        about: Mapping[str, Any] | None = None,
        labels: Mapping[str, NDArray[Any]] | None = None,
    ) -> StoredPoints:
        """Write the tables and the description, give the file its name, and open it.

        `about` are JSON values of the caller.
        """
        sizes, long_gaps = (np.concatenate([np.empty(0, np.int32), *(own[i] for own in self._rows)]) for i in (0, 1))
        blocks = np.array(self._blocks, np.int64).reshape(-1, 4)
        tables = {"sizes": _smallest(sizes), "long_gaps": _smallest(long_gaps), "blocks": blocks, **(labels or {})}
        description: dict[str, Any] = {
            "width": width,
            "is_dense": is_dense,
            "n_nonzero": self._n_nonzero,
            "lowest": self._lowest,
            "checksum": self._crc,
            "about": dict(about or {}),
            "tables": {},
        }
        with cache_errors(self.path):
            for name, table in tables.items():
                place = {"offset": self._file.tell(), "dtype": table.dtype.str, "n": table.size}
                self._file.write(np.ascontiguousarray(table).data)
                description["tables"][name] = {**place, "checksum": zlib.crc32(np.ascontiguousarray(table).data)}
            text = json.dumps(description).encode()
            self._file.write(text + _LAST.pack(self._file.tell(), len(text), zlib.crc32(text), END))
            self._file.flush()
            if self._part is not None:
                os.fsync(self._file.fileno())
                self._part.replace(self.path)
        self._is_done = True
        return StoredPoints(self.path, os.dup(self._file.fileno()))  # another process may replace the name


def _is_named(file: IO[bytes], path: Path) -> bool:
    """Return whether the name still belongs to the open file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def cache_errors(path: Path) -> AbstractContextManager[None]:
    """Add the folder of a cache and the remedy to errors of writing a file there."""
    return disk_errors(path.name, f"the cache folder {path.parent}")


def _value_bytes(values: F64) -> int:
    """Return the fewest bytes that hold each of the values exactly; see `encode_rows`."""
    if (values == 1).all():
        return 0
    with np.errstate(invalid="ignore", over="ignore"):
        if (values == values.astype(np.uint16)).all() and not np.signbit(values).any():
            return 2
        return 4 if (values == values.astype(np.float32)).all() else 8


def _smallest(numbers: NDArray[np.int32]) -> NDArray[Any]:
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


class StoredPoints:
    """A matrix of points in a file, (n, d), with what the scaling needs of SciPy's interface.

    Only a few bytes a point are in memory. Rows are read by system calls, not mapped, so that the memory of the process
    stays what it is.

    Attributes
    ----------
    path : str
    shape : (int, int)
    is_dense : bool
        Whether the source was an array, so that rows are dense arrays.
    sizes : ndarray of shape (n,), int32
        Entries of each row.
    lowest : float
        The lowest value, at most 0.
    checksum : int
        CRC-32 of all blocks.
    about : dict
        JSON values of the writer.
    """

    def __init__(self, path: str | os.PathLike[str], descriptor: int | None = None) -> None:
        self.path = os.fspath(path)
        self._file = os.open(path, os.O_RDONLY) if descriptor is None else descriptor
        try:
            description = self._description()
            tables = {name: self._table(**place) for name, place in description["tables"].items()}
            self.is_dense, self.about = bool(description["is_dense"]), dict(description["about"])
            self.n_nonzero, self.lowest = int(description["n_nonzero"]), float(description["lowest"])
            self.checksum = int(description["checksum"])
            self.sizes = tables.pop("sizes").astype(np.int32)
            long_gaps, blocks = tables.pop("long_gaps"), tables.pop("blocks").reshape(-1, 4)
            self.shape = (len(self.sizes), int(description["width"]))
            if not 0 <= self.shape[1] <= MAX_WIDTH:
                raise ValueError
            self._place_rows(long_gaps, blocks)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self.path) from error
        except (LookupError, TypeError, ValueError, AttributeError):
            raise self._damaged() from None
        #: The labels of the source.
        self.labels = tables

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            os.close(self._file)

    def _description(self) -> dict[str, Any]:
        size = os.fstat(self._file).st_size
        last = os.pread(self._file, _LAST.size, max(size - _LAST.size, 0))
        if os.pread(self._file, len(START), 0) != START or len(last) < _LAST.size:
            raise self._damaged()
        offset, n_bytes, checksum, end = _LAST.unpack(last)
        if end != END or offset + n_bytes + _LAST.size != size:
            raise self._damaged()
        text = os.pread(self._file, n_bytes, offset)
        if zlib.crc32(text) != checksum:
            raise self._damaged()
        found: dict[str, Any] = json.loads(text)
        return found

    def _table(self, offset: int, dtype: str, n: int, checksum: int) -> NDArray[Any]:
        if np.dtype(dtype).kind not in "iuf" or offset < 0:
            raise ValueError
        if offset + n * np.dtype(dtype).itemsize > os.fstat(self._file).st_size:
            raise self._damaged()  # before memory is taken for it
        table = np.empty(n, dtype)
        self._read(np.array([offset]), np.array([0, table.nbytes]), table.view(np.uint8))
        if zlib.crc32(table.data) != checksum:
            raise self._damaged()
        return table

    def _place_rows(self, long_gaps: NDArray[Any], blocks: I64) -> None:
        rows, n_bytes, value_bytes, self._checksums = blocks.T
        if rows.sum() != len(self.sizes) or len(long_gaps) != len(self.sizes):
            raise ValueError
        if not ((long_gaps >= 0) & (long_gaps <= self.sizes)).all():  # kernels write as many entries as there are sizes
            raise ValueError
        self._block_ends = np.cumsum(rows)
        self._value_bytes = np.repeat(value_bytes.astype(np.uint8), rows)
        record_bytes = (2 + self._value_bytes.astype(np.int64)) * self.sizes + 2 * long_gaps.astype(np.int64)
        self._starts = len(START) + np.concatenate(([0], np.cumsum(record_bytes)))
        if not np.array_equal(self._starts[self._block_ends], len(START) + np.cumsum(n_bytes)):
            raise ValueError

    def _damaged(self) -> DataError:
        advice = "remove it, and it is made again from its source"
        return DataError(self.path, None, f"the cache of points is damaged or was cut short: {advice}")

    @property
    def nnz(self) -> int:
        """Number of entries, explicit zeros included."""
        return int(self.sizes.sum(dtype=np.int64))

    def tables(self) -> tuple[NDArray[Any], ...]:
        """Return the arrays that are held in memory."""
        return self.sizes, self._starts, self._value_bytes

    def count_nonzero(self) -> int:
        """Count the values other than zero, as SciPy does."""
        return self.n_nonzero

    def __getitem__(self, rows: slice | I64) -> Any:
        """Read rows into a CSR matrix, or a dense array if the source was one; values are float64."""
        if isinstance(rows, slice):
            rows = np.arange(*rows.indices(len(self.sizes)))
        return self._matrix(*self.rows(rows))

    def rows(self, rows: I64) -> tuple[I64, NDArray[np.int32], F64]:
        """Read rows; return their pointers, ids and values."""
        starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(self._starts[rows + 1] - self._starts[rows])))
        records = np.empty(starts[-1], np.uint8)
        self._read(self._starts[rows], starts, records)
        return self._decoded(rows, records, starts)

    def blocks(self) -> Iterator[tuple[int, Any]]:
        """Yield each block with the number of its first row, and compare its checksum."""
        for first, end, checksum in zip([0, *self._block_ends[:-1]], self._block_ends, self._checksums, strict=False):
            starts = self._starts[first : end + 1] - self._starts[first]
            records = np.empty(starts[-1], np.uint8)
            self._read(self._starts[first:end], starts, records)
            if zlib.crc32(records.data) != checksum:
                raise self._damaged()
            yield int(first), self._matrix(*self._decoded(np.arange(first, end), records, starts))

    def _matrix(self, indptr: I64, indices: NDArray[np.int32], values: F64) -> Any:
        matrix = csr(indptr, indices, cast(Any, values), self.shape[1])
        return matrix.toarray() if self.is_dense else matrix

    def _decoded(self, rows: I64, records: U8, starts: I64) -> tuple[I64, NDArray[np.int32], F64]:
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.sizes[rows], dtype=np.int64)))
        indices, values = np.empty(indptr[-1], np.int32), np.empty(indptr[-1])
        own = records, starts, self._value_bytes[rows], self.shape[1]
        if kernels.decode_rows(*own, indptr, indices, values, 1) >= 0:
            raise self._damaged()
        return indptr, indices, values

    def _read(self, offsets: I64, starts: I64, out: U8) -> None:
        failed = kernels.read_records(self._file, offsets, starts, out)
        if failed < 0:
            raise self._damaged()
        if failed:
            raise OSError(failed, os.strerror(failed), self.path)
