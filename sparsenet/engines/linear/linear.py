"""How linear models of texts are trained: all labels against all texts, blocks of labels at a time."""

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

#: Up to so many weights are kept as a table, 8 bits each; of more, those that are not smaller than SMALLEST. Points
#: have length 1, so what is left out moves a score by little.
MOST_DENSE = 1 << 26
SMALLEST = 0.05
#: Rows of weights that are looked through at a time.
ROWS_AT_A_TIME = 4096
#: Features of points times labels that a call of the kernel takes on at least, some tenths of a second, and blocks for
#: each thread: between two calls progress is told, and Ctrl-C heard.
LEAST_WORK = 1 << 28
BLOCKS_A_THREAD = 4
#: A label of a block that is there to fill it up: no point moves it.
_NO_COST = 1e30


@dataclass(frozen=True, kw_only=True)
class LinearRules:
    """How linear models are trained.

    Attributes
    ----------
    cost : float
        Of an error, against the length of the weights: more fits the training texts more closely.
    epochs, tolerance : when a label's training ends.
    """

    cost: float = 1.0
    epochs: int = 10
    tolerance: float = 0.1


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
    told: Callable[[int], object] | None = None,
) -> F32:
    """Return the weights of each label, (n_features + 1, n_labels), the last row the biases.

    `costs` (n_labels,) multiplies the cost of the positive points of a label; `start` is pulled towards, not zero.
    Of a `group` of the labels alone, if one is given. `told` hears how many more labels are done.
    """
    group = range(labels.width) if group is None else group
    # The width goes by all labels: how they are grouped, which may depend on threads, must not change a bit.
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
    step = max(BLOCKS_A_THREAD * threads, LEAST_WORK // max(len(points.data) * width, 1))
    for first in range(0, n_blocks, step):
        blocks = slice(first, min(first + step, n_blocks))
        own = slice(blocks.start * width, blocks.stop * width)
        about_labels = (labels.indptr, labels.indices, group.start + own.start, positive[own], negative[own])
        about_training = (rules.epochs, rules.tolerance, seed, weight[blocks], passes[blocks], threads)
        arguments: tuple[Any, ...] = (*about_points, *about_labels, *about_training)
        kernels.dual_train(*arguments)
        if told is not None:
            told(min(own.stop, n_labels) - own.start)
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
    """Return weights like `train`, from `start`, with biases that it costs `stiffness` times as much to move.

    `start` is used up: a copy of so many weights may be gigabytes.

    A bias is about all texts, those before included, and a few new ones of one label do not make that frequent: of the
    other labels' texts of trec6 44 % would be right after five of a new one, with this 93 %, as before. To the
    solver a bias is the weight of a constant 1; points that are longer make everything else easier to move.
    """
    longer = np.float32(np.sqrt(stiffness))
    points, rules = replace(points, data=points.data * longer), replace(rules, cost=rules.cost / stiffness)
    start[:-1] /= longer
    weight = train(points, labels, rules, seed, threads, costs=costs, start=start)
    weight[:-1] *= longer
    return weight


def block_width(n_labels: int) -> int:
    """Return how many labels are trained at a time, one of those that the kernel has."""
    return next((width for width in (1, 4, 8) if n_labels <= width), 16)


def train_model(
    points: Rows,
    labels: Rows,
    rules: LinearRules,
    seed: int,
    threads: int,
    costs: F32 | None,
    memory_limit: int | None = None,
    told: Callable[[int], object] | None = None,
) -> LinearModel:
    """Train a model; with many labels and features, a group of labels at a time, keeping what matters of each."""
    d, n_labels = points.width + 1, labels.width
    in_groups = d * n_labels > MOST_DENSE
    threads = _threads_that_fit(len(points), d if in_groups else 0, block_width(n_labels), threads, memory_limit)
    if not in_groups:
        return LinearModel.rounded(train(points, labels, rules, seed, threads, costs=costs, told=told))
    step = max(16 * threads, MOST_DENSE // d // 16 * 16)
    kept, biases = [], []
    for first in range(0, n_labels, step):
        group = range(first, min(first + step, n_labels))
        own = costs[group.start : group.stop] if costs is not None else None
        weight = train(points, labels, rules, seed, threads, costs=own, group=group, told=told)
        biases.append(weight[-1].copy())
        kept.append(_mattering(weight[:-1]))
    return LinearModel.of_sparse(sparse.hstack(kept, format="csr"), np.concatenate(biases))


def kept(weight: F32) -> LinearModel:
    """Round weights with biases in the last row to 8 bits: all of them, or of very many those that matter."""
    if weight.size <= MOST_DENSE:
        return LinearModel.rounded(weight)
    rows = (_mattering(weight[i : i + ROWS_AT_A_TIME]) for i in range(0, len(weight) - 1, ROWS_AT_A_TIME))
    return LinearModel.of_sparse(sparse.vstack(list(rows), format="csr")[: len(weight) - 1], weight[-1].copy())


def _mattering(weight: F32) -> Any:
    """Return the weights that are not too small to be kept, as a CSR matrix."""
    return sparse.csr_array(np.where(np.abs(weight) < SMALLEST, np.float32(0), weight))


def check_learning_on(n_features: int, n_labels: int, memory_limit: int | None) -> None:
    """Raise MemoryError where all weights of a model, which learning on needs, do not fit into memory."""
    width = block_width(n_labels)
    # As they were, with room for what is new, as blocks of labels that are filled up, and as they become.
    needed = 4 * (n_features + 1) * (3 * n_labels + -(-n_labels // width) * width)
    limit = available_memory() if memory_limit is None else memory_limit
    if needed > limit:
        raise MemoryError(
            f"to learn on, a model of {n_labels:,} labels and {n_features:,} features needs {in_words(needed)}, and "
            f"there are {in_words(limit)}: fit it anew with all texts, or with method='network'"
        )


def _threads_that_fit(n: int, d: int, width: int, threads: int, memory_limit: int | None) -> int:
    """Return how many threads there is memory for: each has a number for every text and label that it trains at a time.

    `d` rows of weights, twice, for each of them too, where that depends on threads.
    """
    each = 4 * (n * (width + 1) + 2 * d * width)
    # Of a limit, features may take the other half: see spilling.SHARE.
    limit = available_memory() if memory_limit is None else memory_limit // 2
    if memory_limit is not None and each > limit:
        problem = f"training on {n} texts needs {in_words(each)}, and there are {in_words(limit)} for that"
        raise MemoryError(f"{problem}: use fewer texts or raise memory_limit")
    return max(1, min(threads, limit // max(each, 1)))
