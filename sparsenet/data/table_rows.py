"""Convert the rows of CSV, TSV and JSONL tables to texts, labels and numbers."""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from sparsenet.core.validation import first_repeated, is_unicode
from sparsenet.data.blocks import Block
from sparsenet.data.columns import Column, TableColumns, joined, quoted_names
from sparsenet.data.dialect import UTF_8, Dialect
from sparsenet.data.errors import DataError, cut, quoted
from sparsenet.data.formats import TableFormat
from sparsenet.data.lines import ICONV, Record, delimited_records, skip_blank, text_lines
from sparsenet.data.sources import OnSkipped, Source

#: The advice for JSON that is not one object per line.
JSON_LINES = "JSON must have one object per line, with format='jsonl'; jq -c '.[]' converts an array"
#: Words that programs write for a missing value.
MISSING = frozenset({"NaN", "nan", "N/A", "n/a", "NULL", "null", "None"})
_LARGEST = 3.4028235677973366e38  # this and larger numbers become infinity in float32


class Row(NamedTuple):
    """A parsed row of a table."""

    text: str
    labels: list[str]
    numbers: list[float]
    line: int


def table_rows(
    source: Source,
    table: TableFormat,
    columns: TableColumns,
    dialect: Dialect,
    on_skipped: OnSkipped | None = None,
) -> Iterator[Row]:
    """Yield the rows of a table."""
    if table == "jsonl":
        lines = text_lines(source)
        for line in skip_blank(lines, on_skipped):
            cells = json_object(line.text, source.name, line.number)
            absent = next((column for column in columns.wanted() if column not in cells), None)
            if absent is not None:
                existing = ", ".join(map(repr, cells)) or "none"
                raise DataError(source.name, line.number, f"there is no key {absent!r}; there are {existing}")
            yield _row_of_line(cells, columns, source.name, line.number)
        return
    records, header = table_records(source, table, dialect, on_skipped), dialect.header
    if header is None:
        header = any(isinstance(column, str) for column in columns.wanted())
    yield from _delimited_rows(records, source.name, columns, header, many_lines=bool(dialect.has_quotes(table)))


def table_records(
    source: Source,
    table: TableFormat,
    dialect: Dialect,
    on_skipped: OnSkipped | None = None,
    blocks: Iterator[Block] | None = None,
) -> Iterator[Record]:
    """Yield the fields of each row of CSV or TSV, including the header; of the remaining `blocks` if given."""
    advice = f"{ICONV}, or pass its encoding, such as encoding='latin-1'"
    lines = text_lines(source, dialect.encoding or UTF_8, advice=advice, blocks=blocks)
    how: dict[str, Any] = {"quotes": dialect.has_quotes(table), "on_skipped": on_skipped}
    return delimited_records(lines, source, dialect.separator(table), **how)


def _delimited_rows(
    records: Iterator[Record], path: str, columns: TableColumns, header: bool, *, many_lines: bool
) -> Iterator[Row]:
    names: list[Any] | None = None
    missing: Counter[str] = Counter()
    for fields, number in records:
        if names is None:
            names = fields if header else list(range(len(fields)))
            _check_columns(names, fields, path, number, columns)
            if header:
                continue
        if len(fields) != len(names):
            raise DataError(path, number, wrong_number_of_fields(fields, names, many_lines=many_lines))
        cells: dict[Column, Any] = dict(enumerate(fields))
        cells.update(zip(names, fields, strict=True))
        row = _row_of_line(cells, columns, path, number)
        missing.update(MISSING.intersection(row.labels))
        yield row
    if missing:
        _warn_of_missing(path, columns.target, missing)


def wrong_number_of_fields(fields: Sequence[str], first: Sequence[Any], *, many_lines: bool) -> str:
    """Describe a row with more or fewer fields than the `first`; `many_lines` if quoted fields may hold newlines."""
    problem = f"{len(fields)} fields where the first row has {len(first)}"
    problem += other_delimiter(list(map(str, first))) or "; quote fields that hold delimiters"
    if not many_lines and any('"' in field[:1] + field[-1:] for field in fields):
        problem += "; a quote does not close in its line: read the file with quotes=True"
    return problem


def _row_of_line(cells: Mapping[Column, Any], columns: TableColumns, path: str, number: int) -> Row:
    try:
        return make_row(cells, columns, number)
    except ValueError as error:
        raise DataError(path, number, str(error)) from None


def _warn_of_missing(path: str, column: Column | None, missing: Counter[str]) -> None:
    found = ", ".join(f"{label!r} in {n} row{'s' * (n > 1)}" for label, n in sorted(missing.items()))
    warnings.warn(
        f"{path}: column {column!r} holds {found}, read as ordinary labels: if they mean that there is no label, "
        "leave the cell empty or remove the row",
        UserWarning,
        stacklevel=2,
    )


def _check_columns(names: list[Any], fields: list[str], path: str, number: int, columns: TableColumns) -> None:
    counts = Counter(names)
    for column in columns.wanted():
        if isinstance(column, int) and not 0 <= column < len(names):
            problem = f"there is no column {column}: there are {len(names)}, counted from 0"
            raise DataError(path, number, f"{problem}{other_delimiter(fields)}")
        if isinstance(column, str) and column not in counts:
            found = ", ".join(quoted(field) for field in fields[:20])
            problem = f"there is no column {column!r}; the first row holds {found}"
            advice = other_delimiter(fields) or "; name the columns, or give positions if there is no header"
            if any("\r" in field for field in fields):
                advice = "; lines seem to end in carriage returns alone: write them with line feeds"
            raise DataError(path, number, f"{problem}{advice}")
        if isinstance(column, str) and counts[column] > 1:
            raise DataError(path, number, f"column {column!r} occurs twice; rename one, or give positions")
    clash = columns.clash(lambda column: names.index(column) if isinstance(column, str) else column)
    if clash is not None:
        raise DataError(path, number, clash)


def other_delimiter(fields: Sequence[str]) -> str:
    """Return advice for a first row that seems to use another delimiter; empty if it does not."""
    found = next((delimiter for delimiter in "\t;|," if len(fields) == 1 and delimiter in fields[0]), None)
    return f"; its fields seem to be separated by {found!r}: read it with delimiter={found!r}" if found else ""


class _Repeated(dict[str, Any]):
    """A JSON object with a repeated key; `json` would silently keep its last value."""

    key: str


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    repeated = _Repeated(found)
    repeated.key = str(first_repeated(name for name, _ in pairs))
    return repeated


_JSON = json.JSONDecoder(object_pairs_hook=_object)


def json_object(text: str, path: str, number: int) -> dict[Column, Any]:
    """Parse a line as a JSON object; raise a DataError if it is not one."""
    array = f"; {JSON_LINES}" if text.lstrip().startswith("[") else ""
    try:
        found = _JSON.decode(text)
    except json.JSONDecodeError as error:
        raise DataError(path, number, f"broken JSON: {error.msg} at column {error.colno}{array}") from None
    except (ValueError, RecursionError) as error:  # a number has too many digits, or the nesting is too deep
        raise DataError(path, number, f"JSON that cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise DataError(path, number, f"expected a JSON object, found {quoted(text)}{array}")
    if isinstance(found, _Repeated):
        raise DataError(path, number, f"column {found.key!r} occurs twice; rename one")
    return found


def make_row(cells: Mapping[Column, Any], columns: TableColumns, line: int) -> Row:
    """Convert the cells of a row; raise a ValueError that names the column of an invalid cell."""
    text = joined(columns.text, [cells[column] for column in columns.text], _as_text) if columns.text else ""
    labels = [] if columns.target is None else _labels(columns.target, cells[columns.target], columns.label_delimiter)
    return Row(text, labels, [_as_number(column, cells[column]) for column in columns.features], line)


def _as_text(columns: Sequence[Column], cell: Any) -> str:
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "replace")
    if not isinstance(cell, str):
        advice = "; fill missing texts in with '', or leave them out" if cell is None else ""
        raise ValueError(f"column {quoted_names(columns)} must hold texts, got {cut(repr(cell))}{advice}")
    return cell


def _labels(column: Column, cell: Any, delimiter: str | None) -> list[str]:
    if isinstance(cell, str) and delimiter is not None:
        labels = [part for part in map(str.strip, cell.split(delimiter)) if part]
    else:
        cells = cell if isinstance(cell, list) else [] if cell is None or _is_blank(cell) else [cell]
        labels = [_label(column, label) for label in cells]
    repeated = first_repeated(labels)
    if repeated is not None:
        raise ValueError(f"column {column!r} holds the label {quoted(repeated)} twice")
    return labels


def _label(column: Column, label: Any) -> str:
    """Return the name of a label, the same for every format: stripped, with booleans as in JSON."""
    not_finite = isinstance(label, float) and not math.isfinite(label)  # JSON reads 1e400 as infinity, too
    if label is None or _is_blank(label) or not_finite or isinstance(label, bytes | list | dict):
        raise ValueError(f"column {column!r} must hold labels, texts or numbers, got {cut(repr(label))}")
    name = json.dumps(label) if isinstance(label, bool) else str(label).strip()
    if not is_unicode(name):
        raise ValueError(f"label {name!a} has half of a surrogate pair, which files cannot store: replace it")
    return name


def _is_blank(label: Any) -> bool:
    """Return True for a string that is empty or blank, which is not a label."""
    return isinstance(label, str) and not label.strip()


def _as_number(column: Column, cell: Any) -> float:
    """Convert a cell to a number; reject values other than finite 32-bit floats."""
    cell = math.nan if cell is None else cell
    try:
        if isinstance(cell, bool) or not isinstance(cell, str | int | float | Decimal) or "_" in str(cell):
            raise ValueError
        found = float(cell)
    except (ValueError, OverflowError):
        raise ValueError(f"column {column!r} must hold a number, found {quoted(str(cell))}") from None
    if not math.isfinite(found) or abs(found) >= _LARGEST:
        problem = f"column {column!r} holds {quoted(str(cell))[1:-1]}, which is not a finite 32-bit float"
        raise ValueError(f"{problem}; fill missing values in and rescale large ones")
    return found
