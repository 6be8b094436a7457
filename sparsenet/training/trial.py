"""Whether hidden units earn their keep, how much they count, and how sure scores are: found out while one trains."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenet._validation import MAX_WIDTH, integer
from sparsenet.batches import Rows, is_hit
from sparsenet.losses import BinaryCrossEntropy
from sparsenet.model import Network
from sparsenet.platt import most_probable
from sparsenet.training.reports import RANKS, Validation

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
#: What the deep path may count at the end of a training: all, or less by the roots of a half.
WEIGHTS = (1.0, 0.7, 0.5, 0.35, 0.25)
#: Measured on so many labels of each point, the best by the first and as many by the last of these weights: the best
#: five by one between have been among them wherever it was looked.
CANDIDATES = 32
#: So many that are not among those, and as many that are true, say how sure the scores of all others may be.
OTHERS, PAIRS_AT_A_TIME = 1 << 16, 1 << 12


class Weighing(NamedTuple):
    """What scores are in the end: `slope` times the sum of both paths, the deep one counting `deep`, plus `shift`."""

    deep: float = 1.0
    slope: float = 1.0
    shift: float = 0.0


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
    """Measures, on points that a network does not learn, what its hidden units are worth, and how sure it may be.

    Hidden units find what labels have in common. Where there is little of that, and labels have few points, they learn
    points by heart: after some epochs it shows whether the network is better off without them; and at the end, whether
    the deep path is to count less than it has learnt to. Then all scores are stretched and shifted so that the labels
    of these points, those that are true and all others, are as probable as can be.

    Attributes
    ----------
    epochs : int
        How many are trained before the first look.
    held_out : Validation
        What it is measured on.
    calibrates : bool
        Whether scores are stretched and shifted in the end.

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
    calibrates: bool = True

    def __post_init__(self) -> None:
        integer("epochs", self.epochs, 1, MAX_WIDTH)
        if len(self.held_out.features) == 0:
            raise ValueError("held_out has no points: there is nothing to measure on")

    def judge(self, network: Network, threads: int, on_block: Callable[[], None]) -> Verdict:
        """Measure the network as it is, and its wide path alone; `on_block` is called now and then."""
        whole, alone = (self.held_out.measure(one, threads, on_block) for one in (network, network.wide_alone()))
        return Verdict(fmean(whole.values()), fmean(alone.values()), alone["P@1"])

    def weigh(self, network: Network, threads: int, on_block: Callable[[], None]) -> Weighing:
        """Say what a trained network's scores are to count: the deep path by itself, and all of them.

        The deep path counts less than all if that is better by more than its standard error and P@1 is no lower.
        """
        # Where labels compete, none is judged by its own score.
        calibrates = self.calibrates and isinstance(network.output.loss, BinaryCrossEntropy)
        if not calibrates and not network.output.n_inputs:
            return Weighing()
        seen = self._look(network, threads, on_block)
        deep = _best_weight(seen) if network.output.n_inputs else 1.0
        if not calibrates:
            return Weighing(deep)
        return Weighing(deep, *self._curve(network, seen, deep, threads, on_block))

    def _curve(
        self, network: Network, seen: _Seen, deep: float, threads: int, on_block: Callable[[], None]
    ) -> tuple[float, float]:
        """Return the slope and the shift under which all labels of the points are most probable."""
        points, labels, right, counts = self._others(seen)
        wide, both = (self._scored(one, points, labels, threads, on_block) for one in (network.wide_alone(), network))
        named = ~seen.twice
        scores = np.concatenate((seen.scores(deep)[named], wide + np.float32(deep) * (both - wide)))
        right = np.concatenate((seen.right[named], right))
        counts = np.concatenate((np.ones(np.count_nonzero(named)), counts))
        firmness = 0.5 / counts.sum()  # what is believed before counts as one label of one point
        return most_probable(scores, right, usual=0.0, firmness=firmness, counts=counts)

    def _look(self, network: Network, threads: int, on_block: Callable[[], None]) -> _Seen:
        """Score the labels of each point that the largest or the smallest of the weights puts first."""
        output, alone, truth = network.output, network.wide_alone(), Rows.of(self.held_out.truth)
        blocks: list[tuple[I32, NDArray[np.bool_], F32, F32]] = []
        k = min(CANDIDATES, output.n_labels)
        for block in network.blocks(self.held_out.features):
            units = network.hidden_units(block, threads)
            ends = [WEIGHTS[0], WEIGHTS[-1]] if output.n_inputs else [WEIGHTS[0]]
            labels = np.hstack([output.topk(block, np.float32(weight) * units, k, threads)[0] for weight in ends])
            twice = np.zeros(labels.shape, bool)
            twice[:, k:] = (labels[:, k:, None] == labels[:, None, :k]).any(axis=2)
            wide = alone.scores_of(block, labels, threads)
            blocks.append((labels, twice, wide, output.add_deep(np.zeros_like(wide), units, labels, threads)))
            on_block()
        labels, twice, wide, deep = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        return _Seen(labels, twice, is_hit(labels, truth) & ~twice, wide, deep)

    def _scored(self, network: Network, points: I64, labels: I32, threads: int, on_block: Callable[[], None]) -> F32:
        """Score a label of each of some points, a few at a time: one and the same may be there many times."""
        scores = [np.empty(0, np.float32)]
        for begin in range(0, len(points), PAIRS_AT_A_TIME):
            own = slice(begin, begin + PAIRS_AT_A_TIME)
            features = self.held_out.features.take(points[own])
            scores.append(network.scores_of(features, labels[own, None], threads)[:, 0])
            on_block()
        return np.concatenate(scores)

    def _others(self, seen: _Seen) -> tuple[I64, I32, NDArray[np.bool_], F64]:
        """Draw labels of points that are not among those seen: most of what is to come out as next to impossible.

        Returns points, labels, whether these are true, and how many such pairs each stands for.
        """
        rng, truth = np.random.default_rng(0), self.held_out.truth
        n, width = truth.shape
        known = np.sort((np.arange(n)[:, None] * width + seen.labels)[~seen.twice])
        true = np.repeat(np.arange(n), np.diff(truth.indptr)) * width + truth.indices
        missed = np.setdiff1d(true, known)
        kept = rng.choice(missed, min(len(missed), OTHERS), replace=False, shuffle=False)
        drawn = rng.integers(0, n * width, OTHERS)
        drawn = drawn[~np.isin(drawn, np.concatenate((known, true)))]
        n_false = n * width - len(known) - len(missed)
        pairs, right = np.concatenate((kept, drawn)), np.arange(len(kept) + len(drawn)) < len(kept)
        counts = np.where(right, len(missed) / max(len(kept), 1), n_false / max(len(drawn), 1))
        return pairs // width, (pairs % width).astype(np.int32), right, counts


class _Seen(NamedTuple):
    """Labels that come into question for each point, all (n, c): which are true, and what both paths say of them.

    Those that have been named `twice` count once.
    """

    labels: I32
    twice: NDArray[np.bool_]
    right: NDArray[np.bool_]
    wide: F32
    deep: F32

    def scores(self, weight: float) -> F32:
        """Return the scores if the deep path counts so much."""
        return np.asarray(self.wide + np.float32(weight) * self.deep)

    def worth(self, weight: float) -> tuple[F64, NDArray[np.bool_]]:
        """Return the mean of P@1, P@3 and P@5 of each point by those scores, and whether its best label is right."""
        scores = np.where(self.twice, -np.inf, self.scores(weight))
        order = np.argsort(-scores, axis=1, kind="stable")[:, : RANKS[-1]]
        ranked = np.take_along_axis(self.right, order, axis=1)
        return np.mean([ranked[:, :k].sum(axis=1) / k for k in RANKS], axis=0), ranked[:, 0]


def _best_weight(seen: _Seen) -> float:
    """Return by which of the weights the network is best for certain."""
    whole, right = seen.worth(WEIGHTS[0])
    best, gained = WEIGHTS[0], 0.0
    for weight in WEIGHTS[1:]:
        worth, still = seen.worth(weight)
        gains = worth - whole
        certain = float(gains.mean() - gains.std() / math.sqrt(len(gains)))
        if certain > gained and still.mean() >= right.mean():
            best, gained = weight, certain
    return best
