"""Measure on held-out points, during training, whether hidden units and further passes help; calibrate the scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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
from sparsenet.selection.choose import Decision, Option, Rule, choose
from sparsenet.selection.platt import fit_platt

#: Weights to choose from for the deep path at the end of training: powers of the root of a half.
WEIGHTS = (1.0, 0.7, 0.5, 0.35, 0.25)
MEAN_PRECISION = "mean of P@1, P@3 and P@5"
#: One standard error: at two, too many useless passes would be taken (bench/notes/networks.md).
BEYOND_CHANCE = Rule(MEAN_PRECISION, standard_errors=1.0)


@dataclass(frozen=True)
class ScoreCorrection:
    """Corrected scores: ``slope * (wide + deep * deep score + frequent * log count) + shift``.

    `decision` is the choice of `deep`, if it was compared.
    """

    deep: float = 1.0
    slope: float = 1.0
    shift: float = 0.0
    frequent: float = 0.0
    decision: Decision | None = field(default=None, compare=False)

    @property
    def reorders(self) -> bool:
        """Tell whether the order of labels may change."""
        return self.deep != 1 or self.frequent != 0

    def shifts(self, label_counts: NDArray[np.int64]) -> F32:
        """Return the constant that each label's score gains."""
        gained = np.float32(self.slope * self.frequent) * frequency.log_counts_of(label_counts)
        return np.asarray(gained + np.float32(self.shift))


class Look(NamedTuple):
    """P@1, P@3 and P@5 of each point, (n, 3), of a network and of its wide path alone."""

    with_hidden: F64
    without: F64

    @property
    def worth(self) -> F64:
        """Return the mean of the three for each point, (n,), of the better one."""
        better = self.without if self.without.sum() > self.with_hidden.sum() else self.with_hidden
        return np.asarray(better.mean(axis=1))


class Verdict(NamedTuple):
    """Mean of P@1, P@3 and P@5 with hidden units and without them, and P@1 without.

    It `rises` if the network is better than after the first epoch, beyond chance. `hidden` and `passes` are both
    comparisons as decisions.
    """

    with_hidden: float
    without: float
    right_without: float
    rises: bool = True
    hidden: Decision | None = None
    passes: Decision | None = None

    @property
    def drops(self) -> bool:
        """Tell whether hidden units go: at equal precision the wide path alone is faster."""
        return self.without >= self.with_hidden


@dataclass(frozen=True)
class Trial:
    """Measure on held-out points whether hidden units and further epochs help, and calibrate the scores.

    Hidden units find what labels have in common. Where labels have little in common and few points each, hidden units
    memorise points. After some epochs the trial shows whether the network is better without them. At the end it
    chooses the weight of the deep path, fits the weight of label frequency, and calibrates all scores.

    Attributes
    ----------
    epochs : int
        Epochs before the decision.
    held_out : Validation
        The points to measure on.
    calibrates : bool
        Whether to fit slope and shift of the scores; the weight of label frequency is fitted in any case.
    may_end : bool
        Whether only one more epoch follows if nothing was gained since the first one. Learning rates fall to their end
        in it.

    Examples
    --------
    Each label has a feature of its own, so hidden units add nothing. The example measures on training points:

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
        """Measure the network, and its wide path alone; `on_block` is called after each block of points."""
        features, truth = self.held_out.features, Rows.of(self.held_out.truth)
        k, paths = min(RANKS[-1], network.output.n_labels), (network, network.wide_alone())
        best = (path.topk(features, k, threads, lambda _: on_block())[0] for path in paths)
        return Look(*(precisions(is_hit(labels, truth), RANKS) for labels in best))

    def judge(self, look: Look, first: F64 | None) -> Verdict:
        """Compare both paths with the wide one, and with each point's precision after the `first` epoch, if known."""
        passes = None
        if first is not None:
            options = [Option("first pass", first), Option("all passes so far", look.worth)]
            passes = choose(options, lambda worth: worth, BEYOND_CHANCE)
        both, alone = (path.mean(axis=0) for path in look)
        hidden = choose(
            [Option("wide path alone", look.without), Option("both paths", look.with_hidden)],
            lambda path: path.mean(axis=1),
            Rule(MEAN_PRECISION, standard_errors=0.0),
        )
        rises = passes is None or passes.value is not first
        return Verdict(float(both.mean()), float(alone.mean()), float(alone[0]), rises, hidden, passes)

    def weigh(
        self, network: Network, label_counts: NDArray[np.int64], threads: int, on_block: Callable[[], None]
    ) -> ScoreCorrection:
        """Choose the weight of the deep path, and fit label frequency, slope and shift of the scores."""
        # Labels that compete in a softmax have no probability of their own.
        is_binary = gives_log_odds(network.output.loss)
        if not is_binary and not network.output.n_inputs:
            return ScoreCorrection()
        scored = self._scored(network, threads, on_block)
        decision = _choose_deep_weight(scored) if network.output.n_inputs else None
        deep = 1.0 if decision is None else decision.value
        # Too few positives to calibrate, as if all labels of these points were unknown.
        if not is_binary or (scored.counts * scored.right).sum() < frequency.FEW_TRUE:
            return ScoreCorrection(deep, decision=decision)
        scores, log_counts = scored.scores(deep), frequency.log_counts_of(label_counts)[scored.labels]
        frequent = frequency.fit_log_count_weight(*scored.best(deep, scores, scored.right, log_counts))
        if not self.calibrates:
            return ScoreCorrection(deep, frequent=frequent, decision=decision)
        scores, some = scores + np.float32(frequent) * log_counts, scored.counts > 0
        scores, right, counts = scores[some], scored.right[some], scored.counts[some]
        slope, shift = fit_platt(scores, right, slope=1.0, precision=1.0, counts=counts)
        return ScoreCorrection(deep, slope, shift, frequent, decision)

    def _scored(
        self,
        network: Network,
        threads: int,
        on_block: Callable[[], None],
        *,
        candidates: int = 32,
        others: int = 64,
        most_points: int = 4096,
    ) -> _HoldoutScores:
        """Score the best `candidates` of evenly spaced points by the largest and the smallest weight, and a sample.

        The best five by a weight in between were always among these candidates. The sample has `others` missed true
        labels at most, and as many false ones, each with the number of labels that it represents.
        """
        output, alone = network.output, network.wide_alone()
        rng = np.random.default_rng((0, 4))  # a stream of its own: data may have been drawn with the user's seed
        n, k = len(self.held_out.features), min(candidates, network.output.n_labels)
        chosen = np.unique(np.linspace(0, n - 1, most_points).astype(np.int64))
        features, truth = (rows.take(chosen) for rows in (self.held_out.features, Rows.of(self.held_out.truth)))
        scored, done = [], 0
        for block in network.blocks(features):
            units = network.hidden_units(block, threads)
            ends = [WEIGHTS[0], WEIGHTS[-1]] if output.n_inputs else [WEIGHTS[0]]
            best = np.hstack([output.topk(block, np.float32(weight) * units, k, threads)[0] for weight in ends])
            labels, right, counts = _with_sample(best, k, truth.slice(done, done + len(block)), rng, others)
            wide = alone.scores_of(block, labels, threads)
            deep = output.add_deep(np.zeros_like(wide), units, labels, threads)
            scored.append((labels, wide, deep, right, counts))
            done += len(block)
            on_block()
        return _HoldoutScores(k, best.shape[1], *(np.concatenate(parts) for parts in zip(*scored, strict=True)))


class _HoldoutScores(NamedTuple):
    """Scored labels of held-out points, (n, c) each, which are true, and how many labels each represents.

    The first `n_best` columns hold the `k` best of the whole network and of the smallest weight; repeated ones have a
    count of 0. The other columns sample all other labels.
    """

    k: int
    n_best: int
    labels: I32
    wide: F32
    deep: F32
    right: NDArray[np.bool_]
    counts: F64

    def scores(self, weight: float) -> F32:
        """Return the scores with this weight of the deep path."""
        return np.asarray(self.wide + np.float32(weight) * self.deep)

    def worth(self, weight: float) -> tuple[F64, NDArray[np.bool_]]:
        """Return the mean of P@1, P@3 and P@5 of each point, and whether its best label is right."""
        (ranked,) = self.best(weight, self.right)
        return precisions(ranked, RANKS).mean(axis=1), ranked[:, 0]

    def best(self, weight: float, *values: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the values, (n, c), of the k best labels of each point by those scores, best first."""
        once = self.counts[:, : self.n_best] > 0
        scores = np.where(once, self.scores(weight)[:, : self.n_best], np.float32(-np.inf))
        return best_first(scores, self.k, *(each[:, : self.n_best] for each in values))


def _with_sample(
    best: I32, k: int, truth: Rows, rng: np.random.Generator, others: int
) -> tuple[I32, NDArray[np.bool_], F64]:
    """Append a sample of the missed true labels and of the false ones to the best labels, in groups of k.

    Also return which labels are true, and how many labels of the point each represents.
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
    kept = place < others
    true, true_counts = np.zeros((n, others), np.int32), np.zeros((n, others))
    true[owners[kept], place[kept]] = missing[order][kept]
    true_counts[owners[kept], place[kept]] = (n_missed / np.clip(n_missed, 1, others))[owners[kept]]
    drawn = rng.integers(0, width, (n, others), dtype=np.int32)
    labels = np.hstack((best, true, drawn))
    right = is_hit(labels, truth)
    neither = ~(right[:, -others:] | np.isin(rows + drawn, rows + best))
    n_neither = width - once.sum(axis=1) - n_missed
    drawn_counts = neither * (n_neither / np.maximum(neither.sum(axis=1), 1))[:, None]
    counts = np.hstack((once, true_counts, drawn_counts))
    return labels, right & (counts > 0), counts


def _choose_deep_weight(scored: _HoldoutScores) -> Decision:
    """Choose the weight of the deep path by the mean precision, among weights that do not lower P@1."""
    _, whole_right = scored.worth(WEIGHTS[0])
    allowed = [weight for weight in WEIGHTS[1:] if scored.worth(weight)[1].mean() >= whole_right.mean()]
    options = [Option(f"deep path at {weight:g}", weight) for weight in (WEIGHTS[0], *allowed)]
    return choose(options, lambda weight: scored.worth(weight)[0], BEYOND_CHANCE)
