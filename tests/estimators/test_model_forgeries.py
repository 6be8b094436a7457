"""A model with right checksums and wrong content is refused by a ModelError, and takes little memory until then."""

from __future__ import annotations

import json
import os
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import typer

import sparsenet
from sparsenet import (
    BlendClassifier,
    ExtremeClassifier,
    ModelError,
    Recommender,
    TextClassifier,
    TreeClassifier,
    WordVectors,
    storage,
)
from sparsenet.cli.models import is_text_model
from sparsenet.cli.option_values import class_weight
from sparsenet.data.errors import DataError
from sparsenet.data.table_rows import json_object
from tests.support import forging
from tests.support.planted import X as POINTS
from tests.support.planted import Y as LABELS
from tests.support.planted import fast

X, Y = POINTS[:80], LABELS[:80]
NAMES = [["red", "green", "blue"][number % 3] for number in range(80)]
TEXTS = [f"{name} and {number}" for number, name in enumerate(NAMES)]
NETWORK = {"epochs": 1, "hidden": 4}
LOG = {"user": [f"u{i % 9}" for i in range(60)], "item": [i * i % 11 for i in range(60)], "time": range(60)}
MAKE = {
    "extreme": lambda: fast(**NETWORK).fit(X, Y),
    "named": lambda: fast(**NETWORK).fit(X, np.array(NAMES)),
    "tree": lambda: TreeClassifier(random_state=0, n_jobs=1).fit(X, Y),
    "blend": lambda: BlendClassifier(network=ExtremeClassifier(**NETWORK), random_state=0, n_jobs=1).fit(X, Y),
    "dropped": lambda: BlendClassifier(network="drop", random_state=0, n_jobs=1).fit(X, Y),
    "text": lambda: TextClassifier(bits=10, random_state=0, n_jobs=1).fit(TEXTS, NAMES),
    "text vectors": lambda: TextClassifier(
        bits=10, vectors=WordVectors.of_words(["red", "green"], [[1.0, 0.0], [0.0, 1.0]]), random_state=0, n_jobs=1
    ).fit(TEXTS, NAMES),
    "text network": lambda: TextClassifier(bits=10, method="network", epochs=1, random_state=0, n_jobs=1).fit(
        TEXTS, NAMES
    ),
    "text blend": lambda: TextClassifier(bits=10, method="blend", epochs=1, random_state=0, n_jobs=1).fit(TEXTS, NAMES),
    "recommender": lambda: Recommender(random_state=0, n_jobs=1).fit(LOG),
    "recommender without users": lambda: Recommender(keep_users=False, random_state=0, n_jobs=1).fit(LOG, time=None),
}
#: Every parameter, with a value that `fit` refuses.
WRONG = {
    "extreme": {"hidden": -1, "dropout": 2.0, "normalize": "no", "verbose": -1, "random_state": -1, "patience": 0},
    "tree": {"cost": -1.0, "beam": 0, "epochs": 0, "normalize": "no", "verbose": "loud", "random_state": "seven"},
    "blend": {"candidates": 0, "n_neighbors": -1, "time_budget": -1.0, "normalize": "no", "random_state": -1},
    "text": {"bits": 99, "cost": 0, "char_ngrams": [5, 3], "method": "no", "verbose": -1, "random_state": 1.5},
    "recommender": {"keep_users": 1, "output": "excel", "verbose": -1, "random_state": -1},
}


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch):
    """Save hundreds of forgeries without waiting for the disk."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Save a model of a kind once; return its arrays and metadata."""
    kept = {}

    def load(kind):
        if kind not in kept:
            path = tmp_path_factory.mktemp("models") / kind
            MAKE[kind]().save(path)
            kept[kind] = storage.load(path)
        return kept[kind]

    return load


def peak_of_loading(path: Path) -> int:
    tracemalloc.start()
    try:
        sparsenet.load(path)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def assert_refused_or_loaded(path: Path, what: str) -> bool:
    try:
        peak = peak_of_loading(path)
    except ModelError as error:
        refusal = error
    except BaseException as error:
        raise AssertionError(f"{what}: {error!r}") from error
    else:
        assert peak < 1 << 24, what
        return False
    assert str(path) in str(refusal), what
    return True


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("forged", [forging.forged_metadata, forging.forged_arrays], ids=["metadata", "arrays"])
@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.slow)], ids=["some", "all"])
def test_forged_models_are_refused_or_loaded(tmp_path, saved, kind, forged, step):
    arrays, metadata = saved(kind)
    forgeries = list(partial(forged, arrays=arrays, metadata=metadata)())[::step]
    refused = []
    for what, *content in forgeries:
        forging.save(tmp_path / "model", *content)
        refused.append(assert_refused_or_loaded(tmp_path / "model", what))
    assert any(refused)
    forging.save(tmp_path / "model", arrays, metadata)
    assert not assert_refused_or_loaded(tmp_path / "model", "nothing")


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, wrong in WRONG.items() for name in wrong])
def test_loading_checks_parameters_as_fit_does(tmp_path, saved, kind, name):
    arrays, metadata = saved(kind)
    forging.save(tmp_path / "model", arrays, forging.with_value(metadata, ("parameters", name), WRONG[kind][name]))
    with pytest.raises(ModelError, match=f"model: .*{name}"):
        sparsenet.load(tmp_path / "model")


def test_loading_checks_a_network_that_was_not_trained(tmp_path):
    network = ExtremeClassifier(**NETWORK)
    model = BlendClassifier(network=network, time_budget=1e-9, random_state=0, n_jobs=1)
    with pytest.warns(UserWarning, match="too little for a network"):
        model.fit(X, Y)
    model.save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    forging.save(tmp_path / "model", arrays, forging.with_value(metadata, ("untrained", "dropout"), 7))
    with pytest.raises(ModelError, match="dropout must be"):
        sparsenet.load(tmp_path / "model")
    network.dropout = 7
    with pytest.raises(ValueError, match="dropout must be"):
        model.save(tmp_path / "model")


@pytest.mark.parametrize("kind", ["tree", "text"])
def test_parameters_that_could_not_be_loaded_are_not_saved(tmp_path, kind):
    model = MAKE[kind]().set_params(cost=-1.0)
    with pytest.raises(ValueError, match="cost must be"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [("value", "together"), ("value", None), ("why", 1), ("options", [1]), ("gain", "much"), ("n", -1)],
)
def test_refuses_a_forged_choice_of_the_scaling(tmp_path, name, value):
    table = np.random.default_rng(0).normal(size=(80, 3))
    TreeClassifier(random_state=0, n_jobs=1).fit(table, NAMES).save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    assert metadata["scaling_choice"]["value"] == "columns"
    forging.save(tmp_path / "model", arrays, forging.with_value(metadata, ("scaling_choice", name), value))
    with pytest.raises(ModelError, match="model: "):
        sparsenet.load(tmp_path / "model")


def test_loading_leaves_the_shared_random_generator_alone(tmp_path):
    for kind, model in (("tree", TreeClassifier()), ("blend", BlendClassifier(network="drop"))):
        model.fit(X, Y).save(tmp_path / kind)
        before = np.random.get_state()[1:3]  # noqa: NPY002  # the shared one is the point
        sparsenet.load(tmp_path / kind)
        after = np.random.get_state()[1:3]  # noqa: NPY002  # the shared one is the point
        np.testing.assert_array_equal(before[0], after[0])
        assert before[1] == after[1]


# --- memory ---


def test_one_long_name_does_not_make_room_for_all(tmp_path):
    tree = TreeClassifier(random_state=0, n_jobs=1).fit(
        np.eye(40), np.array([f"n{number:02d}" for number in range(40)])
    )
    tree.save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    names = [f"n{number:02d}" for number in range(39)] + ["z" * (8 << 20)]
    forging.save(tmp_path / "model", {**arrays, **storage.pack_strings(names, "classes")}, metadata)
    assert peak_of_loading(tmp_path / "model") < 64 << 20
    assert sparsenet.load(tmp_path / "model").classes_.tolist() == names


def test_names_keep_the_type_that_they_had(tmp_path, saved):
    arrays, metadata = saved("named")
    forging.save(tmp_path / "model", arrays, metadata)
    assert sparsenet.load(tmp_path / "model").classes_.dtype == np.dtype("<U5")


@pytest.mark.parametrize(
    "dtype", ["(9,)f4", "f4,f4", "(1,", "<U9999999999999", "M8[s]", "V8", "f4 ", "__import__('os')"]
)
def test_types_of_labels_are_plain(tmp_path, saved, dtype):
    arrays, metadata = saved("named")
    forging.save(tmp_path / "model", arrays, forging.with_value(metadata, ("target", "dtype"), dtype))
    with pytest.raises(ModelError, match="the type of labels must be a NumPy type"):
        sparsenet.load(tmp_path / "model")


def test_an_old_model_may_claim_any_number_of_features(tmp_path):
    TreeClassifier(random_state=0, n_jobs=1, normalize="rows").fit(X, Y).save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    del metadata["n_blank"], arrays["seen.features"]
    forging.save(tmp_path / "model", arrays, {**metadata, "n_features": 2**31 - 1})
    assert peak_of_loading(tmp_path / "model") < 8 << 20


def test_rows_of_8_bits_must_be_a_matrix(tmp_path):
    fast(**NETWORK).fit(X, Y).save(tmp_path / "model", compact=True)
    arrays, metadata = storage.load(tmp_path / "model")
    n = 100_000
    forged = {"output.weight": np.ones(n, np.int8), "output.weight.scale": np.ones((n, 1), np.float32)}
    forging.save(tmp_path / "model", {**arrays, **forged}, metadata)
    assert assert_refused_or_loaded(tmp_path / "model", "a flat matrix")


@pytest.mark.parametrize("error", [MemoryError("1 TB"), IndexError("out of range"), RecursionError("deep")])
def test_every_error_of_a_loader_names_the_file(tmp_path, saved, error):
    def fail(*args):
        raise error

    forging.save(tmp_path / "model", *saved("tree"))
    with pytest.raises(ModelError, match=f"model: .*{error}"):
        storage.load_as(tmp_path / "model", fail)


def test_arrays_that_memory_cannot_hold_are_a_model_error(tmp_path, monkeypatch):
    def fail(shape, dtype):
        raise MemoryError

    storage.save(tmp_path / "model", {"a": np.zeros(3)}, {})
    monkeypatch.setattr("sparsenet.storage.directory.aligned.empty", fail)
    with pytest.raises(ModelError, match=r"model/arrays-.*: its arrays take \d+ bytes of memory"):
        storage.load(tmp_path / "model")


# --- repeated keys ---


def test_rejects_repeated_keys_of_a_parameter(tmp_path):
    texts = TextClassifier(class_weight={"red": 2.0, "blue": 3.0}, bits=10, random_state=0).fit(TEXTS, NAMES)
    texts.save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    metadata["parameters"]["class_weight"]["pairs"] += [["red", 9.0]]
    forging.save(tmp_path / "model", arrays, metadata)
    with pytest.raises(ModelError, match="a parameter holds a key twice"):
        sparsenet.load(tmp_path / "model")


def test_rejects_repeated_keys_of_a_manifest(tmp_path, saved):
    forging.save(tmp_path / "model", *saved("tree"))
    text = (tmp_path / "model" / storage.MANIFEST).read_text().partition(',\n  "sha256"')[0]
    name = '"model": "TreeClassifier"'
    assert name in text
    forging.seal(tmp_path / "model", text.replace(name, f'"model": "x", {name}'))
    with pytest.raises(ModelError, match="a key is repeated"):
        is_text_model(tmp_path / "model")


def test_rejects_repeated_keys_of_class_weights():
    assert class_weight('{"a": 1, "b": 2}') == {"a": 1, "b": 2}
    with pytest.raises(typer.BadParameter, match="expected balanced, or factors of labels"):
        class_weight('{"a": 1, "a": 2}')


def test_rejects_repeated_columns_of_json_lines():
    assert json_object('{"a": {"b": 1, "b": 2}, "c": 3}', "file", 1)["c"] == 3
    with pytest.raises(DataError, match="column 'text' occurs twice; rename one"):
        json_object(json.dumps({"text": 1})[:-1] + ', "text": 2}', "file", 1)
