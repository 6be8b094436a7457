"""Columns of tables: which are wanted, and how the texts of several become one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sparsenet.core.validation import is_missing

Column: TypeAlias = str | int
#: A column of texts, or several in a list. A tuple is not several: pandas has those as names of columns.
TextColumns: TypeAlias = Column | list[str] | list[int] | list[Column]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns are wanted, those of texts maybe none, and how labels are separated."""

    text: list[Column]
    target: Column | None
    features: tuple[Column, ...]
    label_delimiter: str | None

    def __post_init__(self) -> None:
        check_apart(self.text, self.target)

    def wanted(self) -> list[Column]:
        """Return all that are wanted."""
        return [column for column in (*self.text, self.target, *self.features) if column is not None]

    def clash(self, place: Callable[[Column], object]) -> str | None:
        """Say which two of texts and labels are one by their `place`: asked for by its name, and by its position."""
        seen: dict[object, Column] = {}
        for column in [*self.text, *([] if self.target is None else [self.target])]:
            if seen.setdefault(place(column), column) != column:
                return f"columns {seen[place(column)]!r} and {column!r} are the same: name two"
        return None


def text_columns(text: Any, *, of_frame: bool = False) -> list[Column]:
    """Return columns of texts as a list, whether there is one or several; an error says what is none.

    Columns of a data frame may have tuples for names.
    """
    several = isinstance(text, list)
    found = [_column(text, column, of_frame=of_frame) for column in (text if several else [text])]
    if not found:
        raise ValueError("text must name a column of texts, got an empty list")
    twin = next((column for i, column in enumerate(found) if column in found[:i]), None)
    if twin is not None:
        raise ValueError(f"text names the column {twin!r} twice, got {text!r}: name it once")
    return found


def _column(text: Any, column: Any, *, of_frame: bool) -> Any:
    """Return one of the columns of texts: positions as plain integers, of which JSON can be made."""
    if isinstance(column, int | np.integer) and not isinstance(column, bool):
        return int(column)
    if isinstance(column, str) or (of_frame and isinstance(column, tuple)):
        return str(column) if isinstance(column, str) else column
    raise ValueError(f"text must be the name of a column or its position, or a list of such, got {text!r}")


def check_apart(text: Sequence[Column], target: Column | None) -> None:
    """Refuse labels among the texts, from which they would be learnt."""
    if target in text:
        raise ValueError(f"text and target are both {target!r}: name two columns")


def quoted_names(columns: Sequence[object], last: str = "or") -> str:
    """Name columns in an error, by default about what one of them holds.

    >>> quoted_names(["title", "body"])
    "'title' or 'body'"
    """
    return f" {last} ".join(map(repr, columns))


def joined(columns: Sequence[Column], cells: Sequence[Any], as_text: Callable[[Sequence[Column], Any], str]) -> str:
    r"""Join the texts of a row by newlines; of several cells those that are missing or empty are left out.

    Where all are missing, that is what one is of a single column. `as_text` is told the columns that a cell is of, and
    returns its text or refuses it.

    >>> joined(["title", "body"], ["Printer", "It burns."], lambda columns, cell: cell)
    'Printer\nIt burns.'
    """
    if len(cells) == 1:
        return as_text(columns, cells[0])
    there = [(column, cell) for column, cell in zip(columns, cells, strict=True) if not is_missing(cell)]
    if not there:
        return as_text(columns, cells[0])
    return "\n".join(filter(None, [as_text([column], cell) for column, cell in there]))
