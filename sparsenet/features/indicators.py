"""Convert label indicators, with a column for each label, to sparse matrices, and check the names of the columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet.core.validation import check_indicator, check_names, first_repeated, is_missing


def is_bit(value: Any) -> bool:
    """Return whether a value is 0 or 1, True and False included."""
    return not isinstance(value, str) and value in (0, 1)


def indicator_of(y: Any) -> tuple[Any, np.dtype[Any]]:
    """Return an indicator, dense or sparse, as a CSR matrix, and the type of predicted indicators."""
    if hasattr(y, "tocsr"):
        return check_indicator("y", y), native(np.empty(0, y.dtype)).dtype
    dense = np.asarray(y)
    if dense.shape[1] == 0:
        raise ValueError("y has no columns: there must be at least one label")
    if dense.dtype.kind == "O":
        dense = _of_objects(dense)
    if dense.dtype.kind not in "biuf":
        raise ValueError(f"y with two dimensions must be an indicator of 0 and 1 for each label, got {dense.dtype}")
    wrong = ~((dense == 0) | (dense == 1))
    if wrong.any():
        _refuse(dense, *np.argwhere(wrong)[0])
    dense = native(dense.astype(np.float32) if dense.dtype == np.float16 else dense)  # SciPy has no float16
    return sparse.csr_array(dense), dense.dtype


def _of_objects(dense: NDArray[Any]) -> NDArray[Any]:
    """Convert an object array to bool or int64: pandas returns one for nullable and categorical columns."""
    for at, value in enumerate(dense.ravel().tolist()):
        row, column = divmod(at, dense.shape[1])
        if is_missing(value):
            raise ValueError(f"y holds {value!r} in row {row}, column {column}: use 0 or 1, or drop the row")
        if not is_bit(value):
            _refuse(dense, row, column)
    are_bool = all(isinstance(value, bool | np.bool_) for value in dense.ravel().tolist())
    return dense.astype(bool if are_bool else np.int64)


def _refuse(dense: NDArray[Any], row: int, column: int) -> None:
    raise ValueError(
        "Unknown label type: y with two dimensions must be an indicator of 0 and 1 for each label, got "
        f"{dense[row, column : column + 1].tolist()[0]!r} in row {row}, column {column}"
    )


def native(values: NDArray[Any]) -> NDArray[Any]:
    """Convert values to native byte order and at most 64 bits: other types cannot be saved."""
    if values.dtype == np.longdouble and np.longdouble != np.float64:
        return values.astype(np.float64)
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def column_names(y: Any) -> NDArray[Any] | None:
    """Return the column names of a data frame (pandas, Polars or Arrow) as strings, else None.

    Also None for columns numbered 0, 1, ..., which have no names, and for a single column, which contains labels.
    Duplicate names are an error, since a prediction could mean either column.
    """
    names = list(getattr(y, "column_names", getattr(y, "columns", ())))
    if len(names) < 2 or all(type(name) is int and name == place for place, name in enumerate(names)):
        return None
    found = [str(name) for name in names]
    twin = first_repeated(found)
    if twin is not None:
        raise ValueError(f"y has two columns {twin!r}: each is a label, so rename one, or drop it")
    labels = np.array(found, dtype=object)
    check_names(labels, labels[:0], np.zeros(1, np.int64))
    return labels


def check_columns(y: Any, known: NDArray[Any]) -> None:
    """Reject a data frame whose columns differ from the learnt labels, in name or order."""
    names = column_names(y)
    if names is None or known.dtype.kind != "O" or len(names) != len(known):  # the number is checked elsewhere
        return
    other = np.flatnonzero(names != known)
    if len(other):
        column, wanted = int(other[0]), known[other[0]]
        raise ValueError(
            f"y has the column {names[column]!r} at position {column}, where the classifier expects {wanted!r}: pass "
            "the columns that it was fitted with, in their order"
        )
