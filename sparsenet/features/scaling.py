"""Scale features so that points have about unit length, as the first layer expects.

There are four scalings:

- ``"rows"``: divide each row by its length. For sparse counts and tf-idf, where only the direction matters.
- ``"columns"``: standardise the columns, then divide by the square root of their number. For tables whose columns have
  different units, and whose row lengths may be informative.
- ``"together"``: centre the columns and divide all by one number. For columns of one unit, such as principal components
  and embeddings, where a larger variance means more information.
- ``"mixed"``: standardise amounts, keep the zeros of sparse columns, and give each number of a point the same weight,
  as `OneHotEncoder` and `StandardScaler` do. For amounts mixed with one-hot categories.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet.core.machine import available_memory
from sparsenet.core.matrices import without_zeros
from sparsenet.core.rows import Rows, by_row, parts_of
from sparsenet.data.point_file import StoredPoints
from sparsenet.kernels.types import F32, F64
from sparsenet.selection.choose import Decision

SCALINGS = ("rows", "columns", "together", "mixed", "none")
CHOICES = ("auto", *SCALINGS)
#: Why ``normalize="auto"`` chose a scaling, for messages.
WHY_SCALED = {
    "rows": "most values of X are zero",
    "columns": "X is a table, whose columns may have different units",
    "mixed": "X has numeric columns next to columns that are mostly zero",
    "together": "X is a table, and near points share more labels than after standardising its columns",
}
#: Bound of scaled values: far beyond any training point, and far below an overflow of float32 in a layer.
MAX_SCALED = 1e12
#: Sums of squares below this may have underflowed: the smallest normal float64 is 2**-1022.
SMALLEST_SQUARES = 2.0**-900
#: Values below 2**SMALL_EXPONENT are multiplied by a power of two before they are squared.
SMALL_EXPONENT = -256
#: Numbers of a block of rows.
NUMBERS_AT_A_TIME = 1 << 21
#: Minimum fraction of rows for a column to be common; amounts in common columns are centred.
COMMON = 0.5


@dataclass(frozen=True)
class Scaling:
    """A fitted scaling: its kind and, unless that is ``"rows"`` or ``"none"``, each column's centre and factor.

    A scaled value is ``(value - centre) * factor``. For ``"mixed"`` the centre is zero except for common amounts, so
    that sparse columns stay sparse. `decision` is the evidence for the kind, if the labels decided.
    """

    kind: str
    centre: F64 | None = None
    factor: F64 | None = None
    decision: Decision | None = field(default=None, compare=False)

    @classmethod
    def learn(cls, X: Any, kind: str) -> Scaling:
        """Fit one of `SCALINGS` to a validated X, (n, d) sparse or dense."""
        if kind in ("rows", "none"):
            return cls(kind)
        if kind == "mixed":
            return cls.of_mixed(X)
        # Dense rows may have up to 20 entries for each non-zero of a sparse X.
        if is_sparse(X) and not fits_dense(X, 20 * count_nonzero(X)):
            raise ValueError(
                f"normalize={kind!r} needs a dense X, got a sparse one, which is mostly zeros or would not fit into "
                "memory as a dense array: use 'mixed' or 'rows', or pass X.toarray()"
            )
        return next(scaling for scaling in cls.of_table(X) if scaling.kind == kind)

    @classmethod
    def of_table(cls, X: Any) -> tuple[Scaling, Scaling]:
        """Fit both scalings of a table, ``"columns"`` and ``"together"``."""
        n, d = X.shape
        centre = sum(part.sum(axis=0) for part in _blocks(X)) / n
        squares, lift = sum(np.square(part - centre).sum(axis=0) for part in _blocks(X)), np.ones(d)
        if (squares < SMALLEST_SQUARES).any():
            lift = power_to_square(reduce(np.maximum, (np.abs(part).max(axis=0) for part in _blocks(X))))
        if (lift != 1).any():
            squares = sum(np.square((part - centre) * lift).sum(axis=0) for part in _blocks(X))
        deviation = np.sqrt(squares / n)
        is_constant = _is_constant(centre * lift, deviation, n)
        own = _inverse(np.where(is_constant, 1.0, deviation) * np.sqrt(d), np.where(is_constant, 1.0, lift))
        deviations = np.where(is_constant, 0.0, deviation / lift)
        lift_all = power_to_square(deviations.max(initial=0))
        common = _inverse(np.linalg.norm(deviations * lift_all) or 1.0, lift_all)
        # The deviation of a constant column is rounding error, so do not amplify it beyond the other columns.
        together = np.where(is_constant, np.minimum(own, common), common)
        return cls("columns", centre, own), cls("together", centre, together)

    @classmethod
    def of_mixed(cls, X: Any) -> Scaling:
        """Fit the scaling of amounts mixed with sparse columns, ``"mixed"``."""
        n, columns = X.shape[0], ColumnTotals.of(X)
        are_amounts, lengths, lift = columns.are_amounts, columns.lengths, columns.lift
        means = np.where(are_amounts & (lengths >= COMMON * n), columns.sums / n, 0.0)
        deviation, squares = np.sqrt(columns.squares_about(means) / n), columns.squares
        is_centred = (means != 0) & ~_is_constant(means, deviation, n)
        centre = np.where(is_centred, means, 0.0)
        typical = np.sqrt(squares / np.maximum(lengths, 1))
        rare = are_amounts & ~is_centred
        small, large = np.quantile(typical[rare] / lift[rare], (0.1, 0.9)) if rare.any() else (0.0, 0.0)
        # Rare amounts of similar size share a unit, as tf-idf weights do: one factor keeps their ratios.
        if large < 10 * small:
            own_lift, lift = lift[rare], np.where(rare, lift[rare].min(initial=math.inf), lift)
            total = (squares[rare] * np.square(lift[rare] / own_lift)).sum()
            typical[rare] = np.sqrt(total / lengths[rare].sum())
        spread = np.where(is_centred, deviation, np.where(typical > 0, typical, 1.0))
        n_numbers = np.count_nonzero(is_centred) + lengths[~is_centred].sum() / n
        return cls("mixed", centre / lift, _inverse(spread * np.sqrt(n_numbers or 1.0), lift))

    def explained(self) -> Decision:
        """Return why ``normalize="auto"`` chose this kind."""
        return self.decision or Decision(self.kind, WHY_SCALED.get(self.kind, ""))

    @property
    def is_of_table(self) -> bool:
        """Whether columns have centres, so that a zero is a value like any other."""
        return self.centre is not None

    def apply(self, X: Any) -> Rows:
        """Scale a validated X, sparse or dense, into rows for the kernels."""
        if self.kind == "mixed":
            return self._mixed(X)
        if self.is_of_table:
            return self._centred(X)
        matrix = X if isinstance(X, sparse.csr_array) else sparse.csr_array(X)
        if self.kind == "none":
            return Rows.of(matrix)
        return Rows.of(matrix, _divided_by_length(matrix))

    def apply_one(self, indices: NDArray[np.int32], values: F64, width: int) -> Rows:
        """Scale a single validated point, given by the ids and values of its non-zero features."""
        if self.kind == "mixed":
            return self._mixed(sparse.csr_array((values, indices, [0, len(indices)]), shape=(1, width)))
        if self.is_of_table:
            point = np.zeros((1, width))
            point[0, indices] = values
            return self._centred(point)
        if self.kind == "rows":
            squares = np.square(values).sum()
            if squares < SMALLEST_SQUARES and len(values):
                values = values * power_to_square(np.abs(values).max())
                squares = np.square(values).sum()
            length = float(np.sqrt(squares))
            values = values * (1 / (length if length > 0 else 1.0))
        return Rows(np.array([0, len(indices)]), indices, values.astype(np.float32), width)

    def _centred(self, X: Any) -> Rows:
        assert self.centre is not None
        assert self.factor is not None
        n, d = X.shape
        scaled, done = np.empty((n, d), np.float32), 0
        for part in _blocks(X):
            end = done + len(part)
            scaled[done:end] = np.clip((part - self.centre) * self.factor, -MAX_SCALED, MAX_SCALED)
            done = end
        indices = np.tile(np.arange(d, dtype=np.int32), n)
        return Rows(np.arange(n + 1, dtype=np.int64) * d, indices, scaled.reshape(-1), d)

    def _mixed(self, X: Any) -> Rows:
        assert self.centre is not None
        assert self.factor is not None
        amounts, scaled_zeros = self._scaled_zeros
        indptr, indices, values = [np.zeros(1, np.int64)], [np.empty(0, np.int32)], [np.empty(0, np.float32)]
        for block in row_blocks(X, added=len(amounts)):
            part = sparse.csr_array(block, dtype=np.float64)
            part = sparse.csr_array((part.data * self.factor[part.indices], part.indices, part.indptr), part.shape)
            n = part.shape[0]
            starts = np.arange(n + 1) * len(amounts)
            part = part + sparse.csr_array((np.tile(scaled_zeros, n), np.tile(amounts, n), starts), part.shape)
            indptr.append(indptr[-1][-1] + part.indptr[1:].astype(np.int64))
            indices.append(part.indices.astype(np.int32, copy=False))
            values.append(np.clip(part.data, -MAX_SCALED, MAX_SCALED).astype(np.float32))
        return Rows(np.concatenate(indptr), np.concatenate(indices), np.concatenate(values), X.shape[1])

    @cached_property
    def _scaled_zeros(self) -> tuple[NDArray[np.int32], F64]:
        """The columns with a non-zero centre, and the scaled value of a zero in each."""
        assert self.centre is not None
        assert self.factor is not None
        amounts = np.flatnonzero(self.centre).astype(np.int32)
        return amounts, -self.centre[amounts] * self.factor[amounts]


@dataclass(frozen=True, eq=False)
class Columns:
    """The non-zero values of X, column by column.

    Attributes
    ----------
    n : int
        Number of rows of X.
    values : ndarray of shape (nnz,), float64
    starts : ndarray of shape (d + 1,)
        Column pointers: column j has ``values[starts[j] : starts[j + 1]]``.
    """

    n: int
    values: F64
    starts: NDArray[Any]

    @classmethod
    def of(cls, X: Any) -> Columns:
        """Sort the values of a validated X, sparse or dense, by column."""
        by_column = without_zeros(sparse.csr_array(X, dtype=np.float64)).tocsc()
        return cls(X.shape[0], by_column.data, by_column.indptr)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Number of rows that have each column."""
        return np.diff(self.starts).astype(np.int64)

    @cached_property
    def are_amounts(self) -> NDArray[np.bool_]:
        """Mask of columns with more than one distinct non-zero value; the others are flags."""
        lowest, highest = (by_row(extreme, self.values, self.starts) for extreme in (np.minimum, np.maximum))
        return np.asarray(lowest < highest)

    def present_in(self, share: float) -> NDArray[np.bool_]:
        """Return the mask of columns that at least a `share` of the rows has."""
        return self.lengths >= share * self.n


@dataclass(frozen=True, eq=False)
class ColumnTotals:
    """Sums over the non-zero values of each column of X, added up row by row, so that they do not depend on blocks.

    Attributes
    ----------
    X : matrix or StoredPoints
    lengths : ndarray of shape (d,)
        Number of rows that have each column.
    are_amounts : ndarray of shape (d,), bool
        Whether a column has more than one distinct non-zero value; the others are flags.
    lift : ndarray of shape (d,)
        The power of two that values are multiplied by, since their squares may underflow.
    sums, squares : ndarray of shape (d,)
        Sums of the lifted values and of their squares.
    """

    X: Any
    lengths: NDArray[np.int64]
    are_amounts: NDArray[np.bool_]
    lift: F64
    sums: F64
    squares: F64

    @classmethod
    def of(cls, X: Any) -> ColumnTotals:
        """Read a validated X twice."""
        d = X.shape[1]
        lengths, lowest, highest = np.zeros(d, np.int64), np.full(d, np.inf), np.full(d, -np.inf)
        for part in _csr_blocks(X):
            lengths += np.bincount(part.indices, minlength=d)
            np.minimum.at(lowest, part.indices, part.data)
            np.maximum.at(highest, part.indices, part.data)
        has_values = lengths > 0
        lift = power_to_square(np.where(has_values, np.maximum(-lowest, highest), 0.0))
        sums, squares = np.zeros(d), np.zeros(d)
        for part in _csr_blocks(X):
            values = part.data * lift[part.indices]
            np.add.at(sums, part.indices, values)
            np.add.at(squares, part.indices, np.square(values))
        return cls(X, lengths, has_values & (lowest < highest), lift, sums, squares)

    def squares_about(self, centre: F64) -> F64:
        """Return the sums of squared distances of lifted values, zeros included, from `centre`; reads X once more."""
        if not centre.any():
            return self.squares
        found = np.zeros(len(centre))
        for part in _csr_blocks(self.X):
            np.add.at(found, part.indices, np.square(part.data * self.lift[part.indices] - centre[part.indices]))
        return np.asarray(found + (self.X.shape[0] - self.lengths) * np.square(centre))


def row_blocks(X: Any, *, added: int = 0) -> Iterator[Any]:
    """Yield blocks of rows of a matrix or a file of points; work on all rows would take several times their memory.

    A block has about `NUMBERS_AT_A_TIME` numbers; `added` counts further ones of each row.
    """
    if isinstance(X, StoredPoints):
        yield from (block for _, block in X.blocks())
        return
    n_numbers = getattr(X, "nnz", math.prod(X.shape)) + added * X.shape[0]
    n_rows = max(NUMBERS_AT_A_TIME * X.shape[0] // max(n_numbers, 1), 1)
    yield from (X[begin : begin + n_rows] for begin in range(0, X.shape[0], n_rows))


def _csr_blocks(X: Any) -> Iterator[Any]:
    """Yield blocks of rows as CSR in float64, without zeros."""
    return (without_zeros(sparse.csr_array(block, dtype=np.float64)) for block in row_blocks(X))


def _divided_by_length(matrix: Any) -> F32:
    """Return the values of a CSR matrix, each divided by the length of its row."""
    scaled = np.empty(matrix.indptr[-1], np.float32)
    for first, last in parts_of(matrix.indptr, NUMBERS_AT_A_TIME):
        begin, end = matrix.indptr[first], matrix.indptr[last]
        data, indptr = matrix.data[begin:end], matrix.indptr[first : last + 1] - begin
        counts, squares = np.diff(indptr), by_row(np.add, np.square(data, dtype=np.float64), indptr)
        if ((squares < SMALLEST_SQUARES) & (counts > 0)).any():
            lift = power_to_square(by_row(np.maximum, np.abs(data), indptr))
            data = data * np.repeat(lift, counts)
            squares = by_row(np.add, np.square(data), indptr)
        lengths = np.sqrt(squares)
        scaled[begin:end] = data * np.repeat(1 / np.where(lengths > 0, lengths, 1.0), counts)
    return scaled


def _blocks(X: Any, size: int = 1024) -> Iterator[F64]:
    """Yield blocks of rows as dense float64: all at once would take several times the memory of X."""
    for begin in range(0, X.shape[0], size):
        block = X[begin : begin + size]
        yield (block.toarray() if hasattr(block, "toarray") else block).astype(np.float64, order="C", copy=False)


def power_to_square(largest: Any) -> Any:
    """Return the power of two that brings each magnitude near 1 if its square may underflow, else 1.

    Multiplying by a power of two is exact, so it does not change the scaled values of ordinary data.
    """
    _, exponent = np.frexp(np.asarray(largest, np.float64))
    is_small = (exponent < SMALL_EXPONENT) & (np.asarray(largest) > 0)
    return np.ldexp(1.0, np.where(is_small, np.minimum(-exponent, 1023), 0))  # 2**1024 would overflow


def _inverse(length: Any, lift: Any) -> Any:
    """Return ``lift / length``, or the largest float64 if that overflows, as for subnormal lengths."""
    with np.errstate(over="ignore"):
        return np.minimum(lift / length, np.finfo(np.float64).max)


def _is_constant(centre: F64, deviation: F64, n: int) -> NDArray[np.bool_]:
    """Return the mask of columns whose deviation from the mean is within the rounding error of summing n numbers.

    The bound is from Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance".
    """
    epsilon = np.finfo(np.float64).eps
    return np.square(deviation) <= n * epsilon * np.square(deviation) + np.square(n * centre * epsilon)


def is_sparse(X: Any) -> bool:
    """Return whether X, a matrix or a file of points, is stored as a sparse matrix."""
    return not X.is_dense if isinstance(X, StoredPoints) else bool(sparse.issparse(X))


def count_nonzero(X: Any) -> int:
    """Count the non-zero values of X, sparse or dense."""
    return int(X.count_nonzero() if hasattr(X, "count_nonzero") else np.count_nonzero(X))


def fits_dense(X: Any, max_size: int) -> bool:
    """Return whether X has at most `max_size` entries, zeros included, and its dense rows fit into memory."""
    size: int = math.prod(X.shape)
    return size <= max_size and 8 * size <= available_memory()  # 4 bytes each for the value and its column
