"""Files of texts for the commands: how they are read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from sparsenet import data
from sparsenet.cli import checks
from sparsenet.cli.models import columns_of
from sparsenet.data.blocks import BYTE_ORDER_MARK, line_blocks
from sparsenet.data.columns import Column
from sparsenet.data.dialect import USUAL, Dialect
from sparsenet.data.fasttext import LABEL, parted
from sparsenet.data.formats import TableFormat, is_npz, is_parquet, table_format, text_format
from sparsenet.data.lines import NO_PARQUET, PARQUET
from sparsenet.data.rows import JSON_LINES
from sparsenet.data.sources import OnSkipped, open_source, refuse_stdin_twice
from sparsenet.estimators.text import TextClassifier
from sparsenet.features.text.inputs import no_label, nothing_to_learn
from sparsenet.features.text.table_columns import KnownColumns, learnt_from, names_in
from sparsenet.features.text.text_files import FileRules, TextFile, is_json, iter_texts, read_texts, warn_of_header

TABLES = ("csv", "tsv", "jsonl")


@dataclass(frozen=True)
class TextSource:
    """A file of texts: a table and its columns, lines with ``__label__`` words, or lines that are texts.

    Columns are as the options name them, where positions are numbers in words.
    """

    path: Path
    text: list[str] = field(default_factory=lambda: ["text"])
    target: str = "label"
    label_delimiter: str | None = None
    format: str = "auto"
    dialect: Dialect = USUAL
    batch_rows: int = 4096

    def read(self) -> TextFile:
        """Read all texts and the labels of each."""
        return read_texts(self._path(), self._rules())

    def check(self) -> None:
        """Go through all texts, and refuse what `read` would refuse, or what holds no texts or labels."""
        n_texts = n_labels = 0
        one_each = self._table() in ("csv", "tsv") and self.label_delimiter is None
        bare = None
        for batch in iter_texts(self._path(), self._rules()):
            if one_each and bare is None and [] in batch.labels:
                row = batch.labels.index([])
                bare = no_label(self._path(), n_texts + row, batch.lines[row])
            n_texts += len(batch.texts)
            n_labels += sum(map(len, batch.labels))
        if n_labels == 0:
            raise nothing_to_learn(self._path(), n_texts)
        if bare is not None:
            raise bare

    def labelled(self) -> tuple[list[str], list[Any]]:
        """Read all texts and labels as a classifier takes them: a label each, where no text has more."""
        found = self.read()
        return found.texts, found.target()

    def n_texts_within(self, labels: set[str]) -> int:
        """Count the texts that have labels, and none but these; 0 of a pipe, which is read by now."""
        if not self.path.is_file():
            return 0
        batches = iter_texts(self._path(), self._rules())
        return sum(bool(own) and labels.issuperset(own) for batch in batches for own in batch.labels)

    def fit(self, model: TextClassifier) -> TextClassifier:
        """Train a model: from a file piece by piece, from a pipe all at once, which a search reads more than once."""
        if str(self.path) == "-":
            model.fit(*self.labelled()).columns_ = learnt_from(self.path, self._rules())
            return model
        return model.fit(self.path, **self._rules().options())

    def as_learnt(self, known: KnownColumns, given: Mapping[str, object]) -> TextSource:
        """Return the file read by the columns that a model learnt from, unless others are `given`.

        Where it has none of these, but has what columns are called by default, that is what they are. One of several
        that is there asks for the others.
        """
        table = self._table()
        unnamed = self.dialect.header is False
        names = [] if unnamed else names_in(self.path, cast(TableFormat | None, table), self.dialect)
        names = [name for name in names if self._column(name) == name]  # what else a number is, is a position

        def is_known(learnt: list[str], by_default: list[str]) -> bool:
            return bool(names) and (not set(names).isdisjoint(learnt) or set(names).isdisjoint(by_default))

        found: dict[str, Any] = {}
        if given.get("text") is None and is_known(known["text"], self.text):
            found["text"] = known["text"]
            lacking = next((name for name in known["text"] if name not in names), None)
            if lacking is not None:
                there = ", ".join(map(repr, names))
                what = "key" if table == "jsonl" else "column"
                problem = f"there is no {what} {lacking!r}, which the model learnt from; there are {there}"
                raise data.DataError(self._path(), None, f"{problem}: name the columns of texts (--text)")
        target = known["target"]
        if target is not None and given.get("target") is None and is_known([target], [self.target]):
            delimiter = known["label_delimiter"] if given.get("label_delimiter") is None else self.label_delimiter
            found |= {"target": target, "label_delimiter": delimiter}
        return replace(self, **found)

    def batches(self, on_skipped: OnSkipped) -> Iterator[list[str]]:
        """Yield texts alone, as they come, in memory that does not grow with the file."""
        if self.format == "auto" and is_json(self.path):
            raise data.DataError(self._path(), None, JSON_LINES)
        yield from self._lines() if self.is_of_lines else self._cells(on_skipped)

    def _cells(self, on_skipped: OnSkipped) -> Iterator[list[str]]:
        """Yield the texts of a table."""
        table = None if is_parquet(self.path) else self._table()
        rules = replace(self._rules(), target=None, format=table or "parquet")
        options = rules.options()
        first = table is not None
        for found in data.iter_table(self._path(), batch_rows=self.batch_rows, on_skipped=on_skipped, **options):
            if first:  # now: whoever reads the answers may stop before the end
                warn_of_header(self._path(), found.texts or [], rules, table)
            first = False
            yield found.texts or []

    def _lines(self) -> Iterator[list[str]]:
        """Yield what lines there are as soon as there are any: whoever waits at the end of a pipe gets answers."""
        with (
            open_source(self._path()) as source,
            closing(  # type: ignore[type-var]
                line_blocks(source, may_be_empty=True)
            ) as blocks,
        ):
            for block in blocks:
                if block.first_line == 1 and block.text[: len(PARQUET)].tobytes() == PARQUET:
                    raise data.DataError(source.name, None, NO_PARQUET)
                lines = block.text.tobytes().decode("utf-8", "replace").removesuffix("\n").split("\n")
                texts = [parted(line.removesuffix("\r"))[0] for line in lines]
                yield from in_batches(texts, self.batch_rows)

    @property
    def is_of_lines(self) -> bool:
        """Whether the file is no table."""
        return self._table() is None and not is_parquet(self.path)

    def _table(self) -> str | None:
        """Return the format of a table, by its name unless that was said; None for lines."""
        return table_format(str(self.path)) if self.format == "auto" else self.format if self.format in TABLES else None

    def _rules(self) -> FileRules:
        """Return how the file is read."""
        return FileRules(
            text=[self._column(name) for name in self.text],
            target=self._column(self.target),
            label_delimiter=self.label_delimiter,
            format=self._table() or ("auto" if is_json(self.path) and self.format == "auto" else "lines"),
            dialect=self.dialect,
        )

    def _path(self) -> str:
        return os.fspath(self.path)

    def _column(self, name: str) -> Column:
        """Return a position where a column is called by a number, as in a table whose first row holds no names."""
        return int(name) if name.isdecimal() and self._table() != "jsonl" else name


def in_batches(texts: list[str], most: int) -> Iterator[list[str]]:
    """Cut texts into batches of at most so many."""
    for begin in range(0, len(texts), most):
        yield texts[begin : begin + most]


def texts_of(
    data: Path,
    format: str,
    hint: str,
    *,
    text: list[str] | None,
    target: str | None = None,
    label_delimiter: str | None = None,
    batch_rows: int = 4096,
    model: Path | None = None,
    **rows: Any,
) -> TextSource:
    """Return the file that a command reads, by its options, those of its `rows` among them.

    `hint` is what it calls the option of the format.

    A saved `model` knows the columns that it learnt from: they are those of the file, too, if it has such and the
    options name no others.
    """
    columns_given = {"text": text, "target": target, "label_delimiter": label_delimiter}
    columns = {name.replace("_", "-"): value for name, value in columns_given.items()}
    found = checks.of_texts(format, hint, data, named=text_format(str(data)), **columns, **rows)
    about: dict[str, Any] = {"label_delimiter": label_delimiter, "batch_rows": batch_rows, "dialect": Dialect(**rows)}
    source = TextSource(data, text or ["text"], target or "label", format=found, **about)
    known = None if model is None else columns_of(model)
    return source if known is None else source.as_learnt(known, columns_given)


def is_text_file(path: Path, format: str = "auto", *columns: list[str] | str | bool | None) -> bool:
    """Tell a table, or lines with labels as fastText has them, from a file of sparse points."""
    if format != "auto" or any(column is not None for column in columns):
        return format not in ("xmc", "svmlight")
    if text_format(str(path)) or is_json(path):
        return True
    if is_npz(path):
        return False
    if str(path) == "-":
        head: bytes = sys.stdin.buffer.peek(64)  # type: ignore[union-attr]  # a pipe's buffer can do that
    elif not path.is_file():
        return False
    else:
        with open_source(str(path)) as source:  # as blocks, by which damage is named
            head = next((block.head() for block in line_blocks(source, may_be_empty=True)), b"")
    return head.removeprefix(BYTE_ORDER_MARK).startswith((LABEL.encode(), PARQUET))


def validation(source: TextSource, valid: Path | None) -> TextSource | TextFile | None:
    """Check texts to measure on, before an hour of training; what comes from a pipe is read now, as it can be once."""
    if valid is None:
        return None
    refuse_stdin_twice({"TRAIN": source.path, "--valid": valid})
    other = _beside(source, valid)
    if valid.is_file():
        other.check()
        return other
    found = other.read()
    found.check()
    return found


def _beside(source: TextSource, valid: Path) -> TextSource:
    """Return the texts to measure on, read as the others are, unless their own name says another format.

    What was said of rows of CSV and TSV is about the others alone where these are JSONL or Parquet, and of what
    separates fields where these are another kind of table.
    """
    other = replace(source, path=valid, format="auto" if text_format(str(valid)) else source.format)
    has_rows = other.is_of_lines or other._table() in ("csv", "tsv")
    if not has_rows:
        return replace(other, dialect=USUAL)
    same = other._table() == source._table()
    return other if same else replace(other, dialect=replace(other.dialect, delimiter=None))
