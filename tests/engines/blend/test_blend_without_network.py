"""BlendClassifier with ``network="drop"``: a tree and the nearest training points decide."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsenet import BlendClassifier, ExtremeClassifier, ModelError, TreeClassifier
from sparsenet.cli.about_model import collect
from sparsenet.engines.network import fit_network
from sparsenet.storage import load, save
from tests.support.blends import NOISY, NOISY_Y, light, parts_of
from tests.support.planted import NAMES, X, Y

ONE_EACH = NAMES[Y.argmax(axis=1)]


@pytest.fixture(scope="module")
def model():
    return light().fit(NOISY, sparse.csr_array(NOISY_Y))


@parametrize_with_checks([light(), light(normalize="rows")])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_trains_no_network(model, monkeypatch):
    assert model.network_ is None
    monkeypatch.setattr(fit_network, "fit", None)
    again = light().fit(NOISY, NOISY_Y)
    np.testing.assert_array_equal(again.topk_numbers(NOISY)[0], model.topk_numbers(NOISY)[0])


@pytest.mark.parametrize("k", [1, 20])
def test_answers_weigh_tree_and_neighbors(model, k):
    """The weighted sums give the order, and each label's probability follows from its own and its rank."""
    fitted = model._fitted.combination
    tree, _, neighbors = fitted.weights
    expected = parts_of(model, NOISY[:30], model.candidates_, k)
    try:
        labels, p = model.set_params(n_neighbors=k).topk_numbers(NOISY[:30], 10)
    finally:
        model.set_params(n_neighbors=50)
    for i, own in enumerate(expected):
        scores = {label: neighbors * s - tree * root for label, (root, _, s) in own.items()}
        best = sorted(scores.values(), reverse=True)
        most = np.inf
        for rank, (label, said) in enumerate(zip(labels[i].tolist(), p[i].tolist(), strict=True)):
            assert scores[label] == pytest.approx(best[rank], abs=1e-2)
            logit = fitted.slope * scores[label] + fitted.shift - fitted.fall * np.log(rank + 1)
            most = min(most, logit + fitted.count_weight * np.log(model.label_counts_[label]))
            assert said == pytest.approx(1 / (1 + np.exp(-most)), rel=5e-2, abs=1e-3)


def test_the_tree_decides_without_any_neighbor(model):
    """A point of no features is like no other."""
    nothing = sparse.csr_array((1, 601), dtype=np.float32)
    points = model._features(nothing)
    _, labels, scores = next(model._fitted.rank(points, 32, k=50, beam=10, threads=1))
    named, _ = model._fitted.tree.rank(points, 32, beam=20, threads=1)
    np.testing.assert_array_equal(labels, named)
    assert (np.diff(scores, axis=1) <= 0).all()


def test_the_blend_is_better_than_its_parts():
    """Draw six hundred kinds of points, each with one of eight labels: only neighbors determine the label."""
    rng = np.random.default_rng(0)
    kinds, of_kind = rng.random((600, 60)) < 0.15, rng.integers(0, 8, 600)
    kind = rng.integers(0, 600, 5000)
    points = sparse.csr_array((kinds[kind] ^ (rng.random((5000, 60)) < 0.02)).astype(np.float32))
    found = light().fit(points[:4000], of_kind[kind[:4000]])
    alone = TreeClassifier(random_state=0, n_jobs=1).fit(points[:4000], of_kind[kind[:4000]])
    truth = of_kind[kind[4000:]]
    assert found.score(points[4000:], truth) > alone.score(points[4000:], truth) + 0.1


def test_probabilities_are_calibrated():
    """Labels are random, so the mean probability must match the precision."""
    rng = np.random.default_rng(0)
    features = sparse.csr_array(np.eye(30, dtype=np.float32)[rng.integers(0, 30, 6000)])
    chance = np.linspace(0.1, 0.9, 30)
    y = np.zeros((6000, 31), int)
    y[np.arange(6000), features.indices] = rng.random(6000) < chance[features.indices]
    y[:, 30] = 1
    said = light().fit(features, y).predict_proba(np.eye(30))
    assert np.corrcoef(said[np.arange(30), np.arange(30)], chance)[0, 1] > 0.9
    assert said[:, 30].min() > 0.95, "what is always so"


def test_threads_change_nothing(model):
    other = light(n_jobs=2).fit(NOISY, sparse.csr_array(NOISY_Y))
    for found, expected in zip(other.topk_numbers(NOISY[:99]), model.topk_numbers(NOISY[:99]), strict=True):
        np.testing.assert_array_equal(found, expected)


# --- parameters ---


def test_rejects_a_tree_alone(model):
    with pytest.raises(ValueError, match="network is 'drop' and n_neighbors 0: that is a TreeClassifier"):
        light(n_neighbors=0).fit(X, Y)
    try:
        with pytest.raises(ValueError, match="n_neighbors is 0, and this model has no network"):
            model.set_params(n_neighbors=0).topk(NOISY[:3], 3)
    finally:
        model.set_params(n_neighbors=50)


def test_rejects_a_time_budget_without_a_network():
    """The command line rejects it too."""
    said = "time_budget=30 is for the network, and network='drop' leaves it out: set time_budget=None"
    with pytest.raises(ValueError, match=said):
        light(time_budget=30).fit(X, Y)


def test_rejects_parameters_of_a_dropped_network():
    with pytest.raises(ValueError, match="network__hidden cannot be set: network is 'drop'"):
        light().set_params(network__hidden=3)
    with pytest.raises(ValueError, match="network__hidden cannot be set"):
        BlendClassifier().set_params(network="drop", network__hidden=3)
    refused = light()
    with pytest.raises(ValueError, match="network__hidden cannot be set"):
        refused.set_params(tree__cost=3, candidates=5, network__hidden=3)
    assert refused.get_params() == light().get_params()
    assert light().set_params(tree__cost=3, network=None, network__epochs=2).network.epochs == 2


def test_a_search_may_drop_the_network():
    choices = {"network": [ExtremeClassifier(hidden=8, epochs=1), "drop"]}
    search = GridSearchCV(light(), choices, cv=2, error_score="raise").fit(X, Y)
    assert search.best_params_ == {"network": "drop"}
    assert np.ptp(search.cv_results_["mean_test_score"]) > 0


# --- on disk ---


@pytest.mark.parametrize("tree", [None, TreeClassifier(cost=2)])
def test_save_load_and_pickle(tmp_path, tree):
    found = light(tree=tree, candidates=20).fit(X, ONE_EACH)
    found.save(tmp_path / "model")
    assert not [name for name in load(tmp_path / "model")[0] if name.startswith("network")]
    for copy in (BlendClassifier.load(tmp_path / "model"), pickle.loads(pickle.dumps(found))):
        np.testing.assert_array_equal(copy.predict_proba(X), found.predict_proba(X))
        assert str(copy.get_params()) == str(found.get_params())
        assert copy.network_ is None
    found.save(tmp_path / "small", compact=True)
    assert BlendClassifier.load(tmp_path / "small").score(X, ONE_EACH) > 0.9


def test_parameters_set_after_training_are_saved(tmp_path):
    with_network = BlendClassifier(network=ExtremeClassifier(hidden=4, epochs=1), n_jobs=1).fit(X, Y)
    for model, network, loaded in (
        (with_network, "drop", "drop"),
        (light().fit(X, Y), None, None),
        (light().fit(X, Y), ExtremeClassifier(hidden=4), ExtremeClassifier(hidden=4)),
    ):
        model.set_params(network=network).save(tmp_path / "model")
        copy = BlendClassifier.load(tmp_path / "model")
        assert repr(copy.network) == repr(loaded)
        np.testing.assert_array_equal(copy.topk_numbers(X)[0], model.topk_numbers(X)[0])
        assert collect(tmp_path / "model")["settings"].get("network") == (loaded if loaded == "drop" else None)
    with pytest.raises(ValueError, match="network must be None, 'drop' or an instance"):
        with_network.set_params(network="nonsense").save(tmp_path / "model")


def test_refuses_to_save_a_tree_as_a_blend(tmp_path):
    found = light().fit(X, Y).set_params(n_neighbors=0)
    with pytest.raises(ValueError, match="n_neighbors is 0 and this model has no network"):
        found.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_refuses_to_load_a_tree_as_a_blend(model, tmp_path):
    model.save(tmp_path / "model")
    arrays, metadata = load(tmp_path / "model")
    save(tmp_path / "model", arrays, {**metadata, "neighbors": None})
    with pytest.raises(ModelError, match="the model has a tree but neither a network nor neighbors"):
        BlendClassifier.load(tmp_path / "model")
