"""Detect what kind of features X has: counts, a table, or amounts mixed with categories.

`normalize="auto"` chooses the scaling by kind. The kind depends on the values, not on how they are stored:

- counts: mostly zeros and no negative values, in a dense array as well. Standardising would fill the zeros in.
- table: mostly non-zero, in a sparse matrix as well: readers of index-value files return tables as sparse matrices.
- mixed: mostly zeros, with amounts and one-hot categories. Dividing rows by their length would leave the categories
  next to nothing, or the amounts.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from functools import reduce
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet.core.matrices import without_zeros
from sparsenet.core.rows import POINTS_AT_A_TIME, RowSource, by_row
from sparsenet.data.point_file import StoredPoints
from sparsenet.features.scaling import (
    COMMON,
    Columns,
    Scaling,
    count_nonzero,
    fits_dense,
    is_sparse,
    power_to_square,
    row_blocks,
)

FeatureKind = Literal["counts", "table", "mixed"]
#: Too few sparse rows to detect anything but counts: they may be the first of a stream.
MIN_ROWS = 64
#: Minimum fraction of rows for a column to count as present in nearly all of them.
NEARLY_ALL = 0.9


def detect_kind(X: Any) -> FeatureKind:
    """Detect the kind of a validated X, (n, d) sparse or dense."""
    sparsely, n_nonzero = is_sparse(X), count_nonzero(X)
    if sparsely and X.shape[0] < MIN_ROWS:
        return "counts"
    # A table is at least half non-zero if stored as a sparse matrix, more than a third if stored as an array.
    if fits_dense(X, 2 * n_nonzero) if sparsely else 3 * n_nonzero > math.prod(X.shape):
        return "table"
    sample = without_zeros(sparse.csr_array(X[:: _step(X.shape[0], n_nonzero)]))
    if _is_mixed(sample, Columns.of(sample)):
        return "mixed"
    return "table" if not sparsely and _lowest(X) < 0 else "counts"


def _lowest(X: Any) -> float:
    return X.lowest if isinstance(X, StoredPoints) else float(X.min(initial=0))


def _step(n: int, n_nonzero: int, *, max_rows: int = 1 << 12, max_numbers: int = 1 << 22) -> int:
    """Return the step between sampled rows that keeps the sample below about twice these sizes."""
    return max(n // max_rows, n_nonzero // max_numbers, 1)


def _is_mixed(sample: Any, columns: Columns) -> bool:
    """Return whether sampled rows, without explicit zeros, mix amounts with other features."""
    if columns.n >= MIN_ROWS and (_has_categories(sample, columns) or _has_common_amounts(columns)):
        return True
    is_common = columns.present_in(COMMON)
    n_common = np.count_nonzero(is_common)
    # Or common columns hold, on average, over 50 times the squares of all other columns together. Word counts stay far
    # below: by Zipf's law all but the D most frequent words keep about 0.6 / D. Amounts in the tens leave a hundredth.
    return bool(n_common > 0 and 0 < 50 * n_common * _share_of_squares(sample, ~is_common) < 1)


def _has_categories(
    sample: Any,
    columns: Columns,
    *,
    same_flags: float = 3 / 4,
    with_amounts: float = 1 / 2,
    in_columns: float = 2 / 3,
    of_rows: float = 1 / 10,
) -> bool:
    """Return whether rows look like one-hot categories with amounts.

    A share `same_flags` of the rows must have the same number of flags, as with one value of each category. A share
    `with_amounts` must have an amount. To exclude tf-idf of words, a share `in_columns` of the amounts must be in
    columns that at least a share `of_rows` of the rows has.
    """
    are_amounts = columns.are_amounts
    are_flags = ~are_amounts & ~columns.present_in(NEARLY_ALL)  # a column in nearly all rows is a constant, no category
    n_in_columns = columns.lengths[are_amounts & columns.present_in(of_rows)].sum()
    if n_in_columns < in_columns * columns.lengths[are_amounts].sum():
        return False
    have_amounts = by_row(np.logical_or, are_amounts[sample.indices], sample.indptr)
    if np.count_nonzero(have_amounts) < with_amounts * columns.n:
        return False
    rows_by_n_flags = np.bincount(by_row(np.add, are_flags[sample.indices].astype(np.int64), sample.indptr))
    return bool(rows_by_n_flags.argmax() > 0 and rows_by_n_flags.max() >= same_flags * columns.n)


def _has_common_amounts(columns: Columns, *, min_share: float = 1 / 3) -> bool:
    """Return whether amounts that nearly all rows have make up `min_share` of all numbers, but not all.

    Whole numbers without negatives are excluded: they are counts. Words reach a share of 0.29 at most
    (bench/notes/scaling.md).
    """
    is_common_amount = np.repeat(columns.are_amounts & columns.present_in(NEARLY_ALL), columns.lengths)
    amounts, n_numbers = columns.values[is_common_amount], len(columns.values)
    return min_share * n_numbers <= len(amounts) < n_numbers and bool(
        ((amounts < 0) | (amounts != np.floor(amounts))).any()
    )


def _share_of_squares(X: Any, columns: NDArray[np.bool_]) -> float:
    """Return the share of a row's squared length in `columns`: the median over rows that have any of them."""
    squares = _squares(X)
    in_columns = by_row(np.add, squares * columns[X.indices], X.indptr)
    have_any = in_columns > 0
    if not have_any.any():
        return 0.0
    return float(np.median(in_columns[have_any] / by_row(np.add, squares, X.indptr)[have_any]))


def _squares(X: Any) -> NDArray[np.float64]:
    """Square the values of a sparse X, multiplied by one power of two if their squares would underflow."""
    power = power_to_square(max(X.data.max(initial=0), -X.data.min(initial=0)))
    return np.asarray(np.square(X.data if power == 1 else X.data * power, dtype=np.float64))


def are_dense(points: RowSource) -> bool:
    """Return whether scaled points came from a table or from amounts that nearly all points have.

    Either half of all values are non-zero. Or half of the non-zero ones are centred amounts: their columns are present
    in nearly all points and have negative values. With too few points only the first test applies.
    """
    sample = points.take(np.arange(0, len(points), _step(len(points), points.n_entries)))
    present = sample.indices[sample.data != 0]
    if 2 * len(present) >= len(sample) * sample.width:
        return True
    negative = sample.indices[sample.data < 0]
    counts, n_negative = (np.bincount(ids, minlength=sample.width) for ids in (present, negative))
    n_of_amounts = counts[(counts >= NEARLY_ALL * len(sample)) & (n_negative > 0)].sum()
    return len(sample) >= MIN_ROWS and bool(2 * n_of_amounts >= len(present))


def warn_of_dominant_column(X: Any, names: Any, *, share: float = 0.99) -> None:
    """Warn if one column of a sparse X holds nearly all of the squared length of most rows."""
    found, n_rows = [np.empty(0, np.int32)], 0
    for part in row_blocks(X):
        squares = _squares(part)
        totals, n_own = (by_row(np.add, values, part.indptr) for values in (squares, (part.data != 0).astype(np.int64)))
        can_dominate = (n_own > 2) & (totals > 0)  # in rows of one or two features it is no surprise
        is_heavy = squares >= np.repeat(np.where(can_dominate, share * totals, np.inf), np.diff(part.indptr))
        found.append(part.indices[is_heavy])
        n_rows += int(np.count_nonzero(n_own))
    heavy, counts = np.unique(np.concatenate(found), return_counts=True)
    if 2 * counts.max(initial=0) > n_rows:
        number = int(heavy[counts.argmax()])
        column = number if names is None else repr(names[number])
        warnings.warn(
            f"column {column} of X holds {share:.0%} or more of the squared length of most rows, so that "
            "little is left of their other features when rows are divided by their length: scale it, for example by "
            "sklearn.preprocessing.MaxAbsScaler, or set normalize='mixed'; normalize='rows' silences this warning",
            UserWarning,
            stacklevel=4,
        )


def _present(X: Any) -> NDArray[Any]:
    """Return the columns of a matrix that have a value other than zero."""
    if is_sparse(X):
        return np.asarray(X.indices[X.data != 0])
    return np.flatnonzero(np.any(X != 0, axis=0))


def _distinct(parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
    return reduce(np.union1d, parts, np.empty(0, np.int32))


def warn_of_vanished_columns(X: Any, scaling: Scaling, points: RowSource, names: Any, *, max_named: int = 3) -> None:
    """Warn of columns of X, sparse or dense, whose values are all too small to scale or to keep in float32."""
    if scaling.factor is not None:
        vanished = np.flatnonzero(scaling.factor == np.finfo(np.float64).max)
        problem = "too small to be scaled: multiply them by a power of ten, or drop them"
    elif points.n_entries == count_nonzero(X):
        return
    else:
        left = (block.indices for block in points.blocks(POINTS_AT_A_TIME))
        vanished = np.setdiff1d(_distinct(map(_present, row_blocks(X))), _distinct(left))
        problem = (
            "that float32 rounds to zero: rescale them, for example by sklearn.preprocessing.MaxAbsScaler, or set "
            "normalize='mixed' or 'columns'"
        )
    if len(vanished):
        named = [str(number) if names is None else repr(names[number]) for number in vanished[:max_named].tolist()]
        more = f" and {len(vanished) - max_named:,} more" if len(vanished) > max_named else ""
        columns, hold = ("columns", "hold") if len(vanished) > 1 else ("column", "holds")
        warnings.warn(
            f"{columns} {', '.join(named)}{more} of X {hold} only numbers {problem}",
            UserWarning,
            stacklevel=4,
        )
