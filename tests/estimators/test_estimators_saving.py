"""Saving ExtremeClassifier: equal after loading, and inconsistent files are refused."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sparsenet import SGD, BinaryCrossEntropy, ExtremeClassifier, LSHConfig, ModelError, RandomSampler, storage
from tests.support.planted import NAMES, X, Y, fast, lists


@pytest.mark.parametrize(
    ("parameters", "y"),
    [
        ({}, Y),
        ({"loss": "softmax"}, sparse.csr_array(Y)),
        ({"hidden": (16, 8), "wide": False, "loss": BinaryCrossEntropy(smoothing=0.1)}, lists(NAMES)),
        ({"hidden": 0, "sampler": LSHConfig(n_bits=4), "n_negatives": 99} | {"hidden": 8}, NAMES[Y.argmax(axis=1)]),
        ({"optimizer": SGD(rate=np.float32(0.1)), "sampler": "frequency"}, NAMES[Y.argmax(axis=1)].astype(str)),
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


def test_refuses_to_save_custom_code(tmp_path):
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
        (lambda arrays, data: data.update(n_features=10), "a bit for each of 10 features"),
        (lambda arrays, data: arrays.pop("output.weight"), "output.weight"),
        (lambda arrays, data: arrays["wide.indices"].__setitem__(0, -5), "got -5"),
        (lambda arrays, data: arrays["wide.indptr"].__setitem__(1, 10**9), "decrease"),
        (lambda arrays, data: arrays.update(counts=np.zeros(3, np.int64)), "counts|list of features"),
        (lambda arrays, data: data.update(scaling="columns"), "scaling.centre"),
        (
            lambda arrays, data: data.update(scaling="sideways"),
            "one of rows, columns, together, mixed, none, got .sideways",
        ),
        (lambda arrays, data: standardised(arrays, data, np.full(60, np.nan)), "scaling must be of finite numbers"),
        (lambda arrays, data: standardised(arrays, data, np.full(60, np.inf)), "scaling must be of finite numbers"),
        (lambda arrays, data: standardised(arrays, data, np.ones(60, np.int8)), "float64, got float64 and int8"),
        (lambda arrays, data: arrays["classes"].fill(0), "classes must be distinct and ascending"),
        (lambda arrays, data: arrays.update(classes=arrays["classes"][::-1]), "classes must be distinct and ascending"),
        (lambda arrays, data: arrays.update(classes=np.append(np.arange(7.0), np.inf)), "classes hold NaN or infinity"),
        (
            lambda arrays, data: data["target"].update(dtype={}),
            "the type of labels must be a NumPy type of numbers or strings, got {}",
        ),
        (lambda arrays, data: data["target"].update(dtype="O"), "for labels of type object"),
        (
            lambda arrays, data: data["target"].update(dtype="(9,)f4"),
            r"a NumPy type of numbers or strings, got .\(9,\)f4",
        ),
        (lambda arrays, data: data["parameters"].update(n_jobs=[1, 2]), "n_jobs must be None, .* got .1, 2."),
        (lambda arrays, data: data.update(history=3), "history must be a list"),
        (lambda arrays, data: data.update(history=["a"]), "history must be a list"),
        (
            lambda arrays, data: data.update(history=[{"epoch": 1.0}]),
            "a list of the measurements of each epoch, with the loss",
        ),
        (lambda arrays, data: data.update(history=[{"loss": "low"}]), "loss must be a number .*, got 'low'"),
    ],
)
def test_rejects_a_model_of_mismatched_parts(tmp_path, change, message):
    fast(epochs=1).fit(X, Y).save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    change(arrays, metadata)
    storage.save(tmp_path / "model", arrays, metadata)
    with pytest.raises(ModelError, match=message):
        ExtremeClassifier.load(tmp_path / "model")


def standardised(arrays, data, factor):
    data.update(scaling="columns")
    arrays |= {"scaling.centre": np.zeros(60), "scaling.factor": factor}


@pytest.mark.parametrize("names", [["a", "b", "b"], ["b", "a", "c"]])
@pytest.mark.parametrize("frame", [False, True])
def test_rejects_mismatched_label_names(tmp_path, names, frame):
    y = pd.DataFrame(np.eye(3), columns=["c", "a", "b"]) if frame else ["c", "a", "b"]
    fast(epochs=1).fit(np.eye(3), y).save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    storage.save(tmp_path / "model", arrays | storage.pack_strings(names, "classes"), metadata)
    if frame and len(set(names)) == 3:  # columns may have any order
        assert ExtremeClassifier.load(tmp_path / "model").classes_.tolist() == names
    else:
        with pytest.raises(ModelError, match="two columns have the same name" if frame else "distinct and ascending"):
            ExtremeClassifier.load(tmp_path / "model")


def test_history_values_that_are_not_finite_round_trip(tmp_path):
    model = fast(epochs=1).fit(X, Y)
    model.history_[0]["index_recall"] = np.nan
    for _ in range(2):
        model.save(tmp_path / "model")
        model = ExtremeClassifier.load(tmp_path / "model")
        assert np.isnan(model.history_[0]["index_recall"])


def test_refuses_to_save_a_random_state(tmp_path):
    model = fast(epochs=1, random_state=np.random.RandomState(0)).fit(X, Y)
    model.save(tmp_path / "model")
    again = ExtremeClassifier.load(tmp_path / "model")
    assert again.random_state is None
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_refuses_to_save_a_loss_changed_after_training(tmp_path):
    model = fast(epochs=2).fit(X, Y).set_params(loss="softmax")
    with pytest.raises(ValueError, match="loss was changed since the classifier was fitted"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    model.partial_fit(X, Y).save(tmp_path / "model")
    found = ExtremeClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(found.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    "changed",
    [
        {"learning_rate": 0.3},
        {"wide_learning_rate": 3.0},
        {"wide_weight_decay": 0.5},
        {"optimizer": "sgd"},
        {"dropout": 0.9},
        {"n_negatives": 2},
        {"sampler": "frequency", "n_negatives": 10},
    ],
    ids=str,
)
def test_parameters_set_later_apply_to_further_training(tmp_path, changed):
    """Saving and loading in between makes no difference."""
    made = fast(epochs=2).fit(X, Y)
    made.save(tmp_path / "model")
    usual, model, loaded = (ExtremeClassifier.load(tmp_path / "model") for _ in range(3))
    model = fast(epochs=2).fit(X, Y)
    for each in (usual, model.set_params(**changed), loaded.set_params(**changed)):
        each.partial_fit(X, Y)
    assert not np.array_equal(model.predict_proba(X), usual.predict_proba(X))
    np.testing.assert_array_equal(model.predict_proba(X), loaded.predict_proba(X))


def test_optimizer_state_persists_between_calls():
    model = fast().partial_fit(X, Y)
    state = model.network_.output.weight.state["first"].copy()
    assert state.any()
    model.set_params(learning_rate=1e-3).partial_fit(X, Y)
    assert set(model.network_.output.weight.state) == {"first", "second", "last_step"}
    model.set_params(optimizer="adagrad", learning_rate=0.1).partial_fit(X, Y)
    assert set(model.network_.output.weight.state) == {"squares"}
    with pytest.raises(ValueError, match="hidden, wide or activation was changed"):
        model.set_params(activation="tanh").partial_fit(X, Y)


def test_a_checkpoint_does_not_replace_a_model(tmp_path):
    fast(epochs=1).fit(X, Y).save(tmp_path / "model")
    with pytest.raises(FileExistsError, match="holds a model, ExtremeClassifier, which a checkpoint would replace"):
        fast(epochs=1).fit(X, Y, checkpoint=tmp_path / "model")
    assert ExtremeClassifier.load(tmp_path / "model").score(X, Y) > 0
