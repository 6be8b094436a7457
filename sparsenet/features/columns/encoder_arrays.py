"""Convert a table encoder to arrays for saving, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

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
    """Convert an encoder to arrays and JSON."""
    arrays: Arrays = {}
    columns = []
    for number, column in enumerate(encoder.columns):
        own, about = column.state()
        arrays |= {f"columns.{number}.{name}": array for name, array in own.items()}
        columns.append({"name": column.name, "type": column.type, "summary": asdict(column.summary), "state": about})
    if encoder.history is None:
        return arrays, {"columns": columns}
    own, about = encoder.history.state()
    return {**arrays, **{f"history.{name}": array for name, array in own.items()}}, {
        "columns": columns,
        "history": about,
    }


def unpack(arrays: Arrays, about: Mapping[str, Any]) -> TableEncoder:
    """Restore and check what `pack` packed; anything damaged is a `ModelError`."""
    try:
        columns = tuple(_column(arrays, number, saved) for number, saved in enumerate(about["columns"]))
        history = History.restore(under(arrays, "history."), about["history"]) if "history" in about else None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
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


def _column(arrays: Arrays, number: int, saved: Mapping[str, Any]) -> ColumnEncoder:
    """Restore one column."""
    name, kind, prefix = saved["name"], saved["type"], f"columns.{number}."
    if not isinstance(name, str) or kind not in ENCODERS:
        raise ModelError(f"column {name!r} has the type {kind!r}, which is none of {', '.join(ENCODERS)}")
    column = ENCODERS[kind].restore(name, _summary(saved["summary"]), under(arrays, prefix), saved["state"])
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
