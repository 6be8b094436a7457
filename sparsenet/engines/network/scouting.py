"""How many passes few points are worth, and what hidden units: found by a network that has gone without some of them.

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

from sparsenet.core.memory import own_bytes
from sparsenet.core.progress import parts_done
from sparsenet.core.ranked import share_right
from sparsenet.core.rows import Rows
from sparsenet.engines.network.building import build
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.options import MOST_EPOCHS, TRIAL_AFTER, NetworkOptions
from sparsenet.engines.network.training import Progress, StopTraining, Trainer
from sparsenet.features.targets import Points
from sparsenet.kernels.types import F64
from sparsenet.selection.holdout import split

#: One point of so many is held out, where that makes FEWEST; and so many scores are computed after a pass, at most.
SHARE_APART, FEWEST, MOST_SCORES = 10, 400, 1 << 27
#: As many labels of each point are looked at as it has, up to so many; and a difference of fewer standard errors than
#: these is taken for chance.
RANKS, STANDARD_ERRORS = 5, 2.0


def scouted(settings: NetworkOptions, points: Points, *, held: int, seed: int, threads: int) -> NetworkOptions:
    """Return the settings, perhaps with fewer passes or without hidden units, where a first training says so.

    There is one where nothing else says how many passes there are to be, and those over these points may be too many.
    A third of them are looked at.
    """
    n_points, n_labels = len(points[0]), points[1].width
    n_held, n_epochs = min(n_points // SHARE_APART, MOST_SCORES // n_labels), settings.n_epochs(n_points)
    is_open = settings.epochs is None and settings.time_budget is None and n_epochs > MOST_EPOCHS
    if not is_open or n_held < FEWEST:
        return settings
    kept, apart = split(n_points, n_held, seed)
    rest, asked = ((points[0].take(some), points[1].take(some)) for some in (kept, apart))
    if len(rest[1].indices) == 0:
        return settings
    held += own_bytes([*rest, *asked])
    network, built = build(replace(settings, verbose=False), *rest, held=held, seed=seed, threads=threads)
    config = replace(built, epochs=n_epochs).training(len(rest[0]), seed=seed, threads=threads)
    most = -(-n_epochs // TRIAL_AFTER)
    with parts_done(most * len(rest[0]), f"{most} passes to see how many to take", settings.verbose) as told:
        alone = network.input is not None and settings.may_lose_hidden(n_labels)
        watch = _Watch(network, *asked, threads, most, told, alone=alone)
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

    def chosen(self, settings: NetworkOptions) -> NetworkOptions:
        """Return settings as the passes looked at want them.

        Hidden units go where more labels are right without them, each at best, and passes are too many where after the
        last of them fewer are right than after the best one.
        """
        where, answered, because = "on points kept from a first training", self.with_hidden, dict(settings.because)
        if self.without:
            both, alone = (max(series, key=np.sum) for series in (self.with_hidden, self.without))
            if _is_more(alone, both):
                answered = self.without
                shares = [f"{100 * own.mean():.1f} %" for own in (both, alone)]
                because["hidden"] = f"labels right: {shares[0]} with the deep path, {shares[1]} without it, {where}"
                settings = replace(settings, hidden=())
        best = int(np.argmax([own.sum() for own in answered]))
        if _is_more(answered[best], answered[-1]):
            shares = [f"{100 * answered[at].mean():.1f} % after {at + 1}" for at in (best, self.most - 1)]
            because["epochs"] = f"labels right: {' and '.join(shares)} passes, {where}"
            settings = replace(settings, epochs=best + 1)
        return replace(settings, because=because)

    def _answered(self, network: Network) -> F64:
        """Return which share of as many labels of each point as it has, its best ones, are right."""
        return share_right(network.topk(self.features, min(RANKS, self.labels.width), self.threads)[0], self.labels)


def _is_more(answered: F64, others: F64) -> bool:
    """Tell whether more is right than by the others, and not by chance."""
    gains = answered - others
    return float(gains.sum()) > STANDARD_ERRORS * math.sqrt(np.square(gains).sum())
