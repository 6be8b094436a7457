"""ExtremeClassifier: learning, forms of y, prediction, determinism, validation, and partial_fit."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, make_blobs, make_moons
from sklearn.exceptions import NotFittedError

from sparsenet import (
    SGD,
    BinaryCrossEntropy,
    DivergenceError,
    ExtremeClassifier,
    FrequencySampler,
    LSHConfig,
    RandomSampler,
    metrics,
)
from sparsenet.engines.network import fit_network
from sparsenet.engines.network.auto_rules import AUTO
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.features.targets import Target
from tests.support.interrupting import StopAt
from tests.support.planted import NAMES, X, Y, fast, lists

# --- learning ---


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"hidden": 0},
        {"wide": False, "learning_rate": 5e-3},
        {"hidden": (32, 16), "learning_rate": 3e-3},
        {"loss": "softmax"},
        {"sampler": "frequency", "n_negatives": 10},
        {"sampler": "lsh", "n_negatives": 10},
        {"sampler": LSHConfig(family="simhash", n_tables=10, n_bits=4), "n_negatives": 10},
        {"sampler": RandomSampler(), "n_negatives": 10},
        {"sampler": "none"},
        {"wide": False, "per_sample": True, "n_negatives": 10, "learning_rate": 5e-3},
        {"activation": "tanh", "optimizer": "adagrad", "learning_rate": 0.05},
        {"optimizer": SGD(rate=0.5), "warmup": 0.1, "decay": "cosine", "label_smoothing": 0.01},
    ],
    ids=str,
)
def test_learns_planted_labels(parameters):
    train, test = slice(0, 320), slice(320, 400)
    model = fast(**parameters).fit(X[train], Y[train])
    assert model.score(X[test], Y[test]) > 0.9


@pytest.mark.parametrize(
    ("points", "least"),
    [
        (make_blobs(21, random_state=3), 0.95),
        (make_blobs(300, cluster_std=0.3, random_state=0), 0.99),
        (make_moons(300, noise=0.15, random_state=0), 0.95),
        (load_iris(return_X_y=True), 0.95),
        (load_digits(return_X_y=True), 0.95),
    ],
    ids=["tiny", "blobs", "moons", "iris", "digits"],
)
def test_learns_small_dense_tables(points, least):
    features, labels = points
    assert ExtremeClassifier(random_state=0, n_jobs=1).fit(features, labels).score(features, labels) >= least


def test_dense_columns_may_have_any_unit_and_origin():
    features, labels = load_iris(return_X_y=True)
    strange = np.column_stack((features * [1e-6, 1e6, 1, 1] + [0, -1e7, 0, 273], np.full(len(features), 7.0)))
    assert ExtremeClassifier(random_state=0, n_jobs=1).fit(strange, labels).score(strange, labels) > 0.94


def test_extreme_values_give_finite_predictions():
    features, labels = load_iris(return_X_y=True)
    model = fast().fit(features, labels)
    assert np.isfinite(model.predict_proba(np.full((1, 4), 3e38))).all()


@pytest.mark.parametrize(
    ("n", "epochs"), [(20, AUTO.min_steps), (256 * 20, 20), (256 * 100, 8), (10**5, 7), (10**6, 5)]
)
def test_automatic_epochs_follow_the_number_of_steps(n, epochs):
    assert NetworkOptions.of(ExtremeClassifier().get_params()).n_epochs(n) == epochs


@pytest.mark.parametrize(
    ("given", "labels", "negatives"),
    [
        ("auto", 9, 9),
        ("auto", 1024, 1024),
        ("auto", 1025, 256),
        ("auto", 10**5, 256),
        (500, 400, 400),
        (500, 600, 500),
    ],
)
def test_negatives_follow_the_number_of_labels(given, labels, negatives):
    assert NetworkOptions.of(ExtremeClassifier(n_negatives=given).get_params()).negatives(labels) == negatives


# --- kinds of y ---


@pytest.mark.parametrize("kind", ["dense", "sparse", "strings", "integers", "series"])
def test_all_forms_of_labels_give_the_same_model(kind):
    y = {
        "dense": Y,
        "sparse": sparse.csr_matrix(Y),
        "strings": lists(NAMES),
        "integers": lists(np.arange(40)),
        "series": pd.Series(lists(NAMES)),
    }[kind]
    reference, model = fast().fit(X, Y), fast().fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), reference.predict_proba(X))
    assert model.score(X, y) == reference.score(X, Y)


def test_predictions_come_in_the_form_of_y():
    dense, csr, strings = fast().fit(X, Y), fast().fit(X, sparse.csr_array(Y)), fast().fit(X, lists(NAMES))
    expected = dense.predict_proba(X) > 0.5
    predicted = dense.predict(X)
    assert predicted.dtype == Y.dtype
    np.testing.assert_array_equal(predicted, expected)
    assert sparse.issparse(csr.predict(X))
    np.testing.assert_array_equal(csr.predict(X).toarray(), expected)
    named = strings.predict(X)
    assert isinstance(named, list)
    assert [set(row) for row in named] == [set(NAMES[np.flatnonzero(row)]) for row in expected]
    assert named[0][0] == strings.topk(X[:1], 1)[0][0, 0]


@pytest.mark.parametrize(
    "labels", [np.array(["b", "a", "c"]), np.array([7, -3, 10**12]), np.array([1.0, 2.0, 9.0]), np.array([True, False])]
)
def test_one_label_a_row_keeps_its_type(labels):
    features, numbers = make_blobs(60, centers=len(labels), cluster_std=0.2, random_state=0)
    y = labels[numbers]
    model = fast().fit(features, y)
    assert model.classes_.tolist() == sorted(labels.tolist())
    assert model.predict(features).dtype == labels.dtype
    assert (model.predict(features) == y).mean() > 0.95
    assert model.score(features, y.tolist()) > 0.95


def test_a_single_class_is_predicted():
    assert fast(epochs=1).fit(X[:5], ["only"] * 5).predict(X[:2]).tolist() == ["only", "only"]


def test_accepts_rows_without_labels_or_features():
    features, labels = X.tolil(), Y.copy()
    features[3], labels[5], labels[6] = 0, 0, 0
    model = fast().fit(features.tocsr(), labels)
    assert model.score(X, Y) > 0.9
    assert model.predict_topk(sparse.csr_array((2, 60)), k=3).nnz == 6


def test_accepts_labels_without_points():
    labels = np.column_stack((Y, np.zeros((len(Y), 3), int)))
    model = fast().fit(X, labels)
    assert model.predict(X).shape == labels.shape
    assert model.label_counts_[-3:].tolist() == [0, 0, 0]


def test_repeated_labels_of_a_row_count_once():
    twice = [[*row, *row] for row in lists(NAMES)]
    np.testing.assert_array_equal(
        fast(epochs=2).fit(X, twice).predict_proba(X), fast(epochs=2).fit(X, lists(NAMES)).predict_proba(X)
    )


def test_encodes_hundreds_of_thousands_of_labels():
    y = np.random.default_rng(0).integers(0, 200_000, 200_000).astype(str).tolist()
    target, rows = Target.learn(y)
    assert rows.width == len(target.classes) == len(set(y))
    assert target.classes[rows.indices[:100]].tolist() == y[:100]


# --- prediction ---


def test_topk_agrees_with_the_dense_probabilities():
    for loss in ("bce", "softmax"):
        model = fast(loss=loss).fit(X, Y)
        dense = model.predict_proba(X)
        labels, p = model.topk(X, 7)
        assert labels.shape == p.shape == (400, 7)
        np.testing.assert_allclose(np.take_along_axis(dense, labels, axis=1), p, rtol=2e-5, atol=1e-7)
        np.testing.assert_allclose(p, -np.sort(-dense, axis=1)[:, :7], rtol=2e-5, atol=1e-7)
        top = model.predict_topk(X, 7)
        assert top.shape == (400, 40)
        np.testing.assert_array_equal(top.indices.reshape(400, 7), labels)
        np.testing.assert_array_equal(top.data.reshape(400, 7), p)


def test_softmax_sums_to_one_at_any_k():
    model = fast(loss="softmax").fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(model.topk(X, 100)[1].sum(axis=1), 1, rtol=1e-5)
    assert (model.topk(X, 1)[1] < 1).all()


def test_predicts_more_labels_than_the_first_block_holds():
    features, labels = np.ones((30, 3)), np.ones((30, 50), int)
    labels[:, -1] = 0
    predicted = fast(learning_rate=0.2).fit(features, labels).predict(features)
    np.testing.assert_array_equal(predicted, labels)


def test_predicts_empty_input():
    model = fast(epochs=1).fit(X, Y)
    assert model.predict(X[:0]).shape == (0, 40)
    assert model.predict_topk(X[:0]).shape == (0, 40)


def test_dense_and_sparse_points_give_equal_predictions():
    for features in (X, X.toarray()):
        model = fast(epochs=2).fit(features, Y)
        np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(X.toarray()))


def test_score_takes_weights_and_counts_unknown_labels_as_misses():
    y = NAMES[Y.argmax(axis=1)]
    model = fast().fit(X, y)
    wrong = y.copy()
    wrong[::2] = "unheard of"
    weights = np.arange(len(y)) % 2
    assert model.score(X, wrong) <= 0.5
    assert model.score(X, wrong, sample_weight=weights) > 0.9


# --- determinism, validation, early stopping ---


@pytest.mark.parametrize(
    "parameters", [{}, {"sampler": "lsh", "n_negatives": 8}, {"loss": "softmax", "hidden": (16, 8)}], ids=str
)
def test_equal_seeds_give_equal_models_at_any_thread_count(parameters):
    models = [fast(**{**parameters, "n_jobs": n, "epochs": 3}).fit(X, Y) for n in (1, 2, 4)]
    for model in models[1:]:
        for name, array in models[0].network_.weights().items():
            np.testing.assert_array_equal(array, model.network_.weights()[name], err_msg=name)


def test_other_seeds_give_other_models():
    a, b, c = (fast(random_state=seed, epochs=1).fit(X, Y).predict_proba(X) for seed in (0, 1, None))
    assert not np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_validation_keeps_the_best_epoch():
    model = fast(epochs=12, learning_rate=0.01).fit(X[:300], Y[:300], validation=(X[300:], Y[300:]))
    measured = [record["P@1"] for record in model.history_]
    assert model.score(X[300:], Y[300:]) == pytest.approx(max(measured))


def test_patience_stops_early():
    model = fast(epochs=200, patience=2, validation_fraction=0.2).fit(X, Y)
    assert 3 <= model.n_iter_ < 200
    assert model.n_points_ == 320


def test_unknown_labels_in_validation_are_misses():
    y = lists(NAMES)
    with pytest.warns(UserWarning, match="y holds no label that the classifier knows"):
        model = fast(epochs=3).fit(X[:300], y[:300], validation=(X[300:], [["unheard of"]] * 100))
    assert {record["P@1"] for record in model.history_} == {0.0}


def test_divergence_raises_and_keeps_the_earlier_model():
    model = fast(epochs=2).fit(X, Y)
    expected = model.predict_proba(X)
    with pytest.raises(DivergenceError, match="lower the learning rate"):
        model.set_params(optimizer=SGD(rate=1e30), epochs=20, normalize="none").fit(X * 1e20, Y)
    np.testing.assert_array_equal(model.predict_proba(X), expected)


# --- partial_fit ---


def test_partial_fit_learns_in_parts():
    model = fast(batch_size=16)
    for _ in range(15):
        for part in range(4):
            model.partial_fit(X[part::4], Y[part::4])
    assert model.score(X, Y) > 0.9
    assert model.n_iter_ == 60


@pytest.mark.parametrize("first", ["fit", "partial_fit"])
@pytest.mark.parametrize("saved", [False, True])
def test_partial_fit_moves_a_fitted_model_gently(monkeypatch, tmp_path, first, saved):
    moved = {}
    for share in (AUTO.rate_after_fit, 1.0):
        monkeypatch.setattr(fit_network, "AUTO", replace(AUTO, rate_after_fit=share))
        model = getattr(fast(wide=False, optimizer="sgd", learning_rate=0.1), first)(X, Y)
        if saved:
            model.save(tmp_path / "model")
            model = ExtremeClassifier.load(tmp_path / "model")
        before = model.network_.output.weight.value.copy()
        model.partial_fit(X[:32], Y[:32])
        moved[share] = model.network_.output.weight.value - before
    expected = AUTO.rate_after_fit if first == "fit" else 1.0  # one of many parts, all with the same rate
    np.testing.assert_allclose(moved[AUTO.rate_after_fit], expected * moved[1.0], rtol=0.02, atol=1e-6)
    assert np.abs(moved[1.0]).max() > 1e-4


def test_partial_fit_treats_interrupted_runs_as_unfinished():
    with pytest.raises(KeyboardInterrupt):
        (model := fast(epochs=50)).fit(X, Y, callbacks=[StopAt(5)])
    assert not model._fitted.finished
    assert not fast(decay="constant").fit(X, Y)._fitted.finished
    assert fast().fit(X, Y)._fitted.finished


def test_partial_fit_continues_the_epoch_count(tmp_path):
    model = fast(epochs=2).fit(X, Y).partial_fit(X, Y)
    model.save(tmp_path / "model")
    model = ExtremeClassifier.load(tmp_path / "model").partial_fit(X, Y)
    assert [record["epoch"] for record in model.history_] == [1, 2, 3, 4]
    assert model.n_iter_ == 4
    assert [record["epoch"] for record in model.fit(X, Y).history_] == [1, 2]


def test_partial_fit_grows_the_wide_path():
    model = fast(hidden=0)
    model.partial_fit(X[:10], Y[:10])
    before = len(model.network_.output.wide.indices)
    for _ in range(40):
        model.partial_fit(X, Y)
    assert len(model.network_.output.wide.indices) > before
    assert model.score(X, Y) > 0.9


def test_partial_fit_needs_classes_on_the_first_call():
    with pytest.raises(ValueError, match="classes must be passed on the first call to partial_fit"):
        fast().partial_fit(X, lists(NAMES))
    model = fast().partial_fit(X[:10], lists(NAMES)[:10], classes=NAMES)
    with pytest.raises(ValueError, match="y holds the label 'unheard of', not one of the 40 known"):
        model.partial_fit(X[:1], [["unheard of"]])
    with pytest.raises(ValueError, match="classes must be the 40 that the classifier knows"):
        model.partial_fit(X[:1], [["label 01"]], classes=["a", "b"])
    with pytest.raises(ValueError, match="y must be of the kind 'lists' as it was before, got the kind 'dense'"):
        model.partial_fit(X[:2], Y[:2])
    model.partial_fit(X[:1], [[]], classes=NAMES)


def test_a_diverging_first_pass_leaves_no_model():
    model = fast(optimizer=SGD(rate=1e30), wide=False, batch_size=1).partial_fit(X[:1], Y[:1])
    with pytest.raises(DivergenceError):
        model.partial_fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_partial_fit_is_deterministic():
    a, b = (fast(n_jobs=n).partial_fit(X, Y).partial_fit(X, Y).predict_proba(X) for n in (1, 2))
    np.testing.assert_array_equal(a, b)


def test_lists_of_zeros_and_ones_are_label_lists():
    y = [[0, 1] if i % 2 else [2] for i in range(len(Y))]
    model = fast(epochs=2).fit(X, y)
    assert model.score(X[1:2], [[0, 1]]) in (0.0, 1.0)
    model.partial_fit(X[1:4:2], [[0, 1], [0, 1]])
    fast(epochs=2).fit(X, y, validation=(X[:3], [[0, 1]] * 3))
    single = fast(epochs=2).fit(X, [row[0] for row in y])
    assert single.score(X[1:2], [[0, 1]]) == single.score(X[1:2], [0])


def test_training_does_not_change_a_given_sampler():
    sampler = FrequencySampler()
    before = dict(vars(sampler))
    model = fast(sampler=sampler, n_negatives=10).fit(X, Y)
    assert vars(sampler) == before
    assert model.network_.output.sampler is not sampler
    assert model.get_params()["sampler"] is sampler


class OfOnesOwn:
    """The default loss under another name."""

    log_odds = True

    def gradient(self, logits, positives, expected, threads):
        return BinaryCrossEntropy().gradient(logits, positives, expected, threads)

    def probabilities(self, scores):
        return BinaryCrossEntropy().probabilities(scores)


@pytest.mark.parametrize("y", [Y, [row.argmax() for row in Y]], ids=["several labels", "one each"])
def test_a_custom_log_odds_loss_acts_like_the_default(y):
    usual, own = fast(epochs=2).fit(X, y), fast(epochs=2, loss=OfOnesOwn()).fit(X, y)
    np.testing.assert_array_equal(own.predict_proba(X), usual.predict_proba(X))


def test_score_rejects_mismatched_points_and_weights():
    model = fast(epochs=1).fit(X, Y)
    with pytest.raises(ValueError, match="X has no rows"):
        model.score(X[:0], Y[:0])
    for weights, message in (
        (np.ones(3), "one number for each of 400 rows"),
        (np.zeros(400), "sum to more than 0"),
        (np.full(400, np.nan), "finite"),
    ):
        with pytest.raises(ValueError, match=f"sample_weight must .*{message}"):
            model.score(X, Y, sample_weight=weights)
    with pytest.raises(ValueError, match="exclude names '1', '2', not among the 40 labels in classes_"):
        model.topk(X[:2], exclude=[["1"], ["2"]])


def test_encodes_labels_as_an_indicator_of_known_ones():
    names = NAMES[Y.argmax(axis=1)]
    model = fast(epochs=1).fit(X, names)
    truth = model.indicator([names[0], "never learnt", names[1]])
    assert truth.shape == (3, len(model.classes_))
    assert [model.classes_[row.indices].tolist() for row in truth] == [[names[0]], [], [names[1]]]
    assert metrics.precision_at_k(truth, model.topk_numbers(X[[0, 0, 1]])[0], 1) <= 2 / 3
