"""Features of events and items: columns of numbers and categories as a few dense features."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import first_unusable
from sparsenet.data.frames import Frame, is_frame, read_frame
from sparsenet.features.columns.category_column import CategoryColumn
from sparsenet.features.columns.cell_numbers import are_numbers, is_code, numbers_in
from sparsenet.features.columns.cells import Cells, shown
from sparsenet.features.columns.column_encoder import ColumnEncoder
from sparsenet.features.columns.column_types import ColumnProfile
from sparsenet.features.columns.encoder_arrays import pack, unpack
from sparsenet.features.columns.number_column import NumberColumn
from sparsenet.features.columns.table_encoder import TableEncoder
from sparsenet.features.log_values import encode_names
from sparsenet.kernels.types import F32, I64, Arrays
from sparsenet.storage.format import ModelError

#: The most features of a column of categories: more categories share them.
WIDTH = 16


@dataclass(frozen=True, eq=False)
class FeatureColumns:
    """Learnt columns of numbers and categories; no columns, no features.

    A number has a robust standard score. Up to `WIDTH` categories have a flag each, and more of them `WIDTH` signs
    drawn at random, so that two of them are nearly orthogonal. New categories have zeros.
    """

    columns: tuple[ColumnEncoder, ...] = ()

    @classmethod
    def learn(cls, frame: Frame, names: Sequence[str]) -> Self:
        """Learn columns of a frame: of numbers if all cells are numbers, otherwise of categories.

        Warns of a column with numbers and other cells.
        """
        return cls(tuple(_learnt(Cells.of(frame, name)) for name in names))

    @property
    def n_features(self) -> int:
        """The number of features."""
        return sum(map(_width, self.columns))

    def encode(self, frame: Frame) -> F32:
        """Return the features of the rows, (n, n_features); refuse cells that are missing or of another type."""
        for column in self.columns:
            if column.name not in frame:
                problem = f"there is no column {column.name!r}, which the model learnt from"
                raise frame.error(f"{problem}; there are {frame.there}")
        parts = [_encoded(column, Cells.of(frame, column.name)) for column in self.columns]
        return np.concatenate([np.empty((len(frame), 0), np.float32), *parts], axis=1, dtype=np.float32)

    def pack(self) -> tuple[Arrays, dict[str, Any]]:
        """Return arrays and JSON."""
        return pack(TableEncoder(self.columns))

    @classmethod
    def unpack(cls, arrays: Arrays, about: Mapping[str, Any]) -> Self:
        """Restore and check what `pack` returned."""
        columns = unpack(arrays, about).columns
        if not all(isinstance(column, NumberColumn | CategoryColumn) for column in columns):
            raise ModelError("features must be numbers or categories")
        return cls(columns)


def _learnt(cells: Cells) -> ColumnEncoder:
    """Learn one column."""
    is_number = cells.values.dtype.kind != "b" and are_numbers(cells)
    if is_number and cells.values.dtype.kind == "O":
        is_number = not any(isinstance(value, str) and is_code(value) for value in cells.values)
    summary = ColumnProfile.of(cells).summary("numbers" if is_number else "categories")
    if is_number:
        return NumberColumn.learn(cells, summary, is_strict=True)
    _warn_of_numbers(cells)
    return CategoryColumn.learn(cells, summary)


def _warn_of_numbers(cells: Cells) -> None:
    """Warn of a cell that turns a column with numbers into categories."""
    numbers, strays = numbers_in(cells)
    if len(strays) and not np.isnan(numbers).all():
        row = int(strays[0])
        problem = f"column {cells.name!r} holds {shown(cells.values[row])!r}, and numbers in other rows"
        why = "so its cells are categories: if they are amounts, correct the cell"
        warnings.warn(str(cells.error(f"{problem}, {why}", row)), UserWarning, stacklevel=6)


def _width(column: ColumnEncoder) -> int:
    """Return the number of features of a column."""
    return min(len(column.categories), WIDTH) if isinstance(column, CategoryColumn) else 1


def _encoded(column: ColumnEncoder, cells: Cells) -> F32:
    """Return the features of one column, (n, width)."""
    if isinstance(column, NumberColumn):
        score: F32 = column.basis.block(_numbers(cells))[1][:, :1]
        return score
    assert isinstance(column, CategoryColumn)
    distinct = cells.texts()
    if None in distinct.values:
        raise _missing(cells, distinct.first_row(distinct.values.index(None)))
    codes, n = column.categories.of(distinct.values), len(column.categories)
    flags = np.arange(n) == codes[:, None] if n <= WIDTH else _signs(codes) * (codes < n)[:, None]
    found: F32 = flags.astype(np.float32)[distinct.codes]
    return found


def _numbers(cells: Cells) -> NDArray[np.float64]:
    """Return the numbers in cells; refuse others, and missing and infinite ones."""
    numbers, strays = numbers_in(cells)
    row = int(strays[0]) if len(strays) else first_unusable(numbers)
    if row is not None:
        if not len(strays) and np.isnan(numbers[row]):
            raise _missing(cells, row)
        number = "the model learnt numbers, so write a number"
        cells.refuse(row, number if len(strays) else "it is beyond the range of float32, so correct it")
    return numbers


def _missing(cells: Cells, row: int) -> ValueError:
    problem = f"column {cells.name!r} is empty, and features may not be missing"
    return cells.error(f"{problem}: fill it in, or leave the row or the column out", row)


def _signs(codes: I64) -> F32:
    """Return signs for each code, (n, WIDTH), which depend on nothing else; vectors of length 1."""
    z = codes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits = ((z ^ (z >> np.uint64(31)))[:, None] >> np.arange(WIDTH, dtype=np.uint64)) & np.uint64(1)
    signs: F32 = (2 * bits.astype(np.float32) - 1) / np.sqrt(np.float32(WIDTH))
    return signs


class ItemTable:
    """The features of items by name, whether there have been events of them or not.

    Attributes
    ----------
    columns : FeatureColumns
    names : list
        Strings or whole numbers.
    values : ndarray of shape (n, n_features), float32
    """

    def __init__(self, columns: FeatureColumns, names: list[Any], values: F32) -> None:
        self.columns, self.names, self.values = columns, names, values
        self._rows = {name: row for row, name in enumerate(names)}

    @classmethod
    def empty(cls) -> Self:
        """Return a table without columns."""
        return cls(FeatureColumns(), [], np.empty((0, 0), np.float32))

    @classmethod
    def learn(cls, table: Any, item: str, kind: str | None) -> Self:
        """Learn all columns of a table but `item`, which holds names; `kind` is the kind of the names in the log."""
        frame = _table_frame(table, item)
        columns = FeatureColumns.learn(frame, [name for name in frame.names if name != item])
        if not columns.columns:
            raise frame.error(f"there are no features: pass columns besides {item!r}")
        return cls(columns, _distinct_names(frame, item, kind).tolist(), columns.encode(frame))

    def with_more(self, table: Any, item: str, kind: str | None) -> ItemTable:
        """Return a table with further items, and with new features of known ones."""
        if not self.columns.columns:
            raise ValueError("item_features is for models that were fitted with item_features")
        frame = _table_frame(table, item)
        found = dict(zip(self.names, self.values, strict=True))
        found |= dict(zip(_distinct_names(frame, item, kind).tolist(), self.columns.encode(frame), strict=True))
        return ItemTable(self.columns, list(found), np.array(list(found.values()), np.float32))

    def of(self, names: Sequence[Any]) -> F32:
        """Return the features of items, zeros if the table lacks an item."""
        rows = np.fromiter((self._rows.get(name, -1) for name in names), np.int64, len(names))
        found = np.zeros((len(names), self.columns.n_features), np.float32)
        found[rows >= 0] = self.values[rows[rows >= 0]]
        return found


def _table_frame(table: Any, item: str) -> Frame:
    if not is_frame(table):
        wanted = f"a data frame, a mapping of columns, a list of dicts or a path, with a column {item!r}"
        raise ValueError(f"item_features must be {wanted}, got {type(table).__name__}")
    frame = read_frame(table, argument="item_features")
    frame.require([item], "item")
    if not len(frame):
        raise frame.error("there are no rows: a table of items has a row for each")
    return frame


def _distinct_names(frame: Frame, item: str, kind: str | None) -> NDArray[Any]:
    """Return the name of each row; refuse one that occurs twice."""
    codes, names = encode_names(frame, item, kind)
    order = np.argsort(codes, kind="stable")
    again = np.flatnonzero(np.diff(codes[order]) == 0)
    if len(again):
        row = int(order[again + 1].min())
        Cells.of(frame, item).refuse(row, "an earlier row has this item, and each item has one row")
    return names[codes]
