"""Cut a label tree down to the nodes above some of its labels, so that a search meets no others."""

from __future__ import annotations

import numpy as np

from sparsenet.engines.tree.machines import Level
from sparsenet.engines.tree.tree_shape import CHILDREN, Shape
from sparsenet.kernels.types import I32, I64


def restricted(shape: Shape, levels: list[Level], labels: I32) -> tuple[I32, list[Level]]:
    """Return the leaves' labels and the machines of a tree whose leaves are `labels` alone.

    The score of a leaf is the same as in the whole tree. Labels without a leaf are left out.
    """
    kept = np.flatnonzero(np.isin(shape.labels, labels))
    names, cut = shape.labels[kept], list[Level]()
    for level in reversed(levels):
        own, kept = _restricted_level(level, kept)
        cut.insert(0, own)
    return names, cut


def _restricted_level(level: Level, kept: I64) -> tuple[Level, I64]:
    """Return the machines of the `kept` children, and the nodes that have any."""
    parents = np.searchsorted(level.children, kept, side="right") - 1
    nodes, place = np.unique(parents, return_inverse=True)
    children = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(place, minlength=len(nodes)))))
    columns = np.zeros((len(nodes), CHILDREN), np.int64)
    columns[place, np.arange(len(kept)) - children[place]] = kept - level.children[parents]
    lengths = level.starts[nodes + 1] - level.starts[nodes]
    starts = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    rows = np.repeat(level.starts[nodes] - starts[:-1], lengths) + np.arange(starts[-1])
    weights = np.take_along_axis(level.weights[rows], np.repeat(columns, lengths, axis=0), axis=1)
    bias = np.take_along_axis(level.bias[nodes], columns, axis=1)
    return Level(starts, level.features[rows], level.factors[rows], weights, bias, children), nodes
