"""Top-k selection: a heap of ids and scores with the worst entry at the root.

A higher score is better, and for equal scores the smaller id. This order has no ties, so the result does not depend on
the order of arrival.
"""

from __future__ import annotations

from sparsenet.kernels.numba.numba_common import jit
from sparsenet.kernels.types import F32, I32


@jit
def make_heap(ids: I32, scores: F32) -> None:
    """Turn two parallel arrays into a heap."""
    for start in range(ids.size // 2 - 1, -1, -1):
        _sink(ids, scores, start, ids.size)


@jit
def replace_worst(ids: I32, scores: F32, identity: int, score: float) -> None:
    """Replace the root by another entry."""
    ids[0], scores[0] = identity, score
    _sink(ids, scores, 0, ids.size)


@jit
def sort_heap(ids: I32, scores: F32) -> None:
    """Sort a heap in place, best first, by moving the worst remaining entry to the end each time."""
    for last in range(ids.size - 1, 0, -1):
        ids[0], ids[last] = ids[last], ids[0]
        scores[0], scores[last] = scores[last], scores[0]
        _sink(ids, scores, 0, last)


@jit
def _sink(ids: I32, scores: F32, start: int, size: int) -> None:
    at = start
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _worse(ids, scores, child + 1, child):
            child += 1
        if not _worse(ids, scores, child, at):
            return
        ids[at], ids[child] = ids[child], ids[at]
        scores[at], scores[child] = scores[child], scores[at]
        at = child


@jit
def _worse(ids: I32, scores: F32, i: int, j: int) -> bool:
    if scores[i] != scores[j]:
        return bool(scores[i] < scores[j])
    return bool(ids[i] > ids[j])
