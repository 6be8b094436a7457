"""What the commands do with raw texts: train, evaluate and predict, from files to files."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from sparsenet import data, kernels, storage
from sparsenet.cli import commands
from sparsenet.data.blocks import BYTE_ORDER_MARK, line_blocks
from sparsenet.data.formats import table_format
from sparsenet.data.sources import open_source
from sparsenet.estimators.building import in_words
from sparsenet.text import TextClassifier
from sparsenet.text.compression import Compression
from sparsenet.text.inputs import LABEL, TextFile, is_parquet, iter_texts, read_texts

Column = str | int
TABLES = ("csv", "tsv", "jsonl")


@dataclass(frozen=True)
class TextSource:
    """A file of texts: a table and its columns, lines with ``__label__`` words, or lines that are texts."""

    path: Path
    text: Column = "text"
    target: Column = "label"
    label_delimiter: str | None = None
    format: str = "auto"
    batch_rows: int = 4096

    def read(self) -> TextFile:
        """Read all texts and the labels of each."""
        columns = self._column(self.text), self._column(self.target)
        return read_texts(self._path(), *columns, self.label_delimiter, self._table() or "lines")

    def labelled(self) -> tuple[list[str], list[Any]]:
        """Read all texts and labels as a classifier takes them: a label each, where no text has more."""
        found = self.read()
        return found.texts, found.target()

    def fit(self, model: TextClassifier) -> TextClassifier:
        """Train a model: from a file piece by piece, from a pipe all at once, which a search reads more than once."""
        if str(self.path) == "-":
            return model.fit(*self.labelled())
        columns: dict[str, Any] = {"text": self._column(self.text), "target": self._column(self.target)}
        return model.fit(self.path, **columns, label_delimiter=self.label_delimiter, format=self._table() or "lines")

    def batches(self) -> Iterator[list[str]]:
        """Yield texts alone, as they come, in memory that does not grow with the file."""
        table = self._table()
        if is_parquet(self.path):
            for batch in iter_texts(self.path, self._column(self.text), None):
                yield batch.texts
        elif table is None:
            yield from self._lines()
        else:
            columns: dict[str, Any] = {"text": self._column(self.text), "target": None, "format": table}
            for found in data.iter_table(self._path(), batch_rows=self.batch_rows, **columns):
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
                lines = block.text.tobytes().decode("utf-8", "replace").removesuffix("\n").split("\n")
                yield [_without_labels(line.removesuffix("\r")) for line in lines]

    def _table(self) -> str | None:
        """Return the format of a table, by its name unless that was said; None for lines."""
        return table_format(str(self.path)) if self.format == "auto" else self.format if self.format in TABLES else None

    def _path(self) -> str:
        return os.fspath(self.path)

    def _column(self, name: Column) -> Column:
        """Return a position where a column is called by a number, as in a table whose first row holds no names."""
        return int(name) if isinstance(name, str) and name.isdecimal() and self._table() != "jsonl" else name


def _without_labels(line: str) -> str:
    if LABEL not in line:
        return line
    return " ".join(word for word in line.split(" ") if not word.startswith(LABEL))


def is_text_file(path: Path, format: str = "auto", *columns: str | None) -> bool:
    """Tell a table, or lines with labels as fastText has them, from a file of sparse points."""
    if format != "auto" or any(columns):
        return format not in ("xmc", "svmlight")
    if table_format(str(path)) or is_parquet(path):
        return True
    if str(path) == "-":
        head = bytearray(sys.stdin.buffer.peek(64))  # type: ignore[union-attr]  # a pipe's buffer can do that
    elif not path.is_file():
        return False
    else:
        with open_source(str(path)) as source:
            head = bytearray(64)
            del head[source.readinto(memoryview(head)) :]
    return head.removeprefix(BYTE_ORDER_MARK).startswith(LABEL.encode())


def is_text_model(path: Path) -> bool:
    """Tell what kind of model a directory holds, believing it for now; what is no model is left to the loader."""
    try:
        manifest = json.loads((path / storage.MANIFEST).read_bytes())
        return bool(manifest["metadata"]["model"] == "TextClassifier")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def train(source: TextSource, model_path: Path, valid: Path | None, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Train, save, and return a summary for people and programs."""
    storage.prepare(model_path)
    started, cpu_started = time.perf_counter(), time.process_time()
    model = source.fit(TextClassifier(**parameters))
    model.save(model_path)
    summary: dict[str, Any] = {
        "points": model.n_texts_,
        "labels": len(model.classes_),
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu_started,
        "validation": model.validation_score_,
        "search": model.search_,
        "model": str(model_path),
        "model_bytes": sum(file.stat().st_size for file in model_path.iterdir()),
        "backend": kernels.backend(),
        "interrupted": False,
    }
    if valid is not None:
        other = replace(source, path=valid, format="auto" if str(source.path) == "-" else source.format)
        summary["valid"] = evaluate(model_path, other, [1], threads=parameters.get("n_jobs"))["P@1"]
    return summary


def describe_training(summary: Mapping[str, Any]) -> str:
    """Put a summary into words."""
    lines = [
        f"{commands.count(summary['points'], 'text')}, {commands.count(summary['labels'], 'label')}",
        f"{summary['seconds']:.1f} s ({summary['cpu_seconds']:.1f} CPU s, {summary['backend']} kernels)",
    ]
    measured = {"of the texts held out": summary["validation"], "of the --valid texts": summary.get("valid")}
    lines += [f"{100 * share:.2f} % {whose} right" for whose, share in measured.items() if share is not None]
    return "\n".join([*lines, f"{summary['model']}: {in_words(summary['model_bytes'])}"])


def evaluate(
    model_path: Path, source: TextSource, ks: Sequence[int], *, threads: int | None, plot: Path | None = None
) -> dict[str, Any]:
    """Measure a model on a file."""
    model = TextClassifier.load(model_path).set_params(n_jobs=threads)
    started = time.perf_counter()
    found = source.read()
    found.check()
    if getattr(model.predict([""]), "ndim", 0) == 1:  # it gives each text one label
        found.check_each()
    texts, labels = found.texts, found.labels
    position = {str(label): number for number, label in enumerate(model.classes_.tolist())}
    # A label that was never seen in training has a column of its own, behind the others.
    columns = [[position.setdefault(label, len(position)) for label in own] for own in labels]
    indptr = np.concatenate(([0], np.cumsum([len(own) for own in columns])))
    flat = np.fromiter((number for own in columns for number in own), np.int64)
    truth = sparse.csr_array((np.ones(len(flat), np.float32), flat, indptr), shape=(len(texts), len(position)))
    k = min(max(*ks, commands.RECALL_AT), len(model.classes_))
    best = model.predict_topk(texts, k)
    ranked = best.indices.reshape(-1, k).astype(np.int32)
    if plot is not None:
        commands.draw(plot, truth, ranked, best.data.reshape(-1, k), list(position))
    scores = commands.measured(truth, ranked, ks, model.label_counts_, model.n_texts_)
    return {**scores, "seconds": time.perf_counter() - started, "points": len(texts)}


def compress(
    model_path: Path, max_bytes: str, source: TextSource | None, output: Path, *, threads: int | None
) -> Compression:
    """Save a smaller model, and return what that took and cost."""
    storage.prepare(output)
    model = TextClassifier.load(model_path)
    jobs = model.n_jobs
    model.set_params(n_jobs=threads)
    report = model.compress(max_bytes, *(source.labelled() if source else (None, None)))
    model.set_params(n_jobs=jobs).save(output)
    return report


def predict(model_path: Path, source: TextSource, k: int, format: str, *, threads: int | None) -> Iterator[str]:
    """Yield the lines of a batch of texts after the other."""
    model = TextClassifier.load(model_path).set_params(n_jobs=threads)
    k = min(k, len(model.classes_))
    line = commands.as_jsonl if format == "jsonl" else commands.as_tsv
    for texts in source.batches():
        best = model.predict_topk(texts, k)
        names = model.classes_[best.indices.reshape(-1, k)].tolist()
        yield "".join(line(own, p) for own, p in zip(names, best.data.reshape(-1, k).tolist(), strict=True))
