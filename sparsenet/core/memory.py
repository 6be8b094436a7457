"""Estimate memory, and raise a readable error before allocating too much."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.sparse import csr_array, csr_matrix

from sparsenet.core.machine import available_memory
from sparsenet.core.rows import Rows


def check_width(n_features: int, bytes_each: float) -> None:
    """Raise MemoryError if the arrays with an entry for each feature do not fit into memory."""
    needed, available = int(n_features * bytes_each), available_memory()
    if needed > available:
        raise MemoryError(
            f"training with {n_features:,} features needs {in_words(needed)} for arrays with an entry for each, but "
            f"only {in_words(available)} are available: number the features without gaps, or train on one thread, "
            "since each thread has its own arrays"
        )


def own_bytes(rows: Iterable[Rows], *inputs: Any) -> int:
    """Return the bytes of the arrays of `rows` that are not shared with the user's `inputs`, X and y."""
    sparse = [matrix for matrix in inputs if isinstance(matrix, csr_array | csr_matrix)]
    known = [array for matrix in sparse for array in (matrix.indptr, matrix.indices, matrix.data)]
    held = {id(array): array for part in rows for array in (part.indptr, part.indices, part.data)}
    return sum(array.nbytes for array in held.values() if not any(np.may_share_memory(array, x) for x in known))


def in_words(size: float) -> str:
    """Format a number of bytes for people.

    >>> in_words(1_234_567)
    '1.2 MB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


MAX_CELLS = 10**9


def check_cells(n_points: int, n_labels: int) -> None:
    """Reject a dense score matrix that is too large, and name the alternative."""
    cells = n_points * n_labels
    if cells > MAX_CELLS or 16 * cells > available_memory():
        raise ValueError(
            f"the scores of {n_labels} labels for {n_points} rows would fill {in_words(4 * cells)}: use "
            "predict_topk, which returns the best k of each row, or fewer rows at a time"
        )
