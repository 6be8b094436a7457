"""Posting lists of sparse points: the points of each feature, made in parts, so that points on disk stay there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sparsenet.core.machine import release_memory
from sparsenet.core.memory import release_pages
from sparsenet.core.rows import POINTS_AT_A_TIME, Rows, RowSource, by_row, parts_of, pointers_of, transpose
from sparsenet.core.spilling import Spill
from sparsenet.kernels.types import F32, F64, I32, I64

#: Entries of a part of points, and the bytes that each takes while it is transposed.
ENTRIES_AT_A_TIME, BYTES_AN_ENTRY = 1 << 22, 25


def by_feature(points: RowSource, spill: Spill) -> Rows:
    """Transpose points. If `spill` allocates files, transpose parts, and join them feature by feature."""
    if isinstance(points, Rows) and spill.max_bytes:
        return transpose(points)
    runs = parts_of(pointers_of(points.sizes), ENTRIES_AT_A_TIME)
    ids, values, starts = (spill.growing(kind) for kind in (np.int32, np.float32, np.int32))
    sizes, n_entries = np.zeros(points.width, np.int64), [0]
    for begin, end in runs:
        run = transpose(points.slice(begin, end))
        for array in points.arrays():
            release_pages(array)
        ids.append(run.indices + np.int32(begin))
        values.append(run.data)
        starts.append(run.indptr)
        sizes += run.sizes
        n_entries.append(n_entries[-1] + run.n_entries)
        del run  # before the next one is made
        release_memory()
    pointers = starts.joined().reshape(len(runs), -1)
    return _joined(ids.joined(), values.joined(), pointers, n_entries, pointers_of(sizes), spill, len(points))


def _joined(ids: I32, values: F32, starts: I32, n_entries: list[int], indptr: I64, spill: Spill, width: int) -> Rows:
    """Join runs by feature.

    Run i begins at entry ``n_entries[i]``, and its feature j at entry ``n_entries[i] + starts[i, j]``.
    """
    all_ids, all_values = spill.growing(np.int32), spill.growing(np.float32)
    for first, last in parts_of(indptr, ENTRIES_AT_A_TIME):
        free = indptr[first:last] - indptr[first]
        n = int(indptr[last] - indptr[first])
        own_ids, own_values = np.empty(n, np.int32), np.empty(n, np.float32)
        for begin, run in zip(n_entries, starts, strict=False):
            own = run[first : last + 1].astype(np.int64)
            sizes = np.diff(own)
            at = np.repeat((free - own[:-1]).astype(np.int32), sizes)
            at += np.arange(own[0], own[-1], dtype=np.int32)
            part = slice(begin + own[0], begin + own[-1])
            own_ids[at], own_values[at] = ids[part], values[part]
            free += sizes
        all_ids.append(own_ids)
        all_values.append(own_values)
        del own_ids, own_values
        for array in (ids, values, starts):
            release_pages(array)
        release_memory()
    return Rows(indptr, all_ids.joined(), all_values.joined(), width)


def posting_lists(points: RowSource, turned: Rows, weights: F32, max_points: int, spill: Spill) -> Rows:
    """Weigh the features, scale points to unit length, and cut each list to its `max_points` largest values.

    `turned` are the points by feature.
    """
    largest = max((np.abs(part.data).max(initial=0) for part in parts(turned)), default=np.float32(0))
    largest = max(largest, np.finfo(np.float32).tiny)  # so that no product overflows
    lengths = (_point_lengths(points, weights) / largest).astype(np.float32)
    is_cut = turned.sizes.max(initial=0) > max_points
    ids, values, done = spill.growing(np.int32), spill.growing(np.float32), 0
    for part in parts(turned):
        data = part.data / largest
        data *= np.repeat(weights[done : done + len(part)], part.sizes)
        data /= lengths[part.indices]
        done += len(part)
        own = Rows(part.indptr, part.indices, data, part.width).strongest(max_points, np.abs(data))
        values.append(own.data)
        if is_cut:
            ids.append(own.indices)
        del data, own  # before the next ones are made
    indptr = pointers_of(np.minimum(turned.sizes, max_points)) if is_cut else turned.indptr
    return Rows(indptr, ids.joined() if is_cut else turned.indices, values.joined(), turned.width)


def peak_memory(points: RowSource, max_points: int, spill: Spill) -> int:
    """Return the bytes that transposing, weighing and searching take at most."""
    if spill.max_bytes:
        return 16 * points.n_entries  # transposed, and weighed
    making = BYTES_AN_ENTRY * min(points.n_entries, ENTRIES_AT_A_TIME)
    of_query = int(points.sizes.max(initial=0)) * max_points  # the last one of a part is read whole
    return max(making, 8 * min(points.n_entries, ENTRIES_AT_A_TIME + of_query)) + 28 * len(points)


def parts(lists: Rows) -> Iterator[Rows]:
    """Yield parts of posting lists; then return freed memory to the system, and their pages if they are in files."""
    for begin, end in parts_of(lists.indptr, ENTRIES_AT_A_TIME // 2):  # pages of the file count as memory, too
        yield lists.slice(begin, end)
        for array in (lists.indices, lists.data):
            release_pages(array)
        release_memory()


def _point_lengths(points: RowSource, weights: F32) -> F64:
    """Return the length of each weighted point; 1 for an empty point."""
    lengths, done = np.empty(len(points)), 0
    for part in points.blocks(POINTS_AT_A_TIME):
        squares = (part.data.astype(np.float64) * weights[part.indices]) ** 2
        lengths[done : done + len(part)] = np.sqrt(by_row(np.add, squares, part.indptr))
        done += len(part)
    return np.where(lengths > 0, lengths, 1.0)
