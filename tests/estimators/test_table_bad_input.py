"""What `TableClassifier` refuses, and what it answers to odd tables."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from sparsenet import ModelError, TableClassifier, load
from sparsenet.data.errors import DataError
from sparsenet.storage import load as load_arrays
from sparsenet.storage import save as save_arrays
from tests.estimators.test_table import CELLS, LINEAR, TABLE


def linear(**given):
    return TableClassifier(**LINEAR | given)


@pytest.fixture(scope="module")
def model():
    return linear().fit(TABLE, target="kind")


@pytest.mark.parametrize(
    ("X", "y", "how", "problem"),
    [
        (TABLE, None, {}, "target must name the column of classes"),
        (TABLE, None, {"target": "sort"}, "target='sort' is not a column; there are 'size', 'colour'"),
        (TABLE, "kind", {}, "for a column of X pass target='kind'"),
        (CELLS, TABLE["kind"], {"target": "kind"}, "both give the classes"),
        (CELLS, TABLE["kind"], {"label_delimiter": ";"}, "pass lists of labels as y"),
        (CELLS, TABLE["kind"][:3], {}, "X has 80 rows, y has 3"),
        ({"kind": TABLE["kind"]}, None, {"target": "kind"}, "no other column to learn from"),
        ({**TABLE, "kind": [*TABLE["kind"][:79], None]}, None, {"target": "kind"}, "row 79 of X: the column 'kind'"),
        ({**TABLE, "kind": [np.nan, *[1.0] * 79]}, None, {"target": "kind"}, "row 0 of X: the column 'kind' is empty"),
        ({**TABLE, "size": [1, 2]}, None, {"target": "kind"}, "'size' has 2 values and column 'colour' has 80"),
        (TABLE, None, {"target": "kind", "types": {"sizes": "number"}}, "sizes"),
        (TABLE, None, {"target": "kind", "types": {"size": "figure"}}, "figure"),
        (TABLE, None, {"target": "kind", "types": {"colour": "number"}}, "row 0 of X.*'colour'"),
        (TABLE, None, {"target": "kind", "header": True}, "header=True is for files"),
        (csr_array(np.eye(3)), [1, 2, 3], {}, "use BlendClassifier for sparse points"),
        (3, [1], {}, "X must be a data frame, a mapping of columns, a list of dicts or a path, got int"),
        ([[1, 2], [3]], [1, 2], {}, "row 0 of X is a list: lists of rows must hold a dict for each row"),
        ([{"a": 1}, 3], [1, 2], {}, "row 1 of X is a int: lists of rows must hold a dict"),
        ({"a": []}, [], {}, "X has no rows: a table to learn from needs at least one"),
        ({"a": [], "kind": []}, None, {"target": "kind"}, "X has no rows"),
        ([], None, {"target": "kind"}, "X has no rows"),
        (np.zeros((0, 3)), [], {}, "X has no rows"),
        ({**CELLS, "kind": [[]] * 80}, None, {"target": "kind"}, "y holds no label at all"),
        ({**TABLE, "kind": [1, "a"] * 40}, None, {"target": "kind"}, "strings alone or whole numbers alone"),
    ],
)
def test_refuses(X, y, how, problem):
    with pytest.raises(ValueError, match=problem):
        linear().fit(X, y, **how)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"method": "forest"}, "method must be one of 'auto', 'boosting', 'linear', 'blend', 'network', 'tree'"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"verbose": -1}, "verbose must be"),
    ],
)
def test_refuses_parameters(given, problem):
    with pytest.raises(ValueError, match=problem):
        linear(**given).fit(TABLE, target="kind")


def test_refuses_files_by_line(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("size,kind\n1,a\n2,\n3,b\n")
    with pytest.raises(DataError, match=r"table.csv, line 3: the column 'kind' is empty"):
        linear().fit(path, target="kind")
    path.write_text("size,kind\n1,a\n2,b,c\n")
    with pytest.raises(DataError, match="line 3"):
        linear().fit(path, target="kind")
    path.write_text("size,size,kind\n1,1,a\n")
    with pytest.raises(ValueError, match="size"):
        linear().fit(path, target="kind")
    with pytest.raises(FileNotFoundError):
        linear().fit(tmp_path / "none.csv", target="kind")


def test_refuses_tables_without_its_columns(model):
    less = {name: values for name, values in CELLS.items() if name != "colour"}
    for ask in (model.predict, model.predict_proba, model.topk):
        with pytest.raises(ValueError, match="the column 'colour' is missing, which the model needs"):
            ask(less)
    with pytest.raises(ValueError, match="'colour' is missing"):
        model.explain({"size": 1.0})
    more = {"other": [0] * 80, **CELLS}
    assert np.array_equal(model.predict(more), model.predict(CELLS))  # other columns, and their order, do not matter


def test_score_needs_classes(model):
    with pytest.raises(ValueError, match="target='kind' is not a column"):
        model.score(CELLS)
    apart = linear().fit(CELLS, TABLE["kind"])
    with pytest.raises(ValueError, match="y must be given"):
        apart.score(CELLS)


def test_a_failed_fit_keeps_the_model(model):
    before = model.predict(CELLS)
    with pytest.raises(ValueError, match="target"):
        model.fit(TABLE)
    assert np.array_equal(model.predict(CELLS), before)


@pytest.mark.parametrize(
    "cells",
    [
        {"a": [1, "x", None, 2.5, True] * 8},
        {"a": [None] * 40},
        {"a": [np.nan] * 40, "b": [1.0] * 40},
        {"a": [{"no": "hash"}, [1], "x", None] * 10},
        {"a": [float("inf"), 1, 2, -float("inf")] * 10},
        {"a": [f"id {i}" for i in range(40)]},
        {"a": [""] * 40},
    ],
)
def test_odd_columns_have_a_result_or_a_reason(cells):
    y = ["p", "q"] * 20
    for method in ("linear", "boosting"):
        try:
            p = linear(method=method).fit(cells, y).predict_proba(cells)
        except ValueError as error:
            assert "row" in str(error) or "column" in str(error)  # noqa: PT017  # either is right
        else:
            assert np.isfinite(p).all()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows(n):
    trained = TableClassifier(random_state=0, n_jobs=1).fit({"a": list(range(n))}, [f"c{i}" for i in range(n)])
    assert trained.predict({"a": [0, 100]}).shape == (2,)


def test_one_class():
    trained = TableClassifier(random_state=0, n_jobs=1).fit({"a": list(range(30))}, ["same"] * 30)
    assert trained.predict({"a": [0, 100]}).tolist() == ["same", "same"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda arrays, about: about.update(column=3), "must be names"),
        (lambda arrays, about: about["member"].update(kind="forest"), "'forest' is no kind of model"),
        (lambda arrays, about: about["parameters"].update(method="forest"), "method must be"),
        (lambda arrays, about: arrays.update({"member.weights": arrays["member.weights"][:3]}), "must be float32"),
        (lambda arrays, about: arrays.update({"member.bias": arrays["member.bias"] * np.nan}), "NaN"),
        (lambda arrays, about: arrays.update({"background.indices": arrays["background.indices"] + 10**6}), "beyond"),
        (lambda arrays, about: arrays.update({"background.matrix": arrays["background.matrix"][:1]}), "background"),
        (lambda arrays, about: arrays.pop("counts"), "counts"),
    ],
)
def test_refuses_forged_models(tmp_path, model, change, problem):
    model.save(tmp_path / "model")
    arrays, about = load_arrays(tmp_path / "model")
    change(arrays, about)
    save_arrays(tmp_path / "forged", arrays, about)
    with pytest.raises(ModelError, match=problem):
        load(tmp_path / "forged")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"target": ["y", "x"]}, r"target must be the name of a column \(a string or a position\), got a list"),
        ({"target": "y", "types": "x=number"}, r"types must be a dict such as \{'price': 'number'\}, got 'x=number'"),
        ({"target": "t"}, "row 1 of X: the column 't' holds the fraction 2.5, and classes are predicted"),
    ],
)
def test_refuses_targets_and_types_of_other_kinds(how, message):
    with pytest.raises(ValueError, match=message):
        TableClassifier().fit({"x": [1, 2, 3], "y": ["a", "b", "a"], "t": [1.0, 2.5, 3.0]}, **how)


def test_a_single_vector_is_refused_with_advice():
    model = TableClassifier(method="tree", random_state=0).fit(np.eye(40), ["a", "b"] * 20)
    with pytest.raises(ValueError, match=r"X is a single vector of 40 values.* X\.reshape\(1, -1\) makes it one row"):
        model.predict(np.eye(40)[0])


def test_an_unhashable_label_is_named_with_its_row():
    model = TableClassifier(method="tree", random_state=0).fit(np.eye(40), ["a", "b"] * 20)
    with pytest.raises(ValueError, match=r"y, row 1: \['b'\] is a list, and labels are strings or numbers"):
        model.score(np.eye(40)[:2], [["a"], [["b"]]])


def test_whole_numbers_name_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({0: np.arange(40) % 2, 1: ["a", "b"] * 20})
    model = TableClassifier(method="tree", random_state=0).fit(frame, target=1)
    assert model.target_ == "1"
    assert model.score(frame) == 1
    assert model.predict(frame[[0]]).tolist() == frame[1].tolist()
