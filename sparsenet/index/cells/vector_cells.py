"""Vectors in 8 bits behind coarse cells: the nearest ones by inner product, without the vectors themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.index.cells.byte_rows import ByteRows
from sparsenet.index.cells.cell_index import CellsConfig
from sparsenet.index.cells.spherical_kmeans import BLOCK, nearest_cells, spherical_kmeans
from sparsenet.index.vector_index import lowest_effort
from sparsenet.kernels.types import F32, I32, I64


class Vectors(Protocol):
    """Vectors that are read by number."""

    @property
    def width(self) -> int:
        """Numbers of a vector."""

    def take(self, at: I64) -> F32:
        """Return the vectors numbered `at`."""


@dataclass(frozen=True, eq=False)
class VectorCells:
    """Vectors rounded to 8 bits, in the order of their cells.

    A vector is stored as the difference from its cell's mean. So the rounding error is relative to the spread within
    cells, also where all vectors are alike.

    Attributes
    ----------
    centroids : ByteRows
        Unit vectors (C, h) that choose the cells of a query.
    lengths : ndarray of shape (C,)
        Mean product of a cell's vectors with its centroid.
    starts : ndarray of shape (C + 1,)
        Cell c has the entries ``starts[c] : starts[c + 1]``.
    entries : ByteRows
        The vectors minus ``lengths[c] * centroids[c]``, in 8 bits.
    ids : ndarray of shape (n,)
        Numbers of the vectors.
    effort : int
        Number of cells to scan.

    Examples
    --------
    >>> import numpy as np
    >>> from typing import NamedTuple
    >>> class Unit(NamedTuple):
    ...     rows: np.ndarray
    ...     width: int = 8
    ...     def take(self, at): return self.rows[at]
    >>> cells = VectorCells.build(Unit(np.eye(8, dtype=np.float32)), np.arange(8))
    >>> cells.nearest(np.eye(8, dtype=np.float32)[5:6], 1, 1)[0].tolist()
    [[5]]
    """

    centroids: ByteRows
    lengths: F32
    starts: I64
    entries: ByteRows
    ids: I32
    effort: int

    @classmethod
    def build(cls, vectors: Vectors, ids: I64, config: CellsConfig | None = None, *, threads: int = 1) -> VectorCells:
        """Learn cells from the vectors numbered `ids`, and list them; the effort is all cells."""
        config = config or CellsConfig()
        n_cells = config.cells_of(len(ids))
        sample = np.random.default_rng(config.seed).permutation(len(ids))[: n_cells * config.n_vectors]
        settings = {"n_iterations": config.n_iterations, "seed": config.seed, "threads": threads}
        centroids = spherical_kmeans(vectors.take(ids[np.sort(sample)]), n_cells, **settings)
        cells, products = np.empty(len(ids), np.int32), np.empty(len(ids), np.float32)
        for own in _blocks(len(ids)):
            cells[own], products[own] = nearest_cells(vectors.take(ids[own]), centroids, threads)
        counts = np.bincount(cells, minlength=n_cells)
        lengths = (np.bincount(cells, products, n_cells) / np.maximum(counts, 1)).astype(np.float32)
        order = np.argsort(cells, kind="stable")
        rounded = ByteRows.of(centroids, np.arange(n_cells))
        means = rounded.decoded() * lengths[:, None]
        entries = ByteRows.empty(len(ids), vectors.width)
        for own in _blocks(len(ids)):
            at = order[own]
            entries.write(own, vectors.take(ids[at]) - means[cells[at]])
        starts = np.concatenate(([0], np.cumsum(counts)))
        return cls(rounded, lengths, starts, entries, ids[order].astype(np.int32), n_cells)

    def nearest(self, queries: F32, k: int, threads: int, effort: int | None = None) -> tuple[I32, F32]:
        """Return the k nearest vectors of each query (n, h) in `effort` cells, and their products, best first.

        Missing vectors are -1, with a product of minus infinity.
        """
        return self.search(queries, k, threads, effort)[:2]

    def search(self, queries: F32, k: int, threads: int, effort: int | None = None) -> tuple[I32, F32, I64]:
        """Return what `nearest` does, and the number of entries scanned for each query."""
        n = len(queries)
        found, products = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
        scanned = np.empty(n, np.int64)
        cells = (*self.centroids, self.lengths, self.starts, *self.entries, effort or self.effort)
        kernels.nearest_in_cells(queries, *cells, found, products, scanned, threads)
        return np.where(found < 0, -1, self.ids[found]), products, scanned

    def calibrated(self, queries: F32, k: int, recall: float, threads: int) -> VectorCells:
        """Return the same cells with the lowest effort that finds the share `recall` of the k nearest vectors."""
        all_cells = len(self.lengths)
        exact = self.nearest(queries, k, threads, all_cells)[0]
        found = lowest_effort(lambda effort: self.nearest(queries, k, threads, effort)[0], all_cells, exact, recall)
        return replace(self, effort=found.effort)

    def arrays(self) -> list[NDArray[Any]]:
        """Return all arrays."""
        return [*self.centroids, self.lengths, self.starts, *self.entries, self.ids]

    @staticmethod
    def peak_memory(n: int, width: int, config: CellsConfig | None = None) -> int:
        """Return the most bytes that `build` takes for n vectors, the cells included."""
        config = config or CellsConfig()
        n_cells = config.cells_of(n)
        # Entries, scales, numbers, cells, products and their order; k-means holds its sample twice before the entries.
        listed, sample = n * (width + 4 + 4), 8 * width * min(n, n_cells * config.n_vectors)
        return max(listed, sample) + 20 * n + 13 * width * n_cells + 12 * width * min(n, BLOCK)


def _blocks(n: int) -> Iterator[slice]:
    """Yield the slices of blocks of `BLOCK` vectors."""
    for start in range(0, n, BLOCK):
        yield slice(start, min(start + BLOCK, n))
