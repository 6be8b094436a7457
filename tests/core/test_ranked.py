"""Precision and gain of each point's ranked labels."""

import numpy as np
import pytest
from scipy import sparse

from sparsenet import Rows, metrics
from sparsenet.core.ranked import is_hit, precisions
from sparsenet.metrics.ranking import find_hits

RNG = np.random.default_rng(0)
TRUTH = sparse.csr_array((RNG.random((200, 12)) < 0.2).astype(np.float32))
BEST = np.argsort(RNG.random((200, 12)), axis=1)[:, :5].astype(np.int32)


@pytest.mark.parametrize("k", [1, 3, 5])
def test_means_are_those_of_the_metrics(k):
    hits, n_true = is_hit(BEST[:, :k], Rows.of(TRUTH)), np.diff(TRUTH.indptr)
    assert (n_true == 0).any(), "a point without labels counts 0"
    assert precisions(hits, [k]).mean() == pytest.approx(metrics.precision_at_k(TRUTH, BEST, k))
    assert find_hits(TRUTH, BEST, k).ndcg_of_points(k).mean() == pytest.approx(metrics.ndcg_at_k(TRUTH, BEST, k))


def test_a_perfect_ranking_gains_everything():
    truth = sparse.csr_array(np.eye(6, dtype=np.float32)[:, [0, 0, 1, 2, 3, 4]])
    first = np.array([[0, 1], [2, 0], [3, 0], [4, 0], [5, 0], [0, 1]], np.int32)
    np.testing.assert_allclose(find_hits(truth, first, 2).ndcg_of_points(2), [1, 1, 1, 1, 1, 0])
