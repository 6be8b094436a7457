"""Convert a table encoder to arrays for saving, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import first_repeated, integer
from sparsenet.features.columns.category_column import CategoryColumn
from sparsenet.features.columns.column_encoder import ColumnEncoder, ColumnSummary
from sparsenet.features.columns.date_column import DateColumn
from sparsenet.features.columns.history import History, under
from sparsenet.features.columns.history_column import HistoryColumn
from sparsenet.features.columns.ignored_column import IgnoredColumn
from sparsenet.features.columns.number_column import NumberColumn
from sparsenet.features.columns.several_column import SeveralColumn
from sparsenet.features.columns.table_encoder import TableEncoder
from sparsenet.features.columns.text_column import TextColumn
from sparsenet.kernels.types import Arrays
from sparsenet.storage.format import ModelError

ENCODERS: dict[str, type[ColumnEncoder]] = {
    "number": NumberColumn,
    "category": CategoryColumn,
    "categories": SeveralColumn,
    "ids": SeveralColumn,
    "date": DateColumn,
    "text": TextColumn,
    "history": HistoryColumn,
    "ignore": IgnoredColumn,
}


def pack(encoder: TableEncoder) -> tuple[Arrays, dict[str, Any]]:
    """Convert an encoder to arrays and JSON.

    The arrays of all columns lie behind each other, and so does their JSON in an array of bytes: a manifest with the
    state of each of ten thousand columns would be too large.
    """
    states = [column.state() for column in encoder.columns]
    columns = [
        {"name": column.name, "type": column.type, "summary": asdict(column.summary), "state": about}
        for column, (_, about) in zip(encoder.columns, states, strict=True)
    ]
    arrays: Arrays = {"columns": np.frombuffer(json.dumps(columns).encode(), np.uint8)}
    for name in sorted({name for own, _ in states for name in own}):
        there = [own[name] for own, _ in states if name in own]
        arrays[f"columns.{name}"] = np.concatenate(there)
        arrays[f"starts.{name}"] = np.cumsum([0, *(len(own.get(name, ())) for own, _ in states)], dtype=np.int64)
    if encoder.history is None:
        return arrays, {"n_columns": len(columns)}
    own, about = encoder.history.state()
    history = {f"history.{name}": array for name, array in own.items()}
    return {**arrays, **history}, {"n_columns": len(columns), "history": about}


def unpack(arrays: Arrays, about: Mapping[str, Any]) -> TableEncoder:
    """Restore and check what `pack` packed; anything damaged is a `ModelError`."""
    try:
        columns = _columns(arrays, integer("n_columns", about["n_columns"], 0))
        history = History.restore(under(arrays, "history."), about["history"]) if "history" in about else None
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"the columns of the model are damaged: {error!r}") from error
    repeated = first_repeated(column.name for column in columns)
    if repeated is not None:
        raise ModelError(f"two columns of the model have the name {repeated!r}")
    derived = [] if history is None else history.derived
    of_history = [column.name for column in columns if column.type == "history"]
    if of_history != derived[2:] or not {*derived} <= {column.name for column in columns}:
        raise ModelError(f"the history of the model derives {derived}, and its columns are of {of_history}")
    return TableEncoder(columns, history)


def _columns(arrays: Arrays, n: int) -> tuple[ColumnEncoder, ...]:
    """Restore all columns."""
    if arrays["columns"].dtype != np.uint8 or arrays["columns"].ndim != 1:
        raise ModelError("the description of the columns must be bytes")
    saved = json.loads(arrays["columns"].tobytes())
    if not isinstance(saved, list) or len(saved) != n:
        raise ModelError(f"the model describes other than its {n} columns")
    found = {
        name: _parts(name, array, arrays[f"starts.{name}"], n) for name, array in under(arrays, "columns.").items()
    }
    return tuple(_column(one, {name: parts[i] for name, parts in found.items()}) for i, one in enumerate(saved))


def _parts(name: str, array: NDArray[Any], starts: NDArray[Any], n: int) -> list[NDArray[Any]]:
    """Cut an array into the parts of the columns."""
    is_valid = array.ndim == 1 and starts.dtype == np.int64 and starts.shape == (n + 1,)
    if not is_valid or starts[0] != 0 or starts[-1] != len(array) or (np.diff(starts) < 0).any():
        raise ModelError(f"starts.{name} must rise from 0 to the length of columns.{name}, in {n} steps")
    return [array[begin:end] for begin, end in pairwise(starts.tolist())]


def _column(saved: Mapping[str, Any], own: Arrays) -> ColumnEncoder:
    """Restore one column."""
    name, kind = saved["name"], saved["type"]
    if not isinstance(name, str) or kind not in ENCODERS:
        raise ModelError(f"column {name!r} has the type {kind!r}, which is none of {', '.join(ENCODERS)}")
    column = ENCODERS[kind].restore(name, _summary(saved["summary"]), own, saved["state"])
    if column.type != kind:
        raise ModelError(f"column {name!r} has the type {kind!r} and the state of {column.type!r}")
    return column


def _summary(saved: Mapping[str, Any]) -> ColumnSummary:
    """Restore and check the summary of a column."""
    found = ColumnSummary(**saved)
    if not isinstance(found.why, str) or not isinstance(found.example, str):
        raise ModelError("the reason for a type and the example of a column must be strings")
    integer("n_distinct", found.n_distinct, 0)
    integer("n_missing", found.n_missing, 0)
    return found
