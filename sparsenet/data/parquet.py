"""Read the rows of Parquet files with pyarrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sparsenet.core.validation import is_missing
from sparsenet.data.columns import TableColumns
from sparsenet.data.errors import DataError
from sparsenet.data.table_rows import Row, make_row

#: Number of rows that are decoded at a time.
ROWS_AT_A_TIME = 64
#: Errors that pyarrow raises for a cell that no Python object can hold: text that is not UTF-8, a date after the year
#: 9999, an unknown time zone.
_UNREADABLE = (ValueError, OverflowError, LookupError)


def parquet_rows(path: str, columns: TableColumns) -> Iterator[Row]:
    """Yield the rows of a Parquet file. Their `line` is the number of the row, counted from 0."""
    with opened(path) as file:
        columns = _by_name(path, file.schema_arrow.names, columns)
        wanted = list(dict.fromkeys(map(str, columns.wanted())))
        row = 0
        for batch in file.iter_batches(ROWS_AT_A_TIME, columns=wanted):
            values = {name: batch.column(name) for name in wanted}
            try:
                cells: dict[str, Any] = {name: column.to_pylist() for name, column in values.items()}
            except _UNREADABLE:  # convert cell by cell: the rows before the bad cell are still yielded
                cells = values
            for i in range(len(batch)):
                try:
                    found = make_row({name: _cell(name, cells[name][i]) for name in wanted}, columns, row)
                except ValueError as error:
                    raise DataError(path, None, f"row {row}: {error}") from None
                yield found
                row += 1


def parquet_names(path: str) -> list[str]:
    """Return the names of the columns of a Parquet file."""
    with opened(path) as file:
        return list(file.schema_arrow.names)


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """Open a Parquet file; errors name it."""
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
        raise DataError(path, None, "is not a Parquet file, or is damaged: a column's name is not UTF-8") from None
    except (pyarrow.ArrowException, OSError) as error:
        found = " ".join(str(error).split())  # some of pyarrow's messages have several lines
        raise DataError(path, None, f"is not a Parquet file, or is damaged; fetch or write it again: {found}") from None


def _by_name(path: str, names: list[str], columns: TableColumns) -> TableColumns:
    """Replace positions of columns by their names; refuse columns that are not there, or are there twice."""
    found = {c: names[c] if isinstance(c, int) and 0 <= c < len(names) else c for c in columns.wanted()}
    counts = Counter(names)
    for column in found.values():
        if column not in counts:
            raise DataError(path, None, f"there is no column {column!r}; there are {', '.join(names)}")
        if counts[str(column)] > 1:
            raise DataError(path, None, f"column {column!r} occurs twice; rename one")
    clash = columns.clash(found.__getitem__)
    if clash is not None:
        raise DataError(path, None, clash)
    return TableColumns(
        text=[found[column] for column in columns.text],
        target=None if columns.target is None else found[columns.target],
        features=tuple(found[column] for column in columns.features),
        label_delimiter=columns.label_delimiter,
    )


def _cell(name: str, cell: Any) -> Any:
    """Convert a cell to a Python object, None if it is missing; refuse a cell that no Python object can hold."""
    if hasattr(cell, "as_py"):
        try:
            cell = cell.as_py()
        except UnicodeDecodeError as error:
            byte = f"byte 0x{error.object[error.start]:02x} at position {error.start + 1}"
            problem = f"holds text that is not UTF-8, {byte}: write the file with UTF-8"
            raise ValueError(f"column {name!r} {problem}") from None
        except _UNREADABLE as error:
            raise ValueError(f"column {name!r} holds a value that cannot be read: {error}") from None
    return None if is_missing(cell) else cell
