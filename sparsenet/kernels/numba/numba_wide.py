"""Kernels of the wide path, sparse weights from features to labels, in Numba."""

from __future__ import annotations

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, close_gaps, jit, parallel_for
from sparsenet.kernels.numba.numba_heap import make_heap, replace_worst, sort_heap
from sparsenet.kernels.types import F32, I32, I64


@checked(
    label_indptr="ptr L+1 p",
    label_points="i32 p",
    indptr="ptr n+1 nnz",
    indices="i32 >=nnz",
    data="f32 >=nnz",
    budget="i64 L",
    starts="ptr L+1 room",
    out_indices="out i32 room",
    out_data="out f32 room",
    out_ends="out i64 L",
)
def label_centroids(
    label_indptr: I64,
    label_points: I32,
    indptr: I64,
    indices: I32,
    data: F32,
    n_features: int,
    budget: I64,
    starts: I64,
    out_indices: I32,
    out_data: F32,
    out_ends: I64,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    points = (label_indptr, label_points, indptr, indices, data)
    out = (budget, starts, out_indices, out_data, out_ends)
    parallel_for(_label_centroids, len(budget), threads, *points, n_features, *out)
    close_gaps(starts, out_ends, out_indices, out_data)


@jit
def _label_centroids(
    first: int,
    last: int,
    label_indptr: I64,
    label_points: I32,
    indptr: I64,
    indices: I32,
    data: F32,
    n_features: int,
    budget: I64,
    starts: I64,
    out_indices: I32,
    out_data: F32,
    out_ends: I64,
) -> None:
    # Accumulate in a dense array, and list the features present, so that only those are cleared.
    total, present = np.zeros(n_features, np.float32), np.zeros(n_features, np.bool_)
    features, magnitudes = np.empty(n_features, np.int32), np.empty(n_features, np.float32)
    for label in range(first, last):
        count = 0
        for p in range(label_indptr[label], label_indptr[label + 1]):
            for j in range(indptr[label_points[p]], indptr[label_points[p] + 1]):
                f = indices[j]
                if not present[f]:
                    present[f] = True
                    features[count] = f
                    count += 1
                total[f] += data[j]
        kept = _keep_largest(total, features[:count], magnitudes[:count], min(budget[label], count))
        at = starts[label]
        for i in range(kept):
            out_indices[at + i], out_data[at + i] = features[i], total[features[i]]
        out_ends[label] = kept
        for p in range(label_indptr[label], label_indptr[label + 1]):
            for j in range(indptr[label_points[p]], indptr[label_points[p] + 1]):
                total[indices[j]], present[indices[j]] = 0, False


@jit
def _keep_largest(total: F32, features: I32, magnitudes: F32, budget: int) -> int:
    """Bring the `budget` features with the largest sums to the front, in ascending order; return their number."""
    if budget <= 0:
        return 0
    for i in range(features.size):
        magnitudes[i] = abs(total[features[i]])
    kept, worst = features[:budget], magnitudes[:budget]
    if budget < features.size:
        make_heap(kept, worst)
        for i in range(budget, features.size):
            if magnitudes[i] > worst[0] or (magnitudes[i] == worst[0] and features[i] < kept[0]):
                replace_worst(kept, worst, features[i], magnitudes[i])
    # With equal scores the heap sorts by id, so features ascend.
    worst[:] = 0
    make_heap(kept, worst)
    sort_heap(kept, worst)
    return budget


@checked(
    active="i32 a",
    indptr="ptr L+1 nnz",
    indices="i32 >=nnz",
    slots="i32 _",
    touched_indptr="out i64 a+1",
    touched="out i64 _",
    touched_slots="out i32 _",
)
def wide_touch(
    active: I32,
    indptr: I64,
    indices: I32,
    slots: I32,
    touched_indptr: I64,
    touched: I64,
    touched_slots: I32,
    threads: int,
) -> int:
    """See `sparsenet/_core.pyi`."""
    support = int((indptr[1:][active] - indptr[active]).sum())
    for name, array in (("touched", touched), ("touched_slots", touched_slots)):
        if len(array) < support:
            raise ValueError(f"{name} has shape[0] = {len(array)}, expected at least {support}, the active support")
    batch = (active, indptr, indices, slots, touched_indptr)
    touched_indptr[0] = 0
    parallel_for(_wide_count, len(active), threads, *batch, grain=64)
    np.cumsum(touched_indptr, out=touched_indptr)
    parallel_for(_wide_touch, len(active), threads, *batch, touched, touched_slots, grain=64)
    return int(touched_indptr[-1])


@jit
def _wide_count(first: int, last: int, active: I32, indptr: I64, indices: I32, slots: I32, counts: I64) -> None:
    for label in range(first, last):
        count = 0
        for j in range(indptr[active[label]], indptr[active[label] + 1]):
            count += slots[indices[j]] >= 0
        counts[label + 1] = count


@jit
def _wide_touch(
    first: int,
    last: int,
    active: I32,
    indptr: I64,
    indices: I32,
    slots: I32,
    touched_indptr: I64,
    touched: I64,
    touched_slots: I32,
) -> None:
    for label in range(first, last):
        at, room = touched_indptr[label], touched_indptr[label + 1]
        # Write every entry, but advance only for present features: a branch would be hard to predict.
        for j in range(indptr[active[label]], indptr[active[label] + 1]):
            if at == room:
                break
            slot = slots[indices[j]]
            touched[at], touched_slots[at] = j, slot
            at += slot >= 0


@checked(
    touched_indptr="ptr a+1 t",
    touched="i64 >=t",
    touched_slots="i32 >=t",
    weights="f32 _",
    starts="ptr p+1 e",
    rows="i32 >=e",
    values="f32 >=e",
    dense_of="i32 p",
    dense="f32 k n",
    out="out f32 a n",
)
def wide_forward(
    touched_indptr: I64,
    touched: I64,
    touched_slots: I32,
    weights: F32,
    starts: I64,
    rows: I32,
    values: F32,
    dense_of: I32,
    dense: F32,
    out: F32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    wide = (touched_indptr, touched, touched_slots, weights)
    parallel_for(_wide_forward, len(out), threads, *wide, starts, rows, values, dense_of, dense, out, grain=64)


@jit
def _wide_forward(
    first: int,
    last: int,
    touched_indptr: I64,
    touched: I64,
    touched_slots: I32,
    weights: F32,
    starts: I64,
    rows: I32,
    values: F32,
    dense_of: I32,
    dense: F32,
    out: F32,
) -> None:
    for label in range(first, last):
        scores = out[label]
        for t in range(touched_indptr[label], touched_indptr[label + 1]):
            slot, weight = touched_slots[t], weights[touched[t]]
            if dense_of[slot] >= 0:
                row = dense[dense_of[slot]]
                for i in range(scores.size):
                    scores[i] += weight * row[i]
            else:
                for j in range(starts[slot], starts[slot + 1]):
                    scores[rows[j]] += weight * values[j]


@checked(
    touched_indptr="ptr a+1 t",
    touched="i64 >=t",
    touched_slots="i32 >=t",
    starts="ptr p+1 e",
    rows="i32 >=e",
    values="f32 >=e",
    dense_of="i32 p",
    dense="f32 k n",
    grad="f32 a n",
    out="out f32 >=t",
)
def wide_gradient(
    touched_indptr: I64,
    touched: I64,
    touched_slots: I32,
    starts: I64,
    rows: I32,
    values: F32,
    dense_of: I32,
    dense: F32,
    grad: F32,
    out: F32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    batch = (touched_indptr, touched_slots, starts, rows, values, dense_of, dense)
    parallel_for(_wide_gradient, len(grad), threads, *batch, grad, out, grain=64)


@jit
def _wide_gradient(
    first: int,
    last: int,
    touched_indptr: I64,
    touched_slots: I32,
    starts: I64,
    rows: I32,
    values: F32,
    dense_of: I32,
    dense: F32,
    grad: F32,
    out: F32,
) -> None:
    for label in range(first, last):
        row = grad[label]
        for t in range(touched_indptr[label], touched_indptr[label + 1]):
            slot, total = touched_slots[t], np.float32(0)
            if dense_of[slot] >= 0:
                dense_row = dense[dense_of[slot]]
                for i in range(row.size):
                    total += row[i] * dense_row[i]
            else:
                for j in range(starts[slot], starts[slot + 1]):
                    total += row[rows[j]] * values[j]
            out[t] = total
