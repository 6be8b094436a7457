"""Explain an answer: what each column of a row added to the log-odds of a label, by Shapley values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sparsenet.core.effects import effects_html
from sparsenet.core.printing import printable
from sparsenet.core.rows import Rows
from sparsenet.engines.table.members import Member
from sparsenet.engines.table.table_points import TablePoints
from sparsenet.kernels.types import F64, I32, I64, Bools


class ColumnEffect(NamedTuple):
    """A column of a row: its name, its cell, and what it added to the log-odds."""

    name: str
    cell: Any
    added: float


@dataclass(frozen=True)
class TableExplanation:
    """Contributions of the columns of a row to the log-odds of a label.

    Attributes
    ----------
    label : object
    probability : float
    base : float
        The mean log-odds of the label over a sample of training rows; `base` plus all that columns added is the row's.
    columns : list of ColumnEffect
        By absolute value, largest first.
    """

    label: Any
    probability: float
    base: float
    columns: list[ColumnEffect]

    def __str__(self) -> str:
        """Return a table for a terminal."""
        return "\n".join([self._head(), *(f"  {score:+.3f}  {printable(name)}" for name, score in self._table())])

    def to_html(self) -> str:
        """Return an HTML fragment: a table of the columns, green for the label and red against it."""
        return effects_html(self._head(), self._table())

    def _repr_html_(self) -> str:
        return self.to_html()

    def _head(self) -> str:
        return f"{printable(str(self.label))}: probability {self.probability:.3f}, log-odds {self.base:+.2f} on average"

    def _table(self) -> list[tuple[str, float]]:
        return [(f"{each.name} = {each.cell}", each.added) for each in self.columns]


@dataclass(frozen=True, eq=False)
class ColumnMap:
    """Which features of `TablePoints.rows`, and which columns of its matrix, belong to each column of the table."""

    of_features: I32
    of_matrix: I64
    n_columns: int


def column_effects(
    member: Member,
    point: TablePoints,
    background: TablePoints,
    columns: ColumnMap,
    label: int,
    threads: int,
    *,
    n_orders: int = 32,
) -> tuple[float, F64]:
    """Return the mean log-odds of a label over the background, and what each column of a point adds.

    The columns of a background row change one by one to the point's own, in `n_orders` random orders. The number is
    even, and half of the orders are the reverse of the others. The mean change of the log-odds is the column's Shapley
    value. The values sum to the difference exactly.
    """
    rng, n = np.random.default_rng(0), columns.n_columns
    half = [rng.permutation(n) for _ in range(n_orders // 2)]
    orders = np.array([order for each in half for order in (each, each[::-1])]).reshape(n_orders, n)
    ranks = np.argsort(orders, axis=1)
    own = (ranks[:, None, :] < np.arange(n + 1)[None, :, None]).reshape(-1, n)  # after 0 to n changes
    # Each background row begins equally often, so that `base` does not depend on the orders.
    starts = np.repeat(np.arange(n_orders) % len(background), n + 1)
    mixed = _mixed(point, background, columns, own, starts)
    odds = _log_odds(member, mixed, label, threads).reshape(n_orders, n + 1)
    steps, added = np.diff(odds, axis=1), np.zeros((n_orders, n))
    np.put_along_axis(added, orders, steps, axis=1)
    return float(odds[:, 0].mean()), added.mean(axis=0)


def _log_odds(member: Member, points: TablePoints, label: int, threads: int, *, smallest: float = 1e-6) -> F64:
    """Return the log-odds of a label; probabilities stay `smallest` away from 0 and 1, so that they are finite."""
    blocks = [member.dense(block, threads)[:, label] for block in member.blocks(points)]
    p = np.clip(np.concatenate(blocks).astype(np.float64), smallest, 1 - smallest)
    return np.asarray(np.log(p) - np.log1p(-p))


def _mixed(point: TablePoints, background: TablePoints, columns: ColumnMap, own: Bools, starts: I64) -> TablePoints:
    """Return background rows, (m,), whose columns are replaced by the point's where `own`, (m, n_columns)."""
    from_matrix = own[:, columns.of_matrix]
    matrix = np.where(from_matrix, point.matrix[0], background.matrix[starts])
    theirs, ours = background.rows.take(starts), point.rows.take(np.zeros(len(starts), np.int64))
    parts = []
    for rows, wanted in ((theirs, False), (ours, True)):
        row = np.repeat(np.arange(len(rows)), np.diff(rows.indptr))
        keep = own[row, columns.of_features[rows.indices]] == wanted
        parts.append((row[keep], rows.indices[keep], rows.data[keep]))
    row, indices, data = (np.concatenate(pair) for pair in zip(*parts, strict=True))
    order = np.lexsort((indices, row))
    indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(row, minlength=len(starts)))))
    rows = Rows(indptr, indices[order], data[order], point.rows.width)
    return TablePoints(rows, matrix, point.is_category)
