"""Reading logs: names, times and weights from every kind of source, and errors that name the row."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import coo_array, csr_array

from sparsenet import DataError
from sparsenet.data.dialect import Dialect
from sparsenet.features.log_names import find, item_mask
from sparsenet.features.logs import Log, LogColumns, LogFile, read_log

LOG = {
    "user": ["bob", "ann", "bob", "ann"],
    "item": ["pot", "tea", "tea", "tea"],
    "time": [3.0, 2.0, 1.0, 0.0],
    "amount": [1.0, 2.0, 3.0, 4.0],
}


def events(log: Log) -> list[tuple[Any, ...]]:
    """Return the events by name: user, item, time and weight."""
    own = log.interactions
    times = [None] * len(own) if own.times is None else own.times.tolist()
    return list(zip(log.users[own.users], log.items[own.items], times, own.weights.tolist(), strict=True))


def read(log: Any, user: Any = "user", item: Any = "item", time: Any = "auto", weight: Any = None, **file: Any) -> Log:
    return read_log(log, LogColumns.of(user, item, time, weight), LogFile(**file))


def test_orders_events_by_user_and_time() -> None:
    found = events(read(LOG, weight="amount"))
    assert found == [("ann", "tea", 0, 4), ("ann", "tea", 2, 2), ("bob", "tea", 1, 3), ("bob", "pot", 3, 1)]


def test_names_ascend_whatever_the_order_of_rows() -> None:
    log = read(LOG)
    assert log.users.tolist() == ["ann", "bob"]
    assert log.items.tolist() == ["pot", "tea"]
    assert read({"user": [3, 1, 2], "item": [9, 7, 8]}).users.tolist() == [1, 2, 3]


def test_repeated_events_add_up() -> None:
    log = read(LOG, weight="amount")
    assert log.interactions.histories().data.tolist() == [6, 1, 3]


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames_of_each_library_give_the_same_log(library: str) -> None:
    frames = pytest.importorskip(library)
    frame = frames.table(LOG) if library == "pyarrow" else frames.DataFrame(LOG)
    assert events(read(frame, weight="amount")) == events(read(LOG, weight="amount"))


def test_pandas_categories_are_names() -> None:
    pandas = pytest.importorskip("pandas")
    assert read(pandas.DataFrame(LOG).astype({"user": "category"})).users.tolist() == ["ann", "bob"]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_files_of_each_format_give_the_same_log(suffix: str, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame, path = pandas.DataFrame(LOG), tmp_path / f"log.{suffix}"
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
        frame.to_parquet(path)
    elif suffix == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, sep="," if suffix == "csv" else "\t", index=False)
    assert events(read(path, weight="amount")) == events(read(LOG, weight="amount"))


def test_positions_read_a_file_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "u.data"
    path.write_text("7\t30\t5\t100\n7\t20\t4\t99\n")
    log = read(path, user=0, item=1, time=3, weight=2, format="tsv")
    assert events(log) == [("7", "20", 99, 4), ("7", "30", 100, 5)]
    assert read(path, user=0, item=1, format="tsv").interactions.times is None


def test_delimiter_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user;item\nann;tea\n")
    assert events(read(path, dialect=Dialect(delimiter=";"))) == [("ann", "tea", None, 1)]
    with pytest.raises(DataError, match=r"user='user' is not a column.*delimiter=';'"):
        read(path)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        (["2026-03-31T18:30:00", "2026-03-31"], [1774981800, 1774915200]),
        (["2026-03-31 18:30+02:00", "2026-03-31T18:30Z"], [1774974600, 1774981800]),
        (["2026-03-31T1830Z", "2026-03-31T18:30"], [1774981800, 1774981800]),
        (["31/03/2026 18:30", "01/01/1970"], [1774981800, 0]),
        (["31 March 2026", "13/4/2026"], [1774915200, 1776038400]),
        (["17.5", "18"], [17.5, 18]),
        (["1774981800", "1774981801"], [1774981800, 1774981801]),
        ([np.datetime64("2026-03-31T18:30"), np.datetime64("1970-01-01")], [1774981800, 0]),
        ([datetime(2026, 3, 31, 18, 30, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)], [1774981800, 0]),
        ([2**40, 5], [2**40, 5]),
    ],
)
def test_times_from_strings_dates_and_numbers(written: list[Any], seconds: list[float]) -> None:
    log = read({"user": [1, 2], "item": [1, 2], "when": written}, time="when")
    assert log.interactions.times is not None
    assert log.interactions.times.tolist() == seconds


def test_finds_the_usual_names_of_times_and_needs_none() -> None:
    for log, time in ((LOG, "time"), ({"user": ["a"], "item": ["b"], "timestamp": [1]}, "timestamp")):
        columns = read(log).columns
        assert columns is not None
        assert columns.names()["time"] == time
    assert read({"user": ["a"], "item": ["b"]}).interactions.times is None
    assert read(LOG, time=None).interactions.times is None


def test_rows_of_weight_zero_are_left_out_with_their_names() -> None:
    log = read({"user": ["a", "b"], "item": ["x", "y"], "w": [0, 2]}, weight="w")
    assert log.users.tolist() == ["b"]
    assert log.items.tolist() == ["y"]


def test_matrices_have_numbers_as_names() -> None:
    matrix = csr_array([[0, 2.0, 0], [0, 0, 0], [1.0, 1.0, 0]])
    for own in (matrix, coo_array(matrix), matrix.tocsc()):
        log = read(own)
        assert events(log) == [(0, 1, None, 2), (2, 0, None, 1), (2, 1, None, 1)]
        assert log.users.tolist() == log.items.tolist() == [0, 1, 2]


def test_floats_that_are_whole_are_names() -> None:
    assert read({"user": [2.0, 1.0], "item": [5, 6]}).users.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"user": ["a", None]}, "row 1 of log: column 'user' is empty"),
        ({"user": ["a", ""]}, "row 1 of log: column 'user' is empty"),
        ({"item": [3.0, np.nan]}, "row 1 of log: column 'item' is empty"),
        ({"item": [3.5, 4]}, r"row 0 of log: column 'item' holds 3\.5: name users and items by strings"),
        ({"item": [True, False]}, "row 0 of log: column 'item' holds True and False"),
        ({"item": ["a", 3]}, "row 1 of log: column 'item' holds 3, and other rows hold str"),
        ({"item": [["a"], ["b"]]}, r"row 0 of log: column 'item' holds \['a'\], list"),
        ({"item": [{"a": 1}, "b"]}, "row 0 of log: column 'item' holds .*dict"),
        ({"item": [2**70, 1]}, r"row 0 of log: column 'item' holds 1\.18059e\+21, which is too large to be exact"),
        ({"item": ["a", "\ud800"]}, r"row 1 of log: column 'item' holds '\\ud800', half of a surrogate pair"),
        ({"time": ["2026-01-01", "yesterday"]}, "row 1 of log: column 'time' holds 'yesterday', which is not a time"),
        ({"time": ["5", "2026-01-01"]}, "row 0 of log: column 'time' holds '5', which is not a time"),
        ({"time": ["now", "1"]}, "row 0 of log: column 'time' holds 'now', which is not a time"),
        ({"time": ["2026-01-01", "2026-02-30"]}, "row 1 of log: column 'time' holds '2026-02-30', which is not a time"),
        ({"time": ["2026-01-01", "+026-01-01"]}, "row 1 of log: column 'time' holds .*, which is not a time"),
        ({"time": ["3/3/2026", "1/2/2026"]}, "row 1 of log: column 'time' holds '1/2/2026', which begins"),
        ({"time": [1.0, np.inf]}, "row 1 of log: column 'time' holds no time"),
        ({"time": ["1", None]}, "row 1 of log: column 'time' holds no time: fill it in"),
        ({"time": [True, False]}, "column 'time' holds True and False, and no times"),
        ({"w": [1, -2]}, "row 1 of log: column 'w' holds the weight -2"),
        ({"w": [1, np.nan]}, "row 1 of log: column 'w' is empty"),
        ({"w": [1, 1e39]}, r"row 1 of log: column 'w' holds the weight 1e\+39"),
        (
            {"w": ["1", "many"]},
            "row 1 of log: column 'w' holds 'many', which is not a number: correct it, or leave the row out",
        ),
        ({"w": [0, 0]}, "all weights in the column 'w' are 0"),
        ({"user": [], "item": [], "time": [], "w": []}, "log: holds no rows"),
        ({"user": ["a"]}, "column 'user' has 1 values and column 'item' has 2"),
    ],
)
def test_errors_name_row_column_and_value(changed: dict[str, Any], message: str) -> None:
    log = {"user": ["a", "b"], "item": ["x", "y"], "time": [1, 2], "w": [1, 1]} | changed
    with pytest.raises(ValueError, match=message):
        read(log, weight="w")


def test_errors_name_the_line_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text('user,item,time\n"a\nb",x,1\nc,,2\n')
    with pytest.raises(DataError, match=r"log\.csv, line 4: column 'item' is empty"):
        read(path)
    path.write_text("user,item,time\na,x,1\nb,y,soon\n")
    with pytest.raises(DataError, match=r"log\.csv, line 3: column 'time' holds 'soon'"):
        read(path)
    with pytest.raises(DataError, match=r"item='product' is not a column; there are 'user', 'item', 'time'"):
        read(path, item="product")
    path.write_text("user,user,item\na,a,x\n")
    with pytest.raises(DataError, match="column 'user' occurs twice"):
        read(path)
    path.write_text("")
    with pytest.raises(DataError, match="the file is empty"):
        read(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"user": None}, "user must be the name of a column, or its position in a file, got None"),
        ({"item": "user"}, "must be different columns, got 'user' twice"),
        ({"user": 0}, "columns must all be names or all positions, got user=0, item='item'"),
        ({"time": 1.5}, "time must be the name of a column"),
        (
            {"user": pd.Series(["a"])},
            r"user must be the name of a column \(a string or a position\), got a Series: pass",
        ),
        ({"item": pl.Series(["a"])}, "got a Series: pass the frame as log, and the name as item"),
        ({"weight": np.ones(2)}, "weight must be the name of a column .*, got a ndarray"),
        ({"time": ["time"]}, "time must be the name of a column .*, got a list"),
    ],
)
def test_rejects_bad_columns(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(LOG, **arguments)


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ([1, 2], "log must be a data frame, a mapping of columns, a path, or a SciPy sparse matrix"),
        (np.ones((2, 2)), "csr_array"),
        (csr_array([[0, -1.0]]), "log holds -1 in row 0, column 1: weights are at least 0"),
        (csr_array([[0, np.nan]]), "log holds NaN in row 0, column 1"),
        (csr_array((2, 3)), r"log of shape \(2, 3\) is empty"),
        (csr_array(np.array([[1j]])), "log must hold numbers"),
    ],
)
def test_rejects_what_is_no_log(log: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(log)


def test_arguments_for_columns_and_files_are_refused_for_others() -> None:
    with pytest.raises(ValueError, match="user='who' is for logs with columns, and log is a matrix"):
        read(csr_array([[1.0]]), user="who")
    with pytest.raises(ValueError, match="format='csv' is for files, and log is none"):
        read(LOG, format="csv")
    with pytest.raises(ValueError, match="user=0 is a position in a file, and log is none"):
        read(LOG, user=0, item=1)
    with pytest.raises(
        ValueError, match=r"user=0 is a position in a file of CSV or TSV, and log\.parquet is parquet: name"
    ):
        read("log.parquet", user=0, item=1)


def test_joined_logs_are_the_log_of_all_rows() -> None:
    whole = read(LOG, weight="amount")
    first, second = ({name: values[part] for name, values in LOG.items()} for part in (slice(0, 1), slice(1, 4)))
    joined = read(first, weight="amount").joined(read(second, weight="amount"))
    assert events(joined) == events(whole)
    assert joined.users.tolist() == whole.users.tolist()
    with pytest.raises(ValueError, match="the log has no times, and the log that the model learnt from has some"):
        whole.joined(read(LOG, time=None))


def test_over_gives_unknown_items_the_last_numbers() -> None:
    found = read({"user": ["a", "a", "a"], "item": ["tea", "new", "pot"]}).over(read(LOG).items)
    assert found.items.tolist() == [1, 2, 0]
    assert found.n_items == 3


def test_find_takes_one_name_arrays_and_series() -> None:
    items = read(LOG).items
    assert find(items, "tea", "items")[0].tolist() == [1]
    assert find(items, np.array(["tea", "cup"]), "items")[0].tolist() == [1, -1]
    assert find(items, [], "items")[0].tolist() == []
    assert find(np.array([2, 4]), np.int64(4), "items")[0].tolist() == [1]
    assert item_mask(items, ["pot"], "only").tolist() == [True, False]


def test_a_million_items() -> None:
    log = read({"user": np.arange(10**6) % 7, "item": np.arange(10**6)})
    assert len(log.items) == 10**6
