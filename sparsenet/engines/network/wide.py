"""The wide path: sparse weights from features to labels, in parallel to the deep path.

The weights of a label start as the centroid of its points, pruned to a budget of features. A batch costs one sparse
product, a small fraction of the arithmetic of the deep path.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.batches import DensePostings, Postings, Workspace
from sparsenet.core.centroids import centroids, label_blocks, lengths, owners_of, support_bound
from sparsenet.core.rows import Rows, RowSource, transpose
from sparsenet.core.validation import integer, real
from sparsenet.engines.network.optim import Adagrad, Optimizer, Parameter
from sparsenet.kernels.types import F32, I32, I64


@dataclass(frozen=True, kw_only=True)
class WideConfig:
    """Initialisation and optimizer of the wide path.

    Parameters
    ----------
    budget : int
        Maximum number of features of a label.
    norm : float
        Norm of the initial weights of a label with one point.
    norm_power : float
        The norm grows with a label's count to this power, since frequent labels deserve higher scores.
    optimizer : Optimizer
        Optimizer of the weights.

    Examples
    --------
    >>> WideConfig(budget=64, optimizer=Adagrad(rate=0.3)).budget
    64
    """

    budget: int = 1024
    norm: float = 8.0
    norm_power: float = 0.25
    optimizer: Optimizer = field(default_factory=lambda: Adagrad(rate=0.6, decay=1e-5))

    def __post_init__(self) -> None:
        integer("budget", self.budget, 1)
        real("norm", self.norm, 0, math.inf)
        real("norm_power", self.norm_power, 0, 1)


def initial_norms(config: WideConfig, label_counts: I64) -> NDArray[np.float64]:
    """Return the norm of the initial weights of labels with the given counts."""
    return config.norm * np.maximum(label_counts, 1) ** config.norm_power


def _initial_weights(features: RowSource, label_points: Rows, config: WideConfig, threads: int) -> tuple[I64, I32, F32]:
    """Return the number of weights per label, their features and their initial values."""
    vectors = centroids(features, label_points, config.budget, threads)
    counts = np.diff(vectors.indptr)
    scale = initial_norms(config, np.diff(label_points.indptr)) / np.maximum(lengths(vectors), 1e-15)
    vectors.data[:] *= np.repeat(scale, counts).astype(np.float32)
    return counts, vectors.indices, vectors.data


@dataclass
class Touched:
    """The wide weights that a batch uses: ``positions[indptr[l] : indptr[l + 1]]`` for active label l.

    `slots` holds the index of each weight's feature in the batch; `dense` holds the batch's frequent features.
    """

    indptr: I64
    positions: I64
    slots: I32
    dense: DensePostings


def _check_support(n_features: int, indptr: I64, indices: I32) -> None:
    """Reject a malformed support, which may come from a file: a kernel would access memory out of bounds."""
    if indptr.ndim != 1 or indices.ndim != 1 or len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != len(indices):
        raise ValueError(f"indptr must go from 0 to the number of indices, {len(indices)}")
    if (np.diff(indptr) < 0).any():
        raise ValueError("indptr must not decrease")
    if len(indices) and not (indices.min() >= 0 and indices.max() < n_features):
        raise ValueError(f"indices must be from 0 to {n_features - 1}, got {indices.min()} to {indices.max()}")


class WidePath:
    """Sparse weights (n_labels, n_features) with a support that training does not change.

    Parameters
    ----------
    n_features : int
        Number of columns.
    indptr : ndarray of shape (n_labels + 1,), int64
    indices : ndarray of shape (n_weights,), int32
        The support: label l has weights for the features ``indices[indptr[l] : indptr[l + 1]]``, ascending.
    config : WideConfig, optional
        Optimizer of the weights (n_weights, 1), and initialisation of weights added by `grow`.

    Examples
    --------
    Three points: the first two have label 0, the last has label 1.

    >>> from scipy.sparse import csr_array
    >>> points = Rows.of(csr_array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
    >>> labels = Rows.of(csr_array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    >>> path = WidePath.from_centroids(points, transpose(labels), WideConfig(norm=1.0, norm_power=0.0), threads=1)
    >>> path.indices.tolist(), path.weight.value.ravel().tolist()
    ([0, 2], [1.0, 1.0])
    """

    def __init__(self, n_features: int, indptr: I64, indices: I32, config: WideConfig | None = None) -> None:
        _check_support(n_features, indptr, indices)
        self.n_features = n_features
        self.indptr, self.indices = indptr, indices
        self.config = config or WideConfig()
        self.weight = Parameter("wide.weight", (len(indices), 1), self.config.optimizer)
        self._inverted: Rows | None = None

    @classmethod
    def from_centroids(cls, features: RowSource, label_points: Rows, config: WideConfig, threads: int) -> WidePath:
        """Initialise each label with the centroid of its points."""
        capacity = int(support_bound(features, label_points, config.budget).sum())
        indptr = np.zeros(len(label_points) + 1, np.int64)
        indices, values = np.empty(capacity, np.int32), np.empty(capacity, np.float32)  # unwritten pages take no memory
        for begin, end in label_blocks(features, label_points):
            counts, *found = _initial_weights(features, label_points.slice(begin, end), config, threads)
            indptr[begin + 1 : end + 1] = indptr[begin] + np.cumsum(counts)
            own = slice(indptr[begin], indptr[end])
            indices[own], values[own] = found
        path = cls(features.width, indptr, indices[: indptr[-1]], config)
        path.weight.allocate(values[: indptr[-1], None])
        return path

    def configure(self, config: WideConfig) -> None:
        """Replace the configuration: the optimizer, and the initialisation of weights added by `grow`."""
        self.config, self.weight.optimizer = config, config.optimizer

    def grow(self, features: RowSource, label_points: Rows, threads: int) -> None:
        """Extend the support for new points: initialise new labels, and add features to known labels with weight 0.

        A label takes its strongest new features until its budget is full.
        """
        fresh = WidePath.from_centroids(features, label_points, self.config, threads)
        owners, new_owners = owners_of(self.indptr), owners_of(fresh.indptr)
        keys = owners * self.n_features + self.indices
        new_keys = new_owners * self.n_features + fresh.indices
        missing = np.flatnonzero(~np.isin(new_keys, keys, assume_unique=True))
        value = fresh.weight.value[missing]
        # Compare the rank of each missing entry within its label, strongest first, with the remaining budget.
        order = np.lexsort((-np.abs(value[:, 0]), new_owners[missing]))
        missing, value = missing[order], value[order]
        rank = np.arange(len(missing)) - np.searchsorted(new_owners[missing], new_owners[missing])
        held = np.diff(self.indptr)[new_owners[missing]]
        fits = rank < self.config.budget - held
        missing, value = missing[fits], np.where(held[fits, None] > 0, np.float32(0), value[fits])
        self._merge(np.concatenate((keys, new_keys[missing])), value)

    def _merge(self, keys: I64, value: F32) -> None:
        """Append weights with `value` and empty optimizer state; sort all weights by their keys."""
        order = np.argsort(keys, kind="stable")
        owners = keys[order] // self.n_features
        n_labels = len(self.indptr) - 1
        self.indptr = np.searchsorted(owners, np.arange(n_labels + 1)).astype(np.int64)
        self.indices = (keys[order] % self.n_features).astype(np.int32)
        before = self.weight
        self.weight = Parameter(before.name, (len(keys), 1), before.optimizer)
        self.weight.allocate(np.concatenate((before.value, value))[order])
        for name, array in before.state.items():
            new = np.zeros((len(value), *array.shape[1:]), array.dtype)
            self.weight.state[name] = np.concatenate((array, new))[order]
        self.forget_inverted()

    def touch(self, active: I32, postings: Postings, workspace: Workspace, threads: int) -> Touched:
        """Find the weights of the active labels for features that occur in a batch."""
        room = int((self.indptr[active + 1] - self.indptr[active]).sum())
        indptr = np.empty(len(active) + 1, np.int64)
        positions = np.asarray(workspace.take("wide.touched", (room,), np.int64))
        slots = np.asarray(workspace.take("wide.slots", (room,), np.int32))
        support = (active, self.indptr, self.indices, postings.slots)
        found = kernels.wide_touch(*support, indptr, positions, slots, threads)
        return Touched(indptr, positions[:found], slots[:found], postings.dense)

    def add_scores(self, touched: Touched, postings: Postings, out: F32, threads: int) -> None:
        """Add the wide scores of a batch to `out`, (active, n)."""
        kernels.wide_forward(
            touched.indptr,
            touched.positions,
            touched.slots,
            self.weight.value.reshape(-1),
            postings.starts,
            postings.points,
            postings.values,
            *touched.dense,
            out,
            threads,
        )

    def record_gradient(
        self, touched: Touched, postings: Postings, grad: F32, workspace: Workspace, threads: int
    ) -> None:
        """Record the gradient of the touched weights, given the gradient of the scores, `grad` (active, n)."""
        out = np.asarray(workspace.take("wide.grads", (len(touched.positions),), np.float32))
        kernels.wide_gradient(
            touched.indptr,
            touched.positions,
            touched.slots,
            postings.starts,
            postings.points,
            postings.values,
            *touched.dense,
            grad,
            out,
            threads,
        )
        self.weight.record(touched.positions, out[:, None])
        self.forget_inverted()

    def forget_inverted(self) -> None:
        """Clear the cached inverted weights after the weights changed."""
        self._inverted = None

    def inverted(self) -> Rows:
        """Return the weights by feature, for exact scoring over all labels; cached until they change."""
        if self._inverted is None:
            values = self.weight.value.reshape(-1)
            self._inverted = transpose(Rows(self.indptr, self.indices, values, self.n_features))
        return self._inverted
