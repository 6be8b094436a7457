"""Check and normalise sparse matrices before SciPy or a kernel reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def name_of(X: Any) -> str:
    """Return how errors call X: with its file, if it is mapped into memory."""
    is_sparse = bool(sparse.issparse(X))  # a plain bool, so that mypy does not narrow X
    values = getattr(X, "data", None) if is_sparse else X  # some formats have no array of values
    file = getattr(values, "filename", None) if isinstance(values, np.memmap) else None
    return "X" if file is None else f"X in {file}"


def check_structure(name: str, matrix: Any) -> None:
    """Reject a sparse matrix whose ids or row pointers point outside its arrays."""
    if matrix.ndim != 2:
        raise ValueError(f"{name} must be two-dimensional, got {matrix.ndim} dimensions")
    if matrix.format == "coo":
        for axis, ids in zip(("row", "column"), matrix.coords, strict=True):
            _check_ids(name, axis, ids, matrix.shape[axis == "column"])
    elif matrix.format in ("csr", "csc", "bsr"):
        block = matrix.blocksize if matrix.format == "bsr" else (1, 1)
        major, minor = (1, 0) if matrix.format == "csc" else (0, 1)
        check_pointers(name, matrix, matrix.shape[major] // block[major])
        axis = "row" if matrix.format == "csc" else "column"
        _check_ids(name, axis, matrix.indices[: matrix.indptr[-1]], matrix.shape[minor] // block[minor])


def check_pointers(name: str, matrix: Any, n_major: int) -> None:
    """Reject row pointers that point outside the arrays of a matrix with `n_major` rows or columns."""
    pointers, nnz = matrix.indptr, min(len(matrix.indices), len(matrix.data))
    if len(pointers) != n_major + 1 or pointers[0] != 0 or pointers[-1] > nnz or np.any(pointers[1:] < pointers[:-1]):
        raise ValueError(
            f"{name}.indptr must hold {n_major + 1} numbers that rise from 0 to at most {nnz}, the number of entries "
            f"stored; got {len(pointers)} from {pointers[0] if len(pointers) else None} to "
            f"{pointers[-1] if len(pointers) else None}: build the matrix again"
        )


def _check_ids(name: str, axis: str, ids: NDArray[Any], width: int) -> None:
    if len(ids) and (ids.min() < 0 or ids.max() >= width):
        wrong = ids[(ids < 0) | (ids >= width)][0]
        raise ValueError(
            f"{name} holds the {axis} index {wrong}, but they go from 0 to {width - 1}: build the matrix again, "
            "with ids that start from 0 and a shape that holds them all"
        )


def canonical(matrix: Any) -> Any:
    """Sort the ids of each row and sum duplicates; copy the matrix only if that changes it.

    SciPy's own flag is not trusted: it is cached and stays set when the arrays are changed by hand.
    """
    used = slice(matrix.indptr[-1])  # SciPy allows spare capacity at the end
    csr = sparse.csr_array((matrix.data[used], matrix.indices[used], matrix.indptr), shape=matrix.shape)
    ascends = csr.indices[1:] > csr.indices[:-1]
    ends = csr.indptr[1:-1]
    ascends[ends[(ends > 0) & (ends < len(csr.indices))] - 1] = True  # ids may fall from one row to the next
    if not ascends.all():
        csr = csr.copy()
        csr.has_canonical_format = False
        csr.sum_duplicates()
    csr.has_canonical_format = True
    return csr


def without_zeros(csr: Any) -> Any:
    """Return a CSR array without explicit zeros, copied only if it has some."""
    if not np.all(csr.data):
        csr = csr.copy()
        csr.eliminate_zeros()
    return csr
