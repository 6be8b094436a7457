"""Products and gathers of sparse matrices in Numba."""

from __future__ import annotations

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.types import F32, I8, I32, I64, U16


@checked(indptr="ptr n+1 nnz", indices="i32 >=nnz", data="f32 >=nnz", dense="f32 d h", out="out f32 n h")
def csr_matmul(indptr: I64, indices: I32, data: F32, dense: F32, out: F32, threads: int) -> None:
    """See `sparsenet/_core.pyi`."""
    parallel_for(_csr_matmul, len(out), threads, indptr, indices, data, dense, out, grain=16)


@checked(indptr="ptr n+1 nnz", indices="i32 >=nnz", data="f32 >=nnz", codes="i8 d h", steps="u16 d", out="out f32 n h")
def csr_matmul_narrow(indptr: I64, indices: I32, data: F32, codes: I8, steps: U16, out: F32, threads: int) -> None:
    """See `sparsenet/_core.pyi`."""
    entries = indices[: indptr[-1]]
    arguments = (indptr, indices, data, codes, floats_of(steps[entries]), out)
    parallel_for(_csr_matmul_narrow, len(out), threads, *arguments, grain=16)


@jit
def _csr_matmul_narrow(
    first: int, last: int, indptr: I64, indices: I32, data: F32, codes: I8, step_of_entry: F32, out: F32
) -> None:
    source = np.empty(out.shape[1], np.float32)
    for i in range(first, last):
        row = out[i]
        row[:] = 0
        for j in range(indptr[i], indptr[i + 1]):
            x, step, code = data[j], step_of_entry[j], codes[indices[j]]
            for c in range(row.size):
                source[c] = step * np.float32(code[c])
            for c in range(row.size):
                row[c] += x * source[c]


def floats_of(upper_halves: U16) -> F32:
    """Return floats by the upper halves of their bits."""
    return (upper_halves.astype(np.uint32) << np.uint32(16)).view(np.float32)


@jit
def _csr_matmul(first: int, last: int, indptr: I64, indices: I32, data: F32, dense: F32, out: F32) -> None:
    for i in range(first, last):
        row = out[i]
        row[:] = 0
        for j in range(indptr[i], indptr[i + 1]):
            x, source = data[j], dense[indices[j]]
            for c in range(row.size):
                row[c] += x * source[c]


@checked(
    indptr="ptr n+1 nnz",
    indices="i32 >=nnz",
    data="f32 >=nnz",
    before="i32 b",
    slots="out i32 d",
    features="out i32 >=nnz",
    starts="out i64 >=nnz+1",
    rows="out i32 >=nnz",
    values="out f32 >=nnz",
)
def transpose_batch(
    indptr: I64,
    indices: I32,
    data: F32,
    before: I32,
    slots: I32,
    features: I32,
    starts: I64,
    rows: I32,
    values: F32,
) -> int:
    """See `sparsenet/_core.pyi`."""
    slots[before] = -1
    return int(_transpose_batch(indptr, indices, data, slots, features, starts, rows, values))


@jit
def _transpose_batch(
    indptr: I64, indices: I32, data: F32, slots: I32, features: I32, starts: I64, rows: I32, values: F32
) -> int:
    present = 0
    starts[: indptr[-1] + 1] = 0
    for j in range(indptr[-1]):
        slot = slots[indices[j]]
        if slot < 0:
            slot = present
            slots[indices[j]] = slot
            features[slot] = indices[j]
            present += 1
        starts[slot + 1] += 1
    for s in range(present):
        starts[s + 1] += starts[s]
    # starts[s] is the write cursor of slot s; it ends up where slot s + 1 starts.
    for i in range(indptr.size - 1):
        for j in range(indptr[i], indptr[i + 1]):
            at = starts[slots[indices[j]]]
            rows[at] = i
            values[at] = data[j]
            starts[slots[indices[j]]] = at + 1
    for s in range(present, 0, -1):
        starts[s] = starts[s - 1]
    starts[0] = 0
    return present


@checked(
    indptr="ptr n+1 nnz",
    indices="i32 >=nnz",
    data="f32 >=nnz",
    rows="i64 m",
    out_indptr="ptr m+1 taken",
    out_indices="out i32 >=taken",
    out_data="out f32 >=taken",
)
def take_rows(
    indptr: I64, indices: I32, data: F32, rows: I64, out_indptr: I64, out_indices: I32, out_data: F32
) -> None:
    """See `sparsenet/_core.pyi`."""
    _take_rows(indptr, indices, data, rows, out_indptr, out_indices, out_data)


@jit
def _take_rows(
    indptr: I64, indices: I32, data: F32, rows: I64, out_indptr: I64, out_indices: I32, out_data: F32
) -> None:
    for i in range(rows.size):
        begin = indptr[rows[i]]
        for j in range(out_indptr[i], out_indptr[i + 1]):
            source = begin + j - out_indptr[i]
            out_indices[j] = indices[source]
            out_data[j] = data[source]


@checked(starts="ptr p+1 nnz", rows="i32 >=nnz", values="f32 >=nnz", dense_of="i32 p", dense="out f32 k n")
def spread_postings(starts: I64, rows: I32, values: F32, dense_of: I32, dense: F32) -> None:
    """See `sparsenet/_core.pyi`."""
    _spread_postings(starts, rows, values, dense_of, dense)


@jit
def _spread_postings(starts: I64, rows: I32, values: F32, dense_of: I32, dense: F32) -> None:
    dense[:] = 0
    for s in range(dense_of.size):
        if dense_of[s] >= 0:
            row = dense[dense_of[s]]
            for j in range(starts[s], starts[s + 1]):
                row[rows[j]] = values[j]


@checked(indptr="ptr n+1 nnz", ids="i32 nnz", hidden="f32 n h", weight="f32 L h", out="out f32 nnz")
def pair_dot(indptr: I64, ids: I32, hidden: F32, weight: F32, out: F32, threads: int) -> None:
    """See `sparsenet/_core.pyi`."""
    parallel_for(_pair_dot, len(hidden), threads, indptr, ids, hidden, weight, out)


@jit
def _pair_dot(first: int, last: int, indptr: I64, ids: I32, hidden: F32, weight: F32, out: F32) -> None:
    for i in range(first, last):
        point = hidden[i]
        for j in range(indptr[i], indptr[i + 1]):
            row = weight[ids[j]]
            total = np.float32(0)
            for c in range(point.size):
                total += point[c] * row[c]
            out[j] = total
