"""Select the columns of a table, and join the texts of several columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from sparsenet.core.validation import first_repeated, is_missing

Column: TypeAlias = str | int
#: A column of texts, or a list of columns. A tuple is one column, because pandas uses tuples as column names.
TextColumns: TypeAlias = Column | list[str] | list[int] | list[Column]


@dataclass(frozen=True, kw_only=True)
class TableColumns:
    """The columns to read, and the separator of labels. `text` may be empty."""

    text: list[Column]
    target: Column | None
    features: tuple[Column, ...]
    label_delimiter: str | None

    def __post_init__(self) -> None:
        check_apart(self.text, self.target)

    def wanted(self) -> list[Column]:
        """Return all columns to read."""
        return [column for column in (*self.text, self.target, *self.features) if column is not None]

    def clash(self, place: Callable[[Column], object]) -> str | None:
        """Return an error message if a column is both text and label, once by name and once by position.

        `place` maps a column to a value that is the same for its name and its position.
        """
        seen: dict[object, Column] = {}
        for column in [*self.text, *([] if self.target is None else [self.target])]:
            if seen.setdefault(place(column), column) != column:
                return f"columns {seen[place(column)]!r} and {column!r} are the same: name two"
        return None


def text_columns(text: Any, *, of_frame: bool = False) -> list[Column]:
    """Return `text`, one column or a list of columns, as a list; raise a ValueError if it is neither.

    The columns of a data frame may be named by tuples.
    """
    several = isinstance(text, list)
    found = [_column(text, column, of_frame=of_frame) for column in (text if several else [text])]
    if not found:
        raise ValueError("text must name a column of texts, got an empty list")
    repeated = first_repeated(found)
    if repeated is not None:
        raise ValueError(f"text names the column {repeated!r} twice, got {text!r}: name it once")
    return found


def _column(text: Any, column: Any, *, of_frame: bool) -> Any:
    """Check one column of texts. Positions become plain integers, so that JSON can hold them."""
    if isinstance(column, int | np.integer) and not isinstance(column, bool):
        return int(column)
    if isinstance(column, str) or (of_frame and isinstance(column, tuple)):
        return str(column) if isinstance(column, str) else column
    refuse_values("text", column, "X")
    raise ValueError(f"text must be the name of a column or its position, or a list of such, got {text!r}")


def refuse_values(argument: str, name: Any, frame: str) -> None:
    """Refuse the values of a column where its name is wanted; `frame` is the argument that takes the data frame."""
    if hasattr(name, "__len__") and not isinstance(name, str | bytes | tuple):
        wanted = f"{argument} must be the name of a column (a string or a position), got a {type(name).__name__}"
        raise ValueError(f"{wanted}: pass the frame as {frame}, and the name as {argument}")


def check_apart(text: Sequence[Column], target: Column | None) -> None:
    """Refuse the label column as a text column: the model would read the answer in the text."""
    if target in text:
        raise ValueError(f"text and target are both {target!r}: name two columns")


def quoted_names(columns: Sequence[object], last: str = "or") -> str:
    """Return the names of columns, quoted and joined for an error message.

    >>> quoted_names(["title", "body"])
    "'title' or 'body'"
    """
    return f" {last} ".join(map(repr, columns))


def joined(columns: Sequence[Column], cells: Sequence[Any], as_text: Callable[[Sequence[Column], Any], str]) -> str:
    r"""Join the texts of a row with newlines, without cells that are missing or empty.

    `as_text` receives columns and a cell, and returns the text of the cell or raises an error. If all cells are
    missing, it receives all columns and the first cell.

    >>> joined(["title", "body"], ["Printer", "It burns."], lambda columns, cell: cell)
    'Printer\nIt burns.'
    """
    if len(cells) == 1:
        return as_text(columns, cells[0])
    there = [(column, cell) for column, cell in zip(columns, cells, strict=True) if not is_missing(cell)]
    if not there:
        return as_text(columns, cells[0])
    return "\n".join(filter(None, [as_text([column], cell) for column, cell in there]))
