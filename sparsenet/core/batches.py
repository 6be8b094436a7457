"""Mini-batches of sparse points in the layout of the kernels, and reusable buffers for them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sparsenet import kernels
from sparsenet.core import aligned
from sparsenet.core.rows import Rows, RowSource
from sparsenet.kernels.types import F32, I32, I64


class Workspace:
    """Buffers allocated once and reused by every batch: page faults cost more than the arithmetic."""

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[np.generic]] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[np.generic]:
        """Return an array with undefined content; it reuses the memory of an earlier array of this name."""
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < size:
            buffer = self._buffers[name] = aligned.empty((size + size // 8,), dtype)
        return buffer[:size].reshape(shape)


class Slots:
    """Scratch memory of `transpose`: the position of each id among the ids of the current batch, or -1."""

    def __init__(self, width: int) -> None:
        self.array: I32 = np.full(width, -1, np.int32)
        self._used: I32 = np.empty(0, np.int32)
        self._workspace = Workspace()

    def transpose(self, rows: Rows) -> Postings:
        """Turn rows into posting lists; the next call overwrites them."""
        nnz = int(rows.indptr[-1])
        ids, points = (np.asarray(self._workspace.take(name, (nnz,), np.int32)) for name in ("ids", "points"))
        starts = np.asarray(self._workspace.take("starts", (nnz + 1,), np.int64))
        values = np.asarray(self._workspace.take("values", (nnz,), np.float32))
        source = rows.indptr, rows.indices, rows.data
        n_ids = kernels.transpose_batch(*source, self._used, self.array, ids, starts, points, values)
        self._used = ids[:n_ids]
        return Postings(len(rows), self.array, ids[:n_ids], starts[: n_ids + 1], points, values)


@dataclass(frozen=True)
class Postings:
    """Posting lists of a batch of `n` points: ``points[starts[s] : starts[s + 1]]`` contain the id ``ids[s]``.

    ``slots[id]`` is s, or -1 for an absent id.
    """

    n: int
    slots: I32
    ids: I32
    starts: I64
    points: I32
    values: F32

    @cached_property
    def dense(self) -> DensePostings:
        """Dense rows of the frequent ids, computed once per batch."""
        lengths = np.diff(self.starts)
        # From a sixteenth of the points on, and at least 8, a vector loop over all points beats the posting list.
        frequent = np.flatnonzero(lengths >= max(8, self.n // 16))
        row_of = np.full(len(lengths), -1, np.int32)
        row_of[frequent] = np.arange(len(frequent))
        rows = np.empty((len(frequent), self.n), np.float32)
        kernels.spread_postings(self.starts, self.points, self.values, row_of, rows)
        return DensePostings(row_of, rows)


class DensePostings(NamedTuple):
    """Posting lists of frequent ids as dense `rows` (k, n); the s-th id has row ``row_of[s]``, or -1 for none."""

    row_of: I32
    rows: F32


@dataclass(frozen=True)
class Batch:
    """Points of a mini-batch with posting lists of their features and labels."""

    features: Rows
    feature_postings: Postings
    label_postings: Postings

    def __len__(self) -> int:
        return len(self.features)


class Batcher:
    """Cut training data into shuffled mini-batches; the order depends on seed and epoch only."""

    def __init__(self, features: RowSource, labels: Rows, *, batch_size: int, seed: int) -> None:
        self._features, self._labels = features, labels
        self._size, self._seed = batch_size, seed
        self._feature_slots, self._label_slots = Slots(features.width), Slots(labels.width)

    def __len__(self) -> int:
        return -(-len(self._features) // self._size)

    def order(self, epoch: int) -> I64:
        """Return the points in the order of an epoch."""
        return np.random.default_rng((self._seed, epoch)).permutation(len(self._features))

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch, starting with number `first`; each is valid until the next is drawn."""
        order = self.order(epoch)
        for b in range(first, len(self)):
            points = order[b * self._size : (b + 1) * self._size]
            features = self._features.take(points)
            yield Batch(
                features,
                self._feature_slots.transpose(features),
                self._label_slots.transpose(self._labels.take(points)),
            )
