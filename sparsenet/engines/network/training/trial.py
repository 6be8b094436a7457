"""Whether hidden units and further passes earn their keep, and how sure scores are: found out while one trains."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.ranked import best_first, is_hit, precisions
from sparsenet.core.rows import Rows
from sparsenet.core.validation import MAX_WIDTH, integer
from sparsenet.engines.network.losses import gives_log_odds
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.training.reports import RANKS, Validation
from sparsenet.kernels.types import F32, F64, I32
from sparsenet.selection import frequency
from sparsenet.selection.platt import most_probable

#: What the deep path may count at the end of a training: all, or less by the roots of a half.
WEIGHTS = (1.0, 0.7, 0.5, 0.35, 0.25)
#: Measured on so many labels of each point, the best by the first and as many by the last of these weights: the best
#: five by one between have been among them wherever it was looked.
CANDIDATES = 32
#: So many labels that are not among those, and as many that are true, say how sure the scores of all others may be.
OTHERS = 64
#: Seeds these draws: not the seed that somebody may have made data from.
DRAWS = (0, 4)
#: No more points are looked at in the end, evenly spaced: people may have kept hundreds of thousands.
MOST_LOOKED_AT = 4096


class Weighing(NamedTuple):
    """What scores are in the end: `slope` times what both paths say, the deep one counting `deep`, plus `shift`.

    To what they say comes `frequent` times the logarithm of how many points a label has.
    """

    deep: float = 1.0
    slope: float = 1.0
    shift: float = 0.0
    frequent: float = 0.0

    @property
    def reorders(self) -> bool:
        """Tell whether labels may come in another order."""
        return self.deep != 1 or self.frequent != 0

    def shifts(self, label_counts: NDArray[np.int64]) -> F32:
        """Return what each label's score gains in the end, of labels with so many points."""
        gained = np.float32(self.slope * self.frequent) * frequency.logarithms(label_counts)
        return np.asarray(gained + np.float32(self.shift))


class Look(NamedTuple):
    """P@1, P@3 and P@5 of each point, (n, 3), by a network as it was and by its wide path alone."""

    with_hidden: F64
    without: F64

    @property
    def worth(self) -> F64:
        """Return the means of each point's three, (n,), by whichever was better."""
        better = self.without if self.without.sum() > self.with_hidden.sum() else self.with_hidden
        return np.asarray(better.mean(axis=1))


class Verdict(NamedTuple):
    """How good a network was with its hidden units and without them: means of P@1, P@3 and P@5, and P@1 without.

    It `rises` if it was better than after the first epoch, and that not by chance.
    """

    with_hidden: float
    without: float
    right_without: float
    rises: bool = True

    @property
    def drops(self) -> bool:
        """Tell whether hidden units are to go: what is as good without them is faster."""
        return self.without >= self.with_hidden


@dataclass(frozen=True)
class Trial:
    """Measures, on points that a network does not learn, what its hidden units are worth, and how sure it may be.

    Hidden units find what labels have in common. Where there is little of that, and labels have few points, they learn
    points by heart: after some epochs it shows whether the network is better off without them; and at the end, whether
    the deep path is to count less than it has learnt to, and whether frequent labels say too little or too much. Then
    all scores are stretched and shifted so that the labels of these points, those that are true and all others, are as
    probable as can be. Where a network has learnt all that there is in its first epoch, further ones only take time.

    Attributes
    ----------
    epochs : int
        How many are trained before it is decided.
    held_out : Validation
        What it is measured on.
    calibrates : bool
        Whether scores are stretched and shifted in the end, beside what they gain or lose by how frequent labels are.
    may_end : bool
        Whether the epoch after that look is the last, in which rates fall to their end, where there was nothing to gain
        since the first epoch.

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
    may_end: bool = False

    def __post_init__(self) -> None:
        integer("epochs", self.epochs, 1, MAX_WIDTH)
        if self.may_end and self.epochs == 1:
            raise ValueError("may_end compares with the first epoch: look after 2 or more, or set may_end=False")
        if len(self.held_out.features) == 0:
            raise ValueError("held_out has no points: there is nothing to measure on")

    def look(self, network: Network, threads: int, on_block: Callable[[], None]) -> Look:
        """Measure the network as it is, and its wide path alone; `on_block` is called now and then."""
        features, truth = self.held_out.features, Rows.of(self.held_out.truth)
        k, paths = min(RANKS[-1], network.output.n_labels), (network, network.wide_alone())
        best = (path.topk(features, k, threads, lambda _: on_block())[0] for path in paths)
        return Look(*(precisions(is_hit(labels, truth), RANKS) for labels in best))

    def judge(self, look: Look, first: F64 | None) -> Verdict:
        """Say what is seen, and whether it is more than each point's worth after the `first` epoch, if that is known.

        What is within a standard error of nothing is taken for chance.
        """
        rises = True
        if first is not None:
            gains = look.worth - first
            rises = bool(gains.mean() > gains.std() / math.sqrt(len(gains)))
        both, alone = (path.mean(axis=0) for path in look)
        return Verdict(float(both.mean()), float(alone.mean()), float(alone[0]), rises)

    def weigh(
        self, network: Network, label_counts: NDArray[np.int64], threads: int, on_block: Callable[[], None]
    ) -> Weighing:
        """Say what a trained network's scores are to count, of labels with so many points: the deep path's, and all.

        The deep path counts less than all if that is better by more than its standard error and P@1 is no lower.
        """
        # Where labels compete, none is judged by its own score.
        each_by_itself = gives_log_odds(network.output.loss)
        if not each_by_itself and not network.output.n_inputs:
            return Weighing()
        seen = self._scored(network, threads, on_block)
        deep = _best_weight(seen) if network.output.n_inputs else 1.0
        # Where so few come true, as if all that these points have were unknown, nothing is told of how sure to be.
        if not each_by_itself or (seen.counts * seen.right).sum() < frequency.FEW_TRUE:
            return Weighing(deep)
        scores, log_counts = seen.scores(deep), frequency.logarithms(label_counts)[seen.labels]
        frequent = frequency.worth(*seen.best(deep, scores, seen.right, log_counts))
        if not self.calibrates:
            return Weighing(deep, frequent=frequent)
        scores, asked = scores + np.float32(frequent) * log_counts, seen.counts > 0
        scores, right, counts = scores[asked], seen.right[asked], seen.counts[asked]
        firmness = 0.5 / counts.sum()  # what is believed before counts as one label of one point
        sure = most_probable(scores, right, usual=0.0, firmness=firmness, counts=counts)
        return Weighing(deep, *sure, frequent)

    def _scored(self, network: Network, threads: int, on_block: Callable[[], None]) -> _Seen:
        """Score the labels of some points that the largest or the smallest of the weights puts first, and others."""
        output, alone, rng = network.output, network.wide_alone(), np.random.default_rng(DRAWS)
        n, k = len(self.held_out.features), min(CANDIDATES, network.output.n_labels)
        chosen = np.unique(np.linspace(0, n - 1, MOST_LOOKED_AT).astype(np.int64))
        features, truth = (rows.take(chosen) for rows in (self.held_out.features, Rows.of(self.held_out.truth)))
        seen, done = [], 0
        for block in network.blocks(features):
            units = network.hidden_units(block, threads)
            ends = [WEIGHTS[0], WEIGHTS[-1]] if output.n_inputs else [WEIGHTS[0]]
            best = np.hstack([output.topk(block, np.float32(weight) * units, k, threads)[0] for weight in ends])
            labels, right, counts = _and_others(best, k, truth.slice(done, done + len(block)), rng)
            wide = alone.scores_of(block, labels, threads)
            deep = output.add_deep(np.zeros_like(wide), units, labels, threads)
            seen.append((labels, wide, deep, right, counts))
            done += len(block)
            on_block()
        return _Seen(k, best.shape[1], *(np.concatenate(parts) for parts in zip(*seen, strict=True)))


class _Seen(NamedTuple):
    """Labels of each point, all (n, c): what both paths say of them, which are true, and for how many each stands.

    Among the first `n_best` columns are the `k` best of the whole network and those of the smallest weight, once each:
    what stands for none has been named before. Then come others, which stand for all that are not there.
    """

    k: int
    n_best: int
    labels: I32
    wide: F32
    deep: F32
    right: NDArray[np.bool_]
    counts: F64

    def scores(self, weight: float) -> F32:
        """Return the scores if the deep path counts so much."""
        return np.asarray(self.wide + np.float32(weight) * self.deep)

    def worth(self, weight: float) -> tuple[F64, NDArray[np.bool_]]:
        """Return the mean of P@1, P@3 and P@5 of each point by those scores, and whether its best label is right."""
        (ranked,) = self.best(weight, self.right)
        return precisions(ranked, RANKS).mean(axis=1), ranked[:, 0]

    def best(self, weight: float, *values: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the values, (n, c), of the k best labels of each point by those scores, best first."""
        named = self.counts[:, : self.n_best] > 0
        scores = np.where(named, self.scores(weight)[:, : self.n_best], np.float32(-np.inf))
        return best_first(scores, self.k, *(each[:, : self.n_best] for each in values))


def _and_others(best: I32, k: int, truth: Rows, rng: np.random.Generator) -> tuple[I32, NDArray[np.bool_], F64]:
    """Return the best labels of each point, by k at a time, some true ones beside these, and some that are neither.

    Also which are true, and how many labels of the point each stands for: most are to come out as next to impossible.
    """
    n, width, rows = len(best), truth.width, np.arange(len(best), dtype=np.int64)[:, None] * truth.width
    once = np.ones(best.shape, bool)
    once[:, k:] = ~(best[:, k:, None] == best[:, None, :k]).any(axis=2)
    owners = np.repeat(np.arange(n), np.diff(truth.indptr))
    missed = ~np.isin(rows[owners, 0] + truth.indices, rows + best)
    owners, missing = owners[missed], truth.indices[missed]
    n_missed = np.bincount(owners, minlength=n)
    order = np.lexsort((rng.random(len(owners)), owners))
    place = np.arange(len(owners)) - np.repeat(np.cumsum(n_missed) - n_missed, n_missed)
    kept = place < OTHERS
    true, of_true = np.zeros((n, OTHERS), np.int32), np.zeros((n, OTHERS))
    true[owners[kept], place[kept]] = missing[order][kept]
    of_true[owners[kept], place[kept]] = (n_missed / np.clip(n_missed, 1, OTHERS))[owners[kept]]
    drawn = rng.integers(0, width, (n, OTHERS), dtype=np.int32)
    labels = np.hstack((best, true, drawn))
    right = is_hit(labels, truth)
    neither = ~(right[:, -OTHERS:] | np.isin(rows + drawn, rows + best))
    n_neither = width - once.sum(axis=1) - n_missed
    of_drawn = neither * (n_neither / np.maximum(neither.sum(axis=1), 1))[:, None]
    counts = np.hstack((once, of_true, of_drawn))
    return labels, right & (counts > 0), counts


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
