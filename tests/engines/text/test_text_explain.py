"""Explanations: parts sum to the score, name pieces of the text, and change nothing."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest

from sparsenet import TextClassifier
from sparsenet.features.text.featuriser import FeatureRules
from sparsenet.features.text.occurrences import occurrences
from tests.support.text_reference import TEXTS, features
from tests.support.texts import FILLER, fitted, planted


@pytest.mark.parametrize("rules", [(2, 3, 5, 22), (3, 1, 2, 22), (1, 3, 0, 22)], ids=str)
@pytest.mark.parametrize("text", TEXTS[:-1], ids=range(len(TEXTS) - 1))
def test_pieces_are_the_features_of_the_kernel(rules, text):
    names = dict(zip(("word_ngrams", "char_low", "char_high", "bits"), rules, strict=True))
    found = list(occurrences(text, FeatureRules(**names)))
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


KINDS = {
    "lists": lambda label: [label, "any"],
    "lists, some empty": lambda label: [] if label == "money" else [label],
    "lists of one label": lambda label: ["only"],
    "indicator": lambda label: [int(label == "food"), int(label != "money")],
    "one class": lambda label: "only",
    "numbers": len,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("learnt_on", [False, True], ids=["fit", "partial_fit"])
def test_parts_sum_to_the_score_for_any_y(kind, learnt_on):
    texts, labels = planted(120)
    y = [KINDS[kind](label) for label in labels]
    model = TextClassifier(random_state=0, n_jobs=1).fit(texts, y)
    if learnt_on:
        model.partial_fit([f"{text} zebra" for text in texts[:20]], y[:20])
    for text in ("the team had a goal, zebra and soup", "", "\ud800 ÉCOLE ǅ İstanbul 日本語 🙂🙂 goal's"):
        scores, probabilities = model.decision_function([text])[0], model.predict_proba([text])[0]
        for number, label in enumerate(model.classes_):
            found = model.explain(text, label)
            expected = np.atleast_1d(scores)[number] if np.ndim(scores) else scores * (1 if number else -1)
            assert found.label == label
            assert found.bias + sum(part.score for part in found.parts) == pytest.approx(expected, abs=2e-6)
            assert found.probability == pytest.approx(probabilities[number])
        assert model.explain(text).probability == pytest.approx(probabilities.max())


def test_explains_bytes_and_huge_texts():
    model = fitted()
    assert model.explain(b"na\xefve goal").text == "na\ufffdve goal"
    found = model.explain("a goal for the team " * 2000)
    assert found.bias + sum(part.score for part in found.parts) == pytest.approx(found.score, abs=1e-5)
    assert len(max(found.parts, key=lambda part: len(part.spans)).spans) >= 2000


def test_the_decisive_word_comes_first():
    found = fitted().explain("it was a goal in the end")
    assert found.label == "sport"
    assert "goal" in found.parts[0].name
    (span,) = found.parts[0].spans
    assert "goal" in found.text[slice(*span)]


def test_explaining_has_no_side_effects():
    model = fitted()
    before = pickle.dumps(model)
    random, answers = np.random.get_state()[1].tolist(), model.predict_proba(["a goal"]).tolist()  # noqa: NPY002
    for label in (None, "food"):
        found = model.explain("a goal <b>and</b> soup", label)
        assert model.explain("a goal <b>and</b> soup", label) == found
        found.to_html(), found.terminal(), str(found)
    assert pickle.dumps(model) == before
    assert np.random.get_state()[1].tolist() == random  # noqa: NPY002
    assert model.predict_proba(["a goal"]).tolist() == answers


def test_renders_html_and_terminal_colors():
    found = fitted().explain("a goal <b>and</b> soup & salt")
    html = found.to_html()
    assert "&lt;" in html
    assert "<b>and" not in html
    assert "rgba(0,160,60" in html
    assert "\x1b[38;5;15;48;5;22m" in found.terminal()
    assert re.sub(r"\x1b\[[0-9;]*m", "", found.terminal()) == found.text
    assert str(found).startswith("sport: " if found.label == "sport" else "food: ")
    assert fitted().explain("").to_html()


@pytest.mark.parametrize("n_fillers", [0, 40])
def test_tables_sum_to_the_score_and_omit_zero_parts(n_fillers):
    found = fitted().explain("the match was won by a goal and the soup was good " + " ".join(FILLER[:n_fillers]))
    lines = str(found).splitlines()[1:]
    scores = [float(line.split()[0]) for line in lines]
    assert sum(scores) == pytest.approx(found.score, abs=6e-4 * len(lines))
    assert lines[-1].endswith("(bias of every text)")
    assert lines[-2].endswith(f"{len(found.parts) - len(lines) + 2} more")
    assert 0 not in scores[:-2]
    cells = re.findall(r"<td>([^<]*)</td><td>([^<]*)</td>", found.to_html())
    assert [float(score) for _, score in cells] == scores


def test_escapes_terminal_control_codes():
    odd = "a\x1b]0;title\x07b\x9b2Jc\x7f"
    model = TextClassifier(random_state=0).fit(["goal\x1b\x07kick", "soup"] * 5, [odd, "food"] * 5)
    found = model.explain("goal\x1b\x07kick,\n\tgo\x9bal", odd)
    assert str(found).startswith(r"a\x1b]0;title\x07b\x9b2Jc\x7f: ")
    coloured = re.sub(r"\x1b\[[0-9;]*m", "", found.terminal())
    assert coloured == "goal\\x1b\\x07kick,\n\tgo\\x9bal"
    page = found.to_html()
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", page)
    assert r"goal\x1b\x07kick" in re.sub(r"<[^>]*>", "", page)
    for shown in (str(found), coloured):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)


def test_rejects_an_unknown_label():
    with pytest.raises(ValueError, match="label must be one of the 3 in classes_, got 'tennis'"):
        fitted().explain("a goal", "tennis")


def test_labels_of_numpy_are_shown_as_numbers():
    model = TextClassifier(random_state=0).fit(["a goal", "soup"] * 5, np.array([3, 7] * 5))
    assert "label=3, " in repr(model.explain("a goal", np.int64(3)))
    assert "label=3, " in repr(model.explain("a goal"))
    with pytest.raises(ValueError, match=r"classes_, got 9$"):
        model.explain("a goal", np.int64(9))
