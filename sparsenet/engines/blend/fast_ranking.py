"""Rank the candidates of a blend by one call of a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.rows import Rows
from sparsenet.engines.blend.candidates import PSEUDO_NEIGHBOR, Parts, n_by_neighbors
from sparsenet.engines.blend.combination import Combination
from sparsenet.engines.neighbors.narrow_postings import posting_arrays
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.network.losses import BinaryCrossEntropy, SampledSoftmax
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.optim import Parameter
from sparsenet.kernels.types import F32, I32, U16


def can_rank(parts: Parts, combination: object, n: int) -> bool:
    """Return whether the kernel ranks n candidates: points are sparse, losses are ours, and the tree has n leaves.

    Other blends are ranked by `candidates.propose` and `Combination.rank`. Both agree up to rounding.
    """
    losses = BinaryCrossEntropy, SampledSoftmax
    return (
        type(combination) is Combination
        and n <= len(parts.tree.shape.labels)
        and (parts.neighbors is None or parts.neighbors.postings is not None)
        and (parts.network is None or type(parts.network.output.loss) in losses)
    )


@dataclass(frozen=True, eq=False)
class FastRanking:
    """The arguments of the kernel that do not depend on the points.

    Attributes
    ----------
    tree, neighbors, numbers : arguments of `rank_blend` in its order.
    network : Network or None
    output : the arrays of its output layer, as the kernel takes them after the log-sum-exp; None without one.
    n_labels : number of labels.
    """

    tree: tuple[list[Any], I32, int]
    neighbors: tuple[Any, int, int, float]
    numbers: tuple[F32, float, int, int]
    network: Network | None
    output: tuple[Any, ...] | None
    n_labels: int

    @classmethod
    def of(cls, parts: Parts, combination: Combination, n: int, *, k: int, beam: int) -> FastRanking:
        """Prepare to rank n candidates of the tree, and the candidates of the neighbors."""
        tree = [level.as_tuple() for level in parts.tree.levels], parts.tree.shape.labels, beam
        n_proposed = n_by_neighbors(n) if n < parts.n_labels else 0
        numbers = np.array(combination.weights, np.float32), float(PSEUDO_NEIGHBOR), n, n_proposed
        network, output = parts.network, None
        if network is not None:
            wide, (weight, steps) = network.output.wide, _rows(network.output.weight)
            sparse: tuple[Any, ...] = (None, None, None, steps, None)
            if wide is not None:
                values, wide_steps = _rows(wide.weight)
                sparse = wide.indptr, wide.indices, values.reshape(-1), steps, wide_steps
            output = weight, network.output.bias.value.reshape(-1), sparse
        return cls(tree, _neighbor_arguments(parts.neighbors, k), numbers, network, output, parts.n_labels)

    def rank(self, points: Rows, n_best: int, threads: int) -> tuple[I32, F32]:
        """Return the `n_best` candidates of each point and their scores, best first."""
        labels, scores = np.empty((len(points), n_best), np.int32), np.empty((len(points), n_best), np.float32)
        given = points.indptr, points.indices, points.data, points.width, self.n_labels
        network = self._network_arrays(points, threads)
        arguments: list[Any] = [*self.tree, *given, *self.neighbors, network, *self.numbers, labels, scores, threads]
        kernels.rank_blend(*arguments)
        return labels, scores

    def _network_arrays(self, points: Rows, threads: int) -> Any:
        if self.network is None or self.output is None:
            return None
        weight, bias, sparse = self.output
        is_softmax = isinstance(self.network.output.loss, SampledSoftmax)
        totals = self.network.log_totals(points, threads) if is_softmax else None
        return self.network.units_of_checked(points, threads), weight, bias, totals, *sparse


def _rows(parameter: Parameter) -> tuple[NDArray[Any], U16 | None]:
    """Return rows as floats, or as 8-bit codes and their steps."""
    rows = parameter.narrow
    return (parameter.value, None) if rows is None else (rows.codes, rows.steps)


def _neighbor_arguments(neighbors: Neighbors | None, k: int) -> tuple[Any, int, int, float]:
    if neighbors is None:
        return None, 0, 0, 0.0
    index, labels = neighbors.postings, neighbors.labels
    assert index is not None
    arrays = neighbors.weights, *posting_arrays(index), labels.indptr, labels.indices
    return arrays, neighbors.max_comparisons, min(k, len(labels)), neighbors.power
