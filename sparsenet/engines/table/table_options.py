"""How a table's model is chosen and trained."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.engines.boosting.fit_boosting import BoostingRules
from sparsenet.engines.table.logistic import LogisticRules
from sparsenet.engines.table.table_points import TablePoints
from sparsenet.kernels.types import F64, I32
from sparsenet.selection.choose import Rule
from sparsenet.selection.holdout import Holdout
from sparsenet.selection.turns import Turns

#: The kinds of models; the first two need exactly one class a row.
METHODS = ("boosting", "linear", "blend", "network", "tree")
ONE_CLASS_ONLY = ("boosting", "linear")
#: Methods with a setting that held-out rows choose, and its name.
SETTINGS = {"linear": "cost", "boosting": "rounds"}


@dataclass(frozen=True)
class TableOptions:
    """How a table's model is chosen and trained.

    Attributes
    ----------
    method : str
        One of `METHODS`, or "auto".
    verbose : bool, optional
    turns : Turns
        The number of held-out rows.
    retrain_share : float
        The winner is trained again on all rows if at least this share was held out.
    better : Rule
        The evidence for another model than the usual one. All cost about the same, so the better one wins.
    larger : Rule
        The evidence for the next larger cost of regression, or number of rounds of boosting.
    max_linear : float
        Entries of all rows plus ten for each feature, times classes, above which softmax regression is left out: it
        takes minutes. L-BFGS goes over the weights about ten times a step.
    max_boosting : float
        Rows, plus 8,192 for the histograms, times columns times classes, likewise for boosting.
    """

    method: str = "auto"
    verbose: bool | None = None
    turns: Turns = field(default_factory=Turns)
    retrain_share: float = 0.05
    better: Rule = field(default_factory=lambda: Rule("accuracy and Brier score", standard_errors=0.5))
    larger: Rule = field(default_factory=lambda: Rule("accuracy and Brier score", standard_errors=0.0))
    boosting: BoostingRules = field(default_factory=BoostingRules)
    linear: LogisticRules = field(default_factory=LogisticRules)
    max_linear: float = 1e7
    max_boosting: float = 3e7

    def draw(self, labels: Rows, seed: int, times: F64 | None = None) -> list[Holdout]:
        """Draw the parts to hold out, one after the other; none of few rows.

        With `times`, as for rows that look back on a history, the last rows are held out: new rows are later, too.
        """
        if times is None or len(labels) < self.turns.fewest:
            return self.turns.draw(labels, seed)
        n_held, _ = self.turns.sizes(len(labels))
        return [Holdout.draw(len(labels), n_held, seed, strategy="time", by=times)]

    def rule(self, *, exclusive: bool) -> Rule:
        """Return the evidence for another option than the first, by the scores of `HeldAnswers`."""
        return self.better if exclusive else replace(self.better, metric="mean of P@1, P@3 and P@5")

    def left_out(self, points: TablePoints, labels: Rows, *, exclusive: bool) -> dict[str, str]:
        """Return the methods to leave out under "auto", and why."""
        if not exclusive:
            return dict.fromkeys(ONE_CLASS_ONLY, "rows may have several labels")
        n_seen = len(np.unique(labels.indices))
        if n_seen < 2:
            return dict.fromkeys(ONE_CLASS_ONLY, "there is only one class")
        found = {}
        work = (len(points) + 8192) * points.matrix.shape[1] * n_seen
        if points.matrix.shape[1] == 0:
            found["boosting"] = "no column is a number or a category"
        elif work > self.max_boosting:
            found["boosting"] = f"{len(points):,} rows x {points.matrix.shape[1]} columns x {n_seen:,} classes"
        entries, width = len(points.rows.indices), points.rows.width
        if (entries + 10 * width) * n_seen > self.max_linear:
            found["linear"] = f"{entries:,} entries of {width:,} features x {n_seen:,} classes"
        return found


class Labelled(NamedTuple):
    """Points, their labels, and their times if they look back on a history."""

    points: TablePoints
    labels: Rows
    times: F64 | None = None

    @property
    def single(self) -> I32:
        """The label of each point, if each has exactly one."""
        return self.labels.indices

    def take(self, numbers: np.ndarray) -> Labelled:
        """Gather points by number."""
        times = None if self.times is None else self.times[numbers]
        return Labelled(self.points.take(numbers), self.labels.take(numbers), times)
