"""ExtremeClassifier: what it learns, the kinds of y, and everything around `fit`."""

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, make_blobs, make_moons

from sparsenet import (
    SGD,
    BinaryCrossEntropy,
    DivergenceError,
    ExtremeClassifier,
    LSHConfig,
    ModelError,
    RandomSampler,
)
from sparsenet._building import memory_needed, outline
from sparsenet._settings import AUTO_STEPS, Settings
from sparsenet._targets import Target
from sparsenet.batches import Rows
from sparsenet.wide import support_bound, transpose

NAMES = np.array([f"label {number:02d}" for number in range(40)], dtype=object)


def planted(n=400, n_features=60, n_labels=40, seed=0):
    """Points whose features name their labels: label l stands for the features l and l + 1."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_labels, (n, 2))
    X = sparse.lil_array((n, n_features))
    for point, own in enumerate(labels):
        for label in own:
            X[point, label] = X[point, label + 1] = 1 + rng.random()
        X[point, rng.integers(0, n_features)] += 0.3
    Y = np.zeros((n, n_labels), np.int64)
    Y[np.arange(n)[:, None], labels] = 1
    return X.tocsr(), Y


X, Y = planted()
FAST = {"hidden": 32, "n_jobs": 1, "random_state": 0, "epochs": 60, "batch_size": 64}


def fast(**parameters):
    return ExtremeClassifier(**{**FAST, **parameters})


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
def test_planted_labels_are_learnt(parameters):
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
def test_small_dense_tables_are_learnt(points, least):
    features, labels = points
    assert ExtremeClassifier(random_state=0, n_jobs=1).fit(features, labels).score(features, labels) >= least


def test_dense_columns_may_have_any_unit_and_origin():
    features, labels = load_iris(return_X_y=True)
    strange = features * [1e-6, 1e6, 1, 1] + [0, -1e7, 0, 273]
    assert ExtremeClassifier(random_state=0, n_jobs=1).fit(strange, labels).score(strange, labels) > 0.94


def test_a_constant_column_does_no_harm():
    features, labels = load_iris(return_X_y=True)
    features = np.column_stack((features, np.full(len(features), 7.0)))
    assert ExtremeClassifier(random_state=0, n_jobs=1).fit(features, labels).score(features, labels) > 0.94


def test_extreme_values_in_prediction_give_numbers():
    features, labels = load_iris(return_X_y=True)
    model = fast().fit(features, labels)
    assert np.isfinite(model.predict_proba(np.full((1, 4), 3e38))).all()


@pytest.mark.parametrize(("n", "epochs"), [(20, AUTO_STEPS), (256 * 50, 20), (10**6, 10)])
def test_automatic_epochs_give_small_data_enough_steps(n, epochs):
    assert Settings.of(ExtremeClassifier().get_params()).n_epochs(n) == epochs


# --- kinds of y ---


def lists(names):
    return [[names[label] for label in np.flatnonzero(row)] for row in Y]


@pytest.mark.parametrize("kind", ["dense", "sparse", "strings", "integers", "series"])
def test_all_kinds_of_labels_are_one(kind):
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


def test_rows_without_labels_and_without_features_are_legal():
    features, labels = X.tolil(), Y.copy()
    features[3], labels[5], labels[6] = 0, 0, 0
    model = fast().fit(features.tocsr(), labels)
    assert model.score(X, Y) > 0.9
    assert model.predict_topk(sparse.csr_array((2, 60)), k=3).nnz == 6


def test_labels_without_points_are_legal():
    labels = np.column_stack((Y, np.zeros((len(Y), 3), int)))
    model = fast().fit(X, labels)
    assert model.predict(X).shape == labels.shape
    assert model.label_counts_[-3:].tolist() == [0, 0, 0]


def test_repeated_labels_of_a_row_count_once():
    twice = [[*row, *row] for row in lists(NAMES)]
    np.testing.assert_array_equal(
        fast(epochs=2).fit(X, twice).predict_proba(X), fast(epochs=2).fit(X, lists(NAMES)).predict_proba(X)
    )


def test_labels_by_the_hundred_thousand_are_encoded():
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


def test_softmax_sums_to_one_over_all_labels_however_many_are_asked_for():
    model = fast(loss="softmax").fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(model.topk(X, 100)[1].sum(axis=1), 1, rtol=1e-5)
    assert (model.topk(X, 1)[1] < 1).all()


def test_more_labels_above_one_half_than_the_first_look_holds():
    features, labels = np.ones((30, 3)), np.ones((30, 50), int)
    labels[:, -1] = 0
    predicted = fast(learning_rate=0.2).fit(features, labels).predict(features)
    np.testing.assert_array_equal(predicted, labels)


def test_no_rows_are_predicted_as_none():
    model = fast(epochs=1).fit(X, Y)
    assert model.predict(X[:0]).shape == (0, 40)
    assert model.predict_topk(X[:0]).shape == (0, 40)


def test_dense_and_sparse_points_are_predicted_alike():
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
def test_equal_seeds_give_equal_models_at_any_number_of_threads(parameters):
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
    model = fast(epochs=3).fit(X[:300], y[:300], validation=(X[300:], [["unheard of"]] * 100))
    assert {record["P@1"] for record in model.history_} == {0.0}


def test_divergence_is_an_error_and_leaves_the_earlier_model():
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


def test_partial_fit_grows_the_wide_path():
    model = fast(hidden=0)
    model.partial_fit(X[:10], Y[:10])
    before = len(model.network_.output.wide.indices)
    for _ in range(40):
        model.partial_fit(X, Y)
    assert len(model.network_.output.wide.indices) > before
    assert model.score(X, Y) > 0.9


def test_partial_fit_wants_the_classes_first():
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


def test_partial_fit_is_deterministic():
    a, b = (fast(n_jobs=n).partial_fit(X, Y).partial_fit(X, Y).predict_proba(X) for n in (1, 2))
    np.testing.assert_array_equal(a, b)


# --- saving ---


@pytest.mark.parametrize(
    ("parameters", "y"),
    [
        ({}, Y),
        ({"loss": "softmax"}, sparse.csr_array(Y)),
        ({"hidden": (16, 8), "wide": False, "loss": BinaryCrossEntropy(smoothing=0.1)}, lists(NAMES)),
        ({"hidden": 0, "sampler": LSHConfig(n_bits=4), "n_negatives": 99} | {"hidden": 8}, NAMES[Y.argmax(axis=1)]),
        ({"optimizer": SGD(rate=0.1), "sampler": "frequency"}, NAMES[Y.argmax(axis=1)].astype(str)),
        ({"hidden": 0}, Y.argmax(axis=1)),
    ],
    ids=["dense", "sparse", "lists", "object strings", "fixed strings", "integers"],
)
@pytest.mark.parametrize("dense", [False, True])
def test_a_saved_model_predicts_and_learns_on_as_before(tmp_path, parameters, y, dense):
    features = pd.DataFrame(X.toarray()).add_prefix("feature ") if dense else X
    model = fast(epochs=2, **parameters).fit(features, y)
    model.save(tmp_path / "model")
    loaded = ExtremeClassifier.load(tmp_path / "model")
    assert loaded.get_params() == model.get_params()
    assert [record["loss"] for record in loaded.history_] == [record["loss"] for record in model.history_]
    assert type(loaded.classes_.tolist()[0]) is type(model.classes_.tolist()[0])
    for _ in range(2):
        np.testing.assert_array_equal(loaded.predict_proba(features), model.predict_proba(features))
        assert_equal_predictions(loaded.predict(features), model.predict(features))
        loaded.partial_fit(features, y)
        model.partial_fit(features, y)


def assert_equal_predictions(a, b):
    assert type(a) is type(b)
    assert (a != b).nnz == 0 if sparse.issparse(a) else np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


def test_a_model_with_code_of_its_own_is_not_saved(tmp_path):
    model = fast(epochs=1, sampler=RandomSampler()).fit(X, Y)
    with pytest.raises(ValueError, match=r"sampler=.* cannot be saved: a model on disk holds no code"):
        model.save(tmp_path / "model")
    model.set_params(sampler="random").save(tmp_path / "model")
    np.testing.assert_array_equal(ExtremeClassifier.load(tmp_path / "model").predict(X), model.predict(X))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays, data: data.update(model="other"), "a model of the kind 'other'"),
        (lambda arrays, data: data["parameters"].update(hidden=-1), "hidden must be"),
        (lambda arrays, data: data["parameters"].update(novelty=1), "novelty"),
        (lambda arrays, data: data.pop("target"), "target"),
        (lambda arrays, data: data.update(n_features=10), "from 0 to 9"),
        (lambda arrays, data: arrays.pop("output.weight"), "output.weight"),
        (lambda arrays, data: arrays["wide.indices"].__setitem__(0, -5), "got -5"),
        (lambda arrays, data: arrays["wide.indptr"].__setitem__(1, 10**9), "decrease"),
        (lambda arrays, data: arrays.update(counts=np.zeros(3, np.int64)), "counts|list of features"),
        (lambda arrays, data: data.update(scaling="columns"), "scaling.centre"),
        (lambda arrays, data: data.update(scaling="sideways"), "rows, columns or none"),
    ],
)
def test_a_model_that_does_not_fit_together(tmp_path, change, message):
    from sparsenet import storage

    fast(epochs=1).fit(X, Y).save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    change(arrays, metadata)
    storage.save(tmp_path / "model", arrays, metadata)
    with pytest.raises(ModelError, match=message):
        ExtremeClassifier.load(tmp_path / "model")


# --- checkpoints and Ctrl-C ---


class StopAt:
    """Ctrl-C after some batches."""

    def __init__(self, batch):
        self.left = batch

    def on_batch(self, progress):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGINT)

    def on_epoch(self, record):
        pass


@pytest.mark.parametrize("batch", [1, 6, 10, 17])
@pytest.mark.parametrize("sampler", ["random", "lsh"])
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path, batch, sampler):
    parameters = {"epochs": 3, "sampler": sampler, "n_negatives": 10, "validation_fraction": 0.1}
    whole = fast(**parameters).fit(X, Y)
    model = fast(**parameters)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, checkpoint=tmp_path / "run", callbacks=[StopAt(batch)])
    assert model.predict(X).shape == Y.shape
    resumed = fast(**parameters, n_jobs=2).fit(X, Y, checkpoint=tmp_path / "run", resume=True)
    for name, array in whole.network_.weights().items():
        np.testing.assert_array_equal(resumed.network_.weights()[name], array, err_msg=name)
    unlike = {"seconds"}
    for a, b in zip(resumed.history_, whole.history_, strict=True):
        assert {k: v for k, v in a.items() if k not in unlike} == {k: v for k, v in b.items() if k not in unlike}


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    fast(epochs=1).fit(X, Y, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="is the checkpoint of a run with other data or settings"):
        fast(epochs=1, learning_rate=0.5).fit(X, Y, checkpoint=tmp_path / "run", resume=True)


def test_a_checkpoint_needs_a_seed(tmp_path):
    with pytest.raises(ValueError, match="checkpoint needs random_state to be an integer, got None"):
        fast(random_state=None).fit(X, Y, checkpoint=tmp_path / "run")


def test_control_c_stops_within_a_second_and_leaves_a_model():
    program = textwrap.dedent(
        """
        import sys, time
        import numpy as np
        from scipy.sparse import random as draw
        from sparsenet import ExtremeClassifier

        class Ready:
            def on_batch(self, progress):
                if progress.batch == 3:
                    print("training", flush=True)
            def on_epoch(self, record):
                pass

        rng = np.random.default_rng(0)
        X = draw(4000, 5000, 0.01, "csr", random_state=0)
        y = rng.integers(0, 3000, 4000)
        model = ExtremeClassifier(epochs=100000, random_state=0)
        try:
            model.fit(X, y, callbacks=[Ready()])
        except KeyboardInterrupt:
            print(time.time(), model.predict(X[:3]).shape, flush=True)
            raise
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "training\n"
    sent = time.time()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    stopped, shape = out.split(maxsplit=1)
    assert float(stopped) - sent < 1, err
    assert shape.strip() == "(3,)"
    assert "KeyboardInterrupt" in err
    assert process.returncode != 0


# --- memory, progress, import ---


def test_too_little_memory_is_said_in_words():
    with pytest.raises(MemoryError, match=r"training needs .* \(weights .*memory_limit allows 10.0 kB: lower hidden"):
        fast(memory_limit="10kB").fit(X, Y)
    fast(memory_limit="1GB", epochs=1).fit(X, Y)


def sparse_points(n=3000, n_features=20_000, n_labels=4000):
    rng = np.random.default_rng(0)
    points = sparse.csr_array(sparse.random(n, n_features, 0.004, "csr", rng=rng, dtype=np.float32))
    labels = sparse.csr_array((np.ones(n, np.float32), rng.integers(0, n_labels, n), np.arange(n + 1)), (n, n_labels))
    return Rows.of(points), Rows.of(labels), points, labels


@pytest.mark.parametrize(
    "parameters", [{}, {"hidden": 0}, {"wide": False}, {"optimizer": "sgd", "sampler": "lsh"}], ids=str
)
def test_memory_is_foretold(parameters):
    features, labels, points, y = sparse_points()
    model = fast(**{"hidden": 64, "n_negatives": 500, "epochs": 1, **parameters})
    settings = Settings.of(model.get_params())
    counts = np.bincount(labels.indices, minlength=labels.width)
    support = int(support_bound(features, transpose(labels), settings.wide_budget).sum()) if settings.wide else 0
    network = outline(settings, features.width, counts, len(features), seed=0, threads=1)
    foretold = memory_needed(settings, network, features, labels, support, keep_best=True)

    trained = model.set_params(hidden=2).fit(points, y)  # imports and compiles
    model = trained.set_params(**{"hidden": 64, **parameters})
    scaled = features.data.nbytes + features.indptr.nbytes
    del trained._fitted, trained.network_
    tracemalloc.start()
    model.fit(points, y, validation=(points[:100], y[:100]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    arrays = sum(array.nbytes for array in model.network_.weights().values())
    assert foretold["weights"] == pytest.approx(arrays, rel=0.1)
    assert sum(foretold.values()) + scaled == pytest.approx(peak, rel=0.1)


def test_progress_is_shown_on_demand_only(capsys):
    fast(epochs=2).fit(X, Y)
    assert capsys.readouterr() == ("", "")
    fast(epochs=2, verbose=True, validation_fraction=0.2).fit(X, Y)
    out, err = capsys.readouterr()
    assert out == ""
    assert "needed (weights" in err
    for part in ("epoch 2/2", "100%", "loss", "points/s", "P@1", "left"):
        assert part in err


def test_the_bar_shows_recall():
    from sparsenet.progress import ProgressBar
    from sparsenet.training import Progress

    file = io.StringIO()
    with ProgressBar(file) as bar:
        bar.on_batch(Progress(0, 1, 2, 2, 0.5, 512, 1.0, 0.93, {"P@1": 0.5}))
    assert "index recall 93 %" in file.getvalue()
    assert "P@1 50.0 %" in file.getvalue()


def test_import_is_light():
    heavy = ["numba", "sklearn", "scipy", "numpy", "tqdm"]
    program = f"import sys, json, sparsenet; print(json.dumps([m for m in {heavy} if m in sys.modules]))"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == []


def test_public_names_exist():
    import sparsenet

    assert set(sparsenet.__all__) <= set(dir(sparsenet))
    for name in sparsenet.__all__:
        if name != "TextClassifier":
            assert getattr(sparsenet, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = sparsenet.nothing
