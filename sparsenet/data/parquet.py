"""Read the rows of Parquet files with pyarrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from sparsenet.core.validation import first_repeated, is_missing
from sparsenet.data.columns import Column, TableColumns, joined, quoted_names
from sparsenet.data.errors import DataError, quoted
from sparsenet.data.table_rows import Row, is_blank, is_not_finite, label_name, number

#: Number of rows that are decoded at a time.
ROWS_AT_A_TIME = 64
#: Errors that pyarrow raises for a cell that no Python object can hold: text that is not UTF-8, a date after the year
#: 9999, an unknown time zone.
_UNREADABLE = (ValueError, OverflowError, LookupError)


def parquet_rows(path: str, columns: TableColumns) -> Iterator[Row]:
    """Yield the rows of a Parquet file. Their `line` is the number of the row, counted from 0."""
    with _opened(path) as file:
        names = _names(path, file.schema_arrow.names, columns)
        first = 0
        for batch in file.iter_batches(ROWS_AT_A_TIME, columns=list(dict.fromkeys(names.values()))):
            values = {column: batch.column(name) for column, name in names.items()}
            try:
                cells = {column: own.to_pylist() for column, own in values.items()}
            except _UNREADABLE:  # convert cell by cell: the rows before the bad cell are still yielded
                cells = None
            for row in range(len(batch)):
                if cells is not None:
                    own = {column: cells[column][row] for column in names}
                else:
                    own = {column: _cell(path, names[column], values[column][row], first + row) for column in names}
                yield _row(path, own, names, columns, first + row)
            first += len(batch)


def parquet_names(path: str) -> list[str]:
    """Return the names of the columns of a Parquet file."""
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
    except UnicodeDecodeError:
        raise DataError(path, None, "is no Parquet file, or a damaged one: a column's name is not UTF-8") from None
    except (pyarrow.ArrowException, OSError) as error:
        found = " ".join(str(error).split())  # some of pyarrow's messages have several lines
        raise DataError(path, None, f"is no Parquet file, or a damaged one: {found}") from None


def _names(path: str, names: list[str], columns: TableColumns) -> dict[Column, str]:
    """Return the name of each column to read, given by its name or position."""
    found = {c: names[c] if isinstance(c, int) and 0 <= c < len(names) else c for c in columns.wanted()}
    counts = Counter(names)
    for column in found.values():
        if column not in counts:
            raise DataError(path, None, f"there is no column {column!r}; there are {', '.join(names)}")
        if counts[str(column)] > 1:
            raise DataError(path, None, f"column {column!r} is there twice; rename one")
    clash = columns.clash(found.__getitem__)
    if clash is not None:
        raise DataError(path, None, clash)
    return {column: str(name) for column, name in found.items()}


def _row(path: str, cells: dict[Column, Any], names: dict[Column, str], columns: TableColumns, row: int) -> Row:
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


def _cell(path: str, name: str, cell: Any, row: int) -> Any:
    """Convert a cell of pyarrow to a Python object."""
    try:
        return cell.as_py()
    except UnicodeDecodeError as error:
        byte = f"byte 0x{error.object[error.start]:02x} at position {error.start + 1}"
        problem = f"holds text that is not UTF-8, {byte}: write the file with UTF-8"
    except _UNREADABLE as error:
        problem = f"holds a value that cannot be read: {error}"
    raise DataError(path, None, f"row {row}: column {name!r} {problem}")


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
    twin = first_repeated(labels)
    if twin is not None:
        raise ValueError(f"holds the label {quoted(twin)} twice")
    return labels


def _label(label: Any) -> str:
    if is_missing(label) or is_blank(label) or is_not_finite(label) or isinstance(label, bytes | list | dict):
        raise ValueError(f"must hold labels, texts or numbers, got {label!r}")
    return label_name(label)
