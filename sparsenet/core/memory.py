"""How much memory a step needs, in words, and errors before it is taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix

from sparsenet.core.machine import available_memory
from sparsenet.core.rows import Rows


def check_width(n_features: int, bytes_each: float, *, limit: int | None = None, of_threads: bool = True) -> None:
    """Raise MemoryError where what training takes for each feature there is, present or not, does not fit.

    `limit` is what it may take; None: what the machine has to offer. `of_threads` says whether most of it is taken by
    each thread.
    """
    needed, available = int(n_features * bytes_each), available_memory() if limit is None else limit
    if needed > available:
        fewer_threads = ", or train on one thread, since most of it is for each" if of_threads else ""
        raise MemoryError(
            f"training on points of {n_features:,} features needs {in_words(needed)} for these alone, "
            f"{'there are' if limit is None else 'the limit is'} {in_words(available)}: number the features without "
            f"gaps{fewer_threads}"
        )


def arrays_of(*matrices: Any) -> list[NDArray[Any]]:
    """Return the arrays of arguments that are rows or CSR matrices; others are copied when they are converted."""
    sparse = [matrix for matrix in matrices if isinstance(matrix, Rows | csr_array | csr_matrix)]
    return [array for matrix in sparse for array in (matrix.indptr, matrix.indices, matrix.data)]


def own_bytes(rows: Iterable[Rows], shared: Sequence[NDArray[Any]] = ()) -> int:
    """Return the bytes that the arrays of `rows` take, without those that share memory with `shared`."""
    held = {id(array): array for part in rows for array in (part.indptr, part.indices, part.data)}
    return sum(array.nbytes for array in held.values() if not any(np.may_share_memory(array, x) for x in shared))


def in_words(size: float) -> str:
    """Write a number of bytes for people.

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
    """Refuse in words a matrix of all scores that is of no sensible size."""
    cells = n_points * n_labels
    if cells > MAX_CELLS or 16 * cells > available_memory():
        raise ValueError(
            f"the scores of {n_labels} labels for {n_points} rows would fill {in_words(4 * cells)}: use "
            "predict_topk, which returns the best k of each row, or fewer rows at a time"
        )
