"""Batches of sparse points as the kernels want them, and the memory they are worked on with."""

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
from sparsenet.core.rows import Rows
from sparsenet.kernels.types import F32, I32, I64

#: An id that one in so many points of a batch holds, and at least so many of them, gets a dense row: a vector loop over
#: all points then takes less time than one over those.
DENSE_SHARE, FEWEST_DENSE = 16, 8


class Workspace:
    """Arrays that are made once and used again by every batch: page faults cost more than the arithmetic."""

    def __init__(self) -> None:
        self._buffers: dict[str, NDArray[np.generic]] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[np.generic]:
        """Return an array with undefined content; an earlier one of the same name is overwritten."""
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < size:
            buffer = self._buffers[name] = aligned.empty((size + size // 8,), dtype)
        return buffer[:size].reshape(shape)


class Slots:
    """The scratch of `transpose`: for each id its position among those present, -1 outside of a batch's life."""

    def __init__(self, width: int) -> None:
        self.array: I32 = np.full(width, -1, np.int32)
        self._used: I32 = np.empty(0, np.int32)
        self._room = Workspace()

    def transpose(self, rows: Rows) -> Postings:
        """Turn rows into postings; those of an earlier call become invalid."""
        nnz = int(rows.indptr[-1])
        ids, points = (np.asarray(self._room.take(name, (nnz,), np.int32)) for name in ("ids", "points"))
        starts = np.asarray(self._room.take("starts", (nnz + 1,), np.int64))
        values = np.asarray(self._room.take("values", (nnz,), np.float32))
        source = rows.indptr, rows.indices, rows.data
        p = kernels.transpose_batch(*source, self._used, self.array, ids, starts, points, values)
        self._used = ids[:p]
        return Postings(len(rows), self.array, ids[:p], starts[: p + 1], points, values)


@dataclass(frozen=True)
class Postings:
    """A batch of `n` points by id: the s-th id present, ``ids[s]``, is held by ``points[starts[s] : starts[s + 1]]``.

    ``slots[id]`` is s, or -1 for an id that is absent.
    """

    n: int
    slots: I32
    ids: I32
    starts: I64
    points: I32
    values: F32

    @cached_property
    def dense(self) -> DensePostings:
        """The ids that many of the points hold, spread out: once a batch, for whoever asks."""
        lengths = np.diff(self.starts)
        frequent = np.flatnonzero(lengths >= max(FEWEST_DENSE, self.n // DENSE_SHARE))
        row_of = np.full(len(lengths), -1, np.int32)
        row_of[frequent] = np.arange(len(frequent))
        rows = np.empty((len(frequent), self.n), np.float32)
        kernels.spread_postings(self.starts, self.points, self.values, row_of, rows)
        return DensePostings(row_of, rows)


class DensePostings(NamedTuple):
    """Postings of frequent ids as dense rows: row ``row_of[s]`` (or -1) of `rows` (k, n) has those of the s-th id."""

    row_of: I32
    rows: F32


@dataclass(frozen=True)
class Batch:
    """Some points with their labels, each both by point and by id."""

    features: Rows
    feature_postings: Postings
    label_postings: Postings

    def __len__(self) -> int:
        return len(self.features)


class Batcher:
    """Cuts training data into shuffled batches; the order depends on the seed and the epoch alone."""

    def __init__(self, features: Rows, labels: Rows, *, batch_size: int, seed: int) -> None:
        self._features, self._labels = features, labels
        self._size, self._seed = batch_size, seed
        self._feature_slots, self._label_slots = Slots(features.width), Slots(labels.width)

    def __len__(self) -> int:
        return -(-len(self._features) // self._size)

    def epoch(self, epoch: int, first: int = 0) -> Iterator[Batch]:
        """Yield the batches of an epoch from number `first`; a batch is valid until the next is asked for."""
        order = np.random.default_rng((self._seed, epoch)).permutation(len(self._features))
        for b in range(first, len(self)):
            points = order[b * self._size : (b + 1) * self._size]
            features = self._features.take(points)
            yield Batch(
                features,
                self._feature_slots.transpose(features),
                self._label_slots.transpose(self._labels.take(points)),
            )
