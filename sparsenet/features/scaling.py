"""How the features of a point are scaled before the first layer sees them.

The layers expect points of about unit length. There are several roads there, and which is right depends on the data.
Sparse counts or tf-idf say what a point is about by the direction of its row: rows are divided by their length. In
a dense table a column has a unit of its own, and a row's length may be all that tells two classes apart: there the
columns are standardised, and divided by the square root of their number. Or all columns are of one unit, as those of
principal components and of embeddings are, and the more one varies the more it tells: standardised, it would be lost
among those that hardly do. There all are divided by one number. And where amounts stand beside categories, of which a
point has few of many, amounts are standardised, but zeros of the others stay zeros, and each number of a point weighs
the same: what `OneHotEncoder` and `StandardScaler` make of such data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet.core.machine import available_memory
from sparsenet.core.matrices import without_zeros
from sparsenet.core.rows import Rows, by_row
from sparsenet.kernels.types import F64

SCALINGS = ("rows", "columns", "together", "mixed", "none")
CHOICES = ("auto", *SCALINGS)
#: Far beyond any training point, and far from where float32 would overflow in a layer.
_FARTHEST = 1e12
_BLOCK, _NUMBERS_OF_MIXED = 1024, 1 << 21
#: Sums of squares below this may have underflowed: the smallest normal float64 is 2**-1022. Numbers below
#: 2**SMALL_EXPONENT are then multiplied by a power of two, up to 2**LARGEST_EXPONENT, before they are squared.
SMALLEST_SQUARES, SMALL_EXPONENT, LARGEST_EXPONENT = 2.0**-900, -256, 1023
#: `normalize` lays a sparse X out if it is asked to, unless for each of its numbers there would be more than so many.
LAID_OUT = 20
#: What a number takes in rows that are laid out: itself and its column.
BYTES_LAID_OUT = 8
#: Of what stands beside categories, amounts that so large a share of the rows has are centred.
COMMON = 0.5
#: Others that are typically so many times as large as others, at most, but for a tenth either way, are of one unit, as
#: words by tf-idf are: divided by one number they keep what they are to each other.
ONE_UNIT = 10


@dataclass(frozen=True)
class Scaling:
    """The scaling in use: ``"rows"``, ``"none"``, or that of a table, with its columns' centres and factors.

    That is ``"columns"`` where each is divided by its own standard deviation, ``"together"`` where all are by one
    number, and ``"mixed"`` where all but amounts have their centre at zero, so that what is sparse stays so. Each way
    points have a length of about one.
    """

    kind: str
    centre: F64 | None = None
    factor: F64 | None = None

    @classmethod
    def learn(cls, X: Any, kind: str) -> Scaling:
        """Measure a checked X, (n, d) sparse or dense, for one of `SCALINGS`."""
        if kind in ("rows", "none"):
            return cls(kind)
        if kind == "mixed":
            return cls.of_mixed(X)
        if sparse.issparse(X) and not fits_laid_out(X, LAID_OUT * n_others(X)):
            raise ValueError(
                f"normalize={kind!r} needs a dense X, got a sparse one, which is mostly zeros or would not fit into "
                "memory if it were laid out: use 'mixed' or 'rows', or pass X.toarray()"
            )
        return next(scaling for scaling in cls.of_table(X) if scaling.kind == kind)

    @classmethod
    def of_table(cls, X: Any) -> tuple[Scaling, Scaling]:
        """Return both ways to scale a table, ``"columns"`` and ``"together"``."""
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
        widths = np.where(is_constant, 0.0, deviation / lift)
        lift_all = power_to_square(widths.max(initial=0))
        common = _inverse(np.linalg.norm(widths * lift_all) or 1.0, lift_all)
        # A constant column's deviation is what rounding leaves: it is not to be multiplied by more than others' are.
        together = np.where(is_constant, np.minimum(own, common), common)
        return cls("columns", centre, own), cls("together", centre, together)

    @classmethod
    def of_mixed(cls, X: Any) -> Scaling:
        """Return how to scale amounts beside what is mostly zeros."""
        columns, lift = Columns.of(X).lifted()
        means = np.where(columns.are_amounts & columns.held_by(COMMON), columns.sums() / columns.n, 0.0)
        deviation = np.sqrt(columns.squares(means) / columns.n)
        is_centred = (means != 0) & ~_is_constant(means, deviation, columns.n)
        centre = np.where(is_centred, means, 0.0)
        squares = columns.squares(np.zeros_like(centre))
        typical = np.sqrt(squares / np.maximum(columns.lengths, 1))
        rare = columns.are_amounts & ~is_centred
        small, large = np.quantile(typical[rare] / lift[rare], (0.1, 0.9)) if rare.any() else (0.0, 0.0)
        if large < ONE_UNIT * small:
            theirs, lift = lift[rare], np.where(rare, lift[rare].min(initial=math.inf), lift)
            of_all = (squares[rare] * np.square(lift[rare] / theirs)).sum()
            typical[rare] = np.sqrt(of_all / columns.lengths[rare].sum())
        spread = np.where(is_centred, deviation, np.where(typical > 0, typical, 1.0))
        n_numbers = np.count_nonzero(is_centred) + columns.lengths[~is_centred].sum() / columns.n
        return cls("mixed", centre / lift, _inverse(spread * np.sqrt(n_numbers or 1.0), lift))

    @property
    def is_of_table(self) -> bool:
        """Whether columns have centres, from which zero may be as far as other numbers."""
        return self.centre is not None

    def apply(self, X: Any) -> Rows:
        """Scale a checked X, sparse or dense, into rows for the kernels."""
        if self.kind == "mixed":
            return self._mixed(X)
        if self.is_of_table:
            return self._centred(X)
        matrix = X if isinstance(X, sparse.csr_array) else sparse.csr_array(X)
        if self.kind == "none":
            return Rows.of(matrix)
        data, counts = matrix.data, np.diff(matrix.indptr)
        squares = by_row(np.add, np.square(data, dtype=np.float64), matrix.indptr)
        if ((squares < SMALLEST_SQUARES) & (counts > 0)).any():
            lift = power_to_square(by_row(np.maximum, np.abs(data), matrix.indptr))
            data = data * np.repeat(lift, counts)
            squares = by_row(np.add, np.square(data), matrix.indptr)
        lengths = np.sqrt(squares)
        return Rows.of(matrix, data * np.repeat(1 / np.where(lengths > 0, lengths, 1.0), counts))

    def apply_one(self, indices: NDArray[np.int32], values: F64, width: int) -> Rows:
        """Scale a single checked sparse point; what it does not name is zero."""
        if self.is_of_table:
            return self.apply(sparse.csr_array((values, indices, [0, len(indices)]), shape=(1, width)))
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
            scaled[done:end] = np.clip((part - self.centre) * self.factor, -_FARTHEST, _FARTHEST)
            done = end
        indices = np.tile(np.arange(d, dtype=np.int32), n)
        return Rows(np.arange(n + 1, dtype=np.int64) * d, indices, scaled.reshape(-1), d)

    def _mixed(self, X: Any) -> Rows:
        assert self.centre is not None
        assert self.factor is not None
        amounts, of_zeros = self._zeros_of_amounts
        indptr, indices, values = [np.zeros(1, np.int64)], [np.empty(0, np.int32)], [np.empty(0, np.float32)]
        n_held = getattr(X, "nnz", math.prod(X.shape)) + X.shape[0] * len(amounts)
        n_rows = max(_NUMBERS_OF_MIXED * X.shape[0] // max(n_held, 1), 1)
        for begin in range(0, X.shape[0], n_rows):
            part = sparse.csr_array(X[begin : begin + n_rows], dtype=np.float64)
            part = sparse.csr_array((part.data * self.factor[part.indices], part.indices, part.indptr), part.shape)
            n = part.shape[0]
            starts = np.arange(n + 1) * len(amounts)
            part = part + sparse.csr_array((np.tile(of_zeros, n), np.tile(amounts, n), starts), part.shape)
            indptr.append(indptr[-1][-1] + part.indptr[1:].astype(np.int64))
            indices.append(part.indices.astype(np.int32, copy=False))
            values.append(np.clip(part.data, -_FARTHEST, _FARTHEST).astype(np.float32))
        return Rows(np.concatenate(indptr), np.concatenate(indices), np.concatenate(values), X.shape[1])

    @cached_property
    def _zeros_of_amounts(self) -> tuple[NDArray[np.int32], F64]:
        """Which columns have a centre other than zero, and what their zeros become."""
        assert self.centre is not None
        assert self.factor is not None
        amounts = np.flatnonzero(self.centre).astype(np.int32)
        return amounts, -self.centre[amounts] * self.factor[amounts]


@dataclass(frozen=True, eq=False)
class Columns:
    """What the columns of an X hold that is not zero, one after the other.

    Attributes
    ----------
    n : int
        The rows of X.
    values : ndarray of shape (nnz,), float64
    starts : ndarray of shape (d + 1,)
        Where in `values` those of each column begin.
    """

    n: int
    values: F64
    starts: NDArray[Any]

    @classmethod
    def of(cls, X: Any) -> Columns:
        """Sort the numbers of a checked X, sparse or dense, by column."""
        by_column = without_zeros(sparse.csr_array(X, dtype=np.float64)).tocsc()
        return cls(X.shape[0], by_column.data, by_column.indptr)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """How many rows have each column."""
        return np.diff(self.starts).astype(np.int64)

    def lifted(self) -> tuple[Columns, F64]:
        """Multiply columns whose squares may underflow by a power of two; return the powers, too."""
        if np.abs(self.values).min(initial=1) >= 2.0**SMALL_EXPONENT:
            return self, np.broadcast_to(1.0, len(self.starts) - 1)
        lift = power_to_square(by_row(np.maximum, np.abs(self.values), self.starts))
        return Columns(self.n, self.values * np.repeat(lift, self.lengths), self.starts), lift

    def sums(self) -> F64:
        """Return the sum of each column."""
        return by_row(np.add, self.values, self.starts)

    def squares(self, centre: F64) -> F64:
        """Return the sum of squares of each column, and of its zeros, from there."""
        own = by_row(np.add, np.square(self.values - np.repeat(centre, self.lengths)), self.starts)
        return own + (self.n - self.lengths) * np.square(centre)

    @cached_property
    def are_amounts(self) -> NDArray[np.bool_]:
        """Which columns are no flags: not all rows that have them have the same number."""
        least, most = (by_row(extreme, self.values, self.starts) for extreme in (np.minimum, np.maximum))
        return np.asarray(least < most)

    def held_by(self, share: float) -> NDArray[np.bool_]:
        """Tell which columns that share of the rows has at least."""
        return self.lengths >= share * self.n


def _blocks(X: Any) -> Iterator[F64]:
    """Lay out some rows at a time: all of them in float64 would take several times the memory of X."""
    for begin in range(0, X.shape[0], _BLOCK):
        block = X[begin : begin + _BLOCK]
        yield (block.toarray() if hasattr(block, "toarray") else block).astype(np.float64, order="C", copy=False)


def power_to_square(largest: Any) -> Any:
    """Return a power of two for each magnitude that brings it near 1 if its square may underflow; 1 for all others.

    Multiplying by a power of two is exact, so ordinary data are scaled to the same bits.
    """
    _, exponent = np.frexp(np.asarray(largest, np.float64))
    is_small = (exponent < SMALL_EXPONENT) & (np.asarray(largest) > 0)
    return np.ldexp(1.0, np.where(is_small, np.minimum(-exponent, LARGEST_EXPONENT), 0))


def _inverse(length: Any, lift: Any) -> Any:
    """Return ``lift / length``, or the largest float64 where it overflows, as it does for subnormal numbers."""
    with np.errstate(over="ignore"):
        return np.minimum(lift / length, np.finfo(np.float64).max)


def _is_constant(centre: F64, deviation: F64, n: int) -> NDArray[np.bool_]:
    """Tell which columns deviate from their mean of n numbers by no more than how these are rounded when added up.

    The bound is that of Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance".
    """
    epsilon = np.finfo(np.float64).eps
    return np.square(deviation) <= n * epsilon * np.square(deviation) + np.square(n * centre * epsilon)


def n_others(X: Any) -> int:
    """Return how many numbers of X, sparse or dense, are not zero."""
    return int(X.count_nonzero() if hasattr(X, "count_nonzero") else np.count_nonzero(X))


def fits_laid_out(X: Any, most: int) -> bool:
    """Tell whether the numbers of X, with all zeros, are so many at most and fit into memory."""
    size: int = math.prod(X.shape)
    return size <= most and BYTES_LAID_OUT * size <= available_memory()
