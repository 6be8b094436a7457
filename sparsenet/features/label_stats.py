"""What training has seen, and what is answered where nothing of that is in a point.

A model has learnt what speaks for a label from points that have features. Of one without any, or with none but such as
training never met, it keeps no more than its biases, by which labels of few points come first. What is known of such
a point is how often labels are right: of all points, and of points like it if training had some.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from sparsenet.core.rows import Rows, by_row
from sparsenet.features.scaling import Scaling
from sparsenet.kernels.types import F32, I32, I64

#: What all points say of one without features counts as much as so many of its kind.
FIRMNESS = 10
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class LabelStats:
    """What the points of training had.

    Attributes
    ----------
    label_counts : ndarray of shape (n_labels,), int64
        How many points each label had.
    n_points : int
    features : ndarray of shape (ceil(n_features / 8),), uint8, optional
        A bit for each feature that some point had; None for tables, where zero says as much as other numbers.
    blank_counts : ndarray of shape (n_labels,), int64
        How many points without features each label had.
    n_blank : int
        How many of these there were.
    """

    label_counts: I64
    n_points: int
    features: NDArray[np.uint8] | None
    blank_counts: I64
    n_blank: int

    @classmethod
    def nothing(cls, X: Any, scaling: Scaling, n_labels: int) -> LabelStats:
        """Return what there is before training on X, (n, d) sparse or dense."""
        is_table = scaling.is_of_table or (scaling.kind == "none" and not issparse(X))
        none = np.zeros(n_labels, np.int64)
        return cls(none, 0, None if is_table else np.zeros(-(-X.shape[1] // 8), np.uint8), none, 0)

    @classmethod
    def of_rows(cls, n_features: int, n_labels: int) -> LabelStats:
        """Return the empty statistics of sparse, unscaled rows."""
        none = np.zeros(n_labels, np.int64)
        return cls(none, 0, np.zeros(-(-n_features // 8), np.uint8), none, 0)

    def counting(self, points: Rows, labels: Rows) -> LabelStats:
        """Count further points in."""
        counted = replace(self, label_counts=self.label_counts + _counts(labels), n_points=self.n_points + len(points))
        if self.features is None:
            return counted
        is_known = np.zeros(8 * len(self.features), bool)
        is_known[points.indices[points.data != 0]] = True
        blank = np.flatnonzero(~by_row(np.logical_or, points.data != 0, points.indptr))
        return replace(
            counted,
            features=self.features | np.packbits(is_known, bitorder="little"),
            blank_counts=self.blank_counts + _counts(labels.take(blank)),
            n_blank=self.n_blank + len(blank),
        )

    def blank(self, points: Rows) -> I64:
        """Return which points have nothing that training has seen."""
        if self.features is None:
            return _NONE
        # Of nearly all points the first feature is known: others are looked at for few, and for one by itself without
        # arrays, which take a fifth of the time of its answer.
        if len(points) == 1 and len(points.indices):
            first_id = int(points.indices[0])
            if int(self.features[first_id >> 3]) >> (first_id & 7) & 1 and points.data[0] != 0:
                return _NONE
        at = np.flatnonzero(np.diff(points.indptr))
        first = points.indptr[at]
        may_be_blank = np.ones(len(points), bool)
        may_be_blank[at[self._has_known(points.indices[first], points.data[first])]] = False
        asked = np.flatnonzero(may_be_blank)
        if not len(asked):
            return _NONE
        rest = points.take(asked)
        return np.asarray(asked[~by_row(np.logical_or, self._has_known(rest.indices, rest.data), rest.indptr)])

    def _has_known(self, ids: I32, values: F32) -> NDArray[np.bool_]:
        """Tell which entries of points are of features that training has seen."""
        assert self.features is not None
        bits = self.features[ids >> 3] >> (ids & 7).astype(np.uint8)
        return np.asarray((bits & 1).astype(bool) & (values != 0))

    def answer_blank(self, points: Rows, labels: I32, p: F32 | None = None) -> None:
        """Set the best labels of those points, and their probabilities, each (n, k), to those right most often."""
        at = self.blank(points)
        if len(at):
            best, shares = self._usual
            best = best[: labels.shape[1]]
            labels[at] = best
            if p is not None:
                p[at] = shares[best]

    def shares(self) -> F32:
        """Return how often each label is right of points without features, (n_labels,)."""
        return self._usual[1]

    @cached_property
    def _usual(self) -> tuple[I32, F32]:
        """Return all labels, those that are right most often first, and how often each of `label_counts` is."""
        shares = usual_shares(self.label_counts, self.n_points, self.blank_counts, self.n_blank).astype(np.float32)
        return np.argsort(-shares, kind="stable").astype(np.int32), shares


def usual_shares(counts: I64, n_points: int, blank_counts: I64, n_blank: int) -> NDArray[np.float64]:
    """Return how often each label is right of points without features, of which so many were seen."""
    return np.asarray((blank_counts + FIRMNESS * counts / max(n_points, 1)) / (n_blank + FIRMNESS))


def _counts(labels: Rows) -> I64:
    return np.bincount(labels.indices, minlength=labels.width).astype(np.int64)
