"""Indexes that `bench.finding` compares: our own, FAISS, hnswlib and usearch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from bench.finding_sets import Problem
from bench.finding_tables import TableIndex
from sparsenet.index.cells import CellIndex, CellsConfig, VectorCells
from sparsenet.index.exact import exact_topk
from sparsenet.index.hashing import LSHConfig
from sparsenet.kernels.types import F32, I32, I64

#: Edges of a node in the graphs, and the effort that builds them; the defaults of hnswlib are 16 and 200.
EDGES, BUILD_EFFORT = 16, 100
#: Candidates for each result that FAISS scores exactly after a fast scan.
REFINED = 100


class Exact:
    """Score all vectors."""

    max_effort, nbytes = 1, 0

    def topk(self, queries: F32, weight: F32, bias: F32, k: int, effort: int) -> tuple[I32, F32]:
        return exact_topk(queries, weight, bias, k, 1)


def cells(problem: Problem, *, supervised: bool = False, **settings: Any) -> CellIndex:
    index = CellIndex(CellsConfig(n_cells=problem.n_cells, **settings))
    index.rebuild(problem.vectors, problem.bias, problem.examples() if supervised else None)
    return index


class UnitVectors(NamedTuple):
    rows: F32

    @property
    def width(self) -> int:
        return int(self.rows.shape[1])

    def take(self, at: I64) -> F32:
        return self.rows[at]


class CellsOfPoints:
    """Vectors in 8 bits behind cells, as a blend keeps dense training points: no vector is scored exactly."""

    def __init__(self, problem: Problem) -> None:
        n, config = len(problem.vectors), CellsConfig(n_cells=problem.n_cells)
        self._cells = VectorCells.build(UnitVectors(problem.vectors), np.arange(n), config)
        self.max_effort = len(self._cells.lengths)
        self.nbytes = sum(array.nbytes for array in self._cells.arrays())

    @property
    def n_candidates(self) -> int:
        return self._cells.n_candidates

    def calibrate_candidates(self, queries: F32, weight: F32, bias: F32, exact: I32, recall: float) -> None:
        self._cells = self._cells.with_candidates(queries, exact, recall, 1)

    def topk(self, queries: F32, weight: F32, bias: F32, k: int, effort: int) -> tuple[I32, F32]:
        return self._cells.nearest(queries, k, 1, effort)


def tables(problem: Problem, *, supervised: bool = False) -> TableIndex:
    # Buckets of a code are cut off at probe_limit; there are more of them for a supervised index.
    index = TableIndex(LSHConfig.for_size(len(problem.vectors) * (3 if supervised else 1)))
    index.rebuild(problem.vectors, problem.bias, problem.examples() if supervised else None)
    return index


class Peer(Protocol):
    """An index of another library, which may be kept in a file."""

    #: Whether the vectors must be equally long.
    one_length: bool
    max_effort: int

    @property
    def nbytes(self) -> int:
        """Size in bytes."""

    def build(self, vectors: F32, n_cells: int) -> None:
        """Index the vectors."""

    def write(self, path: Path) -> None:
        """Keep the index in a file."""

    def read(self, path: Path, width: int) -> None:
        """Read the index from a file."""

    def topk(self, queries: F32, weight: F32, bias: F32, k: int, effort: int) -> tuple[I32, F32]:
        """Return the k best vectors that are found for each query."""


class Faiss:
    """An index of faiss-cpu by its factory string, with the effort as a search parameter."""

    def __init__(self, kind: str, knob: str) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        self._faiss, self._kind, self._knob, self._effort = faiss, kind, knob, 0
        self.max_effort, self.one_length = 4096, "HNSW" in kind

    def build(self, vectors: F32, n_cells: int) -> None:
        n, width = vectors.shape
        kind = self._kind.format(cells=n_cells, half=width // 2, edges=EDGES)
        metric = self._faiss.METRIC_L2 if self.one_length else self._faiss.METRIC_INNER_PRODUCT
        self._index = self._faiss.index_factory(width, kind, metric)
        if "HNSW" in kind:
            self._index.hnsw.efConstruction = BUILD_EFFORT
        self._index.train(vectors[np.random.default_rng(0).permutation(n)[: 64 * n_cells]])
        self._index.add(vectors)
        self._set_up()

    def write(self, path: Path) -> None:
        self._faiss.write_index(self._index, str(path))

    def read(self, path: Path, width: int) -> None:
        self._index = self._faiss.read_index(str(path))
        self._set_up()

    def _set_up(self) -> None:
        if "RFlat" in self._kind:
            self._faiss.ParameterSpace().set_index_parameter(self._index, "k_factor_rf", REFINED)
        if self._knob == "nprobe":
            self.max_effort = self._faiss.extract_index_ivf(self._index).nlist

    @property
    def nbytes(self) -> int:
        return len(self._faiss.serialize_index(self._index))

    def topk(self, queries: F32, weight: F32, bias: F32, k: int, effort: int) -> tuple[I32, F32]:
        if effort != self._effort:
            self._faiss.ParameterSpace().set_index_parameter(self._index, self._knob, effort)
            self._effort = effort
        scores, ids = self._index.search(queries, k)
        return ids.astype(np.int32), scores


class Hnswlib:
    one_length, max_effort, _effort = True, 4096, 0

    def build(self, vectors: F32, n_cells: int) -> None:
        self._index = self._new(vectors.shape[1])
        self._index.init_index(len(vectors), M=EDGES, ef_construction=BUILD_EFFORT)
        self._index.add_items(vectors, num_threads=1)

    def write(self, path: Path) -> None:
        self._index.save_index(str(path))

    def read(self, path: Path, width: int) -> None:
        self._index = self._new(width)
        self._index.load_index(str(path))

    def _new(self, width: int) -> Any:
        import hnswlib

        index = hnswlib.Index(space="l2", dim=width)
        index.set_num_threads(1)
        return index

    @property
    def nbytes(self) -> int:
        return int(self._index.index_file_size())

    def topk(self, queries: F32, weight: F32, bias: F32, k: int, effort: int) -> tuple[I32, F32]:
        if effort != self._effort:
            self._index.set_ef(max(effort, k))
            self._effort = effort
        ids, distances = self._index.knn_query(queries, k, num_threads=1)
        return ids.astype(np.int32), distances


class Usearch:
    one_length, max_effort = True, 4096

    def build(self, vectors: F32, n_cells: int) -> None:
        self._index = self._new(vectors.shape[1])
        self._index.add(np.arange(len(vectors)), vectors, threads=1)

    def write(self, path: Path) -> None:
        self._index.save(str(path))

    def read(self, path: Path, width: int) -> None:
        self._index = self._new(width)
        self._index.load(str(path))

    def _new(self, width: int) -> Any:
        from usearch.index import Index

        return Index(ndim=width, metric="l2sq", connectivity=EDGES, expansion_add=BUILD_EFFORT, dtype="f32")

    @property
    def nbytes(self) -> int:
        return int(self._index.serialized_length)

    def topk(self, queries: F32, weight: F32, bias: F32, k: int, effort: int) -> tuple[I32, F32]:
        self._index.expansion_search = max(effort, k)
        found = self._index.search(queries, k, threads=1)
        return np.asarray(found.keys, np.int32).reshape(-1, k), np.asarray(found.distances)


OURS: dict[str, Callable[[Problem], Any]] = {
    "exact": lambda problem: Exact(),
    "cells": cells,
    "cells-supervised": lambda problem: cells(problem, supervised=True),
    "cells-of-inputs-supervised": lambda problem: cells(problem, supervised=True, learns_inputs=True),
    "cells-of-points": CellsOfPoints,
    "tables": tables,
    "tables-supervised": lambda problem: tables(problem, supervised=True),
}
PEERS: dict[str, Callable[[], Peer]] = {
    "faiss-ivf": lambda: Faiss("IVF{cells},Flat", "nprobe"),
    "faiss-ivf-8bit": lambda: Faiss("IVF{cells},SQ8", "nprobe"),
    "faiss-ivf-fastscan": lambda: Faiss("IVF{cells},PQ{half}x4fs,RFlat", "nprobe"),
    "faiss-hnsw": lambda: Faiss("HNSW{edges},Flat", "efSearch"),
    "hnswlib": Hnswlib,
    "usearch": Usearch,
}


def built(name: str, problem: Problem, kind: str, folder: Path | None) -> tuple[Any, float]:
    """Return an index and the CPU seconds of building it; a `folder` keeps the indexes of other libraries."""
    if name in OURS:
        began = time.process_time()
        return OURS[name](problem), time.process_time() - began
    index, (n, width) = PEERS[name](), problem.vectors.shape
    path = None if folder is None else folder / f"{name}-{kind}-{n}x{width}"
    if path is not None and path.with_suffix(".json").exists():
        index.read(path, problem.extended_vectors(one_length=index.one_length).shape[1])
        return index, float(json.loads(path.with_suffix(".json").read_text())["build_cpu_s"])
    vectors = problem.extended_vectors(one_length=index.one_length)
    began = time.process_time()
    index.build(vectors, problem.n_cells or round(4 * np.sqrt(n)))
    seconds = time.process_time() - began
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        index.write(path)
        path.with_suffix(".json").write_text(json.dumps({"build_cpu_s": seconds}))
    return index, seconds
