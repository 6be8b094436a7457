"""Metrics of recommendation: the first hit, the range of items shown, and the bias toward popular ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sparsenet.kernels.types import I32, I64
from sparsenet.metrics.ranking import Predictions, Sparse, find_hits, label_keys, ranked_ids


def mrr_at_k(truth: Sparse, predictions: Predictions, k: int) -> float:
    """Return the mean reciprocal rank: one divided by the rank of the first hit, averaged over points.

    A point without a hit among its k best predictions counts as 0. Parameters as in `precision_at_k`.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> mrr_at_k(csr_array([[0, 1, 1], [1, 0, 0]]), [[1, 0], [2, 0]], k=2)
    0.75
    """
    hits = find_hits(truth, predictions, k)
    first = np.full(len(hits.n_true), np.inf)
    np.minimum.at(first, hits.points, hits.ranks + 1.0)
    return float(np.mean(1.0 / first))


def coverage_at_k(predictions: Predictions, k: int, n_labels: int) -> float:
    """Return the fraction of all labels that are among the k best predictions of at least one point.

    Parameters
    ----------
    predictions : sparse matrix of scores, shape (n, n_labels), or label ids best first, shape (n, any)
        As in `precision_at_k`.
    k : int
        Length of the ranking.
    n_labels : int
        Number of labels that could be predicted.

    Examples
    --------
    >>> coverage_at_k([[1, 0], [1, 2]], k=2, n_labels=4)
    0.75
    """
    return float(len(np.unique(_shown(predictions, k, n_labels))) / n_labels)


def popularity_bias_at_k(truth: Sparse, predictions: Predictions, k: int, counts: ArrayLike) -> float:
    """Return how many times as popular the predicted labels are as the true ones.

    Divide the mean training count of the labels among the k best predictions by the mean training count of the true
    labels. At 1, predictions are as popular as what points really have; above 1 they favour popular labels. NaN without
    predictions, or if the true labels have no training points.

    Parameters
    ----------
    truth, predictions, k
        As in `precision_at_k`.
    counts : array, shape (L,)
        Training points of each label: not negative.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> popularity_bias_at_k(csr_array([[0, 1, 1], [1, 0, 0]]), [[0, 1], [0, 2]], k=1, counts=[9, 1, 2])
    2.25
    """
    number = np.asarray(counts, dtype=np.float64)
    keys = label_keys(truth, "truth")
    if number.shape != (truth.shape[1],) or not np.all(np.isfinite(number) & (number >= 0)):
        raise ValueError(f"counts must hold a number of at least 0 for each of {truth.shape[1]} labels: {counts!r:.60}")
    shown = _shown(predictions, k, truth.shape[1], len_truth=truth.shape[0])
    true = number[keys % truth.shape[1]]
    if not len(shown) or not true.sum():
        return float("nan")
    return float(number[shown].mean() / true.mean())


def _shown(predictions: Predictions, k: int, n_labels: int, len_truth: int | None = None) -> I32 | I64:
    """Return the labels among the k best predictions of all points, with repetitions."""
    n_points = len_truth if len_truth is not None else np.shape(predictions)[0]
    ids = ranked_ids(predictions, (n_points, n_labels), k)
    return ids[ids >= 0]
