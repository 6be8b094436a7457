"""Metrics of recommendation against naive versions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from sparsenet import metrics


def problem(seed: int, n: int = 40, n_labels: int = 25, width: int = 6) -> tuple[sparse.csr_array, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = sparse.csr_array((rng.random((n, n_labels)) < 0.1).astype(np.float32))
    ids = np.argsort(rng.random((n, n_labels)), axis=1)[:, :width].astype(np.int32)
    ids[rng.random(ids.shape) < 0.1] = -1
    return truth, ids


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [1, 3, 6])
def test_agree_with_naive_versions(seed: int, k: int) -> None:
    truth, ids = problem(seed)
    dense, counts = truth.toarray(), np.arange(25) % 7
    reciprocal, shown, true = [], [], []
    for row, own in zip(dense, ids.tolist(), strict=True):
        ranks = [rank for rank, item in enumerate(own[:k], 1) if item >= 0 and row[item]]
        reciprocal.append(1 / ranks[0] if ranks else 0)
        shown += [item for item in own[:k] if item >= 0]
        true += np.flatnonzero(row).tolist()
    assert metrics.mrr_at_k(truth, ids, k) == pytest.approx(np.mean(reciprocal))
    assert metrics.coverage_at_k(ids, k, 25) == pytest.approx(len(set(shown)) / 25)
    bias = counts[shown].mean() / counts[true].mean()
    assert metrics.popularity_bias_at_k(truth, ids, k, counts) == pytest.approx(bias)


def test_take_matrices_of_scores() -> None:
    truth = sparse.csr_array([[0, 1, 0], [1, 0, 0]])
    scores = sparse.csr_array([[0.1, 0.9, 0.0], [0.2, 0.5, 0.0]])
    assert metrics.mrr_at_k(truth, scores, 2) == 0.75
    assert metrics.coverage_at_k(scores, 2, 3) == pytest.approx(2 / 3)
    assert metrics.popularity_bias_at_k(truth, scores, 1, [1, 3, 0]) == 1.5


def test_nothing_predicted_or_never_seen_gives_zero_or_nan() -> None:
    truth = sparse.csr_array([[0, 1]])
    assert metrics.mrr_at_k(truth, np.full((1, 2), -1), 2) == 0
    assert metrics.coverage_at_k(np.full((1, 2), -1), 2, 2) == 0
    assert math.isnan(metrics.popularity_bias_at_k(truth, np.full((1, 2), -1), 2, [1, 1]))
    assert math.isnan(metrics.popularity_bias_at_k(truth, [[0]], 1, [1, 0]))


def test_reject_bad_input() -> None:
    truth = sparse.csr_array([[0, 1]])
    with pytest.raises(ValueError, match="k must be an integer of at least 1, got 0"):
        metrics.coverage_at_k([[0]], 0, 2)
    with pytest.raises(ValueError, match="counts must hold a number of at least 0 for each of 2 labels"):
        metrics.popularity_bias_at_k(truth, [[0]], 1, [1, -1])
    with pytest.raises(ValueError, match="predictions must be ids from 0 to 1"):
        metrics.coverage_at_k([[2]], 1, 2)
    with pytest.raises(ValueError, match="predictions have 2 rows, the truth has 1"):
        metrics.popularity_bias_at_k(truth, [[0], [1]], 1, [1, 1])
