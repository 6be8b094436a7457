"""What an error costs the tree of a blend, where that is left to be found."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from sparsenet import BlendClassifier, ExtremeClassifier, Rows, TreeClassifier
from sparsenet.core.seeds import run_seed
from sparsenet.engines.blend import costs, trust, voting
from sparsenet.engines.network.network_holdout import held_for_trial, n_for_trial
from sparsenet.storage import load, save
from tests.support.planted import planted


def described(n: int, n_labels: int, *, wrong: float, seed: int = 0) -> tuple[sparse.csr_array, np.ndarray]:
    """Points of labels that two words of their own tell, beside eight that anyone may have; some labels are wrong."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_labels, size=n)
    common = 40
    words = np.hstack((common + 3 * y[:, None] + rng.integers(3, size=(n, 2)), rng.integers(common, size=(n, 8))))
    values = np.hstack((np.full((n, 2), 0.2), np.ones((n, 8))))
    rows = np.repeat(np.arange(n), words.shape[1])
    X = sparse.csr_array((values.ravel(), (rows, words.ravel())), shape=(n, common + 3 * n_labels))
    is_wrong = rng.random(n) < wrong
    y[is_wrong] = rng.integers(n_labels, size=is_wrong.sum())
    return X, y


CONSISTENT, NOISY = described(6000, 300, wrong=0.0), described(6000, 20, wrong=0.4)


def light(**parameters) -> BlendClassifier:
    return BlendClassifier(**{"network": "drop", "random_state": 0, "n_jobs": 1, **parameters})


@pytest.fixture(scope="module")
def model() -> BlendClassifier:
    return light().fit(*CONSISTENT)


def test_where_labels_are_consistent_errors_cost_more_and_more_answers_are_right(model):
    usual = light(tree=TreeClassifier(cost=0.5)).fit(*CONSISTENT)
    X, y = described(6000, 300, wrong=0.0, seed=1)
    assert model.tree_.cost_ in costs.DEARER
    assert model.tree_.cost == "auto"
    assert usual.tree_.cost_ == 0.5
    assert model.score(X, y) > usual.score(X, y) + 0.01


def test_where_labels_are_noisy_they_cost_what_they_usually_do():
    assert light().fit(*NOISY).tree_.cost_ == TreeClassifier().fit(*NOISY).cost_ == 0.5


@pytest.mark.parametrize("cost", [0.5, 2.0, 8.0])
def test_a_cost_that_was_given_is_taken(cost):
    found = light(tree=TreeClassifier(cost=cost)).fit(*CONSISTENT).tree_
    alone = TreeClassifier(cost=cost, random_state=0, n_jobs=1).fit(*CONSISTENT)
    assert found.cost_ == alone.cost_ == cost
    assert not voting.is_consistent(found)


def test_of_many_points_the_tree_that_was_judged_is_kept(monkeypatch):
    monkeypatch.setattr(trust, "EVERY", 8)
    monkeypatch.setattr(trust, "FEWEST", 100)
    fit, fitted = TreeClassifier.fit, []
    monkeypatch.setattr(TreeClassifier, "fit", lambda tree, X, y: fitted.append(tree) or fit(tree, X, y))
    network = ExtremeClassifier(hidden=0, epochs=1)
    with_network = BlendClassifier(network=network, random_state=0, n_jobs=1).fit(*CONSISTENT)
    assert with_network.tree_.cost_ in costs.DEARER
    assert with_network.tree_.n_points_ == 6000 - 6000 // 8
    assert len(fitted) <= 1 + len(costs.DEARER), "no tree is trained twice"
    assert light().fit(*CONSISTENT).tree_.cost_ == 0.5, "a second tree takes as long as all there is"


@pytest.mark.parametrize(("budget", "expected"), [(None, 1), (1000, 2)])
def test_of_few_points_the_tree_that_learns_all_waits_for_its_cost(monkeypatch, budget, expected):
    """Not where time is short: it might not suffice for another tree then."""
    fit, fitted = TreeClassifier.fit, []
    monkeypatch.setattr(TreeClassifier, "fit", lambda tree, X, y: fitted.append(X.shape[0]) or fit(tree, X, y))
    network = ExtremeClassifier(hidden=0, epochs=1)
    found = BlendClassifier(network=network, time_budget=budget, random_state=0, n_jobs=1).fit(*CONSISTENT)
    assert found.tree_.cost_ in costs.DEARER
    assert fitted.count(6000) == expected


def test_a_time_budget_has_to_have_room_for_the_choice(monkeypatch):
    network = ExtremeClassifier(hidden=0, epochs=1)
    monkeypatch.setattr("sparsenet.engines.blend.judging.PASSES_TO_CHOOSE", math.inf)
    found = BlendClassifier(network=network, time_budget=1000, random_state=0, n_jobs=1).fit(*CONSISTENT)
    assert found.tree_.cost_ == 0.5
    assert found.neighbors_.trust != 1, "they are judged all the same"


@pytest.mark.parametrize(
    ("right", "expected"),
    [
        ((50, 50, 90), 0.5),
        ((50, 49, 90), 0.5),
        ((50, 51, 90), 0.5),
        ((50, 52, 52), 2.0),
        ((50, 60, 60), 2.0),
        ((50, 60, 61), 4.0),
    ],
)
def test_costs_rise_while_more_is_right(monkeypatch, right, expected):
    numbers = dict(zip((0.5, *costs.DEARER), right, strict=True))
    monkeypatch.setattr(costs, "fit_without", lambda tree, *_: tree.fit([[1.0]], ["a"]))
    monkeypatch.setattr(costs, "_answered", lambda tree, *_: 1.0 * (np.arange(100) < numbers[tree._usual_cost]))
    nothing = Rows.of(sparse.csr_array((1, 1), dtype=np.float32))
    found = costs.best(TreeClassifier(verbose=0).fit([[1.0]], ["a"]), nothing, nothing, np.arange(0), 1)
    assert found._usual_cost == expected


def test_what_chance_explains_is_no_reason(monkeypatch):
    answers = {0.5: [1] * 50 + [0] * 50, 2.0: [0] * 20 + [1] * 54 + [0] * 26, 4.0: [1] * 100}
    monkeypatch.setattr(costs, "fit_without", lambda tree, *_: tree.fit([[1.0]], ["a"]))
    monkeypatch.setattr(costs, "_answered", lambda tree, *_: np.array(answers[tree._usual_cost], float))
    nothing = Rows.of(sparse.csr_array((1, 1), dtype=np.float32))
    usual = TreeClassifier(verbose=0).fit([[1.0]], ["a"])
    assert costs.best(usual, nothing, nothing, np.arange(0), 1)._usual_cost == 0.5, "4 more, of 44"


def test_a_dearer_tree_has_the_shape_of_the_one_before_and_forgets_it(monkeypatch):
    X, Y = planted(n=300, n_features=100, n_labels=60, seed=2)
    usual = TreeClassifier(random_state=0, verbose=0).fit(X, Y)
    alone = TreeClassifier(random_state=0, verbose=0)
    alone._usual_cost = 2.0
    with monkeypatch.context() as patch:
        patch.setattr("sparsenet.estimators.tree.grow", None)  # once is enough
        dearer = costs.costing(usual, 2.0).fit(X, Y)
    np.testing.assert_array_equal(dearer.predict_proba(X), alone.fit(X, Y).predict_proba(X))
    assert dearer._grown is None
    assert len(dearer.fit(X[:50], Y[:50]).classes_) == 60
    np.testing.assert_array_equal(dearer._fitted.shape.labels, alone.fit(X[:50], Y[:50])._fitted.shape.labels)


def test_a_model_that_is_loaded_votes_as_it_did(tmp_path, model):
    model.save(tmp_path / "model")
    loaded = BlendClassifier.load(tmp_path / "model")
    assert loaded.tree_.cost == "auto"
    assert loaded.tree_.cost_ == model.tree_.cost_
    for given, wanted in zip(loaded.topk(CONSISTENT[0], 5), model.topk(CONSISTENT[0], 5), strict=True):
        np.testing.assert_array_equal(given, wanted)


def test_trees_of_before_there_was_a_choice_load(tmp_path):
    tree = TreeClassifier(cost=0.7, random_state=0).fit(*NOISY)
    tree.save(tmp_path / "model")
    arrays, metadata = load(tmp_path / "model")
    del metadata["cost"]
    save(tmp_path / "old", arrays, metadata)
    assert TreeClassifier.load(tmp_path / "old").cost_ == 0.7


def test_probabilities_follow_from_how_consistent_labels_are_and_what_the_tree_counts(model):
    usual, found = TreeClassifier(cost=2.0), TreeClassifier()
    usual.cost_ = found.cost_ = 2.0
    slope, shift = voting.OF_TWO
    assert voting.curve_of(object(), usual, None) == (slope, shift)
    steeper, higher = voting.curve_of(object(), found, None)
    assert (steeper, higher) == (slope * voting.STEEPER_IF_CONSISTENT, shift + voting.HIGHER_IF_CONSISTENT)
    twice, four_times = (voting.curve_of(object(), found, None, weight)[0] for weight in (2, 4))
    assert steeper > twice > four_times
    assert twice / four_times == pytest.approx(steeper / twice)
    assert voting.curve_of(None, model.tree_, model.neighbors_) == voting.CONSISTENT_WITHOUT_NETWORK
    assert voting.curve_of(None, usual, model.neighbors_) == voting.WITHOUT_NETWORK


def test_what_the_tree_counts_is_found_saved_and_used(tmp_path, monkeypatch):
    asked = []

    def twice(network, judge, points, *_, **__):
        asked.append((judge.n_points_, len(points)))
        return 2.0

    monkeypatch.setattr(trust, "of_tree", twice)
    network = ExtremeClassifier(hidden=0, epochs=1)
    blend = BlendClassifier(network=network, random_state=0, n_jobs=1).fit(*CONSISTENT)
    assert asked == [(5400, 6000)]
    as_given = BlendClassifier(network=network, tree=TreeClassifier(cost=4.0), random_state=0, n_jobs=1)
    as_given.fit(*CONSISTENT)
    assert len(asked) == 1, "where the cost is given, nothing was found"
    blend.save(tmp_path / "model")
    loaded = BlendClassifier.load(tmp_path / "model")
    assert loaded._fitted.tree_weight == blend._fitted.tree_weight == 2
    points, parts = blend._features(CONSISTENT[0][:50]), (blend.network_, blend.tree_)
    expected, votes = voting.vote(*parts, points, 32, 1, neighbors=blend.neighbors_, k=50, weight=2.0)
    for model in (blend, loaded):
        numbers, p = model.topk_numbers(CONSISTENT[0][:50], 5)
        np.testing.assert_array_equal(numbers, expected[:, :5])
        odds = voting.logits(votes, voting.curve_of(*parts, blend.neighbors_, 2.0))[:, :5].astype(float)
        np.testing.assert_allclose(p, 1 / (1 + np.exp(-odds)), rtol=1e-4)


@pytest.mark.parametrize(
    ("by_tree", "by_network", "expected"),
    [
        (250, 250, 2 ** (300 / 800 * 2)),
        (260, 250, 2 ** (300 / 800 * 2 + 500 / 800 * math.log(260.5 / 240.5) / 0.06)),
        (250, 300, 1.0),
        (480, 20, 4.0),
    ],
)
def test_the_tree_counts_more_the_better_it_is_than_the_network(monkeypatch, by_tree, by_network, expected):
    n = 20_000
    points = Rows.of(sparse.csr_array((n, 4), dtype=np.float32))
    labels = Rows.of(
        sparse.csr_array((np.ones(n, np.float32), np.ones(n, np.int64), np.arange(n + 1)), shape=(n, 2000))
    )
    monkeypatch.setattr(trust, "n_for_trial", lambda *_: 500)

    def answers(n_right):
        return (np.arange(500)[:, None] < n_right).astype(np.int32)

    judge, network = TreeClassifier(), ExtremeClassifier()
    monkeypatch.setattr(
        judge, "_ranked", lambda points, *_, **__: (answers(by_tree)[: len(points)], None), raising=False
    )
    stand_in: Any = SimpleNamespace(topk=lambda points, *_: (answers(by_network)[: len(points)], None))
    network.network_ = stand_in
    found = trust.of_tree(network, judge, points, labels, seed=0, threads=1)
    assert found == pytest.approx(expected, rel=0.02)


def test_tree_and_network_are_compared_on_equal_terms(monkeypatch):
    """Neither has learnt the points that they are compared on, and both have learnt all others."""
    X, y = CONSISTENT
    Y = sparse.csr_array((np.ones(len(y)), (np.arange(len(y)), y)))
    points, labels = (Rows.of(matrix.astype(np.float32)) for matrix in (X, Y))
    tree = TreeClassifier(random_state=0, n_jobs=1, normalize="none").fit(X, Y)
    tree.cost_ = 4.0
    poor, network = clone(tree).fit(X[:5000], Y[:5000]), ExtremeClassifier()
    assert trust.on_equal_terms(network, tree, poor, points, labels, 0) is poor, "the network keeps none of so few"
    monkeypatch.setattr(trust, "n_for_trial", lambda *_: 500)
    assert trust.on_equal_terms(network, tree, tree, points, labels, 0) is tree
    judge = trust.on_equal_terms(network, tree, poor, points, labels, 0)
    kept = trust.kept_from_all(network, labels, 0)
    assert len(kept) == 500
    rest = np.delete(np.arange(len(points)), kept)
    alike = clone(tree).set_params(cost=4.0).fit(X[rest], Y[rest])
    numbers, p = judge.topk_numbers(X[kept], 5)
    expected, its = alike.topk_numbers(X[kept], 5)
    np.testing.assert_array_equal(numbers, expected)
    np.testing.assert_array_equal(p, its)
    curves = (voting.curve_of(object(), one, None) for one in (judge, tree, alike))
    assert next(curves) == next(curves) != next(curves), "the one that is measured is that of the blend"


def test_what_tells_is_new_to_network_and_judge():
    n, seed = 20_000, 5
    with_labels = sparse.csr_array((np.ones(n), (np.arange(n), np.arange(n) % 2000)), shape=(n, 2000))
    numbered = sparse.csr_array((np.arange(1, n + 1, dtype=float), (np.arange(n), np.zeros(n, int))), shape=(n, 3))
    points = Rows.of(numbered.astype(np.float32)), Rows.of(with_labels.astype(np.float32))
    settings = ExtremeClassifier()._settings()
    trained_on, held = held_for_trial(settings, points, None, run_seed(seed))
    assert held is not None
    of_network = held.features.data - 1
    common = trust._first_drawn(n, n_for_trial(settings, n, 2000), seed)
    np.testing.assert_array_equal(np.sort(of_network), common)
    assert np.isin(common, trust.kept_apart(points[1], seed)).all()
    assert len(trained_on[0]) == n - len(common)


@pytest.mark.parametrize("settings", [{"validation_fraction": 0.1}, {"hidden": 16}])
def test_a_network_that_keeps_nothing_for_that_tells_nothing(settings):
    n = 20_000
    points = Rows.of(sparse.csr_array((n, 4), dtype=np.float32))
    labels = Rows.of(
        sparse.csr_array((np.ones(n, np.float32), np.ones(n, np.int64), np.arange(n + 1)), shape=(n, 2000))
    )
    assert trust.of_tree(ExtremeClassifier(**settings), TreeClassifier(), points, labels, seed=0, threads=1) == 1


@pytest.mark.parametrize("cost", ["cheap", None, 0, -1, math.nan])
def test_other_costs_are_refused_in_words(cost):
    with pytest.raises((TypeError, ValueError), match="cost must be"):
        TreeClassifier(cost=cost).fit(*NOISY)
