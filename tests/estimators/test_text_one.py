"""A single text, answered without a list around it."""

import pytest

from sparsenet import TextClassifier


@pytest.fixture(scope="module")
def model():
    return TextClassifier(random_state=0).fit(["a lovely film", "lovely", "a dull film", "dull"], ["+", "+", "-", "-"])


def test_bytes_are_read_as_they_are_in_a_list(model):
    assert model.predict_one(b"lovely") == model.predict_one("lovely") == "+"


@pytest.mark.parametrize("wrong", [None, 3, ["lovely"], float("nan")])
def test_what_is_no_text_is_refused_in_words(model, wrong):
    with pytest.raises(ValueError, match=r"X must hold texts, got .* in row 0"):
        model.predict_one(wrong)
