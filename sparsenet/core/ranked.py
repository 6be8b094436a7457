"""Ranked labels of each point, and which of them are true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.rows import Rows
from sparsenet.kernels.types import F32, I32


def is_hit(best: I32, truth: Rows) -> NDArray[np.bool_]:
    """Tell for each point whether its best label, (n,), or which of its best labels, (n, k), are true ones."""
    numbers = np.arange(len(truth), dtype=np.int64)
    points = numbers.reshape(-1, *(1,) * (best.ndim - 1))
    owners = np.repeat(numbers, np.diff(truth.indptr))
    return np.isin(points * truth.width + best, owners * truth.width + truth.indices)


def share_right(ranked: I32, truth: Rows) -> NDArray[np.float64]:
    """Return which share of as many labels of each point as it has is right, (n,): its best ones, of those ranked."""
    asked_for = np.clip(np.diff(truth.indptr), 1, ranked.shape[1])
    hits = is_hit(ranked, truth) & (np.arange(ranked.shape[1]) < asked_for[:, None])
    return np.asarray(hits.sum(axis=1) / asked_for)


def best_first(scores: F32, k: int, *values: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the values, (n, any), of each point's k largest scores, the largest first, of equal ones the first."""
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return [np.take_along_axis(each, order, axis=1) for each in values]


def precisions(hits: NDArray[np.bool_], ranks: Sequence[int]) -> NDArray[np.float64]:
    """Return P@k of each point for each of some ranks k, (n, len(ranks)), of whose best labels these are right."""
    return np.stack([hits[:, :k].sum(axis=1) / k for k in ranks], axis=1)
