"""Nearest training points, and the votes of their labels, in Numba."""

from __future__ import annotations

import numpy as np

from sparsenet.kernels.numba.numba_common import check_array, checked, jit, parallel_for
from sparsenet.kernels.numba.numba_heap import replace_worst, sort_heap
from sparsenet.kernels.numba.numba_sparse import floats_of
from sparsenet.kernels.types import F32, I8, I32, I64, U16


@checked(
    indptr="ptr n+1 nnz",
    indices="i32 >=nnz",
    data="f32 >=nnz",
    index_indptr="ptr d+1 w",
    index_steps="u16? d",
    out_points="out i32 n k",
    out_products="out f32 n k",
)
def nearest_points(
    indptr: I64,
    indices: I32,
    data: F32,
    index_indptr: I64,
    index_points: I32 | U16,
    index_weights: F32 | I8,
    index_steps: U16 | None,
    n_others: int,
    most: int,
    out_points: I32,
    out_products: F32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    is_narrow, sizes = index_steps is not None, {"w": int(index_indptr[-1])}
    is_short = is_narrow and getattr(index_points, "dtype", None) == np.uint16
    check_array("index_points", index_points, ["u16" if is_short else "i32", ">=w"], sizes)
    check_array("index_weights", index_weights, ["i8" if is_narrow else "f32", ">=w"], sizes)
    if out_points.shape[1] < 1:
        raise ValueError("out_points must have a column")
    steps = np.ones(len(data), np.float32) if index_steps is None else floats_of(index_steps[indices])
    points, index = (indptr, indices, data), (index_indptr, index_points, index_weights, steps)
    parallel_for(_nearest_points, len(out_points), threads, *points, *index, n_others, most, out_points, out_products)


@jit
def _nearest_points(
    first: int,
    last: int,
    indptr: I64,
    indices: I32,
    data: F32,
    index_indptr: I64,
    index_points: I32 | U16,
    index_weights: F32 | I8,
    step_of_entry: F32,
    n_others: int,
    most: int,
    out_points: I32,
    out_products: F32,
) -> None:
    products = np.zeros(n_others, np.float32)
    for i in range(first, last):
        for j in _strongest_entries(indptr[i], indptr[i + 1], indices, data, index_indptr, most):
            for at in range(index_indptr[indices[j]], index_indptr[indices[j] + 1]):
                products[index_points[at]] += data[j] * (step_of_entry[j] * np.float32(index_weights[at]))
        # All zeros are a valid heap. Other points arrive in ascending order, so a tie with the worst loses.
        points, best = out_points[i], out_products[i]
        points[:], best[:] = 0, 0
        for other in range(n_others):
            if products[other] > best[0]:
                replace_worst(points, best, other, products[other])
            products[other] = 0
        sort_heap(points, best)


@jit
def _strongest_entries(begin: int, end: int, indices: I32, data: F32, index_indptr: I64, most: int) -> I64:
    """Return the entries of a point to look up: all, or the largest per posting, up to `most` postings."""
    entries = np.arange(begin, end)
    counts = np.empty(end - begin, np.int64)
    worth = np.empty(end - begin, np.float32)
    for j in entries:
        counts[j - begin] = index_indptr[indices[j] + 1] - index_indptr[indices[j]]
        size = abs(data[j])
        worth[j - begin] = size / np.float32(max(counts[j - begin], 1)) if size >= 0 else 0
    if counts.sum() <= most:
        return entries
    order = np.argsort(-worth, kind="mergesort")
    n = 0
    for at in order:
        most -= counts[at]
        if most < 0:
            break
        n += 1
    return begin + order[:n]


@checked(
    indptr="ptr n+1 nnz",
    indices="i32 >=nnz",
    data="f32 >=nnz",
    label_indptr="ptr m+1 w",
    label_ids="i32 >=w",
    label_weights="f32 >=w",
    wanted="i32 n c",
    out="out f32 n c",
)
def neighbor_votes(
    indptr: I64,
    indices: I32,
    data: F32,
    label_indptr: I64,
    label_ids: I32,
    label_weights: F32,
    n_labels: int,
    wanted: I32,
    out: F32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    neighbors, labels = (indptr, indices, data), (label_indptr, label_ids, label_weights)
    parallel_for(_neighbor_votes, len(out), threads, *neighbors, *labels, n_labels, wanted, out)


@jit
def _neighbor_votes(
    first: int,
    last: int,
    indptr: I64,
    indices: I32,
    data: F32,
    label_indptr: I64,
    label_ids: I32,
    label_weights: F32,
    n_labels: int,
    wanted: I32,
    out: F32,
) -> None:
    sums = np.zeros(n_labels, np.float32)
    for i in range(first, last):
        for j in range(indptr[i], indptr[i + 1]):
            for at in range(label_indptr[indices[j]], label_indptr[indices[j] + 1]):
                sums[label_ids[at]] += data[j] * label_weights[at]
        for c in range(wanted.shape[1]):
            out[i, c] = sums[wanted[i, c]]
        for j in range(indptr[i], indptr[i + 1]):
            for at in range(label_indptr[indices[j]], label_indptr[indices[j] + 1]):
                sums[label_ids[at]] = 0
