"""Hash tables with the interface of all indexes: the labels with the most hits are scored exactly."""

from __future__ import annotations

import numpy as np

from sparsenet import kernels
from sparsenet.index.hashing.hash_index import LSHIndex
from sparsenet.index.hashing.lsh_config import LSHConfig
from sparsenet.index.vector_index import Examples
from sparsenet.kernels.types import F32, I32, I64


class TableIndex:
    """Find labels with large scores by hash tables, an index to compare with `CellIndex`.

    A bucket lists the labels whose rows hash to it and, given `examples`, the labels of the inputs that do. The effort
    is the number of labels scored exactly.

    Parameters
    ----------
    config
        Hash family and tables; by default SimHash with tables for the number of labels.
    threads
        Number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> weight, bias = np.eye(8, dtype=np.float32), np.zeros(8, np.float32)
    >>> index = TableIndex(LSHConfig(n_tables=20, n_bits=3))
    >>> index.rebuild(weight, bias)
    >>> labels, scores = index.topk(weight[5:6], weight, bias, k=1, effort=2)
    >>> labels.tolist(), scores.tolist()
    ([[5]], [[1.0]])
    """

    def __init__(self, config: LSHConfig | None = None, threads: int = 1) -> None:
        self.config, self.threads = config, threads

    def rebuild(self, weight: F32, bias: F32, examples: Examples | None = None) -> None:
        """Hash all rows, and the inputs of `examples` once for each of their labels."""
        n_labels, width = weight.shape
        self._index = LSHIndex(self.config or LSHConfig.for_size(n_labels), n_labels, width, self.threads)
        self._index.rebuild(weight, bias)
        self._seen = np.empty(0, np.int32) if examples is None else examples.labels
        shape = (self._index.config.n_tables, 0)
        self._seen_codes = np.empty(shape, np.uint16)
        if examples is not None:
            inputs = np.repeat(np.arange(len(examples.inputs)), np.diff(examples.indptr))
            self._seen_codes = self._index.query_codes(examples.inputs)[:, inputs]
        self._sort()

    def update(self, weight: F32, bias: F32, rows: I32 | I64) -> None:
        """Hash changed `rows` again."""
        self._index.update(weight, bias, rows)
        self._sort()

    def topk(self, queries: F32, weight: F32, bias: F32, k: int, effort: int) -> tuple[I32, F32]:
        """Return the k best of the `effort` labels with the most hits, best first; missing labels are -1."""
        n, k = len(queries), min(k, len(bias))
        limit = min(max(effort, k), len(bias))
        ids, hits = np.full((n, limit), -1, np.int32), np.empty((n, limit), np.int32)
        found, codes = np.empty(n, np.int64), self._index.query_codes(queries)
        config, tables = self._index.config, (self._offsets, self._labels)
        kernels.lsh_query_each(*tables, codes, config.probe_limit, self._counts, ids, hits, found, self.threads)
        used = np.arange(limit) < found[:, None]
        labels = np.sort(np.where(used, ids, len(bias)), axis=1)  # ascending, so that ties go to the smaller label
        indptr, flat = np.concatenate(([0], np.cumsum(found))), labels[labels < len(bias)].astype(np.int32)
        exact, scores = np.empty(len(flat), np.float32), np.full((n, limit), -np.inf, np.float32)
        kernels.pair_dot(indptr, flat, queries, weight, exact, self.threads)
        scores[labels < len(bias)] = exact + bias[flat]
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        labels[labels == len(bias)] = -1
        return np.take_along_axis(labels, best, axis=1).astype(np.int32), np.take_along_axis(scores, best, axis=1)

    @property
    def max_effort(self) -> int:
        """The most labels that a query can find."""
        return min(self._index.config.n_tables * self._index.config.probe_limit, self._index.n_labels)

    @property
    def nbytes(self) -> int:
        """Size of the index in bytes."""
        arrays = (self._seen, self._seen_codes, self._offsets, self._labels, self._counts)
        return self._index.nbytes + sum(array.nbytes for array in arrays)

    def _sort(self) -> None:
        codes = np.concatenate((self._index.codes, self._seen_codes), axis=1)
        n_tables, n_entries = codes.shape
        self._offsets = np.empty((n_tables, self._index.config.n_buckets + 1), np.int32)
        entries = np.empty((n_tables, n_entries), np.int32)
        kernels.lsh_build_tables(codes, self._offsets, entries, self.threads)
        owners = np.concatenate((np.arange(self._index.n_labels, dtype=np.int32), self._seen))
        self._labels = owners[entries]
        self._counts = np.zeros((self.threads, n_entries), np.int32)
