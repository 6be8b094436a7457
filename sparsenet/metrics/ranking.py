"""Compute the rankings and hits that all metrics share.

A pair of a point and a label is one int64 key, ``point * L + label``. A set of pairs is a sorted array of keys, so that
hits are found by binary search for any L. The only Python loops run over blocks of points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from sparsenet.kernels.types import F64, I32, I64

Sparse: TypeAlias = sparse.csr_array | sparse.csr_matrix
Predictions: TypeAlias = Sparse | ArrayLike

#: The ranks k of P@k that reports show, and whose mean decisions maximise.
RANKS = (1, 3, 5)
_NO_LABEL = np.iinfo(np.int32).max
_BLOCK = 1 << 20  # entries per step: bounds the memory, and fits the cache


def top_labels(scores: Sparse, k: int) -> I32:
    """Return the k best labels of each row of a sparse matrix of scores, best first.

    Parameters
    ----------
    scores : sparse matrix, shape (n, L)
        Stored entries are the scores, zeros included; equal scores rank the smaller label first.
    k : int
        At least 1.

    Returns
    -------
    array, shape (n, k)
        Label ids; -1 where a row has fewer than k scores.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> top_labels(csr_array([[0.5, 2.0, 0.5], [0.0, 0.0, 1.0]]), k=2)
    array([[ 1,  0],
           [ 2, -1]], dtype=int32)
    """
    _check_k(k)
    csr = _as_csr(scores, "scores")
    values = csr.data if csr.data.dtype.kind == "f" else csr.data.astype(np.float64)
    best = np.full((csr.shape[0], k), -1, dtype=np.int32)
    for rows, counts in _rows_of_like_length(np.diff(csr.indptr)):
        columns = np.arange(counts.max())
        present = columns < counts[:, None]
        positions = np.where(present, csr.indptr[rows, None] + columns, 0)
        labels = np.where(present, csr.indices[positions], _NO_LABEL)
        # An absent entry sorts behind every score. Its label puts it behind -inf, too.
        order = np.lexsort((labels, np.where(present, -values[positions], np.inf)), axis=1)[:, :k]
        ranked = np.take_along_axis(labels, order, axis=1)
        best[rows, : ranked.shape[1]] = np.where(ranked == _NO_LABEL, -1, ranked)
    return best


@dataclass(frozen=True, kw_only=True)
class Hits:
    """The correct predictions by point, label and rank (from 0); all metrics are computed from them."""

    n_labels: int
    truth: I64  # keys, see label_keys
    n_true: I64  # (n,) number of labels of each point
    points: I64
    labels: I64
    ranks: I64

    def precision(self, k: int) -> float:
        """Compute P@k."""
        return float(np.count_nonzero(self.ranks < k) / (k * len(self.n_true)))

    def recall(self, k: int) -> float:
        """Compute recall@k."""
        points = self.points[self.ranks < k]
        return float(np.sum(1.0 / self.n_true[points]) / len(self.n_true))

    def ndcg(self, k: int) -> float:
        """Compute nDCG@k."""
        return float(np.sum(self._relative_gains(k)) / len(self.n_true))

    def ndcg_of_points(self, k: int) -> F64:
        """Compute nDCG@k of each point, (n,)."""
        gains = np.bincount(self.points[self.ranks < k], self._relative_gains(k), minlength=len(self.n_true))
        return np.asarray(gains, np.float64)

    def _relative_gains(self, k: int) -> F64:
        """Return the discounted gain of each hit within rank k, relative to a perfect ranking of its point."""
        within = self.ranks < k
        ideal = np.cumsum(1.0 / np.log2(np.arange(2, self.n_true.max() + 2)))
        gains = 1.0 / np.log2(self.ranks[within] + 2)
        reachable = np.minimum(self.n_true[self.points[within]], k)
        return np.asarray(gains / ideal[reachable - 1])

    def psp(self, ks: Sequence[int], weights: F64) -> list[float]:
        """Compute PSP at each of `ks`; `weights` are inverse propensities."""
        indptr = np.append(0, np.cumsum(self.n_true))
        labels = self.truth % self.n_labels
        best = sparse.csr_array((weights[labels], labels, indptr), (len(self.n_true), self.n_labels))
        ideal = top_labels(best, min(max(ks), max(int(self.n_true.max()), 1)))
        ideal_gains = np.cumsum(np.where(ideal < 0, 0.0, weights[ideal]).sum(axis=0))
        reached = [weights[self.labels[self.ranks < k]].sum() for k in ks]
        possible = [ideal_gains[min(k, len(ideal_gains)) - 1] for k in ks]
        return [float(x / y) if y else 0.0 for x, y in zip(reached, possible, strict=True)]


def find_hits(truth: Sparse, predictions: Predictions, *ks: int) -> Hits:
    """Rank the predictions down to the largest of `ks`, and find the true labels among them."""
    for k in ks:
        _check_k(k)
    keys = label_keys(truth, "truth")
    n_points, n_labels = truth.shape
    ids = ranked_ids(predictions, (n_points, n_labels), max(ks))
    found = [_hits_of_block(block, first, keys, n_labels) for first, block in _blocks(ids)]
    points, ranks, labels = (np.concatenate(parts) for parts in zip(*found, strict=True))
    n_true = np.bincount(keys // n_labels, minlength=n_points)
    return Hits(n_labels=n_labels, truth=keys, n_true=n_true, points=points, labels=labels, ranks=ranks)


def _hits_of_block(ids: I32, first: int, truth: I64, n_labels: int) -> tuple[I64, I64, I64]:
    """Return (points, ranks, labels) of the hits among `ids`, whose first row is point `first`."""
    keys = ids + n_labels * np.arange(first, first + len(ids))[:, None]
    points, ranks = np.nonzero(_is_among(keys, truth) & (ids >= 0))
    return points + first, ranks, ids[points, ranks].astype(np.int64)


def agreement(truth: Sparse, predictions: Predictions) -> tuple[I64, I64]:
    """Count for each label the points that have it in both truth and predictions, and the sum of both counts."""
    true = label_keys(truth, "truth")
    n_points, n_labels = truth.shape
    if sparse.issparse(predictions):
        _check_shape(predictions, (n_points, n_labels))
        decided = label_keys(predictions, "predictions")
    else:
        ids = ranked_ids(predictions, (n_points, n_labels), n_labels)
        points, ranks = np.nonzero(ids >= 0)
        decided = points * n_labels + ids[points, ranks]
    both = true[_is_among(true, np.sort(decided))]
    hits, *sides = (np.bincount(keys % n_labels, minlength=n_labels) for keys in (both, true, decided))
    return hits, sides[0] + sides[1]


def label_keys(matrix: Sparse, name: str) -> I64:
    """Return ``point * L + label`` of each nonzero entry, ascending and distinct."""
    csr = _as_csr(matrix, name)
    if 0 in csr.shape:
        raise ValueError(f"{name} must have at least one point and one label, got shape {csr.shape}")
    keys: I64 = csr.indices + csr.shape[1] * np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    keys = keys[csr.data != 0]
    if np.all(keys[1:] > keys[:-1]):
        return keys
    keys.sort()  # np.unique hashes first, and is twenty times slower for 50 million keys
    distinct: I64 = keys[np.append(True, keys[1:] > keys[:-1])]
    return distinct


def _is_among(keys: I64, ascending: I64) -> NDArray[np.bool_]:
    closed = np.append(ascending, np.iinfo(np.int64).max)  # a sentinel, so that every search ends at an entry
    found: NDArray[np.bool_] = closed[np.searchsorted(closed, keys)] == keys
    return found


def ranked_ids(predictions: Predictions, shape: tuple[int, int], k: int) -> I32:
    """Return at most k label ids for each point, best first, from either form of predictions."""
    _check_k(k)
    if sparse.issparse(predictions):
        _check_shape(predictions, shape)
        csr = predictions.tocsr()
        ids = top_labels(csr, min(k, max(int(np.diff(csr.indptr).max()), 1)))
    else:
        try:
            ids = np.asarray(predictions)
        except ValueError as error:
            raise ValueError("predictions must be rows of one length: fill up short ones with -1") from error
        ids = _checked_ids(ids, shape)[:, :k]
    for first, block in _blocks(ids):
        ordered = np.sort(block, axis=1)
        twice = np.any((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0), axis=1)
        if twice.any():
            raise ValueError(f"predictions have a label twice in row {first + int(np.argmax(twice))}")
    return ids


def _checked_ids(ids: NDArray[Any], shape: tuple[int, int]) -> I32:
    if ids.dtype.kind not in "iu" or ids.ndim != 2:
        raise ValueError(
            "predictions must be a sparse matrix of scores or a two-dimensional array of integer label ids, "
            f"got {ids.ndim} dimensions of dtype {ids.dtype}"
        )
    if len(ids) != shape[0]:
        raise ValueError(f"predictions have {len(ids)} rows, the truth has {shape[0]}")
    if ids.size and not (ids.min() >= -1 and ids.max() < shape[1]):
        raise ValueError(f"predictions must be ids from 0 to {shape[1] - 1}, or -1 for none")
    return ids.astype(np.int32, copy=False)


def _check_shape(predictions: Sparse, shape: tuple[int, int]) -> None:
    if predictions.shape != shape:
        raise ValueError(f"predictions have shape {predictions.shape}, the truth has {shape}")


def _as_csr(matrix: Sparse, name: str) -> sparse.csr_array:
    if not sparse.issparse(matrix) or matrix.ndim != 2:
        raise ValueError(f"{name} must be a two-dimensional SciPy sparse matrix, got {type(matrix).__name__}")
    csr = sparse.csr_array(matrix)
    csr.check_format(full_check=True)
    if csr.shape[1] > _NO_LABEL:
        raise ValueError(f"{name} has {csr.shape[1]} labels; at most {_NO_LABEL} are supported")
    if csr.data.dtype.kind not in "biuf" or np.isnan(csr.data).any():
        raise ValueError(f"{name} must hold real numbers and no NaN")
    return csr


def _check_k(k: int) -> None:
    if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1:
        raise ValueError(f"k must be an integer of at least 1, got {k!r}")


def inverse_propensity(propensity: ArrayLike, n_labels: int) -> F64:
    """Check propensities, (L,), and return their reciprocals."""
    values = np.asarray(propensity, dtype=np.float64)
    if values.shape != (n_labels,) or not np.all((values > 0) & (values <= 1)):
        raise ValueError(
            f"propensity must hold one number in (0, 1] for each of the {n_labels} labels, "
            f"got shape {values.shape}; compute it with propensities(Y_train)"
        )
    inverse: F64 = 1.0 / values
    return inverse


def _blocks(ids: I32) -> Iterator[tuple[int, I32]]:
    """Yield blocks of consecutive rows with about _BLOCK entries, each with the number of its first row."""
    step = max(_BLOCK // max(ids.shape[1], 1), 1)
    for first in range(0, len(ids), step):
        yield first, ids[first : first + step]


def _rows_of_like_length(counts: I64) -> Iterator[tuple[I64, I64]]:
    """Yield (rows, their counts) with about _BLOCK entries; in each group, counts differ by less than a factor of 2."""
    _, exponents = np.frexp(counts)
    for exponent in np.unique(exponents[counts > 0]):
        rows = np.flatnonzero(exponents == exponent)
        step = max(_BLOCK >> int(exponent), 1)
        for first in range(0, len(rows), step):
            block = rows[first : first + step]
            yield block, counts[block]
