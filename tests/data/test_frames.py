"""Frames: columns by name from data frames, mappings, lists of dicts and files."""

import gzip
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from sparsenet.data import DataError
from sparsenet.data.dialect import Dialect
from sparsenet.data.frame_files import read_columns
from sparsenet.data.frames import Frame, is_frame, read_frame
from sparsenet.data.sources import ReadSizes, Source

WHEN = datetime(2024, 2, 29, 12, 30, 1, 500)
COLUMNS = {
    "user": ["ann", None, "bob"],
    "price": [1.5, None, 3.0],
    "count": [1, 2, 3],
    "new": [True, False, True],
    "when": [WHEN, None, WHEN + timedelta(days=1)],
    "tags": [["a", "b"], [], ["c"]],
}
EXPECTED = {
    "user": (object, ["ann", None, "bob"]),
    "price": (np.float64, [1.5, math.nan, 3.0]),
    "count": (np.int64, [1, 2, 3]),
    "new": (bool, [True, False, True]),
    "when": ("datetime64[us]", np.array([WHEN, "NaT", WHEN + timedelta(days=1)], "datetime64[us]")),
    "tags": (object, [["a", "b"], [], ["c"]]),
}


def rows(columns):
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def in_parquet(columns, path):
    parquet.write_table(pa.table(columns), path / "columns.parquet")
    return path / "columns.parquet"


MAKERS = {
    "mapping": lambda columns, path: columns,
    "dicts": lambda columns, path: rows(columns),
    "pandas": lambda columns, path: pd.DataFrame(columns),
    "pandas nullable": lambda columns, path: pd.DataFrame(columns).convert_dtypes(),
    "polars": lambda columns, path: pl.DataFrame(columns),
    "arrow": lambda columns, path: pa.table(columns),
    "parquet": in_parquet,
    "frame": lambda columns, path: read_frame(columns),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_holds_the_same_columns_whatever_they_come_from(maker, tmp_path):
    frame = read_frame(MAKERS[maker](COLUMNS, tmp_path))
    assert frame.names == list(COLUMNS)
    assert len(frame) == 3
    for name, (dtype, values) in EXPECTED.items():
        assert frame[name].dtype == np.dtype(dtype), name
        np.testing.assert_array_equal(frame[name], np.asarray(values, dtype) if name != "tags" else frame[name])
    assert [list(cell) for cell in frame["tags"]] == COLUMNS["tags"]
    assert {type(cell) for cell in frame["tags"]} == {list}


@pytest.mark.parametrize("maker", MAKERS)
def test_reads_only_the_wanted_columns_that_are_there(maker, tmp_path):
    frame = read_frame(MAKERS[maker](COLUMNS, tmp_path), columns=["count", "user", "nothing"])
    assert frame.names == ["user", "count"]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_takes_frames_without_rows(make):
    frame = read_frame(make({"user": [], "price": []}))
    assert (len(frame), frame.names) == (0, ["user", "price"])


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([Decimal("1.5"), 2], np.float64, [1.5, 2.0]),
        ([2**70, 1], np.float64, [2.0**70, 1.0]),
        ([-(10**400), 1], np.float64, [-math.inf, 1.0]),
        (np.array([2**63], np.uint64), np.float64, [2.0**63]),
        (np.array([1, 2], np.uint8), np.int64, [1, 2]),
        (np.array([1.5], np.float16), np.float64, [1.5]),
        ([True, None], object, [True, None]),
        ([1, "a", None], object, [1, "a", None]),
        ([math.nan, "a"], object, [None, "a"]),
        ([None, None], object, [None, None]),
        (np.array(["a", "b"]), object, ["a", "b"]),
        (np.ma.masked_array([1, 2], [False, True]), np.float64, [1.0, math.nan]),
        ([timedelta(hours=1), None], np.float64, [3600.0, math.nan]),
        (np.array([1500, "NaT"], "timedelta64[ms]"), np.float64, [1.5, math.nan]),
        ([(1, 2), (3,)], object, [[1, 2], [3]]),
        ([[1, 2], [3, 4]], object, [[1, 2], [3, 4]]),
        (pd.Series(["x", "y"], dtype="category"), object, ["x", "y"]),
        (pl.Series(["x", None]), object, ["x", None]),
        (range(3), np.int64, [0, 1, 2]),
    ],
)
def test_keeps_few_kinds_of_columns(values, dtype, expected):
    found = read_frame({"column": values})["column"]
    assert found.dtype == np.dtype(dtype)
    if dtype is object:
        assert found.tolist() == expected
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "value",
    [
        datetime(2024, 1, 1, 12, tzinfo=UTC),
        datetime(2024, 1, 1, 14, tzinfo=timezone(timedelta(hours=2))),
        datetime(2024, 1, 1, 12),
        np.datetime64("2024-01-01T12:00", "m"),
        pd.Timestamp("2024-01-01 07:00", tz="America/New_York"),
    ],
)
def test_converts_times_to_utc(value):
    assert read_frame({"when": [value]})["when"].tolist() == [datetime(2024, 1, 1, 12)]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_converts_times_of_frames_to_utc(make):
    times = [datetime(2024, 1, 1, 14, tzinfo=timezone(timedelta(hours=2)))]
    assert read_frame(make({"when": times}))["when"].tolist() == [datetime(2024, 1, 1, 12)]


def test_takes_dates_and_categories_of_frames():
    days = [date(2024, 1, 1), date(2024, 1, 2)]
    for frame in (pl.DataFrame({"day": days}), pa.table({"day": days})):
        assert read_frame(frame)["day"].tolist() == [datetime(2024, 1, 1), datetime(2024, 1, 2)]
    categories = pl.DataFrame({"kind": ["a", None]}, schema={"kind": pl.Categorical})
    assert read_frame(categories)["kind"].tolist() == ["a", None]


# --- files -----------------------------------------------------------------------------------------------------------


def test_reads_csv_as_text_with_empty_cells_missing(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text('user,price,note\n007,1.50,\n"a, b",,"two\nlines"\n')
    frame = read_frame(path)
    assert {name: frame[name].tolist() for name in frame.names} == {
        "user": ["007", "a, b"],
        "price": ["1.50", None],
        "note": [None, "two\nlines"],
    }
    assert frame.lines.tolist() == [2, 3]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", ["x,y", '"x",y'], ids=["plain", "quoted"])
def test_reads_blocks_and_rows_alike(tmp_path, monkeypatch, end, last):
    rows = [f"käse{i % 7},{i}" for i in range(100)]
    path = tmp_path / "log.csv"
    path.write_text(end.join(["name,number", *rows, "", last]) + end, newline="")
    whole, lines = read_frame(path), [*range(2, 102), 103]
    monkeypatch.setattr("sparsenet.data.frame_files.plain_columns", lambda block, separator: None)
    by_row = read_frame(path)
    for frame in (whole, by_row):
        assert frame["name"].tolist() == [*(row.split(",")[0] for row in rows), "x"]
        assert frame["number"].tolist() == [*map(str, range(100)), "y"]
        assert frame.lines.tolist() == lines


def test_reads_blocks_that_end_before_a_quote():
    stream = BytesIO(b"a,b\n" + b"1,2\n" * 50 + b'3,"4\n5"\n' + b"6,7\n" * 50)
    source = Source(stream, "log", sizes=ReadSizes(read=64, block=64))
    found = read_columns(source, None, "csv", Dialect(), None)
    assert found.columns["a"].tolist() == ["1"] * 50 + ["3"] + ["6"] * 50
    assert found.columns["b"][50] == "4\n5"
    assert found.lines[-1] == 103


@pytest.mark.parametrize(("name", "delimiter"), [("x.tsv", "\t"), ("x.csv", ";")])
def test_reads_other_delimiters_and_compressed_files(tmp_path, name, delimiter):
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(f"a{delimiter}b\n1{delimiter}2\n".encode()))
    frame = read_frame(path, dialect=Dialect(delimiter=delimiter))
    assert frame["b"].tolist() == ["2"]


def test_names_columns_by_position_without_a_header(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("ann,1\nbob,2\n")
    frame = read_frame(path, dialect=Dialect(header=False))
    assert (frame.names, frame["0"].tolist()) == (["0", "1"], ["ann", "bob"])


def test_shares_equal_cells_of_csv(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user\n" + "a rather long name\n" * 100)
    assert len({id(cell) for cell in read_frame(path)["user"]}) == 1


def test_reads_json_lines_whose_objects_lack_keys(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"user": "ann", "n": 1}\n\n{"n": 2, "tags": ["x"]}\n')
    frame = read_frame(path)
    assert {name: frame[name].tolist() for name in frame.names} == {
        "user": ["ann", None],
        "n": [1, 2],
        "tags": [None, ["x"]],
    }
    assert frame.lines.tolist() == [1, 3]


def test_reports_the_bytes_that_it_reads(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user\n" + "ann\n" * 1000)
    read: list[int] = []
    read_frame(path, on_bytes=read.append)
    assert sum(read) == path.stat().st_size


# --- rows and places -------------------------------------------------------------------------------------------------


def test_takes_rows_by_position_and_by_mask():
    frame = read_frame(COLUMNS)
    assert frame.take(np.array([2, 0]))["user"].tolist() == ["bob", "ann"]
    kept = frame.take(np.array([True, False, True]))
    assert (len(kept), kept["count"].tolist()) == (2, [1, 3])


def test_selects_and_drops_columns():
    frame = read_frame(COLUMNS)
    assert frame.select(["new", "user"]).names == ["new", "user"]
    assert frame.without(["user", "tags"]).names == ["price", "count", "new", "when"]
    assert "user" in frame
    assert "age" not in frame


def test_names_the_place_of_a_row(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user\nann\n\nbob\n")
    of_file, of_mapping = read_frame(path), read_frame({"user": ["ann"]}, argument="log")
    assert of_file.where(1) == f"{path}, line 4"
    assert of_mapping.where(0) == "row 0 of log"
    assert str(of_file.error("is odd", 1)) == f"{path}, line 4: is odd"
    assert str(of_mapping.error("is odd", 0)) == "row 0 of log: is odd"
    assert isinstance(of_file.error("is odd"), DataError)
    assert of_file.take(np.array([1])).where(0) == f"{path}, line 4"


@pytest.mark.parametrize(
    ("X", "expected"),
    [
        ({"a": [1]}, True),
        ([{"a": 1}], True),
        (pd.DataFrame({"a": [1]}), True),
        (pl.DataFrame({"a": [1]}), True),
        (pa.table({"a": [1]}), True),
        ("log.csv", True),
        (Path("log.csv"), True),
        (read_frame({"a": [1]}), True),
        (np.ones((2, 2)), False),
        ([[1, 2]], False),
        ([], False),
        (3, False),
    ],
)
def test_tells_frames_from_matrices(X, expected):
    assert is_frame(X) is expected


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ({"a": [1, 2], "b": [1]}, "log: column 'a' has 2 values and column 'b' has 1"),
        ({"a": np.ones((2, 2))}, r"log: column 'a' must have one dimension, got the shape \(2, 2\)"),
        ({"a": "text"}, "log: column 'a' must be a sequence of values, got str"),
        ({"a": 3}, "log: column 'a' must be a sequence of values, got int"),
        ({None: [1]}, "log: the column name None is no string and no whole number: rename it"),
        ({1: [1], "1": [2]}, "log: column '1' occurs twice"),
        ([{"a": 1}, [2]], "row 1 of log is a list: lists of rows must hold a dict for each row"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "log: column 'a' occurs twice"),
        (pd.DataFrame([[1, 2]], columns=[1.5, "a"]), "log: the column name 1.5 is no string"),
        (pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), "log: column 'a' occurs twice"),
        (pl.LazyFrame({"a": [1]}), r"log is a lazy LazyFrame: pass what its collect\(\)"),
        (np.ones((2, 2)), "log must be a data frame, a mapping of columns, a list of dicts or a path, got ndarray"),
    ],
)
def test_refuses_what_has_no_columns_of_equal_length(X, message):
    with pytest.raises(ValueError, match=message):
        read_frame(X, argument="log")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.csv", "", "x.csv: the file is empty"),
        ("x.csv", "\n\n", "x.csv: holds no row"),
        ("x.csv", "a,a\n1,2\n", "x.csv, line 1: column 'a' occurs twice"),
        ("x.csv", "a,b\n1,2\n3\n", "x.csv, line 3: 1 fields where the first row has 2"),
        ("x.jsonl", '{"a": 1}\n[1]\n', "x.jsonl, line 2: expected a JSON object"),
        ("x.jsonl", '{"a": 1, "a": 2}\n', "x.jsonl, line 1: column 'a' occurs twice"),
        ("x.parquet", "no", "x.parquet: is not a Parquet file"),
    ],
)
def test_names_the_line_of_a_damaged_file(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        read_frame(tmp_path / name)


def test_names_the_row_of_parquet_that_is_not_unicode(tmp_path):
    texts = pa.array([b"good", b"\xff"], pa.binary()).view(pa.string())
    parquet.write_table(pa.table({"user": texts}), tmp_path / "x.parquet")
    with pytest.raises(DataError, match="row 1: column 'user' holds a value that cannot be read"):
        read_frame(tmp_path / "x.parquet")


def test_names_missing_columns_and_what_is_there(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("user;item\nann;tea\n")
    with pytest.raises(DataError, match="item='item' is not a column; there are 'user;item'; its fields seem to be"):
        read_frame(path).require(["item"], "item")
    with pytest.raises(ValueError, match="log: time='when' is not a column; there are 'user'"):
        read_frame({"user": [1]}, argument="log").require(["when"], "time")


def test_refuses_options_of_files_and_unknown_formats(tmp_path):
    with pytest.raises(ValueError, match="format='csv' is for files, and X is none"):
        read_frame({"a": [1]}, format="csv")
    with pytest.raises(ValueError, match="header=False is for files"):
        read_frame({"a": [1]}, dialect=Dialect(header=False))
    with pytest.raises(ValueError, match=r"cannot tell the format of .*x\.log.* as csv, tsv, jsonl or parquet"):
        read_frame(tmp_path / "x.log")
    with pytest.raises(FileNotFoundError):
        read_frame(tmp_path / "x.csv")


def test_says_what_to_install_for_data_frames(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "narwhals", None)
    with pytest.raises(ImportError, match="pip install narwhals, or pass a dict of columns"):
        read_frame(pl.DataFrame({"a": [1]}))
    assert isinstance(read_frame({"a": [1]}), Frame)


def test_names_the_delimiter_of_a_file_with_decimal_commas(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("price;size\n1,5;2,5\n")
    with pytest.raises(DataError, match=r"line 2: 3 fields where the first row has 1; its fields .* delimiter=';'"):
        read_frame(path)


def test_whole_numbers_as_names_become_strings():
    for X in (pd.DataFrame([[1, 2]]), {0: [1], 1: [2]}, [{0: 1, 1: 2}]):
        frame = read_frame(X)
        assert frame.names == ["0", "1"]
        assert frame["1"].tolist() == [2]
    assert read_frame(pd.DataFrame([[1, 2]]), columns=["1"]).names == ["1"]


def test_columns_of_pandas_dates_are_dates():
    days = pd.Series(pd.date_range("2024-01-31", periods=3, freq="D"))
    forms = [days, days.dt.tz_localize("UTC"), days.astype(object), days.dt.date, days.dt.to_period("D")]
    for column in forms:
        frame = read_frame(pd.DataFrame({"when": column}))
        assert frame["when"].dtype == "datetime64[us]"
        assert str(frame["when"][0]) == "2024-01-31T00:00:00.000000"
    with_gap = read_frame(pd.DataFrame({"when": days.dt.to_period("D").where(days.dt.day != 1)}))
    assert np.isnat(with_gap["when"]).tolist() == [False, True, False]


def test_missing_and_null_keys_are_missing_values(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a": 1, "b": "x"}\n{"a": 2}\n{"a": 3, "b": null}\n')
    assert read_frame(tmp_path / "a.jsonl")["b"].tolist() == ["x", None, None]
