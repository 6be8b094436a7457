"""Train linear text models: every label against all texts, a block of labels at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from sparsenet import kernels
from sparsenet.core.machine import available_memory
from sparsenet.core.memory import in_words
from sparsenet.core.rows import Rows, squares
from sparsenet.engines.linear.linear_model import LinearModel
from sparsenet.kernels.types import F32

#: Regularisation of the columns that pad a block: no point moves them.
_NO_COST = 1e30


@dataclass(frozen=True, kw_only=True)
class LinearRules:
    """How to train linear models.

    Attributes
    ----------
    cost : float
        Cost of an error against the norm of the weights: a higher cost fits the training texts more closely.
    epochs : int
        Maximum number of epochs.
    tolerance : float
        Largest violation of the optimality conditions at which the training of a label ends.
    max_dense_weights, smallest : int and float
        Models with more weights are kept sparse, without weights below `smallest`. Points have unit length, so dropped
        weights hardly move a score.
    rows_at_a_time : int
        Rows of weights that are made sparse at a time.
    min_work, blocks_per_thread : int
        Minimum work of a kernel call: features times labels (tenths of a second), and blocks of labels for each thread.
        Progress and Ctrl-C are handled between calls.
    """

    cost: float = 1.0
    epochs: int = 10
    tolerance: float = 0.1
    max_dense_weights: int = 1 << 26
    smallest: float = 0.05
    rows_at_a_time: int = 4096
    min_work: int = 1 << 28
    blocks_per_thread: int = 4


def train(
    points: Rows,
    labels: Rows,
    rules: LinearRules,
    seed: int,
    threads: int,
    *,
    costs: F32 | None = None,
    start: F32 | None = None,
    group: range | None = None,
    on_progress: Callable[[int], object] | None = None,
) -> F32:
    """Train the weights of each label, (n_features + 1, n_labels), with biases in the last row.

    Parameters
    ----------
    costs : ndarray of shape (n_labels,), optional
        Multiplies the cost of the positive points of each label.
    start : ndarray of shape (n_features + 1, n_labels), optional
        Weights to start from and to regularise towards, instead of zero.
    group : range, optional
        Trains these labels only.
    on_progress : callable, optional
        Receives the number of labels that each kernel call finishes.
    """
    group = range(labels.width) if group is None else group
    # The width depends on all labels, not on the group, which depends on threads: results must not.
    n_labels, width = len(group), block_width(labels.width)
    n_blocks = -(-n_labels // width)
    weight = np.zeros((n_blocks, points.width + 1, width), np.float32)
    if start is not None:
        for block in range(n_blocks):
            own_start = start[:, block * width : (block + 1) * width]
            weight[block, :, : own_start.shape[1]] = own_start
    negative = np.full(n_blocks * width, _NO_COST, np.float32)
    negative[:n_labels] = 0.5 / rules.cost
    positive = negative.copy()
    if costs is not None:
        positive[:n_labels] /= costs
    passes = np.zeros(n_blocks, np.int32)
    about_points = (points.indptr, points.indices, points.data, squares(points))
    step = max(rules.blocks_per_thread * threads, rules.min_work // max(len(points.data) * width, 1))
    for first in range(0, n_blocks, step):
        blocks = slice(first, min(first + step, n_blocks))
        own = slice(blocks.start * width, blocks.stop * width)
        about_labels = (labels.indptr, labels.indices, group.start + own.start, positive[own], negative[own])
        about_training = (rules.epochs, rules.tolerance, seed, weight[blocks], passes[blocks], threads)
        arguments: tuple[Any, ...] = (*about_points, *about_labels, *about_training)
        kernels.dual_train(*arguments)
        if on_progress is not None:
            on_progress(min(own.stop, n_labels) - own.start)
    found = np.empty((points.width + 1, n_labels), np.float32)
    for block in range(n_blocks):
        columns = found[:, block * width : (block + 1) * width]
        columns[...] = weight[block, :, : columns.shape[1]]
    return found


def train_on(
    points: Rows,
    labels: Rows,
    rules: LinearRules,
    seed: int,
    threads: int,
    start: F32,
    stiffness: float,
    costs: F32 | None = None,
) -> F32:
    """Train further from `start`, with biases that cost `stiffness` times as much to move.

    A bias describes all texts, earlier ones included, and a few new texts must not make their label frequent. To the
    solver a bias is the weight of a constant 1, so longer points make all other weights easier to move. `start` is
    overwritten: a copy may take gigabytes.
    """
    longer = np.float32(np.sqrt(stiffness))
    points, rules = replace(points, data=points.data * longer), replace(rules, cost=rules.cost / stiffness)
    start[:-1] /= longer
    weight = train(points, labels, rules, seed, threads, costs=costs, start=start)
    weight[:-1] *= longer
    return weight


def block_width(n_labels: int) -> int:
    """Return the number of labels that the kernel trains at a time."""
    return next((width for width in (1, 4, 8) if n_labels <= width), 16)


def train_model(
    points: Rows,
    labels: Rows,
    rules: LinearRules,
    seed: int,
    threads: int,
    costs: F32 | None,
    memory_limit: int | None = None,
    on_progress: Callable[[int], object] | None = None,
) -> LinearModel:
    """Train a model; if it has too many weights for a table, train and sparsify groups of labels."""
    d, n_labels = points.width + 1, labels.width
    in_groups = d * n_labels > rules.max_dense_weights
    threads = threads_that_fit(len(points), d if in_groups else 0, block_width(n_labels), threads, memory_limit)
    if not in_groups:
        return LinearModel.rounded(train(points, labels, rules, seed, threads, costs=costs, on_progress=on_progress))
    step = max(16 * threads, rules.max_dense_weights // d // 16 * 16)
    kept, biases = [], []
    for first in range(0, n_labels, step):
        group = range(first, min(first + step, n_labels))
        own = costs[group.start : group.stop] if costs is not None else None
        weight = train(points, labels, rules, seed, threads, costs=own, group=group, on_progress=on_progress)
        biases.append(weight[-1].copy())
        kept.append(_sparsified(weight[:-1], rules))
    return LinearModel.of_sparse(sparse.hstack(kept, format="csr"), np.concatenate(biases))


def rounded(weight: F32, rules: LinearRules) -> LinearModel:
    """Round weights with biases in the last row to 8 bits, as a table or sparse."""
    if weight.size <= rules.max_dense_weights:
        return LinearModel.rounded(weight)
    step = rules.rows_at_a_time
    rows = (_sparsified(weight[i : i + step], rules) for i in range(0, len(weight) - 1, step))
    return LinearModel.of_sparse(sparse.vstack(list(rows), format="csr")[: len(weight) - 1], weight[-1].copy())


def _sparsified(weight: F32, rules: LinearRules) -> Any:
    """Drop small weights: return a CSR matrix."""
    return sparse.csr_array(np.where(np.abs(weight) < rules.smallest, np.float32(0), weight))


def check_learning_on(n_features: int, n_labels: int, memory_limit: int | None) -> None:
    """Raise MemoryError if further training, which needs all weights as a table, does not fit into memory."""
    width = block_width(n_labels)
    # The old weights, the start with room for new ones, padded blocks of labels, and the result.
    needed = 4 * (n_features + 1) * (3 * n_labels + -(-n_labels // width) * width)
    limit = available_memory() if memory_limit is None else memory_limit
    if needed > limit:
        raise MemoryError(
            f"further training of {n_labels:,} labels and {n_features:,} features needs {in_words(needed)}, and there "
            f"are {in_words(limit)}: fit the model again with all texts, or with method='network'"
        )


def threads_that_fit(n: int, d: int, width: int, threads: int, memory_limit: int | None) -> int:
    """Return the number of threads that memory allows.

    Each thread holds a number for every text and label of its block, and twice `d` rows of weights.
    """
    each = 4 * (n * (width + 1) + 2 * d * width)
    # Features may take the other half of a limit: see spilling.SHARE.
    limit = available_memory() if memory_limit is None else memory_limit // 2
    if memory_limit is not None and each > limit:
        problem = f"training on {n} texts needs {in_words(each)}, and there are {in_words(limit)} for that"
        raise MemoryError(f"{problem}: use fewer texts or raise memory_limit")
    return max(1, min(threads, limit // max(each, 1)))
