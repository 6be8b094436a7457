"""Label indicators as data frames: their column names are the labels."""

import json
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import DataConversionWarning
from typer.testing import CliRunner

from sparsenet import BlendClassifier, ModelError, TextClassifier, TreeClassifier, cli, storage
from tests.support.planted import NAMES, X, Y, fast

#: Not sorted by name, unlike labels of other forms.
COLUMNS = NAMES[::-1].tolist()
ONE_THREAD = {"random_state": 0, "n_jobs": 1}
MAKE = {
    "network": partial(fast, epochs=2),
    "tree": partial(TreeClassifier, **ONE_THREAD),
    "blend": partial(BlendClassifier, network="drop", **ONE_THREAD),
}
FRAMES = {
    "pandas": lambda y: pd.DataFrame(y, columns=COLUMNS),
    "booleans": lambda y: pd.DataFrame(y.astype(bool), columns=COLUMNS),
    "nullable": lambda y: pd.DataFrame(y, columns=COLUMNS, dtype="Int64"),
    "nullable booleans": lambda y: pd.DataFrame(y.astype(bool), columns=COLUMNS, dtype="boolean"),
    "objects": lambda y: pd.DataFrame(y, columns=COLUMNS, dtype=object),
    "categories": lambda y: pd.DataFrame(y, columns=COLUMNS, dtype="category"),
    "polars": lambda y: pl.DataFrame(y, schema=COLUMNS),
}


@pytest.mark.parametrize("form", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_column_names_become_classes(make, form, tmp_path):
    plain = make().fit(X, Y)
    model = make().fit(X, form(Y))
    model.save(tmp_path / "model")
    for known in (model, type(model).load(tmp_path / "model")):
        assert known.classes_.tolist() == COLUMNS
        labels, probabilities = known.topk(X[:5], 3)
        numbers, expected = plain.topk(X[:5], 3)
        assert labels.tolist() == [[COLUMNS[number] for number in row] for row in numbers]
        np.testing.assert_array_equal(probabilities, expected)
        np.testing.assert_array_equal(known.predict(X), plain.predict(X))
        assert known.score(X, form(Y)) == known.score(X, Y) == plain.score(X, Y)


def test_unnamed_columns_give_integer_classes():
    for y in (Y, pd.DataFrame(Y), Y.tolist()):
        assert fast(epochs=1).fit(X, y).classes_.tolist() == list(range(40))
    assert fast(epochs=1).fit(X, pd.DataFrame(Y, columns=range(10, 50))).classes_[0] == "10"


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_rejects_two_columns_of_one_name(make):
    with pytest.raises(ValueError, match="y has two columns '7': each is a label, so rename one, or drop it"):
        make().fit(X, pd.DataFrame(Y[:, :3], columns=["a", 7, "7"]))


def test_rejects_a_name_that_no_file_can_hold():
    with pytest.raises(ValueError, match="half of a surrogate pair"):
        TreeClassifier().fit(X, pd.DataFrame(Y[:, :2], columns=pd.Index(["a", "\ud800"], dtype=object)))


def test_rejects_columns_in_another_order():
    model = fast(epochs=1).fit(X, pd.DataFrame(Y, columns=COLUMNS))
    other = pd.DataFrame(Y, columns=COLUMNS)[COLUMNS[::-1]]
    said = "y has the column 'label 00' at position 0, where the classifier expects 'label 39': pass the columns"
    for use in (model.score, model.partial_fit):
        with pytest.raises(ValueError, match=said):
            use(X, other)
    with pytest.raises(ValueError, match="y has 39 columns, the classifier knows 40 labels"):
        model.score(X, other[COLUMNS[:39]])
    model.partial_fit(X, pd.DataFrame(Y, columns=COLUMNS), classes=COLUMNS)
    with pytest.raises(ValueError, match="the names of its columns"):
        model.partial_fit(X, Y, classes=range(40))


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_one_label_column_means_one_label_a_row(make):
    """This follows scikit-learn, with its warning."""
    names = NAMES[Y.argmax(axis=1)]
    for column in (pd.DataFrame({"label": names}), pl.DataFrame({"label": names.tolist()})):
        with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
            model = make().fit(X, column)
        assert model.classes_.tolist() == sorted(set(names))
        assert model.predict(X[:3]).shape == (3,)


def test_files_refer_to_columns_by_number(tmp_path):
    model = TreeClassifier(**ONE_THREAD).fit(X, pd.DataFrame(Y, columns=COLUMNS))
    model.save(tmp_path / "model")
    rows = "".join(f"{','.join(map(str, np.flatnonzero(own)))} 0:1\n" for own in Y)
    for name, head in (("points.svm", ""), ("points.txt", f"{len(Y)} {X.shape[1]} {Y.shape[1]}\n")):
        (tmp_path / name).write_text(head + rows)
        arguments = ["evaluate", str(tmp_path / "model"), str(tmp_path / name), "--json"]
        done = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
        assert json.loads(done.stdout)["unknown_labels"] == 0


def test_partial_fit_on_texts_keeps_column_names(tmp_path):
    texts = ["red and round", "round", "red", "neither"] * 5
    y = pd.DataFrame({"round": [1, 1, 0, 0] * 5, "red": [1, 0, 1, 0] * 5})
    model = TextClassifier(random_state=0).fit(texts, y)
    model.partial_fit(texts, y)
    model.save(tmp_path / "model")
    model = TextClassifier.load(tmp_path / "model")
    assert model.classes_.tolist() == ["round", "red"]
    assert model.topk(["so round", "so red"], 1)[0].tolist() == [["round"], ["red"]]
    assert model.label_counts_.tolist() == [20, 20]


def test_rejects_indicator_names_of_another_type(tmp_path):
    """Only a forged model claims such names."""
    TreeClassifier().fit(X, pd.DataFrame(Y, columns=COLUMNS)).save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    for kind, dtype in (("sparse", "<i8"), ("dense", "|O"), ("single", "<i8")):
        about = metadata | {"target": metadata["target"] | {"kind": kind, "dtype": dtype}}
        storage.save(tmp_path / "other", arrays, about)
        with pytest.raises(ModelError, match=f"labels of the kind '{kind}' and the type"):
            TreeClassifier.load(tmp_path / "other")


@pytest.mark.parametrize("missing", [pd.NA, None, np.nan], ids=str)
def test_reports_the_place_of_a_missing_indicator_value(missing):
    y = pd.DataFrame(Y, columns=COLUMNS, dtype=object)
    y.iloc[7, 3] = missing
    with pytest.raises(ValueError, match=r"y holds .* in row 7, column 3: use 0 or 1, or drop the row"):
        TreeClassifier().fit(X, y)
    y.iloc[7, 3] = "1"
    with pytest.raises(ValueError, match="an indicator of 0 and 1 for each label, got '1' in row 7, column 3"):
        TreeClassifier().fit(X, y)
