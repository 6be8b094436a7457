"""Rank the candidates of a blend by one call of a kernel."""

from __future__ import annotations

import numpy as np

from sparsenet import kernels
from sparsenet.core.rows import Rows
from sparsenet.engines.blend.candidates import PSEUDO_NEIGHBOR, Parts
from sparsenet.engines.blend.combination import Combination
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.network.losses import BinaryCrossEntropy, SampledSoftmax
from sparsenet.engines.network.model import Network
from sparsenet.kernels.types import F32, I32, I64


def can_rank(parts: Parts, combination: object, n: int) -> bool:
    """Return whether the kernel ranks n candidates: points are sparse, losses are ours, and the tree has n leaves.

    Other blends are ranked by `candidates.propose` and `Combination.rank`. Both agree up to rounding.
    """
    losses = BinaryCrossEntropy, SampledSoftmax
    return (
        type(combination) is Combination
        and n <= len(parts.tree.shape.labels)
        and (parts.neighbors is None or parts.neighbors.is_sparse)
        and (parts.network is None or type(parts.network.output.loss) in losses)
    )


def rank(
    parts: Parts,
    combination: Combination,
    points: Rows,
    n: int,
    n_best: int,
    *,
    k: int,
    beam: int,
    threads: int,
    tree_share: int = 2,
) -> tuple[I32, F32]:
    """Return the `n_best` of n candidates of each point and their scores, best first; see `candidates.propose`."""
    labels, scores = np.empty((len(points), n_best), np.int32), np.empty((len(points), n_best), np.float32)
    levels, neighbors = [level.as_tuple() for level in parts.tree.levels], parts.neighbors
    kernels.rank_blend(
        levels,
        parts.tree.shape.labels,
        beam,
        points.indptr,
        points.indices,
        points.data,
        points.width,
        parts.n_labels,
        None if neighbors is None else _neighbor_arrays(neighbors),
        0 if neighbors is None else neighbors.max_comparisons,
        0 if neighbors is None else min(k, len(neighbors.labels)),
        0.0 if neighbors is None else neighbors.power,
        None if parts.network is None else _network_arrays(parts.network, points, threads),
        np.array(combination.weights, np.float32),
        float(PSEUDO_NEIGHBOR),
        n,
        -(-n // tree_share) if n < parts.n_labels else 0,
        labels,
        scores,
        threads,
    )
    return labels, scores


def _neighbor_arrays(neighbors: Neighbors) -> tuple[F32, I64, I32, F32, I64, I32]:
    index, labels = neighbors.index, neighbors.labels
    return neighbors.weights, index.indptr, index.indices, index.data, labels.indptr, labels.indices


def _network_arrays(
    network: Network, points: Rows, threads: int
) -> tuple[F32, F32, F32, F32 | None, I64 | None, I32 | None, F32 | None]:
    output, wide = network.output, network.output.wide
    totals = network.log_totals(points, threads) if isinstance(output.loss, SampledSoftmax) else None
    sparse = (None, None, None) if wide is None else (wide.indptr, wide.indices, wide.weight.value.reshape(-1))
    units = network.hidden_units(points, threads)
    return units, output.weight.value, output.bias.value.reshape(-1), totals, *sparse
