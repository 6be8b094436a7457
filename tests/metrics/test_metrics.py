"""Metrics against a slow, dense and obviously correct oracle."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from sparsenet import metrics

# One test checks this warning; the others predict few labels on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:predictions name at most")

# --- the oracle: one point at a time, in plain Python -------------------------------------------------------


def oracle_ranking(scores: dict[int, float]) -> list[int]:
    return [label for _, label in sorted((-score, label) for label, score in scores.items())]


def oracle_metrics(truth, rankings, k, propensity):
    n = len(truth)
    result = {"P": 0.0, "nDCG": 0.0, "recall": 0.0}
    reached = possible = 0.0
    for true, ranking in zip(truth, rankings, strict=True):
        hits = [rank for rank, label in enumerate(ranking[:k]) if label in true]
        result["P"] += len(hits) / k / n
        reached += sum(1 / propensity[ranking[rank]] for rank in hits)
        possible += sum(sorted((1 / propensity[label] for label in true), reverse=True)[:k])
        if true:
            ideal = sum(1 / np.log2(rank + 2) for rank in range(min(k, len(true))))
            result["nDCG"] += sum(1 / np.log2(rank + 2) for rank in hits) / ideal / n
            result["recall"] += len(hits) / len(true) / n
    result["PSP"] = reached / possible if possible else 0.0
    return result


# --- problems -----------------------------------------------------------------------------------------------


def csr(rows: list[dict[int, float]], n_labels: int, shuffle: np.random.Generator | None = None):
    """Build a CSR matrix entry by entry, which keeps zeros, in any order within a row."""
    indptr = np.cumsum([0, *map(len, rows)])
    entries = [list(row.items()) for row in rows]
    if shuffle is not None:
        entries = [[row[i] for i in shuffle.permutation(len(row))] for row in entries]
    flat = [entry for row in entries for entry in row]
    labels = np.array([label for label, _ in flat], dtype=np.int32)
    values = np.array([value for _, value in flat], dtype=np.float64)
    return sparse.csr_array((values, labels, indptr), shape=(len(rows), n_labels))


SCORES = st.one_of(  # few distinct values, so that ties are common
    st.sampled_from([-1.0, -0.0, 0.0, 0.5, 0.5000001, 1.0, np.inf, -np.inf]), st.floats(-10, 10)
)


@st.composite
def problems(draw):
    n_labels = draw(st.integers(1, 12))
    labels = st.integers(0, n_labels - 1)
    n_points = draw(st.integers(1, 8))
    truth = draw(st.lists(st.sets(labels), min_size=n_points, max_size=n_points))
    scores = draw(st.lists(st.dictionaries(labels, SCORES), min_size=n_points, max_size=n_points))
    propensity = draw(st.lists(st.floats(0.01, 1), min_size=n_labels, max_size=n_labels))
    return n_labels, truth, scores, propensity


def truth_matrix(truth, n_labels):
    return csr([dict.fromkeys(sorted(row), 1.0) for row in truth], n_labels)


def padded(rankings, width):
    return np.array([(row + [-1] * width)[:width] for row in rankings], dtype=np.int32)


@given(problem=problems(), seed=st.integers(0, 9), ks=st.lists(st.integers(1, 15), min_size=1, unique=True))
def test_scores_and_ids_match_the_oracle(problem, seed, ks):
    n_labels, truth, scores, propensity = problem
    rankings = [oracle_ranking(row) for row in scores]
    expected: dict[str, float] = {}
    for k in ks:
        oracle = oracle_metrics(truth, rankings, k, propensity)
        expected |= {f"{name}@{k}": value for name, value in oracle.items()}
    true = truth_matrix(truth, n_labels)
    for predictions in (csr(scores, n_labels, np.random.default_rng(seed)), padded(rankings, n_labels)):
        assert metrics.evaluate(true, predictions, ks, propensity) == pytest.approx(expected, abs=1e-12)


@given(problem=problems(), k=st.integers(1, 15))
def test_single_metrics_match_evaluate(problem, k):
    n_labels, truth, scores, propensity = problem
    true, predicted = truth_matrix(truth, n_labels), csr(scores, n_labels)
    result = metrics.evaluate(true, predicted, [k], propensity)
    assert metrics.precision_at_k(true, predicted, k) == result[f"P@{k}"]
    assert metrics.ndcg_at_k(true, predicted, k) == result[f"nDCG@{k}"]
    assert metrics.recall_at_k(true, predicted, k) == result[f"recall@{k}"]
    assert metrics.psp_at_k(true, predicted, k, propensity) == result[f"PSP@{k}"]


@given(problem=problems(), k=st.integers(1, 15))
def test_top_labels(problem, k):
    n_labels, _, scores, _ = problem
    ranked = metrics.top_labels(csr(scores, n_labels), k)
    assert ranked.dtype == np.int32
    np.testing.assert_array_equal(ranked, padded([oracle_ranking(row) for row in scores], k))


@given(problem=problems())
def test_f1_matches_scikit_learn(problem):
    from sklearn.metrics import f1_score  # a second to import, which the other tests need not wait for

    n_labels, truth, scores, _ = problem
    true, predicted = truth_matrix(truth, n_labels), csr(scores, n_labels)
    dense = [(matrix.toarray() != 0).astype(int) for matrix in (true, predicted)]
    if n_labels == 1:  # scikit-learn takes a single column for a binary problem
        dense = [np.hstack([column, np.zeros_like(column)]) for column in dense]
    micro = f1_score(*dense, average="micro", zero_division=0)
    macro = f1_score(*dense, average="macro", zero_division=0) * dense[0].shape[1] / n_labels
    assert metrics.micro_f1(true, predicted) == pytest.approx(micro, abs=1e-12)
    assert metrics.macro_f1(true, predicted) == pytest.approx(macro, abs=1e-12)
    ids = padded([[label for label, score in row.items() if score != 0] for row in scores], n_labels)
    assert metrics.micro_f1(true, ids) == pytest.approx(micro, abs=1e-12)
    assert metrics.macro_f1(true, ids) == pytest.approx(macro, abs=1e-12)


# --- conventions --------------------------------------------------------------------------------------------


def test_ties_rank_the_smaller_label_first_and_zero_is_a_score():
    scores = csr([{4: 1.0, 2: 1.0, 3: 2.0}, {1: -1.0, 0: 0.0, 3: -0.0}], 5)
    np.testing.assert_array_equal(metrics.top_labels(scores, 4), [[3, 2, 4, -1], [0, 3, 1, -1]])


def test_points_without_labels_count_as_misses():
    truth = truth_matrix([{0}, set()], 2)
    result = metrics.evaluate(truth, [[0], [1]], ks=[1], propensity=[0.5, 0.5])
    assert result == {"P@1": 0.5, "nDCG@1": 0.5, "PSP@1": 1.0, "recall@1": 0.5}


def test_metrics_without_any_true_label():
    result = metrics.evaluate(sparse.csr_array((2, 3)), [[0], [1]], ks=[1], propensity=[1, 1, 1])
    assert set(result.values()) == {0.0}


def test_ignores_stored_zeros_of_the_truth():
    assert metrics.precision_at_k(csr([{0: 0.0, 1: 1.0}], 2), [[0, 1]], k=2) == 0.5


def test_missing_ids_keep_their_rank():
    assert metrics.evaluate(truth_matrix([{3}], 5), [[-1, 3]], ks=[1, 2])["nDCG@2"] == pytest.approx(1 / np.log2(3))


def test_ranks_more_labels_than_one_block():
    """Rows are processed in blocks and by length, which must not change their order."""
    rng = np.random.default_rng(0)
    rows = [
        dict(zip(rng.permutation(3000)[: rng.integers(0, 3000)], rng.random(3000), strict=False)) for _ in range(900)
    ]
    scores = csr(rows, 3000)
    assert scores.nnz > 1 << 20
    np.testing.assert_array_equal(metrics.top_labels(scores, 3000), padded([oracle_ranking(row) for row in rows], 3000))
    truth = truth_matrix([set(rng.choice(3000, 3)) for _ in rows], 3000)
    assert metrics.evaluate(truth, scores) == metrics.evaluate(truth, metrics.top_labels(scores, 3000))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, bool])
def test_accepts_scores_of_any_real_type(dtype):
    scores = sparse.csr_array(np.array([[0, 1, 3, 2], [1, 0, 0, 0]]).astype(dtype))
    expected = [[1, 2], [0, -1]] if dtype is bool else [[2, 3], [0, -1]]
    np.testing.assert_array_equal(metrics.top_labels(scores, 2), expected)


@pytest.mark.parametrize("kind", ["csr_matrix", "csc_array", "coo_array"])
def test_accepts_other_sparse_formats(kind):
    make = getattr(sparse, kind)
    truth, scores = make(np.array([[0, 1, 1], [1, 0, 0]])), make(np.array([[0.0, 0.5, 0.2], [0, 1, 0]]))
    assert metrics.evaluate(truth, scores, ks=[2])["P@2"] == 0.5
    assert metrics.micro_f1(truth, scores) == pytest.approx(2 / 3)


def test_does_not_change_its_arguments():
    truth, scores = csr([{2: 1.0, 0: 1.0}], 3), csr([{2: 1.0, 1: 0.0}], 3)
    before = [(m.indices.copy(), m.data.copy()) for m in (truth, scores)]
    metrics.evaluate(truth, scores)
    metrics.micro_f1(truth, scores)
    for matrix, (indices, data) in zip((truth, scores), before, strict=True):
        np.testing.assert_array_equal(matrix.indices, indices)
        np.testing.assert_array_equal(matrix.data, data)


def test_a_million_points_and_labels_need_no_dense_matrix():
    truth = sparse.csr_array((np.ones(1), ([999_999], [999_999])), shape=(1_000_000, 1_000_000))
    ids = np.full((1_000_000, 1), 999_999, dtype=np.int32)
    assert metrics.evaluate(truth, ids, ks=[1, 10**9])["P@1"] == 1e-6


# --- propensities -------------------------------------------------------------------------------------------


def test_propensities_follow_the_paper():
    truth = truth_matrix([{0, 1}, {0}, {0}, {2}] + [set()] * 96, 4)
    scale = (np.log(100) - 1) * (1.5 + 1) ** 0.55
    expected = [1 / (1 + scale * np.exp(-0.55 * np.log(count + 1.5))) for count in (3, 1, 1, 0)]
    np.testing.assert_allclose(metrics.propensities(truth), expected, rtol=1e-14)
    np.testing.assert_allclose(metrics.propensities_from_counts([3, 1, 1, 0], 100), expected, rtol=1e-14)
    assert not np.allclose(metrics.propensities(truth, a=0.6, b=2.6), expected)


@pytest.mark.parametrize("n_points", [1, 2])
def test_propensities_of_tiny_sets_are_one(n_points):
    np.testing.assert_array_equal(metrics.propensities(sparse.csr_array(np.eye(n_points, 3))), [1, 1, 1])


# --- bad arguments ------------------------------------------------------------------------------------------

TRUTH = sparse.csr_array(np.eye(2, 3))
BAD: dict[str, list[Any]] = {
    "k": [
        (TRUTH, [[0], [1]], 0),
        (TRUTH, [[0], [1]], -1),
        (TRUTH, [[0], [1]], 1.0),
        (TRUTH, [[0], [1]], True),
    ],
    "shape": [
        (TRUTH, sparse.csr_array((2, 4)), 1),
        (TRUTH, sparse.csr_array((3, 3)), 1),
        (sparse.csr_array((0, 3)), sparse.csr_array((0, 3)), 1),
    ],
    "rows": [(TRUTH, [[0]], 1)],
    "ids from 0 to 2": [(TRUTH, [[0], [3]], 1), (TRUTH, [[0], [-2]], 1)],
    "twice in row 1": [
        (TRUTH, [[0, 1], [2, 2]], 2),
        (TRUTH, sparse.csr_array((np.ones(2), [1, 1], [0, 0, 2]), shape=(2, 3)), 2),
    ],
    "rows of one length: fill up short ones with -1": [(TRUTH, [[0, 1], [1]], 1)],
    "label ids": [(TRUTH, np.eye(2, 3), 1), (TRUTH, [0, 1], 1), (TRUTH, [["a"], ["b"]], 1)],
    "NaN": [
        (TRUTH, sparse.csr_array([[0, np.nan, 0], [0, 0, 1]]), 1),
        (sparse.csr_array([[0, np.nan, 0], [0, 0, 1]]), [[0], [1]], 1),
        (TRUTH, TRUTH.astype(complex), 1),
    ],
    "truth must be a two-dimensional SciPy sparse": [(np.eye(2, 3), [[0], [1]], 1), ([[0]], [[0]], 1)],
}


@pytest.mark.parametrize(("words", "arguments"), [(words, case) for words, cases in BAD.items() for case in cases])
def test_rejects_bad_arguments(words, arguments):
    with pytest.raises(ValueError, match=words):
        metrics.precision_at_k(*arguments)


def test_rejects_a_broken_matrix():
    broken = sparse.csr_array(np.eye(2, 3))
    broken.indices[1] = 3
    with pytest.raises(ValueError, match="indices must be < 3"):
        metrics.precision_at_k(TRUTH, broken, 1)


@pytest.mark.parametrize("propensity", [[1, 1], [1, 1, 0], [1, 1, 1.5], [1, 1, np.nan], [[1, 1, 1]]])
def test_rejects_a_bad_propensity(propensity):
    with pytest.raises(ValueError, match="propensity must hold"):
        metrics.evaluate(TRUTH, [[0], [1]], propensity=propensity)


def test_rejects_bad_propensity_parameters():
    with pytest.raises(ValueError, match="b positive"):
        metrics.propensities(TRUTH, b=0)
    with pytest.raises(ValueError, match="counts must be"):
        metrics.propensities_from_counts([4], n_points=3)
    with pytest.raises(ValueError, match="n_points must be"):
        metrics.propensities_from_counts([0], n_points=0)


def test_evaluate_needs_a_k():
    with pytest.raises(ValueError, match="ks is empty"):
        metrics.evaluate(TRUTH, [[0], [1]], ks=[])
    with pytest.raises(ValueError, match=r"^ks must be a sequence of whole numbers, got 5: pass \[5\]"):
        metrics.evaluate(TRUTH, [[0], [1]], 5)
    with pytest.raises(ValueError, match=r"^recall_ks must be a sequence"):
        metrics.evaluate(TRUTH, [[0], [1]], [1], recall_ks=5)


@pytest.mark.parametrize("as_matrix", [False, True])
def test_reports_fewer_predictions_than_k(as_matrix):
    truth = sparse.csr_array(np.eye(8))
    ids = np.array([[i, (i + 1) % 8] for i in range(8)])
    predictions = (
        sparse.csr_array((np.tile([2.0, 1.0], 8), (np.repeat(range(8), 2), ids.ravel()))) if as_matrix else ids
    )
    with pytest.warns(
        UserWarning, match="name at most 2 labels per point, and measuring at 5 counts the others as wrong"
    ):
        assert metrics.evaluate(truth, predictions, ks=[1, 5])["P@5"] == 0.2
    for measure in (
        metrics.precision_at_k,
        metrics.recall_at_k,
        metrics.ndcg_at_k,
        partial(metrics.psp_at_k, propensity=np.ones(8)),
    ):
        with pytest.warns(UserWarning, match="name at most 2 labels per point, and measuring at 3") as warned:
            measure(truth, predictions, 3)
        assert warned[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics.evaluate(truth, predictions, ks=[2])
        metrics.precision_at_k(truth, predictions, 2)
        metrics.evaluate(sparse.csr_array(np.eye(2)), [[0, 1], [1, 0]], ks=[5])  # there are no more labels than that
