"""Module paths of version 0.1: old pickles name them."""

import importlib
import pickle
import sys

import pytest

from sparsenet.core import old_paths
from sparsenet.core.old_paths import NEW_PATHS, RENAMED, OldPaths


@pytest.mark.parametrize("path", NEW_PATHS)
def test_old_modules_import(path):
    module = importlib.import_module(path)
    assert module.__name__ == path
    assert all(importlib.import_module(new) for new in NEW_PATHS[path])


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
    assert found.__module__ in NEW_PATHS[path]
    assert pickle.loads(f"c{path}\n{name}\n.".encode()) is found


@pytest.mark.parametrize(("old", "new"), RENAMED.items(), ids=[" ".join(old) for old in RENAMED])
def test_renamed_classes_resolve(old, new):
    path, name = old
    expected = getattr(importlib.import_module(new[0]), new[1])
    assert getattr(importlib.import_module(path), name) is expected
    assert expected.__name__ == new[1]


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
