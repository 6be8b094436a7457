"""The contribution of each feature and of the neighbors of a point to a blend's score of a label."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparsenet.core.effects import Voter
from sparsenet.core.rows import Rows
from sparsenet.engines.blend.candidates import PSEUDO_NEIGHBOR
from sparsenet.engines.blend.combination import Combination
from sparsenet.engines.blend.fitted_blend import FittedBlend
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.network.inference import log_probabilities
from sparsenet.engines.network.losses import SampledSoftmax
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.network_effects import network_effects
from sparsenet.engines.tree.tree_effects import tree_effects
from sparsenet.kernels.types import F64


class BlendEffects(NamedTuple):
    """The contribution of each entry of a point, (nnz,), the bias, and what the neighbors add."""

    features: F64
    bias: float
    neighbors_score: float
    voters: list[Voter]


def blend_effects(fitted: FittedBlend, point: Rows, label: int, k: int, threads: int) -> BlendEffects | None:
    """Return the parts of the score of one point for a label; None if no training point had the label.

    The features' parts come from the tree and the network, whose functions of sums are divided among the features like
    the sums are. The neighbors' part is their weighted vote, to which the probability of the network, or else of the
    tree, adds a little.
    """
    combination = fitted.combining(k)
    if not isinstance(combination, Combination):
        raise ValueError("this blend was trained by version 0.1, whose scores have no parts: fit it again")
    of_tree, of_network, of_votes = combination.weights
    found = tree_effects(fitted.tree, point, label, lambda score: -math.sqrt(-score))
    if found is None:
        return None
    features, bias = of_tree * found[0], of_tree * found[1]
    log_p = -float(np.square(found[0].sum() + found[1]))
    if fitted.network is not None:
        own, rest, log_p = _network(fitted.network.network, point, label, threads)
        features, bias = features + of_network * own, bias + of_network * rest
    share, voters = _votes(fitted.neighbors if k > 0 else None, point, label, k, threads)
    pseudo = float(PSEUDO_NEIGHBOR) if share is not None else 1 + float(PSEUDO_NEIGHBOR)
    return BlendEffects(features, bias, of_votes * math.sqrt((share or 0.0) + pseudo * math.exp(log_p)), voters)


def _network(network: Network, point: Rows, label: int, threads: int) -> tuple[F64, float, float]:
    """Return the contribution of each entry to the log probability, the rest of it, and all of it."""
    found, rest = network_effects(network, point, label)
    total = float(log_probabilities(network, point, np.array([[label]], np.int32), threads)[0, 0])
    if isinstance(network.output.loss, SampledSoftmax):
        return found, total - float(found.sum()), total
    empty = float(network.output.loss.probabilities(np.array([rest], np.float32))[0])
    before, difference = math.log(max(empty, float(np.finfo(np.float32).tiny))), float(found.sum())
    return found * ((total - before) / difference if difference else 0.0), before, total


def _votes(
    neighbors: Neighbors | None, point: Rows, label: int, k: int, threads: int
) -> tuple[float | None, list[Voter]]:
    """Return the label's share of the vote, None without votes, and its voters, nearest first."""
    if neighbors is None:
        return None, []
    weights = neighbors.vote_weights(point, k, threads)
    if not weights.data.any():
        return None, []
    voters, total = list[Voter](), 0.0
    for row, share in zip(weights.indices.tolist(), weights.data.tolist(), strict=True):
        own = neighbors.labels.indices[neighbors.labels.indptr[row] : neighbors.labels.indptr[row + 1]]
        if share > 0 and label in own:
            total += share
            if row < neighbors.n_points:  # else a centroid
                voters.append(Voter(row, share))
    return total, voters
