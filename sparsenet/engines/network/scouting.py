"""Choose the number of epochs on few points, and whether hidden units help, by a pilot run on nine tenths of them.

On few points, hundreds of steps are dozens of epochs. Where labels have little in common a network memorises the
points, and its held-out precision falls after the second epoch; elsewhere it keeps rising. The shape of the data does
not predict which (bench/notes/networks.md, Passes over few points).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sparsenet.core.memory import arrays_of, own_bytes
from sparsenet.core.progress import parts_done
from sparsenet.core.ranked import share_right
from sparsenet.engines.network.building import build
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.network_holdout import TrainingPoints
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.network.training import EndedRun, Progress, StopTraining, Trainer
from sparsenet.features.targets import LoadedPoints
from sparsenet.kernels.types import F64
from sparsenet.selection.choose import Decision, Option, Rule, choose


class Pilot(NamedTuple):
    """The network of a pilot run as it was measured; `run` if training can go on from it, with `options`."""

    network: Network
    run: EndedRun | None
    options: NetworkOptions


def scout(
    options: NetworkOptions, points: TrainingPoints, *, held: Mapping[str, int], seed: int, threads: int
) -> tuple[NetworkOptions, Pilot | None]:
    """Return the options, with fewer epochs or without hidden units if a pilot run is better that way, and the pilot.

    The pilot runs a third of the epochs. It is skipped if the number of epochs is given, or too small to overfit.
    If nothing else is better, training goes on from it. `held` are the bytes that the caller holds, by purpose.
    """
    n_points, n_labels = len(points.train[0]), points.train[1].width
    split = points.for_scouting() if options.scouts(n_points) else None
    if split is None:
        return options, None
    rest, held_out = split
    if len(rest[1].indices) == 0 or len(held_out[0]) * n_labels > options.rules.scouting_max_scores:
        return options, None
    own = own_bytes([*rest, *held_out], arrays_of(*points.train))
    held = {**held, "points": held.get("points", 0) + own}
    network, built = build(replace(options, verbose=False), *rest, held=held, seed=seed, threads=threads)
    n_epochs = options.n_epochs(n_points)
    config = replace(built, epochs=n_epochs).training(len(rest[0]), seed=seed, threads=threads)
    n_pilot_epochs = -(-n_epochs // options.rules.trial_after)
    may_lose_hidden = network.input is not None and options.may_lose_hidden(n_labels)
    with parts_done(
        n_pilot_epochs * len(rest[0]), f"{n_pilot_epochs} epochs to see how many to run", options.verbose
    ) as report:
        recorder = _EpochRecorder(network, held_out, threads, n_pilot_epochs, report, may_lose_hidden=may_lose_hidden)
        run = Trainer(network, *rest, config, callbacks=[recorder])
        run.run()
    decided = decide(options, recorder.with_hidden, recorder.without)
    if decided.epochs is None and decided.hidden == options.hidden:
        further = replace(built, because=decided.because, verbose=options.verbose)
        return decided, Pilot(network, EndedRun(run.history, run.steps), further)  # without the points of the run
    network.drop_state()
    measured = network if decided.hidden or network.input is None else network.wide_alone()
    return decided, Pilot(measured, None, decided)


class _EpochRecorder:
    """A callback that measures a network on held-out points after each of its first epochs."""

    def __init__(
        self,
        network: Network,
        held_out: LoadedPoints,
        threads: int,
        n_pilot_epochs: int,
        report: Callable[[float], object],
        *,
        may_lose_hidden: bool,
    ) -> None:
        self.network, self.held_out, self.threads, self.n_pilot_epochs = network, held_out, threads, n_pilot_epochs
        self.report, self.done = report, 0
        self.with_hidden: list[F64] = []
        self.without: list[F64] = []
        self.may_lose_hidden = may_lose_hidden

    def on_batch(self, progress: Progress) -> None:
        """Report the points done."""
        self.report(progress.points - self.done)
        self.done = progress.points

    def on_epoch(self, record: dict[str, float]) -> None:
        """Measure, and stop after enough epochs."""
        self.with_hidden.append(self._share_right(self.network))
        if self.may_lose_hidden:
            self.without.append(self._share_right(self.network.wide_alone()))
        if len(self.with_hidden) == self.n_pilot_epochs:
            raise StopTraining

    def _share_right(self, network: Network, k: int = 5) -> F64:
        """Return each point's fraction of right labels among its best ones: as many as it has, but at most `k`."""
        features, labels = self.held_out
        return share_right(network.topk(features, min(k, labels.width), self.threads)[0], labels)


def decide(options: NetworkOptions, with_hidden: Sequence[F64], without: Sequence[F64] = ()) -> NetworkOptions:
    """Choose hidden units, each path at its best epoch, and then the number of epochs.

    Both sequences hold the scores of each held-out point after each epoch; `without` is empty if hidden units stay.
    """
    measured, because = with_hidden, dict(options.because)
    if without:
        both, alone = (max(series, key=np.sum) for series in (with_hidden, without))
        hidden = _compared("with hidden units", both, "without hidden units", alone, options.rules.scouting)
        because["hidden"] = hidden
        if hidden.value:
            measured, options = without, replace(options, hidden=())
    *earlier, last = measured
    if earlier:
        best = int(np.argmax([scores.sum() for scores in earlier]))
        epochs = _compared("all epochs", last, f"{best + 1} epochs", earlier[best], options.rules.scouting)
        because["epochs"] = epochs
        if epochs.value:
            options = replace(options, epochs=best + 1)
    return replace(options, because=because)


def _compared(default: str, baseline: F64, name: str, measured: F64, rule: Rule) -> Decision:
    """Decide whether the measured option replaces the default."""
    decision = choose([Option(default, False), Option(name, True)], {False: baseline, True: measured}.__getitem__, rule)
    return decision._replace(why=f"in a pilot run, {decision.why}")
