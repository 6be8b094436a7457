"""How the features of a point are scaled before the first layer sees them.

The layers expect points of about unit length. There are two roads there, and which is right depends on the data.
Sparse counts or tf-idf say what a point is about by the direction of its row: rows are divided by their length. In
a dense table a column has a unit of its own, and a row's length may be all that tells two classes apart: there the
columns are standardised, and divided by the square root of their number. Or all columns are of one unit, as those of
principal components and of embeddings are, and the more one varies the more it tells: standardised, it would be lost
among those that hardly do. There all are divided by one number.

What counts is what the numbers are, not how they are stored: a dense array that is mostly zeros, without negative
numbers, holds counts or tf-idf too, and standardising it would fill it up. Unless it is a table most of whose columns
stand for categories: there a column of amounts would be all that is left of rows divided by their length. And most of
a table is not zero, though it may be stored as a sparse matrix, as readers of files of indices and values return it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet._machine import available_memory
from sparsenet.batches import Rows, by_row

F64 = NDArray[np.float64]
SCALINGS = ("rows", "columns", "together", "none")
CHOICES = ("auto", *SCALINGS)
#: Far beyond any training point, and far from where float32 would overflow in a layer.
_FARTHEST = 1e12
_BLOCK = 1024
#: A dense X without negative entries of which one in so many at most is not zero is scaled as a sparse one.
SPARSE_SHARE = 3
#: But not if each of the columns that most rows have holds, on average, so many times the squares that all others hold
#: together. Words as frequent as Zipf has it leave about 0.6 / D to all but the D most frequent, however long texts are
#: (0.3 / D and more where exponents are up to 1.2); amounts in the tens beside categories leave a hundredth of that.
SWAMPING = 50
#: A sparse X of which more than one in so many is not zero is a table all the same. One that, laid out, has so many
#: numbers at most for each of its own is a table by the rule of a dense X. Fewer rows tell of neither: they may be the
#: first of a stream of counts.
TABLE_SHARE, LAID_OUT, FEWEST_STORED = 2, 20, 64
#: What a number takes in rows that are laid out: itself and its column.
BYTES_LAID_OUT = 8
#: Rows that are looked at for it, and their numbers, or up to twice as many.
_LOOKED_AT, _NUMBERS_LOOKED_AT = 1 << 12, 1 << 22
#: The share of a row's squares that leaves hardly anything to other features, and of how many of these it is said.
_NEARLY_ALL, _OTHERS = 0.99, 2


@dataclass(frozen=True)
class Scaling:
    """The scaling in use: ``"rows"``, ``"none"``, or that of a table, with its columns' centres and factors.

    That is ``"columns"`` where each is divided by its own standard deviation, and ``"together"`` where all are by one
    number. Either way points have a length of about one.
    """

    kind: str
    centre: F64 | None = None
    factor: F64 | None = None

    @classmethod
    def learn(cls, X: Any, kind: str) -> Scaling:
        """Measure a checked X, (n, d) sparse or dense, for one of `SCALINGS`."""
        if kind in ("rows", "none"):
            return cls(kind)
        if sparse.issparse(X) and not _can_be_laid_out(X, _n_others(X)):
            raise ValueError(
                f"normalize={kind!r} needs a dense X, got a sparse one, which is mostly zeros or would not fit into "
                "memory if it were laid out: use 'rows', or pass X.toarray()"
            )
        return next(scaling for scaling in cls.of_table(X) if scaling.kind == kind)

    @classmethod
    def of_table(cls, X: Any) -> tuple[Scaling, Scaling]:
        """Return both ways to scale a table, ``"columns"`` and ``"together"``."""
        n, d = X.shape
        centre = sum(part.sum(axis=0) for part in _blocks(X)) / n
        deviation = np.sqrt(sum(np.square(part - centre).sum(axis=0) for part in _blocks(X)) / n)
        is_constant = _is_constant(centre, deviation, n)
        own = 1 / (np.where(is_constant, 1.0, deviation) * np.sqrt(d))
        common = 1 / (np.linalg.norm(np.where(is_constant, 0.0, deviation)) or 1.0)
        # A constant column's deviation is what rounding leaves: it is not to be multiplied by more than others' are.
        together = np.where(is_constant, np.minimum(own, common), common)
        return cls("columns", centre, own), cls("together", centre, together)

    @property
    def is_of_table(self) -> bool:
        """Whether columns have centres, from which zero may be as far as other numbers."""
        return self.centre is not None

    def apply(self, X: Any) -> Rows:
        """Scale a checked X, sparse or dense, into rows for the kernels."""
        if self.is_of_table:
            return self._centred(X)
        matrix = X if isinstance(X, sparse.csr_array) else sparse.csr_array(X)
        if self.kind == "none":
            return Rows.of(matrix)
        lengths = np.sqrt(by_row(np.add, np.square(matrix.data, dtype=np.float64), matrix.indptr))
        inverse = 1 / np.where(lengths > 0, lengths, 1.0)
        return Rows.of(matrix, matrix.data * np.repeat(inverse, np.diff(matrix.indptr)))

    def apply_one(self, indices: NDArray[np.int32], values: F64, width: int) -> Rows:
        """Scale a single checked sparse point; what it does not name is zero."""
        if self.is_of_table:
            return self._centred(sparse.csr_array((values, indices, [0, len(indices)]), shape=(1, width)))
        if self.kind == "rows":
            length = float(np.sqrt(np.square(values).sum()))
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


def _blocks(X: Any) -> Iterator[F64]:
    """Lay out some rows at a time: all of them in float64 would take several times the memory of X."""
    for begin in range(0, X.shape[0], _BLOCK):
        block = X[begin : begin + _BLOCK]
        yield (block.toarray() if hasattr(block, "toarray") else block).astype(np.float64, order="C", copy=False)


def _is_constant(centre: F64, deviation: F64, n: int) -> NDArray[np.bool_]:
    """Tell which columns deviate from their mean of n numbers by no more than how these are rounded when added up.

    The bound is that of Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance".
    """
    epsilon = np.finfo(np.float64).eps
    return np.square(deviation) <= n * epsilon * np.square(deviation) + np.square(n * centre * epsilon)


def is_table(X: Any) -> bool:
    """Tell whether X holds a table, and not what is like counts.

    That is mostly zeros: of a sparse X more than half, of a dense one without anything negative two thirds, unless a
    few columns are above all others. A few rows that are stored as sparse are no table, and nor is what laying it out
    would make several times as large, or too large.
    """
    is_stored, size = sparse.issparse(X), math.prod(X.shape)
    n_others = _n_others(X)
    if is_stored and (X.shape[0] < FEWEST_STORED or not _can_be_laid_out(X, n_others)):
        return False
    if (TABLE_SHARE if is_stored else SPARSE_SHARE) * n_others > size or (not is_stored and X.min(initial=0) < 0):
        return True
    n_looked_at = max(min(_LOOKED_AT, _NUMBERS_LOOKED_AT // max(X.shape[1], 1)), 1)
    some = X[:: max(X.shape[0] // n_looked_at, 1)]
    some = some.toarray() if is_stored else some
    is_frequent = 2 * np.count_nonzero(some, axis=0) >= len(some)
    n_frequent = np.count_nonzero(is_frequent)
    return bool(n_frequent > 0 and 0 < SWAMPING * n_frequent * _left_to(some, ~is_frequent) < 1)


def _n_others(X: Any) -> int:
    """Return how many numbers of X, sparse or dense, are not zero."""
    return int(X.count_nonzero() if hasattr(X, "count_nonzero") else np.count_nonzero(X))


def _can_be_laid_out(X: Any, n_others: int) -> bool:
    """Tell whether a sparse X of so many numbers but zeros is not much larger, and fits into memory, with all zeros."""
    size: int = math.prod(X.shape)
    return size <= LAID_OUT * n_others and BYTES_LAID_OUT * size <= available_memory()


def _left_to(X: NDArray[Any], columns: NDArray[np.bool_]) -> float:
    """Return the share of a row's squares that these columns hold, in the median of the rows that have any of them."""
    shares = []
    for begin in range(0, len(X), _BLOCK):
        block = X[begin : begin + _BLOCK]
        block = block[block.any(axis=1)].astype(np.float64)
        squares = np.square(block / np.abs(block).max(axis=1, keepdims=True, initial=0))
        own = squares[:, columns].sum(axis=1)
        shares.append(own[own > 0] / squares[own > 0].sum(axis=1))
    found = np.concatenate(shares)
    return float(np.median(found)) if len(found) else 0.0


def tell_of_swamping(X: Any, names: Any) -> None:
    """Warn of a column of a sparse X that is nearly all that is left of rows divided by their length."""
    squares = np.square(X.data, dtype=np.float64)
    totals, n_own = (by_row(np.add, values, X.indptr) for values in (squares, (X.data != 0).astype(np.int64)))
    is_swamped = (n_own > _OTHERS) & (totals > 0)
    is_heavy = squares >= np.repeat(np.where(is_swamped, _NEARLY_ALL * totals, np.inf), np.diff(X.indptr))
    heavy, counts = np.unique(X.indices[is_heavy], return_counts=True)
    if 2 * counts.max(initial=0) > np.count_nonzero(n_own):
        number = int(heavy[counts.argmax()])
        column = number if names is None else repr(names[number])
        warnings.warn(
            f"column {column} of X holds {_NEARLY_ALL:.0%} or more of the squared length of most rows, so that "
            "little is left of their other features when rows are divided by their length: scale it, for example by "
            "sklearn.preprocessing.MaxAbsScaler, or pass a dense X, whose columns are standardised; normalize='rows' "
            "says that it is meant so",
            UserWarning,
            stacklevel=4,
        )
