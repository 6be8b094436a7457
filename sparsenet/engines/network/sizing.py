"""Choose the size of a network by memory and time, and explain each choice."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sparsenet.core.batches import Batcher, Workspace
from sparsenet.core.progress import is_wanted
from sparsenet.core.rows import Rows, RowSource
from sparsenet.engines.network.layers import Pass
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.optim import SGD, Adagrad, Adam
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.network.samplers import AllSampler, LSHSampler
from sparsenet.engines.network.training import Trainer, checkpoints
from sparsenet.engines.network.training.fingerprint import RESTART
from sparsenet.features.scaling import Scaling
from sparsenet.index.hashing import TABLES
from sparsenet.selection.choose import Decision
from sparsenet.storage.checkpoint_place import checkpoint_exists
from sparsenet.storage.format import CheckpointError

#: By parameter name.
Choices = dict[str, Decision]
#: Choices that later training keeps; the others do not depend on anything that may have changed.
KEPT = ("hidden", "wide_budget", "batch_size", "learning_rate")


def smaller_options(options: NetworkOptions) -> Iterator[NetworkOptions]:
    """Yield the options, then smaller ones where sizes are "auto".

    Hidden units go before weights of the wide path, which gain more on real data.
    """
    for budget in _budgets(options):
        for hidden in _widths(options):
            changed: dict[str, Any] = {"hidden": hidden} if hidden != options.hidden else {}
            changed |= {"wide_budget": budget} if budget != options.wide_budget else {}
            yield _reduced(options, "memory", **changed)


def _reduced(options: NetworkOptions, short_of: str, **changed: Any) -> NetworkOptions:
    return replace(options, short_of={**options.short_of, **dict.fromkeys(changed, short_of)}, **changed)


def _budgets(options: NetworkOptions) -> list[int]:
    if "wide_budget" not in options.auto or options.resumed or not options.wide:
        return [options.wide_budget]
    return [budget for budget in options.rules.budgets if budget <= options.wide_budget]


def _widths(options: NetworkOptions) -> list[tuple[int, ...]]:
    if "hidden" not in options.auto or options.resumed:
        return [options.hidden]
    alone: list[tuple[int, ...]] = [()] if options.may_be_wide_alone else []
    return [w for w in [*((width,) for width in options.rules.widths), *alone] if sum(w) <= sum(options.hidden)]


def fit_into_time(
    options: NetworkOptions,
    points: tuple[RowSource, Rows],
    make: Callable[[NetworkOptions], Network],
    left: Callable[[], float],
    *,
    seed: int,
    threads: int,
    seconds_per_step: Callable[..., float] | None = None,
) -> NetworkOptions:
    """Return the widest options whose minimum epochs fit into the seconds left.

    Five epochs of the wide path are better than fewer of both paths (bench/README.md, Time budgets). Steps of the
    narrowest and the widest network are timed, by `seconds_per_step` if given. The time excludes validation and
    rehashing.
    """
    widths = _widths(options)
    if len(widths) == 1:
        return options
    if left() <= 0:
        return _reduced(options, "time", hidden=widths[-1])
    max_seconds = 0.05 * left()
    timed = seconds_per_step or _seconds_per_step
    fast, slow = (
        timed(make(replace(options, hidden=hidden)), points, options, max_seconds, seed=seed, threads=threads)
        for hidden in (widths[-1], widths[0])
    )
    n_points = len(points[0])
    n_steps = min(options.rules.min_epochs, options.n_epochs(n_points)) * -(-n_points // options.batch_size)
    for hidden in widths[:-1]:
        share = (sum(hidden) - sum(widths[-1])) / (sum(widths[0]) - sum(widths[-1]))
        if n_steps * (fast + share * max(slow - fast, 0.0)) <= left():
            return options if hidden == options.hidden else _reduced(options, "time", hidden=hidden)
    return _reduced(options, "time", hidden=widths[-1])


def _seconds_per_step(
    network: Network,
    points: tuple[RowSource, Rows],
    options: NetworkOptions,
    max_seconds: float,
    *,
    seed: int,
    threads: int,
    n_steps: int = 10,
    n_ignored: int = 3,
) -> float:
    """Return the median time of a step, at a learning rate of zero, which does not change the weights.

    It stops after `max_seconds` seconds. The first steps are ignored: they touch new memory and may compile kernels.
    """
    network.output.prepare(np.bincount(points[1].indices, minlength=points[1].width), threads)
    workspace, times = Workspace(), [time.perf_counter()]
    batches = Batcher(*points, batch_size=options.batch_size, seed=seed).epoch(0)
    with np.errstate(over="ignore", invalid="ignore"):  # training reports overflow
        for step, batch in enumerate(islice(batches, n_steps), 1):
            context = Pass(threads, workspace, np.random.default_rng((seed, 1, step)))
            network.train_step(batch, context, step=step, factor=0.0)
            times.append(time.perf_counter())
            if step > 1 and times[-1] - times[0] > max_seconds:
                break
    network.drop_state()
    paces = np.diff(times)
    return float(np.median(paces[min(n_ignored, len(paces) - 1) :]))


def fitted_options(parameters: Mapping[str, Any], choices: Mapping[str, Decision]) -> NetworkOptions:
    """Return the options of a fitted classifier, with the sizes and steps that were chosen."""
    known = {name: choices[name].value for name in KEPT if name in choices}
    return NetworkOptions.of({**parameters, **{name: x for name, x in known.items() if parameters.get(name) == "auto"}})


def resumed_options(options: NetworkOptions, checkpoint: str | os.PathLike[str], n_points: int) -> NetworkOptions:
    """Return options with the size and epochs of a checkpoint where they are "auto".

    A size that "auto" cannot choose for `n_points` raises CheckpointError: a forged one might exhaust the memory.
    """
    if not checkpoint_exists(Path(checkpoint)):
        return options
    width, budget, epochs, follows_pilot = checkpoints.saved_size(Path(checkpoint))
    found: dict[str, Any] = {"hidden": (width,) if width else (), "wide_budget": budget or options.wide_budget}
    found["epochs"] = epochs
    kept = {name: value for name, value in found.items() if name in options.auto}
    possible = {
        "hidden": width in options.rules.widths or (width == 0 and options.may_be_wide_alone),
        "wide_budget": found["wide_budget"] <= options.wide_budget,
        "epochs": epochs is None or epochs <= options.n_epochs(n_points),
    }
    for name, value in kept.items():
        if not possible[name]:
            raise CheckpointError(
                f"{checkpoint} is the checkpoint of a run with {name}={value}, which {name}='auto' would not choose: "
                f"set {name} to that, or {RESTART}"
            )
    return replace(options, resumed=True, follows_pilot=follows_pilot, **kept)


def explain_sizes(options: NetworkOptions, network: Network, scaling: Scaling, n_points: int) -> Choices:
    """Return the chosen value of each "auto" parameter, and the reason."""
    output, wide, optimizer, size = network.output, network.output.wide, options.optimizer, options.batch_size
    n_steps = -(-n_points // size)
    found: Choices = {
        "hidden": _decision(options, "hidden", sum(options.hidden)),
        "n_negatives": Decision(output.n_negatives, f"of {output.n_labels:,} labels"),
        "batch_size": Decision(size, f"an epoch over {n_points:,} points has {n_steps:,} steps"),
        "precision": Decision("bfloat16" if output.bf16 else "float32", "the faster one on this CPU"),
        "epochs": _decision(
            options, "epochs", options.n_epochs(n_points), f"for {n_points:,} points in batches of {size:,}"
        ),
        "normalize": scaling.explained(),
    }
    if isinstance(output.sampler, AllSampler):
        found["n_negatives"] = Decision(output.n_labels, "all labels")
    if options.hidden and isinstance(optimizer, Adam | Adagrad | SGD):
        found["learning_rate"] = options.because.get("learning_rate", Decision(None, ""))._replace(value=optimizer.rate)
    if wide is not None:
        found["wide_budget"] = _decision(options, "wide_budget", options.wide_budget)
        if isinstance(wide.config.optimizer, Adagrad):
            rate = wide.config.optimizer.rate
            found["wide_learning_rate"] = Decision(rate, "in proportion to the initial weights")
    return {name: choice for name, choice in found.items() if name in options.auto}


def explain_hashing(network: Network) -> Choices:
    """Return the hash family that an automatic LSH sampler chose during training."""
    sampler = network.output.sampler
    if not isinstance(sampler, LSHSampler) or sampler.config is not None or sampler.in_use is None:
        return {}
    config, shares = sampler.in_use, (f"{family} {100 * share:.0f} %" for family, share in sampler.found.items())
    how = f"lsh: {config.family}, {config.n_tables} tables of {config.n_bits} bits"
    measured = f"recall of the best five labels with {TABLES} tables: {', '.join(shares)}"
    why = measured if sampler.found else "a guess: too few points or steps to compare others"
    return {"sampler": Decision(how, why)}


def explain_trial(trainer: Trainer) -> Choices:
    """Return the decisions of the trial: hidden units, epochs and the weight of label counts."""
    found, verdict, epochs = Choices(), trainer.verdict, trainer.epochs
    if trainer.correction.decision is not None:
        found["count_weight"] = trainer.correction.decision
    if verdict is not None:
        width = trainer.network.output.n_inputs
        kept = "; the best epoch had them" if verdict.drops and width else ""
        found["hidden"] = verdict.hidden._replace(value=width, why=verdict.hidden.why + kept)
    if verdict is not None and verdict.passes is not None:
        end = ", so training ends after the next one" if epochs < trainer.config.epochs else ""
        found["epochs"] = verdict.passes._replace(value=epochs, why=verdict.passes.why + end)
    elif epochs < trainer.config.epochs:
        found["epochs"] = Decision(epochs, "the resumed run had it")
    return found


def _decision(
    options: NetworkOptions, name: str, value: Any, otherwise: str = "there is memory and time for it"
) -> Decision:
    if options.resumed:
        return Decision(value, "the resumed run had it")
    if name in options.short_of:
        return Decision(value, f"the most that fits into the {options.short_of[name]}")
    return options.because.get(name, Decision(value, otherwise))._replace(value=value)


def report_choices(choices: Choices, verbose: bool | None) -> None:
    """Print the choices and their reasons, if progress is wanted."""
    if choices and is_wanted(verbose):
        about = "; ".join(f"{name}={own.value} ({own.why})" for name, own in choices.items())
        print(f"sparsenet: chose {about}", file=sys.stderr)
