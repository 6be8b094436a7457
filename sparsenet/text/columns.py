"""Columns of tables by name: those that a model learnt from, and those that a file has."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from io import BufferedReader, BytesIO
from typing import Any

from sparsenet.data.codecs import find_codec
from sparsenet.data.columns import Column
from sparsenet.data.dialect import Dialect
from sparsenet.data.formats import TableFormat, is_parquet, table_format
from sparsenet.data.lines import text_lines
from sparsenet.data.parquet import parquet_names
from sparsenet.data.rows import json_object, table_records
from sparsenet.data.sources import PathOrStream, open_source
from sparsenet.storage import ModelError
from sparsenet.text.files import FileRules

#: The names of the columns of texts and labels, and what separates several labels, if anything does.
Columns = dict[str, str | None]


def learnt_from(path: str | os.PathLike[str], rules: FileRules) -> Columns | None:
    """Return what the columns of a file are called, by which another one is read; None where it has no names."""
    is_table = is_parquet(path) or (table_format(path) if rules.format == "auto" else rules.format != "lines")
    return named(rules.text, rules.target, rules.label_delimiter) if is_table else None


def named(text: Column, target: Column | None, label_delimiter: str | None = None) -> Columns | None:
    """Return columns that are called by name; a position says nothing of other files."""
    if not isinstance(text, str) or not isinstance(target, str):
        return None
    return {"text": text, "target": target, "label_delimiter": label_delimiter}


def texts_in(X: Any, known: Columns | None) -> Any:
    """Return the column of a data frame that a model learnt its texts from, if it has such a one; else X as it is."""
    names = list(getattr(X, "column_names", getattr(X, "columns", ())))
    return X[known["text"]] if known is not None and names.count(known["text"]) == 1 else X


def unpack(metadata: Mapping[str, Any]) -> Columns | None:
    """Return the columns that a saved model learnt from, if it knows some."""
    found = metadata.get("columns")
    if found is None:
        return None
    columns = named(found["text"], found["target"], found["label_delimiter"])
    if columns is None or not isinstance(found["label_delimiter"], str | None):
        raise ModelError(f"columns must be names, got {found!r}")
    return columns


def is_row_of(line: str, known: Columns) -> bool:
    """Tell whether a line that was taken for a text is the header, or the first object, of a table with a column.

    In a header no blank follows a comma, as it does in a text.
    """
    fields = {field.strip('"') for separator in ",\t" for field in line.split(separator)}
    return known["text"] in fields - {line} or (line.startswith("{") and f'"{known["text"]}"' in line)


def names_in(path: str | os.PathLike[str], table: TableFormat | None, dialect: Dialect) -> list[str]:
    """Return what the columns of a file are called, which is read on from its beginning afterwards.

    None are found in lines, in a pipe with a name of its own, which could be read but once, and where standard input
    does not begin with a whole first row as it is.
    """
    if os.fspath(path) == "-":
        pipe = sys.stdin.buffer
        head = pipe.peek() if isinstance(pipe, BufferedReader) else b""  # what took its place may not
        line, newline, _ = head.partition(b"\n")
        whole = newline and not find_codec(head) and line.count(b'"') % 2 == 0
        return _names(BytesIO(line + newline), table, dialect) if whole and table is not None else []
    if not os.path.isfile(path):
        return []
    if is_parquet(path):
        return parquet_names(os.fspath(path))
    return _names(path, table, dialect) if table is not None else []


def _names(source: PathOrStream, table: TableFormat, dialect: Dialect) -> list[str]:
    """Read the first row of a table; what is wrong with it is what is wrong with the file."""
    with open_source(source) as opened:
        if table == "jsonl":
            first = next((line for line in text_lines(opened) if line.text.strip()), None)
            return [] if first is None else [str(key) for key in json_object(first.text, opened.name, first.number)]
        row = next(table_records(opened, table, dialect), None)
        return [] if row is None else row.fields
