"""Read the columns of CSV, TSV, JSONL and Parquet files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import choice, first_repeated
from sparsenet.data.dialect import Dialect
from sparsenet.data.errors import DataError
from sparsenet.data.formats import TableFormat, text_format
from sparsenet.data.frame_columns import as_column, column_of
from sparsenet.data.lines import Line, Record, skip_blank, text_lines
from sparsenet.data.parquet import opened
from sparsenet.data.sources import OnBytes, PathOrStream, Source, name_of, open_source
from sparsenet.data.table_rows import json_object, table_records, wrong_number_of_fields

#: Rows that are held as rows before their cells join the columns.
ROWS_AT_A_TIME = 1 << 14
FORMATS = ("auto", *get_args(TableFormat), "parquet")


class FileColumns(NamedTuple):
    """The columns of a file, and the line of each row; None for Parquet, which has no lines."""

    columns: dict[str, NDArray[Any]]
    lines: NDArray[np.int64] | None


def read_columns(
    path: PathOrStream, wanted: Sequence[str] | None, format: str, dialect: Dialect, on_bytes: OnBytes | None
) -> FileColumns:
    """Read the `wanted` columns of a file that there are; None: all. Cells of CSV and TSV stay text, None if empty."""
    choice("format", format, FORMATS)
    found = text_format(path) if format == "auto" else format
    if found is None or found == "lines":
        raise ValueError(
            f"cannot tell the format of {name_of(path)!r} by its name: give format= as one of {FORMATS[1:]}"
        )
    dialect.check_for(found)  # type: ignore[arg-type]  # one of `FORMATS`
    if found == "parquet":
        return FileColumns(_parquet_columns(path, wanted), None)
    read: Callable[..., FileColumns] = _json_columns if found == "jsonl" else _delimited_columns
    with open_source(path, on_bytes) as source:
        return read(source, wanted, found, dialect)


def _delimited_columns(
    source: Source, wanted: Sequence[str] | None, table: TableFormat, dialect: Dialect
) -> FileColumns:
    records = table_records(source, table, dialect)
    first = next(records, None)
    if first is None:
        raise DataError(source.name, None, "holds no row: the first must hold the names of columns")
    names = first.fields
    if dialect.header is False:  # positions are the names
        names, records = [str(i) for i in range(len(names))], _with(first, records)
    _check_distinct(source.name, first.number, names)
    chosen = [i for i, name in enumerate(names) if wanted is None or name in wanted]
    cells: list[list[str | None]] = [[] for _ in chosen]
    known: list[dict[str, str]] = [{} for _ in chosen]  # equal cells share one string
    lines: list[int] = []
    while rows := list(islice(records, ROWS_AT_A_TIME)):
        for fields, number in rows:
            if len(fields) != len(names):
                wrong = wrong_number_of_fields(fields, len(names), many_lines=bool(dialect.has_quotes(table)))
                raise DataError(source.name, number, wrong)
        lines += [row.number for row in rows]
        for own, shared, i in zip(cells, known, chosen, strict=True):
            own += [shared.setdefault(row.fields[i], row.fields[i]) or None for row in rows]
            if len(shared) > len(own) // 2:
                shared.clear()  # mostly distinct: sharing takes more memory than it saves
    columns = {names[i]: column_of(own) for own, i in zip(cells, chosen, strict=True)}
    return FileColumns(columns, np.array(lines, np.int64))


def _with(first: Record, rest: Iterator[Record]) -> Iterator[Record]:
    yield first
    yield from rest


def _json_columns(source: Source, wanted: Sequence[str] | None, table: TableFormat, dialect: Dialect) -> FileColumns:
    """Read JSON objects; a key that an object lacks is a missing value."""
    lines: Iterator[Line] = skip_blank(text_lines(source), None)
    cells: dict[str, list[Any]] = {}
    numbers: list[int] = []
    for line in lines:
        found = json_object(line.text, source.name, line.number)
        for name, value in found.items():
            if wanted is None or name in wanted:
                own = cells.setdefault(str(name), [])
                own += [None] * (len(numbers) - len(own))
                own.append(value)
        numbers.append(line.number)
    for own in cells.values():
        own += [None] * (len(numbers) - len(own))
    return FileColumns({name: column_of(own) for name, own in cells.items()}, np.array(numbers, np.int64))


def _parquet_columns(path: PathOrStream, wanted: Sequence[str] | None) -> dict[str, NDArray[Any]]:
    name = name_of(path)
    with opened(name) as file:
        names = list(file.schema_arrow.names)
        _check_distinct(name, None, names)
        chosen = [each for each in names if wanted is None or each in wanted]
        table = file.read(columns=chosen)
        return {each: arrow_column(table.column(each), each, name) for each in chosen}


def arrow_column(values: Any, column: str, path: str) -> NDArray[Any]:
    """Convert a column of Arrow; a DataError names a row that no Python object can hold."""
    import pyarrow

    kind = values.type
    if pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind):
        if values.null_count == 0 or not pyarrow.types.is_boolean(kind):
            return as_column(values.to_numpy(), column)
    elif pyarrow.types.is_timestamp(kind):  # in UTC, whatever its time zone
        return as_column(values.cast(pyarrow.timestamp("us")).to_numpy(), column)
    try:
        return column_of(values.to_pylist())
    except (ValueError, OverflowError, LookupError):
        for row in range(len(values)):
            try:
                values[row].as_py()
            except (ValueError, OverflowError, LookupError) as error:
                problem = f"row {row}: column {column!r} holds a value that cannot be read: {error}"
                raise DataError(path, None, problem) from None
        raise


def _check_distinct(path: str, line: int | None, names: Sequence[str]) -> None:
    repeated = first_repeated(names)
    if repeated is not None:
        raise DataError(path, line, f"column {repeated!r} occurs twice; rename one")
