"""Find the best of a million vectors: cells, hash tables and exact scoring, FAISS, hnswlib and usearch, in one run.

    .bench/envs/finding/bin/python -m bench.finding [--vectors 200000] [--width 128]
                                   [--kind planted|texts|network|embeddings] [--texts FILE] [--k 1] [--recall 0.98]
                                   [--points 1000] [--noise 1.5] [--cells N] [--systems NAME,...]
                                   [--out bench/results/finding.json]
    python -m bench.finding --show bench/results/finding.json

The planted vectors lie in clusters, and a point is a noisy copy of a vector, its label. `texts`: a vector is the mean
word vector of a line of the file, and a point that of half of its words (`wordllama`). All of these have unit length.
`network`: the vectors are the output layer of a network that was trained on planted embeddings with as many labels, and
the points are its hidden units. Other libraries get two more numbers: the bias, and what makes all vectors equally
long. `embeddings`: the vectors are training points of `bench.embeddings`, ten a label, and the points are test points,
whose neighbors are sought (`--k 50 --recall 0.95 --width 384`).

Each system has one knob. The lowest setting that finds --recall of the exact k best of the first two thirds of the
points is timed on the others, one call a point, on one thread. Supervised systems also list the labels of 2 points a
label.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench import embedding_sets
from bench.machine import load_average
from bench.report import head, keep, present, setting
from bench.runner import names
from sparsenet import ExtremeClassifier, WordVectors
from sparsenet.index.cells import CellIndex, CellsConfig, VectorCells
from sparsenet.index.exact import exact_topk
from sparsenet.index.hashing import LSHConfig
from sparsenet.index.hashing.table_index import TableIndex
from sparsenet.index.vector_index import Examples, calibrate, share_found
from sparsenet.kernels.types import F32, I32, I64

#: Vectors of a planted cluster, and the spread of a cluster relative to its center.
CLUSTER, SPREAD = 50, 1.0
#: Edges of a node in the graphs, and the effort that builds them; the defaults of hnswlib are 16 and 200.
EDGES, BUILD_EFFORT = 16, 100
#: Planted vectors up to which there are points to learn from; more would not fit into memory next to the vectors.
MOST_SUPERVISED = 1 << 21
#: Candidates for each result that FAISS scores exactly after a fast scan.
REFINED = 100


class Problem(NamedTuple):
    """Vectors with biases, points with the number of their vector, and points to learn from."""

    vectors: F32
    bias: F32
    points: F32
    y: I32
    examples: Examples
    n_cells: int | None = None

    def extended(self) -> tuple[F32, F32]:
        """Return vectors of one length, and points with the same products but no biases, as other libraries need."""
        if not self.bias.any():
            return self.vectors, self.points
        squares = np.einsum("ij,ij->i", self.vectors, self.vectors) + np.square(self.bias)
        rest, ones = np.sqrt(squares.max() - squares), np.tile(np.array([1, 0], np.float32), (len(self.points), 1))
        return np.column_stack((self.vectors, self.bias, rest)), np.hstack((self.points, ones))


def planted(n: int, width: int, n_points: int, seed: int, noise: float) -> Problem:
    """Plant clustered vectors, and points that are noisy copies of them; equal arguments give equal data.

    `noise` is the length of the noise that is added to a vector of length 1.
    """
    rng = np.random.default_rng((seed, n, width))
    centers = rng.standard_normal((-(-n // CLUSTER), width), np.float32)
    vectors = np.empty((n, width), np.float32)
    for start in range(0, n, 1 << 16):
        own = slice(start, min(start + (1 << 16), n))
        vectors[own] = centers[rng.integers(0, len(centers), own.stop - start)]
        vectors[own] += np.float32(SPREAD) * rng.standard_normal((own.stop - start, width), np.float32)
        vectors[own] = unit(vectors[own])

    def noisy(y: Any) -> F32:
        added = rng.standard_normal((len(y), width), np.float32) * np.float32(noise / np.sqrt(width))
        return unit(vectors[y] + added)

    y = rng.integers(0, n, n_points).astype(np.int32)
    seen = rng.integers(0, n, 2 * n if n <= MOST_SUPERVISED else 0).astype(np.int32)
    return Problem(vectors, np.zeros(n, np.float32), noisy(y), y, examples_of(noisy(seen), seen))


def of_texts(path: Path, n: int, n_points: int, seed: int) -> Problem:
    """Embed distinct lines as vectors, and half of the words of a line as points."""
    rng, words = np.random.default_rng(seed), WordVectors.read("wordllama")
    lines = list(dict.fromkeys(path.read_text().splitlines()))
    lines = [line for line in lines if len(line.split()) >= 4]
    lines = [lines[i] for i in rng.permutation(len(lines))[:n]]

    def half(i: int) -> str:
        parts = lines[i].split()
        return " ".join(parts[j] for j in np.sort(rng.permutation(len(parts))[: len(parts) // 2]))

    y = rng.integers(0, len(lines), n_points).astype(np.int32)
    seen = rng.integers(0, len(lines), 2 * len(lines)).astype(np.int32)
    points, inputs = (unit(words.embed([half(i) for i in ids], n_jobs=1)) for ids in (y, seen))
    vectors = unit(words.embed(lines, n_jobs=1))
    return Problem(vectors, np.zeros(len(vectors), np.float32), points, y, examples_of(inputs, seen))


def of_network(n: int, width: int, n_points: int, seed: int) -> Problem:
    """Train a network without a wide path on two planted embeddings a label."""
    data = embedding_sets.planted(2 * n, width, n, n_points, seed)
    model = ExtremeClassifier(hidden=width, wide=False, epochs=5, random_state=seed, n_jobs=1)
    model.fit(data.X, data.Y.indices)
    output, names_of = model.network_.output, model.classes_
    units = [np.empty((0, width), np.float32)]
    units += [
        model.network_.hidden_units(model._features(data.X[i : i + 4096]), 1) for i in range(0, len(data.X), 4096)
    ]
    points = model.network_.hidden_units(model._features(data.X_test), 1)
    y, seen = (np.searchsorted(names_of, labels).astype(np.int32) for labels in (data.Y_test.indices, data.Y.indices))
    vectors, bias = np.ascontiguousarray(output.weight.value), output.bias.value.reshape(-1).copy()
    return Problem(vectors, bias, points, y, examples_of(np.concatenate(units), seen))


def of_embeddings(n: int, width: int, n_points: int, seed: int) -> Problem:
    """Plant embeddings of labels; the nearest of the training points are sought, and no point is right or wrong."""
    data = embedding_sets.planted(n, width, n // 10, n_points, seed)
    none = examples_of(data.X[:0], np.empty(0, np.int32))
    points = data.X_test.copy()  # the original also holds the training points
    return Problem(data.X, np.zeros(n, np.float32), points, np.full(n_points, -1, np.int32), none)


def examples_of(inputs: F32, labels: I32) -> Examples:
    return Examples(inputs, np.arange(len(labels) + 1), labels)


def unit(vectors: Any) -> F32:
    """Scale rows to unit length; zeros stay zero."""
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9), np.float32)


# --- systems -------------------------------------------------------------------------------------------------------


class Exact:
    """Score all vectors."""

    max_effort = 1

    def __init__(self, problem: Problem) -> None:
        self.nbytes = 0

    def topk(self, queries: F32, weight: F32, bias: F32, k: int, effort: int) -> tuple[I32, F32]:
        return exact_topk(queries, weight, bias, k, 1)


def cells(problem: Problem, *, supervised: bool = False, **settings: Any) -> CellIndex:
    index = CellIndex(CellsConfig(n_cells=problem.n_cells, **settings))
    index.rebuild(problem.vectors, problem.bias, problem.examples if supervised else None)
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
        n = len(problem.vectors)
        self._cells = VectorCells.build(
            UnitVectors(problem.vectors), np.arange(n), CellsConfig(n_cells=problem.n_cells)
        )
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
    index.rebuild(problem.vectors, problem.bias, problem.examples if supervised else None)
    return index


class Faiss:
    """An index of faiss-cpu by its factory string, with the effort as a search parameter."""

    def __init__(self, problem: Problem, kind: str, knob: str) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        vectors, _ = problem.extended()
        n, width = vectors.shape
        n_cells = problem.n_cells or round(4 * np.sqrt(n))
        kind = kind.format(cells=n_cells, half=width // 2, edges=EDGES)
        metric = faiss.METRIC_L2 if "HNSW" in kind else faiss.METRIC_INNER_PRODUCT  # the same order, at equal length
        self._index = faiss.index_factory(width, kind, metric)
        space = faiss.ParameterSpace()
        if "HNSW" in kind:
            self._index.hnsw.efConstruction = BUILD_EFFORT
        if "RFlat" in kind:
            space.set_index_parameter(self._index, "k_factor_rf", REFINED)
        sample = np.random.default_rng(0).permutation(n)[: 64 * n_cells]
        self._index.train(vectors[sample])
        self._index.add(vectors)
        self._set: Callable[[int], None] = lambda effort: space.set_index_parameter(self._index, knob, effort)
        self.max_effort = n_cells if knob == "nprobe" else 4096
        self.nbytes, self._effort = len(faiss.serialize_index(self._index)), 0

    def topk(self, queries: F32, weight: F32, bias: F32, k: int, effort: int) -> tuple[I32, F32]:
        if effort != self._effort:
            self._set(effort)
            self._effort = effort
        scores, ids = self._index.search(queries, k)
        return ids.astype(np.int32), scores


class Hnswlib:
    max_effort = 4096

    def __init__(self, problem: Problem) -> None:
        import hnswlib

        vectors, _ = problem.extended()
        n, width = vectors.shape
        self._index = hnswlib.Index(space="l2", dim=width)
        self._index.init_index(n, M=EDGES, ef_construction=BUILD_EFFORT)
        self._index.set_num_threads(1)
        self._index.add_items(vectors, num_threads=1)
        self.nbytes, self._effort = self._index.index_file_size(), 0

    def topk(self, queries: F32, weight: F32, bias: F32, k: int, effort: int) -> tuple[I32, F32]:
        if effort != self._effort:
            self._index.set_ef(max(effort, k))
            self._effort = effort
        ids, distances = self._index.knn_query(queries, k, num_threads=1)
        return ids.astype(np.int32), distances


class Usearch:
    max_effort = 4096

    def __init__(self, problem: Problem) -> None:
        from usearch.index import Index

        vectors, _ = problem.extended()
        n, width = vectors.shape
        self._index = Index(ndim=width, metric="l2sq", connectivity=EDGES, expansion_add=BUILD_EFFORT, dtype="f32")
        self._index.add(np.arange(n), vectors, threads=1)
        self.nbytes = self._index.serialized_length

    def topk(self, queries: F32, weight: F32, bias: F32, k: int, effort: int) -> tuple[I32, F32]:
        self._index.expansion_search = max(effort, k)
        found = self._index.search(queries, k, threads=1)
        return np.asarray(found.keys, np.int32).reshape(-1, k), np.asarray(found.distances)


SYSTEMS: dict[str, Callable[[Problem], Any]] = {
    "exact": Exact,
    "cells": cells,
    "cells-supervised": lambda problem: cells(problem, supervised=True),
    "cells-of-inputs-supervised": lambda problem: cells(problem, supervised=True, learns_inputs=True),
    "cells-of-points": CellsOfPoints,
    "tables": tables,
    "tables-supervised": lambda problem: tables(problem, supervised=True),
    "faiss-ivf": lambda problem: Faiss(problem, "IVF{cells},Flat", "nprobe"),
    "faiss-ivf-8bit": lambda problem: Faiss(problem, "IVF{cells},SQ8", "nprobe"),
    "faiss-ivf-fastscan": lambda problem: Faiss(problem, "IVF{cells},PQ{half}x4fs,RFlat", "nprobe"),
    "faiss-hnsw": lambda problem: Faiss(problem, "HNSW{edges},Flat", "efSearch"),
    "hnswlib": Hnswlib,
    "usearch": Usearch,
}


# --- measuring -----------------------------------------------------------------------------------------------------


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measure each system; the result is written after each."""
    make: dict[str, Callable[[], Problem]] = {
        "planted": lambda: planted(options.vectors, options.width, 3 * options.points, 0, options.noise),
        "texts": lambda: of_texts(options.texts, options.vectors, 3 * options.points, 0),
        "network": lambda: of_network(options.vectors, options.width, 3 * options.points, 0),
        "embeddings": lambda: of_embeddings(options.vectors, options.width, 3 * options.points, 0),
    }
    problem = make[options.kind]()._replace(n_cells=options.cells)
    n, width = problem.vectors.shape
    asked = {name: getattr(options, name) for name in ("recall", "k", "kind", "noise")}
    report = head(threads=1, vectors=n, width=width, **asked)
    exact = exact_topk(problem.points, problem.vectors, problem.bias, options.k, 1)[0]
    for name in options.systems:
        report["runs"].append({"system": name, **_run(name, problem, exact, options)})
        keep(report, options.out)
        print(report["runs"][-1], file=sys.stderr, flush=True)
        gc.collect()
    return report


def _run(name: str, problem: Problem, exact: I32, options: argparse.Namespace) -> dict[str, Any]:
    load, began = load_average(), time.process_time()
    index = SYSTEMS[name](problem)
    built = time.process_time() - began
    is_ours = isinstance(index, Exact | CellIndex | CellsOfPoints | TableIndex)
    weight, bias, points = problem.vectors, problem.bias, problem.points if is_ours else problem.extended()[1]
    held = 2 * options.points
    if isinstance(index, CellIndex | CellsOfPoints):
        index.calibrate_candidates(points[:held], weight, bias, exact[:held], options.recall)
    found = calibrate(index, points[:held], weight, bias, exact[:held], options.recall)
    points, exact, y = points[held:], exact[held:], problem.y[held:]
    labels, walls, cpus = [], [], []
    for i in range(options.points):
        one = points[i : i + 1]
        cpu, wall = time.process_time(), time.perf_counter()
        labels.append(index.topk(one, weight, bias, options.k, found.effort)[0][0])
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    best = np.array(labels)
    return {
        "load_average_before": load,
        "build_cpu_s": built,
        "index_mb": index.nbytes / 1e6,
        "effort": found.effort,
        **({"candidates": index.n_candidates} if isinstance(index, CellIndex | CellsOfPoints) else {}),
        "calibrated_recall": found.recall,
        "recall": share_found(exact, best),
        "P@1": float((best[:, 0] == y).mean()),
        "exact_P@1": float((exact[:, 0] == y).mean()),
        "wall_ms_p50": float(1e3 * np.median(walls)),
        "wall_ms_p99": float(1e3 * np.quantile(walls, 0.99)),
        "cpu_ms_p50": float(1e3 * np.median(cpus)),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000,
    }


def markdown(report: dict[str, Any]) -> str:
    """Return a table with a row for each system."""
    lines = [
        setting(report),
        "",
        f"{report['vectors']:,} {report['kind']} vectors of {report['width']} numbers, k={report['k']}, recall "
        f"{report['recall']} asked for. P@1 of exact scoring: {report['runs'][0]['exact_P@1']:.3f}.",
        "",
        f"| system | one point ms, p50 / p99 | CPU ms, p50 | recall@{report['k']} | P@1 | build CPU s | index MB |",
        "|---" * 7 + "|",
    ]
    return "\n".join([*lines, *map(_row, report["runs"])])


def _row(run: dict[str, Any]) -> str:
    cells = [
        run["system"],
        f"{run['wall_ms_p50']:.3f} / {run['wall_ms_p99']:.3f}",
        *(f"{run[name]:.3f}" for name in ("cpu_ms_p50", "recall", "P@1")),
        *(f"{run[name]:,.0f}" for name in ("build_cpu_s", "index_mb")),
    ]
    return f"| {' | '.join(cells)} |"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", type=int, default=200_000)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--kind", choices=["planted", "texts", "network", "embeddings"], default="planted")
    parser.add_argument("--texts", type=Path, help="a file with a text per line")
    parser.add_argument("--noise", type=float, default=1.5, help="of planted points, relative to a vector's length")
    parser.add_argument("--k", type=int, default=1)
    parser.add_argument("--recall", type=float, default=0.98)
    parser.add_argument("--points", type=int, default=1000, help="points that are timed; twice as many calibrate")
    parser.add_argument("--cells", type=int, help="number of cells; by default four times the root of the vectors")
    parser.add_argument("--systems", type=names, default=list(SYSTEMS))
    parser.add_argument("--out", type=Path, default=Path("bench/results/finding.json"))
    parser.add_argument("--show", type=Path)
    parser.set_defaults(threads=1)
    return parser.parse_args()


if __name__ == "__main__":
    present(_options(), measure, markdown)
