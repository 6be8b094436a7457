"""TextFeatures: the features of texts as a scikit-learn transformer."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import OneHotEncoder

import sparsenet
from sparsenet import BlendClassifier
from sparsenet.features import TextFeatures
from sparsenet.features.text.corpus import Corpus
from sparsenet.features.text.feature_options import FeatureOptions
from sparsenet.features.text.vocabulary import Vocabulary
from tests.support.texts import planted

TEXTS, LABELS = planted(300)
TEST, TRUTH = planted(100, seed=1)


def test_is_public():
    assert sparsenet.features.TextFeatures is TextFeatures
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        sparsenet.features.Nothing  # noqa: B018


def test_gives_the_features_of_a_text_classifier():
    corpus = Corpus.of_texts(TEXTS, LABELS, FeatureOptions(), 1)
    points = Vocabulary.learn(corpus.rules, corpus.rows, corpus.labels).points(corpus.rows, 1)
    found = TextFeatures(word_ngrams=2).fit(TEXTS, LABELS).transform(TEXTS)
    assert found.shape == (300, points.width)
    assert found.dtype == np.float32
    assert found.nnz == len(points.indices)
    np.testing.assert_allclose(np.sort(found.data), np.sort(points.data))


def test_rows_have_unit_length_and_ascending_columns():
    found = TextFeatures().fit_transform(TEXTS, LABELS)
    np.testing.assert_allclose(np.sqrt(found.multiply(found).sum(axis=1)), 1, rtol=1e-5)
    assert found.has_sorted_indices
    assert found.shape[1] == TextFeatures().fit(TEXTS).n_features_out_


def test_fit_transform_equals_fit_and_transform():
    for y in (None, LABELS, [[label] for label in LABELS]):
        both = TextFeatures().fit_transform(TEXTS, y)
        assert abs(both - TextFeatures().fit(TEXTS, y).transform(TEXTS)).nnz == 0


def test_labels_change_the_weights_alone():
    without, with_labels = TextFeatures().fit(TEXTS), TextFeatures().fit(TEXTS, LABELS)
    plain, weighted = without.transform(TEST), with_labels.transform(TEST)
    assert plain.indices.tolist() == weighted.indices.tolist()
    assert not np.allclose(plain.data, weighted.data)


def test_pickle_and_clone():
    model = TextFeatures(char_ngrams=(2, 3)).fit(TEXTS, LABELS)
    again = pickle.loads(pickle.dumps(model))
    assert abs(again.transform(TEST) - model.transform(TEST)).nnz == 0
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "n_features_out_")


def test_before_a_blend():
    model = make_pipeline(TextFeatures(), BlendClassifier(network="drop", random_state=0)).fit(TEXTS, LABELS)
    assert model.score(TEST, TRUTH) > 0.9


def test_in_a_grid_search():
    pipeline = make_pipeline(TextFeatures(), LogisticRegression())
    grid = GridSearchCV(pipeline, {"textfeatures__word_ngrams": [1, 2]}, cv=2).fit(TEXTS, LABELS)
    assert grid.score(TEST, TRUTH) > 0.9


def test_in_a_column_transformer():
    frame = pd.DataFrame({"title": TEXTS, "body": TEXTS[::-1], "kind": ["a", "b", "c"] * 100})
    columns = ColumnTransformer(
        [
            ("one", TextFeatures(), "title"),
            ("two", TextFeatures(), ["title", "body"]),
            ("kind", OneHotEncoder(), ["kind"]),
        ]
    )
    found = columns.fit_transform(frame, LABELS)
    names = columns.get_feature_names_out()
    assert found.shape == (300, len(names))
    assert names[0] == "one__text0"
    assert names[-1] == "kind__kind_c"
    assert abs(columns.transform(frame) - found).nnz == 0


def test_in_a_feature_union():
    union = FeatureUnion([("ours", TextFeatures()), ("counts", CountVectorizer())]).fit(TEXTS, LABELS)
    assert union.transform(TEST).shape[1] == len(union.get_feature_names_out())


def test_joins_the_columns_of_a_frame():
    frame = pd.DataFrame({"title": ["red", "blue"], "body": ["car", None]})
    joined = TextFeatures().fit(["red\ncar", "blue"])
    assert abs(TextFeatures().fit(frame).transform(frame) - joined.transform(["red\ncar", "blue"])).nnz == 0
    assert abs(TextFeatures().fit(frame).transform(frame.to_numpy()) - joined.transform(["red\ncar", "blue"])).nnz == 0


def test_max_features_keeps_the_most_frequent():
    few = TextFeatures(max_features=5).fit_transform(TEXTS).count_nonzero(axis=0)
    all_counts = TextFeatures().fit_transform(TEXTS).count_nonzero(axis=0)
    assert sorted(few) == sorted(all_counts)[-5:]


def test_unknown_words_give_an_empty_row():
    found = TextFeatures(char_ngrams=None).fit(TEXTS).transform(["xyzzy", ""])
    assert found.shape[0] == 2
    assert found.nnz == 0


def test_results_do_not_depend_on_threads():
    one, two = (TextFeatures(n_jobs=n).fit_transform(TEXTS, LABELS) for n in (1, 2))
    assert np.array_equal(one.indices, two.indices)
    assert np.array_equal(one.data, two.data)


@pytest.mark.parametrize(
    ("parameters", "X", "y", "message"),
    [
        ({"word_ngrams": 0}, TEXTS, None, "word_ngrams must be an integer from 1 to 8, got 0"),
        ({"char_ngrams": (3, 2)}, TEXTS, None, r"char_ngrams\[1\] must be"),
        ({"bits": 3}, TEXTS, None, "bits must be"),
        ({"max_features": 0}, TEXTS, None, "max_features must be"),
        ({}, [], None, "X holds no texts"),
        ({}, ["", " "], None, "X holds no features"),
        ({}, "a text", None, "a single one"),
        ({}, "texts.csv", None, "the name of a file, 'texts.csv': pass its texts, sparsenet.data.read_table"),
        ({}, ["a", None], None, "None in row 1"),
        ({}, ["a", 3], None, "3 in row 1"),
        ({}, TEXTS, LABELS[:-1], "y has 299 entries"),
        ({}, pd.DataFrame([["a", "b"]], columns=["t", "t"]), None, "rename"),
    ],
)
def test_rejects_bad_input(parameters, X, y, message):
    with pytest.raises(ValueError, match=message):
        TextFeatures(**parameters).fit(X, y)


def test_refuses_to_transform_before_fit():
    with pytest.raises(ValueError, match="not fitted"):
        TextFeatures().transform(TEXTS)
    with pytest.raises(ValueError, match="not fitted"):
        TextFeatures().get_feature_names_out()
