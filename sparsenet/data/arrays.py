"""Collect parsed rows in growing arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsenet.data.blocks import Block
from sparsenet.data.explain import Parsed

Scalar = TypeVar("Scalar", np.int32, np.int64, np.float32, np.float64)


class GrowingArray(Generic[Scalar]):
    """A vector that grows at its end and can be taken without a copy.

    It grows by a quarter at a time. For large arrays, realloc moves pages of memory instead of copying them.
    """

    def __init__(self, start: NDArray[Scalar]) -> None:
        self._array: NDArray[Scalar] = np.empty(1024, start.dtype)
        self.size = 0
        self.room(len(start))[: len(start)] = start
        self.size = len(start)

    def room(self, n: int) -> NDArray[Scalar]:
        """Return the free space after the end, at least `n` entries. The view is valid until the next call."""
        if self.size + n > len(self._array):
            # Views from earlier calls are no longer valid, so their references do not count.
            self._array.resize(self.size + n + self.size // 4, refcheck=False)
        return self._array[self.size :]

    def view(self) -> NDArray[Scalar]:
        """Return the entries. The view is valid until the array grows."""
        return self._array[: self.size]

    def reserve(self, n: int) -> None:
        """Make room for `n` entries in total. Pages that are never written take no memory."""
        if n > len(self._array):
            larger = np.empty(n, self._array.dtype)
            larger[: self.size] = self._array[: self.size]
            self._array = larger

    def take(self) -> NDArray[Scalar]:
        """Return the array, and continue with an empty one."""
        array, self._array = self._array, np.empty(0, self._array.dtype)
        array.resize(self.size, refcheck=False)
        self.size = 0
        return array


class RowArrays(NamedTuple):
    """Parsed rows: features and labels, as two CSR matrices whose widths are not known yet."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: NDArray[np.float32]
    label_indptr: NDArray[np.int64]
    labels: NDArray[Any]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    def rows(self, first: int, last: int) -> RowArrays:
        """Return rows ``first`` to ``last - 1``."""
        start, end = self.indptr[first], self.indptr[last]
        label_start, label_end = self.label_indptr[first], self.label_indptr[last]
        return RowArrays(
            indptr=self.indptr[first : last + 1] - start,
            indices=self.indices[start:end],
            values=self.values[start:end],
            label_indptr=self.label_indptr[first : last + 1] - label_start,
            labels=self.labels[label_start:label_end],
        )


class RowCollector:
    """Parse blocks and collect their rows."""

    def __init__(self, label_dtype: type[np.int32] | type[np.float64]) -> None:
        no_ids = np.zeros(0, np.int32)
        empty_indptr = np.zeros(1, np.int64)
        self._no_rows = RowArrays(empty_indptr, no_ids, np.zeros(0, np.float32), empty_indptr, np.zeros(0, label_dtype))
        self._start(self._no_rows)

    def _start(self, rows: RowArrays) -> None:
        self._arrays: list[GrowingArray[Any]] = [GrowingArray(array) for array in rows]
        self._indptr, self._indices, self._values, self._label_indptr, self._labels = self._arrays

    @property
    def n_rows(self) -> int:
        """Number of rows collected so far."""
        return self._indptr.size - 1

    def parse(self, parser: Callable[..., tuple[Any, ...]], block: Block, *rules: int, threads: int) -> Parsed:
        """Parse a block, and append the rows before the first error."""
        ends = self._indptr.room(block.lines)
        label_ends = self._label_indptr.room(block.lines)
        indices, values = self._indices.room(block.colons), self._values.room(block.colons)
        labels = self._labels.room(block.commas + block.lines)
        done = Parsed(
            *parser(block.text, block.first_line, *rules, ends, indices, values, label_ends, labels, threads=threads)
        )
        ends[: done.rows] += self._indices.size
        label_ends[: done.rows] += self._labels.size
        self._indptr.size += done.rows
        self._indices.size += done.features
        self._values.size += done.features
        self._label_indptr.size += done.rows
        self._labels.size += done.labels
        return done

    def last(self, n_rows: int) -> RowArrays:
        """Return the last `n_rows` rows. Their entries are views, valid until the next call."""
        return RowArrays(*(array.view() for array in self._arrays)).rows(self.n_rows - n_rows, self.n_rows)

    def reserve(self, factor: float) -> None:
        """Make room for `factor` times the current number of rows."""
        for array in self._arrays:
            array.reserve(int(array.size * factor))

    def take(self) -> RowArrays:
        """Return all rows, and continue with none."""
        rows = RowArrays(*(array.take() for array in self._arrays))
        self._start(self._no_rows)
        return rows

    def take_batches(self, batch_rows: int, *, all_rows: bool) -> Iterator[RowArrays]:
        """Yield the rows in batches of `batch_rows`. Keep an incomplete last batch, unless `all_rows`."""
        n_rows = self.n_rows
        n_taken = n_rows if all_rows else n_rows - n_rows % batch_rows
        if n_taken == 0:
            return
        taken = self.take()
        self._start(taken.rows(n_taken, n_rows))
        for first in range(0, n_taken, batch_rows):
            yield taken.rows(first, min(first + batch_rows, n_taken))
