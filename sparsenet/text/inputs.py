"""What texts may be: lists, arrays, columns of data frames, and files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, get_args

import numpy as np

from sparsenet._validation import is_missing
from sparsenet.batches import Rows
from sparsenet.data import DataError, iter_table
from sparsenet.data.errors import quoted
from sparsenet.data.formats import TableFormat, table_format
from sparsenet.data.lines import Line, text_lines
from sparsenet.data.rows import Column
from sparsenet.data.sources import open_source

LABEL = "__label__"
#: Rows of a file that are parsed at a time, and characters, about, that are held.
BATCH_ROWS = 64
BATCH_CHARACTERS = 1 << 19


class Batch(NamedTuple):
    """Some texts of a file, the labels of each, and the line on which each begins; of Parquet no lines (None each)."""

    texts: list[str]
    labels: list[list[str]]
    lines: list[int | None]


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
    """What a file holds, as a whole."""

    path: str
    texts: list[str]
    labels: list[list[str]]
    lines: list[int | None]

    def target(self) -> list[str] | list[list[str]]:
        """Return the labels as `fit` takes them: one for each text where no text has more."""
        self.check()
        if max(map(len, self.labels)) > 1:
            return self.labels
        self.check_each()
        return [own[0] for own in self.labels]

    def check(self) -> None:
        """Refuse a file without a text or without a label."""
        if not any(self.labels):
            raise nothing_to_learn(self.path, len(self.texts))

    def check_each(self) -> None:
        """Refuse a text without a label."""
        row = next((row for row, own in enumerate(self.labels) if not own), None)
        if row is not None:
            raise no_label(self.path, row, self.lines[row])


def nothing_to_learn(path: str, n_texts: int) -> DataError:
    """Say that a file has no text, or no label."""
    if n_texts == 0:
        return DataError(path, None, "holds no texts: there is nothing below its header")
    problem = f"holds no labels: their column is empty, or no line has a word that begins with {LABEL}"
    return DataError(path, None, problem)


def no_label(path: str, row: int, line: int | None) -> DataError:
    """Say that a text has no label, where others have one each."""
    what = f"the text in row {row}" if line is None else "the text"
    return DataError(path, line, f"{what} has no label: give it one, or leave it out")


def read_texts(
    path: str | os.PathLike[str],
    text: Column,
    target: Column | None,
    label_delimiter: str | None = None,
    format: str = "auto",
) -> TextFile:
    """Read all texts, and the labels of each if there are any, from a file of any format that is known.

    Without a format a file of an unknown name, or standard input, is taken for lines as fastText has them.
    """
    found = TextFile(file_name(path), [], [], [])
    for batch in iter_texts(path, text, target, label_delimiter, format):
        found.texts.extend(batch.texts)
        found.labels.extend(batch.labels)
        found.lines.extend(batch.lines)
    return found


def file_name(path: str | os.PathLike[str]) -> str:
    """Return what errors call a file."""
    return "<stdin>" if os.fspath(path) == "-" else os.fspath(path)


def is_parquet(path: str | os.PathLike[str]) -> bool:
    """Tell a Parquet file by its name."""
    return os.fspath(path).lower().endswith((".parquet", ".pq"))


def iter_texts(
    path: str | os.PathLike[str],
    text: Column,
    target: Column | None,
    label_delimiter: str | None = None,
    format: str = "auto",
) -> Iterator[Batch]:
    """Read a file of any format that is known, a batch at a time."""
    held, n_characters = Batch([], [], []), 0
    for batch in _batches(os.fspath(path), text, target, label_delimiter, format):
        held.texts.extend(batch.texts)
        held.labels.extend(batch.labels)
        held.lines.extend(batch.lines)
        n_characters += sum(map(len, batch.texts))
        if n_characters >= BATCH_CHARACTERS:
            yield held
            held, n_characters = Batch([], [], []), 0
    if held.texts:
        yield held


def _batches(
    path: str, text: Column, target: Column | None, label_delimiter: str | None, format: str
) -> Iterator[Batch]:
    table = table_format(path) if format == "auto" else format
    if is_parquet(path):
        yield from _iter_parquet(path, text, target, label_delimiter)
    elif table not in get_args(TableFormat):
        yield from _iter_fasttext(path)
    else:
        columns: dict[str, Any] = {"text": text, "target": target, "label_delimiter": label_delimiter, "format": table}
        for found in iter_table(path, batch_rows=BATCH_ROWS, **columns):
            assert found.texts is not None
            yield Batch(found.texts, found.labels or [[] for _ in found.texts], found.lines.tolist())


def _iter_fasttext(path: str) -> Iterator[Batch]:
    with open_source(path) as source:
        lines = text_lines(source)
        while batch := list(islice(lines, BATCH_ROWS)):
            found = [_fasttext_line(line, source.name) for line in batch]
            yield Batch([text for text, _ in found], [own for _, own in found], [line.number for line in batch])


def _fasttext_line(line: Line, name: str) -> tuple[str, list[str]]:
    words = line.text.split(" ")
    own = [word.removeprefix(LABEL) for word in words if word.startswith(LABEL)]
    if "" in own:
        raise DataError(name, line.number, f"a label has no name: {quoted(line.text)}")
    return (" ".join(word for word in words if not word.startswith(LABEL)) if own else line.text), own


def _iter_parquet(path: str, text: Column, target: Column | None, label_delimiter: str | None) -> Iterator[Batch]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow") from error
    row = 0
    try:
        file = parquet.ParquetFile(path)
        wanted = _parquet_columns(path, file.schema_arrow.names, text, target)
        for batch in file.iter_batches(BATCH_ROWS, columns=wanted):
            texts = _parquet_texts(path, batch.column(wanted[0]).to_pylist(), wanted[0], row)
            cells = [None] * len(texts) if target is None else batch.column(wanted[1]).to_pylist()
            labels = _parquet_labels(path, cells, wanted[-1], label_delimiter, row)
            row += len(texts)
            yield Batch(texts, labels, [None] * len(texts))
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(path, None, f"is no Parquet file, or a damaged one: {error}") from None


def _parquet_columns(path: str, names: list[str], text: Column, target: Column | None) -> list[str]:
    wanted = [names[c] if isinstance(c, int) and c < len(names) else c for c in (text, target) if c is not None]
    for column in wanted:
        if column not in names:
            raise DataError(path, None, f"there is no column {column!r}; there are {', '.join(names)}")
    return [str(column) for column in wanted]


def _parquet_texts(path: str, cells: list[Any], column: str, first: int) -> list[str]:
    try:
        return check_texts(cells, f"column {column!r}")
    except ValueError:
        row = next(row for row, cell in enumerate(cells) if not isinstance(cell, str | bytes))
        problem = f"column {column!r} must hold texts, got {cells[row]!r} in row {first + row}"
        raise DataError(path, None, f"{problem}: fill missing texts in with '', or leave them out") from None


def _parquet_labels(
    path: str, cells: list[Any], column: str, label_delimiter: str | None, first: int
) -> list[list[str]]:
    found = []
    for row, cell in enumerate(cells, first):
        try:
            found.append(_labels(cell, label_delimiter))
        except ValueError as error:
            raise DataError(path, None, f"column {column!r} {error} in row {row}") from None
    return found


def _labels(cell: Any, label_delimiter: str | None) -> list[str]:
    if isinstance(cell, str) and label_delimiter is not None:
        labels = [part for part in map(str.strip, cell.split(label_delimiter)) if part]
    else:
        cells: Sequence[Any] = cell if isinstance(cell, list) else [] if is_missing(cell) or cell == "" else [cell]
        labels = [_label(label) for label in cells]
    if len(set(labels)) < len(labels):
        raise ValueError(f"holds the label {quoted(max(labels, key=labels.count))} twice")
    return labels


def _label(label: Any) -> str:
    if is_missing(label) or label == "" or isinstance(label, bytes | list | dict):
        raise ValueError(f"must hold labels, texts or numbers, got {label!r}")
    return str(label)


def check_any(texts: list[str]) -> None:
    """Refuse no texts at all."""
    if not texts:
        raise ValueError("X holds no texts: there must be at least one")


def check_lengths(texts: list[str], labels: Rows) -> None:
    """Refuse labels that are not as many as the texts."""
    if len(texts) != len(labels):
        raise ValueError(f"X has {len(texts)} texts, y has {len(labels)} entries: y must have one for each text")


def check_labelled(labels: Rows) -> None:
    """Refuse to learn from texts none of which has a label."""
    if len(labels.indices) == 0:
        raise ValueError("y holds no label at all: at least one text must have one")
