"""Read labelled texts of any form: lists, data frames and files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

from sparsenet.core.validation import choice
from sparsenet.data.columns import refuse_values, text_columns
from sparsenet.data.dialect import Dialect
from sparsenet.data.formats import TableFormat
from sparsenet.features.text.corpus import Corpus
from sparsenet.features.text.feature_options import FeatureOptions
from sparsenet.features.text.inputs import check_texts
from sparsenet.features.text.table_columns import KnownColumns, learnt_from
from sparsenet.features.text.text_cache import TextCache, cached_corpus, is_stream, streamed_corpus
from sparsenet.features.text.text_files import FileRules, iter_texts
from sparsenet.features.text.text_frames import labelled_columns, refuse_columns


def labelled_corpus(
    X: Any,
    y: Any,
    options: FeatureOptions,
    *,
    threads: int,
    memory_limit: int | None,
    format: str,
    dialect: Dialect,
    cache: str | os.PathLike[str] | None = None,
    **columns: Any,
) -> tuple[Corpus, KnownColumns | None]:
    """Extract the features of labelled texts; also return the names of their columns.

    X, y, `format`, `dialect`, `cache` and `columns` are the arguments of `TextClassifier.fit`.
    """
    if not isinstance(X, str | Path):
        of_files = {"label_delimiter": columns["label_delimiter"], "format": None if format == "auto" else format}
        of_files |= dialect.given
        if cache is not None and y is None and is_stream(X):
            refuse_columns(columns["text"], columns["target"], of_files)
            return streamed_corpus(X, cache, options, threads, memory_limit), None
        if y is None and isinstance(X, Iterator):
            raise ValueError("X is an iterator: if it yields batches (texts, labels), name a folder with cache")
        if cache is not None:
            raise ValueError(
                "cache is for a file of texts, and these are in memory: pass the path of a CSV, TSV, JSONL or Parquet "
                "file or an iterable of batches (texts, labels), or leave out cache"
            )
        X, y, known = labelled_columns(X, y, columns["text"], columns["target"], of_files)
        return Corpus.of_texts(check_texts(X), y, options, threads), known
    if y is not None:
        raise ValueError("y must be None if X is a path: name the column of labels in the file with target=")
    refuse_values("target", columns["target"], "X")
    choice("format", format, ("auto", *get_args(TableFormat), "lines"))
    rules = FileRules(**columns | {"text": text_columns(columns["text"])}, format=format, dialect=dialect)
    known, read = learnt_from(X, rules), partial(iter_texts, X, rules)
    path = os.fspath(X)
    if cache is None:
        return Corpus.of_file(path, read, options, threads, memory_limit), known
    return cached_corpus(TextCache.of(cache, path, rules, options), read, options, threads, memory_limit), known
