"""Centroids of labels as neighbors of dense points."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from sparsenet import BlendClassifier, ModelError, load
from sparsenet.core.rows import Rows
from sparsenet.engines.neighbors.fit_neighbors import fit, peak_memory
from sparsenet.engines.neighbors.label_centroids import LabelCentroids
from sparsenet.storage import load as load_arrays
from sparsenet.storage import save as save_arrays

WIDTH, N_LABELS = 48, 60


def noisy(n, seed=0):
    """Draw points around the places of labels, farther from them than from each other's place."""
    rng = np.random.default_rng(seed)
    places = np.random.default_rng(99).normal(size=(N_LABELS, WIDTH))
    y = rng.integers(0, N_LABELS, n)
    return (places[y] + 2.2 * rng.normal(size=(n, WIDTH))).astype(np.float32), y


X, y = noisy(360)
POINTS = Rows.of(sparse.csr_array(X))
LABELS = Rows.of(sparse.csr_array((np.ones(len(y), np.float32), (np.arange(len(y)), y)), shape=(len(y), N_LABELS)))


@pytest.fixture(scope="module")
def learnt():
    return fit(POINTS, LABELS, 20, seed=0, threads=1)


def test_centroids_join_the_points_if_the_vote_is_better(learnt):
    neighbors, decisions = learnt
    assert decisions["centroids"].value == "centroids"
    assert decisions["centroids"].gain > 2 * decisions["centroids"].standard_error
    assert neighbors.n_points == len(X)
    assert neighbors.n_centroids == len(np.unique(y))
    assert repr(neighbors).startswith("<Neighbors: 360 points and 60 centroids, rarity=")


def test_a_label_of_one_noiseless_cluster_needs_no_centroids():
    rng = np.random.default_rng(0)
    places = rng.normal(size=(10, WIDTH))
    labels = Rows.of(sparse.csr_array(np.eye(10, dtype=np.float32)[np.arange(200) % 10]))
    points = places[np.arange(200) % 10] + 0.01 * rng.normal(size=(200, WIDTH))
    neighbors, decisions = fit(Rows.of(sparse.csr_array(points)), labels, 5, seed=0, threads=1)
    assert decisions["centroids"].value == "points"
    assert neighbors.n_centroids == 0
    assert neighbors.centroids is None


def test_a_point_is_left_out_of_its_own_centroid(learnt):
    """The products equal products with centroids made without the point."""
    neighbors, _ = learnt
    sample = np.arange(0, 360, 7)
    near, products = neighbors.nearest_others(POINTS.take(sample), sample, len(neighbors.labels) - 1, 1)
    assert not (near == sample[:, None])[products > 0].any()
    for row, point in enumerate(sample):
        others = [i for i in np.flatnonzero(y == y[point]) if i != point]
        (place,) = np.flatnonzero(near[row] == neighbors.n_points + y[point])
        sums = (X[others].sum(axis=0) if others else np.zeros(WIDTH)) * neighbors.weights
        query = X[point] * neighbors.weights / np.abs(X[point]).max()
        expected = max(query @ sums / max(np.linalg.norm(sums), 1e-12), 0)
        assert products[row, place] == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_the_sums_of_centroids_count_as_memory(learnt):
    neighbors, _ = learnt
    assert any(array is neighbors.centroids.sums for array in neighbors.arrays())


def test_making_centroids_takes_no_more_memory_than_announced():
    """The sums, and the ids and values that they are made of, take more than 8 bits of all points."""
    n, width = 300_000, 16
    points = Rows.of(sparse.csr_array(np.random.default_rng(0).normal(size=(n, width)).astype(np.float32)))
    labels = Rows(np.arange(n + 1), np.arange(n, dtype=np.int32), np.ones(n, np.float32), n)
    tracemalloc.start()
    LabelCentroids.of(points, labels, 1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < peak_memory(points, labels)


def test_the_centroid_of_an_only_point_does_not_vote_for_it():
    labels = Rows.of(sparse.csr_array(np.eye(360, 360, dtype=np.float32)))
    neighbors, _ = fit(POINTS, labels, 20, seed=0, threads=1)
    assert neighbors.n_centroids == 0  # each centroid is its only point


def test_a_saved_blend_keeps_its_centroids(tmp_path):
    model = BlendClassifier(network="drop", random_state=0).fit(X, y)
    assert model.choices_["centroids"].value == "centroids"
    assert model.neighbors_.centroids is None, "the sums serve training only"
    test, truth = noisy(300, seed=1)
    assert model.score(test, truth) > BlendClassifier(network="drop", n_neighbors=1, random_state=0).fit(X, y).score(
        test, truth
    )
    model.save(tmp_path / "model")
    other = load(tmp_path / "model")
    assert other.neighbors_.n_centroids == model.neighbors_.n_centroids
    np.testing.assert_array_equal(other.predict_proba(test), model.predict_proba(test))
    found = model.explain(X[[3]], int(y[3]))
    assert all(voter.row < len(X) for voter in found.neighbors)


@pytest.mark.parametrize("number", [-1, 3, 61, "2"])
def test_refuses_a_forged_number_of_centroids(number, tmp_path):
    BlendClassifier(network="drop", random_state=0).fit(X, y).save(tmp_path / "model")
    arrays, metadata = load_arrays(tmp_path / "model")
    metadata["neighbors"]["n_centroids"] = number
    save_arrays(tmp_path / "model", arrays, metadata)
    with pytest.raises(ModelError):
        load(tmp_path / "model")
