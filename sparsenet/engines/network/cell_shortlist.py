"""Approximate top-k of networks without a wide path: coarse cells over the output layer, or all labels if that is less.

The effort of the cells is calibrated on a sample of points. Without a sample, all labels are scored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.engines.network.model import MAX_POINTS, Network
from sparsenet.features.targets import Points
from sparsenet.index.cells import CellIndex, CellsConfig
from sparsenet.index.vector_index import Examples, calibrate, share_found
from sparsenet.kernels.types import F32, I32


@dataclass(frozen=True)
class CellShortlist:
    """The labels found in the cells nearest to a point, scored exactly.

    Attributes
    ----------
    size : int
        Labels of a shortlist.
    index : CellIndex, optional
        The cells; None scores all labels.
    effort : int
        Number of cells to scan.
    """

    size: int
    index: CellIndex | None = None
    effort: int = 0

    @classmethod
    def with_recall(
        cls,
        network: Network,
        sample: Rows,
        k: int,
        recall: float,
        *,
        size: int,
        threads: int,
        examples: Points | None = None,
    ) -> CellShortlist:
        """Return what reads least at `recall` on a sample: cells of the rows, of `examples`, or all labels."""
        output, units = network.output, network.hidden_units(sample, threads)
        weight, bias = output.weight.value, output.bias.value.reshape(-1)
        size, exact = min(size, output.n_labels), network.topk(sample, k, threads)[0]
        best, least = cls(size), 4.0 * output.n_labels
        for given in (None,) if examples is None else (None, _supervision(network, examples, threads)):
            index = CellIndex(CellsConfig(n_candidates=size, learns_inputs=given is not None), threads)
            index.rebuild(weight, bias, given)
            index.calibrate_candidates(units, weight, bias, exact, recall)
            found = calibrate(index, units, weight, bias, exact, recall)
            scanned = index.search(units, weight, bias, k, found.effort)[2]
            # A byte for each number of a centroid, a bit for one of a code, four bytes for one that is scored exactly.
            reads = index.max_effort + float(scanned.mean()) / 8 + 4 * max(size, index.n_candidates)
            if found.recall >= recall and reads < least:
                best, least = cls(size, index, found.effort), reads
        return best

    def topk(self, network: Network, features: Rows, k: int, threads: int) -> tuple[I32, F32]:
        """Return the k best labels of each point's shortlist and their scores, (n, k) each, best first."""
        if self.index is None:
            return network.topk(features, min(k, network.output.n_labels), threads)
        weight, bias = network.output.weight.value, network.output.bias.value.reshape(-1)
        labels, scores = np.empty((len(features), k), np.int32), np.empty((len(features), k), np.float32)
        done = 0
        for block in features.blocks(MAX_POINTS):
            own, units = slice(done, done + len(block)), network.hidden_units(block, threads)
            labels[own], scores[own] = self.index.topk(units, weight, bias, k, self.effort, threads)
            done = own.stop
        return labels, scores

    def recall(self, network: Network, features: Rows, k: int, threads: int) -> float:
        """Measure the recall: the fraction of the exact top k that the shortlists contain."""
        exact = network.topk(features, k, threads)[0]
        return share_found(exact, self.topk(network, features, k, threads)[0])


def _supervision(network: Network, points: Points, threads: int) -> Examples:
    """Return the hidden units of points and their labels."""
    features, labels = points
    units = [network.hidden_units(block, threads) for block in features.blocks(MAX_POINTS)]
    return Examples(np.concatenate(units), labels.indptr, labels.indices)
