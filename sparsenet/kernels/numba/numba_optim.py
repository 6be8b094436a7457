"""Optimizers that update only given rows of a parameter, in Numba."""

from __future__ import annotations

import math

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.numba.numba_sparse import _csr_matmul
from sparsenet.kernels.types import F32, I32, I64

GRAIN = 512  # rows in a range of work, and rows of a product held at a time


@checked(value="out f32 R h", rows="i64 m", grads="f32 m h")
def sgd_rows(value: F32, rows: I64, grads: F32, rate: float, decay: float, threads: int) -> None:
    """See `sparsenet/_core.pyi`."""
    parallel_for(_sgd, len(rows), threads, value, rows, grads, float(rate), float(decay), grain=GRAIN)


@jit
def _sgd(first: int, last: int, value: F32, rows: I64, grads: F32, rate: float, decay: float) -> None:
    rate32, decay32 = np.float32(rate), np.float32(decay)
    for i in range(first, last):
        row, grad = value[rows[i]], grads[i]
        for j in range(row.size):
            row[j] -= rate32 * (grad[j] + decay32 * row[j])


@checked(value="out f32 R h", squares="out f32 R h", rows="i64 m", grads="f32 m h")
def adagrad_rows(
    value: F32, squares: F32, rows: I64, grads: F32, rate: float, epsilon: float, decay: float, threads: int
) -> None:
    """See `sparsenet/_core.pyi`."""
    scalars = (float(rate), float(epsilon), float(decay))
    parallel_for(_adagrad, len(rows), threads, value, squares, rows, grads, *scalars, grain=GRAIN)


@jit
def _adagrad(
    first: int,
    last: int,
    value: F32,
    squares: F32,
    rows: I64,
    grads: F32,
    rate: float,
    epsilon: float,
    decay: float,
) -> None:
    rate32, epsilon32, decay32 = np.float32(rate), np.float32(epsilon), np.float32(decay)
    for i in range(first, last):
        row, square, grad = value[rows[i]], squares[rows[i]], grads[i]
        for j in range(row.size):
            g = grad[j] + decay32 * row[j]
            square[j] += g * g
            row[j] -= rate32 * g / (np.sqrt(square[j]) + epsilon32)


@checked(
    value="out f32 R h",
    first="out f32 R h",
    second="out f32 R h",
    last_step="out i32 R",
    rows="i64 m",
    grads="f32 m h",
)
def adam_rows(
    value: F32,
    first: F32,
    second: F32,
    last_step: I32,
    rows: I64,
    grads: F32,
    step: int,
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    state = (value, first, second, last_step, rows, grads)
    scalars = _checked_step(step, rate, beta1, beta2, epsilon, decay)
    parallel_for(_adam, len(rows), threads, *state, *scalars, grain=GRAIN)


def _checked_step(step: int, *rates: float) -> tuple[int | float, ...]:
    """Check and convert the scalar arguments of an Adam step for the compiled functions."""
    if step < 1:
        raise ValueError(f"step counts from 1, got {step}")
    return (int(step), *map(float, rates))


@checked(
    value="out f32 R h",
    first="out f32 R h",
    second="out f32 R h",
    last_step="out i32 R",
    rows="i64 m",
    indptr="ptr m+1 nnz",
    indices="i32 >=nnz",
    data="f32 >=nnz",
    dense="f32 n h",
)
def adam_product(
    value: F32,
    first: F32,
    second: F32,
    last_step: I32,
    rows: I64,
    indptr: I64,
    indices: I32,
    data: F32,
    dense: F32,
    step: int,
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    state = (value, first, second, last_step, rows, indptr, indices, data, dense)
    scalars = _checked_step(step, rate, beta1, beta2, epsilon, decay)
    parallel_for(_adam_product, len(rows), threads, *state, *scalars, grain=GRAIN)


def _adam_product(
    begin: int,
    end: int,
    value: F32,
    first: F32,
    second: F32,
    last_step: I32,
    rows: I64,
    indptr: I64,
    indices: I32,
    data: F32,
    dense: F32,
    step: int,
    *rates: float,
) -> None:
    # Not compiled as a whole: fused, the two functions might round differently than each alone.
    grads = np.empty((min(GRAIN, end - begin), value.shape[1]), np.float32)
    for i in range(begin, end, GRAIN):
        count = min(GRAIN, end - i)
        _csr_matmul(0, count, indptr[i:], indices, data, dense, grads)
        _adam(0, count, value, first, second, last_step, rows[i:], grads, step, *rates)


@jit
def _adam(
    begin: int,
    end: int,
    value: F32,
    first: F32,
    second: F32,
    last_step: I32,
    rows: I64,
    grads: F32,
    step: int,
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
) -> None:
    # Bias correction is folded into constants: rate * m_hat / (sqrt(v_hat) + epsilon).
    move = np.float32(rate / (1.0 - beta1**step))
    second_scale = np.float32(1.0 / (1.0 - beta2**step))
    keep = np.float32(1.0 - rate * decay)
    epsilon32 = np.float32(epsilon)
    new1, new2 = np.float32(1.0 - beta1), np.float32(1.0 - beta2)
    for i in range(begin, end):
        r = rows[i]
        elapsed = step - last_step[r]
        old1, old2 = np.float32(math.pow(beta1, elapsed)), np.float32(math.pow(beta2, elapsed))
        row, m, v, grad = value[r], first[r], second[r], grads[i]
        for j in range(row.size):
            m[j] = old1 * m[j] + new1 * grad[j]
            v[j] = old2 * v[j] + new2 * grad[j] * grad[j]
            row[j] = keep * row[j] - move * m[j] / (np.sqrt(v[j] * second_scale) + epsilon32)
        last_step[r] = step
