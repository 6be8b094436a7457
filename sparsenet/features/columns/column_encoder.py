"""The base of all column encoders."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.features.columns.cells import Cells
from sparsenet.kernels.types import F32, F64, I32, I64, Arrays


@dataclass(frozen=True, kw_only=True)
class ColumnSummary:
    """A column of the training rows in brief, for the table of types.

    Attributes
    ----------
    why : str
        The reason for the type.
    n_distinct, n_missing : int
    example : str
        The first value, cut.
    """

    why: str
    n_distinct: int
    n_missing: int
    example: str


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnEncoder(ABC):
    """A learnt column.

    Attributes
    ----------
    name : str
    summary : ColumnSummary
    """

    type: ClassVar[str]
    name: str
    summary: ColumnSummary

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of sparse features."""

    def block(self, cells: Cells) -> tuple[I32, F32] | None:
        """Return the features of cells, numbered from 0, and their values, (n, w) each; None if w would vary.

        A value of zero is no feature.
        """
        return None

    def part(self, cells: Cells, threads: int) -> Rows:
        """Return the sparse features of cells, numbered from 0, of a column without a `block`."""
        raise NotImplementedError(f"columns of the type {self.type!r} have no part")

    @property
    def codes(self) -> tuple[bool, ...]:
        """For each column of `numbers`, whether it holds category codes."""
        return ()

    def numbers(self, cells: Cells) -> F64:
        """Return the columns for boosting, (n, c): numbers and category codes, with NaN for missing."""
        return np.empty((len(cells), 0))

    @abstractmethod
    def feature_name(self, feature: int) -> str:
        """Return the name of a feature, for explanations."""

    @abstractmethod
    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return what was learnt as arrays and JSON."""

    @classmethod
    @abstractmethod
    def restore(cls, name: str, summary: ColumnSummary, arrays: Arrays, about: Mapping[str, Any]) -> ColumnEncoder:
        """Restore and check what `state` returned."""


def padded(indices: I32, values: F32, width: int) -> Rows:
    """Turn arrays (n, w) of features and values into rows, without entries whose value is zero."""
    keep = values != 0
    indptr = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.count_nonzero(keep, axis=1), out=indptr[1:])
    return Rows(indptr, indices[keep], values[keep], width)


def encoded(columns: Sequence[ColumnEncoder], cells: Sequence[Cells], n: int, threads: int) -> Rows:
    """Encode columns of `n` cells; each column numbers its features after the column before."""
    parts: list[Rows] = []
    features: list[I32] = []
    values: list[F32] = []
    width = 0

    def finish() -> None:
        """Turn the blocks so far into one part: a call for each column would take long for a single row."""
        if features:
            parts.append(padded(np.concatenate(features, axis=1), np.concatenate(values, axis=1), width))
            features.clear()
            values.clear()

    for column, own in zip(columns, cells, strict=True):
        block = column.block(own)
        if block is None:
            finish()
            parts.append(column.part(own, threads))
            width = 0
        else:
            features.append(block[0] + np.int32(width))
            values.append(block[1])
            width += column.n_features
    finish()
    return side_by_side(parts, n)


def side_by_side(parts: list[Rows], n: int) -> Rows:
    """Join the features of columns; each part numbers its features after the part before."""
    lengths = [np.diff(part.indptr) for part in parts]
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(sum(lengths, np.zeros(n, np.int64)), out=indptr[1:])
    indices, data = np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)
    place, width = indptr[:-1].copy(), 0
    for part, own in zip(parts, lengths, strict=True):
        to = _places(part.indptr, place, own)
        indices[to], data[to] = part.indices + np.int32(width), part.data
        place += own
        width += part.width
    return Rows(indptr, indices, data, width)


def _places(indptr: I64, place: I64, lengths: I64) -> I64:
    """Return the position of each entry of a part among all entries."""
    return np.repeat(place - indptr[:-1], lengths) + np.arange(indptr[-1])
