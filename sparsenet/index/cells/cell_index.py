"""Coarse cells over label vectors: 4-bit codes choose labels in the nearest cells, which are then scored exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sparsenet import kernels
from sparsenet.core.machine import available_memory
from sparsenet.core.memory import in_words
from sparsenet.index.cells.byte_rows import ByteRows
from sparsenet.index.cells.group_codes import AT_A_TIME, Codebook, GroupCodes
from sparsenet.index.cells.spherical_kmeans import BLOCK, kmeans_memory, nearest_cells, spherical_kmeans
from sparsenet.index.vector_index import Examples, fewest_candidates
from sparsenet.kernels.types import F32, I32, I64


@dataclass(frozen=True, kw_only=True)
class CellsConfig:
    """Settings of a `CellIndex`.

    Parameters
    ----------
    n_cells
        Number of cells; by default four times the root of the number of labels, which balances the choice of cells and
        their scan.
    n_candidates
        Fewest labels scored exactly for each query; by default twice the number of labels to find, at least 16.
    learns_inputs
        Whether k-means learns from the inputs of the examples instead of the rows.
    n_iterations, n_vectors
        Iterations of k-means, and vectors a cell that it learns from.
    n_coded
        Vectors that the codes are learned from.
    seed
        Seed of the sample and of the first centroids.
    """

    n_cells: int | None = None
    n_candidates: int | None = None
    learns_inputs: bool = False
    n_iterations: int = 10
    n_vectors: int = 64
    n_coded: int = 4096
    seed: int = 0

    def cells_of(self, n_labels: int) -> int:
        """Return the number of cells for `n_labels`."""
        return self.n_cells or max(1, min(n_labels, round(4 * math.sqrt(n_labels))))


class CellIndex:
    """Find labels with large scores without scoring all of them.

    A cell lists the labels whose rows fall into it and, given `examples`, the labels of the inputs that do. Rows are
    coded in 4 bits for each group of columns, with the bias as a further column. The labels with the best codes are
    scored exactly. The results do not depend on `threads`.

    Parameters
    ----------
    config
        Number of cells and of candidates.
    threads
        Number of threads.

    Attributes
    ----------
    n_candidates : int
        Labels scored exactly for each query, if more than `config` asks for; `calibrate_candidates` sets it.

    Examples
    --------
    >>> import numpy as np
    >>> weight, bias = np.eye(8, dtype=np.float32), np.zeros(8, np.float32)
    >>> index = CellIndex(CellsConfig(n_cells=4))
    >>> index.rebuild(weight, bias)
    >>> labels, scores = index.topk(weight[5:6], weight, bias, k=1, effort=1)
    >>> labels.tolist(), scores.tolist()
    ([[5]], [[1.0]])
    """

    def __init__(self, config: CellsConfig, threads: int = 1) -> None:
        self.config, self.threads, self.n_candidates = config, threads, 0

    def rebuild(self, weight: F32, bias: F32, examples: Examples | None = None) -> None:
        """Learn new cells and list all labels."""
        config, n_labels = self.config, len(weight)
        n_cells = config.cells_of(n_labels)
        listed = 0 if examples is None else len(examples.labels)
        _check_memory("building", n_labels, self.peak_memory(n_labels, weight.shape[1], listed))
        source = examples.inputs if config.learns_inputs and examples is not None else weight
        sample = _sample(source, n_cells * config.n_vectors, config.seed)
        settings = {"n_iterations": config.n_iterations, "seed": config.seed, "threads": self.threads}
        self._centroids = spherical_kmeans(sample, n_cells, **settings)
        self._byte_centroids = ByteRows.of(self._centroids, np.arange(n_cells))
        self._cells = nearest_cells(weight, self._centroids, self.threads)[0]
        self._seen = np.empty(0, np.int64) if examples is None else self._pairs_of(examples)
        coded = np.random.default_rng(config.seed).permutation(n_labels)[: config.n_coded]
        self._codebook = Codebook.learn(_with_bias(weight, bias, coded))
        self._codes = GroupCodes.empty(self._codebook, 0)
        self._list(weight, bias, np.full(n_labels, -1))

    def update(self, weight: F32, bias: F32, rows: I32 | I64) -> None:
        """List changed `rows` anew, and code only these; rows beyond the old number of labels are new labels."""
        n_labels, n_old = len(weight), len(self._cells)
        changed = np.zeros(n_labels, np.bool_)
        changed[rows] = True
        if n_labels < n_old or not changed[n_old:].all():
            raise ValueError(f"rows must name the {n_labels - n_old} new labels, and no label may be missing")
        _check_memory("updating", n_labels, self.update_memory(n_labels, weight.shape[1], len(self._seen)))
        rows = np.flatnonzero(changed)
        self._cells = np.concatenate((self._cells, np.zeros(n_labels - n_old, np.int32)))
        for start in range(0, len(rows), BLOCK):
            own = rows[start : start + BLOCK]
            self._cells[own] = nearest_cells(weight[own], self._centroids, self.threads)[0]
        places = np.full(n_labels, -1)
        places[self._labels] = np.arange(len(self._labels))
        places[rows] = -1
        self._list(weight, bias, places)

    def topk(self, queries: F32, weight: F32, bias: F32, k: int, effort: int, threads: int = 0) -> tuple[I32, F32]:
        """Return the k best labels of each query among those in `effort` cells, and their exact scores, best first.

        `threads` replaces the number of threads of the index, unless it is 0.
        """
        return self.search(queries, weight, bias, k, effort, threads)[:2]

    def search(
        self, queries: F32, weight: F32, bias: F32, k: int, effort: int, threads: int = 0
    ) -> tuple[I32, F32, I64]:
        """Return what `topk` does, and the number of entries scanned for each query."""
        n, k = len(queries), min(k, len(bias))
        labels, scores, scanned = np.empty((n, k), np.int32), np.empty((n, k), np.float32), np.empty(n, np.int64)
        kernels.search_cells(
            queries,
            *self._byte_centroids,
            self._starts,
            *self._codebook,
            self._codes.blocks,
            self._labels,
            weight,
            bias,
            effort,
            max(self.config.n_candidates or max(2 * k, 16), k, self.n_candidates),
            labels,
            scores,
            scanned,
            threads or self.threads,
        )
        return labels, scores, scanned

    def calibrate_candidates(self, queries: F32, weight: F32, bias: F32, exact: I32, recall: float) -> None:
        """Find how many labels must be scored exactly to find the share `recall` of the `exact` best ones (n, k)."""

        def find(n_candidates: int) -> I32:
            self.n_candidates = n_candidates
            return self.topk(queries, weight, bias, exact.shape[1], self.max_effort)[0]

        self.n_candidates = fewest_candidates(find, len(bias), exact, recall)

    @property
    def max_effort(self) -> int:
        """Number of cells."""
        return len(self._centroids)

    @property
    def nbytes(self) -> int:
        """Size of the index in bytes."""
        arrays = (self._centroids, self._cells, self._seen, self._starts, self._labels)
        return sum(array.nbytes for array in arrays) + self._codes.nbytes + self._byte_centroids.nbytes

    def _pairs_of(self, examples: Examples) -> I64:
        """Return the distinct pairs of an input's cell and label, as cell * 2**32 + label, ascending."""
        cells = nearest_cells(examples.inputs, self._centroids, self.threads)[0].astype(np.int64)
        return np.unique(np.repeat(cells, np.diff(examples.indptr)) << 32 | examples.labels)

    def _list(self, weight: F32, bias: F32, places: I64) -> None:
        """Write the entries of all cells; label l keeps the code of the old entry ``places[l]``, unless that is -1."""
        own = self._cells.astype(np.int64) << 32 | np.arange(len(self._cells))
        pairs = np.unique(np.concatenate((own, self._seen))) if len(self._seen) else np.sort(own)
        self._starts = np.searchsorted(pairs, np.arange(self.max_effort + 1) << 32)
        self._labels = (pairs & 0xFFFFFFFF).astype(np.int32)
        del own, pairs
        old, self._codes = self._codes, GroupCodes.empty(self._codebook, len(self._labels))
        for start in range(0, len(self._labels), AT_A_TIME):
            labels = self._labels[start : start + AT_A_TIME]
            at = places[labels]
            codes, is_kept = np.empty((len(self._codebook.centroids), len(labels)), np.uint8), at >= 0
            codes[:, is_kept] = old.take(at[is_kept])
            codes[:, ~is_kept] = self._codebook.codes(_with_bias(weight, bias, labels[~is_kept]))
            self._codes.put(start, codes)

    def peak_memory(self, n_labels: int, width: int, n_listed: int = 0) -> int:
        """Return the most bytes that `rebuild` takes, the index included, with `n_listed` labels of examples."""
        # k-means comes before there are entries, which are then sorted in integers of 64 bits.
        sample = kmeans_memory(self.config.cells_of(n_labels) * self.config.n_vectors, width)
        return self.memory(n_labels, width, n_listed) + max(sample, 40 * (n_labels + n_listed))

    def update_memory(self, n_labels: int, width: int, n_listed: int = 0) -> int:
        """Return the most bytes that `update` takes, besides the index before it, with `n_listed` pairs of examples."""
        # Rows are assigned in blocks, then the entries are sorted, then rows are coded in blocks.
        steps = (
            (4 * width + 16) * min(n_labels, BLOCK),
            40 * (n_labels + n_listed),
            16 * width * min(n_labels, AT_A_TIME),
        )
        return self.memory(n_labels, width, n_listed) + 17 * n_labels + max(steps)

    def memory(self, n_labels: int, width: int, n_listed: int = 0) -> int:
        """Return the most bytes that the index takes, with `n_listed` labels of examples."""
        entries = n_labels + n_listed
        cells = self.config.cells_of(n_labels) * (5 * width + 12) + 8
        return GroupCodes.memory(entries, width + 1) + 4 * entries + 4 * n_labels + 8 * n_listed + cells


def _check_memory(doing: str, n_labels: int, needed: int) -> None:
    if needed > (available := available_memory()):
        free = in_words(available)
        raise MemoryError(f"{doing} an index of {n_labels:,} labels needs {in_words(needed)}, but only {free} are free")


def _sample(vectors: F32, most: int, seed: int) -> F32:
    if len(vectors) <= most:
        return vectors
    kept = np.random.default_rng(seed).choice(len(vectors), most, replace=False)
    return vectors[np.sort(kept)]


def _with_bias(weight: F32, bias: F32, at: I32 | I64) -> F32:
    """Return rows and their biases."""
    return np.column_stack((weight[at], bias[at]))
