"""One kernel call ranks the candidates of a blend as `propose` and `Combination.rank` do."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import sparse

from sparsenet import ExtremeClassifier, TreeClassifier, kernels
from sparsenet.engines.blend.candidates import propose
from sparsenet.engines.blend.fast_ranking import FastRanking
from tests.support.blends import NOISY, blend, noisy_blend
from tests.support.planted import X, Y

N, K, BEAM = 20, 50, 4
#: The last points have no features.
POINTS = sparse.vstack([NOISY[:40], sparse.csr_array((2, NOISY.shape[1]), dtype=np.float32)]).tocsr()
MODELS = {
    "no network": {"network": "drop"},
    "network": {},
    "softmax, without a wide path": {"network": ExtremeClassifier(loss="softmax", hidden=16, wide=False, epochs=3)},
    "two layers": {"network": ExtremeClassifier(hidden=(16, 8), epochs=3)},
    "wide path alone": {"network": ExtremeClassifier(hidden=0, epochs=3)},
}


@pytest.fixture(scope="module", params=MODELS, ids=str)
def model(request):
    return noisy_blend(**MODELS[request.param])


@pytest.fixture
def kernel(backend, monkeypatch):
    monkeypatch.setattr(kernels, "rank_blend", backend.rank_blend)


def ranked(model, rows, n=N, n_best=N, k=K, beam=BEAM, threads=1):
    return model._fitted.fast_ranking(n, k=k, beam=beam).rank(model._features(rows), n_best, threads)


@pytest.mark.parametrize("k", [0, 1, K])
@pytest.mark.parametrize("beam", [1, BEAM])
def test_ranks_like_the_parts(model, kernel, k, beam):
    parts, combination, points = model._fitted.parts(with_neighbors=k > 0), model._fitted.combining(k), POINTS
    found = propose(parts, model._features(points), N, k=k, beam=beam, threads=1)
    expected, expected_scores = combination.rank(found, N, model.label_counts_)
    labels, scores = ranked(model, points, k=k, beam=beam)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-4, atol=1e-4)
    # Sums in another order may swap near ties.
    assert (labels == expected).mean() > 0.99
    for own, others in zip(labels, expected, strict=True):
        assert len(set(own.tolist())) == N
        assert len(set(own.tolist()) & set(others.tolist())) >= N - 1


def test_answers_do_not_depend_on_other_points_threads_or_depth(model, kernel):
    labels, scores = ranked(model, POINTS)
    for threads in (2, 3):
        np.testing.assert_array_equal(ranked(model, POINTS, threads=threads), (labels, scores))
    for i in range(0, len(labels), 5):
        np.testing.assert_array_equal(ranked(model, POINTS[[i]], n_best=3), (labels[[i], :3], scores[[i], :3]))


def test_a_predictor_answers_like_topk_to_the_last_bit(model):
    predictor = model.predictor(k=4)
    labels, p = model.topk(POINTS, 4)
    assert all(np.array_equal(a, b) for a, b in zip(predictor(POINTS), (labels, p), strict=True))
    for i in range(len(labels)):
        row = POINTS[[i]].tocoo()
        order = np.random.default_rng(i).permutation(row.nnz)  # features in any order
        one, own = predictor.one(row.col[order], row.data[order])
        assert one.tolist() == labels[i].tolist()
        np.testing.assert_array_equal(own, p[i])


@pytest.fixture(scope="module")
def light():
    return blend(network="drop").fit(X, Y)


def test_a_predictor_leaves_out_labels_like_topk(light):
    predictor, exclude = light.predictor(k=3), [1, 2, 3]
    rows, names = X[:10], light.classes_[exclude]
    expected = light.topk(rows, 3, exclude=names.tolist())
    np.testing.assert_array_equal(predictor(rows, exclude=names.tolist())[0], expected[0])
    only = light.classes_[:8]
    for i in range(10):
        row = X[[i]].tocoo()
        assert predictor.one(row.col, row.data, exclude=names)[0].tolist() == expected[0][i].tolist()
        among = light.topk(X[[i]], 3, only=only.tolist())[0][0]
        assert predictor.one(row.col, row.data, only=only)[0].tolist() == among.tolist()


def test_later_parameters_do_not_reach_a_predictor(light):
    predictor = light.predictor(k=5)
    before = predictor(X[:50])
    try:
        light.set_params(candidates=6, n_neighbors=1)
        light.tree_.set_params(beam=1)
        assert not np.array_equal(light.topk(X[:50], 5)[1], before[1])
        np.testing.assert_array_equal(predictor(X[:50]), before)
    finally:
        light.set_params(candidates="auto", n_neighbors=50)
        light.tree_.set_params(beam=10)


def test_threads_share_a_predictor(light):
    predictor, rows = light.predictor(k=3), [X[[i]].tocoo() for i in range(100)]
    expected = [predictor.one(row.col, row.data)[1] for row in rows]
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda row: predictor.one(row.col, row.data)[1], rows * 3)
        for own, wanted in zip(found, expected * 3, strict=True):
            np.testing.assert_array_equal(own, wanted)


def test_a_tree_has_a_predictor():
    tree = TreeClassifier(random_state=0, n_jobs=1).fit(X, Y)
    predictor, expected = tree.predictor(k=3), tree.topk(X[:20], 3)
    for i in range(20):
        row = X[[i]].tocoo()
        found = predictor.one(row.col, row.data)
        assert found[0].tolist() == expected[0][i].tolist()
        np.testing.assert_array_equal(found[1], expected[1][i])


def test_refuses_more_candidates_than_leaves(light, kernel):
    parts, combination = light._fitted.parts(), light._fitted.combining(K)
    n = len(parts.tree.shape.labels) + 1
    with pytest.raises(ValueError, match="n_candidates must be from 1 to"):
        FastRanking.of(parts, combination, n, k=K, beam=BEAM).rank(light._features(X[:2]), 1, 1)
