"""Read points from one file and their labels from another, as PECOS and newer XMC data sets store them.

Each file is a matrix with a row for each point: SciPy's ``.npz``, or lines ``column:value ...`` after a header ``rows
columns``.
"""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from sparsenet.data.archive import check_archive
from sparsenet.data.dataset import Dataset, csr, empty_labels, label_matrix
from sparsenet.data.errors import DataError
from sparsenet.data.explain import checked_width
from sparsenet.data.formats import is_npz
from sparsenet.data.reader_options import OnHeader, Options
from sparsenet.data.sources import OnBytes, PathOrStream, name_of, refuse_stdin_twice
from sparsenet.data.sparse import read_sparse

#: Errors that loading raises for a file that is damaged or of another kind.
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    AttributeError,
    EOFError,
    LookupError,
    NotImplementedError,
    RuntimeError,  # an encrypted member
    TypeError,
    ValueError,
)


def read_pair(
    points: PathOrStream,
    labels: PathOrStream,
    *,
    n_features: int | None = None,
    n_labels: int | None = None,
    threads: int | None = None,
    on_bytes: OnBytes | None = None,
    on_header: OnHeader | None = None,
) -> Dataset:
    r"""Read points from one file and their labels from another.

    Each file is a sparse matrix. A file whose name ends in ``.npz`` is read as `scipy.sparse.save_npz` writes it. Any
    other file is text: a header ``rows columns``, then for each row a line ``column:value ...``, with columns that
    count from 0.

    Parameters
    ----------
    points, labels : path, '-' or binary stream
        The matrix of features and the matrix of labels. A point has label j if column j of its row is not zero.
    n_features, n_labels : int, optional
        Widths of `X` and `Y`; by default the widths of the files, which must not be larger.
    threads, on_bytes, on_header
        As for `read_xmc`.

    Returns
    -------
    Dataset
        `X` of shape (points, n_features) and `Y` of shape (points, n_labels).

    Raises
    ------
    DataError
        If a file has an error, or if the files have different numbers of rows. For text the message names the line.

    Examples
    --------
    >>> from io import BytesIO
    >>> read_pair(BytesIO(b"2 5\n1:0.5 4:1\n0:2\n"), BytesIO(b"2 3\n0:1 2:1\n1:1\n")).Y.toarray()
    array([[1., 0., 1.],
           [0., 1., 0.]], dtype=float32)
    """
    refuse_stdin_twice({"points": points, "labels": labels})
    how: dict[str, Any] = {"format": "xmc", "threads": threads, "on_header": on_header}
    X = _read_matrix(points, Options(n_features=n_features, matrix_of="features", **how), on_bytes)
    Y = _read_matrix(labels, Options(n_features=n_labels, matrix_of="labels", **how))
    if X.shape[0] != Y.shape[0]:
        found = f"holds {Y.shape[0]} rows, and {name_of(points)} {X.shape[0]}"
        raise DataError(name_of(labels), None, f"{found}: both must have one row for each point")
    Y.eliminate_zeros()
    return Dataset(X=X, Y=label_matrix(Y.indptr, Y.indices, Y.shape[1]))


def read_points(path: PathOrStream, options: Options, on_bytes: OnBytes | None = None) -> Dataset:
    """Read a matrix of features into a data set without labels; `n_labels` is the width of its empty `Y`."""
    X = _read_matrix(path, replace(options, format="xmc", matrix_of="features"), on_bytes)
    return Dataset(X=X, Y=empty_labels(X.shape[0], options.n_labels or 0))


def _read_matrix(path: PathOrStream, options: Options, on_bytes: OnBytes | None = None) -> Any:
    """Read a matrix, and widen it to `n_features` columns. A wider matrix is an error."""
    if is_npz(path):
        return _read_npz(name_of(path), options)
    return read_sparse(path, replace(options, n_labels=None), on_bytes).X


def _read_npz(path: str, options: Options) -> Any:
    no_matrix = "is not a sparse matrix as scipy.sparse.save_npz writes it"
    try:
        with open(path, "rb") as file:  # given a path, NumPy would leave a damaged file open
            check_archive(file)
            found = sparse.load_npz(file)
    except _BROKEN as error:
        raise DataError(path, None, f"{no_matrix}, or it is damaged: {error}") from None
    try:
        if found.ndim != 2:
            raise ValueError(f"it has {found.ndim} dimensions, not 2")
        if found.dtype.kind not in "bfiu":
            raise ValueError(f"its values are of type {found.dtype}, not real numbers")
        if hasattr(found, "check_format"):
            found.check_format(full_check=True)  # ids out of range would make SciPy write outside its arrays
        with np.errstate(over="ignore"):  # the check below finds infinity
            matrix: Any = sparse.csr_array(found.astype(np.float32))
    except _BROKEN as error:
        raise DataError(path, None, f"{no_matrix}: {error}") from None
    options.report_header(path, matrix.shape[1])
    width = checked_width(path, None, "has", options.columns, matrix.shape[1], options.n_features)
    matrix.sum_duplicates()
    wrong = np.flatnonzero(~np.isfinite(matrix.data))
    if len(wrong):
        row = int(np.searchsorted(matrix.indptr, wrong[0], side="right"))
        problem = f"row {row} (counted from 1) holds NaN, infinity or a number beyond 32-bit floats"
        raise DataError(path, None, f"{problem}: fill missing values in and rescale large ones")
    ids = matrix.indices.astype(np.int32, copy=False)
    return csr(matrix.indptr.astype(np.int64, copy=False), ids, matrix.data, width)
