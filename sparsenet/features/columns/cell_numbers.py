"""Parse cells as numbers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sparsenet.features.columns.cells import Cells, is_missing_cell
from sparsenet.kernels.types import F64, I64

_PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
#: Thousands separated by commas, a currency, a percent sign.
_DECORATED = re.compile(r"([-+]?)[$€£¥]? ?([-+]?)(\d{1,3}(?:,\d{3})+|\d+)(\.\d*)? ?%?", re.ASCII)
#: Thousands separated by points, next to decimal commas.
_GROUPED = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{3})+(?![\d.])", re.ASCII)
_INFINITE = {"inf": np.inf, "+inf": np.inf, "-inf": -np.inf, "infinity": np.inf, "-infinity": -np.inf}


def parse_number(text: str) -> float | None:
    """Return the number in a string, or None.

    >>> parse_number(" 1e3"), parse_number("$1,200.50"), parse_number("45%"), parse_number("1_000"), parse_number("x")
    (1000.0, 1200.5, 45.0, None, None)
    """
    text = text.strip()
    if _PLAIN.fullmatch(text):
        return float(text)
    found = _DECORATED.fullmatch(text)
    if found:
        sign, own_sign, digits, rest = found.groups(default="")
        return float(f"{sign or own_sign}{digits.replace(',', '')}{rest}") if not (sign and own_sign) else None
    return _INFINITE.get(text.lower())


def is_code(text: str) -> bool:
    """Return whether a string of digits is a code rather than an amount: it starts with a zero, as in ``"02134"``."""
    text = text.strip()
    return len(text) > 1 and text[0] == "0" and text.isdigit()


def numbers_in(cells: Cells) -> tuple[F64, I64]:
    """Return the number of each cell, NaN where it is missing, and the rows of cells that hold no number."""
    values = cells.values
    if values.dtype.kind in "biuf":
        return values.astype(np.float64), np.empty(0, np.int64)
    if values.dtype.kind == "M":
        return np.full(len(values), np.nan), np.flatnonzero(~np.isnat(values))
    distinct = cells.distinct()
    found = np.array([_as_number(value, cells.decimal) for value in distinct.values], np.float64).reshape(-1, 2)
    return found[distinct.codes, 0], np.flatnonzero(found[distinct.codes, 1])


def are_numbers(cells: Cells) -> bool:
    """Return whether every cell holds a number or is missing; stops at the first other cell."""
    if cells.values.dtype.kind == "O":
        return not any(_as_number(value, cells.decimal)[1] for value in cells.values)
    return not len(numbers_in(cells)[1])


def _as_number(value: Any, decimal: str) -> tuple[float, bool]:
    """Return a distinct cell as a number, and whether it holds something else."""
    if type(value) is str and decimal == ",":
        if "." in value and (not _GROUPED.search(value) or "." in value.partition(",")[2]):
            return np.nan, True  # a point that separates no thousands is no decimal mark
        value = value.replace(".", "").replace(",", ".")
    if type(value) is str:
        try:  # the usual case; underscores are for programs, not for data
            number = float(value)
            return (number, False) if "_" not in value else (np.nan, True)
        except ValueError:
            parsed = parse_number(value)
            return (np.nan, not is_missing_cell(value)) if parsed is None else (parsed, False)
    if isinstance(value, int | float | np.integer | np.floating):
        try:
            return float(value), False
        except OverflowError:  # an integer of hundreds of digits
            return np.copysign(np.inf, value), False
    return np.nan, not is_missing_cell(value)
