"""The data set that the readers of sparse points return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    r"""Points of a sparse file: a row of features and a row of labels for each.

    Attributes
    ----------
    X : csr_array of shape (n_points, n_features), float32
        The features; ids are int32 and ascend within a row.
    Y : csr_array of shape (n_points, n_labels), float32
        Entry (i, j) is 1 if point i has label j. A point without labels has an empty row.
    classes : ndarray of shape (n_labels,) or None
        The labels of the columns of `Y`, in ascending order, if an svmlight file has labels that are not column
        numbers, such as negative numbers or fractions. None: column j is label j.
    zero_based : bool
        True if the file counts features from 0. Pass the same value to read further files of the data set.

    Examples
    --------
    >>> from io import BytesIO
    >>> from sparsenet.data import read_xmc
    >>> data = read_xmc(BytesIO(b"2 4 3\n0,2 1:0.5 3:1\n 0:2\n"))
    >>> data.X.toarray()
    array([[0. , 0.5, 0. , 1. ],
           [2. , 0. , 0. , 0. ]], dtype=float32)
    >>> data.Y.toarray()
    array([[1., 0., 1.],
           [0., 0., 0.]], dtype=float32)
    """

    X: Any
    Y: Any
    classes: NDArray[Any] | None = None
    zero_based: bool = True

    @property
    def n_points(self) -> int:
        """Number of points."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features: the width of `X`."""
        return int(self.X.shape[1])

    @property
    def n_labels(self) -> int:
        """Number of labels: the width of `Y`."""
        return int(self.Y.shape[1])

    @property
    def y(self) -> NDArray[Any]:
        """The label of each point as in the file, shape (n_points,). Every point must have exactly one."""
        counts = np.diff(self.Y.indptr)
        if (counts != 1).any():
            point = int(np.argmax(counts != 1))
            raise ValueError(f"point {point} has {counts[point]} labels, not one; use Y")
        labels: NDArray[Any] = self.Y.indices
        return labels if self.classes is None else self.classes[labels]


def csr(indptr: NDArray[np.int64], indices: NDArray[np.int32], values: NDArray[np.float32], width: int) -> Any:
    """Make a CSR array from ids that ascend within each row."""
    # SciPy needs both index arrays of one type. If both are int32, it neither scans nor copies the larger one.
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    matrix = sparse.csr_array((values, indices, indptr), shape=(len(indptr) - 1, width))
    matrix.has_canonical_format = True
    return matrix


def label_matrix(indptr: NDArray[np.int64], labels: NDArray[np.int32], width: int) -> Any:
    """Make the matrix of labels, with a 1 for each label of a point."""
    return csr(indptr, labels, np.ones(len(labels), np.float32), width)


def empty_labels(n_points: int, width: int = 0) -> Any:
    """Make an empty matrix of labels."""
    return sparse.csr_array((n_points, width), dtype=np.float32)
