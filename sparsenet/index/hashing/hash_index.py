"""Hash tables over label vectors: find the labels near a hidden vector by counting shared buckets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.index.exact import exact_topk
from sparsenet.index.hashing.families import HASH_FAMILIES
from sparsenet.index.hashing.lsh_config import MAX_WIDTH, LSHConfig
from sparsenet.index.hashing.sphere import BLOCK, LENGTH, TINY, LabelSphere, measure, n_covered
from sparsenet.kernels.types import F32, I32, I64


class IndexHits(NamedTuple):
    """Labels found for each point: point i has ``ids[indptr[i] : indptr[i + 1]]``, most hits first."""

    indptr: I64
    ids: I32
    hits: I32


class LSHIndex:
    """Search the output layer for labels with large scores, without computing the scores.

    The state is `codes`, one for each table and label, and the sphere in which they were computed; tables follow from
    the codes. Results do not depend on `threads`, the CPU or the kernels in use.

    Parameters
    ----------
    config
        Hash family, tables and limits.
    n_labels, width
        Shape of the weights.
    threads
        Number of threads.

    Examples
    --------
    >>> import numpy as np
    >>> weight, bias = np.eye(8, dtype=np.float32), np.zeros(8, np.float32)
    >>> index = LSHIndex(LSHConfig(n_tables=20, n_bits=3), n_labels=8, width=8)
    >>> index.rebuild(weight, bias)
    >>> ids, hits = index.query(weight[5:6], limit=1)
    >>> ids.tolist()
    [5]
    """

    def __init__(self, config: LSHConfig, n_labels: int, width: int, threads: int = 1) -> None:
        if not 1 <= width <= MAX_WIDTH:
            raise ValueError(f"width must be from 1 to {MAX_WIDTH}, got {width}")
        if not 0 <= n_labels < 2**31:
            raise ValueError(f"n_labels must be from 0 to {2**31 - 1}, got {n_labels}")
        self.config = config
        self.threads = threads
        self.n_rebuilds = 0
        self.codes = np.zeros((config.n_tables, n_labels), np.uint16)
        self._family = HASH_FAMILIES[config.family](config, width)
        self._sphere = LabelSphere(center=np.zeros(width + 1, np.float32), radius=1.0)
        self._lengths = np.zeros(n_labels, np.float32)
        self._offsets = np.zeros((config.n_tables, config.n_buckets + 1), np.int32)
        self._labels = np.zeros((config.n_tables, n_labels), np.int32)
        self._counts: I32 | None = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a pickle, also of version 0.1, which called the sphere a frame."""
        renamed = {"_sphere" if name == "_frame" else name: value for name, value in state.items()}
        self.__dict__.update(renamed)

    @property
    def n_labels(self) -> int:
        """Number of indexed labels."""
        return self.codes.shape[1]

    @property
    def nbytes(self) -> int:
        """Size of the index in bytes; `LSHConfig.memory` predicts it."""
        arrays = (self.codes, self._offsets, self._labels, self._scratch(), self._family.functions)
        return sum(array.nbytes for array in (*arrays, self._lengths, self._sphere.center))

    def rebuild(self, weight: F32, bias: F32) -> None:
        """Measure a new sphere and rehash all labels: weight (L, h), bias (L,)."""
        self._check(weight, bias)
        self._sphere, self._lengths = measure(weight, bias, self.config.covered, self.config.headroom)
        self._hash(weight, bias, None)
        self.n_rebuilds += 1

    def update(self, weight: F32, bias: F32, rows: I32 | I64) -> bool:
        """Rehash the changed `rows`; return whether that needed a `rebuild`.

        The sphere stays until too many rows have outgrown it, which `headroom` makes rare.
        """
        self._check(weight, bias)
        if len(rows) and (rows.min() < 0 or rows.max() >= self.n_labels):
            raise ValueError(f"rows must be from 0 to {self.n_labels - 1}, got {rows.min()} to {rows.max()}")
        changed, offsets = weight[rows], bias[rows]
        if not (np.isfinite(changed).all() and np.isfinite(offsets).all()):
            raise ValueError("weight or bias holds NaN or infinity: training has diverged, lower the learning rate")
        self._lengths[rows] = self._sphere.lengths(changed, offsets)
        if self.n_rebuilds == 0 or self._outgrown():
            self.rebuild(weight, bias)
            return True
        self._hash(weight, bias, rows)
        return False

    def query(self, hidden: F32, limit: int) -> tuple[I32, I32]:
        """Find at most `limit` labels for all of `hidden` (n, h) together; return ids and hits.

        Hits are summed over the points. Most hits first, ties to the smaller id.
        """
        limit = self._checked_limit(hidden, limit)
        ids, hits = np.empty(limit, np.int32), np.empty(limit, np.int32)
        codes = self.query_codes(hidden)
        counts, self._counts = self._scratch(), None
        found = kernels.lsh_query_shared(
            self._offsets, self._labels, codes, self.config.probe_limit, counts, ids, hits, self.threads
        )
        self._counts = counts
        return ids[:found], hits[:found]

    def query_each(self, hidden: F32, limit: int) -> IndexHits:
        """Find at most `limit` labels for each point of `hidden` (n, h), ordered as by `query`."""
        limit = self._checked_limit(hidden, limit)
        ids, hits = np.empty((len(hidden), limit), np.int32), np.empty((len(hidden), limit), np.int32)
        found = np.zeros(len(hidden), np.int64)
        codes = self.query_codes(hidden)
        counts, self._counts = self._scratch(), None
        kernels.lsh_query_each(
            self._offsets, self._labels, codes, self.config.probe_limit, counts, ids, hits, found, self.threads
        )
        self._counts = counts
        used = np.arange(limit) < found[:, None]
        return IndexHits(np.concatenate(([0], np.cumsum(found))), ids[used], hits[used])

    def recall(self, hidden: F32, weight: F32, bias: F32, *, k: int, limit: int, shared: bool = False) -> float:
        """Return the fraction of the points' exact top `k` labels that a query finds.

        With `shared`, all points share one list of `limit` labels; otherwise each point has its own.
        """
        if len(hidden) == 0 or self.n_labels == 0:
            return float("nan")
        exact = exact_topk(hidden, weight, bias, k, self.threads)[0]
        if shared:
            return float(np.isin(exact, self.query(hidden, limit)[0]).mean())
        indptr, ids, _ = self.query_each(hidden, limit)
        found = [np.isin(row, ids[indptr[i] : indptr[i + 1]]).mean() for i, row in enumerate(exact)]
        return float(np.mean(found))

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Return the arrays that `restore` loads into an equal index."""
        sphere = self._sphere
        return {
            "codes": self.codes,
            "center": sphere.center,
            "radius": np.array([sphere.radius]),
            "lengths": self._lengths,
            "n_rebuilds": np.array([self.n_rebuilds]),
        }

    def restore(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Load and check the arrays of `state`."""
        for name, own in self.state().items():
            saved = state[name]
            if saved.shape != own.shape or saved.dtype != own.dtype:
                raise ValueError(
                    f"{name} of the index must be {own.dtype}{own.shape}, got {saved.dtype}{saved.shape}: "
                    "it was saved with other settings"
                )
        codes = np.array(state["codes"], np.uint16)
        if codes.max(initial=0) >= self.config.n_buckets:
            raise ValueError(f"codes of the index must be below {self.config.n_buckets}, got {codes.max()}")
        radius = float(np.asarray(state["radius"], np.float64)[0])
        n_rebuilds = int(np.asarray(state["n_rebuilds"], np.int64)[0])
        lowest, highest = float(TINY) / LENGTH, float(np.finfo(np.float32).max) * self.config.headroom
        if not lowest <= radius <= highest or n_rebuilds < 0:
            raise ValueError(f"radius or n_rebuilds of the index is out of range: {radius} and {n_rebuilds}")
        for name in ("center", "lengths"):
            if not np.isfinite(state[name]).all():
                raise ValueError(f"{name} of the index holds NaN or infinity")
        self._sphere = LabelSphere(center=np.array(state["center"], np.float32), radius=radius)
        self._lengths = np.array(state["lengths"], np.float32)
        self.codes, self.n_rebuilds = codes, n_rebuilds
        self._sort()

    def _hash(self, weight: F32, bias: F32, rows: I32 | I64 | None) -> None:
        n_rows = self.n_labels if rows is None else len(rows)
        for start in range(0, n_rows, BLOCK):
            block = slice(start, start + BLOCK)
            at = block if rows is None else rows[block]
            vectors = self._family.label_vectors(self._sphere, weight[at], bias[at])
            self.codes[:, at] = self._family.codes(vectors, self.threads)
        self._sort()

    def _outgrown(self) -> bool:
        within = np.count_nonzero(self._lengths <= self._sphere.radius)
        return bool(within < n_covered(self.config.covered, self.n_labels))

    def _sort(self) -> None:
        kernels.lsh_build_tables(self.codes, self._offsets, self._labels, self.threads)

    def query_codes(self, hidden: F32) -> NDArray[np.uint16]:
        """Hash queries (n, h): (n_tables, n)."""
        return self._family.codes(self._family.query_vectors(hidden), self.threads)

    def _scratch(self) -> I32:
        # Queries detach the counts and put them back at the end, so a failed query leaves no stale counts.
        if self._counts is None or len(self._counts) != self.threads:
            self._counts = np.zeros((self.threads, self.n_labels), np.int32)
        return self._counts

    def _check(self, weight: F32, bias: F32) -> None:
        expected = (self.n_labels, self._sphere.center.size - 1)
        if weight.shape != expected or bias.shape != expected[:1]:
            raise ValueError(
                f"weight and bias must be {expected} and {expected[:1]}, got {weight.shape} and {bias.shape}"
            )

    def _checked_limit(self, hidden: F32, limit: int) -> int:
        width = self._sphere.center.size - 1
        if hidden.ndim != 2 or hidden.shape[1] != width:
            raise ValueError(f"hidden must be (n, {width}), got {hidden.shape}")
        if limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}")
        return min(limit, self.n_labels)
