"""Convert the values of a column to one of the few kinds of arrays that a `Frame` holds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import is_missing

MICROSECONDS = np.dtype("datetime64[us]")
_INT64 = np.iinfo(np.int64)


def as_column(values: Any, name: str) -> NDArray[Any]:
    """Convert an array, a series or a sequence to a column; a ValueError names a column that is not one row of values.

    Numbers become float64, int64 or bool; times datetime64[us] in UTC; durations seconds. Anything else becomes an
    object array of str, lists or mixed values, with None for missing ones.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ValueError(f"column {name!r} must be a sequence of values, got {type(values).__name__}")
    if isinstance(values, np.ma.MaskedArray):
        return column_of(values.tolist())  # masked values become None
    if not isinstance(values, np.ndarray):
        if not hasattr(values, "__array__"):
            return column_of(list(values))
        values = np.asarray(values)
    if values.ndim != 1:
        raise ValueError(f"column {name!r} must have one dimension, got the shape {values.shape}")
    return _of_array(values)


def _of_array(values: NDArray[Any]) -> NDArray[Any]:
    kind = values.dtype.kind
    if kind == "b":
        return values
    if kind == "i" or (kind == "u" and values.max(initial=0) <= _INT64.max):
        return values.astype(np.int64)
    if kind in "uf":
        return values.astype(np.float64)
    if kind == "M":
        return values.astype(MICROSECONDS)
    if kind == "m":
        return np.where(np.isnat(values), np.nan, _seconds(values))
    return column_of(values.tolist())


def column_of(values: Sequence[Any]) -> NDArray[Any]:
    """Convert Python values to a column, by their types."""
    kinds = {type(value) for value in values}
    if kinds <= {str, type(None)}:
        return objects(values)
    # From here on each value is looked at: a missing one may be NaN, NaT or pandas' NA.
    known: list[Any] = [None if is_missing(value) else value for value in values]
    kinds = {_kind(value) for value in known if value is not None}
    if len(kinds) != 1 and kinds != {int, float}:
        return objects(known)
    if kinds == {bool}:
        return objects(known) if None in known else np.array(known, bool)
    if kinds == {int} and None not in known and min(known) >= _INT64.min and max(known) <= _INT64.max:
        return np.array(known, np.int64)
    if kinds <= {int, float}:
        return np.array([np.nan if value is None else _float(value) for value in known], np.float64)
    if kinds == {datetime}:
        return np.array([_utc(value) for value in known], MICROSECONDS)
    if kinds == {timedelta}:
        return np.array([np.nan if value is None else _seconds(np.timedelta64(value)) for value in known])
    (kind,) = kinds if len(kinds) == 1 else (object,)
    if hasattr(kind, "to_timestamp"):  # a period of pandas begins then
        return column_of([None if value is None else value.to_timestamp() for value in known])
    if kinds == {list}:
        return objects([None if value is None else list(value) for value in known])
    return objects([str(value) if isinstance(value, str) else value for value in known])


def _kind(value: Any) -> type:
    """Return the type that decides on a column's array."""
    for kinds, kind in (
        ((bool, np.bool_), bool),
        ((int, np.integer), int),
        ((float, Decimal, np.floating), float),
        ((str,), str),
        ((date, np.datetime64), datetime),
        ((timedelta, np.timedelta64), timedelta),
        ((list, tuple, np.ndarray), list),
    ):
        if isinstance(value, kinds):
            return kind
    return type(value)


def _utc(value: Any) -> np.datetime64:
    """Convert a date or time to microseconds, in UTC if it has a time zone."""
    if value is None:
        return np.datetime64("NaT", "us")
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(value).astype(MICROSECONDS)


def _float(value: Any) -> float:
    """Convert a number; one beyond float64 becomes infinity, as NumPy's own conversions do."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _seconds(durations: Any) -> Any:
    return durations.astype("timedelta64[us]").astype(np.float64) / 1e6


def objects(values: Sequence[Any]) -> NDArray[Any]:
    """Return an object array of values, also of lists, which NumPy would make a matrix of."""
    out = np.empty(len(values), object)
    out[:] = values
    return out
