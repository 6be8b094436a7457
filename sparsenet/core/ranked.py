"""Rank labels by score and compare them with the true ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.rows import Rows
from sparsenet.kernels.types import F32, I32


def is_hit(best: I32, truth: Rows) -> NDArray[np.bool_]:
    """Return whether each predicted label, (n,) or (n, k), is among its point's true labels."""
    numbers = np.arange(len(truth), dtype=np.int64)
    points = numbers.reshape(-1, *(1,) * (best.ndim - 1))
    owners = np.repeat(numbers, np.diff(truth.indptr))
    return np.isin(points * truth.width + best, owners * truth.width + truth.indices)


def share_right(ranked: I32, truth: Rows) -> NDArray[np.float64]:
    """Return each point's precision at the number of labels that it has, (n,), cut to the labels ranked."""
    cutoffs = np.clip(np.diff(truth.indptr), 1, ranked.shape[1])
    hits = is_hit(ranked, truth) & (np.arange(ranked.shape[1]) < cutoffs[:, None])
    return np.asarray(hits.sum(axis=1) / cutoffs)


def best_first(scores: F32, k: int, *values: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the values, (n, any), at each point's k largest scores, best first; ties keep their order."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return [np.take_along_axis(each, order, axis=1) for each in values]


def precisions(hits: NDArray[np.bool_], ranks: Sequence[int]) -> NDArray[np.float64]:
    """Return P@k of each point for each rank k, (n, len(ranks)), from the hits of its ranked labels."""
    return np.stack([hits[:, :k].sum(axis=1) / k for k in ranks], axis=1)
