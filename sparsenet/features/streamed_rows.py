"""Scaled rows of points that are read from a file when they are needed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.rows import Rows
from sparsenet.data.point_file import READ_BYTES, PointFile
from sparsenet.features.scaling import Scaling
from sparsenet.kernels.types import I32, I64

#: Entries that are read and scaled at a time: about `READ_BYTES` bytes each.
ENTRIES_AT_A_TIME = 1 << 18


@dataclass(frozen=True, eq=False)
class StreamedRows:
    """Rows of a `PointFile`, or some of them, scaled as they are read; see `RowSource`.

    Attributes
    ----------
    file : PointFile
    scaling : Scaling
    sizes : ndarray of shape (n,), int32
        Entries of each scaled row: scaling may add or drop some.
    numbers : ndarray of shape (n,), optional
        The rows of the file; None for all.
    """

    file: PointFile
    scaling: Scaling
    sizes: I32
    numbers: I64 | None = None

    @classmethod
    def of(cls, file: PointFile, scaling: Scaling) -> StreamedRows:
        """Read the file once, to check its blocks and to count the entries after scaling."""
        sizes = np.empty(file.shape[0], np.int32)
        for first, block in file.blocks():
            own = scaling.apply(block).sizes
            sizes[first : first + len(own)] = own
        return cls(file, scaling, sizes)

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.file.shape[1]

    @property
    def n_entries(self) -> int:
        """Number of entries of all rows."""
        return int(self.sizes.sum(dtype=np.int64))

    def __len__(self) -> int:
        return len(self.sizes)

    def take(self, points: I64) -> Rows:
        """Read the rows numbered `points`, in parts, since reading takes several copies of a part."""
        points = np.asarray(points, np.int64)
        if len(points) and not 0 <= points.min() <= points.max() < len(self):
            raise IndexError(f"points go from {points.min()} to {points.max()}, and there are {len(self)} rows")
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.sizes[points], dtype=np.int64)))
        numbers = points if self.numbers is None else self.numbers[points]
        bounds = _bounds(indptr, ENTRIES_AT_A_TIME)
        if len(bounds) == 2:
            return self.scaling.apply(self.file[numbers])
        taken = Rows(indptr, np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32), self.width)
        for begin, end in pairwise(bounds):
            part, own = self.scaling.apply(self.file[numbers[begin:end]]), slice(indptr[begin], indptr[end])
            taken.indices[own], taken.data[own] = part.indices, part.data
        return taken

    def select(self, points: I64) -> StreamedRows:
        """Return the rows numbered `points` without reading them."""
        numbers = points if self.numbers is None else self.numbers[points]
        return replace(self, sizes=self.sizes[points], numbers=numbers)

    def blocks(self, n: int) -> Iterator[Rows]:
        """Yield consecutive blocks of up to `n` rows, fewer if they have many entries."""
        entries = np.concatenate((np.zeros(1, np.int64), np.cumsum(self.sizes, dtype=np.int64)))
        bounds = _bounds(entries, ENTRIES_AT_A_TIME)
        for begin, end in pairwise(bounds):
            for first in range(begin, end, n):
                yield self.take(np.arange(first, min(first + n, end)))

    def in_memory(self, points: I32) -> tuple[Rows, I32]:
        """Read the distinct `points`, and number `points` by them; see `RowSource`."""
        distinct, places = np.unique(points, return_inverse=True)
        return self.take(distinct.astype(np.int64)), places.astype(np.int32)

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return the arrays that are held in memory."""
        own = (self.sizes,) if self.numbers is None else (self.sizes, self.numbers)
        return *own, *self.file.tables()

    @property
    def buffer_bytes(self) -> int:
        """Bytes that reading a block takes."""
        return READ_BYTES * ENTRIES_AT_A_TIME

    def checksum(self) -> int:
        """Return a checksum of all rows, from that of the file."""
        found = zlib.crc32(self.scaling.kind.encode(), self.file.checksum)
        for array in (self.scaling.centre, self.scaling.factor, self.numbers):
            found = zlib.crc32(b"" if array is None else np.ascontiguousarray(array).data, found)
        return found

    def check(self, name: str) -> None:
        """Accept the rows: they are checked as they are read."""


def _bounds(entries: I64, n_max: int) -> list[int]:
    """Return the bounds of parts with about `n_max` entries; `entries` counts those before each row."""
    n = len(entries) - 1
    cuts = np.flatnonzero(np.diff(entries[:-1] // n_max)) + 1 if n else np.empty(0, np.int64)
    return [0, *cuts.tolist(), n]
