"""Convert the columns of a log to numbers: names of users and items, times and weights."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import count
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import is_unicode
from sparsenet.data.errors import cut
from sparsenet.data.frames import Frame
from sparsenet.features.columns.cell_dates import Moments, moments_in, time_order
from sparsenet.features.columns.cell_numbers import numbers_in
from sparsenet.features.columns.cells import Cells
from sparsenet.features.name_kinds import KINDS, in_kind
from sparsenet.kernels.types import F32, F64, I32, I64

_ADVICE = "name users and items by strings or whole numbers"


def encode_names(frame: Frame, column: str, kind: str | None = None) -> tuple[I32, NDArray[Any]]:
    """Return the number of the name in each row, and the names: ascending, int64 or objects of str.

    `kind` is the kind of the names that a model knows: "O", "i" or None. Raises an error that names the first row
    without a name, with a value that is no name, or with a name that is not of this kind.
    """
    codes, names = _encode(frame, column)
    found, fits = in_kind(names, kind)
    if not fits.all():
        row = int(np.argmax(~fits[codes]))
        known = f"the model knows such names by {KINDS[str(kind)]}: write them as in its training log"
        raise frame.error(f"column {column!r} holds {cut(repr(names[codes[row]]))}, and {known}", row)
    if found is names:
        return codes, names
    order = np.argsort(found)  # "10" is before "9"
    ranks = np.empty(len(order), np.int32)
    ranks[order] = np.arange(len(order))
    return ranks[codes], found[order]


def _encode(frame: Frame, column: str) -> tuple[I32, NDArray[Any]]:
    values = frame[column]
    if not len(values):
        return np.zeros(0, np.int32), values
    if values.dtype.kind == "f":
        values = _whole_numbers(frame, column)
    if values.dtype.kind == "i":
        names, codes = np.unique(values, return_inverse=True)
        return codes.astype(np.int32), names
    if values.dtype.kind != "O":
        raise frame.error(f"column {column!r} holds {_kind(values)}: {_ADVICE}", 0)
    return _encode_strings(frame, column)


def _whole_numbers(frame: Frame, column: str) -> I64:
    """Convert floats to integers: a column of integers becomes float where a library has no missing integer."""
    values = frame[column]
    if np.isnan(values).any():
        raise _missing(frame, column, int(np.argmax(np.isnan(values))))
    wrong = (np.abs(values) >= 2.0**53) | (values != np.floor(values))
    if wrong.any():
        row = int(np.argmax(wrong))
        found = f"column {column!r} holds {values[row]:g}"
        if abs(values[row]) >= 2.0**53:
            raise frame.error(f"{found}, which is too large to be exact: name users and items by strings", row)
        raise frame.error(f"{found}: {_ADVICE}", row)
    return np.asarray(values, np.int64)


def _encode_strings(frame: Frame, column: str) -> tuple[I32, NDArray[Any]]:
    values = frame[column].tolist()
    if set(map(type, values)) - {str}:
        _refuse_other_types(frame, column)
    number: defaultdict[str, int] = defaultdict(count().__next__)
    codes = np.fromiter(map(number.__getitem__, values), np.int32, len(values))
    if "" in number:
        raise _missing(frame, column, values.index(""))
    broken = next((name for name in number if not is_unicode(name)), None)
    if broken is not None:
        problem = f"column {column!r} holds {broken!a}, half of a surrogate pair, which UTF-8 cannot encode: replace it"
        raise frame.error(problem, values.index(broken))
    names = np.empty(len(number), object)
    names[:] = sorted(number)
    ranks = np.empty(len(number), np.int32)
    ranks[[number[name] for name in names]] = np.arange(len(names))
    return ranks[codes], names


def _refuse_other_types(frame: Frame, column: str) -> NoReturn:
    """Raise an error about the first value that is missing, or of another type than the others."""
    values = frame[column].tolist()
    first = next((value for value in values if value is not None), None)
    for row, value in enumerate(values):
        if value is None:
            raise _missing(frame, column, row)
        found = f"column {column!r} holds {cut(repr(value))}"
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise frame.error(f"{found}, {type(value).__name__}: {_ADVICE}", row)
        if type(value) is not type(first):
            raise frame.error(f"{found}, and other rows hold {type(first).__name__}: convert them to one type", row)
    raise frame.error(f"column {column!r} holds whole numbers beyond 64 bits: name users and items by strings")


def _missing(frame: Frame, column: str, row: int) -> ValueError:
    return frame.error(f"column {column!r} is empty: fill it in, or leave the row out", row)


def read_times(frame: Frame, column: str, are_dates: bool | None = None) -> tuple[F64, bool | None]:
    """Return the time of each row, and whether times are dates: numbers unchanged, dates in seconds since 1970 (UTC).

    `are_dates` is whether a model learnt dates, None if it learnt no times. Another kind is refused, since numbers may
    have any unit and origin.
    """
    cells = Cells.of(frame, column)
    if cells.values.dtype.kind == "b":
        raise frame.error(f"column {column!r} holds {_kind(cells.values)}, and no times", 0)
    order = time_order(cells)
    if order is None:
        seconds, strays = numbers_in(cells)
    else:
        moments, strays = moments_in(cells, order)
        if order == "day first" and not len(strays):
            _refuse_ambiguous(frame, column, cells, moments)
        seconds = np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / 1e6)
    if len(strays):
        wanted = "a time: write it as 2026-03-31, as 2026-03-31T18:30, or all times in seconds"
        read = "" if order in (None, "year first") else f" ({order}, as in the other rows)"
        value = cells.values[strays[0]]
        problem = (
            f"column {column!r} holds {cut(repr(value))}, which is not {wanted}{read}{_decimal_advice(frame, value)}"
        )
        raise frame.error(problem, int(strays[0]))
    if not np.isfinite(seconds).all():
        row = int(np.argmax(~np.isfinite(seconds)))
        raise frame.error(f"column {column!r} holds no time: fill it in, or leave the row out", row)
    if not len(frame):
        return seconds, are_dates
    if are_dates not in (None, order is not None):
        found, known, wanted = ("numbers", "dates", "dates such as 2026-03-31T18:30")
        if not are_dates:
            found, known, wanted = ("dates", "numbers", "numbers in the same unit")
        raise frame.error(f"column {column!r} holds {found}, and the model learnt {known}: write times as {wanted}", 0)
    return seconds, order is not None


def time_in_words(frame: Frame, column: str, seconds: float) -> str:
    """Return a time that `read_times` could return: a date if the column holds dates, or else a number."""
    if time_order(Cells.of(frame, column)) is None or not abs(seconds) < 2**63 / 1e6:
        return f"{seconds:.15g}"
    return str(np.datetime_as_string(np.datetime64(round(seconds * 1e6), "us"), unit="auto"))


def _refuse_ambiguous(frame: Frame, column: str, cells: Cells, moments: Moments) -> None:
    """Refuse dates that could all begin with the month, too: another part of the log might decide otherwise."""
    swapped, strays = moments_in(cells, "month first")
    rows = np.flatnonzero((swapped != moments) & ~np.isnat(moments))
    if len(rows) and not len(strays):
        advice = "which begins with a day or a month: write it as 2026-03-31"
        raise frame.error(f"column {column!r} holds {cut(repr(cells.values[rows[0]]))}, {advice}", int(rows[0]))


def read_weights(frame: Frame, column: str) -> F32:
    """Return the weight of each row; errors name a row whose weight is missing, negative or infinite."""
    values = frame[column]
    if not len(values):
        return np.zeros(0, np.float32)
    if values.dtype.kind == "O":
        numbers, strays = numbers_in(Cells.of(frame, column))
        if len(strays):
            row = int(strays[0])
            problem = f"column {column!r} holds {cut(repr(values[row]))}, which is not a number"
            advice = _decimal_advice(frame, values[row]) or ": correct it, or leave the row out"
            raise frame.error(f"{problem}{advice}", row)
    elif values.dtype.kind in "ifb":
        numbers = values.astype(np.float64)
    else:
        raise frame.error(f"column {column!r} holds {_kind(values)}, and no weights", 0)
    wrong = ~((numbers >= 0) & (numbers <= np.finfo(np.float32).max))
    if wrong.any():
        row = int(np.argmax(wrong))
        if np.isnan(numbers[row]):
            raise _missing(frame, column, row)
        problem = f"column {column!r} holds the weight {numbers[row]:g}: weights are finite numbers of at least 0"
        raise frame.error(f"{problem}; leave out rows that say that a user does not want an item", row)
    return numbers.astype(np.float32)


def _decimal_advice(frame: Frame, value: Any) -> str:
    """Return advice for a cell of a file that seems to have a decimal comma; empty for other cells."""
    has_comma = frame.is_file and isinstance(value, str) and re.fullmatch(r"[-+]?[\d.]*\d,\d+", value.strip(), re.ASCII)
    return "; read decimal commas with decimal=','" if has_comma and frame.decimal == "." else ""


def _kind(values: NDArray[Any]) -> str:
    return {"b": "True and False", "M": "dates"}.get(values.dtype.kind, str(values.dtype))
