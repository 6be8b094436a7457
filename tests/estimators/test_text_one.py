"""A single text, given without a list."""

import pytest

from sparsenet import TextClassifier


@pytest.fixture(scope="module")
def model():
    return TextClassifier(random_state=0).fit(["a lovely film", "lovely", "a dull film", "dull"], ["+", "+", "-", "-"])


def test_a_single_bytes_value_is_decoded_like_a_list(model):
    assert model.predict_one(b"lovely") == model.predict_one("lovely") == "+"


@pytest.mark.parametrize("wrong", [None, 3, ["lovely"], float("nan")])
def test_rejects_what_is_not_a_text(model, wrong):
    with pytest.raises(ValueError, match=r"X must hold texts, got .* in row 0"):
        model.predict_one(wrong)
