"""Choose the passes over few points, and whether hidden units help, by a first training on nine tenths of them.

On few points, hundreds of steps are dozens of passes. Where labels have little in common a network memorises the
points, and its held-out precision falls after the second pass; elsewhere it keeps rising. The shape of the data does
not predict which (bench/notes/networks.md, Passes over few points).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sparsenet.core.memory import own_bytes
from sparsenet.core.progress import parts_done
from sparsenet.core.ranked import share_right
from sparsenet.core.rows import Rows
from sparsenet.engines.network.building import build
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.options import AUTO, NetworkOptions
from sparsenet.engines.network.training import Progress, StopTraining, Trainer
from sparsenet.features.targets import Points
from sparsenet.kernels.types import F64
from sparsenet.selection.choose import Decision, Option, Rule, choose
from sparsenet.selection.holdout import split

#: When fewer passes, or no hidden units, replace the default.
BEYOND_CHANCE = Rule("share of right labels", standard_errors=2.0)


def scout(
    options: NetworkOptions,
    points: Points,
    *,
    held: int,
    seed: int,
    threads: int,
    one_in: int = 10,
    least_held: int = 400,
    most_scores: int = 1 << 27,
) -> NetworkOptions:
    """Return the options, with fewer passes or without hidden units if that is better in a first training.

    It runs a third of the passes. It is skipped if the number of passes is given, or too small to do harm.

    Parameters
    ----------
    held : int
        Bytes that the caller holds.
    one_in, least_held : int
        One point in `one_in` is held out; with fewer than `least_held` of these there is no first training.
    most_scores : int
        Bound of the scores computed after a pass.
    """
    n_points, n_labels = len(points[0]), points[1].width
    n_held, n_epochs = min(n_points // one_in, most_scores // n_labels), options.n_epochs(n_points)
    is_open = options.epochs is None and options.time_budget is None and n_epochs > AUTO.most_epochs
    if not is_open or n_held < least_held:
        return options
    kept, apart = split(n_points, n_held, seed)
    rest, held_out = ((points[0].take(some), points[1].take(some)) for some in (kept, apart))
    if len(rest[1].indices) == 0:
        return options
    held += own_bytes([*rest, *held_out])
    network, built = build(replace(options, verbose=False), *rest, held=held, seed=seed, threads=threads)
    config = replace(built, epochs=n_epochs).training(len(rest[0]), seed=seed, threads=threads)
    most = -(-n_epochs // AUTO.trial_after)
    with parts_done(most * len(rest[0]), f"{most} passes to see how many to take", options.verbose) as report:
        alone = network.input is not None and options.may_lose_hidden(n_labels)
        watch = _Watch(network, *held_out, threads, most, report, alone=alone)
        Trainer(network, *rest, config, callbacks=[watch]).run()
    return watch.chosen(options)


class _Watch:
    """A callback that measures a network on held-out points after each of its first passes."""

    def __init__(
        self,
        network: Network,
        features: Rows,
        labels: Rows,
        threads: int,
        most: int,
        report: Callable[[float], object],
        *,
        alone: bool,
    ) -> None:
        self.network, self.features, self.labels, self.threads, self.most = network, features, labels, threads, most
        self.report, self.done = report, 0
        self.with_hidden: list[F64] = []
        self.without: list[F64] = []
        self.alone = alone

    def on_batch(self, progress: Progress) -> None:
        """Report the points done."""
        self.report(progress.points - self.done)
        self.done = progress.points

    def on_epoch(self, record: dict[str, float]) -> None:
        """Measure, and stop after enough passes."""
        self.with_hidden.append(self._measured(self.network))
        if self.alone:
            self.without.append(self._measured(self.network.wide_alone()))
        if len(self.with_hidden) == self.most:
            raise StopTraining

    def chosen(self, options: NetworkOptions) -> NetworkOptions:
        """Return the options after two decisions: hidden units, each path at its best pass, and the passes."""
        measured, because = self.with_hidden, dict(options.because)
        if self.without:
            both, alone = (max(series, key=np.sum) for series in (self.with_hidden, self.without))
            hidden = _compared("with hidden units", both, "without hidden units", alone)
            if hidden.value is alone:
                measured, because["hidden"] = self.without, hidden
                options = replace(options, hidden=())
        best = int(np.argmax([own.sum() for own in measured]))
        epochs = _compared(f"{self.most} passes", measured[-1], f"{best + 1} passes", measured[best])
        if best + 1 < self.most and epochs.value is measured[best]:
            because["epochs"] = epochs
            options = replace(options, epochs=best + 1)
        return replace(options, because=because)

    def _measured(self, network: Network, most: int = 5) -> F64:
        """Return the share of right labels among the best of each point, as many as it has, `most` at most."""
        return share_right(network.topk(self.features, min(most, self.labels.width), self.threads)[0], self.labels)


def _compared(default: str, usual: F64, name: str, measured: F64) -> Decision:
    decision = choose([Option(default, usual), Option(name, measured)], lambda own: own, BEYOND_CHANCE)
    return decision._replace(why=f"{decision.why} of a first training")
