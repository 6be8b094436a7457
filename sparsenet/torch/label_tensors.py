"""Read the labels of a batch: lists, sparse matrices, tensors of ids, padded tensors, or indicators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from sparsenet.core.rows import Rows
from sparsenet.kernels.types import I64

#: Ids that fill up rows; -100 is what PyTorch's losses ignore by default.
PADDING = (-1, -100)
FORMS = (
    "a list of lists of ids, a SciPy matrix (n, n_labels), a tensor of ids (n,), a tensor of ids (n, m) padded with "
    "-1 or -100, or an indicator tensor (n, n_labels) of floats or booleans"
)


def as_rows(labels: Any, n_points: int, n_labels: int) -> Rows:
    """Return the labels of `n_points` points as rows of ids below `n_labels`, at least one a point."""
    points, ids, n = _pairs(labels, n_labels)
    if n != n_points:
        raise ValueError(f"labels has {n} points, hidden has {n_points}")
    wrong = np.flatnonzero((ids < 0) | (ids >= n_labels))
    if len(wrong):
        raise ValueError(
            f"labels must be from 0 to {n_labels - 1}, got {ids[wrong[0]]} for point {points[wrong[0]]} of the batch"
        )
    # Sort by point and id, and drop repeated ids, unless they are in order already.
    keys = points * np.int64(n_labels) + ids
    keys = keys if (keys[1:] > keys[:-1]).all() else np.unique(keys)
    indptr = np.searchsorted(keys, np.arange(n_points + 1, dtype=np.int64) * n_labels).astype(np.int64)
    empty = np.flatnonzero(np.diff(indptr) == 0)
    if len(empty):
        raise ValueError(f"labels has no label for point {empty[0]} of the batch: leave out points without labels")
    return Rows(indptr, (keys % n_labels).astype(np.int32), np.ones(len(keys), np.float32), n_labels)


def _pairs(labels: Any, n_labels: int) -> tuple[I64, NDArray[Any], int]:
    """Return the points and the ids of all labels, and the number of points."""
    if isinstance(labels, Tensor):
        return _of_tensor(labels, n_labels)
    if sparse.issparse(labels):
        found: Any = cast(Any, labels).tocoo()
        if found.shape[1] != n_labels:
            raise ValueError(f"labels has {found.shape[1]} columns, the head has {n_labels} labels")
        kept = found.data != 0
        return found.row[kept].astype(np.int64), found.col[kept], found.shape[0]
    if isinstance(labels, np.ndarray):
        return _of_tensor(torch.as_tensor(labels), n_labels)
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
        raise TypeError(f"labels must be {FORMS}, got {type(labels).__name__}")
    return _of_lists(list(labels))


def _of_lists(lists: list[Any]) -> tuple[I64, NDArray[Any], int]:
    own: list[NDArray[Any]] = []
    for point, ids in enumerate(lists):
        found = ids.detach().cpu().numpy() if isinstance(ids, Tensor) else np.asarray(ids)
        if found.size and found.dtype.kind not in "iu":
            raise TypeError(f"labels of point {point} must be integers, got {ids!r}")
        own.append(found.astype(np.int64).reshape(-1))
    lengths = [len(ids) for ids in own]
    points = np.repeat(np.arange(len(own), dtype=np.int64), lengths)
    return points, np.concatenate([*own, np.empty(0, np.int64)]), len(own)


def _of_tensor(labels: Tensor, n_labels: int) -> tuple[I64, NDArray[Any], int]:
    if labels.layout != torch.strided:
        return _of_sparse(labels.detach().cpu().to_sparse_coo().coalesce(), n_labels)
    found = labels.detach().cpu()
    if found.dim() == 2 and (found.is_floating_point() or found.dtype == torch.bool):
        if found.shape[1] != n_labels:
            raise ValueError(f"labels is an indicator with {found.shape[1]} columns, the head has {n_labels} labels")
        points, ids = (part.numpy() for part in found.nonzero(as_tuple=True))
        return points, ids, len(found)
    if found.is_floating_point() or found.is_complex() or found.dtype == torch.bool or found.dim() not in (1, 2):
        raise TypeError(f"labels must be {FORMS}, got a tensor of {found.dtype} of shape {tuple(found.shape)}")
    ids = found.numpy().astype(np.int64)
    if ids.ndim == 1:
        return np.arange(len(ids), dtype=np.int64), ids, len(ids)
    is_padding = np.isin(ids, PADDING)
    points = np.repeat(np.arange(len(ids), dtype=np.int64), np.sum(~is_padding, axis=1))
    return points, ids[~is_padding], len(ids)


def _of_sparse(labels: Tensor, n_labels: int) -> tuple[I64, NDArray[Any], int]:
    if labels.dim() != 2 or labels.shape[1] != n_labels:
        raise ValueError(f"labels has the shape {tuple(labels.shape)}, the head has {n_labels} labels")
    points, ids = labels.indices()[:, labels.values() != 0].numpy()
    return points, ids, labels.shape[0]


def checked_counts(label_counts: Any, n_labels: int) -> NDArray[np.int64]:
    """Return the number of training points of each label; 1 for each if they are unknown."""
    if label_counts is None:
        return np.ones(n_labels, np.int64)
    counts = np.asarray(label_counts)
    if counts.shape != (n_labels,) or counts.dtype.kind not in "iu" or counts.min() < 0:
        raise ValueError(
            f"label_counts must be {n_labels} integers of at least 0, got {counts.dtype} of shape {counts.shape}"
        )
    return counts.astype(np.int64)
