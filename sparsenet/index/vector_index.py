"""One interface of all indexes over label vectors, and the calibration of their effort by measured recall."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from sparsenet.kernels.types import F32, I32, I64


class Examples(NamedTuple):
    """Inputs (n, h) and their labels: input i has ``labels[indptr[i] : indptr[i + 1]]``."""

    inputs: F32
    indptr: I64
    labels: I32


class VectorIndex(Protocol):
    """An index that finds labels with large scores ``weight @ query + bias``.

    `effort` is the one knob: from 1 to `max_effort`, a higher one finds more of the best labels and takes longer.
    """

    @property
    def max_effort(self) -> int:
        """The highest effort."""

    @property
    def nbytes(self) -> int:
        """Size of the index in bytes."""

    def rebuild(self, weight: F32, bias: F32, examples: Examples | None = None) -> None:
        """Index the rows of `weight` (L, h) and `bias` (L,), supervised by `examples` if given."""

    def update(self, weight: F32, bias: F32, rows: I32 | I64) -> object:
        """Index changed `rows` again."""

    def topk(self, queries: F32, weight: F32, bias: F32, k: int, effort: int) -> tuple[I32, F32]:
        """Return the k best labels that are found for each query, and their exact scores, best first."""


class CalibratedEffort(NamedTuple):
    """The lowest effort that reaches a recall, or else the highest, and its recall."""

    effort: int
    recall: float


def calibrate(index: VectorIndex, queries: F32, weight: F32, bias: F32, exact: I32, recall: float) -> CalibratedEffort:
    """Find the lowest effort that finds the share `recall` of the `exact` best labels (n, k) of the queries."""
    k = exact.shape[1]
    return lowest_effort(
        lambda effort: index.topk(queries, weight, bias, k, effort)[0], index.max_effort, exact, recall
    )


def lowest_effort(find: Callable[[int], I32], max_effort: int, exact: I32, recall: float) -> CalibratedEffort:
    """Find the lowest effort at which ``find(effort)`` contains the share `recall` of `exact` (n, k).

    The effort doubles until it is enough; bisection then lowers it.
    """

    def measured(effort: int) -> float:
        return share_found(exact, find(effort))

    low, high = 0, 1
    while (share := measured(high)) < recall:
        if high == max_effort:
            return CalibratedEffort(high, share)
        low, high = high, min(2 * high, max_effort)
    while high - low > 1:
        middle = (low + high) // 2
        if (other := measured(middle)) >= recall:
            high, share = middle, other
        else:
            low = middle
    return CalibratedEffort(high, share)


def fewest_candidates(find: Callable[[int], I32], most: int, exact: I32, recall: float) -> int:
    """Find how many candidates must be scored exactly, in powers of two times k, at most `most`.

    Half of the share that may be missed is left to the cells: ``find(n_candidates)`` searches all of them.
    """
    n_candidates = int(exact.shape[1])
    while n_candidates < most and share_found(exact, find(n_candidates)) < (1 + recall) / 2:
        n_candidates *= 2
    return min(n_candidates, most)


def share_found(exact: I32, found: I32) -> float:
    """Return the share of the ids in `exact` (n, k) that `found` (n, c) contains.

    >>> share_found(np.array([[1, 2], [3, 4]]), np.array([[2, 9], [4, 3]]))
    0.75
    """
    hits = [np.isin(row, other).sum() for row, other in zip(exact, found, strict=True)]
    return float(np.sum(hits) / max(exact.size, 1))
