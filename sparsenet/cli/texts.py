"""What the commands do with raw texts: train, evaluate and predict, from files to files."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from sparsenet import data, kernels, storage
from sparsenet.cli import commands
from sparsenet.data.blocks import line_blocks
from sparsenet.data.formats import table_format
from sparsenet.data.sources import open_source
from sparsenet.estimators.building import in_words
from sparsenet.text import TextClassifier
from sparsenet.text.compression import Compression
from sparsenet.text.inputs import LABEL, iter_texts, read_texts

Column = str | int
_TABLES = ("csv", "tsv", "jsonl")


@dataclass(frozen=True)
class TextSource:
    """A file of texts: a table and its columns, lines with ``__label__`` words, or lines that are texts."""

    path: Path
    text: Column = "text"
    target: Column = "label"
    label_delimiter: str | None = None
    format: str = "auto"
    batch_rows: int = 4096

    def read(self) -> tuple[list[str], list[list[str]]]:
        """Read all texts and the labels of each."""
        texts, labels = read_texts(self._path(), self.text, self.target, self.label_delimiter)
        if labels is None:
            raise data.DataError(str(self.path), None, f"holds no labels: no line has a word that begins with {LABEL}")
        return texts, labels

    def labelled(self) -> tuple[list[str], list[Any]]:
        """Read all texts and labels as a classifier takes them: a label each, where no text has more or less."""
        texts, labels = self.read()
        return texts, [own[0] for own in labels] if all(len(own) == 1 for own in labels) else labels

    def batches(self) -> Iterator[list[str]]:
        """Yield texts alone, as they come, in memory that does not grow with the file."""
        table = self.format if self.format in _TABLES else table_format(str(self.path))
        if str(self.path) != "-" and self.path.suffix.lower() in (".parquet", ".pq"):
            for texts, _ in iter_texts(self.path, self.text, None):
                yield texts
        elif table is None:
            yield from self._lines()
        else:
            columns: dict[str, Any] = {"text": self.text, "target": None, "format": table}
            for found in data.iter_table(self._path(), batch_rows=self.batch_rows, **columns):
                yield found.texts or []

    def _lines(self) -> Iterator[list[str]]:
        """Yield what lines there are as soon as there are any: whoever waits at the end of a pipe gets answers."""
        with open_source(self._path()) as source, closing(line_blocks(source)) as blocks:  # type: ignore[type-var]
            for block in blocks:
                lines = block.text.tobytes().decode("utf-8", "replace").removesuffix("\n").split("\n")
                yield [_without_labels(line.removesuffix("\r")) for line in lines]

    def _path(self) -> str:
        return os.fspath(self.path)


def _without_labels(line: str) -> str:
    if LABEL not in line:
        return line
    return " ".join(word for word in line.split(" ") if not word.startswith(LABEL))


def is_text_file(path: Path) -> bool:
    """Tell a table, or lines with labels as fastText has them, from a file of sparse points."""
    if table_format(str(path)) or path.suffix.lower() in (".parquet", ".pq"):
        return True
    if not path.is_file():
        return False
    with open_source(str(path)) as source:
        head = bytearray(64)
        found = source.readinto(memoryview(head))
    return bytes(head[:found]).startswith(LABEL.encode())


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
    columns: dict[str, Any] = {"text": source.text, "target": source.target, "label_delimiter": source.label_delimiter}
    model = TextClassifier(**parameters).fit(source.path, **columns)
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
        other = TextSource(valid, source.text, source.target, source.label_delimiter)
        summary["valid"] = evaluate(model_path, other, [1], threads=parameters.get("n_jobs"))["P@1"]
    return summary


def describe_training(summary: Mapping[str, Any]) -> str:
    """Put a summary into words."""
    lines = [
        f"{summary['points']} texts, {summary['labels']} labels",
        f"{summary['seconds']:.1f} s ({summary['cpu_seconds']:.1f} CPU s, {summary['backend']} kernels)",
    ]
    measured = {"of the texts held out": summary["validation"], "of the --valid texts": summary.get("valid")}
    lines += [f"{100 * share:.2f} % {whose} right" for whose, share in measured.items() if share is not None]
    return "\n".join([*lines, f"{summary['model']}: {in_words(summary['model_bytes'])}"])


def evaluate(model_path: Path, source: TextSource, ks: Sequence[int], *, threads: int | None) -> dict[str, Any]:
    """Measure a model on a file."""
    model = TextClassifier.load(model_path).set_params(n_jobs=threads)
    started = time.perf_counter()
    texts, labels = source.read()
    position = {str(label): number for number, label in enumerate(model.classes_.tolist())}
    # A label that was never seen in training has a column of its own, behind the others.
    columns = [[position.setdefault(label, len(position)) for label in own] for own in labels]
    indptr = np.concatenate(([0], np.cumsum([len(own) for own in columns])))
    flat = np.fromiter((number for own in columns for number in own), np.int64)
    truth = sparse.csr_array((np.ones(len(flat), np.float32), flat, indptr), shape=(len(texts), len(position)))
    k = min(max(*ks, commands.RECALL_AT), len(model.classes_))
    ranked = model.predict_topk(texts, k).indices.reshape(-1, k).astype(np.int32)
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
