"""The engine of text models by itself, without its estimator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sparsenet import TextClassifier
from sparsenet.core.seeds import run_seed
from sparsenet.engines.text import text_arrays
from sparsenet.engines.text.compression import compress
from sparsenet.engines.text.fit_text import FittedText, fit
from sparsenet.engines.text.refit_text import refit
from sparsenet.engines.text.text_options import TextOptions
from sparsenet.engines.text.word_effects import explain
from sparsenet.features.text.corpus import Corpus
from sparsenet.storage import size

OPTIONS = TextOptions()
TEXTS = [f"{word} {word}{i % 5}" for i in range(30) for word in ("apple", "brick", "cloud")]
LABELS = ["fruit", "stone", "sky"] * 30


def fitted(options: TextOptions = OPTIONS) -> FittedText:
    corpus = Corpus.of_texts(TEXTS, LABELS, options.features, 1)
    return fit(corpus, options, seed=run_seed(0), threads=1)


def test_default_options_are_those_of_the_estimator():
    assert TextOptions.of(TextClassifier().get_params()) == OPTIONS


@pytest.mark.parametrize("method", ["linear", "network"])
def test_engine_and_estimator_fit_the_same_model(method, narrow_network):
    model = TextClassifier(method=method, random_state=0, n_jobs=1).fit(TEXTS, LABELS)
    found = fitted(replace(OPTIONS, method=method))
    np.testing.assert_array_equal(found.answers.scores(TEXTS, 1), model.decision_function(TEXTS))
    assert found.score == model.validation_score_


def test_refit_takes_new_labels():
    before = fitted()
    more = Corpus.of_more(["dough in the oven"] * 5, ["bread"] * 5, before.target, before.vocabulary.rules, 1)
    after = refit(before, more, OPTIONS, seed=1, threads=1)
    assert after.target.classes.tolist() == ["bread", "fruit", "sky", "stone"]
    assert after.target.classes[after.answers.best("dough in the oven")] == "bread"
    assert (after.n_texts, after.calls, after.score) == (95, 1, before.score)


def test_packed_models_answer_as_before():
    before = fitted()
    arrays, metadata = text_arrays.pack(before, {})
    after, *_ = text_arrays.unpack(arrays, metadata)
    np.testing.assert_array_equal(after.answers.probabilities(TEXTS, 1), before.answers.probabilities(TEXTS, 1))
    assert (after.score, list(after.search)) == (before.score, list(before.search))


def test_fitted_models_are_compressed_and_explained():
    before = fitted()
    whole = size(*text_arrays.pack(before, {}))
    truth = before.target.encode(LABELS)
    small, report = compress(before, whole - 200, lambda one: size(*text_arrays.pack(one, {})), (TEXTS, truth))
    assert size(*text_arrays.pack(small, {})) == report.bytes_after <= whole - 200 < report.bytes_before == whole
    assert report.accuracy_before == report.accuracy_after == 1.0
    explanation = explain(small, "an apple", "fruit")
    assert explanation.score == pytest.approx(explanation.bias + sum(part.score for part in explanation.parts))
    assert max(explanation.parts, key=lambda part: part.score).name.strip("~^$") in "an apple"
