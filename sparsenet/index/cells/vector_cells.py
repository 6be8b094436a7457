"""Vectors in 8 bits behind coarse cells: the nearest ones by inner product, without the vectors themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.index.cells.byte_rows import ByteRows
from sparsenet.index.cells.cell_index import CellsConfig
from sparsenet.index.cells.centering import Centering
from sparsenet.index.cells.group_codes import Codebook, GroupCodes
from sparsenet.index.cells.spherical_kmeans import BLOCK, kmeans_memory, nearest_cells, spherical_kmeans
from sparsenet.index.vector_index import fewest_candidates, lowest_effort
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
    """Vectors rounded to 8 bits, in the order of their cells, with codes of 4 bits for each group of columns.

    A search scores the vectors of the nearest cells by code, and the best of them again in 8 bits. Vectors are
    centered, and stored as the differences from the mean of their cell. So the rounding error is relative to the spread
    within cells, also where all vectors are alike.

    Attributes
    ----------
    centering : Centering
        Makes w = h + 1 numbers of a vector or query of h.
    centroids : ByteRows
        Unit vectors (C, w) that choose the cells of a query.
    lengths : ndarray of shape (C,)
        Mean product of a cell's vectors with its centroid.
    starts : ndarray of shape (C + 1,)
        Cell c has the entries ``starts[c] : starts[c + 1]``.
    codes : GroupCodes
        The vectors minus ``lengths[c] * centroids[c]``, in codes.
    entries : ByteRows
        The same in 8 bits.
    ids : ndarray of shape (n,)
        Numbers of the vectors.
    effort : int
        Number of cells to scan.
    n_candidates : int
        Vectors scored in 8 bits for each query.

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

    centering: Centering
    centroids: ByteRows
    lengths: F32
    starts: I64
    codes: GroupCodes
    entries: ByteRows
    ids: I32
    effort: int
    n_candidates: int

    @classmethod
    def build(cls, vectors: Vectors, ids: I64, config: CellsConfig | None = None, *, threads: int = 1) -> VectorCells:
        """Learn cells from the vectors numbered `ids`, and list them; a search reads all of them."""
        config = config or CellsConfig()
        n_cells = config.cells_of(len(ids))
        sample = np.sort(np.random.default_rng(config.seed).permutation(len(ids))[: n_cells * config.n_vectors])
        settings = {"n_iterations": config.n_iterations, "seed": config.seed, "threads": threads}
        drawn = vectors.take(ids[sample])
        centered = _Centered(vectors, Centering.of(drawn))
        drawn = centered.centering.vectors(drawn)
        centroids = spherical_kmeans(drawn, n_cells, **settings)
        del drawn
        cells, products = np.empty(len(ids), np.int32), np.empty(len(ids), np.float32)
        for own in _blocks(len(ids)):
            cells[own], products[own] = nearest_cells(centered.take(ids[own]), centroids, threads)
        counts = np.bincount(cells, minlength=n_cells)
        lengths = (np.bincount(cells, products, n_cells) / np.maximum(counts, 1)).astype(np.float32)
        order = np.argsort(cells, kind="stable")
        rounded = ByteRows.of(centroids, np.arange(n_cells))
        means = rounded.decoded() * lengths[:, None]
        ids = ids[order]
        differences = _Differences(centered, ids, means, cells[order])
        del cells, products, order
        coded = np.sort(np.random.default_rng(config.seed).permutation(len(ids))[: config.n_coded])
        codes = GroupCodes.empty(Codebook.learn(differences.take(coded)), len(ids))
        entries = ByteRows.empty(len(ids), vectors.width + 1)
        for own in _blocks(len(ids)):
            rows = differences.take(own)
            codes.write(own.start, rows)
            entries.write(own, rows)
        starts = np.concatenate(([0], np.cumsum(counts)))
        numbers = ids.astype(np.int32)
        return cls(centered.centering, rounded, lengths, starts, codes, entries, numbers, n_cells, len(ids))

    def nearest(self, queries: F32, k: int, threads: int, effort: int | None = None) -> tuple[I32, F32]:
        """Return the k nearest vectors of each query (n, h) in `effort` cells, and their products, best first.

        Missing vectors are -1, with a product of minus infinity.
        """
        return self.search(queries, k, threads, effort)[:2]

    def search(self, queries: F32, k: int, threads: int, effort: int | None = None) -> tuple[I32, F32, I64]:
        """Return what `nearest` does, and the number of entries scanned for each query."""
        n = len(queries)
        queries, shared = self.centering.queries(queries)
        found, products = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
        scanned = np.empty(n, np.int64)
        codes = (*self.codes.codebook, self.codes.blocks)
        cells = (*self.centroids, self.starts, *codes, self.lengths, *self.entries)
        limits = (effort or self.effort, max(self.n_candidates, k))
        kernels.nearest_in_cells(queries, *cells, *limits, found, products, scanned, threads)
        products += shared[:, None].astype(np.float32)
        return np.where(found < 0, -1, self.ids[found]), products, scanned

    def calibrated(self, queries: F32, k: int, recall: float, threads: int) -> VectorCells:
        """Return the same cells with the lowest effort that finds the share `recall` of the k nearest vectors."""
        all_cells, n = len(self.lengths), len(self.ids)
        exact = replace(self, n_candidates=n).nearest(queries, k, threads, all_cells)[0]
        cells = self.with_candidates(queries, exact, recall, threads)
        found = lowest_effort(lambda effort: cells.nearest(queries, k, threads, effort)[0], all_cells, exact, recall)
        return replace(cells, effort=found.effort)

    def with_candidates(self, queries: F32, exact: I32, recall: float, threads: int) -> VectorCells:
        """Return the same cells with as few candidates as find the share `recall` of the `exact` nearest (n, k)."""
        all_cells, k = len(self.lengths), exact.shape[1]

        def find(n_candidates: int) -> I32:
            return replace(self, n_candidates=n_candidates).nearest(queries, k, threads, all_cells)[0]

        return replace(self, n_candidates=fewest_candidates(find, len(self.ids), exact, recall))

    def arrays(self) -> list[NDArray[Any]]:
        """Return all arrays."""
        codes = (self.codes.codebook.centroids, self.codes.blocks)
        return [self.centering.center, *self.centroids, self.lengths, self.starts, *codes, *self.entries, self.ids]

    @staticmethod
    def peak_memory(n: int, width: int, config: CellsConfig | None = None) -> int:
        """Return the most bytes that `build` takes for n vectors, the cells included."""
        config, width, block = config or CellsConfig(), width + 1, min(n, BLOCK)
        n_cells = config.cells_of(n)
        sampling = 8 * n + kmeans_memory(min(n, n_cells * config.n_vectors), width)
        assigning = 24 * n + 8 * width * block  # cells, products, and their sums and order in 64 bits
        # Entries, scales, numbers, cells, and numbers again in 64 bits; then a block, its differences and roundings.
        listing = n * (width + 20) + GroupCodes.memory(n, width) + 16 * width * block
        return max(sampling, assigning, listing) + 13 * width * n_cells


class _Centered(NamedTuple):
    """Vectors minus their center."""

    vectors: Vectors
    centering: Centering

    def take(self, at: I64) -> F32:
        return self.centering.vectors(self.vectors.take(at))


class _Differences(NamedTuple):
    """Centered vectors minus the means of their cells, in the order of `ids`."""

    vectors: _Centered
    ids: I64
    means: F32
    cells: I32

    def take(self, at: I64 | slice) -> F32:
        return self.vectors.take(self.ids[at]) - self.means[self.cells[at]]


def _blocks(n: int) -> Iterator[slice]:
    """Yield the slices of blocks of `BLOCK` vectors."""
    for start in range(0, n, BLOCK):
        yield slice(start, min(start + BLOCK, n))
