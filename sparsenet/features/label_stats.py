"""Label statistics of the training set, and predictions from them for points without known features.

For a point with no features, or only features unseen in training, a model has nothing but its biases, which rank rare
labels first. Label frequencies are the better prediction: over all points, and over training points without features.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.rows import POINTS_AT_A_TIME, Rows, RowSource, by_row
from sparsenet.features.scaling import Scaling, is_sparse
from sparsenet.kernels.types import F32, F64, I32, I64

_NO_POINTS = np.empty(0, np.int64)


def log_counts(counts: NDArray[Any]) -> F64:
    """Return `log(max(count, 1))` of label counts."""
    return np.asarray(np.log(np.maximum(counts, 1)))


@dataclass(frozen=True, eq=False)
class LabelStats:
    """Label and feature statistics of the training points.

    Attributes
    ----------
    label_counts : ndarray of shape (n_labels,), int64
        Number of points with each label.
    n_points : int
        Number of points.
    features : ndarray of shape (ceil(n_features / 8),), uint8, optional
        Bit mask of the features seen; None for tables, where a zero is a value like any other.
    blank_counts : ndarray of shape (n_labels,), int64
        Number of blank points, those without features, with each label.
    n_blank : int
        Number of blank points.
    """

    label_counts: I64
    n_points: int
    features: NDArray[np.uint8] | None
    blank_counts: I64
    n_blank: int

    @classmethod
    def empty(cls, X: Any, scaling: Scaling, n_labels: int) -> LabelStats:
        """Create empty statistics for training on X, (n, d) sparse or dense."""
        is_table = scaling.is_of_table or (scaling.kind == "none" and not is_sparse(X))
        zeros = np.zeros(n_labels, np.int64)
        return cls(zeros, 0, None if is_table else np.zeros(-(-X.shape[1] // 8), np.uint8), zeros, 0)

    @classmethod
    def of_rows(cls, n_features: int, n_labels: int) -> LabelStats:
        """Create empty statistics for sparse, unscaled rows."""
        zeros = np.zeros(n_labels, np.int64)
        return cls(zeros, 0, np.zeros(-(-n_features // 8), np.uint8), zeros, 0)

    def with_points(self, points: RowSource, labels: Rows) -> LabelStats:
        """Return statistics that also count further points."""
        counted = replace(self, label_counts=self.label_counts + _counts(labels), n_points=self.n_points + len(points))
        if self.features is None:
            return counted
        is_known = np.zeros(8 * len(self.features), bool)
        parts, done = [_NO_POINTS], 0
        for block in points.blocks(POINTS_AT_A_TIME):
            is_known[block.indices[block.data != 0]] = True
            parts.append(done + np.flatnonzero(~by_row(np.logical_or, block.data != 0, block.indptr)))
            done += len(block)
        blank = np.concatenate(parts)
        return replace(
            counted,
            features=self.features | np.packbits(is_known, bitorder="little"),
            blank_counts=self.blank_counts + _counts(labels.take(blank)),
            n_blank=self.n_blank + len(blank),
        )

    def blank(self, points: Rows) -> I64:
        """Return the positions of blank points, which have no feature seen in training."""
        if self.features is None:
            return _NO_POINTS
        # The first feature is nearly always known, so check the others only where it is not. A single point is
        # checked without arrays, which would take a fifth of its prediction time.
        if len(points) == 1 and len(points.indices):
            first_id = int(points.indices[0])
            if int(self.features[first_id >> 3]) >> (first_id & 7) & 1 and points.data[0] != 0:
                return _NO_POINTS
        at = np.flatnonzero(np.diff(points.indptr))
        first = points.indptr[at]
        may_be_blank = np.ones(len(points), bool)
        may_be_blank[at[self._are_known(points.indices[first], points.data[first])]] = False
        candidates = np.flatnonzero(may_be_blank)
        if not len(candidates):
            return _NO_POINTS
        rest = points.take(candidates)
        return np.asarray(candidates[~by_row(np.logical_or, self._are_known(rest.indices, rest.data), rest.indptr)])

    def _are_known(self, ids: I32, values: F32) -> NDArray[np.bool_]:
        """Return the mask of non-zero entries whose feature was seen in training."""
        assert self.features is not None
        bits = self.features[ids >> 3] >> (ids & 7).astype(np.uint8)
        return np.asarray((bits & 1).astype(bool) & (values != 0))

    def answer_blank(self, points: Rows, labels: I32, p: F32 | None = None, among: I32 | None = None) -> None:
        """Overwrite the predicted labels and probabilities, (n, k), of blank points with the most frequent labels.

        The labels are `among` the given ones, by default all.
        """
        at = self.blank(points)
        if len(at):
            best, shares = self._most_frequent
            best = (best if among is None else best[np.isin(best, among)])[: labels.shape[1]]
            labels[at] = best
            if p is not None:
                p[at] = shares[best]

    def shares(self) -> F32:
        """Return the probability of each label for a point without features, (n_labels,)."""
        return self._most_frequent[1]

    @cached_property
    def _most_frequent(self) -> tuple[I32, F32]:
        """All labels by descending probability for a blank point, and the probability of each label."""
        shares = smoothed_frequencies(self.label_counts, self.n_points, self.blank_counts, self.n_blank).astype(
            np.float32
        )
        return np.argsort(-shares, kind="stable").astype(np.int32), shares


def smoothed_frequencies(
    counts: I64, n_points: int, blank_counts: I64, n_blank: int, *, prior_points: int = 10
) -> NDArray[np.float64]:
    """Estimate the label probabilities of a point without features.

    The frequencies among blank training points are shrunk towards the overall ones, which count as `prior_points`
    points.
    """
    return np.asarray((blank_counts + prior_points * counts / max(n_points, 1)) / (n_blank + prior_points))


def _counts(labels: Rows) -> I64:
    return np.bincount(labels.indices, minlength=labels.width).astype(np.int64)
