"""Texts and labels as columns of pandas, Polars, Arrow and NumPy, whole and with values missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from sparsenet import ExtremeClassifier, TableClassifier, TextClassifier
from sparsenet.data import Dataset
from tests.support.texts import planted

TEXTS, LABELS = planted(60)
EXPECTED = TextClassifier(random_state=0).fit(TEXTS, LABELS).predict_proba(TEXTS).tolist()

#: Makers of columns of each kind from a list.
COLUMNS: dict[str, Callable[[list[Any]], Any]] = {
    "NumPy, fixed width": np.array,
    "NumPy, object": lambda values: np.array(values, dtype=object),
    "pandas, object": lambda values: pd.Series(values, dtype=object, index=range(7, 7 + len(values))),
    "pandas, string": lambda values: pd.Series(values, dtype="string"),
    "pandas, Arrow": lambda values: pd.Series(values, dtype=pd.ArrowDtype(pa.string())),
    "pandas, categories": lambda values: pd.Series(values, dtype="category"),
    "pandas, index": pd.Index,
    "Polars": pl.Series,
    "Polars, categories": lambda values: pl.Series(values, dtype=pl.Categorical),
    "Arrow": pa.array,
    "Arrow, chunks": lambda values: pa.chunked_array([values[:20], values[20:]]),
    "Arrow, dictionary": lambda values: pa.array(values).dictionary_encode(),
}
if hasattr(np.dtypes, "StringDType"):  # NumPy 2
    COLUMNS["NumPy, strings"] = lambda values: np.array(values, dtype=np.dtypes.StringDType())


@pytest.mark.parametrize("kind", COLUMNS)
def test_a_column_equals_its_list(kind):
    texts, labels = COLUMNS[kind](TEXTS), COLUMNS[kind](LABELS)
    model = TextClassifier(random_state=0).fit(texts, labels)
    assert model.predict_proba(texts).tolist() == EXPECTED
    assert model.predict_proba(texts[:1]).tolist() == EXPECTED[:1]
    assert model.predict(texts[:0]).tolist() == []
    assert model.score(texts, labels) == 1.0
    assert model.classes_.tolist() == sorted(set(LABELS))
    assert TextClassifier(random_state=0).partial_fit(texts, labels).predict_proba(texts).tolist() == EXPECTED


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "Polars", "Arrow"])
def test_accepts_a_frame_of_one_column_only(frame):
    model = TextClassifier(random_state=0).fit(frame({"text": TEXTS}), LABELS)
    assert model.predict_proba(frame({"text": TEXTS})).tolist() == EXPECTED
    assert model.predict_proba(frame({"text": TEXTS[:1]})).tolist() == EXPECTED[:1]
    with pytest.raises(ValueError, match=r"one column of texts, got the shape \(60, 2\): pass one, such as X\["):
        model.predict(frame({"text": TEXTS, "title": TEXTS}))


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (pd.Series(["a", None, "b"], dtype=object), "None"),
        (pd.Series(["a", np.nan, "b"], dtype=object), "nan"),
        (pd.Series(["a", None, "b"], dtype="string"), "<NA>"),
        (pd.Series(["a", None, "b"], dtype=pd.ArrowDtype(pa.string())), "<NA>"),
        (pd.Series(["a", pd.NaT, "b"], dtype=object), "NaT"),
        (pd.Series(["a", None, "b"], dtype="category"), "nan"),
        (pl.Series(["a", None, "b"]), "None"),
        (pa.array(["a", None, "b"]), "None"),
        (np.array(["a", None, "b"], dtype=object), "None"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{type(value).__module__.split('.')[0]}",
)
def test_reports_the_row_of_a_missing_value(column, found):
    with pytest.raises(ValueError, match=rf"X must hold texts, got {found} in row 1: fill missing texts in with ''"):
        TextClassifier().fit(column, ["x", "y", "x"])
    with pytest.raises(ValueError, match=f"y holds {found} in row 1: every row needs a label; drop the row"):
        TextClassifier().fit(["a", "b", "c"], column)
    with pytest.raises(ValueError, match=f"y holds {found} in row 1"):
        ExtremeClassifier().fit(np.eye(3), column)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "Polars", "Arrow"])
def test_a_frame_may_hold_the_labels_too(frame):
    whole = frame({"id": list(range(60)), "review": TEXTS, "topic": LABELS})
    model = TextClassifier(random_state=0).fit(whole, text="review", target="topic")
    assert model.predict_proba(TEXTS).tolist() == EXPECTED
    usual = TextClassifier(random_state=0).fit(frame({"label": LABELS, "text": TEXTS}))
    assert usual.predict_proba(TEXTS).tolist() == EXPECTED
    for answer in (model.predict_proba, model.predict, model.topk, model.decision_function):
        for found, expected in zip(answer(whole), answer(TEXTS), strict=True):
            np.testing.assert_array_equal(found, expected)
    assert model.score(whole, LABELS) == model.score(TEXTS, LABELS)
    with pytest.raises(ValueError, match=r"text='text' is not a column of X; .*: the model learnt from 'text'$"):
        usual.predict(whole)
    for columns, message in (
        ({}, "text='text' is not a column of X; there are 'id', 'review', 'topic': name them, or pass y"),
        ({"text": "review", "target": "zz"}, "target='zz' is not a column of X"),
        ({"text": "review", "target": "topic", "header": True}, "header=True is for files: leave it out"),
    ):
        with pytest.raises(ValueError, match=message):
            TextClassifier().fit(whole, **columns)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "Polars", "Arrow"])
def test_refuses_the_values_of_a_column_as_its_name(frame, tmp_path):
    whole = frame({"text": TEXTS, "label": LABELS})
    (tmp_path / "t.csv").write_text("text,label\na,x\n")
    for X in (whole, tmp_path / "t.csv"):
        for name, given in (("target", whole["label"]), ("text", whole["text"]), ("text", [whole["text"]])):
            with pytest.raises(
                ValueError, match=rf"{name} must be the name of a column .*: pass the frame as X, and the"
            ):
                TextClassifier().fit(X, **{name: given})
    with pytest.raises(ValueError, match=r"target must be the name of a column .*: pass the frame as X, and the"):
        TableClassifier().fit(whole, target=whole["label"])


@pytest.mark.parametrize(
    ("name", "value"), [("text", "zz"), ("target", 1), ("label_delimiter", "|"), ("format", "csv"), ("quotes", False)]
)
def test_rejects_file_options_for_frames(name, value):
    with pytest.raises(ValueError, match=f"{name}={value!r} is for files".replace("|", r"\|")):
        TextClassifier().fit(TEXTS, LABELS, **{name: value})


def test_does_not_mistake_a_file_name_for_texts(tmp_path):
    model = TextClassifier(random_state=0).fit(TEXTS, LABELS)
    (tmp_path / "texts").write_text("a goal")
    for path in ("new.tsv", "NEW.parquet"):
        for query in (model.predict, model.predict_proba, lambda X: model.score(X, None)):
            with pytest.raises(ValueError, match=f"does not know which columns of '{path}' to read"):
                query(path)
    with pytest.raises(FileNotFoundError):
        model.predict(tmp_path / "new")
    assert model.predict(str(tmp_path / "texts")).tolist() == model.predict(["a goal"]).tolist()
    for text in ("a goal", str(tmp_path), "a\0goal", "x" * 10_000, b"new.tsv"):
        with pytest.raises(ValueError, match=r"got a single one: pass \[text\]"):
            model.predict(text)


@pytest.mark.parametrize("y", [["a", "b", "c"], [1, 2, 3], [1.0, 2.0, 3.0], [[1, 0], [0, 1], [1, 1]]])
def test_reports_the_row_of_a_masked_label(y):
    """Values under a mask are not labels."""
    masked = np.ma.masked_array(y)
    model = TextClassifier(random_state=0).fit(["one", "two", "three"], masked)  # no value is masked
    masked[1] = np.ma.masked
    for fails in (
        lambda: TextClassifier().fit(["one", "two", "three"], masked),
        lambda: model.partial_fit(["one", "two", "three"], masked),
        lambda: model.score(["one", "two", "three"], masked),
        lambda: ExtremeClassifier().fit(np.eye(3), masked),
    ):
        with pytest.raises(ValueError, match="y is masked in row 1: every row needs a label; drop the row"):
            fails()


@pytest.mark.parametrize("kind", [set, frozenset])
def test_rejects_unordered_collections(kind):
    texts = kind(["one", "two"])
    with pytest.raises(ValueError, match=r"X must be a sequence of texts, got a \w+: pass a list, whose order"):
        TextClassifier().fit(texts, ["x", "y"])
    views = TextClassifier(random_state=0).fit({"one": "x", "two": "y"}.keys(), ["x", "y"])  # views are ordered
    assert views.predict(["one", "two"]).tolist() == ["x", "y"]


def test_rejects_numbers_and_lists_as_texts():
    for column, problem in (
        (pl.Series([1, 2]), "got 1 in row 0: convert it with str"),
        (np.eye(2)[0], "got 1.0 in row 0: convert it with str"),
        (pl.Series([["a"], ["b"]]), r"got \['a'\] in row 0: join words to a text, or use BlendClassifier"),
        ({"text": ["a", "b"]}, "X is a mapping of columns: pass the column of texts, or a data frame"),
        (Dataset(X=csr_array(np.eye(2)), Y=csr_array(np.eye(2))), "got Dataset: BlendClassifier takes points"),
    ):
        with pytest.raises(ValueError, match=problem):
            TextClassifier().fit(column, ["x", "y"])


def test_accepts_a_column_of_label_lists():
    lists = [[label, "any"] for label in LABELS]
    expected = TextClassifier(random_state=0).fit(TEXTS, lists).predict_proba(TEXTS).tolist()
    for column in (pd.Series(lists), pl.Series(lists), pa.array(lists)):
        model = TextClassifier(random_state=0).fit(TEXTS, column)
        assert model.predict_proba(TEXTS).tolist() == expected
        assert sorted(model.predict(TEXTS[:1])[0]) == sorted(lists[0])


@pytest.mark.parametrize("labels", [ALONE := ["x", "y", "y", "x"], [["x"], ["y", "x"], [], ["x"]]])
def test_accepts_labels_from_a_generator(labels):
    texts = ["one two", "three four", "three", "one"]
    expected = TextClassifier(random_state=0).fit(texts, labels).partial_fit(texts, labels)
    model = TextClassifier(random_state=0).fit(iter(texts), (label for label in labels))
    model.partial_fit(iter(texts), iter(labels))
    assert model.predict_proba(texts).tolist() == expected.predict_proba(texts).tolist()
    assert model.score(texts, iter(labels)) == expected.score(texts, labels)
    assert model.multilabel_ == (labels is not ALONE)
    by_name = TextClassifier(random_state=0).fit(texts, dict(enumerate(labels)).values())
    assert by_name.classes_.tolist() == ["x", "y"]
    report = model.compress("1MB", iter(texts), iter(labels))
    assert report.accuracy_before == expected.score(texts, labels)


def test_accepts_point_labels_from_a_generator():
    points, labels = np.eye(4), ["x", "y", "y", "x"]
    models = [ExtremeClassifier(hidden=4, random_state=0).fit(points, y) for y in (labels, iter(labels))]
    assert models[0].predict_proba(points).tolist() == models[1].predict_proba(points).tolist()
    held = (points, iter(labels))
    assert ExtremeClassifier(hidden=4, random_state=0).fit(points, iter(labels), validation=held).history_


def test_rejects_lazy_frames():
    lazy = pl.DataFrame({"text": ["good", "bad"], "label": ["a", "b"]}).lazy()
    for give in ({}, {"y": ["a", "b"]}):
        with pytest.raises(ValueError, match=r"X must be .*, got LazyFrame: pass what its collect\(\) returns"):
            TextClassifier().fit(lazy, **give)


def test_rejects_two_columns_of_one_name():
    frame = pd.DataFrame([["good", "bad", "a"], ["bad", "good", "b"]], columns=["text", "text", "label"])
    with pytest.raises(ValueError, match="text='text' is the name of 2 columns of X: rename them"):
        TextClassifier().fit(frame)


def test_no_texts_are_an_error_about_x():
    empty = pd.DataFrame({"text": TEXTS, "label": LABELS})[:0]
    for given in (([], []), ([], ["a"]), (empty,), (pl.from_pandas(empty),), (empty["text"], empty["label"])):
        with pytest.raises(ValueError, match="X holds no texts: there must be at least one"):
            TextClassifier().fit(*given)
