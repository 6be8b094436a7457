"""Whether hidden units earn their keep, and how much they count: found out while a network is trained."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenet.metrics.ranking import find_hits
from sparsenet.model import Network
from sparsenet.training.reports import Validation

F32 = NDArray[np.float32]
#: What the deep path may count at the end of a training: all, or less by the roots of a half.
WEIGHTS = (1.0, 0.7, 0.5, 0.35, 0.25)
#: Compared on so many labels of each point, the best by this weight: those of the best five by the others.
CANDIDATES, MIDDLE = 32, 0.5
#: Of which precisions the mean is taken.
RANKS = (1, 3, 5)


class Verdict(NamedTuple):
    """How good a network was with its hidden units and without them: the means of P@1, P@3 and P@5."""

    with_hidden: float
    without: float

    @property
    def drops(self) -> bool:
        """Tell whether hidden units are to go: what is as good without them is faster."""
        return self.without >= self.with_hidden


@dataclass(frozen=True)
class Trial:
    """Measures, on points that a network does not learn, what its hidden units are worth beside its wide path.

    They find what labels have in common. Where there is little of that, and labels have few points, they learn points
    by heart: after some epochs it shows whether the network is better off without them; and at the end, whether the
    deep path is to count less than it has learnt to.

    Attributes
    ----------
    epochs : int
        How many are trained before the first look.
    held_out : Validation
        What it is measured on.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> from sparsenet import Rows, Trial, Validation
    >>> truth = csr_array([[1.0, 0.0], [0.0, 1.0]])
    >>> held_out = Validation(features=Rows.of(csr_array([[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]])), truth=truth)
    >>> Trial(epochs=3, held_out=held_out).epochs
    3
    """

    epochs: int
    held_out: Validation

    def judge(self, network: Network, threads: int, on_block: Callable[[], None]) -> Verdict:
        """Measure the network as it is, and its wide path alone; `on_block` is called now and then."""
        both = (network, network.wide_alone())
        return Verdict(*(fmean(self.held_out.measure(one, threads, on_block).values()) for one in both))

    def weigh(self, network: Network, threads: int) -> float:
        """Return what the deep path is to count: less than all only if that is better for certain.

        That is, by more than the standard error of the difference, on so many points.
        """
        worth = self._worth(network, threads)
        gains = worth - worth[0]
        certain = gains.mean(axis=1) - gains.std(axis=1) / math.sqrt(max(gains.shape[1], 1))
        return WEIGHTS[int(certain.argmax())]

    def _worth(self, network: Network, threads: int) -> NDArray[np.float64]:
        """Return the mean of the precisions of each point by each of the weights, (weights, n)."""
        alone, points = network.wide_alone(), self.held_out.features
        labels, wide, deep = [], [], []
        for block in network.blocks(points):
            units = network.hidden_units(block, threads)
            k = min(CANDIDATES, network.output.n_labels)
            labels.append(network.output.topk(block, np.float32(MIDDLE) * units, k, threads)[0])
            wide.append(alone.scores_of(block, labels[-1], threads))
            deep.append(network.output.add_deep(np.zeros_like(wide[-1]), units, labels[-1], threads))
        found = np.concatenate(labels)
        hits = find_hits(self.held_out.truth, found, found.shape[1])
        right = np.zeros(found.shape, bool)
        right[hits.points, hits.ranks] = True
        worth = np.empty((len(WEIGHTS), len(found)))
        for row, weight in zip(worth, WEIGHTS, strict=True):
            scores = np.concatenate(wide) + np.float32(weight) * np.concatenate(deep)
            order = np.argsort(-scores, axis=1, kind="stable")[:, : RANKS[-1]]
            ranked = np.take_along_axis(right, order, axis=1)
            row[:] = np.mean([ranked[:, :k].sum(axis=1) / k for k in RANKS], axis=0)
        return worth
