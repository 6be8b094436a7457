"""BlendClassifier: the estimator of network, tree and neighbors together."""

import pickle
import time
import tracemalloc
import warnings
from dataclasses import replace
from functools import partialmethod
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsenet import (
    BinaryCrossEntropy,
    BlendClassifier,
    CheckpointError,
    ExtremeClassifier,
    ModelError,
    RandomSampler,
    Rows,
    TreeClassifier,
    kernels,
)
from sparsenet.core.rows import as_matrix
from sparsenet.engines.blend import fit_blend, network_part
from sparsenet.engines.blend.candidates import propose
from sparsenet.engines.blend.fitted_blend import FittedBlend
from sparsenet.engines.neighbors import fit_neighbors
from sparsenet.engines.neighbors.fit_neighbors import NeighborRules, _ndcg_by_power
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.network import fit_network, scouting
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.tree import fit_tree, train_levels
from sparsenet.storage import load, save
from sparsenet.storage.checkpoint_place import checkpoint_exists
from sparsenet.storage.narrow import widen
from tests.support.blends import NOISY, NOISY_Y, SMALL, blend, light, noisy_blend, parts_of, shares_of
from tests.support.interrupting import interrupted_at, interrupted_in
from tests.support.planted import NAMES, X, Y, fast, lists, planted

ONE_EACH = NAMES[Y.argmax(axis=1)]


@pytest.fixture(scope="module")
def model():
    return noisy_blend()


# --- scikit-learn ---


@parametrize_with_checks([BlendClassifier(network=ExtremeClassifier(hidden=16), n_jobs=1)])
@pytest.mark.slow
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_parameters_of_parts_can_be_searched():
    search = GridSearchCV(blend(), {"network__epochs": [1, 60]}, cv=2, error_score="raise").fit(X, Y)
    assert search.best_params_ == {"network__epochs": 60}
    assert search.best_estimator_.network_.n_iter_ == 60


def test_default_parts_have_parameters():
    model = BlendClassifier(n_jobs=1, random_state=0).set_params(tree__cost=2, network__epochs=3)
    assert (model.tree.cost, model.network.epochs) == (2, 3)
    search = GridSearchCV(light(), {"tree__cost": [1, 2]}, cv=2, error_score="raise").fit(X, Y)
    assert search.best_estimator_.tree_.cost in (1, 2)
    with pytest.raises(ValueError, match="Invalid parameter 'nothing'"):
        BlendClassifier().set_params(nothing__cost=2)


def test_parts_are_copied_and_take_seed_and_threads_of_the_blend():
    network, tree = ExtremeClassifier(**SMALL), TreeClassifier(cost=2)
    model = blend(network=network, tree=tree, random_state=5, n_jobs=2).fit(X, Y)
    assert not hasattr(network, "network_")
    assert not hasattr(tree, "classes_")
    assert model.tree_.cost == 2
    for part in (model.network_, model.tree_):
        assert (part.normalize, part.n_jobs) == ("none", 2)
    assert clone(model).get_params()["tree__cost"] == 2
    again = blend(network=network, tree=tree, random_state=5, n_jobs=1).fit(X, Y)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("wrong", [{"normalize": "rows"}, {"n_jobs": 1}, {"verbose": True}])
def test_parts_do_not_override_settings_of_the_blend(wrong):
    (name,) = wrong
    for part in ({"tree": TreeClassifier(**wrong)}, {"network": ExtremeClassifier(**wrong)}):
        with pytest.raises(ValueError, match=f"has {name}=.*: set {name} on the blend instead"):
            blend(**part).fit(X, Y)


def test_the_seed_of_the_blend_wins():
    """Ensembles of scikit-learn set every `random_state` that they find."""
    given = [{}, {"network": ExtremeClassifier(**SMALL, random_state=3), "tree": TreeClassifier(random_state=4)}]
    first, second = (blend(**parts, random_state=5).fit(X, Y).predict_proba(X) for parts in given)
    np.testing.assert_array_equal(first, second)
    network = ExtremeClassifier(hidden=8, epochs=2)
    bag = BaggingClassifier(BlendClassifier(network=network, n_jobs=1), n_estimators=2, random_state=0)
    assert bag.fit(X, ONE_EACH).score(X, ONE_EACH) > 0.5


# --- deciding together ---


def test_parts_learn_as_they_would_alone():
    model = blend(random_state=None).fit(X, Y)
    seed = model.tree_.random_state
    alone = TreeClassifier(n_jobs=1, random_state=seed).fit(X, Y)
    np.testing.assert_array_equal(model.tree_.topk_numbers(as_matrix(model._features(X)), 3)[0], alone.topk(X, 3)[0])
    scores = fast(random_state=seed).fit(X, Y).decision_function(X)
    np.testing.assert_allclose(  # the network of a blend has 8 bits
        model.network_.decision_function(as_matrix(model._features(X))), scores, atol=0.02 * np.abs(scores).max()
    )


@pytest.mark.parametrize(("given", "held"), [({}, 256), ({"wide_budget": 300}, 300)])
def test_wide_path_is_smaller_beside_a_tree(given, held):
    """Each of two labels has points of 400 features."""
    points = np.kron(np.eye(2), np.ones((10, 400)))
    model = blend(network=ExtremeClassifier(hidden=4, epochs=1, **given)).fit(points, np.repeat([0, 1], 10))
    wide = model.network_.network_.output.wide
    assert np.diff(wide.indptr).tolist() == [held, held]
    assert model.network_.choices_.get("wide_budget", (held,))[0] == held
    assert model.network_.wide_budget == given.get("wide_budget", "auto")


@pytest.mark.parametrize("k", [0, 1, 20])
def test_answers_weigh_tree_network_and_neighbors(model, k):
    """The weighted sums give the order; each label's probability follows from its own and its rank."""
    fitted = model._fitted.combination if k else model._fitted.combination.without_neighbors()
    tree, network, neighbors = fitted.weights
    expected = parts_of(model, NOISY[:30], model.candidates_, k)
    try:
        labels, p = model.set_params(n_neighbors=k).topk_numbers(NOISY[:30], 10)
    finally:
        model.set_params(n_neighbors=50)
    for i, own in enumerate(expected):
        scores = {label: neighbors * s + network * log - tree * root for label, (root, log, s) in own.items()}
        best = sorted(scores.values(), reverse=True)
        most = np.inf
        for rank, (label, said) in enumerate(zip(labels[i].tolist(), p[i].tolist(), strict=True)):
            assert scores[label] == pytest.approx(best[rank], abs=1e-2)
            logit = fitted.slope * scores[label] + fitted.shift - fitted.fall * np.log(rank + 1)
            most = min(most, logit + fitted.count_weight * np.log(model.label_counts_[label]))
            assert said == pytest.approx(1 / (1 + np.exp(-most)), rel=5e-2, abs=1e-3)


@pytest.mark.slow
def test_the_blend_is_better_than_its_parts():
    """Draw points that lack some features, with half of the labels wrong, so that each part errs elsewhere."""
    found, better = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        features, y = planted(n=6000, n_features=301, n_labels=300, seed=5 + seed)
        features.data *= rng.random(features.nnz) < 0.8
        wrong = rng.random(len(y)) < 0.5
        y[wrong] = y[rng.permutation(np.flatnonzero(wrong))]
        features = sparse.csr_array(features)
        model = blend(network=ExtremeClassifier(hidden=16, epochs=20, batch_size=64)).fit(features[:4000], y[:4000])
        scaled = as_matrix(model._features(features[4000:]))
        better.append(max(part.score(scaled, y[4000:]) for part in (model.network_, model.tree_)))
        found.append(model.score(features[4000:], y[4000:]))
    assert np.mean(found) > np.mean(better) + 0.001


class Bent(BinaryCrossEntropy):
    """A custom loss with other probabilities."""

    def probabilities(self, scores):
        return super().probabilities(scores) ** 2


@pytest.mark.parametrize("loss", ["softmax", Bent()], ids=["softmax", "own"])
def test_network_probabilities_follow_its_loss(loss):
    model = blend(network=ExtremeClassifier(**SMALL, loss=loss)).fit(X, ONE_EACH)
    assert model.score(X, ONE_EACH) > 0.9
    points = model._features(X[:9])
    found = propose(model._fitted.parts(), points, 20, k=50, beam=10, threads=1)
    names, p = model.network_.topk_numbers(as_matrix(points), 38)
    expected = np.empty_like(p)
    np.put_along_axis(expected, names.astype(int), p, axis=1)
    expected = np.take_along_axis(expected, found.labels.astype(int), axis=1)
    np.testing.assert_allclose(np.exp(found.log_probabilities), expected, rtol=2e-3, atol=1e-6)


# --- neighbors ---


def test_nearer_neighbors_have_larger_votes(model):
    neighbors, asked = model.neighbors_, NOISY[:40]
    labels = np.random.default_rng(0).integers(0, 600, (40, 25)).astype(np.int32)
    weights = neighbors.vote_weights(model._features(asked), 10, 1)
    found = neighbors.shares(weights, labels, 1)
    expected = np.take_along_axis(shares_of(model, asked, 10), labels.astype(int), axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    whole = neighbors.shares(weights, np.tile(np.arange(600, dtype=np.int32), (40, 1)), 1)
    np.testing.assert_allclose(whole.sum(axis=1), 2, rtol=1e-5, err_msg="all points have two labels")
    named, own = neighbors.propose(weights, 4, 1)
    np.testing.assert_allclose(own, np.take_along_axis(whole, named.astype(int), 1), atol=1e-6)
    np.testing.assert_allclose(np.sort(own, axis=1), np.sort(whole, axis=1)[:, -4:], atol=1e-6)


def test_neighbors_add_candidates_that_the_tree_misses():
    """The tree misleads all points: its machines are negated."""
    model = blend().fit(X, ONE_EACH)
    tree = model._fitted.tree
    levels = [replace(level, weights=-level.weights, bias=-level.bias) for level in tree.levels]
    model._fitted = replace(model._fitted, tree=replace(tree, levels=levels))
    assert model.set_params(candidates=10).score(X, ONE_EACH) > 0.9
    assert model.set_params(n_neighbors=0).score(X, ONE_EACH) < 0.1


def test_neighbors_learn_what_linear_models_cannot():
    """Draw six hundred kinds of points, each with one of eight labels: no linear model separates them."""
    rng = np.random.default_rng(0)
    kinds, of_kind = rng.random((600, 60)) < 0.15, rng.integers(0, 8, 600)

    def some(n):
        kind = rng.integers(0, 600, n)
        points = kinds[kind] ^ (rng.random((n, 60)) < 0.02)
        return sparse.csr_array(points.astype(np.float32)), of_kind[kind]

    (points, labels), (asked, truth) = some(4000), some(1000)
    network = ExtremeClassifier(hidden=8, epochs=5)
    with_them = blend(network=network).fit(points, labels)
    without = blend(network=network, n_neighbors=0).fit(points, labels)
    assert with_them.score(asked, truth) > without.score(asked, truth) + 0.05


def test_the_weight_of_neighbors_is_learnt():
    """Rare features determine the label or are noise; a sample of the points shows which."""
    rng = np.random.default_rng(0)
    n, common = 1500, 20
    rare = 100 + rng.integers(0, 300, n)
    frequent = rng.integers(0, common, (n, 5))
    X = sparse.csr_array((np.ones(6 * n), (np.repeat(np.arange(n), 6), np.column_stack((frequent, rare)).ravel())))
    by_rare = blend(network=ExtremeClassifier(hidden=8, epochs=2)).fit(X, rare).neighbors_
    assert by_rare.rarity == 1
    by_most = blend(network=ExtremeClassifier(hidden=8, epochs=2)).fit(X, frequent.sum(axis=1) // 10).neighbors_
    assert by_most.rarity == 0


def test_stored_zeros_are_not_features():
    rng = np.random.default_rng(0)
    rows: Any = sparse.random_array((300, 80), density=0.1, rng=rng, format="csr")
    filled = rows.copy()
    filled.data = np.where(rng.random(rows.nnz) < 0.3, 0, rows.data)
    plain = filled.copy()
    plain.eliminate_zeros()
    labels = Rows.of(sparse.csr_array(np.eye(7, dtype=np.float32)[np.arange(300) % 7]))
    found, expected = (fit_neighbors.fit(Rows.of(x), labels, 9, seed=0, threads=1)[0] for x in (filled, plain))
    np.testing.assert_array_equal(found.weights, expected.weights)
    np.testing.assert_array_equal(found.index.data, expected.index.data)
    asked = [found.nearest(Rows.of(x), 9, 1) for x in (filled, plain)]
    np.testing.assert_array_equal(asked[0][1], asked[1][1])


def test_answering_does_not_enlarge_a_pickle(model):
    before = len(pickle.dumps(blend().fit(X, Y)))
    asked = blend().fit(X, Y)
    asked.topk(X, 3)
    assert len(pickle.dumps(asked)) == before


def test_a_sampled_point_is_not_its_own_neighbor(monkeypatch):
    """Any weights would be right for points whose only neighbor is the point itself."""
    asked = []
    weigh = Neighbors.weigh_votes
    monkeypatch.setattr(Neighbors, "weigh_votes", lambda *near: asked.append(weigh(*near)) or asked[-1])
    blend(network=ExtremeClassifier(hidden=8, epochs=1)).fit(sparse.csr_array(np.eye(50)), np.arange(50))
    assert asked
    assert all(np.all(found.data == 0) for found in asked)


def test_one_neighbor_is_the_nearest_other_point():
    """Each point occurs twice: its neighbor is the copy, not the point itself."""
    rows = sparse.random_array((300, 80), density=0.1, rng=np.random.default_rng(0), format="csr", dtype=np.float32)
    doubled, y = sparse.vstack([rows, rows], format="csr"), np.tile(np.arange(300), 2)
    found = blend(network=ExtremeClassifier(hidden=8, epochs=1), n_neighbors=1).fit(doubled, y).neighbors_
    points, labels = Rows.of(sparse.csr_array(doubled)), Rows.of(sparse.csr_array(np.eye(300, dtype=np.float32)[y]))
    everyone = np.arange(600)
    right = _ndcg_by_power(found, everyone, *found.nearest_others(points, everyone, 1, 1), 1, NeighborRules())
    assert min(ndcg.mean() for ndcg in right.values()) > 0.95, "but for points of no feature"
    assert fit_neighbors.fit(points, labels, 1, seed=0, threads=1)[0].power == found.power


def test_the_exponent_of_the_cosine_is_chosen():
    """Thirty points share five of ten features with a point; two share six, and only these are right."""
    rng = np.random.default_rng(0)
    n = 1200
    group, kind, own = np.arange(n) // 30, np.arange(n) // 3, np.arange(n)
    shared = [group + 40 * i for i in range(5)]
    indices = np.column_stack([*shared, 200 + kind, *(600 + own + n * i for i in range(4))])
    X = sparse.csr_array((np.ones(10 * n), (np.repeat(own, 10), indices.ravel())))
    rules = NeighborRules(rarities=(0.0,))
    (near, chosen), (far, _) = (
        fit_neighbors.fit(
            Rows.of(X), Rows.of(sparse.csr_array(np.eye(12, dtype=np.float32)[y])), 50, seed=0, threads=1, rules=rules
        )
        for y in (rng.integers(0, 12, 400)[kind], group % 12)
    )
    assert near.power > 2
    assert far.power == 1
    assert chosen["power"].value == near.power
    assert chosen["power"].gain > 0
    assert chosen["power"].n == 1024


def test_the_choices_of_neighbors_are_recorded(model, tmp_path):
    found = {name: model.choices_[name] for name in ("rarity", "power")}
    assert found["rarity"].value == model.neighbors_.rarity
    assert found["power"].value == model.neighbors_.power
    assert found["power"].options == ("1", "2", "3", "4", "6")
    assert found["rarity"].n == 512
    model.save(tmp_path / "model")
    assert {name: BlendClassifier.load(tmp_path / "model").choices_[name] for name in found} == found


def test_a_large_k_takes_no_more_memory_than_needed(model):
    model.topk_numbers(NOISY[:1], 599)  # Numba compiles at the first call, which takes memory of its own
    tracemalloc.start()
    try:
        model.topk_numbers(NOISY[:2000], 599)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 300 * 2000 * 599 / 4


@pytest.mark.parametrize("k", [10**9, 3001])
def test_accepts_more_neighbors_than_points(model, k):
    expected = model.set_params(n_neighbors=3000).topk_numbers(NOISY[:5], 9)
    try:
        for found, other in zip(model.set_params(n_neighbors=k).topk_numbers(NOISY[:5], 9), expected, strict=True):
            np.testing.assert_array_equal(found, other)
    finally:
        model.set_params(n_neighbors=50)
    assert len(blend(n_neighbors=k).fit(X, Y).topk(X[:3], 2)[0]) == 3


def test_does_not_save_points_without_a_vote(tmp_path):
    model = blend().fit(X, Y).set_params(n_neighbors=0)
    model.save(tmp_path / "model")
    assert not [name for name in load(tmp_path / "model")[0] if name.startswith("neighbors")]
    np.testing.assert_array_equal(BlendClassifier.load(tmp_path / "model").predict_proba(X), model.predict_proba(X))


def test_refuses_to_save_parameters_that_would_not_load(tmp_path):
    with pytest.raises(ValueError, match="n_neighbors must be"):
        blend().fit(X, Y).set_params(n_neighbors="5").save(tmp_path / "model")


def test_accepts_points_without_labels(tmp_path):
    y = Y.copy()
    y[::3] = 0
    model = blend().fit(X, y)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(BlendClassifier.load(tmp_path / "model").predict_proba(X), model.predict_proba(X))


def test_frequent_features_list_their_strongest_points():
    rng = np.random.default_rng(0)
    features = rng.random((200, 5)) + 0.1
    features[np.arange(100), 4] = 0
    among_others = sparse.csr_array(
        np.hstack([features, np.zeros((200, 6))])
    )  # unused columns, so that points are not dense
    labels = Rows.of(sparse.csr_array(np.eye(4, dtype=np.float32)[rng.integers(0, 4, 200)]))
    rules = NeighborRules(max_points=30)
    found, _ = fit_neighbors.fit(Rows.of(among_others), labels, 50, seed=0, threads=1, rules=rules)
    index = found.index
    assert np.diff(index.indptr).tolist() == [30] * 5 + [0] * 6
    weighed = features * np.log1p(200 / (features != 0).sum(axis=0)) ** found.rarity
    weighed /= np.linalg.norm(weighed, axis=1, keepdims=True)
    for feature in range(5):
        own = slice(index.indptr[feature], index.indptr[feature + 1])
        assert set(index.indices[own]) == set(np.argsort(-weighed[:, feature])[:30])


def test_compares_long_points_by_their_strongest_features():
    """Five features have twenty points each; sixty comparisons cover three features, the rarer ones first."""
    held = np.zeros((100, 6), np.float32)
    held[np.arange(100), np.arange(100) // 20] = 1
    held[:10, 5] = 1
    labels = Rows.of(sparse.csr_array(np.eye(5, dtype=np.float32)[np.arange(100) // 20]))
    found, _ = fit_neighbors.fit(Rows.of(sparse.csr_array(held)), labels, 3, seed=0, threads=1)
    few, many = (replace(found, weights=np.ones(6, np.float32), max_comparisons=most) for most in (60, 110))
    asked = Rows.of(sparse.csr_array(np.float32([[5, 1, 4, 3, 2, 0], [0, 1, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]])))
    near, products = few.nearest(asked, 100, 1)
    assert [set(near[i][products[i] > 0].tolist()) for i in range(3)] == [
        {*range(20), *range(40, 80)},
        set(range(20, 40)),
        set(range(40)),
    ]
    assert (many.nearest(asked, 100, 1)[1] > 0).sum(axis=1).tolist() == [100, 20, 100]


def test_a_model_without_neighbors_holds_no_training_points(tmp_path):
    model = blend(n_neighbors=0).fit(X, Y)
    assert model.neighbors_ is None
    model.save(tmp_path / "model")
    arrays, _ = load(tmp_path / "model")
    assert not [name for name in arrays if name.startswith("neighbors")]
    copy = BlendClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ValueError, match="n_neighbors is 5, and this model does not hold its training points"):
        model.set_params(n_neighbors=5).topk(X, 3)


def test_neighbors_can_be_set_on_a_fitted_model(model):
    before = model.topk_numbers(NOISY[:30], 32)[0]
    try:
        without = model.set_params(n_neighbors=0).topk_numbers(NOISY[:30], 32)[0]
        few = model.set_params(n_neighbors=7).topk_numbers(NOISY[:30], 32)[0]
    finally:
        model.set_params(n_neighbors=50)
    for first, second in ((before, without), (before, few), (without, few)):
        assert not np.array_equal(first, second)
    np.testing.assert_array_equal(model.topk_numbers(NOISY[:30], 32)[0], before)


@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1e10, 1e30, 3e38])
def test_neighbors_do_not_depend_on_scale(scale):
    rows = sparse.random_array((300, 80), density=0.1, rng=np.random.default_rng(0), format="csr")
    model = blend(network=ExtremeClassifier(hidden=8, epochs=2), normalize="none").fit(rows, np.arange(300) % 7)
    expected = model.neighbors_.vote_weights(model._features(rows), 9, 1)
    found = model.neighbors_.vote_weights(model._features(rows * scale), 9, 1)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_allclose(found.data, expected.data, rtol=1e-4, atol=1e-7)
    labels = Rows.of(sparse.csr_array(np.eye(7, dtype=np.float32)[np.arange(300) % 7]))
    scaled, unscaled = (
        fit_neighbors.fit(model._features(x), labels, 50, seed=0, threads=1)[0] for x in (rows * scale, rows)
    )
    np.testing.assert_allclose(scaled.index.data, unscaled.index.data, rtol=1e-4)


# --- answers ---


def test_learns_planted_labels(model):
    test, truth = planted(n=500, n_features=601, n_labels=600, seed=2)
    assert model.score(test, truth) > 0.8
    best, p = model.topk_numbers(test, 2)
    assert truth[np.arange(500)[:, None], best].mean() > 0.7
    assert np.all(np.diff(p, axis=1) <= 0)
    assert 0 < p.min() <= p.max() < 1


def test_a_smaller_k_gives_a_prefix(model):
    many, p = model.topk_numbers(NOISY[:40], 30)
    for k in (1, 5, 29):
        few, own = model.topk_numbers(NOISY[:40], k)
        np.testing.assert_array_equal(few, many[:, :k])
        np.testing.assert_array_equal(own, p[:, :k])


def test_answers_do_not_depend_on_other_points(model):
    together, p = model.topk_numbers(NOISY[:40], 5)
    for i in range(40):
        one, own = model.topk_numbers(NOISY[i : i + 1], 5)
        np.testing.assert_array_equal(one[0], together[i])
        np.testing.assert_allclose(own[0], p[i], rtol=1e-5)


def test_answers_do_not_depend_on_blocks(model, monkeypatch):
    expected = model.topk_numbers(NOISY, 3)
    rank = FittedBlend.rank
    monkeypatch.setattr(FittedBlend, "rank", partialmethod(rank, cells=700))
    for found, before in zip(model.topk_numbers(NOISY, 3), expected, strict=True):
        np.testing.assert_allclose(found, before, rtol=1e-5)


def test_k_may_exceed_the_number_of_candidates(model):
    labels, p = model.topk_numbers(NOISY[:20], 600)
    np.testing.assert_array_equal(np.sort(labels, axis=1), np.tile(np.arange(600), (20, 1)))
    assert np.all(np.diff(p, axis=1) <= 0)


def test_labels_without_points_rank_last():
    wider = np.hstack((np.zeros((len(Y), 3), int), Y, np.zeros((len(Y), 2), int)))
    model = blend().fit(X, wider)
    labels, p = model.topk_numbers(X, 45)
    np.testing.assert_array_equal(np.sort(labels[:, 40:], axis=1), np.tile([0, 1, 2, 43, 44], (len(Y), 1)))
    assert p[:, 40:].max() == 0
    assert (model.predict(X)[:, [0, 1, 2, 43, 44]] == 0).all()


def test_threads_change_nothing(model):
    parameters = {"network": model.network, "random_state": 0}
    for threads in (2, 3):
        other = BlendClassifier(n_jobs=threads, **parameters).fit(NOISY, sparse.csr_array(NOISY_Y))
        for a, b in zip(other.topk_numbers(NOISY, 7), model.topk_numbers(NOISY, 7), strict=True):
            np.testing.assert_array_equal(a, b)


def test_predict_has_the_form_of_y():
    assert set(blend().fit(X, ONE_EACH).predict(X)) <= set(NAMES)
    several = blend().fit(X, lists(NAMES)).predict(X)
    assert isinstance(several, list)
    assert np.mean([set(found) == set(own) for found, own in zip(several, lists(NAMES), strict=True)]) > 0.8
    indicator: Any = blend().fit(X, sparse.csr_array(Y)).predict(X)
    assert sparse.issparse(indicator)
    assert np.shape(indicator) == Y.shape
    dense = blend().fit(X, Y)
    np.testing.assert_array_equal(dense.predict(X), dense.predict_proba(X) > 0.5)


def test_predict_agrees_with_predict_proba():
    """This holds for points with many labels and few candidates."""
    rng = np.random.default_rng(0)
    y = (rng.random((300, 80)) < 0.02).astype(int)
    y[:150, :70] = 1
    features = sparse.csr_array(np.hstack((y[:, 70:], np.arange(300)[:, None] < 150)).astype(float))
    model = blend().fit(features, y)
    for candidates in (1, 16, 32, 80):
        model.set_params(candidates=candidates)
        np.testing.assert_array_equal(model.predict(features), model.predict_proba(features) > 0.5)
    assert model.predict(features)[:150].sum(axis=1).min() == 70


def test_improbable_rows_have_probabilities_too():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(500, 5))
    model = BlendClassifier(random_state=0, n_jobs=1).fit(table, np.where(table[:, 0] > 0, "a", "b"))
    for scale in (1, 200, 1e4, 1e8):
        np.testing.assert_allclose(model.predict_proba(table * scale).sum(axis=1), 1, rtol=1e-5)


def test_probabilities_of_one_label_a_row_sum_to_one(model):
    p = blend().fit(X, ONE_EACH).predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    assert (p.argmax(axis=1) == Y.argmax(axis=1)).mean() > 0.9
    p = model.predict_proba(NOISY[:10])
    best, own = model.topk_numbers(NOISY[:10], 3)
    np.testing.assert_allclose(np.take_along_axis(p, best.astype(int), 1), own, rtol=1e-5)
    assert (np.count_nonzero(p, axis=1) == model.candidates_).all()


@pytest.mark.slow
def test_probabilities_are_calibrated():
    """Labels are random, so the mean probability must match the precision."""
    rng = np.random.default_rng(0)
    features = sparse.csr_array(np.eye(30, dtype=np.float32)[rng.integers(0, 30, 6000)])
    chance = np.linspace(0.1, 0.9, 30)
    own = features.indices
    y = np.zeros((6000, 31), int)
    y[np.arange(6000), own] = rng.random(6000) < chance[own]
    y[:, 30] = 1
    model = blend().fit(features, y)
    said = model.predict_proba(np.eye(30))[np.arange(30), np.arange(30)]
    assert np.corrcoef(said, chance)[0, 1] > 0.95
    assert np.abs(said - chance).mean() < 0.15
    assert model.predict_proba(np.eye(30))[:, 30].min() > 0.95, "what is always so"


def test_accepts_few_rows_and_empty_rows(model):
    for rows in (0, 1):
        labels, p = model.topk_numbers(sparse.csr_array((rows, 601)), 3)
        assert labels.shape == p.shape == (rows, 3)
        assert model.predict_proba(sparse.csr_array((rows, 601))).shape == (rows, 600)


def test_accepts_one_label_and_two():
    assert blend().fit(X, ["only"] * 400).predict(X[:3]).tolist() == ["only"] * 3
    y = np.where(X[:, [0]].toarray()[:, 0] > 0, "yes", "no")
    assert (blend().fit(X, y).predict(X) == y).mean() > 0.95


def test_calibrates_with_a_single_label():
    """Fit weights and chances on a hold-out of points that have the only label, or none."""
    rng = np.random.default_rng(0)
    points = sparse.random_array((5200, 40), density=0.1, rng=rng, format="csr", dtype=np.float32)
    labels = sparse.csr_array((rng.random((5200, 1)) < 0.5).astype(np.float32))
    model = light().fit(points, labels)
    found, p = model.topk_numbers(points[:500], 5)
    assert found.shape == (500, 1)
    assert (found == 0).all()
    assert p.mean() == pytest.approx(labels.toarray().mean(), abs=0.1)
    np.testing.assert_array_equal(model.predict_proba(points[:500]), p)


def test_a_given_cost_trains_the_same_tree_as_alone():
    model = light(tree=TreeClassifier(cost=2.0)).fit(NOISY, NOISY_Y)
    seed = model.tree_.random_state
    alone = TreeClassifier(cost=2.0, normalize="none", random_state=seed, n_jobs=1).fit(
        as_matrix(model._features(NOISY)), sparse.csr_array(NOISY_Y)
    )
    assert model.tree_.cost_ == alone.cost_ == 2.0
    scaled = as_matrix(model._features(NOISY[:50]))
    for found, expected in zip(model.tree_.topk_numbers(scaled), alone.topk_numbers(scaled), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert light().fit(X, Y).tree_.cost_ == TreeClassifier().fit(X, Y).cost_ == 0.5


def test_standardizes_columns_of_a_table():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"metres": rng.normal(1000, 300, 500), "share": rng.normal(0, 0.1, 500)})
    y = np.where((table["metres"] - 1000) / 300 + table["share"] / 0.1 > 0, "large", "small")
    model = blend().fit(table, y)
    assert model.score(table, y) > 0.95
    assert model.feature_names_in_.tolist() == ["metres", "share"]


# --- errors and interruptions ---


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"candidates": 0}, "candidates must be"),
        ({"n_neighbors": -1}, "n_neighbors must be"),
        ({"n_neighbors": 2.5}, "n_neighbors must be"),
        ({"network": TreeClassifier()}, r"network must be None, 'drop' or an instance such as Extreme.*, got Tree"),
        ({"network": ExtremeClassifier}, r"an instance such as ExtremeClassifier\(\), got <class"),
        ({"tree": "deep"}, r"tree must be None or an instance such as TreeClassifier\(\), got 'deep'"),
        ({"tree": TreeClassifier(beam=0)}, "beam must be"),
        ({"normalize": "unit"}, "normalize must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"verbose": "much"}, "verbose must be"),
        ({"random_state": "x"}, "random_state must be"),
    ],
)
def test_names_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        blend(**parameters).fit(X, Y)


@pytest.mark.parametrize("wrong", [{"epochs": -1}, {"loss": "nope"}, {"sampler": "best"}])
def test_names_a_wrong_network_before_training_the_tree(monkeypatch, wrong):
    monkeypatch.setattr(fit_tree, "fit", None)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        blend(network=ExtremeClassifier(**wrong)).fit(X, Y)


def test_names_data_that_does_not_fit(model):
    with pytest.raises(ValueError, match="y holds no label at all"):
        blend().fit(X, np.zeros_like(Y))
    with pytest.raises(ValueError, match="must have an entry for each row"):
        blend().fit(X, Y[:-1])
    with pytest.raises(ValueError, match="features"):
        model.predict(X)
    with pytest.raises(ValueError, match="k must be"):
        model.topk(NOISY, 0)


def test_ctrl_c_during_network_training_keeps_the_model(monkeypatch):
    interrupted_in(monkeypatch, epoch=30)
    model = blend()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.score(X, Y) > 0.9
    assert model.network_.n_iter_ < 60


@pytest.mark.parametrize("network", [ExtremeClassifier(**SMALL), "drop"], ids=["network", "drop"])
def test_ctrl_c_before_network_training_restores_the_model(monkeypatch, network):
    def interrupted(*_):
        raise KeyboardInterrupt

    model = blend(network=network).fit(X, Y)
    before = model.topk_numbers(X, 3)[0]
    monkeypatch.setattr(kernels, "train_nodes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(NOISY, NOISY_Y)
    np.testing.assert_array_equal(model.topk_numbers(X, 3)[0], before)
    with pytest.raises(KeyboardInterrupt):
        blend(network=network).fit(X, Y)


# --- on disk ---


@pytest.mark.parametrize(
    "y", [ONE_EACH, lists(NAMES), Y, sparse.csr_array(Y)], ids=["single", "lists", "dense", "sparse"]
)
def test_save_load_and_pickle(tmp_path, y):
    frame = pd.DataFrame(X.toarray(), columns=[f"column {i}" for i in range(60)])
    model = blend(tree=TreeClassifier(cost=2), candidates=20).fit(frame, y)
    model.save(tmp_path / "model")
    assert len(list((tmp_path / "model").iterdir())) == 2
    for copy in (BlendClassifier.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy.predict_proba(frame), model.predict_proba(frame))
        assert copy.feature_names_in_.tolist() == model.feature_names_in_.tolist()
        assert str(copy.get_params()) == str(model.get_params())
        assert (copy.classes_ == model.classes_).all()
        assert copy.n_points_ == 400
        copy.save(tmp_path / "again")
        for file in (tmp_path / "model").iterdir():
            assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()


@pytest.mark.parametrize("network", [None, ExtremeClassifier(**SMALL, validation_fraction=0.1, patience=9)])
def test_saves_any_network(tmp_path, network):
    """The network may know fewer points than the tree."""
    model = blend(network=network).fit(X, Y)
    model.save(tmp_path / "model")
    copy = BlendClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(copy.predict_proba(X), model.predict_proba(X))
    assert str(copy.get_params()) == str(model.get_params())
    assert copy.n_points_ == 400


def test_names_what_cannot_be_saved(tmp_path):
    model = blend(network=ExtremeClassifier(**SMALL, sampler=RandomSampler())).fit(X, Y)
    with pytest.raises(ValueError, match=r"network_: sampler=.*set_params\(sampler=...\) first"):
        model.save(tmp_path / "model")
    model.network_.set_params(sampler="random")
    model.save(tmp_path / "model")
    assert BlendClassifier.load(tmp_path / "model").network.sampler == "random"


def test_a_model_is_saved_in_8_bits(model, tmp_path):
    model.save(tmp_path / "model")
    arrays, _ = load(tmp_path / "model")
    for name in ("network.input.weight", "network.output.weight", "network.wide.weight", "neighbors.index.data"):
        assert arrays[name].dtype == np.int8


def test_a_fitted_and_a_loaded_model_hold_8_bits_and_answer_the_same_after_they_became_floats(tmp_path):
    model = blend().fit(X, Y)
    model.save(tmp_path / "model")
    for own in (model, BlendClassifier.load(tmp_path / "model")):
        expected = own.topk(X[:40], 5)
        weights = own._fitted.network.network.parameters()
        assert {each.name for each in weights if each.narrow} == {"input.weight", "output.weight", "wide.weight"}
        assert own.neighbors_.index.rows.codes.dtype == np.int8
        assert own.neighbors_.index.points.dtype == np.uint16
        own.network_.topk(X[:40], 5)  # scores all labels, by floats
        assert {each.name for each in weights if each.narrow} == {"input.weight"}
        assert all(each.value.dtype == np.float32 for each in weights)
        for before, after in zip(expected, own.topk(X[:40], 5), strict=True):
            np.testing.assert_array_equal(after, before)


def test_a_network_trained_on_is_saved_in_full(tmp_path):
    """Further training leaves the 256 steps of a row, and then all bits are kept."""
    model = blend().fit(X, Y)
    model.network_.partial_fit(as_matrix(model._features(X)), Y)
    for compact, dtype in ((False, np.float32), (True, np.int8)):
        model.save(tmp_path / "model", compact=compact)
        assert load(tmp_path / "model")[0]["network.output.weight"].dtype == dtype
        difference = BlendClassifier.load(tmp_path / "model").predict_proba(X) - model.predict_proba(X)
        assert np.abs(difference).max() <= 0.05 * compact


def test_rejects_parts_that_do_not_belong_together(model, tmp_path):
    model.save(tmp_path / "model")
    arrays, metadata = load(tmp_path / "model")
    arrays = widen(arrays)
    counts = arrays["tree.counts"].copy()
    counts[0] += 1
    index, weights = arrays["neighbors.index.indices"], arrays["neighbors.weights"]
    none = np.empty(0, np.int32)
    no_points = {
        "neighbors.index.indptr": np.zeros_like(arrays["neighbors.index.indptr"]),
        "neighbors.index.indices": none,
        "neighbors.index.data": none.astype(np.float32),
        "neighbors.labels.indptr": np.zeros(1, np.int64),
        "neighbors.labels.indices": none,
    }
    for changed, about, message in [
        ({"tree.counts": counts}, {}, "the label counts of the TreeClassifier contradict those of the model"),
        ({"counts": counts[1:]}, {}, "counts must hold a whole number for each of"),
        ({"classes": np.arange(601)}, {}, "each of 601 labels"),
        ({"network.classes": 2 * np.arange(600)}, {}, "of the ExtremeClassifier differ from the model's"),
        ({"tree.classes": np.arange(600) + 7}, {}, "of the TreeClassifier differ from the model's"),
        (
            {"tree.seen.features": np.zeros(88, np.uint8)},
            {"tree": {**metadata["tree"], "n_features": 700}},
            "the tree has 700 features, the network 601",
        ),
        ({}, {"network": {**metadata["network"], "scaling": "rows"}}, "ExtremeClassifier must take scaled points"),
        ({}, {"parameters": {**metadata["parameters"], "candidates": 0}}, "candidates"),
        ({}, {"parameters": {**metadata["parameters"], "unheard": 1}}, "unheard"),
        ({}, {"parameters": {**metadata["parameters"], "n_jobs": "x"}}, "n_jobs"),
        ({}, {"parameters": {**metadata["parameters"], "normalize": 3}}, "normalize"),
        ({}, {"parameters": {**metadata["parameters"], "verbose": "much"}}, "verbose"),
        ({}, {"parameters": {**metadata["parameters"], "random_state": "x"}}, "random_state"),
        ({"neighbors.index.indices": index + np.int32(5000)}, {}, "beyond the 3000 columns"),
        (
            {"neighbors.index.indices": index.astype(np.int64)},
            {},
            "row pointers of the points of the neighbors do not",
        ),
        ({"neighbors.labels.indices": np.full_like(arrays["neighbors.labels.indices"], 600)}, {}, "the 600 columns"),
        (
            {"neighbors.labels.indices": arrays["neighbors.labels.indices"][1:]},
            {},
            "labels of the neighbors do not fit",
        ),
        ({"neighbors.weights": weights[1:]}, {}, "not of points with 601 features"),
        ({"neighbors.weights": np.where(weights > 0, np.nan, weights)}, {}, "must be finite and not negative"),
        ({"neighbors.weights": weights * np.inf}, {}, "must be finite and not negative"),
        ({"neighbors.weights": -weights}, {}, "must be finite and not negative"),
        (no_points, {}, "the neighbors are 0 points, of a model of 3000"),
        (no_points, {"n_points": 0}, "the neighbors are 0 points, of a model of 0"),
        ({}, {"n_points": 7}, "the neighbors are 3000 points, of a model of 7"),
        ({}, {"neighbors": {"rarity": 1, "power": -1}}, "power"),
        ({}, {"n_points": -1}, "n_points"),
        ({}, {"named_features": True}, "features"),
    ]:
        save(tmp_path / "wrong", {**arrays, **changed}, {**metadata, **about})
        with pytest.raises(ModelError, match=message):
            BlendClassifier.load(tmp_path / "wrong")
    for name in arrays:
        save(tmp_path / "less", {other: array for other, array in arrays.items() if other != name}, metadata)
        with pytest.raises(ModelError):
            BlendClassifier.load(tmp_path / "less")
    TreeClassifier(n_jobs=1).fit(X, Y).save(tmp_path / "tree")
    with pytest.raises(ModelError, match="of the kind 'TreeClassifier', not BlendClassifier"):
        BlendClassifier.load(tmp_path / "tree")


class TestTimeBudget:
    def test_the_network_gets_the_remaining_time(self, monkeypatch):
        budgets, fit = [], fit_network.fit

        def spied(points, options, **how):
            budgets.append(options.time_budget)
            return fit(points, options, **how)

        monkeypatch.setattr(fit_network, "fit", spied)
        started = time.perf_counter()
        model = blend(time_budget=3600).fit(X, Y)
        assert 3600 - (time.perf_counter() - started) < budgets[0] < 3600
        assert model.network_.n_iter_ == SMALL["epochs"]

    def test_drops_the_network_if_too_little_time_remains(self, tmp_path):
        with pytest.warns(UserWarning, match=r"too little for a network, so there is none: 0\.0 s are left"):
            model = BlendClassifier(time_budget=1e-6, random_state=0).fit(X, Y)
        assert model.network_ is None
        alone = BlendClassifier(network="drop", random_state=0).fit(X, Y)
        for ours, theirs in zip(model.topk(X, 3), alone.topk(X, 3), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        model.save(tmp_path / "m")
        loaded = BlendClassifier.load(tmp_path / "m")
        assert (loaded.network, loaded.network_, loaded.time_budget) == (None, None, 1e-6)
        np.testing.assert_array_equal(loaded.topk(X, 3)[1], model.topk(X, 3)[1])

    def test_trains_the_network_if_there_are_no_neighbors(self):
        model = BlendClassifier(time_budget=1e-6, n_neighbors=0, random_state=0).fit(X, Y)
        assert model.network_ is not None

    def test_the_remaining_time_is_not_saved_as_a_parameter(self, tmp_path):
        model = BlendClassifier(time_budget=3600, network=ExtremeClassifier(hidden=4, epochs=1)).fit(X, Y)
        model.save(tmp_path / "m")
        loaded = BlendClassifier.load(tmp_path / "m")
        assert (loaded.time_budget, loaded.network.time_budget, loaded.network.hidden) == (3600, None, 4)
        assert model.network_.time_budget is None
        own = BlendClassifier(network=ExtremeClassifier(hidden=4, epochs=1, time_budget=3600)).fit(X, Y)
        own.save(tmp_path / "own")
        assert BlendClassifier.load(tmp_path / "own").network.time_budget == 3600

    def test_keeps_a_network_after_a_third_of_its_passes(self):
        within, options = network_part.within, NetworkOptions.of({})
        with pytest.warns(UserWarning, match=r"none: 1\.9 s are left"):
            assert within(options, 1.9, 10, epochs=2) is None
        assert within(options, 2.1, 10, epochs=2).time_budget == 2.1
        assert within(options, 1, 25, epochs=0).time_budget == 2.5

    @pytest.mark.parametrize(("passes", "kept"), [(19, False), (20, True)])
    def test_drops_a_network_before_a_third_of_its_passes(self, monkeypatch, passes, kept):
        fit = fit_network.fit

        def slow(*args, **how):
            fitted = fit(*args, **how)
            return replace(fitted, history=fitted.history[:passes])

        monkeypatch.setattr(fit_network, "fit", slow)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model = blend(time_budget=3600).fit(X, Y)
        assert (model.network_ is not None) == kept
        words = "it took 19 of the 20 epochs or more that make it useful"
        assert [str(one.message).rpartition("none: ")[2] for one in said] == [words] * (not kept)
        assert blend().fit(X, Y).network_ is not None, "without a budget it is what was asked for"

    @pytest.mark.parametrize(("epoch", "n_neighbors", "kept"), [(19, 50, False), (20, 50, True), (19, 0, True)])
    def test_ctrl_c_keeps_a_network_after_a_third_of_its_passes(self, monkeypatch, epoch, n_neighbors, kept):
        interrupted_in(monkeypatch, epoch)
        model = blend(n_neighbors=n_neighbors)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y)
        assert (model.network_ is not None) == kept
        assert model.score(X, Y) > 0.9

    def test_keeps_what_was_learnt_if_time_runs_out(self, tmp_path, monkeypatch):
        interrupted_at(monkeypatch, 40)
        with pytest.raises(KeyboardInterrupt):
            blend().fit(X, Y, checkpoint=tmp_path / "state")
        model = blend(time_budget=1e-6).fit(X, Y, checkpoint=tmp_path / "state", resume=True)
        assert model.network_.n_iter_ > 0

    def test_rejects_two_time_budgets(self):
        both = BlendClassifier(time_budget=5, network=ExtremeClassifier(time_budget=4))
        with pytest.raises(ValueError, match="time_budget is 5, and network has its own: set one of them"):
            both.fit(X, Y)
        with pytest.raises(ValueError, match="time_budget"):
            BlendClassifier(time_budget=0).fit(X, Y)


def test_rejects_patience_without_validation_before_training(monkeypatch):
    monkeypatch.setattr(fit_tree, "fit", None)
    with pytest.raises(ValueError, match=r"network has patience=2, .* set its validation_fraction, or"):
        blend().set_params(network__patience=2).fit(X, Y)


def stopping(*_, **__):
    raise KeyboardInterrupt


class TestCheckpoint:
    def test_a_resumed_run_gives_the_same_model(self, tmp_path, monkeypatch):
        whole = blend(random_state=3).fit(X, Y)
        steps = interrupted_at(monkeypatch, 40)
        cut = blend(random_state=3)
        with pytest.raises(KeyboardInterrupt):
            cut.fit(X, Y, checkpoint=tmp_path / "state")
        assert cut.network_ is None, "a tenth of its passes is worth nothing yet"
        assert checkpoint_exists(tmp_path / "state")
        before = next(steps)
        cut.fit(X, Y, checkpoint=tmp_path / "state", resume=True)
        assert 0 < next(steps) - before < SMALL["epochs"] * -(-len(Y) // SMALL["batch_size"])
        for ours, theirs in zip(cut.topk(X, 3), whole.topk(X, 3), strict=True):
            np.testing.assert_array_equal(ours, theirs)

    def test_rejects_the_checkpoint_of_a_network(self, tmp_path, monkeypatch):
        network = ExtremeClassifier(**SMALL, random_state=0)
        network.fit(X, Y, checkpoint=tmp_path / "state")
        monkeypatch.setattr(fit_tree, "fit", None)
        with pytest.raises(
            CheckpointError, match=r"written by ExtremeClassifier\.fit, and this is BlendClassifier\.fit"
        ):
            blend().fit(X, Y, checkpoint=tmp_path / "state", resume=True)

    @pytest.mark.parametrize(
        ("changed", "rows", "words"),
        [
            ({}, 200, "that had points=.* x .*, labels=.*; this one has points=200 x .*, labels=200 x"),
            ({"random_state": 1}, 300, "seed .by random_state.=.*; this one has .*seed .by random_state.="),
            ({"network__epochs": 3}, 300, "epochs=.*; this one has epochs=3"),
            ({"network__validation_fraction": 0.1}, 300, "validation points=none"),
        ],
        ids=["points", "seed", "epochs", "validation"],
    )
    def test_rejects_the_checkpoint_of_another_run(self, tmp_path, monkeypatch, changed, rows, words):
        blend().fit(X[:300], Y[:300], checkpoint=tmp_path / "state")
        monkeypatch.setattr(fit_tree, "fit", None)
        other = blend().set_params(**changed)
        with pytest.raises(CheckpointError, match=f"the checkpoint of a run with other data or settings: .*{words}"):
            other.fit(X[:rows], Y[:rows], checkpoint=tmp_path / "state", resume=True)

    def test_resumes_with_the_epochs_of_a_first_training(self, tmp_path, monkeypatch):
        monkeypatch.setattr(scouting, "scout", lambda settings, *_, **__: (replace(settings, epochs=5), None))
        cut = blend().set_params(network__epochs="auto")
        interrupted_at(monkeypatch, 20)
        with pytest.raises(KeyboardInterrupt):
            cut.fit(X, Y, checkpoint=tmp_path / "state")
        assert checkpoint_exists(tmp_path / "state")
        assert cut.fit(X, Y, checkpoint=tmp_path / "state", resume=True).network_.n_iter_ == 5

    def test_keeps_a_network_after_the_epochs_found(self, tmp_path, monkeypatch):
        monkeypatch.setattr(scouting, "scout", lambda settings, *_, **__: (replace(settings, epochs=2), None))
        cut = blend().set_params(network__epochs="auto")
        interrupted_at(monkeypatch, 2 * (-(-len(Y) // SMALL["batch_size"])) - 1)
        with pytest.raises(KeyboardInterrupt):
            cut.fit(X, Y)
        assert cut.network_ is not None

    def test_resumes_on_a_table_with_a_constant_column(self, tmp_path, monkeypatch):
        table = np.random.default_rng(0).normal(size=(300, 4))
        table[:, 2] = 7.0
        labels = (table[:, :1] > 0).astype(int)
        cut = blend()
        interrupted_at(monkeypatch, 5)
        with pytest.raises(KeyboardInterrupt):
            cut.fit(table, np.hstack([labels, 1 - labels]), checkpoint=tmp_path / "state")
        cut.fit(table, np.hstack([labels, 1 - labels]), checkpoint=tmp_path / "state", resume=True)
        assert cut.network_ is not None

    def test_resumes_a_run_stopped_while_measuring(self, tmp_path, monkeypatch):
        cut = blend().set_params(network__validation_fraction=0.1, network__patience=90)
        interrupted_at(monkeypatch, 40)
        with pytest.raises(KeyboardInterrupt):
            cut.fit(X, Y, checkpoint=tmp_path / "state")
        cut.fit(X, Y, checkpoint=tmp_path / "state", resume=True)
        assert cut.network_.n_iter_ > 1

    def test_rejects_an_unwritable_checkpoint_before_training(self, tmp_path, monkeypatch):
        monkeypatch.setattr(fit_tree, "fit", None)
        (tmp_path / "file").touch()
        with pytest.raises(OSError, match="file"):
            blend().fit(X, Y, checkpoint=tmp_path / "file" / "state")

    def test_a_network_rejects_the_checkpoint_of_a_blend(self, tmp_path):
        blend().fit(X, Y, checkpoint=tmp_path / "state")
        with pytest.raises(
            CheckpointError, match=r"written by BlendClassifier\.fit, and this is ExtremeClassifier\.fit"
        ):
            ExtremeClassifier(**SMALL, random_state=0).fit(X, Y, checkpoint=tmp_path / "state", resume=True)

    def test_rejects_what_a_checkpoint_cannot_hold(self, tmp_path):
        with pytest.raises(ValueError, match="checkpoint needs random_state to be an integer"):
            BlendClassifier().fit(X, Y, checkpoint=tmp_path / "state")
        with pytest.raises(ValueError, match="resume=True needs checkpoint"):
            BlendClassifier(random_state=0).fit(X, Y, resume=True)

    @pytest.mark.parametrize("network", [ExtremeClassifier(hidden=4, epochs=1), "drop"])
    def test_resumes_after_the_trained_levels_of_both_trees(self, tmp_path, monkeypatch, network):
        kept, labels = {"checkpoint": tmp_path / "state", "resume": True}, sparse.csr_array(NOISY_Y)
        usual = blend(network=network).fit(NOISY, labels)
        with monkeypatch.context() as patch:
            patch.setattr(fit_blend, "_combined", stopping)
            with pytest.raises(KeyboardInterrupt):
                blend(network=network).fit(NOISY, labels, **kept)
        assert {path.name for path in tmp_path.glob("state.*")} == {"state.tree", "state.second-tree"}
        monkeypatch.setattr(train_levels, "_train_levels", None)
        found = blend(network=network).fit(NOISY, labels, **kept)
        for ours, theirs in zip(found.topk(NOISY, 3), usual.topk(NOISY, 3), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_network_dropped_for_time_stays_a_parameter(tmp_path):
    with pytest.warns(UserWarning, match="time_budget leaves too little"):
        model = blend(network=ExtremeClassifier(hidden=8, epochs=50), time_budget=1e-6).fit(X, Y)
    model.save(tmp_path / "model")
    found = BlendClassifier.load(tmp_path / "model")
    assert found.network_ is None
    assert repr(found.network) == repr(model.network)


def test_a_saved_model_does_not_hold_thread_counts(tmp_path):
    manifests = []
    for threads in (1, 2):
        model = blend(n_jobs=threads).fit(X, Y).set_params(n_jobs=None)
        model.save(tmp_path / "model")
        manifests.append((tmp_path / "model" / "manifest.json").read_bytes())
        assert BlendClassifier.load(tmp_path / "model").network_.n_jobs is None
    assert manifests[0] == manifests[1]
