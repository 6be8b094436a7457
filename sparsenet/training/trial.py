"""Whether hidden units earn their keep, and how much they count: found out while a network is trained."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet._validation import MAX_WIDTH, integer
from sparsenet.metrics.ranking import find_hits
from sparsenet.model import Network
from sparsenet.training.reports import RANKS, Validation

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
#: What the deep path may count at the end of a training: all, or less by the roots of a half.
WEIGHTS = (1.0, 0.7, 0.5, 0.35, 0.25)
#: Compared on so many labels of each point, the best by the first and as many by the last of these weights: the best
#: five by one between have been among them wherever it was looked.
CANDIDATES = 32


class Verdict(NamedTuple):
    """How good a network was with its hidden units and without them: means of P@1, P@3 and P@5, and P@1 without."""

    with_hidden: float
    without: float
    right_without: float

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
    Labels with a feature each, which the wide path starts from, so that hidden units have nothing to add. For once it
    is measured on the points of training:

    >>> from scipy.sparse import csr_array
    >>> from sparsenet import BinaryCrossEntropy, Network, RandomSampler, Rows, SampledOutput, SparseInput
    >>> from sparsenet import Trainer, TrainingConfig, Trial, Validation, WideConfig, WidePath
    >>> truth = csr_array(np.eye(8))
    >>> points = Rows.of(truth)
    >>> wide = WidePath.from_centroids(points, points, WideConfig(), threads=1)
    >>> output = SampledOutput(4, 8, sampler=RandomSampler(), loss=BinaryCrossEntropy(), n_negatives=4, wide=wide)
    >>> network = Network(input=SparseInput(8, 4), output=output)
    >>> network.initialise(seed=0)
    >>> trial = Trial(epochs=1, held_out=Validation(features=points, truth=truth))
    >>> trainer = Trainer(network, points, points, TrainingConfig(epochs=3, batch_size=4), trial=trial)
    >>> trainer.run()
    >>> trainer.verdict.drops, network.input
    (True, None)
    """

    epochs: int
    held_out: Validation

    def __post_init__(self) -> None:
        integer("epochs", self.epochs, 1, MAX_WIDTH)
        if len(self.held_out.features) == 0:
            raise ValueError("held_out has no points: there is nothing to measure on")

    def judge(self, network: Network, threads: int, on_block: Callable[[], None]) -> Verdict:
        """Measure the network as it is, and its wide path alone; `on_block` is called now and then."""
        whole, alone = (self.held_out.measure(one, threads, on_block) for one in (network, network.wide_alone()))
        return Verdict(fmean(whole.values()), fmean(alone.values()), alone["P@1"])

    def weigh(self, network: Network, threads: int, on_block: Callable[[], None]) -> float:
        """Return what the deep path is to count: less than all if that is better by more than its standard error.

        P@1 must be no lower.
        """
        worth, right = self._worth(network, threads, on_block)
        gains = worth - worth[0]
        certain = gains.mean(axis=1) - gains.std(axis=1) / math.sqrt(gains.shape[1])
        certain[right.mean(axis=1) < right[0].mean()] = -math.inf
        return WEIGHTS[int(certain.argmax())]

    def _worth(self, network: Network, threads: int, on_block: Callable[[], None]) -> tuple[F64, F64]:
        """Return the mean of the precisions of each point by each of the weights, (weights, n), and its P@1."""
        alone, points, done = network.wide_alone(), self.held_out.features, 0
        worth, first = np.empty((2, len(WEIGHTS), len(points)))
        for block in network.blocks(points):
            own = slice(done, done + len(block))
            units, k = network.hidden_units(block, threads), min(CANDIDATES, network.output.n_labels)
            ends = [network.output.topk(block, np.float32(w) * units, k, threads)[0] for w in (WEIGHTS[0], WEIGHTS[-1])]
            labels = np.hstack(ends)
            wide = alone.scores_of(block, labels, threads)
            deep = network.output.add_deep(np.zeros_like(wide), units, labels, threads)
            twice = np.hstack([np.zeros_like(ends[0], bool), (ends[1][:, :, None] == ends[0][:, None]).any(axis=2)])
            right = _is_true(np.where(twice, -1, labels), self.held_out.truth[own])
            for row, weight in enumerate(WEIGHTS):
                scores = np.where(twice, -np.inf, wide + np.float32(weight) * deep)
                order = np.argsort(-scores, axis=1, kind="stable")[:, : RANKS[-1]]
                ranked = np.take_along_axis(right, order, axis=1)
                worth[row, own] = np.mean([ranked[:, :k].sum(axis=1) / k for k in RANKS], axis=0)
                first[row, own] = ranked[:, 0]
            done = own.stop
            on_block()
        return worth, first


def _is_true(labels: I32, truth: csr_array) -> NDArray[np.bool_]:
    """Tell which labels of each point are true ones; none that is -1."""
    hits = find_hits(truth, labels, labels.shape[1])
    right = np.zeros(labels.shape, bool)
    right[hits.points, hits.ranks] = True
    return right
