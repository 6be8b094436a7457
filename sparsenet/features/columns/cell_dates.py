"""Parse cells as dates and times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.features.columns.cells import Cells, is_missing_cell
from sparsenet.kernels.types import I64

Moments = NDArray[np.datetime64]
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = (
    r"(?:[T ,]+(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,](?P<f>\d{1,9}))?)?\s*(?P<p>[AaPp]\.?[Mm]\.?)?"
    r"\s*(?P<z>Z|UTC|GMT|[-+]\d{2}:?\d{2})?)?"
)
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? +)?"
_NAME = r"(?P<n>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_FORMS = {
    "year first": r"(?P<y>\d{4})[-/.](?P<m>\d{1,2})[-/.](?P<d>\d{1,2})",
    "compact": r"(?P<y>\d{4})(?P<m>\d{2})(?P<d>\d{2})",
    "day first": r"(?P<d>\d{1,2})[-/.](?P<m>\d{1,2})[-/.](?P<y>\d{4})",
    "month first": r"(?P<m>\d{1,2})[-/.](?P<d>\d{1,2})[-/.](?P<y>\d{4})",
    "day, month name": _WEEKDAY + r"(?P<d>\d{1,2})[- ]" + _NAME + r"[-, ]+(?P<y>\d{4})",
    "month name, day": _WEEKDAY + _NAME + r" +(?P<d>\d{1,2})(?:st|nd|rd|th)?,? +(?P<y>\d{4})",
}
#: The orders of parts that are understood, each with an optional time and zone; the first that fits all cells is taken.
ORDERS = tuple(_FORMS)
_PATTERNS = {
    order: re.compile(r"\s*" + form + _TIME + r"\s*", re.IGNORECASE | re.ASCII) for order, form in _FORMS.items()
}
#: Orders that a column may have without its type being given: eight digits may be anything.
INFERRED_ORDERS = tuple(order for order in ORDERS if order != "compact")


def parse_moment(text: str, order: str) -> datetime | None:
    """Return the date and time in a string whose parts have this order, in UTC if it names a zone; None if it has none.

    >>> parse_moment("3/12/2024 5:07 PM", "month first")
    datetime.datetime(2024, 3, 12, 17, 7)
    >>> parse_moment("2024-03-12T17:07:00+02:00", "year first")
    datetime.datetime(2024, 3, 12, 15, 7)
    """
    match = _PATTERNS[order].fullmatch(text)
    if match is None:
        return None
    part = match.groupdict()
    hour, half = int(part["H"] or 0), (part["p"] or "").lower()[:1]
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (half == "p")
    month = int(part["m"]) if part.get("m") else MONTHS.index(part["n"].lower()) + 1
    micro = int((part["f"] or "0").ljust(6, "0")[:6])
    try:
        found = datetime(int(part["y"]), month, int(part["d"]), hour, int(part["M"] or 0), int(part["S"] or 0), micro)
        return found - _offset(part["z"])
    except (ValueError, OverflowError):  # the 31st of February; the year 0
        return None


def _offset(zone: str | None) -> timedelta:
    if not zone or zone[0] not in "+-":
        return timedelta(0)
    digits = zone[1:].replace(":", "")
    return (1 if zone[0] == "+" else -1) * timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))


def find_order(texts: Sequence[str], orders: Iterable[str] = ORDERS, share: float = 1.0) -> str | None:
    """Return the first of `orders` in which at least a `share` of the strings are dates; None if there is none.

    Days come before months where all strings fit both.
    """
    fitting = {order: sum(parse_moment(text, order) is not None for text in texts) for order in orders}
    best = max(fitting.values(), default=0)
    if not texts or best < share * len(texts):
        return None
    return next(order for order, count in fitting.items() if count == best)


def moments_in(cells: Cells, order: str) -> tuple[Moments, I64]:
    """Return the moment of each cell, NaT where it is missing, and the rows of cells that hold something else."""
    values = cells.values
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]"), np.empty(0, np.int64)
    if values.dtype.kind in "iuf":  # only if the type is given: seconds since 1970
        return _of_seconds(values)
    distinct = cells.distinct()
    parsed = [_as_moment(value, order) for value in distinct.values]
    moments = np.array([None if moment is None else moment for moment, _ in parsed], "datetime64[us]")
    strays = np.fromiter((stray for _, stray in parsed), bool, len(parsed))
    if not len(values):
        return np.empty(0, "datetime64[us]"), np.empty(0, np.int64)
    return moments[distinct.codes], np.flatnonzero(strays[distinct.codes])


def _of_seconds(values: NDArray[Any]) -> tuple[Moments, I64]:
    """Read numbers as seconds since 1970, or as milli-, micro- or nanoseconds if they are too large for that."""
    numbers = values.astype(np.float64)
    with np.errstate(invalid="ignore"):
        largest = np.abs(numbers[np.isfinite(numbers)]).max(initial=0)
        factor = next((f for f in (1e6, 1e3, 1.0, 1e-3) if largest * f < 2.5e17), 1e-3)  # up to the year 9892
        is_usable = np.abs(numbers * factor) < 2.5e17
    found = np.full(len(values), np.datetime64("NaT"), "datetime64[us]")
    found[is_usable] = (numbers[is_usable] * factor).astype(np.int64).view("datetime64[us]")
    return found, np.flatnonzero(~is_usable & ~np.isnan(numbers))


def _as_moment(value: Any, order: str) -> tuple[datetime | None, bool]:
    """Return a distinct cell as a moment, and whether it holds something else."""
    if is_missing_cell(value):
        return None, False
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)), False
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day), False
    found = parse_moment(value, order) if isinstance(value, str) else None
    return found, found is None
