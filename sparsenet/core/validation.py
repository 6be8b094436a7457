"""The one place where what users pass is checked and cast: hyper-parameters, and the arrays X and sparse y.

Every error says which argument, what came, and what to do. Past this point ids are valid and values finite, as the
kernels require.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from reprlib import Repr
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from sparsenet.core.machine import default_threads
from sparsenet.core.matrices import canonical, check_structure, without_zeros

T = TypeVar("T")
Name = TypeVar("Name", bound=Hashable)
MAX_WIDTH = 2**31 - 1
MAX_BYTES = 2**63 - 1
MAX_THREADS = 1024
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}

_BRIEF = Repr()
_BRIEF.maxstring = _BRIEF.maxother = 60


def first_repeated(values: Iterable[Name]) -> Name | None:
    """Return the first value that has occurred before, in linear time; None if all are distinct.

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


def n_jobs(value: Any) -> int | None:
    """Return a number of threads that is one, or None for all CPUs; below -1 it says how many less, as in joblib."""
    if value is None:
        return None
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value == 0 or abs(value) > MAX_THREADS:
        wanted = f"None, -1 (both: all CPUs), -2 (all but one) and so on, or an integer from 1 to {MAX_THREADS}"
        raise ValueError(f"n_jobs must be {wanted}, got {value!r}")
    if value < -1:
        return max(1, default_threads() + 1 + int(value))
    return None if value == -1 else int(value)


def real(name: str, value: Any, low: float, high: float, *, open_low: bool = False, open_high: bool = False) -> float:
    """Return `value` as a float between `low` and `high`; an end is excluded where it is open."""
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
    """Return whether something is on: True or False, or how loud in scikit-learn's numbers, of which 0 is off."""
    if not isinstance(value, bool | np.bool_ | int | np.integer) or value < 0:
        raise ValueError(f"{name} must be True, False or an integer of at least 0, got {value!r}")
    return bool(value)


def choice(name: str, value: Any, choices: Sequence[str], alternative: str = "") -> str:
    """Return `value` if it is among `choices`; the error lists them, and `alternative` beside them."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(c) for c in choices)
        raise ValueError(f"{name} must be one of {listed}{alternative}, got {value!r}")
    return value


def optional(check: Callable[..., Any], name: str, value: Any, *arguments: Any, **options: Any) -> Any:
    """Apply `check` unless `value` is None."""
    return None if value is None else check(name, value, *arguments, **options)


def instance(name: str, value: T) -> T:
    """Return `value` unless it is a class, of which an object is wanted."""
    if isinstance(value, type):
        raise ValueError(f"{name} must be an object, got the class {value.__name__}: pass {value.__name__}(...)")
    return value


def number_of_bytes(name: str, value: Any) -> int:
    """Return a number of bytes from an integer or from text.

    >>> number_of_bytes("memory_limit", "1.5GB")
    1500000000
    """
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?\s*", value.upper())
        if not match or match[2] not in _UNITS:
            raise ValueError(f"{name} must be a number of bytes such as 8000000000, '8GB' or '8GiB', got {value!r}")
        size = float(match[1]) * _UNITS[match[2]]
        if size > MAX_BYTES:  # which may be infinite, and no integer
            raise ValueError(f"{name} must be an integer from 1 to {MAX_BYTES}, got {value!r}")
        value = int(size)
    return integer(name, value, 1, MAX_BYTES)


# --- arrays --------------------------------------------------------------------------------------------------------


def check_features(estimator: BaseEstimator, X: Any, *, fitting: bool) -> Any:
    """Return X as a canonical CSR array or a dense array (n, d), finite in float32; n_features_in_ is set or held to.

    Duplicate entries of a sparse X are summed, as SciPy does. X itself is never changed.
    """
    if sparse.issparse(X):
        check_structure("X", X)
    else:
        _check_no_texts(estimator, X)
    checked = X
    if fitting or not _is_plain(estimator, X):
        try:
            checked = validate_data(
                estimator,
                X,
                reset=fitting,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,  # below, with the place and the value
                ensure_min_samples=1 if fitting else 0,
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
    _check_finite("X", checked, _columns_of(X))
    return checked


def _columns_of(X: Any) -> list[Any] | None:
    """Return what the columns of a data frame of pandas, Polars or Arrow are called."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    return None if names is None else list(names)


def _check_columns(X: Any, error: Exception) -> None:
    """Name the first value of a data frame that is no number, for which scikit-learn has refused the whole."""
    if str(error).startswith("The feature names"):  # other columns than those of training: that comes first
        return
    for place, name in enumerate(_columns_of(X) or ()):
        if hasattr(X, "iloc"):
            column = X.iloc[:, place]
        else:
            column = X.to_series(place) if hasattr(X, "to_series") else X.column(place)
        for row, value in enumerate(np.asarray(column, dtype=object).tolist()):
            if not is_missing(value) and not _is_real(value):
                advice = "encode it by numbers, for example with sklearn.preprocessing.OneHotEncoder, or drop it"
                raise ValueError(f"X holds {_BRIEF.repr(value)} in row {row}, column {name!r}: {advice}") from error


def _is_real(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _check_no_texts(estimator: BaseEstimator, X: Any) -> None:
    """Say of texts, and of a file's name, who takes them, before they are found to be no numbers."""
    name = type(estimator).__name__
    if isinstance(X, str | os.PathLike):
        raise ValueError(f"{name} takes a matrix, got {str(X)!r}: sparsenet.data.read(path) makes X and Y of a file")
    first = next(iter(X), None) if isinstance(X, list | tuple) or getattr(X, "ndim", 0) == 1 else None
    if isinstance(first, str):
        raise ValueError(f"{name} takes a matrix of numbers, and X holds texts: TextClassifier takes those")


def _is_plain(estimator: BaseEstimator, X: Any) -> bool:
    """Tell rows in which scikit-learn would find nothing to change or to say; its checks take longer than an answer."""
    return (
        isinstance(X, sparse.csr_array | sparse.csr_matrix)
        and X.dtype in (np.float64, np.float32)
        and X.shape[1] == estimator.n_features_in_
        and not hasattr(estimator, "feature_names_in_")
    )


def check_names(known: NDArray[Any], labels: NDArray[Any], indptr: NDArray[np.int64]) -> None:
    """Refuse a name of a label that no file can hold, before training and not when the model is saved."""
    for name in known.tolist() if known.dtype.kind in "OU" else ():
        if isinstance(name, str) and not is_unicode(name):
            found = np.flatnonzero(labels == name)
            row = f" in row {np.searchsorted(indptr, found[0], side='right') - 1}" if len(found) else ""
            raise ValueError(f"label {name!a}{row} has half of a surrogate pair, which no file can hold: replace it")


def is_unicode(text: str) -> bool:
    """Tell what UTF-8 can hold from strings with half of a surrogate pair, as escapes of JSON may give."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_missing(value: Any) -> bool:
    """Tell None, NaN, NaT and pandas' NA, which refuses to be compared, from a value."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True
    except ValueError:  # an array, which is none of them
        return False


def check_indicator(name: str, matrix: Any) -> Any:
    """Return a sparse indicator of labels as a canonical CSR array without stored zeros."""
    check_structure(name, matrix)
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold numbers, non-zero where a row has a label, got {matrix.dtype}")
    if matrix.dtype.kind in "iu":
        matrix = matrix.astype(np.float32)  # integers that are there twice might add up to zero
    matrix = canonical(matrix.tocsr())
    if matrix.shape[1] > MAX_WIDTH:
        raise ValueError(f"{name} has {matrix.shape[1]} columns, at most 2**31 - 1 labels are possible")
    _check_finite(name, matrix)
    if matrix.dtype.kind in "if" and matrix.data.min(initial=0) < 0:
        lowest = matrix.data.min()
        raise ValueError(f"{name} must be non-zero where a row has a label and zero elsewhere, not {lowest:g} for a no")
    return without_zeros(matrix)


def check_weights(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    """Return a weight for each of n points, if there are any."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, np.float64)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight must have one number for each of {n} rows of X, got {weights.shape}")
    if not (np.isfinite(weights).all() and weights.sum() > 0):
        raise ValueError(f"sample_weight must hold finite numbers that sum to more than 0, got {weights.sum():g}")
    return weights


def _check_finite(name: str, array: Any, columns: list[Any] | None = None) -> None:
    """Refuse NaN, infinity and what float32 cannot hold, and say where it stands; `columns` may have names."""
    in_rows = hasattr(array, "indptr")
    values = array.data if in_rows else array.reshape(-1)
    at = first_unusable(values)
    if at is None:
        return
    if in_rows:
        row, column = int(np.searchsorted(array.indptr, at, side="right")) - 1, int(array.indices[at])
    else:
        row, column = divmod(at, array.shape[1])
    place = column if columns is None else repr(columns[column])
    raise ValueError(f"{name} holds {unusable(values[at], f'in row {row}, column {place}')}")


def first_unusable(values: NDArray[Any]) -> int | None:
    """Return where the first of the values stands that is NaN, infinite or more than float32 can hold."""
    limit = np.finfo(np.float32).max
    with np.errstate(invalid="ignore"):
        # NaN fails both comparisons; two reductions need no array of booleans.
        if not len(values) or (values.max() <= limit and values.min() >= -limit):
            return None
        return int(np.flatnonzero(~(np.abs(values) <= limit))[0])


def unusable(value: Any, place: str) -> str:
    """Say what a value is that cannot be used, where it stands, and what to do."""
    value = float(value)
    if math.isnan(value):
        found, advice = "NaN", "fill in or drop missing values, for example with sklearn.impute.SimpleImputer"
    elif math.isinf(value):
        found, advice = f"infinity ({value})", "replace or drop it"
    else:
        found, advice = f"{value:g}, beyond the range of float32 (3.4e38, else inf)", "rescale this column"
    return f"{found} {place}: {advice}"
