"""Lists of the items most similar to each item: a sparse product, cut to the best of each row."""

from __future__ import annotations

import numpy as np

from sparsenet import kernels
from sparsenet.core.rows import Rows, transpose
from sparsenet.kernels.types import F32, I64

#: Rows multiplied at a time: bounds the dense outputs of the kernel.
_BLOCK = 1 << 14


def best_products(left: Rows, right: Rows, n: int, threads: int) -> Rows:
    """Compute ``left @ right`` and keep the n largest positive entries of each row, ids ascending."""
    n = min(n, right.width)
    bias, others = np.zeros(right.width, np.float32), np.arange(n, dtype=np.int32)
    counts, indices, data = [np.zeros(1, np.int64)], [np.empty(0, np.int32)], [np.empty(0, np.float32)]
    index = right.indptr, right.indices, right.data
    for block in left.blocks(_BLOCK):
        labels, scores = np.empty((len(block), n), np.int32), np.empty((len(block), n), np.float32)
        query = block.indptr, block.indices, block.data
        kernels.shortlist(*query, *index, bias, others, labels, scores, threads)
        keep = scores > 0  # the kernel fills up rows with labels of score 0
        counts.append(keep.sum(axis=1))
        indices.append(labels[keep])
        data.append(scores[keep])
    indptr: I64 = np.cumsum(np.concatenate(counts))
    return Rows(indptr, np.concatenate(indices), np.concatenate(data), right.width)


def scaled(rows: Rows, by_row: F32, by_column: F32) -> Rows:
    """Multiply each entry by a factor of its row and one of its column."""
    data = rows.data * np.repeat(by_row, np.diff(rows.indptr)) * by_column[rows.indices]
    return Rows(rows.indptr, rows.indices, data, rows.width)


def powers(counts: I64, exponent: float) -> F32:
    """Return ``max(count, 1) ** exponent``."""
    return np.maximum(counts, 1).astype(np.float32) ** np.float32(exponent)


def walk(histories: Rows, n: int, threads: int) -> Rows:
    """Return the n items that a walk from each item over its users reaches most often; popular items count less."""
    ones = Rows(histories.indptr, histories.indices, np.ones_like(histories.data), histories.width)
    by_item = transpose(ones)
    per_user, per_item = np.diff(ones.indptr), np.diff(by_item.indptr)
    left = scaled(by_item, powers(per_item, -0.5), powers(per_user, -1.0))
    return best_products(left, scaled(ones, np.ones(len(ones), np.float32), powers(per_item, -0.5)), n, threads)
