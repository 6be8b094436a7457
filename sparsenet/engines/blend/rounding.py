"""Round the trained parts of a blend to the 8 bits in which they are saved, before anything is measured."""

from __future__ import annotations

from dataclasses import replace

from sparsenet.core.spilling import Spill
from sparsenet.engines.neighbors import posting_lists
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.network.fit_network import FittedNetwork
from sparsenet.storage.narrow import round_rows


def rounded_neighbors(neighbors: Neighbors, spill: Spill) -> Neighbors:
    """Return the neighbors with sparse points in 8 bits; dense points have 8 already."""
    index = neighbors.postings
    return neighbors if index is None else replace(neighbors, index=posting_lists.rounded(index, spill))


def round_network(fitted: FittedNetwork) -> FittedNetwork:
    """Round the rows of a network to 8 bits in place, and return it."""
    round_rows(fitted.network.weights())
    if fitted.network.output.wide:
        fitted.network.output.wide.forget_inverted()
    return fitted
