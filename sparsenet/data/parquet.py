"""Rows of Parquet files, which pyarrow reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from sparsenet.core.validation import is_missing
from sparsenet.data.columns import Column, Columns, joined, quoted_names
from sparsenet.data.errors import DataError, quoted
from sparsenet.data.rows import Row, is_blank, is_not_finite, label_name, number

#: Rows that are decoded at a time.
ROWS_AT_A_TIME = 64


def parquet_rows(path: str, columns: Columns) -> Iterator[Row]:
    """Yield the rows of a Parquet file; what of a table is its line is here the number of the row, from 0."""
    with _opened(path) as file:
        names = _names(path, file.schema_arrow.names, columns)
        first = 0
        for batch in file.iter_batches(ROWS_AT_A_TIME, columns=list(dict.fromkeys(names.values()))):
            cells = {column: batch.column(name).to_pylist() for column, name in names.items()}
            for row in range(len(batch)):
                yield _row(path, {column: own[row] for column, own in cells.items()}, names, columns, first + row)
            first += len(batch)


def parquet_names(path: str) -> list[str]:
    """Return what the columns of a Parquet file are called."""
    with _opened(path) as file:
        return list(file.schema_arrow.names)


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow") from error
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(path, None, f"is no Parquet file, or a damaged one: {error}") from None


def _names(path: str, names: list[str], columns: Columns) -> dict[Column, str]:
    """Return what each column that is wanted is called."""
    found = {c: names[c] if isinstance(c, int) and 0 <= c < len(names) else c for c in columns.wanted()}
    for column in found.values():
        if column not in names:
            raise DataError(path, None, f"there is no column {column!r}; there are {', '.join(names)}")
        if names.count(str(column)) > 1:
            raise DataError(path, None, f"column {column!r} is there twice; rename one")
    clash = columns.clash(found.__getitem__)
    if clash is not None:
        raise DataError(path, None, clash)
    return {column: str(name) for column, name in found.items()}


def _row(path: str, cells: dict[Column, Any], names: dict[Column, str], columns: Columns, row: int) -> Row:
    reading: Sequence[Column] = ()

    def as_text(own: Sequence[Column], cell: Any) -> str:
        nonlocal reading
        reading = own
        return _text(cell)

    text, labels, numbers = "", [], []
    try:
        if columns.text:
            text = joined(columns.text, [cells[column] for column in columns.text], as_text)
        if columns.target is not None:
            reading = [columns.target]
            labels = _labels(cells[columns.target], columns.label_delimiter)
        for column in columns.features:
            reading = [column]
            cell = cells[column]
            numbers.append(number(float(cell) if isinstance(cell, Decimal) else cell))
    except ValueError as error:
        where = quoted_names([names[column] for column in reading])
        raise DataError(path, None, f"row {row}: column {where} {error}") from None
    return Row(text, labels, numbers, row)


def _text(cell: Any) -> str:
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    if not isinstance(cell, str):
        raise ValueError(f"must hold texts, got {cell!r}; fill missing texts in with '', or leave them out")
    return cell


def _labels(cell: Any, label_delimiter: str | None) -> list[str]:
    if isinstance(cell, str) and label_delimiter is not None:
        labels = [part for part in map(str.strip, cell.split(label_delimiter)) if part]
    else:
        cells: Sequence[Any] = cell if isinstance(cell, list) else [] if is_missing(cell) or is_blank(cell) else [cell]
        labels = [_label(label) for label in cells]
    if len(set(labels)) < len(labels):
        raise ValueError(f"holds the label {quoted(max(labels, key=labels.count))} twice")
    return labels


def _label(label: Any) -> str:
    if is_missing(label) or is_blank(label) or is_not_finite(label) or isinstance(label, bytes | list | dict):
        raise ValueError(f"must hold labels, texts or numbers, got {label!r}")
    return label_name(label)
