"""What texts may be: lists, arrays, columns of data frames, and files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparsenet._validation import is_missing
from sparsenet.batches import Rows
from sparsenet.data import DataError, read_table
from sparsenet.data.errors import quoted
from sparsenet.data.formats import table_format
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
    shape = getattr(texts, "shape", (0,))
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


def read_texts(
    path: str | os.PathLike[str], text: Column, target: Column | None, label_delimiter: str | None = None
) -> tuple[list[str], list[list[str]] | None]:
    """Read texts, and the labels of each if there is a target, from a file of any format that is known."""
    if os.fspath(path).lower().endswith((".parquet", ".pq")):
        return _read_parquet(path, text, target)
    if table_format(path) is None:
        return _read_fasttext(path)
    table = read_table(path, text=text, target=target, label_delimiter=label_delimiter)
    assert table.texts is not None
    return table.texts, table.labels


def _read_fasttext(path: str | os.PathLike[str]) -> tuple[list[str], list[list[str]] | None]:
    texts: list[str] = []
    labels: list[list[str]] = []
    with open_source(path) as source:
        for line in text_lines(source):
            words = line.text.split(" ")
            own = [word.removeprefix(LABEL) for word in words if word.startswith(LABEL)]
            if "" in own:
                raise DataError(source.name, line.number, f"a label has no name: {quoted(line.text)}")
            labels.append(own)
            texts.append(" ".join(word for word in words if not word.startswith(LABEL)) if own else line.text)
    if not any(labels):
        return texts, None
    return texts, labels


def _read_parquet(
    path: str | os.PathLike[str], text: Column, target: Column | None
) -> tuple[list[str], list[list[str]] | None]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"{os.fspath(path)}: reading Parquet needs pyarrow: pip install pyarrow") from error
    try:
        file = parquet.ParquetFile(path)
    except pyarrow.ArrowInvalid as error:
        raise DataError(os.fspath(path), None, f"is no Parquet file, or a damaged one: {error}") from None
    names = file.schema_arrow.names
    wanted = [names[c] if isinstance(c, int) and c < len(names) else c for c in (text, target) if c is not None]
    for column in wanted:
        if column not in names:
            raise DataError(os.fspath(path), None, f"there is no column {column!r}; there are {', '.join(names)}")
    columns = file.read(columns=wanted)
    texts = check_texts(columns[wanted[0]].to_pylist(), f"column {wanted[0]!r}")
    return texts, None if target is None else [_labels(cell) for cell in columns[wanted[1]].to_pylist()]


def _labels(cell: Any) -> list[str]:
    cells: Sequence[Any] = cell if isinstance(cell, list) else [] if cell is None else [cell]
    return [str(label) for label in cells]


def texts_and_labels(X: Any, y: Any, text: Column, target: Column) -> tuple[list[str], Any]:
    """Return what `fit` was given as a list of texts and their labels: from a file if X is a path."""
    if isinstance(X, str | Path):
        if y is not None:
            raise ValueError("y must be None where X is a path: the labels are in the file, in the column `target`")
        texts, labels = read_texts(X, text, target)
        if labels is None:
            raise DataError(os.fspath(X), None, "holds no labels: no line has a word that begins with __label__")
        if all(len(own) == 1 for own in labels):
            return texts, [own[0] for own in labels]
        return texts, labels
    if y is None:
        raise ValueError("TextClassifier requires y to be passed, but the target y is None")
    return check_texts(X), y


def check_lengths(texts: list[str], labels: Rows) -> None:
    """Refuse labels that are not as many as the texts, or none."""
    if len(texts) != len(labels):
        raise ValueError(f"X has {len(texts)} texts, y has {len(labels)} entries: y must have one for each text")
    if len(labels.indices) == 0:
        raise ValueError("y holds no label at all: at least one text must have one")
