"""Put large arrays into temporary files, so that the system can write them out when memory is short."""

from __future__ import annotations

import os
import sys
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import IO, Any, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparsenet.core.disk_errors import remedy
from sparsenet.core.file_map import FileMap
from sparsenet.core.machine import available_memory
from sparsenet.core.memory import in_words
from sparsenet.core.rows import RowSource

#: One array may take 1 / SHARE of the memory; at most eight large ones exist at a time.
SHARE = 16
#: The usual contents of the arrays, for errors.
TEXTS = "features of the texts"


@dataclass(frozen=True)
class Spill:
    """Allocates arrays: in memory up to `max_bytes`, else in files without a name.

    Attributes
    ----------
    max_bytes : int
    folder : path, optional
        The folder of the files; by default the one that TMPDIR names.
    purpose : str
        Contents of the arrays, for errors.
    """

    max_bytes: int
    folder: str | os.PathLike[str] | None = None
    purpose: str = TEXTS

    @classmethod
    def within(
        cls, memory_limit: int | None, folder: str | os.PathLike[str] | None = None, purpose: str = TEXTS
    ) -> Spill:
        """Set the limit of an array by `memory_limit`, by default by the available memory."""
        return cls((available_memory() if memory_limit is None else memory_limit) // SHARE, folder, purpose)

    @classmethod
    def beside(cls, rows: RowSource, purpose: str) -> Spill:
        """Put arrays into files next to rows on disk, and into memory if the rows are there."""
        return cls(sys.maxsize if rows.folder is None else 0, rows.folder, purpose)

    def for_size(self, n_bytes: int) -> Spill:
        """Return a `Spill` for arrays of this size that are made in parts: all in memory, or all in files."""
        return replace(self, max_bytes=sys.maxsize if n_bytes <= self.max_bytes else 0)

    def empty(self, n: int, dtype: DTypeLike) -> NDArray[Any]:
        """Return an uninitialised array of `n` numbers."""
        n_bytes = n * np.dtype(dtype).itemsize
        if n_bytes <= self.max_bytes:
            return np.empty(n, dtype)
        with self.naming_errors(n_bytes), self.new_file() as file:
            _allocate(file, n_bytes)
            return np.asarray(np.memmap(file, np.dtype(dtype), "r+", shape=(n,)))

    def growing(self, dtype: DTypeLike) -> SpillingArray:
        """Return an empty array that grows."""
        return SpillingArray(np.dtype(dtype), self)

    def new_file(self) -> IO[bytes]:
        """Open a file without a name, which is deleted with the process."""
        return tempfile.TemporaryFile(prefix="sparsenet-", dir=self.folder)

    @contextmanager
    def naming_errors(self, n_bytes: int) -> Iterator[None]:
        """Add the size and the folder to disk errors: a file without a name would not help."""
        try:
            yield
        except OSError as error:
            problem = f"{error.strerror or error}: {self.purpose} take {in_words(n_bytes)} or more in temporary files"
            advice = f"of the folder {tempfile.gettempdir()}; let TMPDIR name another one, or raise memory_limit"
            if self.folder is not None:
                advice = f"of the folder {self.folder}; {remedy(error)}"
            raise OSError(error.errno, f"{problem} {advice}") from error


class SpillingArray:
    """An array that grows at its end, in memory, or in a file beyond a size; ``with`` closes the file."""

    def __init__(self, dtype: np.dtype[Any], spill: Spill) -> None:
        self._dtype, self._spill = dtype, spill
        self._room = np.empty(0, dtype)
        self._file: IO[bytes] | None = None
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def append(self, piece: NDArray[Any]) -> None:
        """Append a copy of some numbers."""
        end = self._size + len(piece)
        with self._spill.naming_errors(end * self._dtype.itemsize):
            if self._file is None and end * self._dtype.itemsize > self._spill.max_bytes:
                self._file = self._spill.new_file()
                weakref.finalize(self, self._file.close)  # also if an error comes before `joined`
                self._file.write(self._room[: self._size].data)
                self._room = np.empty(0, self._dtype)
            if self._file is not None:
                self._file.write(np.ascontiguousarray(piece, self._dtype).data)
            else:
                if end > len(self._room):
                    # resize moves pages without copying; joining pieces at the end would copy everything once more.
                    self._room.resize(max(end, len(self._room) * 5 // 4), refcheck=False)
                self._room[self._size : end] = piece
        self._size = end

    def joined(self) -> NDArray[Any]:
        """Return the finished array, read-only if it is in a file; call this once."""
        if self._file is None:
            found, self._room = self._room, np.empty(0, self._dtype)
            found.resize(self._size, refcheck=False)
            return found
        with self._spill.naming_errors(self._size * self._dtype.itemsize), self._file as file:
            file.flush()
            return np.ndarray(self._size, self._dtype, FileMap(file.fileno()))


def _allocate(file: IO[bytes], n_bytes: int) -> None:
    if hasattr(os, "posix_fallocate"):
        # In a sparse file a full disk would kill the process with SIGBUS at the first write.
        os.posix_fallocate(file.fileno(), 0, n_bytes)
    else:  # as on macOS
        file.truncate(n_bytes)
