"""Validate and cast everything users pass: hyper-parameters, X and sparse y.

Every error names the argument, the value received and a remedy. Past this point ids are valid and values finite, as
the kernels require.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from reprlib import Repr
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet.core.machine import default_threads
from sparsenet.core.matrices import canonical, check_structure, name_of, without_zeros
from sparsenet.core.parted_matrix import (
    PartedMatrix,
    check_parts,
    check_parts_are_matrices,
    check_sizes,
    described,
    is_parted,
)
from sparsenet.core.plain_matrices import plain_matrix

if TYPE_CHECKING:  # scikit-learn takes a second to import, and readers of data do not need it
    from sklearn.base import BaseEstimator

T = TypeVar("T")
Name = TypeVar("Name", bound=Hashable)
#: The largest width, id or count: they are 32-bit integers.
MAX_WIDTH = 2**31 - 1

_BRIEF = Repr()
_BRIEF.maxstring = _BRIEF.maxother = 60


def first_repeated(values: Iterable[Name]) -> Name | None:
    """Return the first duplicate, in linear time; None if all values are distinct.

    >>> first_repeated(["a", "b", "c", "b", "a"])
    'b'
    """
    seen: set[Name] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


# --- hyper-parameters ----------------------------------------------------------------------------------------------


def integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return `value` as an int within ``[low, high]``."""
    wanted = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    if value < low or (high is not None and value > high):
        raise ValueError(f"{name} must be {wanted}, got {value}")
    return int(value)


def n_jobs(value: Any, max_threads: int = 1024) -> int | None:
    """Return the number of threads, or None for all CPUs; as in joblib, -2 means all but one, and so on."""
    if value is None:
        return None
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value == 0 or abs(value) > max_threads:
        wanted = f"None, -1 (both: all CPUs), -2 (all but one) and so on, or an integer from 1 to {max_threads}"
        raise ValueError(f"n_jobs must be {wanted}, got {value!r}")
    if value < -1:
        return max(1, default_threads() + 1 + int(value))
    return None if value == -1 else int(value)


def real(name: str, value: Any, low: float, high: float, *, open_low: bool = False, open_high: bool = False) -> float:
    """Return `value` as a float between `low` and `high`; an open end is excluded."""
    wanted = f"a number in {'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
    inside = (low < value if open_low else low <= value) and (value < high if open_high else value <= high)
    try:
        number = float(value)
    except OverflowError:  # an integer of hundreds of digits
        number = math.inf
    if not inside or not math.isfinite(number):
        raise ValueError(f"{name} must be {wanted}, got {value}")
    return number


def boolean(name: str, value: Any) -> bool:
    """Return `value` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def switch(name: str, value: Any) -> bool:
    """Return `value` as a bool; integers from 0 count too, as verbosity levels do in scikit-learn."""
    if not isinstance(value, bool | np.bool_ | int | np.integer) or value < 0:
        raise ValueError(f"{name} must be True, False or an integer of at least 0, got {value!r}")
    return bool(value)


def choice(name: str, value: Any, choices: Sequence[str], alternative: str = "") -> str:
    """Return `value` if it is among `choices`; the error lists them, followed by `alternative`."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(c) for c in choices)
        raise ValueError(f"{name} must be {'one of ' * (len(choices) > 1)}{listed}{alternative}, got {value!r}")
    return value


def optional(check: Callable[..., Any], name: str, value: Any, *arguments: Any, **options: Any) -> Any:
    """Apply `check` unless `value` is None."""
    return None if value is None else check(name, value, *arguments, **options)


def instance(name: str, value: T) -> T:
    """Return `value`; reject a class passed in place of an object."""
    if isinstance(value, type):
        raise ValueError(f"{name} must be an object, got the class {value.__name__}: pass {value.__name__}(...)")
    return value


def number_of_bytes(name: str, value: Any, max_bytes: int = 2**63 - 1) -> int:
    """Return a number of bytes, given as an integer or as text.

    >>> number_of_bytes("memory_limit", "1.5GB")
    1500000000
    """
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT])(I?))?B?\s*", value.upper())
        if not match:
            raise ValueError(f"{name} must be a number of bytes such as 8000000000, '8GB' or '8GiB', got {value!r}")
        base = 1024 if match[3] else 1000
        size = float(match[1]) * base ** " KMGT".index(match[2] or " ")
        if size > max_bytes:  # may be infinite, which int() refuses
            raise ValueError(f"{name} must be an integer from 1 to {max_bytes}, got {value!r}")
        value = int(size)
    return integer(name, value, 1, max_bytes)


# --- arrays --------------------------------------------------------------------------------------------------------


def check_features(estimator: BaseEstimator, X: Any, *, fitting: bool, first_row: int = 0) -> Any:
    """Return X as a canonical CSR array or a dense array (n, d), finite in float32.

    `fitting` sets `n_features_in_`, otherwise X must match it. Duplicate entries of a sparse X are summed, as SciPy
    does. X itself is never changed. A mapping of names to matrices becomes a `PartedMatrix`, and `fitting` sets
    `parts_`, the width of each. Errors count rows from `first_row`, the place of X in a larger matrix.
    """
    known = None if fitting else getattr(estimator, "parts_", None)
    if known is not None or is_parted(X):
        return _check_parted(estimator, X, known, fitting=fitting)
    if fitting:
        estimator.parts_ = None
    return _check_matrix(estimator, X, reset=fitting, min_rows=1 if fitting else 0, first_row=first_row)


def _check_matrix(estimator: BaseEstimator, X: Any, *, reset: bool, min_rows: int, first_row: int = 0) -> Any:
    """Return a single matrix, validated; `reset` sets `n_features_in_`."""
    name = name_of(X)
    if sparse.issparse(X):
        check_structure("X", X)
    else:
        _check_no_texts(estimator, X)
        X = plain_matrix(X)
        refuse_vector(X)
    checked = X
    if reset or not _is_plain(estimator, X):
        from sklearn.utils.validation import validate_data

        try:
            checked = validate_data(
                estimator,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,  # checked below, with the place and the value
                ensure_min_samples=min_rows,
            )
        except (TypeError, ValueError) as error:
            _check_columns(X, error)
            raise
    if checked.shape[1] > MAX_WIDTH:
        raise ValueError(
            f"X has {checked.shape[1]} columns, at most 2**31 - 1 are possible; hash them into fewer, for example with "
            "sklearn.feature_extraction.FeatureHasher"
        )
    if sparse.issparse(checked):
        checked = canonical(checked)
    _check_finite(name, checked, _columns_of(X), first_row)
    return checked


def refuse_vector(X: Any) -> None:
    """Refuse a single vector: it may be a row or a column."""
    if getattr(X, "ndim", None) == 1 or (isinstance(X, list | tuple) and len(X) > 0 and np.ndim(X[0]) == 0):
        vector = "X" if hasattr(X, "reshape") else "np.asarray(X)"
        raise ValueError(
            f"X is a single vector of {len(X)} values, and a matrix of rows is needed. Reshape your data: "
            f"{vector}.reshape(1, -1) makes it one row, {vector}.reshape(-1, 1) one column"
        )


def _check_parted(estimator: BaseEstimator, X: Any, known: dict[str, int] | None, *, fitting: bool) -> PartedMatrix:
    """Return the validated parts of X, in the order of training."""
    from sklearn.base import BaseEstimator

    if not is_parted(X):
        assert known is not None
        if isinstance(X, Mapping):
            check_parts_are_matrices(X)
        wanted = f"a mapping of names to matrices, as in training: {described(known)}"
        raise ValueError(f"X must be {wanted}; got {type(X).__name__}")
    if known is None and not fitting:
        raise ValueError(f"X is a mapping of {len(X)} matrices, but the model learnt from one matrix: pass that")
    parts = {}
    for name in check_parts(X, known):
        try:
            parts[name] = _check_matrix(BaseEstimator(), X[name], reset=True, min_rows=1 if fitting else 0)
        except ValueError as error:
            raise ValueError(f"X[{name!r}]: {error}") from error
    check_sizes(parts, known)
    found = PartedMatrix(parts)
    if fitting:
        estimator.parts_, estimator.n_features_in_ = found.widths, found.shape[1]
        if hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
    return found


def _columns_of(X: Any) -> list[Any] | None:
    """Return the column names of a data frame (pandas, Polars or Arrow), else None."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else list(names)


def _check_columns(X: Any, error: Exception) -> None:
    """Raise an error that names the first non-numeric value of a data frame or array; do nothing without one."""
    if str(error).startswith("The feature names"):  # wrong columns: scikit-learn's own message is the better one
        return
    if isinstance(error, TypeError) and _columns_of(X) is None:  # scikit-learn's checks expect the error of float()
        return
    for name, column in _objects_of(X):
        for row, value in enumerate(column.tolist()):
            if not is_missing(value) and not _is_real(value):
                advice = "encode it by numbers, for example with sklearn.preprocessing.OneHotEncoder, or drop it"
                raise ValueError(f"X holds {_BRIEF.repr(value)} in row {row}, column {name!r}: {advice}") from error


def _objects_of(X: Any) -> Iterator[tuple[Any, NDArray[Any]]]:
    """Yield the names and values of the columns of a data frame, or of an array or list of rows, as objects."""
    names = _columns_of(X)
    if names is None:
        array = np.asarray(X, dtype=object) if isinstance(X, np.ndarray | list | tuple) else np.empty(0)
        if array.ndim == 2 and getattr(X, "dtype", array.dtype).kind in "OSU":
            yield from enumerate(array.T)
        return
    for number, name in enumerate(names):
        if hasattr(X, "iloc"):
            column = X.iloc[:, number]
        else:
            column = X.to_series(number) if hasattr(X, "to_series") else X.column(number)
        yield name, np.asarray(column, dtype=object)


def _is_real(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _check_no_texts(estimator: BaseEstimator, X: Any) -> None:
    """Reject texts and file names with an error that names the class or function that takes them."""
    name = type(estimator).__name__
    if isinstance(X, str | os.PathLike):
        raise ValueError(f"{name} takes a matrix, got {str(X)!r}: sparsenet.data.read(path) makes X and Y of a file")
    first = next(iter(X), None) if isinstance(X, list | tuple) or getattr(X, "ndim", 0) == 1 else None
    if isinstance(first, str):
        raise ValueError(f"{name} takes a matrix of numbers, and X holds texts: TextClassifier takes those")


def _is_plain(estimator: BaseEstimator, X: Any) -> bool:
    """Return whether scikit-learn's checks can be skipped: they take longer than predicting one point."""
    return (
        isinstance(X, sparse.csr_array | sparse.csr_matrix)
        and X.dtype in (np.float64, np.float32)
        and X.shape[1] == estimator.n_features_in_
        and not hasattr(estimator, "feature_names_in_")
    )


def check_names(known: NDArray[Any], labels: NDArray[Any], indptr: NDArray[np.int64]) -> None:
    """Reject label names that UTF-8 cannot encode now, before training, since saving would fail."""
    for name in known.tolist() if known.dtype.kind in "OU" else ():
        if isinstance(name, str) and not is_unicode(name):
            found = np.flatnonzero(labels == name)
            row = f" in row {np.searchsorted(indptr, found[0], side='right') - 1}" if len(found) else ""
            raise ValueError(f"label {name!a}{row} has half of a surrogate pair, which UTF-8 cannot encode: replace it")


def is_unicode(text: str) -> bool:
    """Return whether UTF-8 can encode a string: JSON escapes may contain half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, NaT or pandas' NA."""
    try:
        return value is None or bool(value != value)
    except TypeError:  # NA refuses comparison
        return True
    except ValueError:  # an array
        return False


def check_indicator(name: str, matrix: Any) -> Any:
    """Return a sparse label indicator as a canonical CSR array without explicit zeros."""
    check_structure(name, matrix)
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold numbers, non-zero where a row has a label, got {matrix.dtype}")
    if matrix.dtype.kind in "iu":
        matrix = matrix.astype(np.float32)  # duplicate integers might wrap around to zero when summed
    matrix = canonical(matrix.tocsr())
    if matrix.shape[1] > MAX_WIDTH:
        raise ValueError(f"{name} has {matrix.shape[1]} columns, at most 2**31 - 1 labels are possible")
    _check_finite(name, matrix)
    if matrix.dtype.kind in "if" and matrix.data.min(initial=0) < 0:
        lowest = matrix.data.min()
        raise ValueError(f"{name} must be positive where a row has a label and zero elsewhere, got {lowest:g}")
    return without_zeros(matrix)


def check_weights(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    """Return `sample_weight` as n float64 weights, or None."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have one number for each of {n} rows of X, got {weights.shape}")
    if not (np.isfinite(weights).all() and weights.sum() > 0):
        raise ValueError(f"sample_weight must hold finite numbers that sum to more than 0, got {weights.sum():g}")
    return weights


def _check_finite(name: str, array: Any, columns: list[Any] | None = None, first_row: int = 0) -> None:
    """Reject NaN, infinity and overflow of float32, and name the row and column, by its name in `columns`."""
    is_sparse = hasattr(array, "indptr")
    values = array.data if is_sparse else array.reshape(-1)
    at = first_unusable(values)
    if at is None:
        return
    if is_sparse:
        row, column = int(np.searchsorted(array.indptr, at, side="right")) - 1, int(array.indices[at])
    else:
        row, column = divmod(at, array.shape[1])
    place = column if columns is None else repr(columns[column])
    raise ValueError(f"{name} holds {unusable(values[at], f'in row {first_row + row}, column {place}')}")


def first_unusable(values: NDArray[Any]) -> int | None:
    """Return the position of the first value that is NaN, infinite or too large for float32; None if none is."""
    limit = np.finfo(np.float32).max
    with np.errstate(invalid="ignore"):
        # NaN fails both comparisons. Two reductions avoid an array of booleans.
        if not len(values) or (values.max() <= limit and values.min() >= -limit):
            return None
        return int(np.flatnonzero(~(np.abs(values) <= limit))[0])


def unusable(value: Any, place: str) -> str:
    """Describe an unusable value and its place, and suggest a remedy."""
    value = float(value)
    if math.isnan(value):
        found, advice = "NaN", "fill in or drop missing values, for example with sklearn.impute.SimpleImputer"
    elif math.isinf(value):
        found, advice = f"infinity ({value})", "replace or drop it"
    else:
        found, advice = f"{value:g}, beyond the range of float32 (3.4e38, else inf)", "rescale this column"
    return f"{found} {place}: {advice}"
