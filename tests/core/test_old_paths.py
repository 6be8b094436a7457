"""Pickles of version 0.1 name modules and classes that have moved since."""

from __future__ import annotations

import importlib

import pytest

from sparsenet import TextClassifier
from sparsenet.core.old_paths import NEW_PATHS, RENAMED
from sparsenet.engines.text.fit_text import FittedText
from sparsenet.engines.text.replay import ReplayBuffer


@pytest.mark.parametrize("old", NEW_PATHS)
def test_old_paths_lead_to_modules(old):
    assert importlib.import_module(old).__name__ == old
    for new in NEW_PATHS[old]:
        importlib.import_module(new)


@pytest.mark.parametrize(("module", "name"), RENAMED)
def test_old_names_lead_to_renamed_classes(module, name):
    assert getattr(importlib.import_module(module), name).__name__ == RENAMED[module, name][1]


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
