"""Read texts and labels from files batch by batch: tables of any format, and lines with ``__label__`` words."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, get_args

from sparsenet.data import DataError, iter_table
from sparsenet.data.columns import Column, check_apart
from sparsenet.data.dialect import DEFAULT, Dialect
from sparsenet.data.errors import quoted
from sparsenet.data.fasttext import LABEL
from sparsenet.data.formats import TableFormat, is_parquet, table_format
from sparsenet.data.sources import name_of
from sparsenet.data.table_rows import JSON_LINES
from sparsenet.features.text.inputs import TextBatch, no_label, nothing_to_learn

#: Rows parsed at a time.
BATCH_ROWS = 64
#: A typical column name: up to three words, the last ones maybe in brackets.
_NAME = re.compile(r"[^\W\d][\w./-]*(?: ?\([\w./ -]+\)| [\w./-]+){0,2}[?:*]?")
_TAKEN = "was read as a text but looks like a header: pass header=True, or header=False if it is none"


@dataclass(frozen=True, kw_only=True)
class FileRules:
    """How to read a file; the fields are documented in `TextClassifier.fit`.

    A batch has about `batch_characters`.

    With ``format="auto"``, standard input and files with an unknown suffix are read as lines in fastText's format.
    """

    text: list[Column] = field(default_factory=lambda: ["text"])
    target: Column | None = "label"
    label_delimiter: str | None = None
    format: str = "auto"
    dialect: Dialect = DEFAULT
    batch_characters: int = 1 << 19

    def __post_init__(self) -> None:
        check_apart(self.text, self.target)

    def options(self) -> dict[str, Any]:
        """Return the arguments of `iter_table`."""
        text = self.text if len(self.text) > 1 else self.text[0]  # as the user gave it, for error messages
        own = {"text": text, "target": self.target, "label_delimiter": self.label_delimiter, "format": self.format}
        return own | {name: value for name, value in asdict(self.dialect).items() if name != "decimal"}


class TextFile(NamedTuple):
    """All texts of a file, with labels and line numbers."""

    path: str
    texts: list[str]
    labels: list[list[str]]
    lines: list[int | None]

    def target(self) -> list[str] | list[list[str]]:
        """Return the labels as `fit` takes them: one for each text if no text has more."""
        self.check()
        if max(map(len, self.labels)) > 1:
            return self.labels
        self.check_each()
        return [own[0] for own in self.labels]

    def check(self) -> None:
        """Refuse a file without texts or without labels."""
        if not any(self.labels):
            raise nothing_to_learn(self.path, len(self.texts))

    def check_each(self) -> None:
        """Refuse texts without a label."""
        row = next((row for row, own in enumerate(self.labels) if not own), None)
        if row is not None:
            raise no_label(self.path, row, self.lines[row])


def read_texts(path: str | os.PathLike[str], rules: FileRules) -> TextFile:
    """Read all texts of a file, and their labels if it has some."""
    found = TextBatch([], [], [])
    for batch in iter_texts(path, rules):
        found.extend(batch)
    return TextFile(name_of(path), *found)


def is_json(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is named .json: it may or may not hold one object per line."""
    return os.fspath(path).lower().endswith(".json")


def iter_texts(path: str | os.PathLike[str], rules: FileRules) -> Iterator[TextBatch]:
    """Read a file in batches of texts."""
    held, n_characters = TextBatch([], [], []), 0
    for batch in _batches(os.fspath(path), rules):
        held.extend(batch)
        n_characters += sum(map(len, batch.texts))
        if n_characters >= rules.batch_characters:
            yield held
            held, n_characters = TextBatch([], [], []), 0
    if held.texts:
        yield held


def _batches(path: str, rules: FileRules) -> Iterator[TextBatch]:
    if rules.format == "auto" and is_json(path):
        raise DataError(path, None, JSON_LINES)
    format = "parquet" if is_parquet(path) else table_format(path) if rules.format == "auto" else rules.format
    if format in (None, "lines"):
        _check_no_columns(path, rules)
    options = rules.options() | {"format": format or "lines"}
    may_be_header = format in get_args(TableFormat) and _may_have_missed_a_header(rules, format)
    n_texts = n_empty = 0
    for found in iter_table(path, batch_rows=BATCH_ROWS, **options):
        assert found.texts is not None
        lines = [None] * len(found.texts) if format == "parquet" else found.lines.tolist()
        batch = TextBatch(found.texts, found.labels or [[] for _ in found.texts], lines)
        others = batch.labels
        if n_texts == 0:
            text, labels, others = batch.texts[0], batch.labels[0], others[1:]
            may_be_header = may_be_header and len(labels) == 1 and _reads_like_names(labels[0], 1)
            may_be_header = may_be_header and _reads_like_names(text, len(rules.text))
        # A header's label is in no other row.
        may_be_header = may_be_header and not any(labels[0] in own for own in others)
        n_texts += len(batch.texts)
        n_empty += sum(not one or one.isspace() for one in batch.texts)
        yield batch
    if n_empty:
        empty = f"empty texts, {n_empty} of {n_texts}, count as others do: leave out those that should not"
        warnings.warn(f"{name_of(path)}: {empty}", UserWarning, stacklevel=2)
    if may_be_header and n_texts > 2:
        row = f"the first row, {quoted(text)} with the label {quoted(labels[0])} that no other row has,"
        warnings.warn(f"{name_of(path)}: {row} {_TAKEN}", UserWarning, stacklevel=2)


def _check_no_columns(path: str, rules: FileRules) -> None:
    """Refuse options about columns for lines, which have none."""
    defaults = FileRules().options()
    for name, value in rules.options().items():
        if name != "format" and value != defaults[name]:
            what = f"{name}={value!r} is for tables, and {name_of(path)} is read as lines with {LABEL} words"
            raise ValueError(f"{what}: leave it out, or name the format of the table, as format='csv'")


def _may_have_missed_a_header(rules: FileRules, table: str | None) -> bool:
    positions = all(isinstance(column, int) for column in (*rules.text, rules.target) if column is not None)
    return positions and rules.dialect.header is None and table != "jsonl"


def _reads_like_names(text: str, n_columns: int) -> bool:
    """Return whether a text reads like the names of at most `n_columns` columns."""
    names = text.split("\n")
    return len(names) <= n_columns and all(map(_NAME.fullmatch, names))


def warn_of_header(path: str, texts: list[str], rules: FileRules, table: str | None) -> None:
    """Warn if the first of some unlabelled texts looks like a header.

    It must read like column names, and have fewer words than any other text.
    """
    if (
        len(texts) <= 2
        or not _reads_like_names(texts[0], len(rules.text))
        or not _may_have_missed_a_header(rules, table)
    ):
        return
    n_words = len(texts[0].split())
    if all(len(text.split()) > n_words for text in texts[1:]):
        warnings.warn(f"{name_of(path)}: the first row, {quoted(texts[0])}, {_TAKEN}", UserWarning, stacklevel=2)
