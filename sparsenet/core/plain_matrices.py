"""Turn anything that holds a matrix of numbers into an array; errors name an alternative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from sparsenet.core.parted_matrix import check_parts_are_matrices

_IDS = (
    "lists of ids become a sparse matrix with sklearn.preprocessing.MultiLabelBinarizer(sparse_output=True), lists of "
    "numbers need equal lengths"
)


def plain_matrix(X: Any) -> Any:
    """Return X in a form that scikit-learn's checks take, without a copy where possible.

    Arrays that offer only DLPack, and columns of vectors (pandas, Polars, Arrow), become NumPy arrays. float16 becomes
    float32, since no kernel computes with 16 bits. Data frames, lists of numbers and sparse matrices stay unchanged.
    """
    if sparse.issparse(X):
        return X
    if isinstance(X, list | tuple):
        _check_lists(X)
        return X
    if isinstance(X, np.ma.MaskedArray):
        _check_mask(X)
    if isinstance(X, Mapping):
        check_parts_are_matrices(X)
        raise ValueError(
            f"X is a mapping of {len(X)} columns: pass a matrix of numbers, or use TableClassifier, which takes "
            "columns of any type"
        )
    if not hasattr(X, "__array__"):
        X = _without_array(X)
    if isinstance(X, np.ndarray) and X.dtype == np.float16:
        return X.astype(np.float32)
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise ValueError(f"X holds {X.dtype}: pass numbers, or use TableClassifier, which takes dates")
    return _stacked(X)


def _without_array(X: Any) -> Any:
    """Convert objects that NumPy does not know as arrays."""
    if hasattr(X, "__dlpack__"):
        found = np.from_dlpack(X)
        return found.astype(np.float32) if found.dtype == np.float16 else found
    method = next((name for name in ("collect", "compute") if callable(getattr(X, name, None))), None)
    if method is not None:
        raise ValueError(f"X is a {type(X).__name__}, whose rows are not there yet: pass what its {method}() returns")
    return X


def _check_lists(X: Sequence[Any]) -> None:
    """Refuse dicts, and lists that are no rows of a matrix."""
    first = X[0] if len(X) else None
    if isinstance(first, Mapping):
        raise ValueError(
            "X holds dicts: TableClassifier takes those, and sklearn.feature_extraction.DictVectorizer makes a matrix "
            "of them"
        )
    if not isinstance(first, list | tuple | set | frozenset):
        return
    if isinstance(first, set | frozenset):
        raise ValueError(f"X holds sets: {_IDS}")
    for row, own in enumerate(X):
        if not hasattr(own, "__len__") or len(own) != len(first):
            length = len(own) if hasattr(own, "__len__") else "no"
            raise ValueError(f"X holds a list of length {len(first)} in row 0, and of {length} in row {row}: {_IDS}")
    if len(first) and isinstance(first[0], str) and not _is_number(first[0]):
        raise ValueError(f"X holds lists of strings, such as {first[0]!r} in row 0: {_IDS}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_mask(X: np.ma.MaskedArray[Any, Any]) -> None:
    """Refuse masked values: a plain array would expose what is under the mask."""
    if np.ma.is_masked(X):
        row, *column = np.argwhere(np.ma.getmaskarray(X))[0].tolist()
        place = f"row {row}" + (f", column {column[0]}" if column else "")
        raise ValueError(f"X is masked in {place}: fill missing values in, for example with X.filled(0)")


def _stacked(X: Any) -> Any:
    """Return the matrix of a column of vectors: an object array, or a column of pandas, Polars or Arrow."""
    is_frame = hasattr(X, "columns") or hasattr(X, "column_names")
    if is_frame or (isinstance(X, np.ndarray) and (X.ndim != 1 or X.dtype != object)):
        return X
    if len(getattr(X, "shape", (0,))) != 1:
        return X
    column = np.asarray(X)
    if column.ndim > 1:  # Polars stacks the vectors of an Array column itself
        return plain_matrix(column)
    if column.dtype != object or not len(column):
        return X
    vectors = column.tolist()
    if isinstance(vectors[0], np.ndarray):
        for row, own in enumerate(vectors):
            if np.ndim(own) == 0:
                raise ValueError(f"X holds no vector in row {row}: leave the row out")
            if np.shape(own) != vectors[0].shape:
                shapes = f"the shape {vectors[0].shape} in row 0, and of {np.shape(own)} in row {row}"
                raise ValueError(f"X holds a vector of {shapes}: all must have the same length")
        return plain_matrix(np.stack(vectors))
    if not isinstance(vectors[0], list | tuple):
        return X
    _check_lists(vectors)
    return plain_matrix(np.array(vectors))
