"""The parts of a recommender against dense references."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array

from sparsenet.core.rows import Rows, as_matrix
from sparsenet.engines.recommender import fit_recommender
from sparsenet.engines.recommender.fit_recommender import RecommenderOptions, fit
from sparsenet.engines.recommender.item_lists import best_products, merged, transitions, walk
from sparsenet.engines.recommender.local_regression import regress
from sparsenet.engines.recommender.spectrum import leading
from sparsenet.features.interactions import Interactions


def a_matrix(n: int = 60, d: int = 25, seed: int = 0) -> csr_array:
    return csr_array((np.random.default_rng(seed).random((n, d)) < 0.2).astype(np.float32))


def test_best_products_are_the_largest_of_the_dense_product() -> None:
    left, right = a_matrix(30, 40), csr_array(np.random.default_rng(1).random((40, 20), np.float32))
    dense = (left @ right).toarray()
    found = as_matrix(best_products(Rows.of(left), Rows.of(right), 5, threads=2)).toarray()
    for row, wanted in zip(found, dense, strict=True):
        best = np.sort(np.argsort(-wanted)[:5])
        assert np.flatnonzero(row).tolist() == best[wanted[best] > 0].tolist()
        assert_allclose(row[best], wanted[best], rtol=1e-5)


def test_walk_matches_its_definition() -> None:
    X = a_matrix()
    dense = X.toarray()
    per_user, per_item = np.maximum(dense.sum(axis=1), 1), np.maximum(dense.sum(axis=0), 1)
    wanted = (dense / np.sqrt(per_item)).T @ (dense / per_user[:, None])
    np.fill_diagonal(wanted, 0)
    assert_allclose(as_matrix(walk(Rows.of(X), 25, threads=1)).toarray(), wanted, rtol=1e-5, atol=1e-7)


def test_transitions_count_successors_by_distance() -> None:
    log = Interactions.of([0, 0, 0, 0, 1, 1], [0, 1, 1, 2, 0, 1], [1.0, 2.0, 3.0, 4.0, 1.0, 2.0], None, 2, 3)
    wanted = np.array([[0, 2, 0.5], [0, 0, 1], [0, 0, 0]])
    totals = wanted.sum(axis=1, keepdims=True)
    assert_allclose(as_matrix(transitions(log, 3)).toarray(), wanted / (totals + 1), rtol=1e-6)


def test_regression_on_all_items_is_ridge_regression() -> None:
    X = a_matrix(200, 12)
    counts = np.diff(X.indptr)
    A = X.toarray().astype(np.float64) / np.maximum(counts, 1)[:, None] ** 0.25
    gram = A.T @ A
    squares = np.diag(gram)
    penalties = 4.0 * np.sqrt(squares * np.median(squares))
    near = csr_array(gram - np.diag(squares))
    found = as_matrix(regress(Rows.of(X), Rows.of(near), 4.0, threads=2)).toarray()
    for item in range(12):
        others = np.flatnonzero(near.toarray()[item])
        inner = gram[np.ix_(others, others)] + np.diag(penalties[others])
        assert_allclose(found[others, item], np.linalg.solve(inner, gram[others, item]), rtol=1e-3, atol=1e-5)
        assert found[item, item] == 0


def test_singular_vectors_match_a_dense_decomposition() -> None:
    rng = np.random.default_rng(0)
    left, right = np.linalg.qr(rng.standard_normal((80, 30)))[0], np.linalg.qr(rng.standard_normal((50, 30)))[0]
    X = (left * 0.8 ** np.arange(30)) @ right.T
    found = leading(Rows.of(csr_array(X)), 5, seed=0, threads=2)
    assert_allclose(found.values, 0.8 ** np.arange(5), rtol=1e-4)
    assert_allclose(np.abs((found.vectors * right[:, :5]).sum(axis=0)), 1, rtol=1e-4)


def test_singular_vectors_stop_at_the_rank() -> None:
    X = csr_array(np.outer(np.arange(1, 9), np.arange(1, 6)).astype(np.float32))
    assert leading(Rows.of(X), 4, seed=0, threads=1).vectors.shape == (5, 1)
    assert leading(Rows.of(csr_array((3, 4), dtype=np.float32)), 2, seed=0, threads=1).vectors.shape == (4, 0)


def test_merges_lists_of_different_items() -> None:
    lists = [csr_array(a_matrix(30, 20, seed) * (seed - 1.5)) for seed in range(3)]
    found = merged([Rows.of(each) for each in lists], n_rows=7)
    assert len(found.items) == np.count_nonzero(sum(np.abs(each.toarray()) for each in lists))
    for n, each in enumerate(lists):
        values = found.values[:, n] * np.repeat(found.units[:, n], np.diff(found.indptr))
        dense = csr_array((values, found.items, found.indptr), shape=each.shape).toarray()
        assert_allclose(dense, each.toarray(), atol=1e-4)


def test_announces_too_much_memory_before_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_recommender, "available_memory", lambda: 10_000)
    log = Interactions.of_matrix(a_matrix(300, 200))
    with pytest.raises(MemoryError, match=r"a recommender of 200 items and 300 users needs about .* 10\.0 kB"):
        fit(log, RecommenderOptions(verbose=False), seed=0, threads=1)


def test_choices_explain_the_weights() -> None:
    log = Interactions.of_matrix(a_matrix(400, 60))
    choices = fit(log, RecommenderOptions(verbose=False), seed=0, threads=1).choices
    assert set(choices) == {"dimensions", "debias", "amounts", "weights", "repeats"}
    assert "nDCG@20" in choices["debias"].why
    assert "nDCG@20" in choices["weights"].why
    few = fit(Interactions.of_matrix(a_matrix(20, 10)), RecommenderOptions(verbose=False), seed=0, threads=1)
    assert "fewer than 50" in few.choices["weights"].why
