"""Answers of a recommender as rows, in the library of the log."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.kernels.types import F32, I32

#: How each library makes a data frame of a dict of columns.
_MAKERS = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}
#: A dict of arrays, for logs from files, mappings and matrices.
ARRAYS = "arrays"
LIBRARIES = (*_MAKERS, ARRAYS)


def library_of(log: Any) -> str:
    """Return the library of a data frame, or "arrays" for anything else."""
    root = type(log).__module__.partition(".")[0]
    return root if root in _MAKERS else ARRAYS


def as_frame(columns: dict[str, NDArray[Any]], library: str) -> Any:
    """Return columns as a data frame of a library, or as a dict of arrays."""
    if library == ARRAYS:
        return columns
    try:
        make = getattr(importlib.import_module(library), _MAKERS[library])
    except ImportError as error:
        advice = f"pip install {library}, or set_params(output='arrays')"
        raise ImportError(f"the answers are data frames of {library}, which is not installed: {advice}") from error
    return make({name: _plain(values, library) for name, values in columns.items()})


def _plain(values: NDArray[Any], library: str) -> Any:
    """Return strings as a list: Polars and Arrow would keep an array of objects as such."""
    return values.tolist() if library != "pandas" and values.dtype.kind == "O" else values


def ranked_rows(
    owners: dict[str, NDArray[Any]], name: str, items: NDArray[Any], numbers: I32, scores: F32
) -> dict[str, NDArray[Any]]:
    """Return a row for each answer: its owner, the item, its score and its rank from 1; without padding.

    `owners` maps the name of a column to a value for each row of `numbers` and `scores`; `name` is the column of items.
    """
    rows, ranks = np.nonzero(numbers >= 0)
    found = {column: values[rows] for column, values in owners.items()}
    best = numbers[rows, ranks]
    return {**found, name: items[best], "score": scores[rows, ranks], "rank": ranks + 1}
