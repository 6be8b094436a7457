"""Inference of column types, and what a given type needs."""

from __future__ import annotations

import datetime

import numpy as np
import pytest

from sparsenet.data.frames import read_frame
from sparsenet.features.columns.column_types import infer_types
from sparsenet.features.columns.table_encoder import TableEncoder
from tests.support.tables import table

RNG = np.random.default_rng(0)
NAMES = [f"{first} {last}" for first in ("Ann", "Bob", "Cid", "Dee", "Eve") for last in ("Ash", "Bay", "Cox", "Day")]


def inferred(values: object) -> str:
    return infer_types(table(a=values), {})["a"].type


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1.5, 2.5, None], "number"),
        ([1, 2, 3, 2], "number"),
        (["1.5", " 2 ", "-3e2", "NA", ""], "number"),
        (["$1,200.50", "$3", "-$4"], "number"),
        (["45%", "12.5 %"], "number"),
        ([1, "2", 3.5], "number"),
        (["1.5"] * 20 + ["2"] * 20 + ["n.a. yet"], "number"),
        (["02134", "90210", "10001"], "category"),
        (["a", "b", "a", None], "category"),
        ([True, False, True], "category"),
        ([True, None, False], "category"),
        (["yes", "no", "yes"], "category"),
        (["2024-01-31", "2024-02-01"], "date"),
        (["2024-01-31T10:00:00Z", "2024-02-01T10:00:00+02:00"], "date"),
        (["31.12.2024", "1.1.2025"], "date"),
        (["12/31/2024", "1/1/2025"], "date"),
        (["31 Dec 2024", "1 January 2025"], "date"),
        (["Tue, 31 Dec 2024 10:00:00 +0000", "Wed, 1 Jan 2025 09:00:00 +0000"], "date"),
        (["Dec 31, 2024 5:30 PM", "Jan 1, 2025 12:00 AM"], "date"),
        (["10:30", "23:59:59", "7:05 pm"], "date"),
        ([datetime.datetime(2024, 1, 31), datetime.datetime(2024, 2, 1)], "date"),
        ([["a", "b"], ["a"], None], "categories"),
        ([[1, 2], [], [3]], "ids"),
        (["drama|crime", "crime", "drama", "crime|war", "drama|war", "war"] * 4, "categories"),
        ([" ".join(RNG.choice(NAMES, 4)) for _ in range(50)], "text"),
        ([f"K{i:05}" for i in RNG.permutation(60)], "ignore"),
        ([f"{a}{b}{c}" for a in "bdfg" for b in "aeiou" for c in ["", "ll", "nner"]], "text"),
        ([f"{a}{b}{c}" for a in "bdfg" for b in "aeiou" for c in "xyz"], "ignore"),
        (list(range(50)), "ignore"),
        ([np.inf] * 30 + [1.0], "number"),
        ([7, 7, 7], "ignore"),
        ([7, 7, None], "number"),
        (["x", None], "category"),
        ([None, None], "ignore"),
        (["NA", "?", "-"], "ignore"),
    ],
)
def test_infers_the_type(values: list[object], kind: str) -> None:
    assert inferred(values) == kind


def test_gives_reasons() -> None:
    frame = table(a=["1", "2", "x", *["3"] * 40], b=["2024-05-01"] * 42 + ["later"], c=["02134"] * 42 + ["1"])
    why = {name: found.why for name, found in infer_types(frame, {}).items()}
    assert why == {
        "a": "strings of numbers; 1 others, such as 'x', are missing",
        "b": "dates, year first; 1 others, such as 'later', are missing",
        "c": "codes: some digits start with 0",
    }


def test_warns_of_decimal_commas() -> None:
    with pytest.warns(UserWarning, match="column 'a' has the type 'category': numbers with decimal commas"):
        assert inferred(["1,5", "2,25", "3,0"]) == "category"


def test_warns_of_decimal_commas_after_thousands() -> None:
    with pytest.warns(UserWarning, match="numbers with decimal commas"):
        inferred(["3.034,40", "425,28", "12.000"])


def test_given_types_are_kept() -> None:
    found = infer_types(table(a=[1, 2, 3], b=["x", "y", "x"]), {"a": "category"})
    assert (found["a"].type, found["a"].why) == ("category", "given")
    assert found["b"].type == "category"


def test_cells_of_another_type_are_errors_if_the_type_is_given() -> None:
    frame = table(a=["1", "2", "x", *["3"] * 40])
    with pytest.raises(ValueError, match=r"row 2 of X: column 'a' holds 'x': the column's type is 'number'.*types="):
        TableEncoder.learn(frame, {"a": "number"})
    with pytest.raises(ValueError, match=r"row 2 of X: column 'a' holds 'x': the column's type is 'date'"):
        TableEncoder.learn(table(a=["2024-05-01", "2024-05-02", "x"]), {"a": "date"})


def test_cells_of_another_type_are_missing_if_the_training_rows_had_such() -> None:
    encoder = TableEncoder.learn(table(a=["1", "2", "x", *["3"] * 40]), {})
    assert np.isnan(encoder.matrix(table(a=["y"]))[0]).all()


def test_new_cells_of_another_type_are_errors_if_the_training_rows_had_none() -> None:
    encoder = TableEncoder.learn(table(a=[1.0, 2.0, 4.0]), {})
    with pytest.raises(ValueError, match="row 1 of X: column 'a' holds 'high': the column's type is 'number'"):
        encoder.rows(table(a=["3", "high"]))


def test_an_error_names_the_line_of_a_file(tmp_path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("price,name\n1.5,a\n2.5,b\ncheap,a\n")
    with pytest.raises(ValueError, match=r"prices\.csv, line 4: column 'price' holds 'cheap'"):
        TableEncoder.learn(read_frame(path), {"price": "number"})


@pytest.mark.parametrize("cell", [{"a": 1}, [1, 2]])
def test_refuses_unhashable_cells(cell: object) -> None:
    with pytest.raises(ValueError, match=r"row 1 of X: column 'a' holds .*: use one string, number"):
        TableEncoder.learn(table(a=["x", cell, "x"]), {"a": "category"})


def test_refuses_cells_that_hold_no_list() -> None:
    with pytest.raises(ValueError, match=r"row 1 of X: column 'a' holds .*: use a list of strings"):
        TableEncoder.learn(table(a=[["x"], {"a": 1}]), {"a": "ids"})
    with pytest.raises(ValueError, match=r"row 1 of X: column 'a' holds .*: use one string"):
        TableEncoder.learn(table(a=[["x"], ["y", ["z"]]]), {"a": "ids"})


def test_columns_of_mixed_values_are_categories() -> None:
    values = [1, "x", 2.0, None, True, "x", "2", b"x", 1]
    encoder = TableEncoder.learn(table(a=values), {})
    assert encoder.columns[0].type == "category"
    codes = encoder.matrix(table(a=values))[0][:, 0]
    assert codes[1] == codes[5] == codes[7]
    assert codes[2] == codes[6]
    assert np.isnan(codes[3])


def test_infers_dicts_as_unusable_with_their_place() -> None:
    with pytest.raises(ValueError, match="row 0 of X: column 'a' holds"):
        infer_types(table(a=[{"x": 1}, {"x": 2}]), {})


def test_refuses_strings_that_no_file_can_hold() -> None:
    for kind in ("category", "text", "categories"):
        with pytest.raises(ValueError, match=r"row 1 of X: column 'a' holds .*: half of a surrogate pair"):
            TableEncoder.learn(table(a=["x", "\ud800", "x"]), {"a": kind})


@pytest.mark.parametrize("values", [[[0.5, 1.0], [0.25, 2.0]], [np.array([0.5, 1.0]), np.array([0.25, 2.0])]])
def test_refuses_embeddings_as_a_column(values):
    frame = read_frame({"e": values})
    with pytest.raises(ValueError, match=r"row 0 of X: column 'e' holds lists of fractions.*BlendClassifier.*'ignore'"):
        infer_types(frame, {})
    assert infer_types(frame, {"e": "ignore"})["e"].type == "ignore"
    assert infer_types(read_frame({"e": [[1, 2], [3]]}), {})["e"].type == "ids"
