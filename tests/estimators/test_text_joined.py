"""TextClassifier on texts in several columns, of files and data frames."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import cross_val_score

from sparsenet import DataError, ModelError, TextClassifier, load
from tests.support.joined_texts import (
    BODIES,
    BOTH,
    EXPECTED,
    FORMATS,
    JOINED,
    KNOWN,
    LABELS,
    TABLE,
    TEXTS,
    TITLES,
    fitted,
    saved_with,
)

FRAMES = pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "Polars", "Arrow"])


@pytest.mark.parametrize("suffix", FORMATS)
def test_columns_of_a_file_equal_joined_texts(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    FORMATS[suffix](pl.DataFrame(TABLE), path)
    model = fitted(path, text=BOTH, target="topic")
    assert model.predict_proba(JOINED).tolist() == EXPECTED
    assert model.columns_ == KNOWN
    assert fitted(path, text=["title"], target="topic").columns_ == KNOWN | {"text": ["title"]}


def test_accepts_numpy_positions(tmp_path):
    FORMATS["csv"](pl.DataFrame(TABLE), tmp_path / "t.csv")
    model = fitted(tmp_path / "t.csv", text=list(np.array([0, 2])), target=1, header=True)
    assert model.predict_proba(JOINED).tolist() == EXPECTED
    assert model.columns_ == KNOWN


@FRAMES
def test_columns_of_a_frame_equal_joined_texts(frame, tmp_path):
    whole, bare = frame(TABLE), frame({"id": LABELS, "body": BODIES, "title": TITLES})
    for model in (fitted(whole, text=BOTH, target="topic"), fitted(bare, LABELS, text=BOTH)):
        assert model.columns_["text"] == BOTH
        model.save(tmp_path / "m")
        for own in (model, TextClassifier.load(tmp_path / "m")):
            for table in (whole, bare):
                assert own.predict_proba(table).tolist() == EXPECTED
                assert own.score(table, LABELS) == own.score(JOINED, LABELS)
            assert own.predict_proba(JOINED).tolist() == EXPECTED
            assert own.columns_ == model.columns_
        assert model.compress("1MB", whole, LABELS).accuracy_before == model.score(JOINED, LABELS)
        assert model.partial_fit(bare, LABELS).n_texts_ == 2 * len(TEXTS)
    assert fitted(bare, LABELS, text=BOTH).columns_ == KNOWN | {"target": None}


def test_reads_texts_from_a_frame_and_labels_from_y():
    bare = pd.DataFrame({"id": LABELS, "text": TEXTS})
    expected = fitted(TEXTS, LABELS).predict_proba(TEXTS).tolist()
    for columns in ({}, {"text": "text"}):
        assert fitted(bare, LABELS, **columns).predict_proba(bare).tolist() == expected
    assert fitted(bare, LABELS, text="id").score(bare, LABELS) == 1.0
    with pytest.raises(ValueError, match=r"X must be one column of texts, got the shape \(60, 2\)"):
        fitted(bare.rename(columns={"text": "words"}), LABELS)


@pytest.mark.parametrize("text", [BOTH, "title"], ids=["several", "one"])
def test_frames_can_be_cross_validated(text):
    bare = pd.DataFrame({"title": TITLES, "body": BODIES})
    assert cross_val_score(TextClassifier(random_state=0), bare, LABELS, params={"text": text}, cv=3).min() > 0.5


@FRAMES
def test_rejects_a_frame_that_lacks_a_column(frame):
    for columns in ({"text": ["title", "zz"], "target": "topic"}, {"text": ["zz", "body"], "target": "topic"}):
        with pytest.raises(
            ValueError, match="text='zz' is not a column of X; there are 'title', 'topic', 'body': name"
        ):
            fitted(frame(TABLE), **columns)
    with pytest.raises(
        ValueError, match=r"text='zz' is not a column of X; there are 'title', 'topic', 'body': name them$"
    ):
        fitted(frame(TABLE), LABELS, text=["title", "zz"])
    model = fitted(frame(TABLE), text=BOTH, target="topic")
    for query in (model.predict, model.topk, lambda X: model.score(X, LABELS), lambda X: model.partial_fit(X, LABELS)):
        with pytest.raises(
            ValueError, match="text='body' is not a column of X; there are 'title': the model learnt from"
        ):
            query(frame({"title": TITLES}))
        with pytest.raises(
            ValueError, match="'title' is not a column of X; there are 'other': the model learnt from 't"
        ):
            query(frame({"other": JOINED}))
    assert model.predict_proba(np.array(JOINED)).tolist() == EXPECTED, "what is no frame has no columns"


def test_rejects_two_columns_of_one_name():
    frame = pd.DataFrame([["good", "bad", "a"], ["bad", "good", "b"]], columns=["title", "body", "topic"])
    model = fitted(frame, text=BOTH, target="topic")
    frame.columns = pd.Index(["title", "body", "body"])
    for fails in (lambda: fitted(frame, ["a", "b"], text=BOTH), lambda: model.predict(frame)):
        with pytest.raises(ValueError, match="text='body' is the name of 2 columns of X: rename them"):
            fails()


def test_a_tuple_names_one_column(tmp_path):
    plain = pd.DataFrame(TABLE)
    levels = plain.set_axis(pd.MultiIndex.from_tuples([("title", "body"), ("topic", ""), ("body", "")]), axis=1)
    one = fitted(levels, text=("title", "body"), target=("topic", ""))
    assert one.predict_proba(TITLES).tolist() == fitted(TITLES, LABELS).predict_proba(TITLES).tolist()
    assert one.predict_proba(levels).tolist() == one.predict_proba(TITLES).tolist()
    one.save(tmp_path / "m")
    assert load(tmp_path / "m").columns_ is None, "no file can say it"
    several = fitted(levels, LABELS, text=[("title", "body"), ("body", "")])
    assert several.predict_proba(levels).tolist() == several.predict_proba(JOINED).tolist() == EXPECTED
    with pytest.raises(
        ValueError, match=r"text=\('title', 'body'\) is not a column of X; .* several columns are a list$"
    ):
        fitted(plain, text=("title", "body"), target="topic")


def test_integers_may_be_column_names():
    frame = pd.DataFrame(dict(enumerate((TITLES, BODIES, LABELS))))
    for text in ([0, 1], [np.int64(0), np.int32(1)]):
        model = fitted(frame, text=text, target=2)
        assert model.predict_proba(frame).tolist() == model.predict_proba(JOINED).tolist() == EXPECTED


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA], ids=repr)
def test_a_missing_cell_is_an_error_only_alone(missing):
    frame = pd.DataFrame({"title": ["good day", missing, "bad"], "body": [missing, "bad day", "good"]}, dtype=object)
    joined = ["good day", "bad day", "bad\ngood"]
    model = fitted(frame, ["x", "y", "x"], text=BOTH)
    assert model.predict_proba(frame).tolist() == fitted(joined, ["x", "y", "x"]).predict_proba(joined).tolist()
    frame.loc[2, BOTH] = missing
    match = f"column 'title' or 'body' of X must hold texts, got {missing!r} in row 2: fill missing texts in with ''"
    for fails in (lambda: fitted(frame, ["x", "y", "x"], text=BOTH), lambda: model.predict(frame)):
        with pytest.raises(ValueError, match=match):
            fails()


def test_reports_the_column_of_a_value_that_is_not_text():
    frame = pl.DataFrame({"title": ["a", "b"], "body": [1, 2]})
    with pytest.raises(ValueError, match="column 'body' of X must hold texts, got 1 in row 0: convert it with str"):
        fitted(frame, ["x", "y"], text=BOTH)
    bytes_too = pl.DataFrame({"title": ["a", "b"], "body": [b"c", b"\xff"]})
    assert fitted(bytes_too, ["x", "y"], text=BOTH).predict(["a\nc", "b\n\ufffd"]).tolist() == ["x", "y"]


OF_NO_COLUMN = [None, 1.5, True, b"title", [], [None], [BOTH], set(BOTH), iter(BOTH)]


@pytest.mark.parametrize("text", OF_NO_COLUMN, ids=lambda text: type(text).__name__)
def test_rejects_invalid_columns_at_once(tmp_path, text):
    for X, y in ((tmp_path / "none.csv", None), (pd.DataFrame(TABLE), None), (pd.DataFrame(TABLE), LABELS), (TEXTS, 7)):
        with pytest.raises(ValueError, match=r"^text must (be the name|name a column)"):
            fitted(X, y, text=text, target="topic")


def test_rejects_a_tuple_as_a_file_column(tmp_path):
    with pytest.raises(ValueError, match=r"^text must be the name .*, or a list of such, got \('title', 'body'\)"):
        fitted(tmp_path / "none.csv", text=("title", "body"))


def test_rejects_repeated_columns(tmp_path):
    for X in (tmp_path / "none.csv", pd.DataFrame(TABLE)):
        with pytest.raises(ValueError, match=r"^text names the column 'title' twice, got \['title', 'title'\]"):
            fitted(X, text=["title", "title"], target="topic")
        with pytest.raises(ValueError, match=r"^text and target are both 'topic': name two columns"):
            fitted(X, text=["title", "topic"], target="topic")


def test_rejects_columns_without_a_table():
    with pytest.raises(ValueError, match=r"text=\['title', 'body'\] is for files, and data frames: leave it out"):
        fitted(TEXTS, LABELS, text=BOTH)
    with pytest.raises(ValueError, match="target='topic' is for files, and data frames without y"):
        fitted(pd.DataFrame(TABLE), LABELS, text=BOTH, target="topic")
    lazy, model = pl.DataFrame(TABLE).lazy(), fitted(pl.DataFrame(TABLE), text=BOTH, target="topic")
    for fails in (lambda: fitted(lazy, LABELS, text=BOTH), lambda: model.predict(lazy)):
        with pytest.raises(ValueError, match=r"X must be .*, got LazyFrame: pass what its collect\(\) returns"):
            fails()


def test_rejects_columns_of_plain_lines(tmp_path):
    (tmp_path / "t.txt").write_text("__label__a one\n")
    with pytest.raises(ValueError, match=r"^text=\['title', 'body'\] is about tables, and .* is read as lines"):
        fitted(tmp_path / "t.txt", text=BOTH)


ROWS = "a lovely film,now and then,good\na dull film,all of it,bad\nlovely and short,,good\ndull,and too long,bad\n"


@pytest.mark.parametrize(
    ("header", "is_one"),
    [
        ("title,body,topic", True),
        ("Title of ticket,Text of ticket,topic", True),
        (",body,topic", True),
        ("What a film!,body,topic", False),
        ("title,a body of several words,topic", False),
        ("title,body,good", False),
    ],
)
def test_warns_about_a_header_taken_for_a_text(tmp_path, header, is_one):
    (tmp_path / "t.csv").write_text(f"{header}\n{ROWS}")
    if not is_one:
        fitted(tmp_path / "t.csv", text=[0, 1], target=2)  # a warning would be an error
        return
    with pytest.warns(UserWarning, match=r"the first row, .* with the label 'topic' .* looks like a header"):
        fitted(tmp_path / "t.csv", text=[0, 1], target=2)


def test_counts_rows_without_any_text(tmp_path):
    (tmp_path / "t.csv").write_text(f"title,body,label\n{ROWS},,good\n , ,bad\n")
    with pytest.warns(UserWarning, match=r"t\.csv: empty texts, 2 of 6, count as others do"):
        fitted(tmp_path / "t.csv", text=BOTH)


def test_loads_models_with_a_single_column_name(tmp_path):
    saved_with(tmp_path / "m", KNOWN | {"text": "title"})
    assert TextClassifier.load(tmp_path / "m").columns_ == KNOWN | {"text": ["title"]}


@pytest.mark.parametrize("text", [[], ["title", 1], ["title", "title"], [BOTH], None, {"title": 1}], ids=repr)
def test_rejects_invalid_names(tmp_path, text):
    saved_with(tmp_path / "m", KNOWN | {"text": text})
    with pytest.raises(ModelError):
        TextClassifier.load(tmp_path / "m")


def test_rejects_a_file_that_lacks_a_column(tmp_path):
    FORMATS["csv"](pl.DataFrame(TABLE), tmp_path / "t.csv")
    with pytest.raises(DataError, match="line 1: there is no column 'abstract'; the first row holds 'title', "):
        fitted(tmp_path / "t.csv", text=["title", "abstract"], target="topic")
