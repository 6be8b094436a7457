"""What texts may be: lists, arrays, columns of data frames, and files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, TypeAlias

from sparsenet.batches import Rows
from sparsenet.data import DataError, iter_table
from sparsenet.data.errors import quoted
from sparsenet.data.formats import table_format
from sparsenet.data.lines import Line, text_lines
from sparsenet.data.rows import Column
from sparsenet.data.sources import open_source

LABEL = "__label__"
#: Rows of a file that are parsed at a time, and characters, about, that are held.
BATCH_ROWS = 64
BATCH_CHARACTERS = 1 << 19
Batch: TypeAlias = tuple[list[str], list[list[str]]]


def check_texts(texts: Any, name: str = "X") -> list[str]:
    """Return texts as a list of strings; an error names the row that is none.

    Bytes are taken for UTF-8, and what is no UTF-8 in them reads as U+FFFD.
    """
    if isinstance(texts, str | bytes):
        raise ValueError(f"{name} must be a sequence of texts, got a single one: pass [text]")
    if hasattr(texts, "ndim") and texts.ndim != 1:
        if texts.ndim != 2 or texts.shape[1] != 1:
            raise ValueError(f"{name} must be one column of texts, got {texts.ndim} dimensions: pass one, as X['text']")
        texts = texts.squeeze() if len(texts) != 1 else [row[0] for row in getattr(texts, "values", texts)]
    if not isinstance(texts, Iterable):
        raise ValueError(f"{name} must be a sequence of texts, got {type(texts).__name__}")
    found = texts.tolist() if hasattr(texts, "tolist") else list(texts)
    for row, text in enumerate(found):
        if type(text) is not str:
            found[row] = _as_text(text, row, name)
    return found


def _as_text(text: Any, row: int, name: str) -> str:
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    if isinstance(text, str):  # np.str_ and other kinds of it
        return str(text)
    missing = text is None or text != text
    advice = "fill missing texts in with '' or drop the row" if missing else "convert it with str"
    raise ValueError(f"{name} must hold texts, got {text!r} in row {row}: {advice}")


def read_texts(
    path: str | os.PathLike[str], text: Column, target: Column | None, label_delimiter: str | None = None
) -> tuple[list[str], list[list[str]] | None]:
    """Read all texts, and the labels of each if there are any, from a file of any format that is known."""
    batches = list(iter_texts(path, text, target, label_delimiter))
    texts = list(chain.from_iterable(texts for texts, _ in batches))
    labels = list(chain.from_iterable(labels for _, labels in batches))
    return texts, None if target is None or not any(labels) else labels


def iter_texts(
    path: str | os.PathLike[str], text: Column, target: Column | None, label_delimiter: str | None = None
) -> Iterator[Batch]:
    """Read a file of any format that is known, a batch at a time: texts, and lists of the labels of each."""
    texts: list[str] = []
    labels: list[list[str]] = []
    n_characters = 0
    for batch in _batches(path, text, target, label_delimiter):
        texts += batch[0]
        labels += batch[1]
        n_characters += sum(map(len, batch[0]))
        if n_characters >= BATCH_CHARACTERS:
            yield texts, labels
            texts, labels, n_characters = [], [], 0
    if texts:
        yield texts, labels


def _batches(
    path: str | os.PathLike[str], text: Column, target: Column | None, label_delimiter: str | None
) -> Iterator[Batch]:
    if os.fspath(path).lower().endswith((".parquet", ".pq")):
        yield from _iter_parquet(path, text, target)
    elif table_format(path) is None:
        yield from _iter_fasttext(path)
    else:
        columns: dict[str, Any] = {"text": text, "target": target, "label_delimiter": label_delimiter}
        for table in iter_table(path, batch_rows=BATCH_ROWS, **columns):
            assert table.texts is not None
            yield table.texts, table.labels or [[] for _ in table.texts]


def _iter_fasttext(path: str | os.PathLike[str]) -> Iterator[Batch]:
    with open_source(path) as source:
        lines = text_lines(source)
        while batch := list(islice(lines, BATCH_ROWS)):
            found = [_fasttext_line(line, source.name) for line in batch]
            yield [text for text, _ in found], [labels for _, labels in found]


def _fasttext_line(line: Line, name: str) -> tuple[str, list[str]]:
    words = line.text.split(" ")
    own = [word.removeprefix(LABEL) for word in words if word.startswith(LABEL)]
    if "" in own:
        raise DataError(name, line.number, f"a label has no name: {quoted(line.text)}")
    return (" ".join(word for word in words if not word.startswith(LABEL)) if own else line.text), own


def _iter_parquet(path: str | os.PathLike[str], text: Column, target: Column | None) -> Iterator[Batch]:
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
    for batch in file.iter_batches(BATCH_ROWS, columns=wanted):
        texts = check_texts(batch.column(wanted[0]).to_pylist(), f"column {wanted[0]!r}")
        cells = [None] * len(texts) if target is None else batch.column(wanted[1]).to_pylist()
        yield texts, [_labels(cell) for cell in cells]


def _labels(cell: Any) -> list[str]:
    cells: Sequence[Any] = cell if isinstance(cell, list) else [] if cell is None else [cell]
    return [str(label) for label in cells]


def check_lengths(texts: list[str], labels: Rows) -> None:
    """Refuse labels that are not as many as the texts, or none."""
    if len(texts) != len(labels):
        raise ValueError(f"X has {len(texts)} texts, y has {len(labels)} entries: y must have one for each text")
    if len(labels.indices) == 0:
        raise ValueError("y holds no label at all: at least one text must have one")
