"""Read the columns of CSV, TSV, JSONL and Parquet files."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import choice, first_repeated
from sparsenet.data.blocks import Block, line_blocks
from sparsenet.data.dialect import UTF_8, Dialect
from sparsenet.data.errors import DataError
from sparsenet.data.formats import TableFormat, text_format
from sparsenet.data.frame_columns import as_column, column_of
from sparsenet.data.lines import PARQUET, Line, Record, skip_blank, text_lines
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
    if found in (None, "lines") and isinstance(path, str | os.PathLike) and os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if found is None or found == "lines":
        formats = f"{', '.join(FORMATS[1:-1])} or {FORMATS[-1]}"
        raise ValueError(f"cannot tell the format of {name_of(path)!r} by its name: give format= as {formats}")
    dialect.check_for(found)  # type: ignore[arg-type]  # one of `FORMATS`
    if found == "parquet":
        return FileColumns(_parquet_columns(path, wanted), None)
    read: Callable[..., FileColumns] = _json_columns if found == "jsonl" else _delimited_columns
    with open_source(path, on_bytes) as source:
        return read(source, wanted, found, dialect)


def _delimited_columns(
    source: Source, wanted: Sequence[str] | None, table: TableFormat, dialect: Dialect
) -> FileColumns:
    """Read CSV or TSV: in whole blocks up to the first with a quote or a fault, then row by row, which takes longer."""
    cells = _Cells(source.name, wanted, header=dialect.header is not False)
    blocks = line_blocks(source)
    for block in blocks:
        whole = plain_columns(block, dialect.separator(table)) if dialect.encoding in (None, UTF_8) else None
        if whole is None or not cells.fits(len(whole)):
            rows = table_records(source, table, dialect, blocks=chain([block], blocks))
            _add_rows(cells, rows, many_lines=bool(dialect.has_quotes(table)))
            break
        cells.add(whole, range(block.first_line, block.first_line + len(whole[0])))
    return cells.joined()


def plain_columns(block: Block, separator: str) -> list[list[str]] | None:
    """Return the cells of each column of a block; None if it needs to be read row by row."""
    raw = block.text.tobytes().replace(b"\r\n", b"\n")
    if any(odd in raw for odd in (b'"', b"\0", b"\r", b"\n\n")) or raw.startswith((b"\n", PARQUET)):
        return None
    is_mark = np.frombuffer(raw, np.uint8)
    is_end = is_mark == ord("\n")
    n, n_rows = raw.count(separator.encode(), 0, raw.index(b"\n")) + 1, np.count_nonzero(is_end)
    ends = is_end[is_end | (is_mark == ord(separator))] if separator.isascii() else is_end[:0]
    if len(ends) != n * n_rows or not ends[n - 1 :: n].all():
        return None
    try:
        text = raw.decode(UTF_8)
    except UnicodeDecodeError:
        return None
    cells = text[:-1].replace("\n", separator).split(separator)
    return [cells[i::n] for i in range(n)]


def _add_rows(cells: _Cells, rows: Iterator[Record], *, many_lines: bool) -> None:
    while batch := list(islice(rows, ROWS_AT_A_TIME)):
        first = cells.first or batch[0].fields
        for fields, number in batch:
            if len(fields) != len(first):
                raise DataError(cells.path, number, wrong_number_of_fields(fields, first, many_lines=many_lines))
        cells.add([list(own) for own in zip(*(row.fields for row in batch), strict=True)], [row[1] for row in batch])


class _Cells:
    """The cells of the wanted columns, from the first row on, which holds the names if there is a header."""

    def __init__(self, path: str, wanted: Sequence[str] | None, *, header: bool) -> None:
        self.path = path
        self.first: list[str] = []
        self._wanted, self._header = wanted, header
        self._columns: dict[str, list[str | None]] = {}
        self._places: list[int] = []
        self._known: list[dict[str, str | None]] = []  # equal cells share one string
        self._lines: list[int] = []

    def fits(self, n_fields: int) -> bool:
        """Return whether rows may have this number of fields."""
        return len(self.first) in (0, n_fields)

    def add(self, columns: list[list[str]], lines: Sequence[int]) -> None:
        """Append the cells of further rows."""
        if not self.first:
            columns, lines = self._begin(columns, lines)
        self._lines += lines
        for own, known, place in zip(self._columns.values(), self._known, self._places, strict=True):
            own += map(known.setdefault, columns[place], columns[place])
            if len(known) > len(own) // 2:  # mostly distinct: sharing takes more memory than it saves
                known.clear()
                known[""] = None

    def _begin(self, columns: list[list[str]], lines: Sequence[int]) -> tuple[list[list[str]], Sequence[int]]:
        """Learn the names of the columns; return the rows without them."""
        self.first = [own[0] for own in columns]
        names = [own[0] for own in columns] if self._header else [str(place) for place in range(len(columns))]
        _check_distinct(self.path, lines[0], names)
        self._places = [place for place, name in enumerate(names) if self._wanted is None or name in self._wanted]
        self._columns = {names[place]: [] for place in self._places}
        self._known = [{"": None} for _ in self._places]
        return ([own[1:] for own in columns], lines[1:]) if self._header else (columns, lines)

    def joined(self) -> FileColumns:
        """Return the columns."""
        if not self.first:
            raise DataError(self.path, None, "holds no row: the first must hold the names of columns")
        return FileColumns(
            {name: column_of(own) for name, own in self._columns.items()}, np.array(self._lines, np.int64)
        )


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
