"""Points in one file and their labels in another, row by row: as PECOS takes them and newer XMC sets come.

Each file is a matrix: SciPy's ``.npz``, or lines ``column:value ...`` under a header ``rows columns``.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from typing import Any

import numpy as np
from scipy import sparse

from sparsenet.data.dataset import Dataset, no_labels, ones
from sparsenet.data.errors import DataError
from sparsenet.data.formats import is_npz
from sparsenet.data.options import OnHeader, Options
from sparsenet.data.sources import OnBytes, PathOrStream
from sparsenet.data.sparse import read_sparse

#: What loading raises for a file that is none, or is damaged.
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, ValueError)

_STDIN = "<stdin>"


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
    r"""Read points from one file and the labels of each from another.

    Each file is a sparse matrix as `scipy.sparse.save_npz` writes it, told by its name (``.npz``), or a text: a header
    ``rows columns``, and for each row a line ``column:value ...``, with columns that count from 0.

    Parameters
    ----------
    points, labels : path, '-' or binary stream
        The features of each point, and its labels: the columns in which its row is not zero.
    n_features, n_labels : int, optional
        Widths of `X` and `Y`, at least those of the files, which are the default.
    threads, on_bytes, on_header
        As for `read_xmc`.

    Returns
    -------
    Dataset
        `X` of shape (points, n_features) and `Y` of shape (points, n_labels).

    Raises
    ------
    DataError
        For whatever is wrong with a file, naming the line of a text, or if they have not as many rows.

    Examples
    --------
    >>> from io import BytesIO
    >>> read_pair(BytesIO(b"2 5\n1:0.5 4:1\n0:2\n"), BytesIO(b"2 3\n0:1 2:1\n1:1\n")).Y.toarray()
    array([[1., 0., 1.],
           [0., 1., 0.]], dtype=float32)
    """
    if _name(points) == _name(labels) == _STDIN:
        raise ValueError("points and labels are both standard input, which can be read once: name a file for one")
    X = read_matrix(points, n_features, threads=threads, on_bytes=on_bytes, on_header=on_header)
    Y = read_matrix(labels, n_labels, threads=threads)
    if X.shape[0] != Y.shape[0]:
        found = f"holds {Y.shape[0]} rows, and {_name(points)} {X.shape[0]}"
        raise DataError(_name(labels), None, f"{found}: row by row they must be those of the same points")
    Y.eliminate_zeros()
    return Dataset(X=X, Y=ones(Y.indptr, Y.indices, Y.shape[1]))


def read_points(path: PathOrStream, n_features: int | None = None) -> Dataset:
    """Read the features of points that have no labels."""
    X = read_matrix(path, n_features)
    return Dataset(X=X, Y=no_labels(X.shape[0]))


def read_matrix(
    path: PathOrStream,
    n_columns: int | None = None,
    *,
    threads: int | None = None,
    on_bytes: OnBytes | None = None,
    on_header: OnHeader | None = None,
) -> Any:
    """Read a matrix that has `n_columns` at most, and then as many."""
    if is_npz(path):
        return _read_npz(os.fspath(path), n_columns)  # type: ignore[arg-type]  # only a path has a name
    options = Options(format="xmc", n_features=n_columns, threads=threads, on_header=on_header)
    found = read_sparse(path, options, on_bytes)
    if found.n_labels > 0:
        problem = "announces labels, where a matrix of `rows columns` is expected: give a file with labels by itself"
        raise DataError(_name(path), 1, f"the header {problem}")
    return found.X


def _read_npz(path: str, n_columns: int | None) -> Any:
    try:
        with open(path, "rb") as file:  # or NumPy would leave open what is damaged
            found = sparse.load_npz(file)
        if found.ndim != 2:
            raise ValueError(f"it has {found.ndim} dimensions, not 2")
        if found.dtype.kind not in "bfiu":
            raise ValueError(f"its values are of type {found.dtype}, no real numbers")
        matrix: Any = sparse.csr_array(found)
        matrix.check_format(full_check=True)
    except _BROKEN as error:
        problem = f"is no sparse matrix as scipy.sparse.save_npz writes it: {error}"
        raise DataError(path, None, problem) from None
    matrix.sum_duplicates()
    with np.errstate(over="ignore"):  # infinity is what the check finds
        matrix = matrix.astype(np.float32)
    wrong = np.flatnonzero(~np.isfinite(matrix.data))
    if len(wrong):
        row = int(np.searchsorted(matrix.indptr, wrong[0], side="right"))
        problem = f"row {row} (counted from 1) holds NaN, infinity or a number beyond 32-bit floats"
        raise DataError(path, None, f"{problem}: fill missing values in and rescale large ones")
    if n_columns is not None and matrix.shape[1] > n_columns:
        raise DataError(path, None, f"has {matrix.shape[1]} columns, but at most {n_columns} are expected")
    if n_columns is not None:
        matrix.resize((matrix.shape[0], n_columns))
    return matrix


def _name(path: PathOrStream) -> str:
    if isinstance(path, str | os.PathLike):
        return _STDIN if os.fspath(path) == "-" else os.fspath(path)
    return str(getattr(path, "name", "<stream>"))
