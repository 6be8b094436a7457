"""Estimate memory, and raise a readable error before allocating too much."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix

from sparsenet.core.machine import available_memory
from sparsenet.core.rows import Rows, RowSource


def check_width(n_features: int, bytes_each: float, *, limit: int | None = None, of_threads: bool = True) -> None:
    """Raise MemoryError if the arrays with an entry for each feature do not fit into memory.

    `limit` is the memory that they may take; None: all that is available. With `of_threads`, most of the arrays are
    one per thread, and the error advises fewer threads.
    """
    needed, available = int(n_features * bytes_each), available_memory() if limit is None else limit
    if needed > available:
        bound = f"only {in_words(available)} are available:"
        if limit is not None:
            bound = f"the limit is {in_words(limit)}: raise memory_limit, or"
        advice = ", or train on one thread, since each thread has its own arrays" if of_threads else ""
        raise MemoryError(
            f"training with {n_features:,} features needs {in_words(needed)} for arrays with an entry for each, but "
            f"{bound} number the features without gaps{advice}"
        )


def arrays_of(*matrices: Any) -> list[NDArray[Any]]:
    """Collect the arrays of all `Rows` and CSR matrices; other arguments are copied when they are converted."""
    sparse = [matrix for matrix in matrices if isinstance(matrix, Rows | csr_array | csr_matrix)]
    return [array for matrix in sparse for array in (matrix.indptr, matrix.indices, matrix.data)]


def held_arrays(rows: Sequence[RowSource]) -> list[NDArray[Any]]:
    """Collect the arrays in memory of rows, which may be on disk."""
    return [array for part in rows for array in part.arrays()]


def own_bytes(rows: Sequence[RowSource], shared: Sequence[NDArray[Any]] = ()) -> int:
    """Return the bytes of the arrays of `rows` that share no memory with those in `shared`, and of their buffers."""
    own = bytes_in_memory(
        array for array in held_arrays(rows) if not any(np.may_share_memory(array, x) for x in shared)
    )
    return own + max((part.buffer_bytes for part in rows), default=0)


def bytes_in_memory(arrays: Iterable[NDArray[Any]]) -> int:
    """Return the bytes of distinct arrays, without those in files, which the system can write out."""
    distinct = {id(array): array for array in arrays}
    return sum(array.nbytes for array in distinct.values() if mapping_of(array) is None)


def mapping_of(array: Any) -> mmap.mmap | None:
    """Return the mapped file that holds an array; None if it is in memory."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
    return array


def release_pages(array: Any) -> None:
    """Give pages of a read-only mapping back to the system, so that a mapped matrix does not fill memory."""
    mapping = mapping_of(array)
    if mapping is None or not hasattr(mmap, "MADV_DONTNEED"):
        return
    with memoryview(mapping) as view:
        is_read_only = view.readonly
    if is_read_only:
        mapping.madvise(mmap.MADV_DONTNEED)


def announce(needed: Mapping[str, int], limit: int, *, is_given: bool, shown: bool, even: str = "") -> str | None:
    """Print the bytes that training needs, by purpose, if `shown`; return the problem if they exceed the limit.

    `is_given`: a user has set the limit. `even`: words for the problem, the sizes that were already reduced.
    """
    total = sum(needed.values())
    parts = ", ".join(f"{purpose} {in_words(size)}" for purpose, size in needed.items())
    if shown:
        print(f"sparsenet: {in_words(total)} needed ({parts}), {in_words(limit)} available", file=sys.stderr)
    if total <= limit:
        return None
    bound = "the limit is" if is_given else "there are"
    return f"training needs {in_words(total)} ({parts}){even}, {bound} {in_words(limit)}"


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
