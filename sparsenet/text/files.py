"""Files of texts: tables of any format, and lines with labels, read piece by piece."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, NamedTuple, get_args

from sparsenet._validation import is_missing
from sparsenet.data import DataError, iter_table
from sparsenet.data.errors import quoted
from sparsenet.data.formats import TableFormat, table_format
from sparsenet.data.lines import Line, text_lines
from sparsenet.data.rows import JSON_LINES, Column, is_blank, label_name
from sparsenet.data.sources import open_source
from sparsenet.text.inputs import LABEL, Batch, check_texts, no_label, nothing_to_learn

#: Rows of a file that are parsed at a time, and characters, about, that are held.
BATCH_ROWS = 64
BATCH_CHARACTERS = 1 << 19
#: What separates words and labels in lines, to fastText: any of these.
_BLANK = re.compile(r"[ \t\v\f\r]")
#: What columns are called: up to three words, some of them in brackets.
_NAME = re.compile(r"[^\W\d][\w./-]*(?: ?\([\w./ -]+\)| [\w./-]+){0,2}[?:*]?")
_TAKEN = "was taken for a text, and looks like a header: say header=True, or header=False if it is none"


@dataclass(frozen=True, kw_only=True)
class FileRules:
    """How a file is read; see `TextClassifier.fit`.

    By ``format="auto"`` a file of an unknown name, or standard input, is taken for lines as fastText has them.
    """

    text: Column = "text"
    target: Column | None = "label"
    label_delimiter: str | None = None
    format: str = "auto"
    header: bool | None = None
    quotes: bool | None = None

    def __post_init__(self) -> None:
        if self.text == self.target:
            raise ValueError(f"text and target are both {self.text!r}: name two columns")


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


def read_texts(path: str | os.PathLike[str], rules: FileRules) -> TextFile:
    """Read all texts, and the labels of each if there are any, from a file of any format that is known."""
    found = TextFile(file_name(path), [], [], [])
    for batch in iter_texts(path, rules):
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


def is_json(path: str | os.PathLike[str]) -> bool:
    """Tell JSON by its name, of which nobody knows whether it is an object a line."""
    return os.fspath(path).lower().endswith(".json")


def iter_texts(path: str | os.PathLike[str], rules: FileRules) -> Iterator[Batch]:
    """Read a file of any format that is known, a batch at a time."""
    held, n_characters = Batch([], [], []), 0
    for batch in _batches(os.fspath(path), rules):
        held.texts.extend(batch.texts)
        held.labels.extend(batch.labels)
        held.lines.extend(batch.lines)
        n_characters += sum(map(len, batch.texts))
        if n_characters >= BATCH_CHARACTERS:
            yield held
            held, n_characters = Batch([], [], []), 0
    if held.texts:
        yield held


def _batches(path: str, rules: FileRules) -> Iterator[Batch]:
    table = table_format(path) if rules.format == "auto" else rules.format
    if is_parquet(path):
        yield from _iter_parquet(path, rules.text, rules.target, rules.label_delimiter)
    elif rules.format == "auto" and is_json(path):
        raise DataError(path, None, JSON_LINES)
    elif table not in get_args(TableFormat):
        yield from _iter_fasttext(path)
    else:
        options: dict[str, Any] = asdict(rules) | {"format": table}
        first = FirstRow() if _may_have_missed_a_header(rules, table) else None
        for found in iter_table(path, batch_rows=BATCH_ROWS, **options):
            assert found.texts is not None
            batch = Batch(found.texts, found.labels or [[] for _ in found.texts], found.lines.tolist())
            if first is not None:
                first.compare(batch)
            yield batch
        if first is not None and first.is_header():
            warnings.warn(f"{file_name(path)}: {first}", UserWarning, stacklevel=2)


def _may_have_missed_a_header(rules: FileRules, table: str | None) -> bool:
    positions = all(isinstance(column, int) for column in (rules.text, rules.target) if column is not None)
    return positions and rules.header is None and table != "jsonl"


def warn_of_header(path: str, texts: list[str], rules: FileRules, table: str | None) -> None:
    """Point out that the first of some texts, without labels to tell by, looks like the name of their column.

    It reads like one and has fewer words than any other: short texts among short ones are none.
    """
    if len(texts) <= 2 or not _NAME.fullmatch(texts[0]) or not _may_have_missed_a_header(rules, table):
        return
    n_words = len(texts[0].split())
    if all(len(text.split()) > n_words for text in texts[1:]):
        warnings.warn(f"{file_name(path)}: the first row, {quoted(texts[0])}, {_TAKEN}", UserWarning, stacklevel=2)


class FirstRow:
    """The first row of a table whose columns are called by position: it may be a header that was taken for a text."""

    def __init__(self) -> None:
        self._text, self._labels = "", [""]
        self._n_rows = 0
        self._again = False

    def compare(self, batch: Batch) -> None:
        """Look for the labels of the first row in others."""
        others = batch.labels
        if self._n_rows == 0:
            self._text, self._labels, others = batch.texts[0], batch.labels[0], others[1:]
        self._n_rows += len(batch.texts)
        self._again = self._again or any(label in own for own in others for label in self._labels)

    def is_header(self) -> bool:
        """Tell names of columns, of a word or a few each, from a text whose label others have too."""
        name = len(self._labels) == 1 and _NAME.fullmatch(self._text) and _NAME.fullmatch(self._labels[0])
        return bool(name) and self._n_rows > 2 and not self._again

    def __str__(self) -> str:
        """Say what to do."""
        row = f"the first row, {quoted(self._text)} with the label {quoted(self._labels[0])} that no other row has,"
        return f"{row} {_TAKEN}"


def _iter_fasttext(path: str) -> Iterator[Batch]:
    with open_source(path) as source:
        lines = text_lines(source)
        while batch := list(islice(lines, BATCH_ROWS)):
            found = [_fasttext_line(line, source.name) for line in batch]
            yield Batch([text for text, _ in found], [own for _, own in found], [line.number for line in batch])


def _fasttext_line(line: Line, name: str) -> tuple[str, list[str]]:
    text, own = parted(line.text)
    if "" in own:
        raise DataError(name, line.number, f"a label has no name: {quoted(line.text)}")
    return text, own


def parted(line: str) -> tuple[str, list[str]]:
    r"""Take the text of a line and its labels, each once, apart; a label may stand anywhere, as with fastText.

    >>> parted("__label__a\ttea and __label__b __label__a")
    ('tea and', ['a', 'b'])
    """
    if LABEL not in line:
        return line, []
    words = _BLANK.split(line)
    own = [word.removeprefix(LABEL) for word in words if word.startswith(LABEL)]
    return (" ".join(word for word in words if not word.startswith(LABEL)) if own else line), list(dict.fromkeys(own))


def _iter_parquet(path: str, text: Column, target: Column | None, label_delimiter: str | None) -> Iterator[Batch]:
    row = 0
    with _opened_parquet(path) as file:
        wanted = _parquet_columns(path, file.schema_arrow.names, text, target)
        for batch in file.iter_batches(BATCH_ROWS, columns=wanted):
            texts = _parquet_texts(path, batch.column(wanted[0]).to_pylist(), wanted[0], row)
            cells = [None] * len(texts) if target is None else batch.column(wanted[1]).to_pylist()
            labels = _parquet_labels(path, cells, wanted[-1], label_delimiter, row)
            row += len(texts)
            yield Batch(texts, labels, [None] * len(texts))


def parquet_names(path: str) -> list[str]:
    """Return what the columns of a Parquet file are called."""
    with _opened_parquet(path) as file:
        return list(file.schema_arrow.names)


@contextmanager
def _opened_parquet(path: str) -> Iterator[Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow") from error
    try:
        yield parquet.ParquetFile(path)
    except FileNotFoundError:
        raise
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(path, None, f"is no Parquet file, or a damaged one: {error}") from None


def _parquet_columns(path: str, names: list[str], text: Column, target: Column | None) -> list[str]:
    wanted = [names[c] if isinstance(c, int) and 0 <= c < len(names) else c for c in (text, target) if c is not None]
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
        cells: Sequence[Any] = cell if isinstance(cell, list) else [] if is_missing(cell) or is_blank(cell) else [cell]
        labels = [_label(label) for label in cells]
    if len(set(labels)) < len(labels):
        raise ValueError(f"holds the label {quoted(max(labels, key=labels.count))} twice")
    return labels


def _label(label: Any) -> str:
    if is_missing(label) or is_blank(label) or isinstance(label, bytes | list | dict):
        raise ValueError(f"must hold labels, texts or numbers, got {label!r}")
    return label_name(label)
