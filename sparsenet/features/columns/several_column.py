"""Several categories or ids in each cell: a list, or a string with separators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.core.validation import choice
from sparsenet.features.columns.category_column import Categories, checked_texts
from sparsenet.features.columns.cells import Cells, DistinctCells, is_missing_cell
from sparsenet.features.columns.column_encoder import ColumnEncoder, ColumnSummary
from sparsenet.kernels.types import F64, I64, Arrays
from sparsenet.storage.format import ModelError

#: Most values that gradient boosting gets a flag of.
MAX_FLAGS = 32
#: Around values in strings such as ``['drama', 'crime']``.
_AROUND = " \t\r\n[](){}'\""


@dataclass(frozen=True, eq=False, kw_only=True)
class SeveralColumn(ColumnEncoder):
    """A column with several categories or ids in each cell, in no order.

    Attributes
    ----------
    kind : {"categories", "ids"}
    separator : str or None
        Between the values in strings; None: any white space.
    categories : Categories
    """

    kind: str
    separator: str | None
    categories: Categories

    @property
    def type(self) -> str:  # type: ignore[override]
        """The name of the type."""
        return self.kind

    @classmethod
    def learn(cls, cells: Cells, summary: ColumnSummary, *, kind: str, separator: str | None) -> SeveralColumn:
        """Learn the frequent values of cells."""
        own, codes = _distinct(cells)
        row, distinct = _flat(own, separator)
        key = np.unique(row * max(len(distinct.values), 1) + distinct.codes)
        row, number = np.divmod(key, max(len(distinct.values), 1))
        once = DistinctCells(distinct.values, np.repeat(number, np.bincount(codes, minlength=len(own))[row]))
        return cls(name=cells.name, summary=summary, kind=kind, separator=separator, categories=Categories.learn(once))

    @property
    def n_features(self) -> int:
        """Number of sparse features."""
        return self.categories.n_codes

    def part(self, cells: Cells, threads: int) -> Rows:
        """Return flags for the values of each cell, divided by the root of their number."""
        own, codes = _distinct(cells)
        row, number = self._pairs(own)
        lengths = np.bincount(row, minlength=len(own))
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        values = self.categories.weights[number] / np.sqrt(lengths)[row]
        rows = Rows(indptr, number.astype(np.int32), values.astype(np.float32), self.n_features)
        return rows.take(codes)

    def _pairs(self, cells: Cells) -> tuple[I64, I64]:
        """Return the distinct pairs of row and value number, ascending; a cell without values is missing."""
        row, distinct = _flat(cells, self.separator)
        number = self.categories.of(distinct.values)[distinct.codes]
        empty = np.flatnonzero(np.bincount(row, minlength=len(cells)) == 0)
        row, number = np.concatenate((row, empty)), np.append(number, np.full(len(empty), self.categories.missing))
        key = np.unique(row * self.n_features + number)
        return key // self.n_features, key % self.n_features

    @property
    def codes(self) -> tuple[bool, ...]:
        """The number of values, and flags of the most frequent ones."""
        return (False,) * (1 + min(len(self.categories), MAX_FLAGS))

    def numbers(self, cells: Cells) -> F64:
        """Return the number of values in each cell, and a flag for each of the most frequent ones."""
        own, codes = _distinct(cells)
        row, number = self._pairs(own)
        found = np.zeros((len(own), len(self.codes)))
        found[:, 0] = np.bincount(row[number != self.categories.missing], minlength=len(own))
        is_flag = number < min(len(self.categories), MAX_FLAGS)
        found[row[is_flag], 1 + number[is_flag]] = 1
        found[row[number == self.categories.missing]] = np.nan
        by_row: F64 = found[codes]
        return by_row

    def feature_name(self, feature: int) -> str:
        """Return the name of a feature."""
        return f"{self.name} has {self.categories.value_name(feature)}"

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the categories as arrays, and the separator."""
        return self.categories.state(), {"kind": self.kind, "separator": self.separator}

    @classmethod
    def restore(cls, name: str, summary: ColumnSummary, arrays: Arrays, about: Mapping[str, Any]) -> SeveralColumn:
        """Restore and check what `state` returned."""
        separator = about["separator"]
        if separator is not None and (not isinstance(separator, str) or not separator):
            raise ModelError(f"a separator must be a string or null, got {separator!r}")
        kind = choice("kind", about["kind"], ("categories", "ids"))
        categories = Categories.restore(arrays)
        return cls(name=name, summary=summary, kind=kind, separator=separator, categories=categories)


def _distinct(cells: Cells) -> tuple[Cells, I64]:
    """Return the distinct cells, and the number of the cell in each row; lists are not compared."""
    if not {str, type(None)}.issuperset(map(type, cells.values.tolist())):
        return cells, np.arange(len(cells))
    distinct = cells.distinct()
    values = np.empty(len(distinct.values), dtype=object)
    values[:] = distinct.values
    return Cells(cells.name, values, lambda problem, i: cells.error(problem, distinct.first_row(i))), distinct.codes


def _flat(cells: Cells, separator: str | None) -> tuple[I64, DistinctCells]:
    """Return the row of each value, and the values, without missing ones."""
    lists = [_values_of(cell, separator) for cell in cells.values.tolist()]
    if None in lists:
        advice = "use a list of strings or numbers, a string with separators, or leave it empty"
        cells.refuse(lists.index(None), advice)
    filled = [own or [] for own in lists]
    row = np.repeat(np.arange(len(filled)), np.fromiter(map(len, filled), np.int64, len(filled)))
    flat = np.empty(len(row), dtype=object)
    flat[:] = list(chain.from_iterable(filled))
    distinct = checked_texts(Cells(cells.name, flat, lambda problem, i: cells.error(problem, int(row[i]))))
    there = ~np.array([value is None for value in distinct.values], bool)[distinct.codes]
    return row[there], DistinctCells(distinct.values, distinct.codes[there])


def _values_of(cell: Any, separator: str | None) -> list[Any] | None:
    """Return the values in a cell; None if it can hold none."""
    if isinstance(cell, str):
        return [] if is_missing_cell(cell) else split_cell(cell, separator)
    if isinstance(cell, list | tuple | set | frozenset | np.ndarray):
        return list(cell)
    if isinstance(cell, Iterable):
        return None
    return [] if is_missing_cell(cell) else [cell]


def split_cell(cell: str, separator: str | None) -> list[str]:
    """Split a string into its values, without brackets and quotes around them.

    >>> split_cell("['drama', 'crime']", ","), split_cell("12 7", None)
    (['drama', 'crime'], ['12', '7'])
    """
    return [value for part in cell.split(separator) if (value := part.strip(_AROUND))]
