"""The contribution of each feature of a point to a network's score of a label."""

from __future__ import annotations

import numpy as np

from sparsenet.core.batches import Workspace
from sparsenet.core.rows import Rows
from sparsenet.engines.network.layers import Activation, Pass
from sparsenet.engines.network.model import Network
from sparsenet.kernels.types import F32, F64


def network_effects(network: Network, point: Rows, label: int) -> tuple[F64, float]:
    """Return the contribution of each entry of one point, (nnz,), and the rest of the score.

    The wide path is a sum over features. The deep path is one for the active units (ReLU), or gradient times input.
    """
    found = _wide(network, point, label)
    if network.input is not None:
        found += network.input.weight.value[point.indices].astype(np.float64) @ _gradient(network, point, label)
    found *= point.data
    score = network.scores_of(point, np.array([[label]], np.int32), 1)[0, 0]
    return found, float(score) - float(found.sum())


def _wide(network: Network, point: Rows, label: int) -> F64:
    """Return the wide weight of each entry."""
    path, weights = network.output.wide, np.zeros(len(point.indices))
    if path:
        begin, end = path.indptr[label : label + 2]
        own, values = path.indices[begin:end], path.weight.value[begin:end, 0]
        if len(own):  # ascending
            at = np.minimum(np.searchsorted(own, point.indices), len(own) - 1)
            weights = np.where(own[at] == point.indices, values[at], 0).astype(np.float64)
    return weights


def _gradient(network: Network, point: Rows, label: int) -> F64:
    """Return the gradient of the deep score with respect to the sums of the first layer, (h,)."""
    assert network.input is not None
    context = Pass(1, Workspace())
    units = [network.input.forward(point, None, context)[0]]
    for layer in network.hidden:
        units.append(layer.forward(units[-1], context)[0])
    gradient = network.output.weight.value[label].astype(np.float64)
    for layer, own in zip(reversed(network.hidden), reversed(units[1:]), strict=True):
        gradient = (gradient * _slopes(layer.activation, own[0])) @ layer.weight.value.astype(np.float64)
    return np.asarray(gradient * _slopes(network.input.activation, units[0][0]))


def _slopes(activation: Activation, units: F32) -> F64:
    """Return the derivative of the activation at its outputs."""
    exact = units.astype(np.float64)
    if activation.name == "relu":
        return (exact > 0).astype(np.float64)
    return 1 - np.square(exact) if activation.name == "tanh" else np.ones_like(exact)
