"""Check texts and labels in memory: lists, arrays, columns of data frames."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from sparsenet.core.rows import Rows
from sparsenet.core.validation import is_missing
from sparsenet.data import DataError
from sparsenet.data.dataset import Dataset
from sparsenet.data.fasttext import LABEL
from sparsenet.data.formats import text_format


class TextBatch(NamedTuple):
    """Texts of a file, the labels of each, and the line on which each begins (None for Parquet)."""

    texts: list[str]
    labels: list[list[str]]
    lines: list[int | None]

    def extend(self, other: TextBatch) -> None:
        """Append the texts of another batch."""
        self.texts.extend(other.texts)
        self.labels.extend(other.labels)
        self.lines.extend(other.lines)


def check_texts(texts: Any, name: str = "X") -> list[str]:
    """Return texts as a list of strings; an error names the first row that holds something else.

    Bytes are decoded as UTF-8; invalid bytes become U+FFFD.
    """
    if isinstance(texts, str | bytes | os.PathLike):
        raise ValueError(f"{name} must be a sequence of texts, got {_single(texts)}")
    if issparse(texts):
        raise ValueError(f"{name} must hold raw texts, got a sparse matrix: BlendClassifier takes matrices of numbers")
    shape: tuple[int, ...] = getattr(texts, "shape", (0,))
    if len(shape) == 2 and shape[1] == 1:  # a frame of one column
        texts = np.asarray(texts)[:, 0]
    elif len(shape) != 1:
        advice = "pass one, such as X['text'], or name several of a data frame with fit(..., text=['title', 'body'])"
        raise ValueError(f"{name} must be one column of texts, got the shape {shape}: {advice}")
    if isinstance(texts, Mapping):
        raise ValueError(f"{name} is a mapping of columns: pass the column of texts, or a data frame")
    if isinstance(texts, set | frozenset):
        problem = f"must be a sequence of texts, got a {type(texts).__name__}"
        raise ValueError(f"{name} {problem}: pass a list, whose order labels can follow")
    if not isinstance(texts, Iterable):
        raise ValueError(f"{name} must be a sequence of texts, got {type(texts).__name__}{_instead(texts)}")
    found = listed(texts)
    for row, text in enumerate(found):
        if type(text) is not str:
            found[row] = to_text(text, row, name)
    return found


def _single(text: str | bytes | os.PathLike[Any]) -> str:
    """Return the error for a single text, or for a path where none is taken."""
    path = os.fspath(text)
    is_table = isinstance(path, str) and text_format(path) is not None
    if isinstance(text, os.PathLike) or is_table or (isinstance(text, str) and os.path.isfile(text)):
        return f"the name of a file, {path!r}: pass its texts, sparsenet.data.read_table({path!r}).texts"
    return "a single one: pass [text]"


def _instead(X: Any) -> str:
    """Return advice for an object that holds no texts; empty if there is none."""
    return ": BlendClassifier takes points" if isinstance(X, Dataset) else lazily(X)


def lazily(X: Any) -> str:
    """Return advice for lazy data frames, as of Polars and Dask; empty for anything else."""
    method = next((method for method in ("collect", "compute") if callable(getattr(X, method, None))), None)
    return f": pass what its {method}() returns" if method else ""


def listed(texts: Iterable[Any]) -> list[Any]:
    """Return a list of Python objects from an array or column of NumPy, pandas, Polars or Arrow."""
    for method in ("tolist", "to_list", "to_pylist"):
        if hasattr(texts, method):
            return list(getattr(texts, method)())
    return list(texts)


def to_text(text: Any, row: int, name: str) -> str:
    """Return a cell as a plain string; an error names the row and the value."""
    if isinstance(text, bytes):
        return text.decode("utf-8", "replace")
    if isinstance(text, str):  # np.str_ and other subclasses
        return str(text)
    if is_missing(text):
        advice = "fill missing texts in with '' or drop the row"
    elif isinstance(text, Mapping):
        advice = "pass a data frame of the dicts, or a list of their texts"
    elif isinstance(text, list | tuple | set | frozenset):
        advice = "join words to a text, or use BlendClassifier with lists of ids as a sparse matrix"
    else:
        advice = "convert it with str"
    raise ValueError(f"{name} must hold texts, got {text!r} in row {row}: {advice}")


def nothing_to_learn(path: str, n_texts: int) -> DataError:
    """Return the error for a file without texts or without labels."""
    if n_texts == 0:
        return DataError(path, None, "holds no texts: there is nothing below its header, or its lines are blank")
    problem = f"holds no labels: their column is empty, or no line has a word that begins with {LABEL}"
    problem += ". For a table, pass format= as csv, tsv or jsonl"
    return DataError(path, None, problem)


def no_label(path: str, row: int, line: int | None) -> DataError:
    """Return the error for a text without a label where all others have one."""
    what = f"the text in row {row}" if line is None else "the text"
    return DataError(path, line, f"{what} has no label: give it one, or leave it out")


def check_any(texts: list[str]) -> None:
    """Refuse an empty list of texts."""
    if not texts:
        raise ValueError("X holds no texts: there must be at least one")


def check_lengths(texts: list[str], labels: Rows) -> None:
    """Refuse different numbers of texts and labels."""
    if len(texts) != len(labels):
        raise ValueError(f"X has {len(texts)} texts, y has {len(labels)} entries: y must have one for each text")


def check_labelled(labels: Rows) -> None:
    """Refuse to learn from texts without any label."""
    if len(labels.indices) == 0:
        raise ValueError("y holds no label at all: at least one text must have one")
