"""`predictor` of texts and tables: the answers of `topk`."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparsenet import TableClassifier, TextClassifier

TEXTS = ["play some jazz", "play the next song", "will it rain", "is it cold outside", "buy milk", "buy some bread"]
LABELS = ["music", "music", "weather", "weather", "étagère", "étagère"]
ROWS = [{"size": size, "colour": colour} for size, colour in [(1, "red"), (2, "red"), (8, "blü"), (9, None)]] * 10
KINDS = ["a", "a", "b", "c"] * 10


def text():
    return TextClassifier(random_state=0).fit(TEXTS, LABELS), TEXTS


def columns():
    rows = [{"title": text, "body": "a b c"} for text in TEXTS]
    return TextClassifier(random_state=0).fit(rows, LABELS, text=["title", "body"]), rows


def table():
    return TableClassifier(method="tree", random_state=0).fit(ROWS, KINDS), ROWS


@pytest.mark.parametrize("made", [text, columns, table])
def test_answers_like_topk(made):
    model, rows = made()
    predictor = pickle.loads(pickle.dumps(model.predictor(k=2)))
    expected = model.topk(rows, k=2)
    for answer, own in zip(predictor(rows), expected, strict=True):
        np.testing.assert_array_equal(answer, own)
    with ThreadPoolExecutor(4) as pool:
        singles = list(pool.map(predictor.one, rows))
    np.testing.assert_array_equal([classes for classes, _ in singles], expected[0])
    np.testing.assert_allclose([p for _, p in singles], expected[1], rtol=1e-5)


@pytest.mark.parametrize("made", [text, table])
def test_restricts_answers(made):
    model, rows = made()
    best, second = model.topk(rows[:1], k=2)[0][0]
    predictor = model.predictor(k=1)
    assert predictor.one(rows[0], exclude=[best, "unheard of"])[0].tolist() == [second]
    assert predictor.one(rows[0], only=[second])[0].tolist() == [second]
    assert predictor(rows[:1], only=[second])[0].tolist() == [[second]]
    with pytest.raises(ValueError, match="exclude must be a list of labels, got 'music'"):
        predictor.one(rows[0], exclude="music")


@pytest.mark.parametrize("made", [text, table])
def test_later_parameters_do_not_reach_a_predictor(made):
    model, rows = made()
    predictor = model.predictor(k=1)
    before = predictor(rows), predictor.one(rows[0])
    model.set_params(n_jobs=0)  # refused at the next use
    for answers, earlier in zip((predictor(rows), predictor.one(rows[0])), before, strict=True):
        np.testing.assert_array_equal(answers[0], earlier[0])
    with pytest.raises(ValueError, match="n_jobs"):
        model.topk(rows, 1)
