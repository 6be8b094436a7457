"""Losses over a tile of logits, and their gradients in place, in Numba."""

from __future__ import annotations

import math

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.types import F32, F64, I32, I64

# Sums of log(1 + e^-z) are the log of a product of up to LOG_BLOCK factors, none above 2, since logarithms are slow.
LOG_BLOCK = 512


@checked(
    logits="out f32 a n",
    positive_indptr="ptr a+1 m",
    positive_points="i32 >=m",
    positive_weights="f32 >=m",
    negative_weights="f32 a",
    losses="out f64 a",
)
def bce_gradient(
    logits: F32,
    positive_indptr: I64,
    positive_points: I32,
    positive_weights: F32,
    negative_weights: F32,
    smoothing: float,
    scale: float,
    losses: F64,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    positives = (positive_indptr, positive_points, positive_weights)
    scalars = (float(smoothing), float(scale))
    parallel_for(_bce, len(logits), threads, logits, *positives, negative_weights, *scalars, losses, grain=16)


@jit
def _bce(
    first: int,
    last: int,
    logits: F32,
    indptr: I64,
    points: I32,
    positive_weights: F32,
    negative_weights: F32,
    smoothing: float,
    scale: float,
    losses: F64,
) -> None:
    n = logits.shape[1]
    weights, targets = np.empty(n, np.float32), np.empty(n, np.float32)
    for label in range(first, last):
        row, negative, total = logits[label], negative_weights[label] * np.float32(scale), 0.0
        weights[:] = negative
        targets[:] = smoothing
        for j in range(indptr[label], indptr[label + 1]):
            i = points[j]
            weights[i], targets[i] = positive_weights[j] * np.float32(scale), 1.0 - smoothing
            total += (weights[i] - negative) * math.log1p(math.exp(-abs(row[i])))
        for start in range(0, n, LOG_BLOCK):
            block = slice(start, start + LOG_BLOCK)
            linear, product = _bce_block(row[block], weights[block], targets[block])
            total += linear + negative * math.log(product)
        losses[label] = total


@jit
def _bce_block(z: F32, weights: F32, targets: F32) -> tuple[float, float]:
    """Replace logits by gradients; return the linear part of the loss and the product of 1 + e^-|z|."""
    linear, product = 0.0, 1.0
    for i in range(z.size):
        # The argument of exp is never positive, so no logit overflows.
        e = math.exp(-abs(z[i]))
        product *= 1.0 + e
        linear += weights[i] * (max(z[i], np.float32(0)) - targets[i] * z[i])
        likelier = np.float32(1) / (np.float32(1) + e)
        probability = likelier if z[i] >= 0 else e * likelier
        z[i] = weights[i] * (probability - targets[i])
    return linear, product


@checked(
    logits="out f32 a n",
    positive_indptr="ptr a+1 m",
    positive_points="i32 >=m",
    positive_weights="f32 >=m",
    log_expected="f32 a",
    losses="out f64 n",
)
def softmax_gradient(
    logits: F32,
    positive_indptr: I64,
    positive_points: I32,
    positive_weights: F32,
    log_expected: F32,
    smoothing: float,
    scale: float,
    losses: F64,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    positives = (positive_indptr, positive_points, positive_weights)
    scalars = (float(smoothing), float(scale))
    parallel_for(_softmax, logits.shape[1], threads, logits, *positives, log_expected, *scalars, losses, grain=16)


@jit
def _softmax(
    first: int,
    last: int,
    logits: F32,
    indptr: I64,
    points: I32,
    positive_weights: F32,
    log_expected: F32,
    smoothing: float,
    scale: float,
    losses: F64,
) -> None:
    # Process columns [first, last) row by row. Sums are float64, since there may be many thousand labels.
    a, n = logits.shape[0], last - first
    highest, sums, target_score = np.full(n, -np.inf, np.float32), np.zeros(n), np.zeros(n)
    labelled = np.zeros(n, np.bool_)
    even, on_label = smoothing / a, 1.0 - smoothing
    for label in range(a):
        row = logits[label, first:last]
        for i in range(n):
            row[i] -= log_expected[label]
            highest[i] = max(highest[i], row[i])
            target_score[i] += even * row[i]
        for j in range(indptr[label], indptr[label + 1]):
            i = points[j] - first
            if 0 <= i < n:
                target_score[i] += on_label * positive_weights[j] * row[i]
                labelled[i] = True
    for label in range(a):
        row = logits[label, first:last]
        for i in range(n):
            row[i] = math.exp(row[i] - highest[i])
            sums[i] += row[i]
    for i in range(n):
        log_sum = highest[i] + math.log(sums[i])
        losses[first + i] = scale * (log_sum - target_score[i]) if labelled[i] else 0.0
    for label in range(a):
        row = logits[label, first:last]
        for i in range(n):
            row[i] = scale * (row[i] / sums[i] - even) if labelled[i] else 0.0
        for j in range(indptr[label], indptr[label + 1]):
            i = points[j] - first
            if 0 <= i < n:
                row[i] -= scale * on_label * positive_weights[j]
