"""Train a network: `fit` from the start, `fit_more` continues."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from sparsenet.core.memory import bytes_in_memory, own_bytes
from sparsenet.core.progress import is_wanted
from sparsenet.core.rows import transpose
from sparsenet.core.tasks import TaskRunner
from sparsenet.engines.network import scouting, sizing
from sparsenet.engines.network.auto_rules import AUTO
from sparsenet.engines.network.building import (
    GROWING_BYTES,
    build,
    check_memory,
    fits_further,
    largest_support,
    memory_limit,
    outline,
    reconfigure,
)
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.network_holdout import TrainingPoints, split_points
from sparsenet.engines.network.optim import Schedule
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.network.shards import open_shards
from sparsenet.engines.network.training.progress_bar import ProgressBar
from sparsenet.engines.network.training.reports import Callback, check_callbacks
from sparsenet.engines.network.training.trainer import Trainer
from sparsenet.features.kinds import are_dense
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.scaling import Scaling
from sparsenet.features.targets import LoadedPoints, Points, Target
from sparsenet.selection.choose import Decision
from sparsenet.selection.holdout import Holdout


@dataclass(frozen=True)
class FittedNetwork:
    """A trained network with the scaling of X and the encoding of y.

    Attributes
    ----------
    network : Network
    target : Target
        The labels.
    scaling : Scaling
    seen : LabelStats
        Statistics of the training points.
    history : sequence of dict
        The measurements of each epoch.
    steps : int
        Steps in the optimizers' states; 0 once those are dropped.
    calls : int
        Number of training calls; each draws other random numbers.
    finished : bool
        Whether `fit` trained it to the end, where learning rates are nearly zero.
    choices : mapping
        The decision on each "auto" parameter.
    """

    network: Network
    target: Target
    scaling: Scaling
    seen: LabelStats
    history: Sequence[dict[str, Any]] = ()
    steps: int = 0
    calls: int = 0
    finished: bool = False
    choices: Mapping[str, Decision] = field(default_factory=dict)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a pickle; version 0.1 kept choices as pairs."""
        choices = {name: Decision(*own) for name, own in state.get("choices", {}).items()}
        self.__dict__.update(state, choices=choices)

    @property
    def rates(self) -> Schedule:
        """Return the learning rates of further training."""
        return Schedule(decay="constant", peak=AUTO.rate_after_fit if self.finished else 1.0)

    def after(self, trainer: Trainer, *, keep_state: bool) -> FittedNetwork:
        """Record a training run; without optimizer state, training on gives the same as after saving and loading."""
        made = {**self.choices, **sizing.explain_hashing(self.network), **sizing.explain_trial(trainer)}
        if not self.network.output.n_inputs:
            made.pop("learning_rate", None)  # the deep weights are gone
        if not keep_state:
            self.network.drop_state()
        before = len(self.history)  # epochs are counted on
        later = [{**record, "epoch": before + record["epoch"]} for record in trainer.history]
        steps, history = trainer.steps if keep_state else 0, [*self.history, *later]
        return replace(self, history=history, steps=steps, calls=self.calls + 1, choices=made)


class InterruptedFit(KeyboardInterrupt):
    """Ctrl-C during training; `fitted` is the network so far."""

    def __init__(self, fitted: FittedNetwork) -> None:
        super().__init__()
        self.fitted = fitted

    @property
    def original(self) -> BaseException:
        """The exception that ended training: of Ctrl-C, or of a callback."""
        return self.__cause__ or self


def fit(
    points: Points,
    options: NetworkOptions,
    *,
    seed: int,
    threads: int,
    target: Target | None = None,
    scaling: Scaling | None = None,
    seen: LabelStats | None = None,
    validation: LoadedPoints | None = None,
    holdout: Holdout | None = None,
    callbacks: Sequence[Callback] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    trained_for: str = "ExtremeClassifier",
    calibrates: bool = True,
    shared: Sequence[NDArray[Any]] = (),
    held: Mapping[str, int] | None = None,
    started: float | None = None,
    scouting_holdout: Holdout | None = None,
    on_pilot: Callable[[Network], object] | None = None,
    runner: TaskRunner | None = None,
) -> FittedNetwork:
    """Train a network on rows of features and labels, from the start.

    Parameters
    ----------
    points : (Rows, Rows)
        Features, scaled, and labels.
    options : NetworkOptions
    target, scaling, seen :
        Kept with the result; by default labels are column numbers and features are unscaled.
    validation : (Rows, Rows), optional
        Measured after each epoch; the best epoch by P@1 is kept.
    holdout : Holdout, optional
        Points not to train on, for the trial of hidden units; drawn here if None.
    checkpoint, resume :
        Directory of the run's state, and whether to continue from it.
    trained_for : str
        Name of the classifier in checkpoints.
    calibrates : bool
        Whether to fit probabilities, given held-out points.
    shared : arrays
        Memory of the caller, not counted as held for training.
    held : mapping, optional
        Bytes that the caller holds, by purpose.
    started : float, optional
        `time.perf_counter` at which a time budget began; now by default.
    scouting_holdout : Holdout, optional
        Points that a pilot run is measured on; drawn here if None.
    on_pilot : function, optional
        Receives the network of a pilot run as it was measured; training may go on from it.
    runner : TaskRunner, optional
        Where the output layer is trained, in shards; see `NetworkOptions.check_sharded`. By default in this process.
    """
    started = time.perf_counter() if started is None else started
    n_labels = points[1].width
    target = Target.of_columns(n_labels) if target is None else target
    scaling = Scaling("none") if scaling is None else scaling
    seen = LabelStats.of_rows(points[0].width, n_labels) if seen is None else seen
    split = split_points(options, points, validation, holdout, seed, scouting_holdout)
    points = split.train
    options = options.for_points(len(points[0]), dense=are_dense(points[0]))
    own = own_bytes([*points, *[part.features for part in (split.validation, split.held_out) if part]], shared)
    held = {**(held or {}), "points": (held or {}).get("points", 0) + own}
    given = options
    if resume and checkpoint is not None:
        options = sizing.resumed_options(options, checkpoint, len(points[0]))
    held_out, before = split.held_out if options.may_lose_hidden(n_labels) else None, None
    if held_out is None:  # a trial would decide the same
        options, before, held = _scouted(options, given, split, on_pilot, held=held, seed=seed, threads=threads)
    if before is not None:
        network, options = before.network, replace(before.options, resumed=options.resumed)
        if network.output.wide:
            network.output.wide.grow(points[0], transpose(points[1]), threads)
    else:
        network, options = build(
            *(options, *points),
            held=held,
            seed=seed,
            threads=threads,
            scored=held_out is not None,
            keep_best=split.validation is not None,
            sharded=runner is not None and checkpoint is None,
            time_left=lambda: options.time_left(time.perf_counter() - started),
        )
    made = sizing.explain_sizes(options, network, scaling, len(points[0]))
    sizing.report_choices(made, options.verbose)
    finished = options.schedule.decay != "constant"
    fitted = FittedNetwork(network, target, scaling, seen.with_points(*points), finished=finished, choices=made)
    config = options.training(len(points[0]), seed=seed, threads=threads)
    with progress_callbacks(options, callbacks) as all_callbacks, open_shards(network, runner, threads) as shards:
        left = options.time_left(time.perf_counter() - started)
        if network.input is None and left is not None:
            held_out = None  # no hidden units in this time, so nothing to compare
        trainer = Trainer(
            *(network, *points, config),
            validation=split.validation,
            trial=options.trial(len(points[0]), held_out, calibrates) if held_out else None,
            callbacks=all_callbacks,
            checkpoint=checkpoint,
            time_budget=left,
            classifier=trained_for,
            after=None if before is None else before.run,
            shards=shards,
        )
        if resume:
            trainer.resume()
        try:
            trainer.run()
        except KeyboardInterrupt as interrupt:
            if shards is not None and shards.are_away:
                raise  # the weights are lost
            raise InterruptedFit(replace(fitted.after(trainer, keep_state=False), finished=False)) from interrupt
        fitted = fitted.after(trainer, keep_state=False)
    changed = {name: found for name, found in fitted.choices.items() if made.get(name) != found}
    sizing.report_choices(changed, options.verbose)
    return fitted


def _scouted(
    options: NetworkOptions,
    given: NetworkOptions,
    split: TrainingPoints,
    on_pilot: Callable[[Network], object] | None,
    *,
    held: Mapping[str, int],
    seed: int,
    threads: int,
) -> tuple[NetworkOptions, scouting.Pilot | None, Mapping[str, int]]:
    """Make a pilot run if it may decide anything or is wanted.

    Return the options by it, the pilot if training goes on from it, and the bytes held then. `given` has the options
    of the caller, `options` also the sizes of a resumed run.
    """
    may_go_on = options.follows_pilot or not options.resumed  # free memory may differ, so a resumed run does the same
    if not may_go_on and on_pilot is None:
        return options, None, held
    # The pilot of a resumed run has the sizes of that run, unless a pilot found no use for hidden units.
    free = replace(options, epochs=given.epochs, hidden=options.hidden or given.hidden)
    scouted, pilot = scouting.scout(free, split, held=held, seed=seed, threads=threads)
    options = scouted if options.epochs is None else options  # a resumed run has its number already
    if pilot is None:
        return options, None, held
    arrays = (array for parameter in pilot.network.parameters() for array in parameter.arrays())
    kept = 0 if on_pilot is None else bytes_in_memory(arrays)
    how: dict[str, Any] = {"held": held, "scored": False, "threads": threads, "copied": kept}
    how["must_fit"] = options.follows_pilot
    goes_on = may_go_on and pilot.run is not None and fits_further(pilot.network, pilot.options, *split.train, **how)
    if on_pilot is not None:
        on_pilot(pilot.network.copy() if goes_on else pilot.network)
    return options, pilot if goes_on else None, {**held, "pilot network": kept}


def fit_first(
    points: Points,
    options: NetworkOptions,
    *,
    seed: int,
    threads: int,
    target: Target,
    scaling: Scaling,
    seen: LabelStats,
    shared: Sequence[NDArray[Any]] = (),
) -> FittedNetwork:
    """Train one epoch at a constant learning rate over the first batch of points, and keep the optimizers' state."""
    options = options.for_points(len(points[0]), dense=are_dense(points[0]))
    network, options = build(options, *points, held={"points": own_bytes(points, shared)}, seed=seed, threads=threads)
    made = sizing.explain_sizes(options, network, scaling, len(points[0]))
    made.pop("epochs", None)  # a call trains one epoch
    return _one_pass(FittedNetwork(network, target, scaling, seen, choices=made), options, points, seed, threads)


def fit_more(
    fitted: FittedNetwork, points: Points, options: NetworkOptions, *, seed: int, threads: int
) -> FittedNetwork:
    """Train one epoch on further points; `options` come from `sizing.fitted_options`."""
    width = points[0].width
    made = outline(options, width, fitted.seen.label_counts, fitted.seen.n_points, seed, threads)
    reconfigure(fitted.network, made, options)
    grow(fitted.network, options, points, threads)
    return _one_pass(fitted, options, points, seed, threads)


def _one_pass(fitted: FittedNetwork, options: NetworkOptions, points: Points, seed: int, threads: int) -> FittedNetwork:
    config = options.one_pass(fitted.rates, seed=seed, threads=threads)
    trainer = Trainer(fitted.network, *points, config, steps_before=fitted.steps)
    fitted = replace(fitted, seen=fitted.seen.with_points(*points))
    try:
        trainer.run()
    except KeyboardInterrupt as interrupt:
        raise InterruptedFit(fitted.after(trainer, keep_state=True)) from interrupt
    return fitted.after(trainer, keep_state=True)


def grow(network: Network, options: NetworkOptions, points: Points, threads: int) -> None:
    """Prepare a trained network for new points: writable weights, and room in the wide path."""
    for parameter in network.parameters():
        if not parameter.value.flags.writeable:  # joblib maps models from disk read-only
            parameter.value = parameter.value.copy()
            parameter.state = {name: array.copy() for name, array in parameter.state.items()}
    wide = network.output.wide
    if wide:
        features, label_points = points[0], transpose(points[1])
        support = len(wide.indices) + largest_support(options, features, label_points)
        needed = {"new features of labels": GROWING_BYTES * support}
        if options.memory_limit is not None:  # it includes the existing model
            needed["model"] = network.nbytes
        check_memory(needed, options, memory_limit(options))
        wide.configure(replace(wide.config, budget=options.wide_budget))
        wide.grow(features, label_points, threads)


@contextmanager
def progress_callbacks(options: NetworkOptions, callbacks: Sequence[Callback]) -> Iterator[list[Callback]]:
    """Add a progress bar to the callbacks, if one is wanted, and close it at the end."""
    if not is_wanted(options.verbose):
        yield check_callbacks(callbacks)
        return
    with ProgressBar() as bar:
        yield [*check_callbacks(callbacks), bar]
