"""How much neighbours count in a blend: measured on points that its tree has not learnt."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from sparsenet import BlendClassifier, ExtremeClassifier, Rows, TreeClassifier
from sparsenet.core.rows import as_matrix
from sparsenet.core.seeds import run_seed
from sparsenet.engines.blend import trust, voting
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.storage import load, save
from tests.support.planted import planted

X, Y = planted(n=1200, n_features=200, n_labels=40, seed=1)
Y = sparse.csr_array(Y)


def blend(**parameters):
    network = ExtremeClassifier(hidden=16, epochs=4, batch_size=64)
    return BlendClassifier(**{"network": network, "random_state": 0, "n_jobs": 1, **parameters})


def all_labelled(n):
    """Return n rows of one and the same label."""
    return Rows(np.arange(n + 1), np.zeros(n, np.int32), np.ones(n, np.float32), 1)


@pytest.fixture
def few_are_enough(monkeypatch):
    monkeypatch.setattr(trust, "EVERY", 8)
    monkeypatch.setattr(trust, "FEWEST", 100)


@pytest.mark.parametrize(("n", "expected"), [(65_535, 0), (65_536, 1024), (100_000, 1562), (1_000_000, 2048)])
def test_so_many_points_are_kept_from_the_tree(n, expected):
    kept = trust.kept_from_tree(all_labelled(n), 7)
    assert len(np.unique(kept)) == len(kept) == expected
    assert kept.dtype == np.int64
    if expected:
        assert (np.diff(kept) > 0).all()
        assert 0 <= kept[0] < n / 100
        assert kept[-1] > n - n / 100
        np.testing.assert_array_equal(kept, trust.kept_from_tree(all_labelled(n), 7))
        assert len(np.setdiff1d(kept, trust.kept_from_tree(all_labelled(n), 8))) > expected / 2


@pytest.mark.parametrize("kept", [[], [0, 5, 1199]], ids=len)
def test_a_tree_goes_without_points_and_not_only_without_their_labels(kept):
    points, labels = Rows.of(sparse.csr_array(X)), Rows.of(Y)
    rest = np.setdiff1d(np.arange(X.shape[0]), kept)
    found = trust.fit_without(TreeClassifier(random_state=0), points, labels, np.array(kept, np.int64))
    expected = TreeClassifier(random_state=0).fit(as_matrix(points)[rest], Y[rest])
    assert found.n_points_ == len(rest)
    for given, wanted in zip(found.topk_numbers(X, 5), expected.topk_numbers(X, 5), strict=True):
        np.testing.assert_array_equal(given, wanted)


@pytest.mark.parametrize(
    ("twins_agree", "tree_right", "expected"),
    [
        (True, 400, 2 ** (0.1 * 400 / 700 / 0.16)),
        (True, 100, trust.UTMOST),
        (True, 0, trust.UTMOST),
        (False, 400, trust.LEAST),
        (False, 0, 2 ** (0.1 * 400 / 700 / 0.16)),
    ],
)
def test_neighbours_count_by_how_often_they_are_right_where_the_tree_is(twins_agree, tree_right, expected):
    """Points come in pairs that are alike; a label is that of the twin, or of no other point that is near."""
    n = 400
    features = np.arange(n) // 2
    points = Rows.of(sparse.csr_array((np.ones(n, np.float32), features, np.arange(n + 1)), shape=(n, n // 2)))
    own = (features if twins_agree else np.arange(n)).astype(np.int32)
    labels = Rows(np.arange(n + 1, dtype=np.int64), own, np.ones(n, np.float32), n)
    neighbors = Neighbors.learn(points, labels, 1, seed=0, threads=1)
    named = np.where(np.arange(n) < tree_right, own, (own + 1) % n).astype(np.int32)[:, None]
    tree = SimpleNamespace(_ranked=lambda *_, **__: (named, None))
    found = trust.measured(neighbors, tree, points, labels, np.arange(n), k=1, threads=1)
    assert found == pytest.approx(expected)
    assert trust.measured(neighbors, tree, points, labels, np.empty(0, np.int64), k=1, threads=1) == 1


@pytest.mark.usefixtures("few_are_enough")
def test_the_tree_alone_goes_without_the_points_that_are_measured_on(tmp_path):
    model = blend().fit(X, Y)
    kept = trust.kept_from_tree(Rows.of(Y.astype(np.float32)), run_seed(0))
    counts = Y.sum(axis=0)
    np.testing.assert_array_equal(model.tree_.label_counts_, counts - Y[kept].sum(axis=0))
    for whole in (model, model.network_):
        np.testing.assert_array_equal(whole.label_counts_, counts)
        assert whole.n_points_ == X.shape[0]
    assert len(model.neighbors_.labels) == X.shape[0]
    points, labels = model._features(X), Rows.of(Y)
    about = {"k": 50, "threads": 1}
    assert model.neighbors_.trust == trust.measured(model.neighbors_, model.tree_, points, labels, kept, **about) != 1
    model.save(tmp_path / "model")
    copy = BlendClassifier.load(tmp_path / "model")
    assert copy.neighbors_.trust == model.neighbors_.trust
    np.testing.assert_array_equal(copy.predict_proba(X[:50]), model.predict_proba(X[:50]))
    arrays, metadata = load(tmp_path / "model")
    del metadata["neighbors"]["trust"]
    save(tmp_path / "older", arrays, metadata)
    assert BlendClassifier.load(tmp_path / "older").neighbors_.trust == 1


@pytest.mark.usefixtures("few_are_enough")
def test_where_nothing_is_to_be_weighed_the_tree_learns_all():
    model = blend(n_neighbors=0).fit(X, Y)
    np.testing.assert_array_equal(model.tree_.label_counts_, Y.sum(axis=0))
    assert model.neighbors_ is None


@pytest.mark.parametrize(("n", "expected"), [(5_119, 0), (5_120, 512), (20_480, 2048), (60_000, 2048)])
def test_of_fewer_points_a_tenth_is_kept_from_a_tree_apart(n, expected):
    kept = trust.kept_apart(all_labelled(n), 7)
    assert len(np.unique(kept)) == len(kept) == expected


def test_where_no_label_would_be_left_none_are_kept():
    """Of 6,000 points one has a label, which is learnt wherever it stands."""
    points = sparse.csr_array(np.eye(8, dtype=np.float32)[np.arange(6000) % 8])
    apart = trust.kept_apart(all_labelled(6000), run_seed(0))
    for row in (apart[0], np.setdiff1d(np.arange(6000), apart)[0]):
        y = sparse.csr_array(([1], ([row], [2])), shape=(6000, 5))
        model = blend(network="drop").fit(points, y)
        assert model.topk(points[[row]], 1)[0].tolist() == [[2]]


@pytest.mark.parametrize("network", [None, "drop"])
def test_a_tree_apart_judges_and_the_one_that_is_kept_learns_all(monkeypatch, network):
    monkeypatch.setattr(trust, "FEWEST_APART", 100)
    model = blend(**({} if network is None else {"network": network})).fit(X, Y)
    np.testing.assert_array_equal(model.tree_.label_counts_, Y.sum(axis=0))
    points, labels = model._features(X), Rows.of(Y)
    kept = trust.kept_apart(labels, run_seed(0))
    rest = np.setdiff1d(np.arange(X.shape[0]), kept)
    judge = clone(model.tree_).fit(as_matrix(points)[rest], Y[rest])
    expected = trust.measured(model.neighbors_, judge, points, labels, kept, k=50, threads=1)
    assert model.neighbors_.trust == expected != 1


def test_neighbours_that_know_little_hardly_count(monkeypatch):
    """What tells the label is one feature of thirty, which the tree finds and which makes nobody near."""
    rng = np.random.default_rng(0)
    own, rows = rng.integers(20, size=2000), np.repeat(np.arange(2000), 30)
    columns = np.hstack([own[:, None], 20 + rng.integers(300, size=(2000, 29))]).ravel()
    points = sparse.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(2000, 320))
    monkeypatch.setattr(trust, "FEWEST_APART", 100)
    model = BlendClassifier(network="drop", random_state=0, n_jobs=1).fit(points, own)
    assert trust.LEAST <= model.neighbors_.trust < 0.3


def test_a_vote_counts_as_much_as_it_is_trusted():
    model = blend().fit(X, Y)
    points = model._features(X[:30])
    parts = (model.network_, model.tree_, points, 40, 1)

    def votes(factor):
        labels, found = voting.vote(*parts, neighbors=replace(model.neighbors_, trust=factor), k=50)
        return np.take_along_axis(found, np.argsort(labels, axis=1), axis=1).astype(np.float64)

    once, twice, half = votes(1.0), votes(2.0), votes(0.5)
    inside = (once < -0.01) & (half < -0.01) & (twice < -0.01) & (twice > -1e5)
    assert inside.sum() > 300
    np.testing.assert_allclose((twice - once)[inside], 2 * (once - half)[inside], rtol=1e-3, atol=1e-4)
    assert np.abs(twice - once)[inside].max() > 0.5


def test_votes_that_lie_further_apart_have_a_flatter_curve():
    neighbors, tree = SimpleNamespace(trust=1.0), SimpleNamespace(cost=0.5)
    assert voting.curve_of(object(), tree, neighbors) == voting.OF_THREE
    neighbors.trust = 2.0
    slope, shift = voting.curve_of(object(), tree, neighbors)
    assert slope < voting.OF_THREE[0]
    assert shift > voting.OF_THREE[1]
    neighbors.trust = trust.LEAST
    for found, of_two in zip(voting.curve_of(object(), tree, neighbors), voting.OF_TWO, strict=True):
        assert found == pytest.approx(of_two, rel=0.15), "those who hardly count change the curve of the others little"
    assert voting.curve_of(None, tree, neighbors) == voting.WITHOUT_NETWORK
    assert voting.curve_of(object(), tree, None) == voting.OF_TWO


def test_one_label_is_enough():
    rng = np.random.default_rng(0)
    points = sparse.random_array((5200, 40), density=0.1, rng=rng, format="csr", dtype=np.float32)
    labels = sparse.csr_array((rng.random((5200, 1)) < 0.5).astype(np.float32))
    model = BlendClassifier(network="drop", random_state=0, n_jobs=1).fit(points, labels)
    found = model.neighbors_.best_by_others(Rows.of(points), np.arange(500), 50, 1)
    assert (found == 0).all(), "a second label, which there is not, was read from beyond the end of its table"
