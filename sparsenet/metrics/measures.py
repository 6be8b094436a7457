"""Compute the metrics. The docstring of `sparsenet.metrics` describes their conventions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sparsenet.kernels.types import F64
from sparsenet.metrics.ranking import Hits, Predictions, Sparse, agreement, find_hits, inverse_propensity, label_keys


def precision_at_k(truth: Sparse, predictions: Predictions, k: int) -> float:
    """Return the fraction of the k best predictions that are right, averaged over points.

    Parameters
    ----------
    truth : sparse matrix, shape (n, L)
        Nonzero entries are the labels of a point.
    predictions : sparse matrix of scores, shape (n, L), or label ids best first, shape (n, any)
        See `sparsenet.metrics` for ties, missing predictions and points without labels.
    k : int
        Length of the ranking. Missing predictions count as wrong; if no point has k of them, a warning is issued.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> precision_at_k(csr_array([[0, 1, 1], [1, 0, 0]]), [[1, 0], [0, 2]], k=2)
    0.5
    """
    return _found(truth, predictions, k).precision(k)


def ndcg_at_k(truth: Sparse, predictions: Predictions, k: int) -> float:
    """Return the discounted gain of the k best predictions relative to a perfect ranking, averaged over points.

    A hit at rank r (from 1) gains ``1 / log2(r + 1)``. Parameters as in `precision_at_k`.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> round(ndcg_at_k(csr_array([[0, 1, 1], [1, 0, 0]]), [[1, 0], [2, 0]], k=2), 4)
    0.622
    """
    return _found(truth, predictions, k).ndcg(k)


def recall_at_k(truth: Sparse, predictions: Predictions, k: int) -> float:
    """Return the fraction of a point's labels found among its k best predictions, averaged over points.

    Parameters as in `precision_at_k`.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> recall_at_k(csr_array([[0, 1, 1], [1, 0, 0]]), [[1, 0], [0, 2]], k=2)
    0.75
    """
    return _found(truth, predictions, k).recall(k)


def psp_at_k(truth: Sparse, predictions: Predictions, k: int, propensity: ArrayLike) -> float:
    """Return propensity-scored precision: hits on rare labels count more (Jain, Prabhu and Varma, KDD 2016).

    Parameters as in `precision_at_k`, and

    propensity : array, shape (L,)
        From `propensities`: for each label, the probability that a point with the label is marked with it.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> psp_at_k(csr_array([[0, 1, 1]]), [[1, 0]], k=1, propensity=[1.0, 0.5, 0.25])
    0.5
    """
    hits = _found(truth, predictions, k)
    return hits.psp([k], inverse_propensity(propensity, hits.n_labels))[0]


def evaluate(
    truth: Sparse,
    predictions: Predictions,
    ks: Sequence[int] = (1, 3, 5),
    propensity: ArrayLike | None = None,
    *,
    recall_ks: Sequence[int] | None = None,
) -> dict[str, float]:
    """Compute all ranking metrics from a single ranking.

    Parameters
    ----------
    truth, predictions
        As in `precision_at_k`.
    ks : sequence of int
        The ranks k of P@k, nDCG@k and PSP@k.
    propensity : array, shape (L,), optional
        From `propensities`; without it there is no PSP@k.
    recall_ks : sequence of int, optional
        The ranks k of recall@k; by default `ks`.

    Returns
    -------
    dict
        ``{"P@1": ..., "nDCG@1": ..., "PSP@1": ..., "recall@1": ..., ...}``, each between 0 and 1.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> evaluate(csr_array([[0, 1, 1], [1, 0, 0]]), [[1, 0], [0, 2]], ks=[1], recall_ks=[2])
    {'P@1': 1.0, 'nDCG@1': 1.0, 'recall@2': 0.75}
    """
    recall_ks = ks if recall_ks is None else recall_ks
    for name, ranks in (("ks", ks), ("recall_ks", recall_ks)):
        if not np.iterable(ranks):
            raise ValueError(f"{name} must be a sequence of whole numbers, got {ranks!r}: pass [{ranks!r}]")
    if len(ks) == 0:
        raise ValueError("ks is empty: pass at least one k")
    hits = _found(truth, predictions, *ks, *recall_ks)
    result = {f"P@{k}": hits.precision(k) for k in ks}
    result |= {f"nDCG@{k}": hits.ndcg(k) for k in ks}
    if propensity is not None:
        scores = hits.psp(ks, inverse_propensity(propensity, hits.n_labels))
        result |= {f"PSP@{k}": score for k, score in zip(ks, scores, strict=True)}
    return result | {f"recall@{k}": hits.recall(k) for k in recall_ks}


def _found(truth: Sparse, predictions: Predictions, *ks: int) -> Hits:
    """Find the hits, and warn if every point has fewer than k predictions.

    The missing ones count as wrong, and the caller probably did not intend that.
    """
    hits = find_hits(truth, predictions, *ks)
    k = min(max(ks), hits.n_labels)
    if sparse.issparse(predictions):
        n_ranked = int(np.diff(predictions.tocsr().indptr).max(initial=0))
    else:
        n_ranked = np.shape(predictions)[1]
    if n_ranked < k:
        warnings.warn(
            f"predictions name at most {n_ranked} labels per point, and measuring at {k} counts the others as wrong: "
            f"predict at least {k}, or pass a smaller k",
            UserWarning,
            stacklevel=3,
        )
    return hits


def propensities(train: Sparse, a: float = 0.55, b: float = 1.5) -> F64:
    """Estimate each label's propensity from the labels of the training points (Jain et al., KDD 2016).

    With N points, N_l of them with label l, and ``C = (log N - 1) (b + 1)^a``:
    ``p_l = 1 / (1 + C (N_l + b)^-a)``. For fewer than three points log N - 1 is negative and is replaced by 0, so
    that all propensities are in (0, 1].

    Parameters
    ----------
    train : sparse matrix, shape (N, L)
        Nonzero entries are the labels of a point.
    a, b : float
        The paper's A and B: 0.55 and 1.5 for most sets, 0.5 and 0.4 for Wikipedia, 0.6 and 2.6 for Amazon.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> propensities(csr_array([[1, 1], [1, 0], [1, 0]])).round(3)
    array([0.933, 0.91 ])
    """
    keys = label_keys(train, "train")
    counts = np.bincount(keys % train.shape[1], minlength=train.shape[1])
    return propensities_from_counts(counts, train.shape[0], a, b)


def propensities_from_counts(counts: ArrayLike, n_points: int, a: float = 0.55, b: float = 1.5) -> F64:
    """Estimate propensities as `propensities` does, from the number of training points of each label.

    Examples
    --------
    >>> propensities_from_counts([3, 1], n_points=3).round(3)
    array([0.933, 0.91 ])
    """
    number = np.asarray(counts, dtype=np.float64)
    if number.ndim != 1 or not np.all((number >= 0) & (number <= n_points)):
        raise ValueError(f"counts must be one-dimensional, each from 0 to n_points = {n_points}")
    if n_points < 1:
        raise ValueError(f"n_points must be at least 1, got {n_points}")
    if not (np.isfinite(a) and np.isfinite(b) and b > 0):
        raise ValueError(f"a must be finite and b positive and finite, got a={a}, b={b}")
    scale = max(np.log(n_points) - 1.0, 0.0) * (b + 1.0) ** a
    propensity: F64 = 1.0 / (1.0 + scale * (number + b) ** -a)
    return propensity


def micro_f1(truth: Sparse, predictions: Predictions) -> float:
    """Return the F1 score over all pairs of a point and a label; 0 if no pair is true or predicted.

    Parameters
    ----------
    truth : sparse matrix, shape (n, L)
        Nonzero entries are the labels of a point.
    predictions : sparse matrix, shape (n, L), or label ids, shape (n, any)
        The predicted labels. Only *nonzero* entries of a matrix count here, as in any indicator matrix.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> micro_f1(csr_array([[0, 1, 1], [1, 0, 0]]), csr_array([[0, 1, 0], [0, 1, 0]]))
    0.4
    """
    both, total = agreement(truth, predictions)
    return float(2.0 * both.sum() / max(total.sum(), 1))


def macro_f1(truth: Sparse, predictions: Predictions) -> float:
    """Return the mean F1 score of the labels; a label that is neither true nor predicted anywhere counts as 0.

    Parameters as in `micro_f1`.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> round(macro_f1(csr_array([[0, 1, 1], [1, 0, 0]]), csr_array([[0, 1, 0], [0, 1, 0]])), 4)
    0.2222
    """
    both, total = agreement(truth, predictions)
    return float(np.mean(2.0 * both / np.maximum(total, 1)))
