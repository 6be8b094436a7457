"""Texts in several columns of a table: how they are joined, and what is no column."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet as pq

from sparsenet.data import DataError, iter_table, read, read_table

ROWS = [("Printer", "It burns.", "x"), ("", "No paper", "y"), ("Thanks", "", "x"), ("", "", "y")]
JOINED = ["Printer\nIt burns.", "No paper", "Thanks", ""]
NAMES = ("title", "body", "label")


def write(path: Path, rows: list[tuple[Any, ...]] = ROWS) -> Path:
    if path.suffix == ".parquet":
        cells = [list(column) for column in zip(*rows, strict=True)]
        pq.write_table(pa.table(dict(zip(NAMES, cells, strict=True))), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(dict(zip(NAMES, row, strict=True))) + "\n" for row in rows))
    else:
        delimiter = "," if path.suffix == ".csv" else "\t"
        path.write_text("".join(delimiter.join(row) + "\n" for row in [NAMES, *rows]))
    return path


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_joins_texts_in_the_given_order(tmp_path, suffix):
    path = write(tmp_path / f"t.{suffix}")
    data = read_table(path, text=["title", "body"])
    assert (data.texts, data.labels) == (JOINED, [["x"], ["y"], ["x"], ["y"]])
    assert read(path, text=["title", "body"]).texts == JOINED
    assert [batch.texts for batch in iter_table(path, batch_rows=3, text=["title", "body"])] == [JOINED[:3], JOINED[3:]]
    assert read_table(path, text=["body", "title"]).texts[0] == "It burns.\nPrinter"
    assert read_table(path, text=["body"]).texts == read_table(path, text="body").texts


@given(st.lists(st.tuples(*[st.text("ab ,é", max_size=5)] * 3).filter(any), min_size=1))
def test_joins_any_cells_with_newlines(rows):
    raw = "".join(json.dumps(dict(zip("abc", row, strict=True))) + "\n" for row in rows).encode()
    data = read_table(io.BytesIO(raw), text=["c", "a", "b"], target=None, format="jsonl")
    assert data.texts == ["\n".join(cell for cell in (c, a, b) if cell) for a, b, c in rows]


@pytest.mark.parametrize("position", [int, np.int64, np.uint8])
def test_accepts_numpy_integers_as_positions(tmp_path, position):
    raw = b"x,Printer,It burns.\n"
    data = read_table(io.BytesIO(raw), text=[position(1), position(2)], target=0, format="csv")
    assert data.texts == JOINED[:1]
    assert read_table(io.BytesIO(raw), text=position(1), target=0, format="csv").texts == ["Printer"]
    path = write(tmp_path / "t.parquet")
    assert read_table(path, text=[position(0), position(1)], target="label").texts == JOINED
    with pytest.raises(DataError, match="line 1: there is no column 3: there are 3, counted from 0"):
        read_table(io.BytesIO(raw), text=[position(1), position(3)], target=0, format="csv")


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_rejects_a_column_given_by_name_and_position(tmp_path, suffix):
    path = write(tmp_path / f"t.{suffix}")
    assert read_table(path, text=["title", 1]).texts == JOINED
    with pytest.raises(DataError, match="columns 'title' and 0 are the same: name two"):
        read_table(path, text=["title", 0])
    with pytest.raises(DataError, match="columns 2 and 'label' are the same: name two"):
        read_table(path, text=["title", 2], target="label")


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_missing_cell_is_an_error_only_without_other_texts(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    rows = [("Printer", None, "x"), (None, "No paper", "y"), (None, "", "y")]
    assert read_table(write(path, rows), text=["title", "body"]).texts == ["Printer", "No paper", ""]
    write(path, [*rows, (None, None, "y")])
    with pytest.raises(DataError, match="column 'title' or 'body' must hold texts, got None; fill missing"):
        read_table(path, text=["title", "body"])
    with pytest.raises(DataError, match="column 'body' must hold texts, got None; fill missing"):
        read_table(path, text=["body"])


def test_missing_key_is_an_error():
    lines = b'{"title": "a", "body": "b", "label": "x"}\n{"title": "a", "label": "x"}\n'
    with pytest.raises(DataError, match="line 2: there is no key 'body'; there are 'title', 'label'"):
        read_table(io.BytesIO(lines), text=["title", "body"], format="jsonl")


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_error_names_the_column_of_a_cell_that_is_not_text(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    write(path, [("Printer", 7, "x")])
    with pytest.raises(DataError, match=r"(line 1|row 0): column 'body' must hold texts, got 7"):
        read_table(path, text=["title", "body"])


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
def test_error_names_a_missing_column(tmp_path, suffix):
    with pytest.raises(DataError, match=r"there is no (column|key) 'abstract'"):
        read_table(write(tmp_path / f"t.{suffix}"), text=["title", "abstract"])


@pytest.mark.parametrize(
    "text",
    [
        *(1.5, True, np.bool_(True), b"title", ("title", "body"), {"title", "body"}, {"title": 1}, np.array(["title"])),
        *([None], [1.0], [True], [b"title"], [["title"]], [("title", "body")], ["title", None]),
    ],
    ids=lambda text: type(text).__name__,
)
def test_rejects_invalid_columns(text):
    with pytest.raises(ValueError, match=r"^text must be the name of a column"):
        read_table(io.BytesIO(b"title,body,label\n"), text=text, format="csv")


def test_rejects_generators_of_columns():
    with pytest.raises(ValueError, match=r"^text must be the name .* or a list of such, got <generator"):
        iter_table(io.BytesIO(b""), batch_rows=1, text=(name for name in NAMES), format="csv")


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ([], "label", "text must name a column of texts, got an empty list"),
        (["title", "body", "title"], "label", r"text names the column 'title' twice, got \['title', 'body', 'title'\]"),
        ([0, np.int32(0)], 2, "text names the column 0 twice"),
        (["title", "label"], "label", "text and target are both 'label': name two columns"),
        ("label", "label", "text and target are both 'label': name two columns"),
    ],
)
def test_rejects_contradictory_columns(text, target, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        read_table(io.BytesIO(b"title,body,label\n"), text=text, target=target, format="csv")
