"""Arrays that tasks read by name: in the memory of one process, or in a folder that all workers can read."""

from __future__ import annotations

import errno
import json
import math
import os
import resource
import struct
import uuid
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.disk_errors import disk_errors
from sparsenet.core.file_map import FileMap
from sparsenet.core.rows import POINTS_AT_A_TIME, Rows, RowSource

#: Arrays begin at multiples of this many bytes.
ALIGNMENT = 64
#: The remedy where a worker lacks a file.
SHARED = "scratch must be a directory that all workers share"
_LENGTH = struct.Struct("<Q")
#: The files that this process has mapped, by folder and name, and the folders and first words of their names.
_mapped: dict[tuple[str, str], tuple[NDArray[Any], ...]] = {}
_groups: set[tuple[str, str]] = set()
#: What tasks of this process made of the files, by folder and key.
_made: dict[tuple[str, Hashable], Any] = {}


class Scratch(Protocol):
    """A place for arrays by name."""

    @property
    def folder(self) -> str | None:
        """The folder of the arrays; None in memory."""

    def put(self, name: str, *arrays: NDArray[Any]) -> None:
        """Keep the arrays under a name."""

    def put_source(self, name: str, rows: RowSource) -> None:
        """Keep rows that are on disk under a name."""

    def get(self, name: str) -> tuple[NDArray[Any], ...]:
        """Return the arrays that were kept under a name."""

    def get_source(self, name: str) -> RowSource:
        """Return the rows, in memory or on disk, that were kept under a name."""

    def take(self, name: str, *, mapped: bool = False) -> tuple[NDArray[Any], ...]:
        """Return the arrays of a name to keep, and forget the name; files are copied unless they may stay `mapped`."""

    def drop(self, prefix: str) -> None:
        """Forget all names that begin with `prefix`."""

    def made(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what `make` makes of the arrays, which later tasks of this process find under the key."""


class MemoryScratch:
    """Arrays in the memory of this process; they are not copied."""

    folder = None

    def __init__(self) -> None:
        self._held: dict[str, tuple[NDArray[Any], ...]] = {}
        self._on_disk: dict[str, RowSource] = {}
        self._made: dict[Hashable, Any] = {}

    def put(self, name: str, *arrays: NDArray[Any]) -> None:
        """Keep the arrays under a name."""
        self._held[name] = arrays

    def put_source(self, name: str, rows: RowSource) -> None:
        """Keep rows that are on disk under a name; they stay there."""
        self._on_disk[name] = rows

    def get(self, name: str) -> tuple[NDArray[Any], ...]:
        """Return the arrays that were kept under a name."""
        return self._held[name]

    def get_source(self, name: str) -> RowSource:
        """Return the rows, in memory or on disk, that were kept under a name."""
        return self._on_disk[name] if name in self._on_disk else _rows_of(*self._held[name])

    def take(self, name: str, *, mapped: bool = False) -> tuple[NDArray[Any], ...]:
        """Return the arrays of a name to keep, and forget the name."""
        return self._held.pop(name)

    def drop(self, prefix: str) -> None:
        """Forget all names that begin with `prefix`."""
        for held in (self._held, self._on_disk):
            for name in [name for name in held if name.startswith(prefix)]:
                del held[name]

    def made(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what `make` makes of the arrays, which later tasks of this process find under the key."""
        return _found_or_made(self._made, key, make)


@dataclass(frozen=True)
class FolderScratch:
    """Arrays in files of a folder, one a name; a process maps each file once, so a name is put once.

    Files with the same word before a dot belong together: a process frees deleted files when it maps the first of
    other ones.

    A file has the length of its header, the header (a dtype, shape and offset for each array) and the arrays. It is
    complete before it gets its name, so a task that is sent twice does no harm.
    """

    folder: str

    def put(self, name: str, *arrays: NDArray[Any]) -> None:
        """Write the arrays to a file."""
        arrays = tuple(np.ascontiguousarray(array) for array in arrays)
        with self._named(name) as file, self._naming_errors(name):
            _write(file, _lay_out(file, [(array.dtype, array.shape) for array in arrays]), arrays)

    def put_source(self, name: str, rows: RowSource) -> None:
        """Write rows on disk to a file as arrays, one block after the other."""
        indptr, done = np.append(0, np.cumsum(rows.sizes, dtype=np.int64)), 0
        n, width = (int(indptr[-1]),), np.array([rows.width])
        types = [(indptr.dtype, indptr.shape), (np.dtype(np.int32), n), (np.dtype(np.float32), n), (width.dtype, (1,))]
        with self._named(name) as file:
            with self._naming_errors(name):
                places = _lay_out(file, types)
                _write(file, [places[0], places[3]], [indptr, width])
            for block in rows.blocks(POINTS_AT_A_TIME):
                with self._naming_errors(name):
                    _write(file, [place + 4 * done for place in places[1:3]], [block.indices, block.data])
                done += len(block.indices)

    @contextmanager
    def _named(self, name: str) -> Iterator[BinaryIO]:
        """Open a file that gets its name when it is complete."""
        path = Path(self.folder, name)
        unfinished = path.with_name(f"{name}.{uuid.uuid4().hex}.part")
        # The folder may have gone with a run that ended: then opening fails, and nothing is left behind.
        with unfinished.open("wb") as file:
            yield file
            with self._naming_errors(name):
                file.flush()
        unfinished.replace(path)

    def _naming_errors(self, name: str) -> AbstractContextManager[None]:
        return disk_errors(name, f"the scratch folder {self.folder}")

    def get(self, name: str) -> tuple[NDArray[Any], ...]:
        """Map the arrays of a file into memory, read-only."""
        key = (self.folder, name)
        found = _mapped.get(key)
        if found is None:
            group = self.folder, name.partition(".")[0]
            if group not in _groups:
                _groups.add(group)
                unmap_deleted()
            _mapped[key] = found = _read(Path(self.folder, name))
        return found

    def get_source(self, name: str) -> RowSource:
        """Return the rows that were kept under a name; a file holds them as arrays."""
        return _rows_of(*self.get(name))

    def take(self, name: str, *, mapped: bool = False) -> tuple[NDArray[Any], ...]:
        """Return the arrays of a file, copied unless they may stay `mapped`, and delete the file."""
        found = self.get(name) if mapped else tuple(array.copy() for array in self.get(name))
        self._delete(Path(self.folder, name))
        return found

    def drop(self, prefix: str) -> None:
        """Delete the files whose names begin with `prefix`."""
        for path in Path(self.folder).glob(f"{prefix}*"):
            self._delete(path)

    def made(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what `make` makes of the files, which later tasks of this process find under the key.

        It is forgotten with the folder.
        """
        return _found_or_made(_made, (self.folder, key), make)

    def _delete(self, path: Path) -> None:
        _mapped.pop((self.folder, path.name), None)
        path.unlink(missing_ok=True)


def _found_or_made(known: dict[Any, Any], key: Hashable, make: Callable[[], Any]) -> Any:
    found = known.get(key)
    if found is None:
        found = known[key] = make()
    return found


def unmap_deleted() -> None:
    """Free the space of files that the driver has deleted, and forget what was made of deleted folders."""
    for file in [file for file in list(_mapped) if not Path(*file).exists()]:
        _mapped.pop(file, None)
    for made in [made for made in list(_made) if not Path(made[0]).exists()]:
        _made.pop(made, None)
    for group in [group for group in list(_groups) if not Path(group[0]).exists()]:
        _groups.discard(group)


def put_rows(scratch: Scratch, name: str, rows: RowSource) -> None:
    """Keep rows, in memory or on disk, under a name."""
    if not isinstance(rows, Rows):
        scratch.put_source(name, rows)
        return
    n = rows.indptr[-1]
    scratch.put(name, rows.indptr, rows.indices[:n], rows.data[:n], np.array([rows.width]))


def get_rows(scratch: Scratch, name: str) -> Rows:
    """Return the rows in memory that were kept under a name."""
    return _rows_of(*scratch.get(name))


def take_rows(scratch: Scratch, name: str) -> Rows:
    """Return the rows of a name to keep, and forget the name; rows in a file stay mapped."""
    return _rows_of(*scratch.take(name, mapped=True))


def _rows_of(indptr: Any, indices: Any, data: Any, width: Any) -> Rows:
    return Rows(indptr, indices, data, int(width[0]))


def _lay_out(file: BinaryIO, types: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> list[int]:
    """Write the header for arrays of these types and shapes; return where each begins."""
    sizes = [-(-math.prod(shape) * dtype.itemsize // ALIGNMENT) * ALIGNMENT for dtype, shape in types]
    ends = np.cumsum([0, *sizes]).tolist()
    header = json.dumps([(dtype.str, shape, end) for (dtype, shape), end in zip(types, ends, strict=False)])
    text = header.encode().ljust(-(-(len(header) + _LENGTH.size) // ALIGNMENT) * ALIGNMENT - _LENGTH.size)
    file.write(_LENGTH.pack(len(text)) + text)
    begin = file.tell()
    file.truncate(begin + ends[-1])
    return [begin + end for end in ends[:-1]]


def _write(file: BinaryIO, places: Sequence[int], arrays: Sequence[NDArray[Any]]) -> None:
    """Write arrays to these places."""
    for place, array in zip(places, arrays, strict=True):
        file.seek(place)
        file.write(array.reshape(-1).view(np.uint8).data)


def _read(path: Path) -> tuple[NDArray[Any], ...]:
    try:
        with path.open("rb") as file:
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            header = json.loads(file.read(length))
            mapped = FileMap(file.fileno())
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing on {os.uname().nodename}: {SHARED}") from None
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        _allow_more_files()
        return _read(path)
    begin = _LENGTH.size + length
    return tuple(np.ndarray(shape, dtype, mapped, begin + offset) for dtype, shape, offset in header)


def _allow_more_files() -> None:
    """Double the number of files that this process may have open, since mapped files count as open."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    raised = 2 * now if most == resource.RLIM_INFINITY else min(2 * now, most)
    if raised == now:
        raise OSError(errno.EMFILE, f"too many open files, and their limit cannot exceed {most}: raise `ulimit -Hn`")
    resource.setrlimit(resource.RLIMIT_NOFILE, (raised, most))
