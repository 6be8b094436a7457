"""The cells of one column: missing markers, distinct values, and errors that name the column and the row."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.printing import printable
from sparsenet.core.validation import is_missing
from sparsenet.data.errors import cut
from sparsenet.data.frames import Frame
from sparsenet.kernels.types import I64, Bools

#: Strings that mark a missing cell, in lower case.
MISSING_MARKERS = frozenset(
    {"", "na", "n/a", "#n/a", "<na>", "nan", "-nan", "nat", "null", "none", "nil", "missing", "?", "-", "--", "."}
)

#: A whole number as a float writes it.
_FLOAT = re.compile(r"(?:0|-?[1-9]\d{0,14})\.0", re.ASCII)
_BOOLS = {"true": "True", "false": "False", "TRUE": "True", "FALSE": "False"}


def is_marker(text: str) -> bool:
    """Return whether a string marks a missing cell, such as ``"NA"`` or ``"?"``.

    >>> is_marker(" N/A "), is_marker("Nancy")
    (True, False)
    """
    return len(text) < 10 and text.strip().casefold() in MISSING_MARKERS


def shown(value: Any) -> str:
    """Return a cell as it appears in messages and tables, cut if it is long."""
    if isinstance(value, np.generic):
        value = value.item()
    return cut(printable(repr(value) if isinstance(value, list | tuple | dict | set) else str(value)), 40)


@dataclass(frozen=True, eq=False)
class Cells:
    """One column of a frame.

    Attributes
    ----------
    name : str
    values : ndarray of shape (n,)
        In the types of a `Frame`.
    error : callable
        Makes the error for a problem in a row.
    decimal : str
        The decimal mark of numbers in strings.
    """

    name: str
    values: NDArray[Any]
    error: Callable[[str, int], ValueError]
    decimal: str = "."

    @classmethod
    def of(cls, frame: Frame, name: str) -> Cells:
        """Take a column of a frame."""
        return cls(name, frame[name], frame.error, frame.decimal)

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: NDArray[Any] | slice) -> Cells:
        """Select rows; errors still name the rows of the frame."""
        places = np.arange(len(self))[rows]
        return replace(self, values=self.values[rows], error=lambda problem, row: self.error(problem, int(places[row])))

    def refuse(self, row: int, problem: str) -> NoReturn:
        """Raise an error about the cell in a row."""
        value = self.values[row]
        found = f"{shown(value)!r}" if isinstance(value, str) else shown(value)
        raise self.error(f"column {self.name!r} holds {found}: {problem}", row)

    def distinct(self) -> DistinctCells:
        """Find the distinct values: in order of appearance, or ascending in columns of numbers and dates."""
        if self.values.dtype.kind in "biufM":
            found, codes = np.unique(self.values, return_inverse=True, equal_nan=True)
            return DistinctCells(found.tolist(), codes.astype(np.int64, copy=False))
        cells = self.values.tolist()
        try:
            numbers = {value: number for number, value in enumerate(dict.fromkeys(cells))}
        except TypeError:
            self.refuse(self._first_unhashable(cells), "use one string, number or list of them per cell")
        return DistinctCells(list(numbers), np.fromiter(map(numbers.__getitem__, cells), np.int64, len(cells)))

    @staticmethod
    def _first_unhashable(cells: list[Any]) -> int:
        for row, cell in enumerate(cells):
            try:
                hash(cell)
            except TypeError:
                return row
        raise AssertionError("all cells are hashable")

    def texts(self) -> DistinctCells:
        """Find the distinct values as strings, with None for missing cells.

        Numbers and strings of the same number are one value, so that a frame and a CSV file of it are encoded alike.
        """
        raw = self.distinct()
        known: dict[str | None, int] = {}
        place = [known.setdefault(as_text(value), len(known)) for value in raw.values]
        if len(known) == len(raw.values):
            return DistinctCells(list(known), raw.codes)
        return DistinctCells(list(known), np.array(place, np.int64)[raw.codes])


@dataclass(frozen=True, eq=False)
class DistinctCells:
    """The distinct values of a column, and the number of the value in each row."""

    values: list[Any]
    codes: I64

    def counts(self) -> I64:
        """Count the rows of each value."""
        return np.bincount(self.codes, minlength=len(self.values)).astype(np.int64, copy=False)

    def missing(self) -> Bools:
        """Return the mask of rows with a missing cell."""
        flags = np.fromiter((is_missing_cell(value) for value in self.values), bool, len(self.values))
        found: Bools = flags[self.codes]
        return found

    def first_row(self, value: int) -> int:
        """Return the first row with the value of this number."""
        return int(np.argmax(self.codes == value))


def is_missing_cell(value: Any) -> bool:
    """Return whether a cell is missing: None, NaN, NaT, or a marker such as ``"NA"``."""
    return is_marker(value) if isinstance(value, str) else is_missing(value)


def as_text(value: Any) -> str | None:
    """Return a cell as a category: None if it is missing.

    >>> as_text(3.0), as_text(3), as_text(" 3"), as_text("3.0"), as_text(True), as_text("true"), as_text("NA")
    ('3', '3', '3', '3', 'True', 'True', None)
    """
    if isinstance(value, str):
        return None if is_marker(value) else _spelled(value.strip())
    if is_missing(value):
        return None
    if isinstance(value, float | np.floating) and float(value).is_integer() and abs(float(value)) < 2**53:
        return str(int(value))
    return value.decode(errors="replace").strip() if isinstance(value, bytes) else str(value)


def _spelled(text: str) -> str:
    """Return the spelling of the same number or bool in a frame: pandas writes 3.0 to a file, and Polars true."""
    if text[-2:] == ".0" and _FLOAT.fullmatch(text):
        return text[:-2]
    return _BOOLS.get(text, text)
