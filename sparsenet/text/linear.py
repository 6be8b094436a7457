"""A linear model of texts: one-vs-rest weights, 8 bits each, and what turns scores into probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet import kernels
from sparsenet._machine import available_memory
from sparsenet.batches import Rows, squares
from sparsenet.estimators.building import in_words
from sparsenet.text.calibration import Calibration

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]
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


@dataclass(frozen=True, eq=False)
class LinearModel:
    """Weights of 8 bits with a factor for each feature, biases, and what its scores say.

    Attributes
    ----------
    matrix : shape (n_features, n_columns), or (n_weights,) with `indptr`; int8
    factors : shape (n_features,)
    bias : shape (n_columns,)
    calibration : Calibration
    offset : shape (n_columns,), or None
        What held-out texts, not training, added to `bias`.
    unknown : shape (n_columns,), or None
        The scores of a text of which nothing is known.
    indptr, columns : shape (n_features + 1,) and (n_weights,), or None
        With many labels, only the weights that matter are kept: those of feature f are
        ``matrix[indptr[f] : indptr[f + 1]]``, and `columns` says of which labels.
    """

    matrix: I8
    factors: F32
    bias: F32
    calibration: Calibration = field(default_factory=Calibration)
    indptr: I64 | None = None
    columns: I32 | None = None
    offset: F32 | None = None
    unknown: F32 | None = None

    @property
    def n_columns(self) -> int:
        """How many columns there are: one for two exclusive classes, else one a label."""
        return len(self.bias)

    def to_arrays(self) -> tuple[Arrays, dict[str, Any]]:
        """Return what `of_arrays` needs."""
        bias = self.bias if self.unknown is None else np.stack([self.bias, self.unknown])  # an array more takes room
        arrays: Arrays = {"matrix": self.matrix, "factors": self.factors, "bias": bias}
        if self.indptr is not None and self.columns is not None:
            arrays |= {"indptr": self.indptr, "columns": self.columns}
        if self.offset is not None:
            arrays["offset"] = self.offset
        return arrays, {}

    @classmethod
    def of_arrays(cls, arrays: Arrays, metadata: dict[str, Any]) -> LinearModel:
        """Make the model that `to_arrays` took apart."""
        bias, *unknown = arrays["bias"] if arrays["bias"].ndim == 2 else [arrays["bias"]]
        optional = {name: arrays.get(name) for name in ("indptr", "columns", "offset")}
        calibration, (usual,) = Calibration.checked(metadata), unknown or [None]
        return cls(arrays["matrix"], arrays["factors"], bias, calibration, **optional, unknown=usual)

    @classmethod
    def rounded(cls, weight: F32) -> LinearModel:
        """Round weights with biases in the last row to 8 bits."""
        largest = np.abs(weight[:-1]).max(axis=1, initial=0)
        factors = (largest / 127).astype(np.float32)
        inverse = np.divide(1, factors, out=np.zeros_like(factors), where=factors > 0)
        matrix = np.rint(weight[:-1] * inverse[:, None]).astype(np.int8)
        return cls(matrix, factors, weight[-1].copy())

    @classmethod
    def kept(cls, weight: F32) -> LinearModel:
        """Round weights with biases in the last row to 8 bits: all of them, or of very many those that matter."""
        if weight.size <= MOST_DENSE:
            return cls.rounded(weight)
        rows = (_mattering(weight[i : i + ROWS_AT_A_TIME]) for i in range(0, len(weight) - 1, ROWS_AT_A_TIME))
        return cls.of_sparse(sparse.vstack(list(rows), format="csr")[: len(weight) - 1], weight[-1].copy())

    @classmethod
    def of_sparse(cls, weight: Any, bias: F32) -> LinearModel:
        """Round the entries of a CSR matrix (n_features, n_columns) to 8 bits."""
        d = weight.shape[0]
        feature = np.repeat(np.arange(d), np.diff(weight.indptr))
        largest = np.zeros(d, np.float32)
        np.maximum.at(largest, feature, np.abs(weight.data))
        factors = np.asarray(largest / 127, np.float32)
        matrix = np.rint(weight.data / factors[feature]).astype(np.int8)
        indptr, columns = weight.indptr.astype(np.int64), weight.indices.astype(np.int32)
        return cls(matrix, factors, bias, indptr=indptr, columns=columns)

    def weights(self) -> F32:
        """Return the weights as they were trained, before they were rounded, nearly, with the biases in the last row.

        Those that were too small to be kept are 0.
        """
        found = np.empty((len(self.factors) + 1, len(self.bias)), np.float32)
        found[-1] = self.bias if self.offset is None else self.bias - self.offset
        if self.indptr is not None:
            data = self.matrix * np.repeat(self.factors, np.diff(self.indptr))
            kept: Any = sparse.csr_array((data, np.asarray(self.columns), self.indptr), shape=found[:-1].shape)
            kept.toarray(out=found[:-1])
        else:
            np.multiply(self.matrix, self.factors[:, None], out=found[:-1])
        return found

    def column(self, number: int) -> NDArray[np.float64]:
        """Return the weights of one column, (n_features,)."""
        if self.indptr is None:
            return self.matrix[:, number].astype(np.float64) * self.factors
        assert self.columns is not None
        own = np.flatnonzero(self.columns == number)
        feature = np.searchsorted(self.indptr, own, side="right") - 1
        found = np.zeros(len(self.factors))
        found[feature] = self.matrix[own] * self.factors[feature].astype(np.float64)
        return found

    def knows(self, features: I32) -> bool:
        """Tell whether any of these has a weight."""
        if self.indptr is None:
            return bool(self.matrix[features].any())
        return bool(np.any(self.indptr[features + 1] > self.indptr[features]))

    def calibrated(self, calibration: Calibration, shifts: F64 | None = None) -> LinearModel:
        """Return the same model with other probabilities; `shifts` (n_labels,) of their log odds move biases."""
        if shifts is None:
            return replace(self, calibration=calibration)
        own = np.diff(shifts) / 2 if self.n_columns == 1 and len(shifts) == 2 else shifts
        return replace(self, calibration=calibration).moved(np.asarray(own / calibration.steepness, np.float32))

    def moved(self, offset: F32 | None) -> LinearModel:
        """Return the model as it was trained with so much added to its biases."""
        return self if offset is None else replace(self, bias=self.bias + offset, offset=offset)

    def knowing(self, unknown: F32) -> LinearModel:
        """Return the same model with such scores of a text of which nothing is known."""
        return replace(self, unknown=unknown)

    def scores(self, points: Rows, threads: int) -> F32:
        """Score points: (n, n_columns)."""
        shape = (len(self.factors), len(self.bias))
        if self.indptr is not None:
            data = self.matrix * np.repeat(self.factors, np.diff(self.indptr))
            X: Any = sparse.csr_array((points.data, points.indices, points.indptr), shape=(len(points), shape[0]))
            W: Any = sparse.csr_array((data, np.asarray(self.columns), self.indptr), shape=shape)
            found = (X @ W).toarray()
            return np.asarray(found + self.bias, np.float32)
        out = np.empty((len(points), shape[1]), np.float32)
        dense = np.ascontiguousarray(self.matrix * self.factors[:, None])
        kernels.csr_matmul(points.indptr, points.indices, points.data, dense, out, threads)
        out += self.bias
        return out


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


def both_classes(scores: F32, n_labels: int) -> F32:
    """Return a score for each label where a single column stands for two of them."""
    return np.hstack([-scores, scores]) if scores.shape[1] == 1 and n_labels == 2 else scores
