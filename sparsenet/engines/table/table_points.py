"""The rows of a table, encoded twice: as sparse features, and as a matrix of numbers and category codes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.features.columns.table_encoder import TableEncoder
from sparsenet.kernels.types import F64, I64, Bools

if TYPE_CHECKING:
    from sparsenet.data.frames import Frame


def n_features(encoder: TableEncoder) -> int:
    """Return the number of features of rows; one that is always zero if all columns are ignored."""
    return max(encoder.n_features, 1)


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

    @classmethod
    def of(
        cls,
        frame: Frame,
        encoder: TableEncoder,
        threads: int,
        *,
        with_rows: bool = True,
        with_matrix: bool = True,
    ) -> TablePoints:
        """Encode a frame, without the part that no model needs."""
        cells = encoder.cells(frame)
        if with_rows:
            rows = encoder.rows(frame, cells, threads=threads)
        else:
            rows = Rows(np.zeros(len(frame) + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), 0)
        rows = replace(rows, width=n_features(encoder))
        if with_matrix:
            return cls(rows, *encoder.matrix(frame, cells))
        return cls(rows, np.empty((len(frame), 0)), np.empty(0, bool))

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
