"""Take columns by name from data frames, mappings, lists of dicts and files: `Frame`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import first_repeated
from sparsenet.data.dialect import DEFAULT, Dialect
from sparsenet.data.errors import DataError, cut
from sparsenet.data.frame_columns import MICROSECONDS, as_column, column_of
from sparsenet.data.frame_files import read_columns
from sparsenet.data.sources import OnBytes, name_of
from sparsenet.data.table_rows import other_delimiter


@dataclass(frozen=True, eq=False)
class Frame:
    """Named columns of equal length, of a data frame, a mapping of columns, or a file.

    Attributes
    ----------
    columns : dict of ndarray
        In order: float64 (NaN is missing), int64, bool, datetime64[us] (NaT is missing; UTC), or objects: str, lists or
        mixed values, with None for missing ones. Cells of CSV and TSV files are str, or None if empty.
    source : str
        The argument, such as "X", or the path, for error messages.
    n_rows : int
    lines : ndarray, optional
        The line of each row of a file.
    decimal : str
        The decimal mark of numbers in strings: "." or ",".
    """

    columns: dict[str, NDArray[Any]]
    source: str
    n_rows: int
    lines: NDArray[np.int64] | None = None
    is_file: bool = False
    decimal: str = "."

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __contains__(self, name: object) -> bool:
        return name in self.columns

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(self.columns)

    def where(self, row: int) -> str:
        """Return the place of a row for an error message: a line of a file, or a row counted from 0."""
        if self.lines is not None:
            return f"{self.source}, line {self.lines[row]}"
        return f"row {row} of {self.source}"

    def error(self, problem: str, row: int | None = None) -> ValueError:
        """Return the error for a problem of the frame or of one row: a DataError for files."""
        if self.is_file:
            line = None if row is None or self.lines is None else int(self.lines[row])
            return DataError(self.source, line, problem if row is None or line else f"row {row}: {problem}")
        return ValueError(f"{self.source if row is None else self.where(row)}: {problem}")

    def require(self, names: Iterable[str], argument: str) -> None:
        """Refuse missing columns; the error names the argument, and the columns of the frame."""
        for name in names:
            if name not in self.columns:
                raise self.error(f"{argument}={name!r} is not a column; there are {self.there}")

    @property
    def there(self) -> str:
        """The names of all columns for an error, and advice if a file seems to have another delimiter."""
        advice = other_delimiter(self.names) if self.is_file else ""
        return cut(", ".join(map(repr, self.columns)) or "none", 300) + advice

    def select(self, names: Iterable[str]) -> Frame:
        """Return the frame with these columns only, in this order."""
        return replace(self, columns={name: self.columns[name] for name in names})

    def without(self, names: Iterable[str]) -> Frame:
        """Return the frame without these columns."""
        dropped = set(names)
        return self.select(name for name in self.columns if name not in dropped)

    def take(self, rows: NDArray[Any]) -> Frame:
        """Return some of the rows, by position or mask. Errors count rows within them, but lines of a file stay."""
        columns = {name: values[rows] for name, values in self.columns.items()}
        n_rows = int(np.count_nonzero(rows)) if rows.dtype == bool else len(rows)
        return replace(self, columns=columns, n_rows=n_rows, lines=None if self.lines is None else self.lines[rows])


def is_frame(X: Any) -> bool:
    """Return whether `read_frame` takes X: a data frame, a mapping of columns, a list of dicts or a path."""
    if isinstance(X, Frame | Mapping | str | os.PathLike):
        return True
    if isinstance(X, list | tuple):
        return len(X) > 0 and isinstance(X[0], Mapping)
    return _has_columns(X)


def read_frame(
    X: Any,
    *,
    argument: str = "X",
    columns: Sequence[str] | None = None,
    format: str = "auto",
    dialect: Dialect = DEFAULT,
    on_bytes: OnBytes | None = None,
) -> Frame:
    """Convert a data frame, a mapping of columns, a list of dicts or a file to a `Frame`.

    Parameters
    ----------
    X : frame, mapping, list of dicts, or path
        A frame of pandas, Polars or Arrow; columns by name; a dict for each row; or a CSV, TSV, JSONL or Parquet file.
    argument : str
        The name of X in error messages.
    columns : sequence of str, optional
        The columns to read; all by default. `Frame.require` checks for required columns.
    format, dialect : str and Dialect
        For files, as in `read_table`. Without a header, columns are named "0", "1" and so on.

    Examples
    --------
    >>> frame = read_frame({"user": ["ann", "bob"], "price": [2, None]})
    >>> frame["user"].tolist(), frame["price"].tolist()
    (['ann', 'bob'], [2.0, nan])
    """
    if isinstance(X, str | os.PathLike):
        found, lines = read_columns(X, columns, format, dialect, on_bytes)
        n_rows = len(lines) if lines is not None else len(next(iter(found.values()), ()))
        return Frame(found, name_of(X), n_rows, lines, is_file=True, decimal=dialect.decimal or ".")
    _refuse_file_options(argument, format, dialect)
    if isinstance(X, Frame):
        return X if columns is None else X.select(name for name in X.names if name in columns)
    if isinstance(X, Mapping):
        return _frame(X, argument, columns)
    if isinstance(X, list | tuple):
        return _of_dicts(X, argument, columns)
    if not _has_columns(X):
        advice = ": pass a frame, as by X.to_frame()" if hasattr(X, "to_frame") else ""
        wanted = "a data frame, a mapping of columns, a list of dicts or a path"
        raise ValueError(f"{argument} must be {wanted}, got {type(X).__name__}{advice}")
    return _of_data_frame(X, argument, columns)


def _refuse_file_options(argument: str, format: str, dialect: Dialect) -> None:
    given = dialect.given if format == "auto" else {"format": format}
    for name, value in given.items():
        raise ValueError(f"{name}={value!r} is for files, and {argument} is none: leave it out")


def _has_columns(X: Any) -> bool:
    """Return whether X is a data frame, also a lazy one, whose columns would take time to find."""
    return hasattr(type(X), "columns") or hasattr(type(X), "column_names")


def _frame(columns: Mapping[Any, Any], argument: str, wanted: Sequence[str] | None) -> Frame:
    """Convert a mapping of names to values of equal length."""
    columns = dict(zip(_names(list(columns), argument), columns.values(), strict=True))
    try:
        found = {name: as_column(values, name) for name, values in columns.items() if wanted is None or name in wanted}
    except ValueError as error:
        raise ValueError(f"{argument}: {error}") from None
    lengths = {name: len(values) for name, values in found.items()}
    n_rows = next(iter(lengths.values()), 0)
    other = next((name for name, n in lengths.items() if n != n_rows), None)
    if other is not None:
        first = next(iter(lengths))
        raise ValueError(
            f"{argument}: column {first!r} has {n_rows} values and column {other!r} has {lengths[other]}: columns must "
            "be of equal length"
        )
    return Frame(found, argument, n_rows)


def _of_dicts(rows: Sequence[Any], argument: str, wanted: Sequence[str] | None) -> Frame:
    """Convert a dict for each row; a key that a row lacks is a missing value."""
    names: dict[Any, None] = {}
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            problem = "lists of rows must hold a dict for each row, with the names of columns"
            raise ValueError(f"row {i} of {argument} is a {type(row).__name__}: {problem}")
        names.update(dict.fromkeys(row))
    named = dict(zip(names, _names(list(names), argument), strict=True))
    chosen = {key: name for key, name in named.items() if wanted is None or name in wanted}
    return Frame({name: column_of([row.get(key) for row in rows]) for key, name in chosen.items()}, argument, len(rows))


def _of_data_frame(X: Any, argument: str, wanted: Sequence[str] | None) -> Frame:
    """Convert a frame of pandas, Polars, Arrow or another library that narwhals knows."""
    try:
        import narwhals
    except ImportError as error:
        raise ImportError(
            f"{argument} is a data frame, which needs narwhals: pip install narwhals, or pass a dict of columns"
        ) from error
    if callable(getattr(X, "collect", None)) or callable(getattr(X, "compute", None)):
        raise ValueError(f"{argument} is a lazy {type(X).__name__}: pass what its collect() or compute() returns")
    given = list(getattr(X, "column_names", getattr(X, "columns", ())))
    names = _names(given, argument)
    if names != given and hasattr(X, "set_axis"):  # of pandas
        X = X.set_axis(names, axis=1)
    try:
        frame = narwhals.from_native(X, eager_only=True)
    except TypeError:
        kind = f"{type(X).__module__}.{type(X).__name__}"
        raise ValueError(f"{argument} must be a frame of pandas, Polars or Arrow, got {kind}") from None
    chosen = [name for name in frame.columns if wanted is None or name in wanted]
    return Frame({name: _of_series(frame[name], name) for name in chosen}, argument, len(frame))


def _names(given: list[Any], argument: str) -> list[str]:
    """Return names as strings: 0 is "0", as for an array. Refuse other names, and names that occur twice."""
    for name in given:
        if not isinstance(name, str | int | np.integer) or isinstance(name, bool):
            raise ValueError(f"{argument}: the column name {name!r} is no string and no whole number: rename it")
    names = [str(name) for name in given]
    repeated = first_repeated(names)
    if repeated is not None:
        raise ValueError(f"{argument}: column {repeated!r} occurs twice: rename one")
    return names


def _of_series(series: Any, name: str) -> NDArray[Any]:
    """Convert a series of narwhals."""
    import narwhals

    kind = series.dtype
    if kind == narwhals.Boolean or kind.is_integer():
        return column_of(series.to_list()) if series.null_count() else as_column(series.to_numpy(), name)
    if kind.is_numeric():
        return as_column(series.cast(narwhals.Float64).to_numpy(), name).astype(np.float64, copy=False)
    if kind == narwhals.Datetime:
        if getattr(kind, "time_zone", None):
            series = series.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return as_column(series.to_numpy(), name).astype(MICROSECONDS, copy=False)
    if kind in (narwhals.Categorical, narwhals.Enum):
        return column_of(series.cast(narwhals.String).to_list())
    return column_of(series.to_list())
