"""Turn what users pass to `TableClassifier` into a frame and labels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy.sparse import issparse

from sparsenet.core.rows import Rows
from sparsenet.core.validation import is_missing, refuse_vector
from sparsenet.data.columns import refuse_values
from sparsenet.data.dialect import DEFAULT, NO_FILE, Dialect, LearntFile
from sparsenet.data.frames import Frame, is_frame, read_frame
from sparsenet.features.columns.history import HistorySpec
from sparsenet.features.columns.history_column import HistoryColumn
from sparsenet.features.columns.table_encoder import TableEncoder
from sparsenet.features.spelling import encoded_by_spelling
from sparsenet.features.targets import Target, check_lengths, listed

_OF_HISTORY = ("key", "time", "columns", "n")
_MANY = (list, tuple, set, frozenset, np.ndarray)


def framed(
    X: Any,
    *,
    argument: str = "X",
    format: str = "auto",
    dialect: Dialect = DEFAULT,
    learnt: LearntFile = NO_FILE,
) -> Frame:
    """Return a table as a frame; the columns of an array are named "0", "1" and so on.

    A file is read like the one that the model learnt from, apart from the options that are given.
    """
    if isinstance(X, str | os.PathLike):
        format, dialect = learnt.like(X, format, dialect)
    if issparse(X):
        raise ValueError(
            f"{argument} is a sparse matrix, and TableClassifier takes tables: use BlendClassifier for sparse points"
        )
    if isinstance(X, np.ndarray):
        refuse_vector(X)
    if not is_frame(X) and getattr(X, "ndim", 0) == 2 and hasattr(X, "__array__"):
        array = np.asarray(X)
        X = {str(place): array[:, place] for place in range(array.shape[1])}
    elif isinstance(X, list | tuple) and not len(X):
        X = {}
    return read_frame(X, argument=argument, format=format, dialect=dialect)


def check_rows(frame: Frame) -> None:
    """Refuse to learn from a table without rows."""
    if not len(frame):
        problem = "has no rows: a table to learn from needs at least one"
        raise frame.error(problem) if frame.is_file else ValueError(f"{frame.source} {problem}")


def as_table(X: Any) -> Any:
    """Return one row as a table: a dict with a cell that is no list or array, or a row of a pandas frame.

    A dict whose cells are all lists is a table of columns already.
    """
    if isinstance(X, Mapping) and any(isinstance(cell, str) or not hasattr(cell, "__len__") for cell in X.values()):
        return [X]
    return [X.to_dict()] if hasattr(X, "to_dict") and getattr(X, "ndim", 0) == 1 else X


def one_row(row: Any, learnt: LearntFile) -> Frame:
    """Return a frame of the only row: a dict of cells, a row of a pandas frame, or a table of one row."""
    frame = framed(as_table(row), argument="row", learnt=learnt)
    if len(frame) != 1:
        raise ValueError(f"row must be one row, got {len(frame)}: pass a dict of cells, or a table of one row")
    return frame


def cells_of_row(frame: Frame, encoder: TableEncoder) -> dict[str, Any]:
    """Return the cells of a frame of one row, and the cells that the history derives."""
    cells = {name: frame[name][0] for name in frame.names}
    if encoder.history is None:
        return cells
    past = encoder.history.past(frame)
    for column in encoder.columns:
        if isinstance(column, HistoryColumn):
            codes = past[column.name][0]
            cells[column.name] = [column.categories.value_name(int(code)) for code in codes if code >= 0]
        elif column.name in past:
            cells[column.name] = float(past[column.name][0])
    return cells


def history_spec(history: HistorySpec | Mapping[str, Any] | None) -> HistorySpec | None:
    """Return the checked description of a history."""
    if history is None or isinstance(history, HistorySpec):
        return history
    wanted = "{'key': 'user', 'time': 'when', 'columns': ['item'], 'n': 10}"
    if not isinstance(history, Mapping) or not {"key", "time", "columns"} <= set(history) <= {*_OF_HISTORY}:
        raise ValueError(f"history must be a dict such as {wanted}, got {history!r}")
    return HistorySpec(**history)


def check_types(types: Any) -> None:
    """Refuse `types` that are no dict."""
    if types is not None and not isinstance(types, Mapping):
        raise ValueError(f"types must be a dict such as {{'price': 'number'}}, got {types!r}")


def table_labels(frame: Frame, y: Any, target: str | None, label_delimiter: str | None) -> tuple[Frame, Any]:
    """Return the frame without the column of classes, and the classes."""
    if isinstance(y, str):
        raise ValueError(f"y must hold a class for each row, got {y!r}: for a column of X pass target={y!r}")
    refuse_values("target", target, "X")
    if y is not None:
        if target is not None:
            raise ValueError(f"target={target!r} and y both give the classes: leave one out")
        if label_delimiter is not None:
            raise ValueError("label_delimiter is for a column of X: pass lists of labels as y")
        return frame, listed(y)
    if target is None:
        raise ValueError("target must name the column of classes, such as target='y', or y must hold them")
    frame.require([target], "target")
    if len(frame.names) == 1:
        raise frame.error(f"the column {target!r} holds the classes, and there is no other column to learn from")
    return frame.without([target]), _column_labels(frame, target, label_delimiter)


def _column_labels(frame: Frame, target: str, label_delimiter: str | None) -> Any:
    """Return the classes in a column: one of each row, or a list of each row."""
    cells = frame[target]
    if label_delimiter is not None:
        return [_split(cell, label_delimiter) for cell in cells.tolist()]
    if cells.dtype.kind == "M":
        cells = np.array([None if np.isnat(cell) else str(cell) for cell in cells], dtype=object)
    if cells.dtype.kind == "f":
        fractions = np.flatnonzero(np.isfinite(cells) & (cells != np.round(cells)))
        if len(fractions):
            problem = f"the column {target!r} holds the fraction {cells[fractions[0]]:g}, and classes are predicted"
            raise frame.error(f"{problem}: cut the numbers into ranges, or use a regression", int(fractions[0]))
    there = cells.tolist()
    if any(isinstance(cell, _MANY) for cell in there):
        return [[] if not isinstance(cell, _MANY) and is_missing(cell) else cell for cell in there]
    for row, cell in enumerate(there):
        if is_missing(cell):
            raise frame.error(f"the column {target!r} is empty: every row needs a class; drop the row", row)
    return cells


def row_labels(frame: Frame, y: Any, known: Target, target: str | None, label_delimiter: str | None) -> Rows:
    """Return the classes of rows to measure a model on as numbers: y, or the column `target` of the frame."""
    if y is not None:
        is_labels = known.kind in ("single", "lists") and getattr(y, "ndim", 1) == 1 and not issparse(y)
        return encoded_column(listed(y), known) if is_labels else known.encode(y, drop_unknown=True)
    if target is None:
        raise ValueError("y must be given: the model was trained with y, not with the name of a column")
    return encoded_column(table_labels(frame, None, target, label_delimiter)[1], known)


def validation_rows(
    validation: Any,
    encoder: TableEncoder,
    known: Target,
    target: str | None,
    label_delimiter: str | None,
    learnt: LearntFile,
) -> tuple[Frame, Rows] | None:
    """Return validation rows and their classes, before anything is trained; errors begin with "validation"."""
    if validation is None:
        return None
    is_pair = isinstance(validation, tuple | list) and len(validation) == 2
    is_pair = is_pair and not isinstance(validation[1], Mapping)  # two dicts are two rows
    X, y = validation if is_pair else (validation, None)
    try:
        frame = framed(X, argument="X", learnt=learnt)
        encoder.require(frame)
        labels = row_labels(frame, y, known, target, label_delimiter)
        check_lengths(len(frame), labels)
    except ValueError as error:
        raise ValueError(f"validation: {error}") from error
    return frame, labels


def encoded_column(labels: Any, target: Target) -> Rows:
    """Return the labels of a column as numbers, compared by spelling, as 1 and "1"; unknown ones are left out."""
    rows = (row if isinstance(row, Iterable) and not isinstance(row, str | bytes) else [row] for row in list(labels))
    found = encoded_by_spelling(rows, target)
    return found if len(found.indices) else target.encode(labels, drop_unknown=True)  # warns


def _split(cell: Any, delimiter: str) -> list[str]:
    """Return the classes in a cell, without blanks around them."""
    if is_missing(cell):
        return []
    return [part.strip() for part in str(cell).split(delimiter) if part.strip()]
