"""Read and check the label names of an indicator that is a data frame."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import check_names, first_repeated


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
