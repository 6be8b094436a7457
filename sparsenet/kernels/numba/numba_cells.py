"""Search in coarse cells, in Numba."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.numba.numba_heap import make_heap, replace_worst
from sparsenet.kernels.types import F32, I8, I16, I32, I64, U8

#: Centroids and their scales, starts, codebook, unit and blocks, as the kernels take them.
Cells = tuple[I8, F32, I64, I16, np.float32, U8]
#: The numbers of cells to scan, of candidates and of results.
Limits = tuple[int, int, int]


@checked(
    queries="f32 n h",
    centroids="i8 C h",
    centroid_scales="f32 C",
    starts="ptr C+1 E",
    codebook="i16 g 16 m",
    blocks="u8 b g 16",
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
    codebook: I16,
    unit: float,
    blocks: U8,
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
    cells = (centroids, centroid_scales, starts, codebook, np.float32(unit), blocks)
    limits = _limits(cells, n_probes, n_candidates, out_labels, "out_labels")
    outputs = out_labels, out_scores, out_scanned
    parallel_for(_search, len(queries), threads, queries, cells, labels, weight, bias, limits, *outputs)


@checked(
    queries="f32 n h",
    centroids="i8 C h",
    centroid_scales="f32 C",
    starts="ptr C+1 E",
    codebook="i16 g 16 m",
    blocks="u8 b g 16",
    lengths="f32 C",
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
    starts: I64,
    codebook: I16,
    unit: float,
    blocks: U8,
    lengths: F32,
    codes: I8,
    scales: F32,
    n_probes: int,
    n_candidates: int,
    out_positions: I32,
    out_scores: F32,
    out_scanned: I64,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    cells = (centroids, centroid_scales, starts, codebook, np.float32(unit), blocks)
    limits = _limits(cells, n_probes, n_candidates, out_positions, "out_positions")
    outputs = out_positions, out_scores, out_scanned
    parallel_for(_nearest, len(queries), threads, queries, cells, lengths, codes, scales, limits, *outputs)


def _limits(cells: Cells, n_probes: int, n_candidates: int, out: I32, name: str) -> tuple[int, int, int]:
    """Check what both searches share; return the numbers of cells, candidates and results."""
    centroids, _, starts, codebook, _, blocks = cells
    if len(blocks) != (starts[-1] + 31) // 32:
        raise ValueError(f"blocks must be {(starts[-1] + 31) // 32} of 32 entries, got {len(blocks)}")
    if len(codebook) % 4 != 0 or len(codebook) > 65535:
        raise ValueError(f"codebook must have a multiple of 4 groups, at most 65535, got {len(codebook)}")
    if out.shape[1] < 1:
        raise ValueError(f"{name} must have a column")
    if len(centroids) < 1:
        raise ValueError("centroids must have a row")
    if n_probes < 1:
        raise ValueError(f"n_probes must be at least 1, got {n_probes}")
    if not out.shape[1] <= n_candidates < 2**31:
        raise ValueError(f"n_candidates must be from {out.shape[1]} to {2**31 - 1}, got {n_candidates}")
    return min(n_probes, len(centroids)), n_candidates, out.shape[1]


@jit
def _search(
    first: int,
    last: int,
    queries: F32,
    cells: Cells,
    labels: I32,
    weight: F32,
    bias: F32,
    limits: Limits,
    out_labels: I32,
    out_scores: F32,
    out_scanned: I64,
) -> None:
    is_found, rounded = np.zeros(bias.size, np.bool_), np.empty(queries.shape[1], np.int16)
    cell_scores, no_lengths = np.empty(len(cells[0]), np.float32), np.zeros(len(cells[0]), np.float32)
    for i in range(first, last):
        factor = _round(queries[i], rounded)
        found, out_scanned[i] = _collect(rounded, factor, cells, no_lengths, labels, limits, cell_scores, is_found)
        exact = np.empty(found.size, np.float32)
        for c in range(found.size):
            total = np.float32(0)
            row = weight[found[c]]
            for h in range(row.size):
                total += queries[i, h] * row[h]
            exact[c] = total + bias[found[c]]
            if exact[c] != exact[c]:
                exact[c] = -np.inf
        _write(found, exact, out_labels[i], out_scores[i])


@jit
def _nearest(
    first: int,
    last: int,
    queries: F32,
    cells: Cells,
    lengths: F32,
    codes: I8,
    scales: F32,
    limits: Limits,
    out_positions: I32,
    out_scores: F32,
    out_scanned: I64,
) -> None:
    is_found, rounded = np.zeros(scales.size, np.bool_), np.empty(queries.shape[1], np.int16)
    cell_scores, positions = np.empty(len(cells[0]), np.float32), np.arange(scales.size).astype(np.int32)
    starts = cells[2]
    for i in range(first, last):
        factor = _round(queries[i], rounded)
        found, out_scanned[i] = _collect(rounded, factor, cells, lengths, positions, limits, cell_scores, is_found)
        scores = np.empty(found.size, np.float32)
        for c in range(found.size):
            at = found[c]
            cell = np.searchsorted(starts, at, side="right") - 1
            base = lengths[cell] * cell_scores[cell]
            scores[c] = np.float32(_product(rounded, codes[at])) * (factor * scales[at]) + base
        _write(found, scores, out_positions[i], out_scores[i])


@jit
def _collect(
    rounded: I16,
    factor: np.float32,
    cells: Cells,
    lengths: F32,
    labels: I32,
    limits: Limits,
    cell_scores: F32,
    is_found: NDArray[np.bool_],
) -> tuple[I32, int]:
    """Return the labels to score exactly, ascending, and the number of entries in the cells."""
    centroids, centroid_scales, starts, codebook, unit, blocks = cells
    wanted, n_candidates, k = limits
    order = _order_cells(rounded, factor, centroids, centroid_scales, cell_scores)
    bases = lengths * cell_scores
    tables, factor_of_code = _tables(rounded, factor, codebook, unit)
    while True:
        probes = order[:wanted]
        scanned = np.sum(starts[probes + 1] - starts[probes])
        is_found[:] = False
        if scanned <= n_candidates:
            for cell in probes:
                for at in range(starts[cell], starts[cell + 1]):
                    is_found[labels[at]] = True
            found = np.flatnonzero(is_found).astype(np.int32)
        else:
            found = _best_by_code(tables, factor_of_code, blocks, starts, labels, bases, probes, n_candidates, is_found)
        if found.size >= k or wanted == len(centroids):
            return found, scanned
        wanted = min(2 * wanted, len(centroids))


@jit
def _best_by_code(
    tables: U8,
    factor: np.float32,
    blocks: U8,
    starts: I64,
    labels: I32,
    bases: F32,
    probes: I64,
    n_candidates: int,
    is_found: NDArray[np.bool_],
) -> I32:
    """Return the labels with the best codes, ascending; scores are sums of bytes, and so exact."""
    best, best_scores, count = np.empty(n_candidates, np.int32), np.empty(n_candidates, np.float32), 0
    for cell in probes:
        for at in range(starts[cell], starts[cell + 1]):
            if is_found[labels[at]]:
                continue
            is_found[labels[at]] = True
            row, total = at % 32, np.int32(0)
            for group in range(len(tables)):
                total += tables[group, (blocks[at // 32, group, row % 16] >> (4 * (row // 16))) & 15]
            score = np.float32(total) * factor + bases[cell]
            if score > -np.inf:
                count = _offer(best, best_scores, count, labels[at], score)
    return np.sort(best[:count])


@jit
def _tables(rounded: I16, factor: np.float32, codebook: I16, unit: np.float32) -> tuple[U8, np.float32]:
    """Return the products of a query with the centroids of each group in 6 bits, and the value of 1."""
    n_groups, width = len(codebook), rounded.size
    products, longest = np.zeros((n_groups, 16), np.int64), np.int64(0)
    one = np.int64(min(np.float32(1) / factor, np.float32(2**40)))
    for group in range(n_groups):
        for code in range(16):
            for m in range(codebook.shape[2]):
                column = m * n_groups + group
                if column <= width:
                    value = np.int64(rounded[column]) if column < width else one
                    products[group, code] += value * np.int64(codebook[group, code, m])
        products[group] -= np.min(products[group])
        longest = max(longest, np.max(products[group]))
    largest, shift = min(63, 65535 // max(n_groups, 1)), 0
    while (longest + ((1 << shift) >> 1)) >> shift > largest:
        shift += 1
    tables = ((products + ((1 << shift) >> 1)) >> shift).astype(np.uint8)
    return tables, np.float32(math.ldexp(factor * unit, shift))


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
    """Round a query to 16 bits by a power of two; return the value of 1. No sum over bytes leaves 32 bits."""
    largest = np.float32(min((2**31 - 1) // (127 * max(query.size, 1)), 32767))
    peak, check = np.float32(0), np.float32(0)
    for h in range(query.size):
        peak = max(peak, abs(query[h]))
        check += query[h] * np.float32(0)
    rounded[:] = 0
    if not (check == 0 and peak > largest * np.finfo(np.float32).tiny):
        return np.float32(1)
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
