"""Whether the columns of a dense table have units of their own, or share one and vary as much as they matter.

Amounts, ages and flags have nothing in common: standardised, they can be compared. Of principal components, embeddings
or pixels some vary more than others because they tell more, and standardised they are no more than the noise beside
them: that took up to 17 points of accuracy from a blend. The numbers alone do not say which it is. The labels do: near
points have the same ones more often where columns are scaled as they should be (bench/notes/scaling.md).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from sparsenet import kernels
from sparsenet.core.memory import check_width
from sparsenet.core.ranked import best_first, share_right
from sparsenet.core.rows import Rows
from sparsenet.features.kinds import FEWEST_ROWS, contents, tell_of_swamping, warn_of_vanished
from sparsenet.features.scaling import Scaling
from sparsenet.features.targets import check_lengths
from sparsenet.index.exact import exact_topk

#: So many points at most, and numbers of theirs, are looked at, and so many are answered by so many that are nearest.
MOST_POINTS, MOST_NUMBERS, ASKED, NEAREST = 1 << 15, 1 << 22, 1024, 10
#: As many labels of each point as it has are to be right, up to so many. Standardised columns are safe whatever their
#: units, so that more has to be right without, by so many standard errors.
RANKS, STANDARD_ERRORS = 5, 2.0
#: Bytes for each feature, present or not, of finding what X holds and of measuring amounts beside categories.
BYTES_OF_CONTENTS, BYTES_OF_MIXED = 33, 108
#: The square of the length that half of the points have at least where one number makes it one in the mean.
LEAST_TYPICAL = 0.25


def scaled(
    model: Any, X: Any, labels: Rows, choice: str, *, seed: int, threads: int, some_label: bool = False
) -> tuple[Scaling, Rows]:
    """Choose how to scale a checked X, (n, d) sparse or dense, where that is left open; return it scaled, too.

    `model` knows the names of the columns, if they have any.
    """
    check_lengths(X.shape[0], labels, some_label=some_label)
    if choice == "auto" and X.shape[0] >= FEWEST_ROWS:
        check_width(X.shape[1], BYTES_OF_CONTENTS, of_threads=False)
    elif choice == "mixed":
        check_width(X.shape[1], BYTES_OF_MIXED, of_threads=False)
    if choice != "auto":
        scaling = Scaling.learn(X, choice)
    elif (held := contents(X)) == "table":
        scaling = _better(X, labels, *Scaling.of_table(X), seed, threads)
    elif held == "mixed":
        check_width(X.shape[1], BYTES_OF_MIXED, of_threads=False)
        scaling = Scaling.of_mixed(X)
    else:
        if issparse(X):
            tell_of_swamping(X, getattr(model, "feature_names_in_", None))
        scaling = Scaling("rows")
    points = scaling.apply(X)
    warn_of_vanished(X, scaling, points, getattr(model, "feature_names_in_", None))
    return scaling, points


def _better(X: Any, labels: Rows, columns: Scaling, together: Scaling, seed: int, threads: int) -> Scaling:
    """Return `together` if some points' labels are found nearer to them by that, and not by chance, else `columns`."""
    n_looked_at = max(min(MOST_POINTS, MOST_NUMBERS // max(X.shape[1], 1)), 1)
    some = np.random.default_rng(seed).permutation(X.shape[0])[:n_looked_at]
    known, theirs = X[some], labels.take(some)
    by_one = together.apply(known)
    # Where few points, or few of their values, lie far out, one number for all would leave next to nothing of the rest:
    # whose neighbours stay the same, but nothing else can learn from them.
    if np.median(np.square(by_one.data.reshape(known.shape)).sum(axis=1)) < LEAST_TYPICAL:
        return columns
    gains = _right(by_one, theirs, threads) - _right(columns.apply(known), theirs, threads)
    return together if gains.sum() > STANDARD_ERRORS * math.sqrt(np.square(gains).sum()) else columns


def _right(points: Rows, labels: Rows, threads: int) -> NDArray[np.float64]:
    """Return which share of their labels the first of the points are given by the others that are nearest to them."""
    matrix = points.data.reshape(len(points), points.width)
    asked = np.arange(min(ASKED, len(matrix)))
    # Who is nearest has the largest product less half of his own square.
    near, _ = exact_topk(matrix[asked], matrix, np.square(matrix).sum(axis=1) / -2, NEAREST + 1, threads)
    votes = (near != asked[:, None]) / np.arange(1, near.shape[1] + 1, dtype=np.float32)  # nobody answers for himself
    starts = np.arange(len(near) + 1, dtype=np.int64) * near.shape[1]
    n_named = min(RANKS, labels.width)
    named, scores = np.empty((len(near), n_named), np.int32), np.empty((len(near), n_named), np.float32)
    voters = starts, near.reshape(-1), votes.reshape(-1)
    theirs = labels.indptr, labels.indices, np.ones_like(labels.data)
    no_bias, others = np.zeros(labels.width, np.float32), np.arange(n_named, dtype=np.int32)
    kernels.shortlist(*voters, *theirs, no_bias, others, named, scores, threads)
    return share_right(best_first(scores, n_named, named)[0], labels.take(asked))
