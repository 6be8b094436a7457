"""Take texts and labels from columns of data frames: pandas, Polars or Arrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparsenet.data.columns import Column, check_apart, joined, quoted_names, refuse_values, text_columns
from sparsenet.features.text.inputs import lazily, listed, to_text
from sparsenet.features.text.table_columns import KnownColumns

#: Default names of the columns.
TEXT, TARGET = "text", "label"


class DictRows:
    """Rows as dicts, read like a data frame: ``rows[column]`` is a list of cells."""

    def __init__(self, rows: Sequence[Mapping[Any, Any]]) -> None:
        self.rows = rows
        self.columns = list(dict.fromkeys(key for row in rows for key in row))

    def __getitem__(self, column: Any) -> list[Any]:
        lacking = next((row for row, own in enumerate(self.rows) if column not in own), None)
        if lacking is not None:
            there = ", ".join(map(repr, self.rows[lacking]))
            raise ValueError(f"row {lacking} of X has no key {column!r}; there are {there or 'none'}")
        return [row[column] for row in self.rows]


def framed(X: Any) -> Any:
    """Return a dict, or a list of dicts, as a frame; anything else, and a mapping of whole columns, unchanged."""
    if isinstance(X, Mapping):
        return X if X and all(isinstance(cell, list | tuple | np.ndarray) for cell in X.values()) else DictRows([X])
    if isinstance(X, list | tuple) and X and all(isinstance(row, Mapping) for row in X):
        return DictRows(X)
    return X


def labelled_columns(
    X: Any, y: Any, text: Any, target: Any, more: dict[str, Any]
) -> tuple[Any, Any, KnownColumns | None]:
    """Return texts, labels, and the names of the columns that a data frame X holds them in.

    If X is not a frame, return X and y unchanged. Without y, labels are a column of the frame. `more` holds arguments
    for files, which must be None.
    """
    refuse_values("target", target, "X")
    X = framed(X)
    texts, names = text_columns(text, of_frame=True), _names(X)
    is_default = texts == [TEXT]
    if lazily(X) and (y is None or not is_default):
        raise ValueError(f"X must be a data frame that is there, got {type(X).__name__}{lazily(X)}")
    _refuse_unused(more, "files")
    if not names:
        _refuse_unused({"text": None if is_default else text}, "files, and data frames")
    if y is not None or not names:
        _refuse_unused({"target": None if target == TARGET else target}, "files, and data frames without y")
    if y is None:
        return _with_labels(X, names, texts, target)
    if is_default and (len(names) == 1 or TEXT not in names) and not isinstance(X, DictRows):
        return X, y, None
    _check(names, "text", texts, "name them")
    return _texts(X, texts), y, _known(texts, None)


def refuse_columns(text: Any, target: Any, more: dict[str, Any]) -> None:
    """Refuse names of columns, and the arguments for files in `more`: batches of texts have no columns."""
    is_default = text_columns(text, of_frame=True) == [TEXT]
    named = {"text": None if is_default else text, "target": None if target == TARGET else target}
    _refuse_unused(named | more, "files")


def _refuse_unused(given: dict[str, Any], known: str) -> None:
    """Refuse arguments that would have no effect."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name}={value!r} is for {known}: leave it out, or pass such an X")


def _with_labels(X: Any, names: list[Any], texts: list[Column], target: Any) -> tuple[Any, Any, KnownColumns | None]:
    if not names:
        raise ValueError("TextClassifier requires y to be passed, but the target y is None")
    check_apart(texts, target)
    _check(names, "text", texts, "name them, or pass y")
    _check(names, "target", [target], "name them, or pass y")
    return _texts(X, texts), X[target], _known(texts, target)


def _known(texts: list[Any], target: Any) -> KnownColumns:
    """Return the names of the columns of a frame; they may be of any type."""
    return {"text": texts, "target": target, "label_delimiter": None}


def texts_in(X: Any, known: KnownColumns | None) -> Any:
    """Return the texts of a data frame, a dict or a list of dicts, from the columns that a model learnt from.

    Return X unchanged if it is not a frame, or if it has one column and the model learnt from one: its name may differ.
    """
    X = framed(X)
    names = _names(X)
    is_rows = isinstance(X, DictRows)
    if is_rows and known is None:
        raise ValueError("X holds dicts, and the model learnt from no columns with names: pass texts")
    other_name = known is not None and len(names) == len(known["text"]) == 1 and names != known["text"]
    if known is None or (not is_rows and (not names or other_name)):
        return X
    _check(names, "text", known["text"], f"the model learnt from {quoted_names(known['text'], 'and')}")
    return _texts(X, known["text"])


def frame_labels(X: Any, known: KnownColumns | None) -> Any:
    """Return the column of labels that a model learnt from, of a data frame or dicts."""
    X, target = framed(X), None if known is None else known["target"]
    if target is None or not _names(X):
        raise ValueError("y must be passed: only a file or data frame with the learnt column of labels may stand alone")
    _check(_names(X), "target", [target], f"the model learnt the labels from {target!r}; pass y instead")
    return X[target]


def joined_columns(X: Any) -> Any:
    """Return the texts of all columns of a data frame or two-dimensional array; anything else unchanged."""
    names = _names(X)
    if names:
        _check(names, "columns", names, "rename them")
        return _texts(X, names)
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[-1] > 1:
        return [_joined(range(len(own)), own, row) for row, own in enumerate(X.tolist())]
    return X


def _names(X: Any) -> list[Any]:
    """Return the names of the columns of a data frame; none for anything else, lazy frames included."""
    return [] if hasattr(X, "collect") else list(getattr(X, "column_names", getattr(X, "columns", ())))


def _check(names: list[Any], argument: str, columns: Sequence[Any], advice: str) -> None:
    """Refuse columns that a data frame lacks, or has more than once."""
    for column in columns:
        if column not in names:
            several = "; several columns are a list" if isinstance(column, tuple) else ""
            found = f"there are {', '.join(map(repr, names)) or 'none'}: {advice}{several}"
            raise ValueError(f"{argument}={column!r} is not a column of X; {found}")
        if names.count(column) > 1:
            raise ValueError(f"{argument}={column!r} is the name of {names.count(column)} columns of X: rename them")


def _texts(X: Any, columns: Sequence[Column]) -> Any:
    """Return a column of a data frame, or several columns joined into one."""
    if len(columns) == 1:
        return X[columns[0]]
    cells = zip(*(listed(X[column]) for column in columns), strict=True)
    return [_joined(columns, own, row) for row, own in enumerate(cells)]


def _joined(columns: Sequence[Column], cells: Sequence[Any], row: int) -> str:
    def as_text(own: Sequence[Column], cell: Any) -> str:
        return cell if type(cell) is str else to_text(cell, row, f"column {quoted_names(own)} of X")

    return joined(columns, cells, as_text)
