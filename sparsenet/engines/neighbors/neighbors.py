"""Nearest neighbors: the most similar training points vote for their labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.file_map import file_map_of
from sparsenet.core.machine import release_memory
from sparsenet.core.memory import arrays_of
from sparsenet.core.ranked import best_first
from sparsenet.core.rows import Rows, as_matrix, by_row, parts_of, pointers_of
from sparsenet.engines.neighbors import posting_lists
from sparsenet.engines.neighbors.dense_postings import cells_of_postings
from sparsenet.engines.neighbors.label_centroids import LabelCentroids
from sparsenet.engines.neighbors.narrow_postings import NarrowPostings, posting_arrays, read_lists
from sparsenet.engines.neighbors.unit_points import UnitPoints, largest_values
from sparsenet.index.cells import VectorCells
from sparsenet.kernels.types import F32, I32, I64


@dataclass(frozen=True, eq=False, repr=False)
class Neighbors:
    """Nearest-neighbor model: an index of the training points, and their labels.

    Attributes
    ----------
    index : NarrowPostings, VectorCells, Rows or UnitPoints
        Points of unit length after weighing. Sparse ones are posting lists, (d, n_points), and dense ones in cells.
        While a model learns, these are the rows of the lists, and points that are compared one by one.
    labels : Rows
        The labels of each point, (n_points, n_labels), all values 1. The last of dense points may be centroids.
    weights : ndarray of shape (d,), float32
        Feature weights of a query.
    rarity : float
        Exponent of the inverse feature frequency in `weights`.
    power : float
        Exponent of the cosine in a neighbor's weight.
    n_centroids : int
        The number of centroids of labels at the end of the points.
    max_comparisons : int
        Maximum number of postings that a query reads; features with large weights and short lists go first.
    centroids : LabelCentroids, optional
        Not saved: the sums that leave a point out of its own centroids.
    """

    index: NarrowPostings | VectorCells | Rows | UnitPoints
    labels: Rows
    weights: F32
    rarity: float
    power: float
    n_centroids: int = 0
    max_comparisons: int = 1 << 16
    centroids: LabelCentroids | None = None

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={getattr(self, name):g}" for name in ("rarity", "power"))
        own = f" and {self.n_centroids:,} centroids" if self.n_centroids else ""
        return f"<Neighbors: {self.n_points:,} points{own}, {settings}>"

    @property
    def n_points(self) -> int:
        """The number of training points."""
        return len(self.labels) - self.n_centroids

    @property
    def postings(self) -> NarrowPostings | Rows | None:
        """The posting lists of sparse points; None for dense points."""
        return self.index if isinstance(self.index, NarrowPostings | Rows) else None

    @property
    def cells(self) -> VectorCells | None:
        """The cells of dense points; None for sparse points."""
        return self.index if isinstance(self.index, VectorCells) else None

    def arrays(self) -> list[NDArray[Any]]:
        """Return the arrays that the model holds."""
        index = self.index.arrays() if isinstance(self.index, NarrowPostings | VectorCells) else []
        own = [] if self.centroids is None else [self.centroids.labels, self.centroids.sums]
        return [*arrays_of(self.index, self.labels), *index, self.weights, *own]

    def queries(self, points: Rows) -> Rows:
        """Weigh the features of points; the largest value of a point becomes 1, so that no product overflows."""
        values = points.data.copy()
        values /= np.repeat(largest_values(points), np.diff(points.indptr))
        values *= self.weights[points.indices]
        return Rows(points.indptr, points.indices, values, points.width)

    def nearest(self, points: Rows, k: int, threads: int, *, block_numbers: int = 1 << 22) -> tuple[I32, F32]:
        """Find the k nearest training points by inner product; return ids and products, best first.

        Dense queries are processed in blocks of `block_numbers` numbers.
        """
        k = min(k, len(self.labels))
        near, products = np.zeros((len(points), k), np.int32), np.zeros((len(points), k), np.float32)
        queries = self.queries(points)
        if isinstance(self.index, NarrowPostings | Rows):
            about = *_arrays(queries), *posting_arrays(self.index), self.index.width, self.max_comparisons
            kernels.nearest_points(*about, near, products, threads)
            return near, products
        done = 0
        for part in queries.blocks(max(block_numbers // max(queries.width, 1), 1)):
            found, best = self.index.nearest(as_matrix(part).toarray(), k, threads)
            own = slice(done, done + len(part))
            near[own], products[own] = np.maximum(found, 0), np.maximum(best, 0)
            done = own.stop
        return near, products

    def vote_weights(self, points: Rows, k: int, threads: int) -> Rows:
        """Compute the weights of the k nearest neighbors of each point; they sum to one.

        The weights are zero if a point shares no feature with any training point.
        """
        return self.weigh_votes(*self.nearest(points, k, threads), self.power)

    def weigh_votes(self, near: I32, products: F32, power: float) -> Rows:
        """Compute the weights of neighbors from their products."""
        tiny = np.finfo(np.float32).tiny
        weights = products / np.maximum(products.max(axis=1, keepdims=True), tiny)
        weights **= np.float32(power)
        weights /= np.maximum(weights.sum(axis=1, keepdims=True), tiny)
        indptr = np.arange(len(near) + 1) * near.shape[1]
        return Rows(indptr, near.reshape(-1), weights.reshape(-1), len(self.labels))

    def shares(self, weights: Rows, labels: I32, threads: int) -> F32:
        """Compute the neighbors' share of the vote for the candidate `labels` of each point, (n, c)."""
        shares = np.empty(labels.shape, np.float32)
        kernels.neighbor_votes(*_arrays(weights), *_arrays(self.labels), self.labels.width, labels, shares, threads)
        return shares

    def propose(self, weights: Rows, n: int, threads: int) -> tuple[I32, F32]:
        """Find the n labels with the largest shares of the vote for each point, (n_points, n), labels ascending.

        Labels with a share of 0 fill up rows with fewer than n labels.
        """
        found, shares = np.empty((len(weights), n), np.int32), np.empty((len(weights), n), np.float32)
        others = np.arange(n, dtype=np.int32)
        kernels.shortlist(*_arrays(weights), *_arrays(self.labels), self._no_bias, others, found, shares, threads)
        return found, shares

    def nearest_others(self, points: Rows, sample: I64, k: int, threads: int) -> tuple[I32, F32]:
        """Find the nearest neighbors of a sample of the training points, each excluded from its own neighbors."""
        k_found = k + 1 + (k if self.n_centroids else 0)
        found = []
        for own, part in self._with_lists(points):
            found.append(own.nearest(part, k_found, threads))
            del own  # before the next lists are read
        release_memory()  # of the lists
        near, products = (np.concatenate(parts) for parts in zip(*found, strict=True))
        products[near == sample[:, None]] = 0
        if self.centroids is not None:
            about = self.labels.take(sample), near, products, self.weights, largest_values(points), self.n_points
            self.centroids.leave_one_out(points, *about)
            products, near = best_first(products, k + 1, products, near)
        return near, products

    def _with_lists(self, points: Rows) -> Iterator[tuple[Self, Rows]]:
        """Yield parts of the points, and the neighbors with the lists that they need, if the lists are in files."""
        index = self.postings
        if index is None or file_map_of(posting_arrays(index)[2]) is None or len(points) == 0:
            yield self, points
            return
        sizes = np.diff(index.indptr)[points.indices[: points.n_entries]]
        for begin, end in parts_of(pointers_of(by_row(np.add, sizes, points.indptr)), posting_lists.ENTRIES_AT_A_TIME):
            part = points.slice(begin, end)
            features, numbers = np.unique(part.indices, return_inverse=True)
            queries = Rows(part.indptr, numbers.astype(np.int32), part.data, len(features))
            yield self._with_features(features.astype(np.int64)), queries

    def _with_features(self, features: I64) -> Self:
        """Return the neighbors with the lists of some features, read from their file."""
        assert self.postings is not None
        return replace(self, index=read_lists(self.postings, features), weights=self.weights[features])

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields without the cached properties and what is not saved."""
        return {"version": 3, **{each.name: getattr(self, each.name) for each in fields(self)}, "centroids": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a pickle. Old posting lists were floats, and held dense points in version 0.1."""
        if (version := state.pop("version", 1)) < 3 and isinstance(state["index"], Rows):
            cells = cells_of_postings(state["index"]) if version == 1 else None
            state["index"] = cells or NarrowPostings.rounded(state["index"])
        self.__dict__.update(state)

    @cached_property
    def _no_bias(self) -> F32:
        """Return zero biases for `shortlist`; cached, since allocating them takes longer than a query."""
        return np.zeros(self.labels.width, np.float32)


def _arrays(rows: Rows) -> tuple[I64, I32, F32]:
    return rows.indptr, rows.indices, rows.data
