"""Read texts and labels from tables and lines, as a whole or in batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import choice
from sparsenet.data.columns import Column, TableColumns, TextColumns, text_columns
from sparsenet.data.dialect import Dialect
from sparsenet.data.errors import DataError
from sparsenet.data.fasttext import labelled_lines
from sparsenet.data.formats import TextFormat, text_format
from sparsenet.data.lines import NO_PARQUET
from sparsenet.data.parquet import parquet_rows
from sparsenet.data.sources import OnBytes, OnSkipped, PathOrStream, open_source
from sparsenet.data.table_rows import Row, table_rows


@dataclass(frozen=True, kw_only=True, eq=False)
class TextDataset:
    r"""Points of a table: texts, labels and numeric features.

    Attributes
    ----------
    texts : list of str, of length n_points, or None
        The text of each point; None without a column of texts.
    labels : list of lists of str, of length n_points, or None
        The labels of each point, which may have none; None without a column of labels.
    features : ndarray of shape (n_points, n_features), float32
        The numeric columns.
    lines : ndarray of shape (n_points,), int64
        The first line of each point in the file, counted from 1. For Parquet, the row, counted from 0.

    Examples
    --------
    >>> from io import BytesIO
    >>> from sparsenet.data import read_table
    >>> table = BytesIO(b"text,label\nsort an array,a|b\nfit a line,c\n")
    >>> data = read_table(table, format="csv", label_delimiter="|")
    >>> data.texts, data.labels
    (['sort an array', 'fit a line'], [['a', 'b'], ['c']])
    """

    texts: list[str] | None
    labels: list[list[str]] | None
    features: NDArray[np.float32]
    lines: NDArray[np.int64]

    @property
    def n_points(self) -> int:
        """Number of points."""
        return len(self.features)

    def single_labels(self) -> list[str]:
        r"""Return the label of each point; raise a ValueError with the line of a point that has not exactly one.

        Examples
        --------
        >>> from io import BytesIO
        >>> from sparsenet.data import read_table
        >>> read_table(BytesIO(b"text,label\nhow do you do,greet\nsee you,bye\n"), format="csv").single_labels()
        ['greet', 'bye']
        """
        if self.labels is None:
            raise ValueError("there are no labels: the table was read without a column of labels")
        for line, own in zip(self.lines.tolist(), self.labels, strict=True):
            if len(own) != 1:
                raise ValueError(f"line {line} has {len(own)} labels, not one")
        return [own[0] for own in self.labels]

    def __repr__(self) -> str:
        columns = [name for name in ("texts", "labels") if getattr(self, name) is not None]
        columns += ["features"] if self.features.shape[1] else []
        return f"<TextDataset of {self.n_points:,} points: {', '.join(columns) or 'no column'}>"


def read_table(
    path: PathOrStream,
    *,
    text: TextColumns | None = "text",
    target: Column | None = "label",
    features: Sequence[Column] = (),
    format: TextFormat | Literal["auto"] = "auto",
    label_delimiter: str | None = None,
    header: bool | None = None,
    quotes: bool | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    on_bytes: OnBytes | None = None,
) -> TextDataset:
    r"""Read texts and labels from a CSV, TSV or JSONL file, compressed or not, from Parquet or from lines.

    Parameters
    ----------
    path : path, '-' or binary stream
        The file to read; ``"-"`` is standard input. Parquet needs a path.
    text : str or int, a list of these, or None
        The column of texts: a name in the first row, a key of the JSON objects, or a position from 0 in CSV, TSV and
        Parquet. The texts of several columns are joined with newlines, in the order of the list. Empty and null cells
        are left out, but an error is raised if all are null. None: read no texts.
    target : str or int, or None
        The column of labels, likewise. None: read no labels.
    features : sequence of str or int
        The columns of numbers.
    format : {'auto', 'csv', 'tsv', 'jsonl', 'parquet', 'lines'}
        "auto" uses the suffix of the name, before the suffix of a compression. In lines, words that start with
        ``__label__`` are labels, as in fastText, and the names of columns are ignored.
    label_delimiter : str, optional
        The separator of the labels in a cell. By default a cell is one label, and an empty cell is a point without
        labels. Lists of labels in JSON and Parquet need no separator. Blanks around a label are removed.
    header : bool, optional
        True if the first row of a CSV or TSV file holds the names of the columns. By default it does if any column is
        given by name. For other formats, this option is an error.
    quotes : bool, optional
        If True, fields of CSV or TSV may be enclosed in double quotes, and then contain delimiters and newlines. If
        False, quotes are ordinary characters. The default is True for CSV. For TSV, by default only fields that start
        and end with a quote on the same line are unquoted. For other formats, this option is an error.
    delimiter : str, optional
        The character between the fields of CSV or TSV, by default a comma or a tab.
    encoding : str, optional
        The encoding of CSV or TSV, by default UTF-8 with or without a byte-order mark. Line ends must be encoded as in
        ASCII, as in ``"latin-1"``.
    on_bytes : callable, optional
        Called after each read with the number of bytes read, before decompression. Use it for a progress bar. For
        Parquet, called once with the size of the file.

    Returns
    -------
    TextDataset
        Lists of n_points entries, and `features` of shape (n_points, len(features)).

    Raises
    ------
    DataError
        If the file has an error; the message names the line, or the row of Parquet.

    Examples
    --------
    >>> from io import BytesIO
    >>> lines = BytesIO(b"greet\thow do you do\nbye\tsee you\n")
    >>> read_table(lines, format="tsv", text=1, target=0).labels
    [['greet'], ['bye']]
    """
    columns = _columns(text, target, features, label_delimiter)
    dialect = Dialect(header=header, quotes=quotes, delimiter=delimiter, encoding=encoding)
    found = _format(path, format, columns, dialect)
    return _dataset(list(_rows(path, found, columns, dialect, on_bytes)), columns)


def iter_table(
    path: PathOrStream,
    *,
    batch_rows: int,
    text: TextColumns | None = "text",
    target: Column | None = "label",
    features: Sequence[Column] = (),
    format: TextFormat | Literal["auto"] = "auto",
    label_delimiter: str | None = None,
    header: bool | None = None,
    quotes: bool | None = None,
    delimiter: str | None = None,
    encoding: str | None = None,
    on_bytes: OnBytes | None = None,
    on_skipped: OnSkipped | None = None,
) -> Iterator[TextDataset]:
    r"""Read a table in batches. Memory does not grow with the file.

    `batch_rows` is the number of rows in a batch; the last batch may have fewer. `on_skipped` is called with the number
    of blank lines that were skipped since the last call. The other parameters are as for `read_table`.

    Yields
    ------
    TextDataset
        Lists of batch_rows entries, and `features` of shape (batch_rows, len(features)).

    Raises
    ------
    DataError
        If the file has an error; the message names the line. All rows before that line are yielded first.

    Examples
    --------
    >>> from io import BytesIO
    >>> lines = BytesIO(b'{"text": "one"}\n{"text": "two"}\n{"text": "three"}\n')
    >>> [batch.texts for batch in iter_table(lines, batch_rows=2, target=None, format="jsonl")]
    [['one', 'two'], ['three']]
    """
    if batch_rows < 1:
        raise ValueError(f"batch_rows must be at least 1, got {batch_rows}")
    columns = _columns(text, target, features, label_delimiter)
    dialect = Dialect(header=header, quotes=quotes, delimiter=delimiter, encoding=encoding)
    found = _format(path, format, columns, dialect)
    rows = _rows(path, found, columns, dialect, on_bytes, on_skipped)

    def batches() -> Iterator[TextDataset]:
        batch: list[Row] = []
        error = None
        try:
            for row in rows:
                batch.append(row)
                if len(batch) == batch_rows:
                    yield _dataset(batch, columns)
                    batch = []
        except DataError as found:
            error = found  # raised after the rows before it are yielded
        if batch:
            yield _dataset(batch, columns)
        if error is not None:
            raise error

    return batches()


def _rows(
    path: PathOrStream,
    format: TextFormat,
    columns: TableColumns,
    dialect: Dialect,
    on_bytes: OnBytes | None,
    on_skipped: OnSkipped | None = None,
) -> Iterator[Row]:
    if format == "parquet":
        if path == "-" or not isinstance(path, str | os.PathLike):
            raise DataError("<stdin>" if path == "-" else repr(path), None, NO_PARQUET)
        if on_bytes is not None:  # pyarrow does not report its progress
            on_bytes(os.stat(path).st_size)
        yield from parquet_rows(os.fspath(path), columns)
        return
    with open_source(path, on_bytes) as source:
        if format == "lines":
            yield from labelled_lines(source, on_skipped)
        else:
            yield from table_rows(source, format, columns, dialect, on_skipped)


def _columns(
    text: TextColumns | None, target: Column | None, features: Sequence[Column], delimiter: str | None
) -> TableColumns:
    if isinstance(features, str):
        raise TypeError(f"features must be a sequence of columns, got the string {features!r}")
    if delimiter == "":
        raise ValueError("label_delimiter must not be empty; None means one label per cell")
    texts = [] if text is None else text_columns(text)
    columns = TableColumns(text=texts, target=target, features=tuple(features), label_delimiter=delimiter)
    if not columns.wanted():
        raise ValueError("text, target and features are all empty: there is nothing to read")
    return columns


def _format(
    path: PathOrStream, format: TextFormat | Literal["auto"], columns: TableColumns, dialect: Dialect
) -> TextFormat:
    """Return the format of a file; refuse options of CSV and TSV for other formats."""
    choice("format", format, ("auto", *get_args(TextFormat)))
    found = text_format(path) if format == "auto" else format
    if found is None:
        raise ValueError(
            f"cannot tell the format of {path!r} by its name; give format='csv', 'tsv', 'jsonl', 'parquet' or 'lines'"
        )
    if found == "lines" and columns.features:
        raise ValueError(f"features={list(columns.features)!r} names columns, and lines have none: leave it out")
    dialect.check_for(found)
    return found


def _dataset(rows: list[Row], columns: TableColumns) -> TextDataset:
    numbers = np.array([row.numbers for row in rows], np.float64).reshape(len(rows), len(columns.features))
    return TextDataset(
        texts=[row.text for row in rows] if columns.text else None,
        labels=None if columns.target is None else [row.labels for row in rows],
        features=numbers.astype(np.float32),
        lines=np.array([row.line for row in rows], np.int64),
    )
