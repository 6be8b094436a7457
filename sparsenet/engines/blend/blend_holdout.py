"""The hold-out of a blend: its size, and what the blend answers on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sparsenet.core.ranked import precisions
from sparsenet.core.rows import Rows
from sparsenet.engines.network.auto_rules import AUTO, AutoRules
from sparsenet.kernels.types import F32, F64, I32, I64, Bools
from sparsenet.metrics.ranking import RANKS
from sparsenet.selection.holdout import Holdout, Strategy


def mean_precision(hits: Bools, ranks: Sequence[int] = RANKS) -> F64:
    """Return the mean of P@k over the ranks k for each point; `hits` (n, k) are ranked."""
    return np.asarray(precisions(hits[:, : max(ranks)], ranks).mean(axis=1))


class HoldoutAnswers(NamedTuple):
    """The candidates of held-out points, best first, ranked by a blend that has not seen them.

    Attributes
    ----------
    held : ndarray of shape (n,)
        Numbers of the points.
    labels, probabilities, hits : ndarrays of shape (n, k)
        The labels, their probabilities, and whether they are true.
    """

    held: I64
    labels: I32
    probabilities: F32
    hits: Bools

    def precision(self, ranks: Sequence[int] = RANKS) -> F64:
        """Return the mean of P@k over the ranks k, for each point."""
        return mean_precision(self.hits, ranks)


class BlendHoldout(NamedTuple):
    """The hold-out, and whether it is for good: the final network and tree are trained without it then."""

    points: Holdout | None = None
    for_good: bool = False

    @property
    def without(self) -> Holdout | None:
        """The hold-out that the final parts are trained without; None if they learn all points."""
        return self.points if self.for_good else None


@dataclass(frozen=True)
class HoldoutSize:
    """The size of the hold-out.

    From `enough` points on, as many are held out for good as for the trial of a network, by `rules`. With fewer points
    a tenth is held out, if that is at least `min_held_of_few`. Then a second network and a second tree are trained
    without the hold-out, and the final ones on all points.
    """

    rules: AutoRules = AUTO
    enough: int = 1 << 13
    min_held_of_few: int = 128

    def draw(self, labels: Rows, seed: int, times: F64 | None = None) -> BlendHoldout:
        """Draw the hold-out, the last points if they have times.

        There is none if too few points, or no labels, would be left on either side.
        """
        n = len(labels)
        for_good = n >= self.enough
        n_held = self.rules.n_held(n) if for_good else n // 10
        if n_held < self.min_held_of_few:
            return BlendHoldout()
        # Scouting also holds out a tenth of few points, with the same seed: those here must be others.
        strategy: Strategy = "random" if times is None else "time"
        holdout = Holdout.draw(n, n_held, seed if for_good else seed + 1, strategy, times)
        has_label = np.diff(labels.indptr) > 0
        if not (has_label[holdout.kept].any() and has_label[holdout.held].any()):
            return BlendHoldout()
        return BlendHoldout(holdout, for_good)
