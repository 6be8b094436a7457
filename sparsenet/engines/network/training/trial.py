"""Measure on held-out points, during training, whether hidden units and further epochs help; calibrate the scores."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sparsenet.core.ranked import best_first, is_hit, precisions
from sparsenet.core.rows import Rows
from sparsenet.core.validation import MAX_WIDTH, integer
from sparsenet.engines.network.losses import gives_log_odds
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.training.reports import Validation
from sparsenet.features.label_stats import log_counts
from sparsenet.kernels.types import F32, F64, I32, I64, Bools
from sparsenet.metrics.ranking import RANKS
from sparsenet.selection.choose import Decision, Option, Rule, choose
from sparsenet.selection.platt import fit_platt

MEAN_PRECISION = "mean of P@1, P@3 and P@5"


@dataclass(frozen=True)
class TrialRules:
    """The evidence that each decision of a trial needs.

    Attributes
    ----------
    hidden : Rule
        Hidden units must gain something, since a network without them is faster.
    passes : Rule
        With two standard errors, a trial would stop useful epochs less often, but take too many useless ones
        (bench/notes/networks.md).
    count_weights, counts : tuple of float, Rule
        Weights of a label's log count to choose from, the default first: a network meets a rare label in too few
        batches to learn that it is rare.
    min_true : int
        With fewer true labels in the hold-out, scores are not corrected.
    """

    hidden: Rule = field(default_factory=lambda: Rule(MEAN_PRECISION, standard_errors=0.0))
    passes: Rule = field(default_factory=lambda: Rule(MEAN_PRECISION, standard_errors=1.0))
    count_weights: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75)
    counts: Rule = field(default_factory=lambda: Rule(MEAN_PRECISION))
    min_true: int = 100


@dataclass(frozen=True)
class ScoreCorrection:
    """Corrected scores: ``slope * (score + count_weight * log count) + shift``.

    `decision` is the choice of `count_weight`, if it was measured.
    """

    count_weight: float = 0.0
    slope: float = 1.0
    shift: float = 0.0
    decision: Decision | None = field(default=None, compare=False)

    def shifts(self, label_counts: I64) -> F32:
        """Return the constant that each label's score gains."""
        gained = np.float32(self.slope * self.count_weight) * log_counts(label_counts).astype(np.float32)
        return np.asarray(gained + np.float32(self.shift))


class HoldoutPrecision(NamedTuple):
    """P@1, P@3 and P@5 of each held-out point, (n, 3), of a network and of its wide path alone."""

    network: F64
    wide: F64

    def best(self) -> F64:
        """Return the mean of the three for each point, (n,), of the better one."""
        better = self.wide if self.wide.sum() > self.network.sum() else self.network
        return np.asarray(better.mean(axis=1))


class Verdict(NamedTuple):
    """The decisions of a trial.

    Attributes
    ----------
    hidden : Decision
        Whether hidden units stay.
    wide_precision : float
        P@1 of the wide path alone.
    passes : Decision or None
        Whether the epochs after the first one helped; None if that was not measured.
    """

    hidden: Decision
    wide_precision: float
    passes: Decision | None = None

    @property
    def drops(self) -> bool:
        """Return whether hidden units go."""
        return not self.hidden.value

    @property
    def ends(self) -> bool:
        """Return whether training ends early."""
        return self.passes is not None and not self.passes.value


@dataclass(frozen=True)
class Trial:
    """Measure on held-out points whether hidden units and further epochs help, and calibrate the scores.

    Hidden units find what labels have in common. Where labels have little in common and few points each, hidden units
    memorise points. After some epochs the trial shows whether the network is better without them. At the end it
    chooses the weight of label counts, and calibrates all scores.

    Attributes
    ----------
    epochs : int
        Epochs before the decision.
    held_out : Validation
        The points to measure on.
    calibrates : bool
        Whether to fit slope and shift of the scores; the weight of label counts is chosen in any case.
    may_end : bool
        Whether only one more epoch follows if nothing was gained since the first one. Learning rates fall to their end
        in it.
    rules : TrialRules
        The evidence that each decision needs.

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
    rules: TrialRules = field(default_factory=TrialRules)

    def __post_init__(self) -> None:
        integer("epochs", self.epochs, 1, MAX_WIDTH)
        if self.may_end and self.epochs == 1:
            raise ValueError("may_end compares with the first epoch: set epochs to 2 or more, or may_end=False")
        if len(self.held_out.features) == 0:
            raise ValueError("held_out has no points: there is nothing to measure on")

    def measure(self, network: Network, threads: int, on_block: Callable[[], None]) -> HoldoutPrecision:
        """Measure the network, and its wide path alone; `on_block` is called after each block of points."""
        features, truth = self.held_out.features, Rows.of(self.held_out.truth)
        k, paths = min(RANKS[-1], network.output.n_labels), (network, network.wide_alone())
        best = (path.topk(features, k, threads, lambda _: on_block())[0] for path in paths)
        return HoldoutPrecision(*(precisions(is_hit(labels, truth), RANKS) for labels in best))

    def decide(self, measured: HoldoutPrecision, first: F64 | None = None) -> Verdict:
        """Decide on hidden units and, given each point's precision after the `first` epoch, on further epochs."""
        by_hidden = {False: measured.wide.mean(axis=1), True: measured.network.mean(axis=1)}
        options = [Option("without hidden units", False), Option("with hidden units", True)]
        hidden, passes = choose(options, by_hidden.__getitem__, self.rules.hidden), None
        if first is not None:
            by_passes = {False: first, True: measured.best()}
            options = [Option("the first epoch", False), Option(f"the first {self.epochs} epochs", True)]
            passes = choose(options, by_passes.__getitem__, self.rules.passes)
        return Verdict(hidden, float(measured.wide[:, 0].mean()), passes)

    def correct(
        self, network: Network, label_counts: I64, threads: int, on_block: Callable[[], None]
    ) -> ScoreCorrection:
        """Choose the weight of label counts, and fit slope and shift of the scores."""
        if not gives_log_odds(network.output.loss):  # labels of one softmax have no probability of their own
            return ScoreCorrection()
        scored = self._scored(network, threads, on_block)
        if (scored.counts * scored.right).sum() < self.rules.min_true:
            return ScoreCorrection()
        logs = log_counts(label_counts).astype(np.float32)[scored.labels]
        options = [Option(f"log counts at {weight:g}", weight) for weight in self.rules.count_weights]
        decision = choose(options, lambda weight: scored.precision(np.float32(weight) * logs), self.rules.counts)
        if not self.calibrates:
            return ScoreCorrection(decision.value, decision=decision)
        scores, some = scored.scores + np.float32(decision.value) * logs, scored.counts > 0
        right, counts = scored.right[some], scored.counts[some]
        slope, shift = fit_platt(scores[some], right, counts=counts)
        return ScoreCorrection(decision.value, slope, shift, decision)

    def _scored(
        self,
        network: Network,
        threads: int,
        on_block: Callable[[], None],
        *,
        candidates: int = 32,
        others: int = 64,
        max_points: int = 4096,
    ) -> _HoldoutScores:
        """Score the best `candidates` of evenly spaced points, and a sample of their other labels.

        The sample has `others` missed true labels at most, and as many false ones, each with the number of labels that
        it represents.
        """
        rng = np.random.default_rng((0, 4))  # a stream of its own: data may have been drawn with the user's seed
        n, k = len(self.held_out.features), min(candidates, network.output.n_labels)
        chosen = np.unique(np.linspace(0, n - 1, max_points).astype(np.int64))
        features, truth = (rows.take(chosen) for rows in (self.held_out.features, Rows.of(self.held_out.truth)))
        scored, done = [], 0
        for block in network.blocks(features):
            units = network.hidden_units(block, threads)
            best = network.output.topk(block, units, k, threads)[0]
            labels, right, counts = _with_sample(best, truth.slice(done, done + len(block)), rng, others)
            scored.append((labels, network.output.scores_of(block, units, labels, threads), right, counts))
            done += len(block)
            on_block()
        return _HoldoutScores(k, *(np.concatenate(parts) for parts in zip(*scored, strict=True)))


class _HoldoutScores(NamedTuple):
    """Scored labels of held-out points, (n, c) each, which are true, and how many labels each represents.

    The first `k` columns hold the best labels, the others a sample of all other labels.
    """

    k: int
    labels: I32
    scores: F32
    right: Bools
    counts: F64

    def precision(self, gains: F32) -> F64:
        """Return the mean of P@1, P@3 and P@5 of each point, if the scores gain these numbers."""
        scores = (self.scores + gains)[:, : self.k]
        (ranked,) = best_first(scores, RANKS[-1], self.right[:, : self.k])
        return np.asarray(precisions(ranked, RANKS).mean(axis=1))


def _with_sample(best: I32, truth: Rows, rng: np.random.Generator, others: int) -> tuple[I32, Bools, F64]:
    """Append a sample of the missed true labels and of the false ones to the best labels.

    Also return which labels are true, and how many labels of the point each represents.
    """
    (n, k), width = best.shape, truth.width
    rows = np.arange(n, dtype=np.int64)[:, None] * width
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
    drawn_counts = neither * ((width - k - n_missed) / np.maximum(neither.sum(axis=1), 1))[:, None]
    counts = np.hstack((np.ones(best.shape), true_counts, drawn_counts))
    return labels, right & (counts > 0), counts
