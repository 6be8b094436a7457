"""TreeClassifier: the tree of labels, its linear machines, and the estimator."""

import json
import pickle
import threading
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsenet import BlendClassifier, ModelError, Rows, TreeClassifier, kernels
from sparsenet.core.scratch import put_rows
from sparsenet.core.tasks import HERE
from sparsenet.engines.tree import machines
from sparsenet.engines.tree.fit_tree import CELLS_AT_A_TIME
from sparsenet.engines.tree.train_levels import train
from sparsenet.engines.tree.tree_shape import CHILDREN, MAX_ROOTS, check, grow
from sparsenet.metrics import top_labels
from sparsenet.storage import load, save
from sparsenet.storage.narrow import widen
from tests.support.planted import NAMES, X, Y, lists, planted

ONE_EACH = NAMES[Y.argmax(axis=1)]
MANY, MANY_Y = planted(n=6000, n_features=1501, n_labels=1500, seed=1)


def tree(**parameters):
    """Make a classifier of one thread and one seed; `parameters` override."""
    return TreeClassifier(**{"random_state": 0, "n_jobs": 1, **parameters})


def grown(points, labels, seed=0, threads=1, **how):
    with HERE.session() as session:
        put_rows(session.scratch, "points", points)
        return grow(session, points, labels, seed, threads, **how)


@pytest.fixture(scope="module")
def deep():
    """Fit a tree of three levels, with more labels than a beam of 10 reaches."""
    return tree().fit(MANY, sparse.csr_array(MANY_Y))


# --- scikit-learn ---


@parametrize_with_checks([TreeClassifier(n_jobs=1)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_beam_can_be_searched():
    search = GridSearchCV(tree(), {"cost": [1e-6, 0.5]}, cv=2, error_score="raise").fit(X, Y)
    assert search.best_params_ == {"cost": 0.5}


# --- the tree ---


@pytest.mark.parametrize("n_labels", [1, 2, 16, 17, 64, 65, 159, 1500])
def test_every_label_has_a_leaf(n_labels):
    features, y = planted(n=4 * n_labels + 10, n_features=n_labels + 1, n_labels=n_labels)
    labels = Rows.of(sparse.csr_array(y.astype(np.float32)))
    shape = grown(Rows.of(features.astype(np.float32)), labels)
    assert sorted(shape.labels.tolist()) == np.flatnonzero(y.sum(axis=0)).tolist()
    check(shape, n_labels)
    sizes = [np.diff(children) for children in shape.children]
    assert len(sizes[0]) <= MAX_ROOTS
    for own in sizes:
        assert own.max() <= CHILDREN
        assert own.max() - own.min() <= max(1, own.max() // 2), "nodes are of about one size"
    for above, below in zip(sizes, [*map(len, sizes[1:]), len(shape.labels)], strict=True):
        assert above.sum() == below


def test_similar_labels_share_a_node():
    rng = np.random.default_rng(0)
    family = rng.permutation(np.repeat(np.arange(16), 16))  # the family of each of 256 labels
    own = rng.integers(0, 256, 4000)
    features = np.zeros((4000, 16 + 256), np.float32)
    features[np.arange(4000), family[own]] = 1
    features[np.arange(4000), 16 + own] = 0.5
    labels = Rows.of(sparse.csr_array(np.eye(256, dtype=np.float32)[own]))
    shape = grown(Rows.of(sparse.csr_array(features)), labels)
    of_leaf = family[shape.labels]
    alike = [
        np.bincount(of_leaf[first:last]).max() / (last - first)
        for first, last in zip(shape.children[-1], shape.children[-1][1:], strict=False)
    ]
    assert np.mean(alike) > 0.6, "by chance it would be about a fifth"


def test_other_seeds_give_other_trees():
    labels, points = Rows.of(sparse.csr_array(MANY_Y.astype(np.float32))), Rows.of(MANY.astype(np.float32))
    one, other, again = (grown(points, labels, seed, 2).labels for seed in (0, 1, 0))
    assert not np.array_equal(one, other)
    np.testing.assert_array_equal(one, again)


def test_the_size_of_tasks_does_not_change_the_shape():
    labels, points = Rows.of(sparse.csr_array(MANY_Y.astype(np.float32))), Rows.of(MANY.astype(np.float32))
    few, many = (grown(points, labels, task_labels=n) for n in (1 << 20, 1))
    np.testing.assert_array_equal(few.labels, many.labels)


# --- learning and answering ---


def test_learns_planted_labels(deep):
    test, truth = planted(n=1000, n_features=1501, n_labels=1500, seed=2)
    assert len(deep._fitted.levels) == 3
    assert deep.score(test, truth) > 0.75
    best, p = deep.topk_numbers(test, 2)
    assert truth[np.arange(1000)[:, None], best].mean() > 0.7
    assert np.all(np.diff(p, axis=1) <= 0)
    assert p.min() >= 0
    assert p.max() <= 1


def test_machines_learn_from_the_points_that_reach_a_node(deep):
    """A score is the sum over the machines of a path; their weights are dense here."""
    features = deep._features(MANY[:50])
    dense = MANY[:50].toarray() / np.linalg.norm(MANY[:50].toarray(), axis=1, keepdims=True)
    scores = np.zeros((50, len(deep._fitted.levels[0].children) - 1))
    for level in deep._fitted.levels:
        below = np.full((50, level.children[-1]), -np.inf)
        for node in range(len(level.children) - 1):
            rows = slice(level.starts[node], level.starts[node + 1])
            weight = np.zeros((dense.shape[1], CHILDREN))
            weight[level.features[rows]] = level.weights[rows] * level.factors[rows, None]
            said = dense @ weight + level.bias[node]
            first, last = level.children[node : node + 2]
            below[:, first:last] = 0.8 * scores[:, [node]] - np.maximum(1 - said, 0)[:, : last - first] ** 3
        scores = below
    leaves, found = machines.search(deep._fitted.levels, features, 10**6, 5, 1)
    np.testing.assert_allclose(found, -np.sort(-scores, axis=1)[:, :5], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(scores, leaves.astype(int), 1), found, rtol=1e-3, atol=1e-4)


def labels_of(n_points, each, n_labels):
    """Give each of `n` points the given number of labels, all labels in turn, and no label to one more point."""
    indptr = np.append(np.arange(n_points + 1) * each, n_points * each)
    indices = (np.arange(n_points * each) % n_labels).astype(np.int32)
    return Rows(indptr, indices, np.ones(len(indices), np.float32), n_labels + 1)


def rules_for(labels):
    return machines.Rules().fitting(labels, np.bincount(labels.indices, minlength=labels.width))


def fitting(*shape):
    return rules_for(labels_of(*shape))


def test_rare_children_weigh_more_with_few_labels_a_point():
    even, uneven = machines.Rules(), fitting(40, 1, 40)
    assert (uneven.others, uneven.rarity) == (machines.OTHERS, machines.RARITY)
    assert fitting(40, 4, 40) == uneven
    between = fitting(40, 8, 40)
    assert machines.OTHERS < between.others < 1
    assert 0 < between.rarity < machines.RARITY
    assert fitting(40, 16, 40) == fitting(40, 30, 40) == even


def test_rare_children_weigh_more_with_few_points_a_label():
    assert fitting(1280, 1, 10) == fitting(10, 1, 10)
    frequent = fitting(2560, 1, 10)
    assert frequent.rarity < fitting(1800, 1, 10).rarity < machines.RARITY
    assert frequent == fitting(9999, 1, 10)
    assert frequent.rarity == machines.OF_FREQUENT_LABELS * machines.RARITY
    assert frequent.others == machines.OTHERS**machines.OF_FREQUENT_LABELS
    assert fitting(9999, 16, 20) == machines.Rules()


def test_default_rules_hold_without_labels():
    nothing = Rows(np.zeros(3, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), 7)
    assert rules_for(nothing) == fitting(40, 1, 40)


def test_training_depends_on_labels_a_point(deep, monkeypatch):
    asked = []
    train = kernels.train_nodes
    monkeypatch.setattr(kernels, "train_nodes", lambda *given: asked.append(given[9:12]) or train(*given))
    TreeClassifier(cost=0.4, random_state=0).fit(X, Y)
    rules = rules_for(Rows.of(sparse.csr_array(Y)))
    assert set(asked) == {(0.4, 0.4 * rules.others, rules.rarity)}


def test_a_narrow_beam_loses_little(deep):
    test, truth = planted(n=1000, n_features=1501, n_labels=1500, seed=3)

    def right(beam):
        best, _ = pickle.loads(pickle.dumps(deep)).set_params(beam=beam).topk_numbers(test, 2)
        return truth[np.arange(1000)[:, None], best].mean()

    assert right(1000) == pytest.approx(right(10), abs=0.02)
    assert right(1) < right(10) - 0.1, "the two labels of a point are seldom in one node"


def test_threads_change_nothing(deep):
    for threads in (2, 3):
        other = tree(n_jobs=threads).fit(MANY, sparse.csr_array(MANY_Y))
        np.testing.assert_array_equal(other._fitted.shape.labels, deep._fitted.shape.labels)
        for one, two in zip(other._fitted.levels, deep._fitted.levels, strict=True):
            for a, b in zip(one.as_tuple(), two.as_tuple(), strict=True):
                np.testing.assert_array_equal(a, b)
        for a, b in zip(other.topk_numbers(MANY, 7), deep.topk_numbers(MANY, 7), strict=True):
            np.testing.assert_array_equal(a, b)


def trained(rules, on_progress=lambda share: None):
    points, labels = Rows.of(MANY), Rows.of(sparse.csr_array(MANY_Y))
    with HERE.session() as session:
        put_rows(session.scratch, "points", points)
        levels: list[machines.Level] = []
        train(session, grow(session, points, labels, 0, 1), points, labels, rules, 0, 1, on_progress, levels)
        return levels


def test_progress_is_proportional_to_training_work():
    told: list[Any] = []
    trained(machines.Rules(call_entries=1 << 14), told.append)
    assert len(told) > 10
    assert min(told) > 0
    assert max(told) < 0.3
    assert sum(told) == pytest.approx(1)


def test_answers_do_not_depend_on_other_points(deep):
    together, p = deep.topk_numbers(MANY[:40], 5)
    for i in range(40):
        one, own = deep.topk_numbers(MANY[i : i + 1], 5)
        np.testing.assert_array_equal(one[0], together[i])
        np.testing.assert_array_equal(own[0], p[i])


def test_answers_do_not_depend_on_the_batch():
    """Some points have more labels than `predict` computes at first: it repeats the search for these points."""
    rng = np.random.default_rng(0)
    y = (rng.random((400, 300)) < 0.01).astype(int)
    own = y.astype(float)
    y[:20, :200], own[:20] = 1, 0
    features = sparse.csr_array(np.hstack((own, np.arange(400)[:, None] < 20)))
    model = tree(beam=2, cost=10).fit(features, y)
    together = model.predict(features)
    assert together[:20].sum(axis=1).min() > 16
    for i in range(400):
        np.testing.assert_array_equal(model.predict(features[i : i + 1])[0], together[i])


@pytest.mark.parametrize("scale", [0.01, 1, 100])
def test_normalizes_points_of_any_length(scale):
    rng = np.random.default_rng(0)
    names = rng.integers(0, 20, 1000)
    table = rng.normal(0, 1, (20, 30))[names] + rng.normal(0, 0.3, (1000, 30))
    model = tree(normalize="none", cost=0.5 / scale**2).fit(scale * table, names)
    assert model.score(scale * table, names) > 0.95


def test_improbable_rows_have_probabilities_too():
    model = tree(normalize="none").fit(np.eye(30), np.arange(30))
    p = model.predict_proba(np.full((1, 30), -10.0))
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)


def test_a_huge_beam_is_bounded_by_the_tree(deep):
    tree(beam=2**31 - 1).fit(X, Y)
    with pytest.raises(ValueError, match="beam must be"):
        tree(beam=2**31).fit(X, Y)
    with pytest.raises(ValueError, match="beam must be"):
        pickle.loads(pickle.dumps(deep)).set_params(beam=2**64).predict(MANY[:1])


@pytest.mark.parametrize("model", [tree(n_jobs=2), BlendClassifier(network="drop", n_jobs=2)], ids=["tree", "blend"])
def test_rejects_billions_of_features(model, monkeypatch):
    points = sparse.csr_array((np.ones(40, np.float32), (np.arange(40), np.arange(40))), shape=(40, 2**31 - 1))
    monkeypatch.setattr("sparsenet.core.memory.available_memory", lambda: 10**9)
    with pytest.raises(MemoryError, match=r"2,147,483,647 features needs .* only 1\.0 GB are available: number"):
        model.fit(points, np.arange(40))
    assert not hasattr(model, "classes_")


def test_k_may_exceed_the_labels_of_the_beam(deep):
    labels, p = deep.topk_numbers(MANY[:20], 1500)
    np.testing.assert_array_equal(np.sort(labels, axis=1), np.tile(np.arange(1500), (20, 1)))
    assert np.all(np.diff(p, axis=1) <= 0)


def test_labels_without_points_rank_last():
    wider = np.hstack((np.zeros((len(Y), 3), int), Y, np.zeros((len(Y), 2), int)))
    model = tree().fit(X, wider)
    labels, p = model.topk_numbers(X, 45)
    np.testing.assert_array_equal(np.sort(labels[:, 40:], axis=1), np.tile([0, 1, 2, 43, 44], (len(Y), 1)))
    assert p[:, 40:].max() == 0
    np.testing.assert_array_equal(model.topk_numbers(X, 5)[0] - 3, tree().fit(X, Y).topk_numbers(X, 5)[0])


def test_predict_has_the_form_of_y():
    assert set(tree().fit(X, ONE_EACH).predict(X)) <= set(NAMES)
    several = tree().fit(X, lists(NAMES)).predict(X)
    assert isinstance(several, list)
    right = np.mean([set(found) == set(own) for found, own in zip(several, lists(NAMES), strict=True)])
    assert right > 0.5
    indicator: Any = tree().fit(X, sparse.csr_array(Y)).predict(X)
    assert sparse.issparse(indicator)
    assert np.shape(indicator) == Y.shape
    assert tree().fit(X, Y).predict(X).shape == Y.shape


def test_probabilities_of_one_label_a_row_sum_to_one(deep):
    p = tree().fit(X, ONE_EACH).predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    assert (p.argmax(axis=1) == Y.argmax(axis=1)).mean() > 0.5
    p = deep.predict_proba(MANY[:10])
    best, own = deep.topk_numbers(MANY[:10], 3)
    np.testing.assert_allclose(np.take_along_axis(p, best.astype(int), 1), own, rtol=1e-6)


@pytest.mark.parametrize("exclusive", [True, False])
def test_predict_proba_takes_little_extra_memory(exclusive):
    y = np.arange(150) if exclusive else [[i] for i in range(150)]
    model, points = tree().fit(np.eye(150), y), sparse.csr_array(np.eye(150)[np.arange(30_000) % 150])
    tracemalloc.start()
    try:
        p = model.predict_proba(points)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * p.nbytes + 45 * CELLS_AT_A_TIME


def test_equal_scores_are_ordered_by_label():
    """Machines are certain about most training points, so that the best scores are often equal."""
    rng = np.random.default_rng(3)
    truth = (rng.random((1500, 200)) < 0.04).astype(int)
    points = (truth @ (rng.random((200, 400)) < 0.02) > 0).astype(float)
    model = tree(cost=10.0).fit(sparse.csr_array(points), truth)
    labels, p = model.topk_numbers(points, 5)
    tied = p[:, 1:] == p[:, :-1]
    assert tied[:, 0].mean() > 0.5
    assert (labels[:, 1:] > labels[:, :-1])[tied].all()
    for k in (1, 3):
        np.testing.assert_array_equal(model.topk_numbers(points, k)[0], labels[:, :k])
    np.testing.assert_array_equal(top_labels(model.predict_topk(points, 5), 5), labels)


@pytest.mark.parametrize("rows", [0, 1])
def test_accepts_few_rows_and_empty_rows(deep, rows):
    labels, p = deep.topk_numbers(sparse.csr_array((rows, 1501)), 3)
    assert labels.shape == p.shape == (rows, 3)


def test_rows_without_labels_are_negatives():
    some = Y.copy()
    some[::2] = 0
    model = tree().fit(X, some)
    assert model.predict(X)[::2].sum() < model.predict(X)[1::2].sum()


def test_accepts_one_label_and_two():
    assert tree().fit(X, ["only"] * 400).predict(X[:3]).tolist() == ["only"] * 3
    y = np.where(X[:, [0]].toarray()[:, 0] > 0, "yes", "no")
    assert (tree().fit(X, y).predict(X) == y).mean() > 0.95


def test_standardizes_columns_of_a_table():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"metres": rng.normal(1000, 300, 500), "share": rng.normal(0, 0.1, 500)})
    y = np.where((table["metres"] - 1000) / 300 + table["share"] / 0.1 > 0, "large", "small")
    model = tree(cost=10).fit(table, y)
    assert model.score(table, y) > 0.95
    assert model.feature_names_in_.tolist() == ["metres", "share"]


# --- errors and interruptions ---


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"cost": 0}, "cost must be"),
        ({"beam": 0}, "beam must be"),
        ({"epochs": 1.5}, "epochs must be"),
        ({"normalize": "unit"}, "normalize must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"verbose": "much"}, "verbose must be"),
        ({"random_state": "x"}, "random_state must be"),
    ],
)
def test_names_wrong_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        tree(**parameters).fit(X, Y)


def test_names_data_that_does_not_fit(deep):
    with pytest.raises(ValueError, match="y holds no label at all"):
        tree().fit(X, np.zeros_like(Y))
    with pytest.raises(ValueError, match="must have an entry for each row"):
        tree().fit(X, Y[:-1])
    with pytest.raises(ValueError, match="features"):
        deep.predict(X)
    with pytest.raises(ValueError, match="k must be"):
        deep.topk(MANY, 0)


def test_an_interrupted_fit_restores_the_model(monkeypatch):
    model = tree().fit(X, Y)
    before = model.topk_numbers(X, 3)[0]
    calls = []

    def interrupted(*arguments):
        calls.append(arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(kernels, "train_nodes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(MANY, MANY_Y)
    assert len(calls) == 1
    np.testing.assert_array_equal(model.topk_numbers(X, 3)[0], before)


def test_grouping_of_nodes_changes_nothing():
    one_call, many_calls = (trained(machines.Rules(call_entries=entries, thread_nodes=1)) for entries in (1 << 30, 1))
    for one, two in zip(one_call, many_calls, strict=True):
        for a, b in zip(one.as_tuple(), two.as_tuple(), strict=True):
            np.testing.assert_array_equal(a, b)


def test_concurrent_calls_do_not_disturb_each_other(deep):
    expected = deep.topk_numbers(MANY, 3)[0]
    found = {}
    threads = [threading.Thread(target=lambda i=i: found.update({i: deep.topk_numbers(MANY, 3)[0]})) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for own in found.values():
        np.testing.assert_array_equal(own, expected)


# --- on disk ---


@pytest.mark.parametrize(
    "y",
    [Y, sparse.csr_array(Y), lists(NAMES), ONE_EACH, ONE_EACH.astype(str), Y.argmax(axis=1)],
    ids=["dense", "sparse", "lists", "object strings", "fixed strings", "integers"],
)
@pytest.mark.parametrize("dense", [False, True])
def test_a_saved_model_answers_as_before(tmp_path, y, dense):
    features = pd.DataFrame(X.toarray()).add_prefix("feature ") if dense else X
    model = tree(cost=1.0, normalize="columns" if dense else "auto").fit(features, y)
    model.save(tmp_path / "model")
    loaded = TreeClassifier.load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    assert type(loaded.classes_.tolist()[0]) is type(model.classes_.tolist()[0])
    np.testing.assert_array_equal(loaded.label_counts_, model.label_counts_)
    assert loaded.n_points_ == 400
    for a, b in zip(loaded.topk_numbers(features, 5), model.topk_numbers(features, 5), strict=True):
        np.testing.assert_array_equal(a, b)
    one, two = loaded.predict(features), model.predict(features)
    assert type(one) is type(two)


def test_compact_does_not_change_a_saved_tree(tmp_path):
    model = tree().fit(X, Y)
    for name in (False, True):
        model.save(tmp_path / str(name), compact=name)
    files = [sorted((tmp_path / name).iterdir()) for name in ("False", "True")]
    assert [file.read_bytes() for file in files[0]] == [file.read_bytes() for file in files[1]]
    with pytest.raises(ValueError, match="compact must be True or False, got 'yes'"):
        model.save(tmp_path / "other", compact="yes")


def damages():
    """Yield damages of a saved model, each with a pattern of the error."""
    yield "level1.children", lambda a: a * 2, "children"
    yield "level1.children", lambda a: np.sort(np.append(a[:-1], a[-1] + 40)), "children|bias"
    yield "level1.starts", lambda a: a + 1, "starts"
    yield "level0.features", lambda a: a + 10**6, "features"
    yield "level0.features", lambda a: a[::-1].copy(), "features"
    yield "level0.weights", lambda a: a[:-1], "weights"
    yield "level0.weights", lambda a: a.astype(np.int16), "weights"
    yield "level0.factors", lambda a: np.full_like(a, np.nan), "factors"
    yield "level0.bias", lambda a: a[:, :3], "bias"
    yield "labels", lambda a: a * 0, "labels"
    yield "labels", lambda a: a[:-1], "children"
    yield "labels", lambda a: a + 1, "labels|leaf"
    yield "counts", lambda a: a[:-1], "counts"


@pytest.mark.parametrize(("array", "damage", "message"), [*damages()])
def test_rejects_a_damaged_model(tmp_path, array, damage, message):
    model = tree().fit(*planted(n=600, n_features=101, n_labels=100))
    model.save(tmp_path / "model")
    arrays, metadata = load(tmp_path / "model")
    arrays = widen(arrays)
    save(tmp_path / "model", {**arrays, array: damage(np.asarray(arrays[array]))}, metadata)
    with pytest.raises(ModelError, match=message):
        TreeClassifier.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": {"nonsense": 1}}, "nonsense"),
        ({"parameters": {"beam": "x"}}, "beam must be"),
        ({"n_features": 2**40}, "n_features must be"),
        ({"n_points": -1}, "n_points must be"),
        ({"n_levels": 0}, "n_levels must be"),
        ({"n_levels": 9}, "level"),
    ],
)
def test_rejects_a_damaged_manifest(tmp_path, changes, message):
    tree().fit(*planted(n=600, n_features=101, n_labels=100)).save(tmp_path / "model")
    arrays, metadata = load(tmp_path / "model")
    save(tmp_path / "model", dict(arrays), metadata | changes)
    with pytest.raises(ModelError, match=message):
        TreeClassifier.load(tmp_path / "model")


def test_rejects_a_model_with_a_huge_first_level(tmp_path):
    """Otherwise a file could cause any amount of work and memory."""
    model = tree().fit(*planted(n=600, n_features=101, n_labels=100))
    model.save(tmp_path / "model")
    arrays, metadata = load(tmp_path / "model")
    lowest = {name.replace("level1", "level0"): a for name, a in arrays.items() if not name.startswith("level0")}
    save(tmp_path / "model", lowest, metadata | {"n_levels": 1})
    with pytest.raises(ModelError, match="at most 4 nodes"):
        TreeClassifier.load(tmp_path / "model")


def test_rejects_a_model_of_another_kind(tmp_path, deep):
    deep.save(tmp_path / "model")
    arrays, metadata = load(tmp_path / "model")
    assert json.loads(json.dumps(metadata))["model"] == "TreeClassifier"
    save(tmp_path / "model", arrays, {**metadata, "model": "TextClassifier"})
    with pytest.raises(ModelError, match="not TreeClassifier"):
        TreeClassifier.load(tmp_path / "model")


def test_a_probability_is_a_curve_of_the_penalty(deep):
    labels, p = deep.topk_numbers(MANY[:50], 5)
    ranked, scores = deep._fitted.rank(deep._features(MANY[:50]), 5, beam=deep.beam, threads=1)
    np.testing.assert_array_equal(labels, ranked)
    np.testing.assert_allclose(p, 1 / (1 + np.exp(2.5 * np.sqrt(-scores) - 2.8)), rtol=1e-5)
    assert p.max() < 1
    assert (np.diff(p, axis=1) <= 0).all()


@pytest.mark.parametrize("cost", ["cheap", None, 0, -1, float("nan")])
def test_rejects_other_costs(cost):
    with pytest.raises((TypeError, ValueError), match="cost must be"):
        tree(cost=cost).fit(X, Y)


def test_loads_old_trees_without_a_saved_cost(tmp_path):
    tree(cost=0.7).fit(X, Y).save(tmp_path / "model")
    arrays, metadata = load(tmp_path / "model")
    del metadata["cost"]
    save(tmp_path / "old", arrays, metadata)
    assert TreeClassifier.load(tmp_path / "old").cost_ == 0.7


def test_probable_labels_are_about_as_many_as_true_ones():
    """Probabilities are neither so low that points get no label nor so high that they get all."""
    model = tree().fit(MANY[:5000], sparse.csr_array(MANY_Y[:5000]))
    likely = model.predict_proba(MANY[5000:]) > 0.5
    right = MANY_Y[5000:].astype(bool)
    assert right[likely].mean() > 0.5
    assert 0.6 * right.sum() < likely.sum() < 1.5 * right.sum()


@pytest.mark.parametrize("scale", [1, 300, 3e3, 1e8])
def test_keeps_the_length_of_points_without_normalization(scale):
    points = np.random.default_rng(0).normal(size=(600, 5))
    labels = (points[:, 0] > 0).astype(int)
    model = TreeClassifier(normalize="none", random_state=0, n_jobs=1).fit(points * scale, labels)
    assert model.score(points * scale, labels) > 0.97


def test_rejects_points_whose_squares_overflow():
    points = np.random.default_rng(0).normal(size=(60, 5)) * 1e30
    with pytest.raises(ValueError, match=r"overflow float32: set normalize"):
        TreeClassifier(normalize="none").fit(points, np.arange(60) % 2)
