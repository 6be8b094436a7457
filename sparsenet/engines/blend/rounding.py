"""Round the trained parts of a blend to the 8 bits in which they are held and saved, before anything is measured.

The rows of a network stay floats until training ends, since measuring on the hold-out reads them so.
"""

from __future__ import annotations

from dataclasses import replace

from sparsenet.core.machine import release_memory
from sparsenet.core.rows import Rows
from sparsenet.core.spilling import Spill
from sparsenet.engines.neighbors.narrow_postings import NarrowPostings
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.network.fit_network import FittedNetwork
from sparsenet.storage.narrow import round_rows


def rounded_neighbors(neighbors: Neighbors, spill: Spill) -> Neighbors:
    """Return the neighbors with sparse points in 8 bits; dense points have 8 already."""
    if not isinstance(neighbors.index, Rows):
        return neighbors
    index = NarrowPostings.rounded(neighbors.index, spill)
    release_memory()  # of the parts
    return replace(neighbors, index=index)


def round_network(fitted: FittedNetwork) -> FittedNetwork:
    """Round the rows of a network to 8 bits in place, and return it."""
    network = fitted.network
    round_rows(network.weights())
    if network.output.wide:
        network.output.wide.forget_inverted()
    return fitted
