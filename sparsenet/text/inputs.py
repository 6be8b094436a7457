"""What texts may be: lists, arrays, columns of data frames, and files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from sparsenet._validation import is_missing
from sparsenet.batches import Rows
from sparsenet.data import DataError, read_table
from sparsenet.data.errors import quoted
from sparsenet.data.formats import TableFormat, table_format
from sparsenet.data.lines import text_lines
from sparsenet.data.rows import Column
from sparsenet.data.sources import open_source

LABEL = "__label__"


def check_texts(texts: Any, name: str = "X") -> list[str]:
    """Return texts as a list of strings; an error names the row that is none.

    Bytes are taken for UTF-8, and what is no UTF-8 in them reads as U+FFFD.
    """
    if isinstance(texts, str | bytes):
        raise ValueError(f"{name} must be a sequence of texts, got a single one: pass [text]")
    shape: tuple[int, ...] = getattr(texts, "shape", (0,))
    if len(shape) == 2 and shape[1] == 1:  # a frame of one column
        texts = np.asarray(texts)[:, 0]
    elif len(shape) != 1:
        raise ValueError(f"{name} must be one column of texts, got the shape {shape}: pass one, as X['text']")
    if not isinstance(texts, Iterable):
        raise ValueError(f"{name} must be a sequence of texts, got {type(texts).__name__}")
    found = _listed(texts)
    for row, text in enumerate(found):
        if type(text) is not str:
            found[row] = _as_text(text, row, name)
    return found


def _listed(texts: Iterable[Any]) -> list[Any]:
    """Return a list of Python objects: NumPy and pandas, Polars, and Arrow each have a word of their own for that."""
    for method in ("tolist", "to_list", "to_pylist"):
        if hasattr(texts, method):
            return list(getattr(texts, method)())
    return list(texts)


def _as_text(text: Any, row: int, name: str) -> str:
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    if isinstance(text, str):  # np.str_ and other kinds of it
        return str(text)
    advice = "fill missing texts in with '' or drop the row" if is_missing(text) else "convert it with str"
    raise ValueError(f"{name} must hold texts, got {text!r} in row {row}: {advice}")


class TextFile(NamedTuple):
    """What a file holds: texts, their labels if asked for, and the line on which each begins, where there are lines."""

    path: str
    texts: list[str]
    labels: list[list[str]] | None
    lines: Sequence[int] | NDArray[np.int64] | None

    def target(self) -> list[str] | list[list[str]]:
        """Return the labels as `fit` takes them: one for each text where no text has more."""
        self.check()
        assert self.labels is not None
        if max(map(len, self.labels)) > 1:
            return self.labels
        self.check_each()
        return [own[0] for own in self.labels]

    def check(self) -> None:
        """Refuse a file without a text or without a label."""
        if not self.texts:
            raise DataError(self.path, None, "holds no texts: there is nothing below its header")
        if not any(self.labels or []):
            problem = f"holds no labels: their column is empty, or no line has a word that begins with {LABEL}"
            raise DataError(self.path, None, problem)

    def check_each(self) -> None:
        """Refuse a text without a label."""
        row = next((row for row, own in enumerate(self.labels or []) if not own), None)
        if row is not None:
            place = ("the text", int(self.lines[row])) if self.lines is not None else (f"the text in row {row}", None)
            raise DataError(self.path, place[1], f"{place[0]} has no label: give it one, or leave it out")


def read_texts(
    path: str | os.PathLike[str],
    text: Column,
    target: Column | None,
    label_delimiter: str | None = None,
    format: str = "auto",
) -> TextFile:
    """Read texts, and the labels of each if there is a target, from a file of any format that is known.

    Without a format a file of an unknown name, or standard input, is taken for lines as fastText has them.
    """
    path = os.fspath(path)
    if is_parquet(path):
        return _read_parquet(path, text, target)
    table = table_format(path) if format == "auto" else format
    if table not in get_args(TableFormat):
        return _read_fasttext(path)
    options: Any = {"label_delimiter": label_delimiter, "format": table}
    found = read_table(path, text=text, target=target, **options)
    assert found.texts is not None
    return TextFile(_name(path), found.texts, found.labels, found.lines)


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Tell a Parquet file by its name."""
    return os.fspath(path).lower().endswith((".parquet", ".pq"))


def _name(path: str) -> str:
    return "<stdin>" if path == "-" else path


def _read_fasttext(path: str) -> TextFile:
    found = TextFile(_name(path), [], labels := [], lines := [])
    with open_source(path) as source:
        for line in text_lines(source):
            words = line.text.split(" ")
            own = [word.removeprefix(LABEL) for word in words if word.startswith(LABEL)]
            if "" in own:
                raise DataError(source.name, line.number, f"a label has no name: {quoted(line.text)}")
            labels.append(own)
            lines.append(line.number)
            found.texts.append(" ".join(word for word in words if not word.startswith(LABEL)) if own else line.text)
    return found if any(labels) else found._replace(labels=None)


def _read_parquet(path: str, text: Column, target: Column | None) -> TextFile:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow") from error
    try:
        file = parquet.ParquetFile(path)
        wanted = _parquet_columns(path, file.schema_arrow.names, text, target)
        columns = file.read(columns=wanted)
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise DataError(path, None, f"is no Parquet file, or a damaged one: {error}") from None
    try:
        texts = check_texts(columns[wanted[0]], f"column {wanted[0]!r}")
    except ValueError as error:
        raise DataError(path, None, str(error)) from None
    labels = None if target is None else [_labels(cell) for cell in columns[wanted[1]].to_pylist()]
    return TextFile(path, texts, labels, None)


def _parquet_columns(path: str, names: list[str], text: Column, target: Column | None) -> list[str]:
    wanted = [names[c] if isinstance(c, int) and c < len(names) else c for c in (text, target) if c is not None]
    for column in wanted:
        if column not in names:
            raise DataError(path, None, f"there is no column {column!r}; there are {', '.join(names)}")
    return [str(column) for column in wanted]


def _labels(cell: Any) -> list[str]:
    cells: Sequence[Any] = cell if isinstance(cell, list) else [] if is_missing(cell) or cell == "" else [cell]
    return [str(label) for label in cells]


def texts_and_labels(X: Any, y: Any, text: Column, target: Column) -> tuple[list[str], Any]:
    """Return what `fit` was given as a list of texts and their labels: from a file if X is a path."""
    if isinstance(X, str | Path):
        if y is not None:
            raise ValueError("y must be None where X is a path: the labels are in the file, in the column `target`")
        found = read_texts(X, text, target)
        return found.texts, found.target()
    if y is None:
        raise ValueError("TextClassifier requires y to be passed, but the target y is None")
    return check_texts(X), y


def check_lengths(texts: list[str], labels: Rows) -> None:
    """Refuse labels that are not as many as the texts, or none."""
    if len(texts) != len(labels):
        raise ValueError(f"X has {len(texts)} texts, y has {len(labels)} entries: y must have one for each text")
    if len(labels.indices) == 0:
        raise ValueError("y holds no label at all: at least one text must have one")
