"""What an X holds: counts, a table, or amounts beside categories. By that it is scaled where nobody says how.

What counts is what the numbers are, not how they are stored: a dense array that is mostly zeros, without negative
numbers, holds counts or tf-idf too, and standardising it would fill it up. And most of a table is not zero, though it
may be stored as a sparse matrix, as readers of files of indices and values return it. Mostly zeros, too, are amounts
beside categories: rows divided by their length would leave the categories nothing, or the amounts.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet.core.matrices import without_zeros
from sparsenet.core.rows import Rows, by_row
from sparsenet.features.scaling import COMMON, Columns, Scaling, fits_laid_out, n_others, power_to_square

Contents = Literal["counts", "table", "mixed"]
#: Of a table that is dense more than one number in so many is not zero; of one that is stored as sparse one or more.
SPARSE_SHARE, TABLE_SHARE = 3, 2
#: Fewer rows that are sparse are taken for counts, of a stream of which they may be the first.
FEWEST_ROWS = 64
#: Amounts stand beside categories if so large a share of the rows has the same number of flags, as rows do that name
#: one value of each category, half of the rows have an amount, and two thirds of the amounts are in columns that a
#: tenth of the rows has, which of words by tf-idf they are not.
SAME_FLAGS, WITH_AMOUNTS, IN_COLUMNS, OF_ROWS = 3 / 4, 1 / 2, 2 / 3, 1 / 10
#: Or if columns that most rows have hold, each on average, so many times the squares that all others hold together.
#: Words as frequent as Zipf has it leave about 0.6 / D to all but the D most frequent, however long texts are (0.3 / D
#: and more where exponents are up to 1.2); amounts in the tens beside categories leave a hundredth of that.
SWAMPING = 50
#: Or if so large a share of the numbers is of amounts that nearly all rows have, unless these are counted: whole, and
#: none negative. Of words the share is 0.29 at most (bench/notes/scaling.md); of pairs of letters by tf-idf it may be
#: more, for which either way is as good.
NEARLY_ALL, MANY = 0.9, 1 / 3
#: So many rows are looked at for it, of so many numbers, or up to twice as many.
_LOOKED_AT, _NUMBERS_LOOKED_AT = 1 << 12, 1 << 22
#: The share of a row's squares that leaves hardly anything to other features, and of how many of these it is said.
_ALL_BUT, _OTHERS = 0.99, 2
#: Columns that a warning names.
_NAMED = 3


def contents(X: Any) -> Contents:
    """Tell what a checked X, (n, d) sparse or dense, holds."""
    is_stored, n_held = sparse.issparse(X), n_others(X)
    if is_stored and X.shape[0] < FEWEST_ROWS:
        return "counts"
    if fits_laid_out(X, TABLE_SHARE * n_held) if is_stored else SPARSE_SHARE * n_held > math.prod(X.shape):
        return "table"
    some = without_zeros(sparse.csr_array(X[:: _step(X.shape[0], n_held)]))
    if _has_amounts(some, Columns.of(some)):
        return "mixed"
    return "table" if not is_stored and X.min(initial=0) < 0 else "counts"


def _step(n: int, n_held: int) -> int:
    """Return that one row in so many is looked at, of n that hold so many numbers."""
    return max(n // _LOOKED_AT, n_held // _NUMBERS_LOOKED_AT, 1)


def _has_amounts(some: Any, columns: Columns) -> bool:
    """Tell whether some rows, without zeros, hold amounts beside what else they have."""
    if columns.n >= FEWEST_ROWS and (_beside_categories(some, columns) or _are_many(columns)):
        return True
    is_common = columns.held_by(COMMON)
    n_common = np.count_nonzero(is_common)
    return bool(n_common > 0 and 0 < SWAMPING * n_common * _left_to(some, ~is_common) < 1)


def _beside_categories(some: Any, columns: Columns) -> bool:
    """Tell whether most rows have one value of each category, and amounts that are no words."""
    are_amounts = columns.are_amounts
    are_flags = ~are_amounts & ~columns.held_by(NEARLY_ALL)  # what all have, such as a constant, is no choice of one
    in_columns = columns.lengths[are_amounts & columns.held_by(OF_ROWS)].sum()
    if in_columns < IN_COLUMNS * columns.lengths[are_amounts].sum():
        return False
    with_amounts = by_row(np.logical_or, are_amounts[some.indices], some.indptr)
    if np.count_nonzero(with_amounts) < WITH_AMOUNTS * columns.n:
        return False
    n_with_flags = np.bincount(by_row(np.add, are_flags[some.indices].astype(np.int64), some.indptr))
    return bool(n_with_flags.argmax() > 0 and n_with_flags.max() >= SAME_FLAGS * columns.n)


def _are_many(columns: Columns) -> bool:
    """Tell whether many of all numbers, but not all, are of amounts that nearly all rows have, and not counted."""
    are_many = np.repeat(columns.are_amounts & columns.held_by(NEARLY_ALL), columns.lengths)
    many, n_held = columns.values[are_many], len(columns.values)
    return MANY * n_held <= len(many) < n_held and bool(((many < 0) | (many != np.floor(many))).any())


def _left_to(X: Any, columns: NDArray[np.bool_]) -> float:
    """Return the share of a row's squares that these columns hold, in the median of the rows that have any of them."""
    squares = _squares(X)
    theirs = by_row(np.add, squares * columns[X.indices], X.indptr)
    have_any = theirs > 0
    return float(np.median(theirs[have_any] / by_row(np.add, squares, X.indptr)[have_any])) if have_any.any() else 0.0


def _squares(X: Any) -> NDArray[np.float64]:
    """Return the squares of the numbers of a sparse X, all times one factor where they would underflow."""
    power = power_to_square(max(X.data.max(initial=0), -X.data.min(initial=0)))
    return np.asarray(np.square(X.data if power == 1 else X.data * power, dtype=np.float64))


def are_dense(points: Rows) -> bool:
    """Tell whether half of all values are not zero, or half of what points hold are amounts around zero.

    That is what scaling makes of amounts that nearly all of them have; of few points it can't be told.
    """
    some = points.take(np.arange(0, len(points), _step(len(points), len(points.indices))))
    present = some.indices[some.data != 0]
    if 2 * len(present) >= len(some) * some.width:
        return True
    counts, n_below = (np.bincount(ids, minlength=some.width) for ids in (present, some.indices[some.data < 0]))
    n_of_amounts = counts[(counts >= NEARLY_ALL * len(some)) & (n_below > 0)].sum()
    return len(some) >= FEWEST_ROWS and bool(2 * n_of_amounts >= len(present))


def tell_of_swamping(X: Any, names: Any) -> None:
    """Warn of a column of a sparse X that is nearly all that is left of rows divided by their length."""
    squares = _squares(X)
    totals, n_own = (by_row(np.add, values, X.indptr) for values in (squares, (X.data != 0).astype(np.int64)))
    is_swamped = (n_own > _OTHERS) & (totals > 0)
    is_heavy = squares >= np.repeat(np.where(is_swamped, _ALL_BUT * totals, np.inf), np.diff(X.indptr))
    heavy, counts = np.unique(X.indices[is_heavy], return_counts=True)
    if 2 * counts.max(initial=0) > np.count_nonzero(n_own):
        number = int(heavy[counts.argmax()])
        column = number if names is None else repr(names[number])
        warnings.warn(
            f"column {column} of X holds {_ALL_BUT:.0%} or more of the squared length of most rows, so that "
            "little is left of their other features when rows are divided by their length: scale it, for example by "
            "sklearn.preprocessing.MaxAbsScaler, or set normalize='mixed'; 'rows' says that it is meant so",
            UserWarning,
            stacklevel=4,
        )


def warn_of_vanished(X: Any, scaling: Scaling, points: Rows, names: Any) -> None:
    """Warn of columns of X, sparse or dense, all of whose numbers are too small to be learnt from as scaled."""
    if scaling.factor is not None:
        gone = np.flatnonzero(scaling.factor == np.finfo(np.float64).max)
        why = "too small to be scaled: multiply them by a power of ten, or drop them"
    elif len(points.indices) == n_others(X):
        return
    else:
        is_stored: bool = sparse.issparse(X)  # a plain bool, which does not narrow X
        held = np.unique(X.indices[X.data != 0]) if is_stored else np.flatnonzero(np.any(X != 0, axis=0))
        gone = np.setdiff1d(held, points.indices)
        why = (
            "that float32 rounds to zero: rescale them, for example by sklearn.preprocessing.MaxAbsScaler, or set "
            "normalize='mixed' or 'columns'"
        )
    if len(gone):
        named = [str(number) if names is None else repr(names[number]) for number in gone[:_NAMED].tolist()]
        more = f" and {len(gone) - _NAMED:,} more" if len(gone) > _NAMED else ""
        columns, hold = ("columns", "hold") if len(gone) > 1 else ("column", "holds")
        warnings.warn(
            f"{columns} {', '.join(named)}{more} of X {hold} only numbers {why}",
            UserWarning,
            stacklevel=4,
        )
