"""Search in coarse cells, in Numba."""

from __future__ import annotations

import math

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.numba.numba_heap import make_heap, replace_worst
from sparsenet.kernels.types import F32, I8, I16, I32, I64


@checked(
    queries="f32 n h",
    centroids="i8 C h",
    centroid_scales="f32 C",
    starts="ptr C+1 E",
    codes="i8 E h",
    scales="f32 E",
    offsets="f32 E",
    labels="i32 E",
    bias="f32 L",
    weight="f32 L h",
    out_labels="out i32 n k",
    out_scores="out f32 n k",
    out_scanned="out i64 n",
)
def search_cells(
    queries: F32,
    centroids: I8,
    centroid_scales: F32,
    starts: I64,
    codes: I8,
    scales: F32,
    offsets: F32,
    labels: I32,
    weight: F32,
    bias: F32,
    n_probes: int,
    n_candidates: int,
    out_labels: I32,
    out_scores: F32,
    out_scanned: I64,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    if out_labels.shape[1] < 1:
        raise ValueError("out_labels must have a column")
    if len(centroids) < 1:
        raise ValueError("centroids must have a row")
    if n_probes < 1:
        raise ValueError(f"n_probes must be at least 1, got {n_probes}")
    if not out_labels.shape[1] <= n_candidates < 2**31:
        raise ValueError(f"n_candidates must be from {out_labels.shape[1]} to {2**31 - 1}, got {n_candidates}")
    entries = (starts, codes, scales, offsets, labels)
    limits = (min(n_probes, len(centroids)), n_candidates)
    outputs = (out_labels, out_scores, out_scanned)
    parallel_for(
        _search, len(queries), threads, queries, centroids, centroid_scales, *entries, weight, bias, *limits, *outputs
    )


@jit
def _search(
    first: int,
    last: int,
    queries: F32,
    centroids: I8,
    centroid_scales: F32,
    starts: I64,
    codes: I8,
    scales: F32,
    offsets: F32,
    labels: I32,
    weight: F32,
    bias: F32,
    n_probes: int,
    n_candidates: int,
    out_labels: I32,
    out_scores: F32,
    out_scanned: I64,
) -> None:
    n_cells, k = len(centroids), out_labels.shape[1]
    is_found, rounded = np.zeros(bias.size, np.bool_), np.empty(queries.shape[1], np.int16)
    best, best_scores = np.empty(n_candidates, np.int32), np.empty(n_candidates, np.float32)
    cell_scores = np.empty(n_cells, np.float32)
    for i in range(first, last):
        factor = _round(queries[i], rounded)
        order = _order_cells(rounded, factor, centroids, centroid_scales, cell_scores)
        wanted, count, done, scanned = n_probes, 0, 0, 0
        is_found[:] = False
        n_found = 0
        while done < wanted:
            cell = order[done]
            scanned += starts[cell + 1] - starts[cell]
            for at in range(starts[cell], starts[cell + 1]):
                score = np.float32(_product(rounded, codes[at])) * (factor * scales[at]) + offsets[at]
                if is_found[labels[at]] or not score > -np.inf:
                    continue
                is_found[labels[at]] = True
                n_found += 1
                count = _offer(best, best_scores, count, labels[at], score)
            done += 1
            if done == wanted and n_found < k:
                wanted = min(2 * wanted, n_cells)
        out_scanned[i] = scanned
        found, exact = np.sort(best[:count]), np.empty(count, np.float32)
        for c in range(count):
            total = np.float32(0)
            row = weight[found[c]]
            for h in range(row.size):
                total += queries[i, h] * row[h]
            exact[c] = total + bias[found[c]]
            if exact[c] != exact[c]:
                exact[c] = -np.inf
        _write(found, exact, out_labels[i], out_scores[i])


@checked(
    queries="f32 n h",
    centroids="i8 C h",
    centroid_scales="f32 C",
    lengths="f32 C",
    starts="ptr C+1 E",
    codes="i8 E h",
    scales="f32 E",
    out_positions="out i32 n k",
    out_scores="out f32 n k",
    out_scanned="out i64 n",
)
def nearest_in_cells(
    queries: F32,
    centroids: I8,
    centroid_scales: F32,
    lengths: F32,
    starts: I64,
    codes: I8,
    scales: F32,
    n_probes: int,
    out_positions: I32,
    out_scores: F32,
    out_scanned: I64,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    if out_positions.shape[1] < 1:
        raise ValueError("out_positions must have a column")
    if len(centroids) < 1:
        raise ValueError("centroids must have a row")
    if n_probes < 1:
        raise ValueError(f"n_probes must be at least 1, got {n_probes}")
    cells = (centroids, centroid_scales, lengths, starts, codes, scales, min(n_probes, len(centroids)))
    parallel_for(_nearest, len(queries), threads, queries, *cells, out_positions, out_scores, out_scanned)


@jit
def _nearest(
    first: int,
    last: int,
    queries: F32,
    centroids: I8,
    centroid_scales: F32,
    lengths: F32,
    starts: I64,
    codes: I8,
    scales: F32,
    n_probes: int,
    out_positions: I32,
    out_scores: F32,
    out_scanned: I64,
) -> None:
    k, rounded = out_positions.shape[1], np.empty(queries.shape[1], np.int16)
    best, best_scores = np.empty(k, np.int32), np.empty(k, np.float32)
    cell_scores = np.empty(len(centroids), np.float32)
    for i in range(first, last):
        factor = _round(queries[i], rounded)
        order = _order_cells(rounded, factor, centroids, centroid_scales, cell_scores)
        wanted, count, done, scanned = n_probes, 0, 0, 0
        while done < wanted:
            cell = order[done]
            base = lengths[cell] * cell_scores[cell]
            scanned += starts[cell + 1] - starts[cell]
            for at in range(starts[cell], starts[cell + 1]):
                score = np.float32(_product(rounded, codes[at])) * (factor * scales[at]) + base
                if score > -np.inf:
                    count = _offer(best, best_scores, count, at, score)
            done += 1
            if done == wanted and count < k:
                wanted = min(2 * wanted, len(centroids))
        out_scanned[i] = scanned
        by_position = np.argsort(best[:count], kind="mergesort")
        _write(best[by_position], best_scores[by_position], out_positions[i], out_scores[i])


@jit
def _order_cells(rounded: I16, factor: np.float32, centroids: I8, centroid_scales: F32, cell_scores: F32) -> I64:
    """Score the cells; return them with the largest products first, ties with the smaller number first."""
    for cell in range(len(centroids)):
        cell_scores[cell] = np.float32(_product(rounded, centroids[cell])) * (factor * centroid_scales[cell])
    return np.argsort(-cell_scores, kind="mergesort")


@jit
def _write(found: I32, exact: F32, out_labels: I32, out_scores: F32) -> None:
    """Write the best of the labels, which ascend: a stable sort breaks ties by the smaller one."""
    order = np.argsort(-exact, kind="mergesort")
    for r in range(out_labels.size):
        out_labels[r] = found[order[r]] if r < found.size else -1
        out_scores[r] = exact[order[r]] if r < found.size else -np.inf


@jit
def _offer(best: I32, best_scores: F32, count: int, label: int, score: float) -> int:
    """Add a label to a heap with room for `best.size`; return its new size."""
    if count < best.size:
        best[count], best_scores[count] = label, score
        if count + 1 == best.size:
            make_heap(best, best_scores)
        return count + 1
    if score > best_scores[0] or (score == best_scores[0] and label < best[0]):
        replace_worst(best, best_scores, label, score)
    return count


@jit
def _round(query: F32, rounded: I16) -> np.float32:
    """Round a query to 16 bits by a power of two; return the value of a unit. No sum over bytes leaves 32 bits."""
    largest = np.float32(min((2**31 - 1) // (127 * max(query.size, 1)), 32767))
    peak, check = np.float32(0), np.float32(0)
    for h in range(query.size):
        peak = max(peak, abs(query[h]))
        check += query[h] * np.float32(0)
    rounded[:] = 0
    if not (check == 0 and peak > largest * np.finfo(np.float32).tiny):
        return np.float32(0)
    unit = np.float32(math.ldexp(1.0, math.frexp(largest / peak)[1] - 1))
    for h in range(query.size):
        rounded[h] = np.int16(np.rint(query[h] * unit))
    return np.float32(1) / unit


@jit
def _product(x: I16, row: I8) -> np.int32:
    total = np.int32(0)
    for h in range(row.size):
        total += np.int32(x[h]) * np.int32(row[h])
    return total
