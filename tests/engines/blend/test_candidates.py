"""The labels that a blend proposes for a point, and what tree, network and neighbors make of them."""

import numpy as np
import pytest
from scipy import sparse

from sparsenet import Rows
from sparsenet.engines.blend.candidates import UNKNOWN, Candidates, propose
from sparsenet.engines.tree.fit_tree import FittedTree
from tests.support.blends import NOISY, NOISY_Y, blend, light, noisy_blend, parts_of
from tests.support.planted import X, Y

NOTHING = sparse.csr_array((1, 601), dtype=np.float32)


@pytest.fixture(scope="module")
def with_network():
    return noisy_blend()


@pytest.fixture(scope="module")
def without_network():
    return noisy_blend(network="drop")


@pytest.fixture(params=["network", "drop"])
def model(request, with_network, without_network):
    return with_network if request.param == "network" else without_network


def proposed(model, rows, n, k, **how):
    return propose(model._fitted.parts(), model._features(rows), n, k=k, beam=model.tree_.beam, threads=1, **how)


def assert_as_expected(found, expected):
    for i, own in enumerate(expected):
        valid = found.valid[i]
        assert sorted(found.labels[i][valid].tolist()) == sorted(own)
        features = np.array([own[label] for label in found.labels[i][valid].tolist()])
        np.testing.assert_allclose(found.penalties[i][valid], features[:, 0], rtol=1e-3, atol=3e-3)
        np.testing.assert_allclose(found.log_probabilities[i][valid], features[:, 1], rtol=1e-3, atol=3e-3)
        np.testing.assert_allclose(found.shares[i][valid], features[:, 2], rtol=1e-3, atol=3e-3)


@pytest.mark.parametrize("k", [0, 1, 20])
def test_candidates_hold_what_each_part_computes(model, k):
    found, expected = proposed(model, NOISY[:30], 20, k), parts_of(model, NOISY[:30], 20, k)
    assert_as_expected(found, expected)
    assert found.labels.shape == (30, 30 if k else 20)
    if k == 20:
        assert max(map(len, expected)) > 20, "neighbors propose labels that the tree misses"


def test_the_network_replaces_missing_neighbors(model):
    """A point of no features has no neighbors, whatever k is."""
    found, of_two = proposed(model, NOTHING, 20, 50), proposed(model, NOTHING, 20, 0)
    assert found.valid.sum() == 20
    for own, expected in zip(found, of_two, strict=True):
        np.testing.assert_array_equal(own[found.valid], expected[of_two.valid])
    opinion = np.exp(found.log_probabilities if model.network_ is not None else -np.square(found.penalties))
    np.testing.assert_allclose(found.shares[found.valid], np.sqrt(1.2 * opinion[found.valid]), rtol=1e-5)


def test_proposes_each_label_once(model):
    found = proposed(model, NOISY[:200], 20, 50)
    for labels, valid in zip(found.labels, found.valid, strict=True):
        assert len(set(labels[valid].tolist())) == valid.sum() >= 20
    assert (~found.valid).any(), "the neighbors proposed some that the tree had proposed"
    assert (found.penalties[~found.valid] == UNKNOWN).all()


def test_all_labels_need_no_neighbors(model):
    found = proposed(model, NOISY[:20], 600, 50)
    np.testing.assert_array_equal(np.sort(found.labels, axis=1), np.tile(np.arange(600), (20, 1)))


def test_labels_without_points_are_no_candidates():
    wider = np.hstack((np.zeros((len(Y), 3), int), Y, np.zeros((len(Y), 2), int)))
    for make in (blend, light):
        fitted = make().fit(X, wider)
        found = proposed(fitted, X[:20], 45, 50)
        np.testing.assert_array_equal(np.sort(found.labels[:, 40:], axis=1), np.tile([0, 1, 2, 43, 44], (20, 1)))
        np.testing.assert_array_equal(found.valid, np.tile(np.arange(45) < 40, (20, 1)))


def test_given_weights_replace_the_lookup(model, monkeypatch):
    points = model._features(NOISY[:40])
    weights = model.neighbors_.vote_weights(points, 7, 1)
    expected = proposed(model, NOISY[:40], 20, 7)
    monkeypatch.setattr(type(model.neighbors_), "vote_weights", None)
    for found, own in zip(proposed(model, NOISY[:40], 20, 7, weights=weights), expected, strict=True):
        np.testing.assert_array_equal(found, own)


@pytest.mark.parametrize(("n_dropped", "expected"), [(0, 20), (13, 33)])
def test_the_beam_widens_for_unwanted_labels(without_network, monkeypatch, n_dropped, expected):
    asked, rank = [], FittedTree.rank
    monkeypatch.setattr(FittedTree, "rank", lambda tree, *a, **how: asked.append(how["beam"]) or rank(tree, *a, **how))
    proposed(without_network, NOISY[:3], 20, 5, n_dropped=n_dropped)
    assert asked == [expected]


def test_hits_are_true_candidates(model):
    found, truth = proposed(model, NOISY[:50], 20, 50), NOISY_Y[:50]
    hits = found.hits(Rows.of(sparse.csr_array(truth, dtype=np.float32)))
    np.testing.assert_array_equal(hits, (np.take_along_axis(truth, found.labels, axis=1) == 1) & found.valid)
    assert hits.any()
    some = np.arange(50) % 3 == 0
    part = found.take(some)
    assert isinstance(part, Candidates)
    np.testing.assert_array_equal(part.labels, found.labels[some])
    np.testing.assert_array_equal(part.features, found.features[some])
