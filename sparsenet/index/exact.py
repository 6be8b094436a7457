"""Exact top-k search by inner product: the reference for hashing, and the search for nearest dense points."""

from __future__ import annotations

import numpy as np

from sparsenet import kernels
from sparsenet.kernels.types import F32, I32


def exact_topk(hidden: F32, weight: F32, bias: F32, k: int, threads: int) -> tuple[I32, F32]:
    """Return the `k` best labels of each point and their scores, each (n, k), best first, by scoring all labels."""
    k = min(k, len(weight))
    labels, scores = np.empty((len(hidden), k), np.int32), np.empty((len(hidden), k), np.float32)
    no_rows, no_features = np.zeros(len(hidden) + 1, np.int64), np.zeros(1, np.int64)
    no_ids, no_values = np.empty(0, np.int32), np.empty(0, np.float32)
    kernels.predict_topk(
        hidden, weight, bias, no_rows, no_ids, no_values, no_features, no_ids, no_values, labels, scores, threads
    )
    return labels, scores
