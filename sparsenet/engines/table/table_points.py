"""The rows of a table, encoded twice: as sparse features, and as a matrix of numbers and category codes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sparsenet.core.rows import Rows
from sparsenet.kernels.types import F64, I64, Bools


@dataclass(frozen=True, eq=False)
class TablePoints:
    """Rows of a table.

    Attributes
    ----------
    rows : Rows
        Sparse features of all columns.
    matrix : ndarray of shape (n, n_columns), float64
        Numbers and category codes, NaN where missing. It has no columns if no model needs it.
    is_category : ndarray of shape (n_columns,), bool
        Which columns of `matrix` hold category codes.
    """

    rows: Rows
    matrix: F64
    is_category: Bools

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, points: I64) -> TablePoints:
        """Gather the rows numbered `points`."""
        return TablePoints(self.rows.take(points), self.matrix[points], self.is_category)

    def slice(self, begin: int, end: int) -> TablePoints:
        """Return a view of consecutive rows."""
        return TablePoints(self.rows.slice(begin, end), self.matrix[begin:end], self.is_category)

    def blocks(self, n: int) -> Iterator[TablePoints]:
        """Yield views of consecutive blocks of up to `n` rows."""
        for begin in range(0, len(self), n):
            yield self.slice(begin, min(begin + n, len(self)))
