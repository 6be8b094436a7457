"""Parse cells as dates and times."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.features.columns.cell_numbers import are_numbers, numbers_in
from sparsenet.features.columns.cells import Cells, is_missing_cell
from sparsenet.kernels.types import F64, I64

Moments = NDArray[np.datetime64]
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = (
    r"(?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,](?P<f>\d{1,9}))?)?\s*(?P<p>[AaPp]\.?[Mm]\.?)?"
    r"\s*(?P<z>Z|UTC|GMT|[-+]\d{2}:?\d{2})?"
)
_TIME = rf"(?:[T ,]+{_CLOCK})?"
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
_PATTERNS = {
    **{order: re.compile(rf"\s*{form}{_TIME}\s*", re.IGNORECASE | re.ASCII) for order, form in _FORMS.items()},
    "time only": re.compile(rf"\s*{_CLOCK}\s*", re.IGNORECASE | re.ASCII),
}
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?)?", re.ASCII)
MICROSECONDS_A_DAY = 86_400_000_000
#: Microseconds until about the year 9000.
_MAX_TICKS = 2.2e17
#: Units of numbers that are times since 1970, in microseconds.
_UNITS = {"seconds": 1e6, "milliseconds": 1e3, "microseconds": 1.0, "nanoseconds": 1e-3}
#: How cells hold dates: the order of the parts of strings, each with an optional time and zone, or the unit of numbers.
ORDERS = (*_PATTERNS, *_UNITS)
#: Orders that no other order can be mistaken for: a column of another order may hold them, too.
_CLEAR_ORDERS = ("year first", "day, month name", "month name, day")
#: Orders that a column may have without its type being given: eight digits may be anything.
INFERRED_ORDERS = tuple(order for order in _PATTERNS if order != "compact")


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
    month = MONTHS.index(part["n"].lower()) + 1 if "n" in part else int(part.get("m", 1))
    micro = int((part["f"] or "0").ljust(6, "0")[:6])
    try:
        day = datetime(int(part.get("y", 1970)), month, int(part.get("d", 1)))
        found = day.replace(hour=hour, minute=int(part["M"] or 0), second=int(part["S"] or 0), microsecond=micro)
        return found - _offset(part["z"])
    except (ValueError, OverflowError):  # the 31st of February; the year 0
        return None


def _offset(zone: str | None) -> timedelta:
    if not zone or zone[0] not in "+-":
        return timedelta(0)
    digits = zone[1:].replace(":", "")
    return (1 if zone[0] == "+" else -1) * timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))


def find_order(texts: Sequence[str], orders: Iterable[str] = tuple(_PATTERNS), share: float = 1.0) -> str | None:
    """Return the first of `orders` that reads the most strings, if these are at least a `share` of them, else None.

    Every order also reads dates such as 2024-12-31. Days come before months where all strings fit both.

    >>> find_order(["2024-12-31", "1/2/2024", "31/1/2024"]), find_order(["1/31/2024", "31/1/2024"])
    ('day first', None)
    """
    clear = np.array([any(parse_moment(text, order) is not None for order in _CLEAR_ORDERS) for text in texts], bool)
    fits = {order: np.array([parse_moment(text, order) is not None for text in texts], bool) for order in orders}
    if not texts or max(int((own | clear).sum()) for own in fits.values()) < share * len(texts):
        return None
    return max(fits, key=lambda order: (int((fits[order] | clear).sum()), int(fits[order].sum())))


def time_order(cells: Cells) -> str | None:
    """Return the order of the parts of times in strings; None if they are numbers, or more than half are no dates."""
    if cells.values.dtype.kind == "M":
        return "year first"
    if are_numbers(cells):
        return None
    texts = [value for value in cells.values.tolist() if isinstance(value, str)]
    return find_order(texts[:: -(-len(texts) // 10_000) or 1], share=0.5) if texts else "year first"


def find_unit(numbers: NDArray[Any]) -> str:
    """Return the unit of numbers that are times since 1970: seconds if that gives years up to 9000."""
    sizes = np.abs(numbers[np.isfinite(numbers)])
    largest = float(np.quantile(sizes, 0.99)) if len(sizes) else 0.0
    return next((unit for unit, factor in _UNITS.items() if largest * factor < _MAX_TICKS), "nanoseconds")


def moments_in(cells: Cells, order: str) -> tuple[Moments, I64]:
    """Return the moment of each cell, NaT where it is missing, and the rows of cells that hold something else."""
    if cells.values.dtype.kind == "M":
        return cells.values.astype("datetime64[us]"), np.empty(0, np.int64)
    if order in _UNITS:
        numbers, strays = numbers_in(cells)
        moments, beyond = _of_numbers(numbers, _UNITS[order])
        return moments, np.union1d(strays, beyond)
    distinct = cells.distinct()
    found = _of_iso(distinct.values) if order == "year first" else None
    if found is not None:
        return found[distinct.codes], np.empty(0, np.int64)
    parsed = [_as_moment(value, order) for value in distinct.values]
    moments = np.array([moment for moment, _ in parsed], "datetime64[us]")
    strays = np.fromiter((stray for _, stray in parsed), bool, len(parsed))
    return moments[distinct.codes], np.flatnonzero(strays[distinct.codes])


def _of_iso(values: list[Any]) -> Moments | None:
    """Return ISO strings without zones as moments: NumPy parses them in a hundredth of the time. None for others."""
    texts = ["NaT" if is_missing_cell(value) else value for value in values]
    if not all(type(text) is str and (text == "NaT" or _ISO.fullmatch(text)) for text in texts):
        return None
    try:
        return np.array(texts, "datetime64[us]")
    except ValueError:  # the 31st of February
        return None


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def _of_numbers(numbers: F64, factor: float) -> tuple[Moments, I64]:
    """Return numbers as moments, and the rows whose number is too large."""
    found = np.full(len(numbers), np.datetime64("NaT"), "datetime64[us]")
    with np.errstate(invalid="ignore", over="ignore"):
        ticks = numbers * factor
        is_usable = np.abs(ticks) < _MAX_TICKS
    found[is_usable] = ticks[is_usable].astype(np.int64).view("datetime64[us]")
    return found, np.flatnonzero(~is_usable & ~np.isnan(numbers))


def _as_moment(value: Any, order: str) -> tuple[datetime | None, bool]:
    """Return a distinct cell as a moment, and whether it holds something else."""
    if is_missing_cell(value):
        return None, False
    if type(value) is str and order == "year first" and value[4:5] == "-":
        with suppress(ValueError, OverflowError):  # a tenth of the time that a pattern takes
            return _in_utc(datetime.fromisoformat(value)), False
    if isinstance(value, datetime):
        return _in_utc(value), False
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day), False
    if not isinstance(value, str):
        return None, True
    parsed = (parse_moment(value, each) for each in (order, *_CLEAR_ORDERS))
    found = next((moment for moment in parsed if moment is not None), None)
    return found, found is None
