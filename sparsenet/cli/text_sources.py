"""Detect the format of text files, and read their texts and labels."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from sparsenet import data
from sparsenet.cli import usage
from sparsenet.cli.models import known_columns
from sparsenet.data.blocks import BYTE_ORDER_MARK, line_blocks
from sparsenet.data.columns import Column
from sparsenet.data.dialect import DEFAULT, Dialect
from sparsenet.data.fasttext import LABEL, split_labels
from sparsenet.data.formats import TableFormat, is_npz, text_format
from sparsenet.data.lines import NO_PARQUET, PARQUET
from sparsenet.data.sources import OnSkipped, open_source, refuse_stdin_twice
from sparsenet.data.table_rows import JSON_LINES, other_delimiter
from sparsenet.estimators.text import TextClassifier
from sparsenet.features.text.table_columns import KnownColumns, file_of, learnt_from, names_in
from sparsenet.features.text.text_files import FileRules, TextFile, is_json, iter_texts, read_texts, warn_of_header

TABLES = ("csv", "tsv", "jsonl")


@dataclass(frozen=True)
class TextSource:
    """A file of texts: a table and its columns, or lines with or without ``__label__`` words.

    Columns are strings as given to the options; numbers are positions. `format` is csv, tsv, jsonl, parquet or lines.
    """

    path: Path
    format: str
    text: list[str] = field(default_factory=lambda: ["text"])
    target: str = "label"
    label_delimiter: str | None = None
    dialect: Dialect = DEFAULT
    batch_rows: int = 4096

    def read(self) -> TextFile:
        """Read all texts and the labels of each."""
        return read_texts(self._path(), self._rules())

    def n_texts_within(self, labels: set[str]) -> int:
        """Count the texts with labels, all of them in `labels`; return 0 for a pipe, which can be read only once."""
        if not self.path.is_file():
            return 0
        batches = iter_texts(self._path(), self._rules())
        return sum(bool(own) and labels.issuperset(own) for batch in batches for own in batch.labels)

    def fit(self, model: TextClassifier, cache: Path | None = None) -> None:
        """Train a model on the file, or on its features in the folder `cache`.

        Read a pipe into memory first, since a search reads the texts repeatedly.
        """
        if str(self.path) == "-" and cache is None:
            file = self.read()
            model.fit(file.texts, file.target()).columns_ = learnt_from(self.path, self._rules())
        else:
            model.fit(self.path, **self._rules().options(), cache=cache)

    def as_learnt(self, known: KnownColumns, given: SimpleNamespace) -> TextSource:
        """Return a copy that reads the columns that a model was trained on, unless the user has `given` others.

        A file with none of these columns, but with the default ones, is read by the default columns. A file with some
        of the text columns must have all of them.
        """
        names = [] if self.dialect.header is False else names_in(self.path, self._table(), self.dialect)
        names = [name for name in names if self._column(name) == name]  # a number would be read as a position

        def applies(learnt: list[str], by_default: list[str]) -> bool:
            return bool(names) and (not set(names).isdisjoint(learnt) or set(names).isdisjoint(by_default))

        found: dict[str, Any] = {}
        if given.text is None and applies(known["text"], self.text):
            found["text"] = known["text"]
            missing = next((name for name in known["text"] if name not in names), None)
            if missing is not None:
                existing = ", ".join(map(repr, names))
                what = "key" if self.format == "jsonl" else "column"
                existing += other_delimiter(names)
                problem = f"there is no {what} {missing!r}, which the model learnt from; there are {existing}"
                raise data.DataError(self._path(), None, f"{problem}: name the columns of texts (--text)")
        target = known["target"]
        if target is not None and getattr(given, "target", None) is None and applies([target], [self.target]):
            found |= {"target": target, "label_delimiter": self.label_delimiter or known["label_delimiter"]}
        return replace(self, **found)

    def batches(self, on_skipped: OnSkipped) -> Iterator[list[str]]:
        """Yield batches of texts without their labels, in constant memory."""
        yield from self._lines() if self.format == "lines" else self._cells(on_skipped)

    def _cells(self, on_skipped: OnSkipped) -> Iterator[list[str]]:
        rules = replace(self._rules(), target=None, format=self.format)
        options = rules.options()
        first = self.format in TABLES
        for found in data.iter_table(self._path(), batch_rows=self.batch_rows, on_skipped=on_skipped, **options):
            if first:  # before the first prediction, since the consumer may stop early
                warn_of_header(self._path(), found.texts or [], rules, self.format)
            first = False
            yield found.texts or []

    def _lines(self) -> Iterator[list[str]]:
        """Yield lines as soon as they arrive, so that a pipe gets its predictions without delay."""
        with open_source(self._path()) as source:
            for block in line_blocks(source, may_be_empty=True):
                if block.first_line == 1 and block.text[: len(PARQUET)].tobytes() == PARQUET:
                    raise data.DataError(source.name, None, NO_PARQUET)
                lines = block.text.tobytes().decode("utf-8", "replace").removesuffix("\n").split("\n")
                texts = [split_labels(line.removesuffix("\r"))[0] for line in lines]
                yield from in_batches(texts, self.batch_rows)

    def _table(self) -> TableFormat | None:
        return cast(TableFormat, self.format) if self.format in TABLES else None

    def _rules(self) -> FileRules:
        return FileRules(
            text=[self._column(name) for name in self.text],
            target=self._column(self.target),
            label_delimiter=self.label_delimiter,
            format="auto" if self.format == "parquet" else self.format,
            dialect=self.dialect,
        )

    def _path(self) -> str:
        return os.fspath(self.path)

    def _column(self, name: str) -> Column:
        """Convert a column name to a position if it is a number and the file is not JSONL."""
        return int(name) if name.isdecimal() and self.format != "jsonl" else name


def in_batches(texts: list[str], size: int) -> Iterator[list[str]]:
    """Split texts into batches."""
    for begin in range(0, len(texts), size):
        yield texts[begin : begin + size]


def text_source(given: SimpleNamespace, format_option: str = "format") -> TextSource:
    """Return the file of texts that a command reads.

    Without options for columns, the columns of the saved model are used.
    """
    format = getattr(given, format_option)
    usage.check_text_format(format, format_option, given.data, text_format(given.data), given)
    dialect = Dialect(**{name: getattr(given, name) for name in usage.ROWS})
    about = {name: getattr(given, name, None) for name in ("text", "target", "label_delimiter")}
    source = TextSource(
        given.data,
        _read_as(given.data, format),
        **{name: value for name, value in about.items() if value is not None},
        dialect=dialect,
        batch_rows=getattr(given, "batch_size", None) or TextSource.batch_rows,
    )
    known = None if given.command == "train" else known_columns(given.model)
    if known is None:
        return source
    if source.format in ("csv", "tsv"):
        source = replace(source, dialect=file_of(known).like(given.data, source.format, dialect)[1])
    return source.as_learnt(known, given)


def _read_as(path: Path, format: str) -> str:
    """Return the format of a text file: the format that the user chose, or the one that the suffix implies.

    A .parquet file is always read as Parquet, and an unknown suffix means lines.
    """
    named = text_format(path)
    if named is not None and (format == "auto" or named == "parquet"):
        return named
    if format == "auto" and is_json(path):
        raise data.DataError(os.fspath(path), None, JSON_LINES)
    return "lines" if format == "auto" else format


def is_text_file(path: Path, format: str, table_options: Mapping[str, Any]) -> bool:
    """Return whether a file holds text instead of sparse points, by the options, its name or its first line.

    Text is a table, or lines with ``__label__`` words.
    """
    if format != "auto" or table_options:
        return format not in ("xmc", "svmlight")
    if text_format(path) or is_json(path):
        return True
    if is_npz(path):
        return False
    if str(path) == "-":
        head: bytes = sys.stdin.buffer.peek(64)  # type: ignore[union-attr]  # a pipe has a buffered reader
    elif not path.is_file():
        return False
    else:
        with open_source(str(path)) as source:  # read as blocks, so that errors name a damaged file
            head = next((block.head() for block in line_blocks(source, may_be_empty=True)), b"")
    return head.removeprefix(BYTE_ORDER_MARK).startswith((LABEL.encode(), PARQUET))


def validation_source(source: TextSource, valid: Path | None, format: str) -> TextSource | None:
    """Return the validation texts, read like the training texts unless the suffix implies another format.

    JSONL and Parquet ignore options for CSV and TSV, and a delimiter is not passed from CSV to TSV or back.
    """
    if valid is None:
        return None
    refuse_stdin_twice({"TRAIN": source.path, "--valid": valid})
    other = replace(source, path=valid, format=_read_as(valid, "auto" if text_format(valid) else format))
    if other.format in ("jsonl", "parquet"):
        return replace(other, dialect=DEFAULT)
    return other if other.format == source.format else replace(other, dialect=replace(other.dialect, delimiter=None))


def read_validation(source: TextSource, valid: TextSource) -> TextFile:
    """Read the validation texts, and reject a file without usable labels."""
    found = valid.read()
    found.check()
    if valid.format in ("csv", "tsv") and source.label_delimiter is None:
        found.check_each()
    return found
