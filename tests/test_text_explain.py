"""Explanations: they add up, name what is in the text, and change nothing."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from test_text import fitted, planted
from test_text_kernels import TEXTS
from text_reference import features

from sparsenet import TextClassifier
from sparsenet.text.explain import pieces
from sparsenet.text.featuriser import FeatureRules


@pytest.mark.parametrize("rules", [(2, 3, 5, 22), (3, 1, 2, 22), (1, 3, 0, 22)], ids=str)
@pytest.mark.parametrize("text", TEXTS[:-1], ids=range(len(TEXTS) - 1))
def test_pieces_are_the_features_of_the_kernel(rules, text):
    names = dict(zip(("word_ngrams", "char_low", "char_high", "bits"), rules, strict=True))
    found = list(pieces(text, FeatureRules(**names)))
    assert {piece.slot for piece in found} == set(features(text.encode(), *rules))
    for piece in found:
        assert 0 <= piece.begin < piece.end <= len(text), piece


@pytest.mark.parametrize("topics", [2, 3])
@pytest.mark.parametrize("text", ["the team had a goal, and soup", "", "goal " * 30, *planted(5, seed=9)[0]])
def test_parts_sum_to_the_score(topics, text):
    model = TextClassifier(random_state=0).fit(*planted(300, topics=topics))
    for number, label in enumerate(model.classes_):
        found = model.explain(text, label)
        scores = np.atleast_1d(model.decision_function([text])[0])
        expected = scores[number] if len(scores) > 1 else scores[0] * (1 if number else -1)
        assert found.bias + sum(part.score for part in found.parts) == pytest.approx(expected, abs=1e-5)
        assert found.score == pytest.approx(expected, abs=1e-6)
        assert found.bias + found.characters().sum() == pytest.approx(expected, abs=1e-5)
        assert found.probability == pytest.approx(model.predict_proba([text])[0, number])


def test_the_word_that_tells_comes_first():
    found = fitted().explain("it was a goal in the end")
    assert found.label == "sport"
    assert "goal" in found.parts[0].name
    (span,) = found.parts[0].spans
    assert "goal" in found.text[slice(*span)]


def test_explaining_has_no_side_effects():
    model = fitted()
    before = pickle.dumps(model)
    model.explain("a goal <b>and</b> soup")
    assert pickle.dumps(model) == before


def test_renderings():
    found = fitted().explain("a goal <b>and</b> soup & salt")
    html = found.to_html()
    assert "&lt;" in html
    assert "<b>and" not in html
    assert "rgba(0,160,60" in html
    assert "\x1b[48;5;22m" in found.terminal()
    assert (
        found.terminal().replace("\x1b[48;5;22m", "").replace("\x1b[48;5;52m", "").replace("\x1b[0m", "") == found.text
    )
    assert str(found).startswith("sport: " if found.label == "sport" else "food: ")
    assert fitted().explain("").to_html()


def test_a_label_that_is_unknown_is_refused():
    with pytest.raises(ValueError, match="label must be one of the 3 in classes_, got 'tennis'"):
        fitted().explain("a goal", "tennis")
