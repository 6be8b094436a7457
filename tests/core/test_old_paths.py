"""Module paths of version 0.1: old pickles name them."""

import importlib
import pickle
import sys

import numpy as np
import pytest

from sparsenet import ExtremeClassifier, TextClassifier
from sparsenet.core import old_paths
from sparsenet.core.old_paths import NEW_PATHS, RENAMED, OldPaths
from sparsenet.engines.text.fit_text import FittedText
from sparsenet.engines.text.replay import ReplayBuffer


@pytest.mark.parametrize("path", NEW_PATHS)
def test_old_modules_import(path):
    module = importlib.import_module(path)
    assert module.__name__ == path
    assert all(importlib.import_module(f"sparsenet.{new}") for new in NEW_PATHS[path].split())


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("sparsenet.estimators.classifier", "ExtremeClassifier"),
        ("sparsenet.blend.classifier", "BlendClassifier"),
        ("sparsenet.blend.neighbors", "Neighbors"),
        ("sparsenet.blend.calibration", "Correction"),
        ("sparsenet.tree.classifier", "TreeClassifier"),
        ("sparsenet.text.classifier", "TextClassifier"),
        ("sparsenet.batches", "Rows"),
        ("sparsenet.estimators.scaling", "Scaling"),
        ("sparsenet.model", "Network"),
        ("sparsenet.optim", "Adam"),
    ],
)
def test_old_modules_hold_their_classes(path, name):
    found = getattr(importlib.import_module(path), name)
    assert found.__module__.removeprefix("sparsenet.") in NEW_PATHS[path].split()
    assert pickle.loads(f"c{path}\n{name}\n.".encode()) is found


@pytest.mark.parametrize(("old", "new"), RENAMED.items(), ids=[" ".join(old) for old in RENAMED])
def test_renamed_classes_resolve(old, new):
    path, name = old
    found = getattr(importlib.import_module(path), name)
    assert found.__module__.removeprefix("sparsenet.") in NEW_PATHS[path].split()
    assert found.__name__ == new


@pytest.mark.parametrize("path", ["sparsenet.blend.classifier", "sparsenet.wide"])
def test_unknown_names_raise_attribute_error(path):
    module = importlib.import_module(path)
    with pytest.raises(AttributeError, match=f"module '{path}' has no attribute 'Nothing'"):
        _ = module.Nothing
    with pytest.raises(AttributeError, match="__nothing__"):
        _ = module.__nothing__
    with pytest.raises(ImportError):
        exec(f"from {path} import Nothing")
    assert not hasattr(module, "Nothing")


def test_unknown_modules_are_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"sparsenet\.blend\.nothing"):
        importlib.import_module("sparsenet.blend.nothing")
    with pytest.raises(ModuleNotFoundError, match=r"sparsenet\.nothing"):
        importlib.import_module("sparsenet.nothing")


def test_the_finder_is_installed_once():
    before = list(sys.meta_path)
    old_paths.install()
    assert sys.meta_path == before
    assert sum(isinstance(finder, OldPaths) for finder in before) == 1


def test_fitted_texts_are_found_by_their_old_names():
    assert importlib.import_module("sparsenet.text.fitted").Fitted is FittedText
    assert importlib.import_module("sparsenet.text.memory").Memory is ReplayBuffer
    with pytest.raises(AttributeError, match="Nothing"):
        importlib.import_module("sparsenet.text.fitted").Nothing  # noqa: B018  # the lookup is what is tested


def test_old_pickles_of_texts_keep_score_and_search(tmp_path):
    """The estimator holds both, not the fitted model."""
    texts, labels = ["a lovely film", "lovely", "a dull film", "dull"] * 5, ["good", "good", "bad", "bad"] * 5
    model = TextClassifier(random_state=0, time_budget=1).fit(texts, labels)
    assert model.validation_score_ is not None
    assert model.search_ != []
    fitted = FittedText.__new__(FittedText)
    vars(fitted).update({name: value for name, value in vars(model._fitted).items() if name not in ("score", "search")})
    old = TextClassifier.__new__(TextClassifier)
    old.__setstate__({**vars(model), "_fitted": fitted})
    old.save(tmp_path / "model")
    loaded = TextClassifier.load(tmp_path / "model")
    assert (loaded.validation_score_, loaded.search_) == (model.validation_score_, model.search_)


#: The attributes of an output layer in a pickle of version 0.1.
OUTPUT = {"n_inputs", "n_labels", "sampler", "loss", "n_negatives", "wide", "initial_bias", "bf16", "per_sample"}
OUTPUT |= {"_latest", "weight", "bias"}


@pytest.mark.parametrize("loss", ["bce", "softmax"])
def test_networks_of_old_pickles_answer(loss):
    model = ExtremeClassifier(hidden=4, epochs=2, loss=loss, random_state=0).fit(np.eye(6), np.arange(6) % 3)
    expected, top = model.predict_proba(np.eye(6)), model.topk(np.eye(6), 2)[1]
    output = model.network_.output
    for name in vars(output).keys() - OUTPUT:
        delattr(output, name)
    np.testing.assert_array_equal(model.predict_proba(np.eye(6)), expected)
    np.testing.assert_array_equal(model.topk(np.eye(6), 2)[1], top)
