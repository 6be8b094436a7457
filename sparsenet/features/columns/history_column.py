"""The last values of a key as features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.features.columns.category_column import MAX_CODES, Categories
from sparsenet.features.columns.cells import Cells
from sparsenet.features.columns.column_encoder import ColumnEncoder, ColumnSummary
from sparsenet.kernels.types import F64, Arrays

#: Last values that gradient boosting gets.
MAX_LAST = 3


@dataclass(frozen=True, eq=False, kw_only=True)
class HistoryColumn(ColumnEncoder):
    """The last values of one column, derived by a `History`.

    The features are a flag of the last value, and the last values together as a vector of unit length. In it an event
    has the weight ``1 / rank``, where the last one has the rank 1. A row without events has one flag for that.
    """

    type = "history"
    categories: Categories

    @property
    def n_features(self) -> int:
        """Number of sparse features."""
        return 2 * self.categories.n_codes

    def part(self, cells: Cells, threads: int) -> Rows:
        """Return the features of arrays of value numbers, the latest first."""
        values = cells.values
        row, rank = np.nonzero(values >= 0)
        key, place = np.unique(row * self.categories.n_codes + values[row, rank], return_inverse=True)
        weight = np.bincount(place, 1 / (1 + rank), minlength=len(key))
        of_row, bag = np.divmod(key, self.categories.n_codes)
        length = np.sqrt(np.bincount(of_row, np.square(weight), minlength=len(values)))
        last = np.where(values[:, 0] >= 0, values[:, 0], self.categories.missing)
        features = np.concatenate((last, bag + self.categories.n_codes)).astype(np.int32)
        data = np.concatenate((self.categories.weights[last], weight / length[of_row])).astype(np.float32)
        order = np.argsort(np.concatenate((np.arange(len(values)), of_row)), kind="stable")
        counts = 1 + np.bincount(of_row, minlength=len(values))
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        return Rows(indptr, features[order], data[order], self.n_features)

    @property
    def codes(self) -> tuple[bool, ...]:
        """The last values as codes."""
        return (True,) * MAX_LAST

    def numbers(self, cells: Cells) -> F64:
        """Return the codes of the last values, the rare ones together."""
        found = np.full((len(cells), MAX_LAST), np.nan)
        last = cells.values[:, :MAX_LAST]
        found[:, : last.shape[1]] = np.where(last >= 0, np.minimum(last, MAX_CODES - 1), np.nan)
        return found

    def feature_name(self, feature: int) -> str:
        """Return the name of a feature."""
        is_last, value = feature < self.categories.n_codes, feature % self.categories.n_codes
        return f"{self.name}{'' if is_last else ', any'} = {self.categories.value_name(value)}"

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the categories as arrays."""
        return self.categories.state(), {}

    @classmethod
    def restore(cls, name: str, summary: ColumnSummary, arrays: Arrays, about: Mapping[str, Any]) -> HistoryColumn:
        """Restore and check what `state` returned."""
        return cls(name=name, summary=summary, categories=Categories.restore(arrays))
