"""Choose between standardised columns and one common unit for a dense table.

Amounts, ages and flags have different units and must be standardised. Principal components, embeddings and pixels
share a unit, and a larger variance means more information. Standardising drowns it in noise, which cost a blend up to
17 points of accuracy. The values alone do not show the difference, but the labels do: under the right scaling near
points share labels more often (bench/notes/scaling.md).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.memory import check_width
from sparsenet.core.parted_matrix import PartedMatrix
from sparsenet.core.ranked import best_first, share_right
from sparsenet.core.rows import Rows, RowSource
from sparsenet.data.point_file import StoredPoints
from sparsenet.features.kinds import MIN_ROWS, detect_kind, warn_of_dominant_column, warn_of_vanished_columns
from sparsenet.features.part_scaling import PARTS, PartScaling, ScaledPart
from sparsenet.features.scaled_file import scaled_file
from sparsenet.features.scaling import Scaling, is_sparse
from sparsenet.features.targets import check_lengths
from sparsenet.index.exact import exact_topk
from sparsenet.selection.choose import Decision, Option, Rule, choose

#: Evidence for one common unit.
BEYOND_CHANCE = Rule("precision of nearest neighbors", standard_errors=2.0)
#: Bytes for each column of X that detecting its kind takes, and that fitting the ``"mixed"`` scaling takes.
BYTES_TO_DETECT_KIND, BYTES_TO_FIT_MIXED = 33, 116


def scaled(
    X: Any,
    labels: Rows,
    choice: str,
    *,
    seed: int,
    threads: int,
    some_label: bool = False,
    names: NDArray[Any] | None = None,
) -> tuple[Scaling, RowSource]:
    """Scale a validated X, (n, d) sparse or dense, by `choice`, and return the scaling and the scaled rows.

    The points of a file are scaled into another file.

    ``"auto"`` chooses the scaling by the kind of X, and for a table by its labels. Warnings use the column `names`.
    The parts of a parted matrix are scaled one by one.
    """
    check_lengths(X.shape[0], labels, some_label=some_label)
    if isinstance(X, PartedMatrix):
        each = {name: scaled(part, labels, choice, seed=seed, threads=threads) for name, part in X.parts.items()}
        parts = tuple(ScaledPart(name, X.widths[name], own) for name, (own, _) in each.items())
        stacked = PartScaling(PARTS, parts=parts)
        return stacked, stacked.beside([rows for _, rows in each.values() if isinstance(rows, Rows)])
    if choice == "auto" and X.shape[0] >= MIN_ROWS:
        check_width(X.shape[1], BYTES_TO_DETECT_KIND, of_threads=False)
    elif choice == "mixed":
        check_width(X.shape[1], BYTES_TO_FIT_MIXED, of_threads=False)
    if choice != "auto":
        scaling = Scaling.learn(X, choice)
    elif (kind := detect_kind(X)) == "table":
        scaling = _choose_table_scaling(X, labels, *Scaling.of_table(X), seed, threads)
    elif kind == "mixed":
        check_width(X.shape[1], BYTES_TO_FIT_MIXED, of_threads=False)
        scaling = Scaling.of_mixed(X)
    else:
        if is_sparse(X):
            warn_of_dominant_column(X, names)
        scaling = Scaling("rows")
    points: RowSource = scaled_file(X, scaling) if isinstance(X, StoredPoints) else scaling.apply(X)
    warn_of_vanished_columns(X, scaling, points, names)
    return scaling, points


def _choose_table_scaling(
    X: Any,
    labels: Rows,
    columns: Scaling,
    together: Scaling,
    seed: int,
    threads: int,
    *,
    max_points: int = 1 << 15,
    max_numbers: int = 1 << 22,
    min_median: float = 0.25,
    rule: Rule = BEYOND_CHANCE,
) -> Scaling:
    """Return `together` if nearest neighbors then share more labels beyond chance, else `columns`.

    Standardised columns are the safe default, since they are right for any units. The comparison samples at most
    `max_points` rows and `max_numbers` values.
    """
    n_sampled = max(min(max_points, max_numbers // max(X.shape[1], 1)), 1)
    sample = np.random.default_rng(seed).permutation(X.shape[0])[:n_sampled]
    sampled, sampled_labels = X[sample], labels.take(sample)
    points = {scaling.kind: scaling.apply(sampled) for scaling in (together, columns)}
    # Under one factor for all, a few outliers can shrink all other points to almost nothing. Neighbors do not change
    # by that, but no model can learn from such points. The mean squared length is 1, so check the median.
    if np.median(np.square(points["together"].data.reshape(sampled.shape)).sum(axis=1)) < min_median:
        why = "with one factor for all columns, outliers would shrink most rows to almost nothing"
        return replace(columns, decision=Decision("columns", why))
    options = [Option(scaling.kind, scaling.kind) for scaling in (columns, together)]
    decision = choose(options, lambda kind: _neighbor_precision(points[kind], sampled_labels, threads), rule)
    return replace(together if decision.value == "together" else columns, decision=decision)


def _neighbor_precision(
    points: Rows, labels: Rows, threads: int, *, n_queries: int = 1024, n_neighbors: int = 10, max_rank: int = 5
) -> NDArray[np.float64]:
    """Return the leave-one-out precision of a nearest-neighbor vote for the first `n_queries` points.

    A point's precision is taken at the number of labels that it has, up to `max_rank`.
    """
    matrix = points.data.reshape(len(points), points.width)
    queries = np.arange(min(n_queries, len(matrix)))
    # The nearest point maximises its inner product with the query minus half its own squared length.
    near, _ = exact_topk(matrix[queries], matrix, np.square(matrix).sum(axis=1) / -2, n_neighbors + 1, threads)
    votes = (near != queries[:, None]) / np.arange(1, near.shape[1] + 1, dtype=np.float32)  # exclude the point itself
    starts = np.arange(len(near) + 1, dtype=np.int64) * near.shape[1]
    k = min(max_rank, labels.width)
    ranked, scores = np.empty((len(near), k), np.int32), np.empty((len(near), k), np.float32)
    neighbors = starts, near.reshape(-1), votes.reshape(-1)
    index = labels.indptr, labels.indices, np.ones_like(labels.data)
    no_bias, fallback = np.zeros(labels.width, np.float32), np.arange(k, dtype=np.int32)
    kernels.shortlist(*neighbors, *index, no_bias, fallback, ranked, scores, threads)
    return share_right(best_first(scores, k, ranked)[0], labels.take(queries))
