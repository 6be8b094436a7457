"""Texts in dicts, one a row, with the names of columns as keys."""

import pytest

from sparsenet import TextClassifier

ROWS = [
    {"id": i, "title": f"cat {i % 3}", "body": "good thing" if i % 2 else "bad thing", "label": "ab"[i % 2]}
    for i in range(24)
]
LABELS = [row["label"] for row in ROWS]


@pytest.fixture(scope="module")
def model():
    return TextClassifier(random_state=0, n_jobs=1).fit(ROWS, text=["title", "body"], target="label")


def test_learns_and_answers_dicts_as_the_joined_texts(model):
    texts = [f"{row['title']}\n{row['body']}" for row in ROWS]
    same = TextClassifier(random_state=0, n_jobs=1).fit(texts, LABELS)
    assert (model.predict_proba(ROWS) == same.predict_proba(texts)).all()
    assert model.columns_ == {"text": ["title", "body"], "target": "label", "label_delimiter": None}
    assert model.score(ROWS) == model.score(ROWS, LABELS) == 1.0
    assert model.topk(ROWS[:1], 1)[0].tolist() == [["a"]]


def test_one_dict_is_one_row(model):
    assert model.predict(ROWS[1]).tolist() == ["b"]
    assert model.predict_one(ROWS[1]) == "b"
    assert "bad" in str(model.explain(ROWS[0]))


def test_missing_cells_are_skipped_and_missing_keys_are_named(model):
    assert model.predict_one({"title": None, "body": "good thing"}) == "b"
    with pytest.raises(ValueError, match=r"row 1 of X has no key 'body'; there are 'title'"):
        model.predict([ROWS[0], {"title": "cat"}])
    with pytest.raises(ValueError, match=r"text='body' is not a column of X; there are 'title'"):
        model.predict({"title": "cat"})
    with pytest.raises(ValueError, match=r"text='title' is not a column of X; there are none"):
        model.predict({})


def test_dicts_are_validation_data():
    held = ROWS[:2]  # no pair of X and y
    found = TextClassifier(n_jobs=1).fit(ROWS, text="body", target="label", validation=held)
    assert found.validation_["P@1"] == 1.0


def test_a_model_of_texts_without_names_refuses_dicts():
    model = TextClassifier(n_jobs=1).fit(["good", "bad"] * 4, ["+", "-"] * 4)
    with pytest.raises(ValueError, match="X holds dicts, and the model learnt from no columns with names: pass texts"):
        model.predict_one({"text": "good"})
    with pytest.raises(ValueError, match="text='text' is not a column of X; there are 'title', 'id'"):
        TextClassifier().fit([{"title": "good", "id": 1}], ["+"])
