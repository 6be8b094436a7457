"""Names of the columns that a model learnt from, and of the columns in a file."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BufferedReader, BytesIO
from typing import Any, NotRequired, TypedDict, cast

from sparsenet.data.codecs import find_codec
from sparsenet.data.columns import Column, text_columns
from sparsenet.data.dialect import NO_FILE, Dialect, LearntFile
from sparsenet.data.formats import TableFormat, is_parquet, table_format
from sparsenet.data.lines import text_lines
from sparsenet.data.parquet import parquet_names
from sparsenet.data.sources import PathOrStream, open_source
from sparsenet.data.table_rows import json_object, table_records
from sparsenet.features.text.text_files import FileRules
from sparsenet.storage import ModelError


class KnownColumns(TypedDict):
    """Names of the columns of texts and labels that a model learnt from, and the delimiter of several labels.

    `file` holds the format and dialect of the training file, unless they are the default ones.
    """

    text: list[str]
    target: str | None
    label_delimiter: str | None
    file: NotRequired[dict[str, Any]]


def learnt_from(path: str | os.PathLike[str], rules: FileRules) -> KnownColumns | None:
    """Return the names of the columns of a file, to read other files by; None if it has no names."""
    table = table_format(path) if rules.format == "auto" else rules.format
    if not is_parquet(path) and table in (None, "lines"):
        return None
    columns = [*rules.text, rules.target]
    kinds = {type(column) for column in columns}
    if int in kinds and (rules.dialect.header or is_parquet(path) or str in kinds):
        columns = _by_name(columns, names_in(path, cast(TableFormat | None, table), rules.dialect))
    # Names of columns imply a header.
    learnt = LearntFile.of(path, rules.format, replace(rules.dialect, header=None))
    return columns_by_name(columns[:-1], columns[-1], rules.label_delimiter, learnt)


def _by_name(columns: list[Column | None], names: list[str]) -> list[Column | None]:
    """Replace positions by names where the name at that position occurs once."""
    counts = Counter(names)
    unique = {place: name for place, name in enumerate(names) if name and counts[name] == 1}
    return [unique.get(column, column) if isinstance(column, int) else column for column in columns]


def columns_by_name(
    text: Sequence[object], target: object, label_delimiter: str | None = None, learnt: LearntFile = NO_FILE
) -> KnownColumns | None:
    """Return columns if all are given by name: positions may differ in other files."""
    names = [name for name in text if isinstance(name, str)]
    if len(names) < len(text) or not isinstance(target, str | None):
        return None
    known: KnownColumns = {"text": names, "target": target, "label_delimiter": label_delimiter}
    return known | {"file": learnt.as_json()} if learnt.dialect.given else known


def file_of(known: KnownColumns | None) -> LearntFile:
    """Return how the training file was read."""
    return LearntFile.of_json(None if known is None else known.get("file"))


def lasting(known: KnownColumns | None) -> KnownColumns | None:
    """Return the columns to save with a model; None if a data frame has names that are not strings."""
    if known is None:
        return None
    return columns_by_name(known["text"], known["target"], known["label_delimiter"], file_of(known))


def unpack(metadata: Mapping[str, Any]) -> KnownColumns | None:
    """Return the columns in the metadata of a model, if any; older models have a single column of texts."""
    found = metadata.get("columns")
    if found is None:
        return None
    columns = columns_by_name(
        text_columns(found["text"]), found["target"], found["label_delimiter"], LearntFile.of_json(found.get("file"))
    )
    if columns is None or not isinstance(found["label_delimiter"], str | None):
        raise ModelError(f"columns must be names, got {found!r}")
    return columns


def is_row_of(line: str, known: KnownColumns) -> bool:
    """Return whether a line that was read as a text is really the header or first object of a table with these columns.

    One column of texts is enough. A header has no blank after a comma; a text has one.
    """
    fields = {field.strip('"') for separator in ",\t" for field in line.split(separator)} - {line}
    return any(name in fields or (line.startswith("{") and f'"{name}"' in line) for name in known["text"])


def names_in(path: str | os.PathLike[str], table: TableFormat | None, dialect: Dialect) -> list[str]:
    """Return the names of the columns of a file, without consuming any of it.

    The result is empty for plain lines, for named pipes, which can be read only once, and for standard input whose
    buffer does not hold a complete, uncompressed first row.
    """
    if os.fspath(path) == "-":
        pipe = sys.stdin.buffer
        head = pipe.peek() if isinstance(pipe, BufferedReader) else b""  # a replacement may have no buffer
        line, newline, _ = head.partition(b"\n")
        whole = newline and not find_codec(head) and line.count(b'"') % 2 == 0
        return _names(BytesIO(line + newline), table, dialect) if whole and table is not None else []
    if not os.path.isfile(path):
        return []
    if is_parquet(path):
        return parquet_names(os.fspath(path))
    return _names(path, table, dialect) if table is not None else []


def _names(source: PathOrStream, table: TableFormat, dialect: Dialect) -> list[str]:
    """Read the names in the first row of a table; errors are raised as for the whole file."""
    with open_source(source) as opened:
        if table == "jsonl":
            first = next((line for line in text_lines(opened) if line.text.strip()), None)
            return [] if first is None else [str(key) for key in json_object(first.text, opened.name, first.number)]
        row = next(table_records(opened, table, dialect), None)
        return [] if row is None else row.fields
