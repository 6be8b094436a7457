"""Rows of points that are read from a file when they are needed."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.rows import Rows, parts_of, pointers_of
from sparsenet.data.point_file import StoredPoints
from sparsenet.kernels.types import I32, I64

#: Entries that are read at a time, and the bytes that each takes while it is read: record, id, value, and copies.
ENTRIES_AT_A_TIME, READ_BYTES = 1 << 18, 32


@dataclass(frozen=True, eq=False)
class StreamedRows:
    """Rows of a `StoredPoints`, or some of them; see `RowSource`.

    Attributes
    ----------
    file : StoredPoints
    numbers : ndarray of shape (n,), optional
        The rows of the file; None for all.
    """

    file: StoredPoints
    numbers: I64 | None = None

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.file.shape[1]

    @cached_property
    def sizes(self) -> I32:
        """Number of entries of each row."""
        return self.file.sizes if self.numbers is None else self.file.sizes[self.numbers]

    @property
    def n_entries(self) -> int:
        """Number of entries of all rows."""
        return int(self.sizes.sum(dtype=np.int64))

    def __len__(self) -> int:
        return self.file.shape[0] if self.numbers is None else len(self.numbers)

    def take(self, points: I64) -> Rows:
        """Read the rows numbered `points`, in parts, since reading takes several copies of a part."""
        points = np.asarray(points, np.int64)
        if len(points) and not 0 <= points.min() <= points.max() < len(self):
            raise IndexError(f"points go from {points.min()} to {points.max()}, and there are {len(self)} rows")
        numbers = points if self.numbers is None else self.numbers[points]
        indptr = pointers_of(self.file.sizes[numbers])
        taken = Rows(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32), self.width)
        for begin, end in parts_of(indptr, ENTRIES_AT_A_TIME):
            own = slice(indptr[begin], indptr[end])
            _, taken.indices[own], taken.data[own] = self.file.rows(numbers[begin:end])
        return taken

    def slice(self, begin: int, end: int) -> Rows:
        """Read consecutive rows."""
        return self.take(np.arange(begin, end))

    def select(self, points: I64) -> StreamedRows:
        """Return the rows numbered `points` without reading them."""
        return StreamedRows(self.file, points if self.numbers is None else self.numbers[points])

    def blocks(self, n: int) -> Iterator[Rows]:
        """Yield consecutive blocks of up to `n` rows, fewer if they have many entries."""
        for begin, end in parts_of(pointers_of(self.sizes), ENTRIES_AT_A_TIME):
            for first in range(begin, end, n):
                yield self.slice(first, min(first + n, end))

    def in_memory(self, points: I32) -> tuple[Rows, I32]:
        """Read the distinct `points`, and number `points` by them; see `RowSource`."""
        distinct, places = np.unique(points, return_inverse=True)
        return self.take(distinct.astype(np.int64)), places.astype(np.int32)

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return the arrays that are held in memory."""
        return (*self.file.tables(), *(() if self.numbers is None else (self.numbers, self.sizes)))

    @property
    def buffer_bytes(self) -> int:
        """Bytes that reading a block takes."""
        return READ_BYTES * ENTRIES_AT_A_TIME

    @property
    def folder(self) -> str:
        """The folder of the file."""
        return os.path.dirname(self.file.path) or os.curdir

    def checksum(self) -> str:
        """Return the size and a checksum of the rows, computed from the checksum of the file."""
        checksum = self.file.checksum
        if self.numbers is not None:
            checksum = zlib.crc32(self.numbers.data, checksum)
        return f"{len(self)} x {self.width} of checksum {checksum:08x}"

    def check(self, name: str) -> None:
        """Accept the rows: they are checked as they are read."""
