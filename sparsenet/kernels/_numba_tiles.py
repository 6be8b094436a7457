"""Sparse batches and dense tiles, in Numba; the dense product is NumPy's."""

from __future__ import annotations

import numpy as np

from sparsenet.kernels._numba_common import (
    F32,
    I32,
    I64,
    checked,
    jit,
    parallel_for,
    product,
    single_threaded_blas,
)


@checked(indptr="ptr n+1 nnz", indices="i32 >=nnz", data="f32 >=nnz", dense="f32 d h", out="out f32 n h")
def csr_matmul(indptr: I64, indices: I32, data: F32, dense: F32, out: F32, threads: int) -> None:
    """See `sparsenet/_core.pyi`."""
    parallel_for(_csr_matmul, len(out), threads, indptr, indices, data, dense, out, grain=16)


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
    slots="out i32 d",
    features="out i32 >=nnz",
    starts="out i64 >=nnz+1",
    rows="out i32 >=nnz",
    values="out f32 >=nnz",
)
def transpose_batch(
    indptr: I64, indices: I32, data: F32, slots: I32, features: I32, starts: I64, rows: I32, values: F32
) -> int:
    """See `sparsenet/_core.pyi`."""
    return int(_transpose_batch(indptr, indices, data, slots, features, starts, rows, values))


@jit
def _transpose_batch(
    indptr: I64, indices: I32, data: F32, slots: I32, features: I32, starts: I64, rows: I32, values: F32
) -> int:
    present = 0
    starts[0] = 0
    for j in range(indptr[-1]):
        slot = slots[indices[j]]
        if slot < 0:
            slot = present
            slots[indices[j]] = slot
            features[slot] = indices[j]
            present += 1
            starts[present] = 0
        starts[slot + 1] += 1
    for s in range(present):
        starts[s + 1] += starts[s]
    # starts[s] is the write cursor of slot s, which leaves it where slot s + 1 starts.
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


MATMUL_ROWS = 64  # of a task: fewer lose speed, more leave small products to one thread


@checked(a="f32 _ _", b="f32 _ _", out="out f32 _ _", a_rows="i32? _", b_rows="i32? _")
def matmul(
    a: F32,
    b: F32,
    out: F32,
    a_rows: I32 | None,
    b_rows: I32 | None,
    transpose_a: bool,
    transpose_b: bool,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    # The product of the shapes comes first: a gather is a copy, and bad shapes should not pay for it.
    m, depth = _shape(a, a_rows, transpose_a)
    b_depth, n = _shape(b, b_rows, transpose_b)
    if depth != b_depth:
        raise ValueError(f"b does not fit a: the inner extents are {depth} and {b_depth}")
    if out.shape != (m, n):
        raise ValueError(f"out has shape {out.shape}, expected {(m, n)}")
    left, right = (x if rows is None else x[rows] for x, rows in ((a, a_rows), (b, b_rows)))
    left, right = left.T if transpose_a else left, right.T if transpose_b else right
    with single_threaded_blas():
        parallel_for(_matmul, -(-m // MATMUL_ROWS), threads, left, right, out)


def _shape(x: F32, rows: I32 | None, transpose: bool) -> tuple[int, int]:
    shape = (len(x) if rows is None else len(rows), x.shape[1])
    return shape[::-1] if transpose else shape


def _matmul(first: int, last: int, left: F32, right: F32, out: F32) -> None:
    for block in range(first, last):
        rows = slice(block * MATMUL_ROWS, (block + 1) * MATMUL_ROWS)
        product(left[rows], right, out[rows])


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
