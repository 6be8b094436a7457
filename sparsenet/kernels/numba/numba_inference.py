"""Exact top-k inference over all labels in Numba."""

from __future__ import annotations

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.numba.numba_heap import make_heap, replace_worst, sort_heap
from sparsenet.kernels.numba.numba_matmul import Operand, multiply
from sparsenet.kernels.types import F32, I32, I64

# A tile of scores, 128 x 1024, stays in the L2 cache.
TILE_POINTS = 128
TILE_LABELS = 1024


@checked(
    hidden="f32 n h",
    weight="f32 L h",
    bias="f32 L",
    indptr="ptr n+1 nnz",
    indices="i32 >=nnz",
    data="f32 >=nnz",
    wide_indptr="ptr d+1 w",
    wide_labels="i32 >=w",
    wide_weights="f32 >=w",
    out_labels="out i32 n k",
    out_scores="out f32 n k",
)
def predict_topk(
    hidden: F32,
    weight: F32,
    bias: F32,
    indptr: I64,
    indices: I32,
    data: F32,
    wide_indptr: I64,
    wide_labels: I32,
    wide_weights: F32,
    out_labels: I32,
    out_scores: F32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    if out_labels.shape[1] > len(bias):
        raise ValueError(f"out_labels has {out_labels.shape[1]} columns, but there are only {len(bias)} labels")
    model = (hidden, weight, bias, indptr, indices, data, wide_indptr, wide_labels, wide_weights)
    if out_labels.size:
        parallel_for(_topk_blocks, -(-len(hidden) // TILE_POINTS), threads, *model, out_labels, out_scores)


def _topk_blocks(
    first: int,
    last: int,
    hidden: F32,
    weight: F32,
    bias: F32,
    indptr: I64,
    indices: I32,
    data: F32,
    wide_indptr: I64,
    wide_labels: I32,
    wide_weights: F32,
    out_labels: I32,
    out_scores: F32,
) -> None:
    for block in range(first, last):
        points = slice(block * TILE_POINTS, min((block + 1) * TILE_POINTS, len(hidden)))
        pointers = indptr[points.start : points.stop + 1]
        # Labels ascend within a feature, so one cursor per entry visits every posting once over all tiles.
        entries = slice(pointers[0], pointers[-1])
        cursors, stops = wide_indptr[indices[entries]], wide_indptr[1:][indices[entries]]
        wide = (pointers, data[entries], cursors, stops, wide_labels, wide_weights)
        for label in range(0, len(bias), TILE_LABELS):
            labels = slice(label, label + TILE_LABELS)
            scores = np.empty((len(pointers) - 1, len(bias[labels])), np.float32)
            multiply(Operand.of(hidden[points], None, True), Operand.of(weight[labels], None, True), scores, 1)
            _add_wide(scores, bias[labels], label, *wide)
            _offer(scores, label, out_labels[points], out_scores[points])
        _sort(out_labels[points], out_scores[points])


@jit
def _add_wide(
    scores: F32,
    bias: F32,
    label: int,
    pointers: I64,
    data: F32,
    cursors: I64,
    stops: I64,
    wide_labels: I32,
    wide_weights: F32,
) -> None:
    for i in range(scores.shape[0]):
        row = scores[i]
        row += bias
        for j in range(pointers[i] - pointers[0], pointers[i + 1] - pointers[0]):
            at, stop = cursors[j], stops[j]
            while at < stop and wide_labels[at] < label + row.size:
                row[wide_labels[at] - label] += data[j] * wide_weights[at]
                at += 1
            cursors[j] = at


@jit
def _offer(scores: F32, label: int, out_labels: I32, out_scores: F32) -> None:
    """Update the heap of the best k labels so far in each row."""
    k = out_labels.shape[1]
    for i in range(scores.shape[0]):
        row, labels, best = scores[i], out_labels[i], out_scores[i]
        fill = max(0, min(k - label, row.size))
        for j in range(fill):
            # NaN has no order, so rank it last.
            labels[label + j], best[label + j] = label + j, -np.inf if np.isnan(row[j]) else row[j]
        if fill > 0 and label + fill == k:
            make_heap(labels, best)
        for j in range(fill, row.size):
            # Labels arrive in ascending order, so a tie with the worst loses.
            if row[j] > best[0]:
                replace_worst(labels, best, label + j, row[j])


@jit
def _sort(out_labels: I32, out_scores: F32) -> None:
    for i in range(out_labels.shape[0]):
        sort_heap(out_labels[i], out_scores[i])
