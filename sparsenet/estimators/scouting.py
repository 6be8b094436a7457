"""How many passes few points are worth: found by a network that has gone without some of them.

On few points a pass is a few steps, and hundreds of steps are dozens of passes. Where labels tell little of each other
and what else points hold is chance, a network learns that by heart: after its second pass it answered points held out
worse from pass to pass, by 3 to 8 points of P@1 in the end. Elsewhere it went on to gain as much. No shape of data
tells which it is (bench/notes/networks.md, Passes over few points).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sparsenet.batches import Rows, share_right
from sparsenet.estimators.building import build
from sparsenet.estimators.fitting import Points, split
from sparsenet.estimators.settings import MOST_EPOCHS, TRIAL_AFTER, Settings
from sparsenet.model import Network
from sparsenet.progress import parts_done
from sparsenet.training import Progress, StopTraining, Trainer

F64 = NDArray[np.float64]
#: One point of so many is held out, where that makes FEWEST; and so many scores are computed after a pass, at most.
SHARE_APART, FEWEST, MOST_SCORES = 10, 400, 1 << 26
#: As many labels of each point are looked at as it has, up to so many.
RANKS = 5


def scouted(settings: Settings, points: Points, *, held: int, seed: int, threads: int) -> Settings:
    """Return the settings, with fewer passes, and perhaps without hidden units, where a trial says so.

    It is held where nothing else says how many passes there are to be, and where those over these points may be too
    many. A third of them are looked at. They are too many if after the last of these fewer labels of points held out
    are right than after the best one, by more than the standard error of the difference.
    """
    n_points, n_labels = len(points[0]), points[1].width
    n_held, n_epochs = n_points // SHARE_APART, settings.n_epochs(n_points)
    is_open = settings.epochs is None and settings.time_budget is None and n_epochs > MOST_EPOCHS
    if not is_open or n_held < FEWEST or n_held * n_labels > MOST_SCORES:
        return settings
    kept, apart = split(n_points, n_held, seed)
    rest, asked = ((points[0].take(some), points[1].take(some)) for some in (kept, apart))
    if len(rest[1].indices) == 0:
        return settings
    network, built = build(replace(settings, verbose=False), *rest, held=held, seed=seed, threads=threads)
    droppable = network.input is not None and settings.may_lose_hidden(n_labels)
    config = replace(built, epochs=n_epochs).training(len(rest[0]), seed=seed, threads=threads)
    most = -(-n_epochs // TRIAL_AFTER)
    with parts_done(most * len(rest[0]), f"{most} passes to see how many to take", settings.verbose) as told:
        watch = _Watch(network, *asked, threads, most, told, alone=droppable)
        Trainer(network, *rest, config, callbacks=[watch]).run()
    return watch.chosen(settings)


class _Watch:
    """A callback that asks a network, after each of its first passes, for the labels of points held out."""

    def __init__(
        self,
        network: Network,
        features: Rows,
        labels: Rows,
        threads: int,
        most: int,
        told: Callable[[float], object],
        *,
        alone: bool,
    ) -> None:
        self.network, self.features, self.labels, self.threads, self.most = network, features, labels, threads, most
        self.told, self.done = told, 0
        self.with_hidden: list[F64] = []
        self.without: list[F64] = []
        self.alone = alone

    def on_batch(self, progress: Progress) -> None:
        """Tell how much is done."""
        self.told(progress.points - self.done)
        self.done = progress.points

    def on_epoch(self, record: dict[str, float]) -> None:
        """Ask, and stop when enough passes have been looked at."""
        self.with_hidden.append(self._answered(self.network))
        if self.alone:
            self.without.append(self._answered(self.network.wide_alone()))
        if len(self.with_hidden) == self.most:
            raise StopTraining

    def chosen(self, settings: Settings) -> Settings:
        """Return settings as the passes looked at want them."""
        best = int(np.argmax([answered.sum() for answered in self.with_hidden]))
        lost = self.with_hidden[best] - self.with_hidden[-1]
        if lost.sum() <= math.sqrt(np.square(lost).sum()):
            return settings
        shares = [f"{100 * self.with_hidden[at].mean():.1f} % after {at + 1}" for at in (best, self.most - 1)]
        why = f"of labels of points kept from a first training, {' and '.join(shares)} passes were right"
        if not self.without or self.without[best].sum() < self.with_hidden[best].sum():
            return replace(settings, epochs=best + 1, because={"epochs": why})
        return replace(settings, epochs=best + 1, hidden=(), because={"epochs": why, "hidden": why})

    def _answered(self, network: Network) -> F64:
        """Return which share of as many labels of each point as it has, its best ones, are right."""
        return share_right(network.topk(self.features, min(RANKS, self.labels.width), self.threads)[0], self.labels)
