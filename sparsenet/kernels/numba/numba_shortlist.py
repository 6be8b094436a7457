"""Select candidate labels by their wide scores, and score given labels, in Numba."""

from __future__ import annotations

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.numba.numba_heap import make_heap, replace_worst
from sparsenet.kernels.types import F32, I32, I64


@checked(
    indptr="ptr n+1 nnz",
    indices="i32 >=nnz",
    data="f32 >=nnz",
    index_indptr="ptr d+1 w",
    index_labels="i32 >=w",
    index_weights="f32 >=w",
    bias="f32 L",
    out_labels="out i32 n c",
    fallback="i32 >=c",
    out_scores="out f32 n c",
)
def shortlist(
    indptr: I64,
    indices: I32,
    data: F32,
    index_indptr: I64,
    index_labels: I32,
    index_weights: F32,
    bias: F32,
    fallback: I32,
    out_labels: I32,
    out_scores: F32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    if out_labels.shape[1] < 1:
        raise ValueError("out_labels must have a column")
    points, index = (indptr, indices, data), (index_indptr, index_labels, index_weights)
    parallel_for(_shortlist, len(out_labels), threads, *points, *index, bias, fallback, out_labels, out_scores)


@jit
def _shortlist(
    first: int,
    last: int,
    indptr: I64,
    indices: I32,
    data: F32,
    index_indptr: I64,
    index_labels: I32,
    index_weights: F32,
    bias: F32,
    fallback: I32,
    out_labels: I32,
    out_scores: F32,
) -> None:
    size = out_labels.shape[1]
    scores, is_named = np.zeros(bias.size, np.float32), np.zeros(bias.size, np.bool_)
    named = np.empty(bias.size, np.int32)
    for i in range(first, last):
        count = 0
        for j in range(indptr[i], indptr[i + 1]):
            for at in range(index_indptr[indices[j]], index_indptr[indices[j] + 1]):
                label = index_labels[at]
                scores[label] += data[j] * index_weights[at]
                if not is_named[label]:
                    is_named[label] = True
                    named[count] = label
                    count += 1
        # Fill the list with the fallback, then let each other candidate replace the worst entry.
        labels, best = out_labels[i], out_scores[i]
        for c in range(size):
            score = scores[fallback[c]] + bias[fallback[c]]
            labels[c], best[c] = fallback[c], score if score == score else -np.inf
            is_named[fallback[c]] = False
        make_heap(labels, best)
        for c in range(count):
            label = named[c]
            score = scores[label] + bias[label]
            better = score > best[0] or (score == best[0] and label < labels[0])
            if is_named[label] and better:
                replace_worst(labels, best, label, score)
            scores[label], is_named[label] = 0, False
        order = np.argsort(labels)
        labels[:], best[:] = labels[order], best[order]


@checked(
    indptr="ptr n+1 nnz",
    indices="i32 >=nnz",
    data="f32 >=nnz",
    wide_indptr="ptr L+1 w",
    wide_features="i32 >=w",
    wide_weights="f32 >=w",
    labels="i32 n c",
    out="out f32 n c",
)
def wide_scores(
    indptr: I64,
    indices: I32,
    data: F32,
    n_features: int,
    wide_indptr: I64,
    wide_features: I32,
    wide_weights: F32,
    labels: I32,
    out: F32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    wide = (n_features, wide_indptr, wide_features, wide_weights)
    parallel_for(_wide_scores, len(out), threads, indptr, indices, data, *wide, labels, out)


@jit
def _wide_scores(
    first: int,
    last: int,
    indptr: I64,
    indices: I32,
    data: F32,
    n_features: int,
    wide_indptr: I64,
    wide_features: I32,
    wide_weights: F32,
    labels: I32,
    out: F32,
) -> None:
    dense = np.zeros(n_features, np.float32)
    for i in range(first, last):
        for j in range(indptr[i], indptr[i + 1]):
            dense[indices[j]] = data[j]
        for c in range(labels.shape[1]):
            total = np.float32(0)
            for at in range(wide_indptr[labels[i, c]], wide_indptr[labels[i, c] + 1]):
                total += wide_weights[at] * dense[wide_features[at]]
            out[i, c] = total
        for j in range(indptr[i], indptr[i + 1]):
            dense[indices[j]] = 0
