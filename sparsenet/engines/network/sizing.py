"""What a classifier is left to decide: how wide it is, by the memory and the time there is; and why it is as it is."""

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
from sparsenet.core.rows import Rows
from sparsenet.engines.network.layers import Pass
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.optim import SGD, Adagrad, Adam
from sparsenet.engines.network.options import BUDGETS, FEWEST_EPOCHS, WIDTHS, NetworkOptions
from sparsenet.engines.network.samplers import AllSampler, LSHSampler
from sparsenet.engines.network.training import CheckpointError, Trainer, checkpoints
from sparsenet.index.hashing import TABLES

#: By the name of a parameter, what it came to and why.
Choices = dict[str, tuple[Any, str]]
#: Why X is scaled as it is, where that was left open.
WHY_SCALED = {
    "rows": "X is mostly zeros, as counts are",
    "columns": "X is a table, whose columns may have units of their own",
    "mixed": "X holds amounts beside what is mostly zeros",
    "together": "X is a table, and points near each other share more labels than with standardised columns",
}
#: What later training takes over from the first; the rest depends on nothing that could have changed.
DECIDED = ("hidden", "wide_budget", "batch_size", "learning_rate")
#: A pace is measured over so many steps, but for the first of them, which touch new memory and may compile kernels;
#: after two steps it is over once this share of the time that is left has gone.
PILOT_STEPS, FIRST_STEPS, PILOT_SHARE = 10, 3, 0.05


def narrower(settings: NetworkOptions) -> Iterator[NetworkOptions]:
    """Yield the settings, then such as take less memory, where these are left to the classifier.

    Hidden units go before weights of the wide path: on real data the latter earn more.
    """
    for budget in _budgets(settings):
        for hidden in _widths(settings):
            changed: dict[str, Any] = {"hidden": hidden} if hidden != settings.hidden else {}
            changed |= {"wide_budget": budget} if budget != settings.wide_budget else {}
            yield _less(settings, "memory", **changed)


def _less(settings: NetworkOptions, short_of: str, **changed: Any) -> NetworkOptions:
    return replace(settings, short_of={**settings.short_of, **dict.fromkeys(changed, short_of)}, **changed)


def _budgets(settings: NetworkOptions) -> list[int]:
    if "wide_budget" not in settings.auto or settings.resumed or not settings.wide:
        return [settings.wide_budget]
    return [budget for budget in BUDGETS if budget <= settings.wide_budget]


def _widths(settings: NetworkOptions) -> list[tuple[int, ...]]:
    if "hidden" not in settings.auto or settings.resumed:
        return [settings.hidden]
    alone: list[tuple[int, ...]] = [()] if settings.may_be_wide_alone else []
    return [w for w in [*((width,) for width in WIDTHS), *alone] if sum(w) <= sum(settings.hidden)]


def in_time(
    settings: NetworkOptions,
    points: tuple[Rows, Rows],
    make: Callable[[NetworkOptions], Network],
    left: Callable[[], float],
    *,
    seed: int,
    threads: int,
) -> NetworkOptions:
    """Return the widest settings with which FEWEST_EPOCHS passes over the points fit into the seconds that are left.

    Held out, as many passes of the wide path alone were better by 0.1 to 4 points of P@1 than fewer of both paths; from
    five on, both were no worse. What a step takes is measured at the ends, the narrowest and the widest; what measuring
    on validation data takes after each pass, and hashing rows anew, is not foreseen.
    """
    widths = _widths(settings)
    if len(widths) == 1:
        return settings
    if left() <= 0:
        return _less(settings, "time", hidden=widths[-1])
    most = PILOT_SHARE * left()
    fast, slow = (
        _seconds_a_step(make(replace(settings, hidden=hidden)), points, settings, most, seed=seed, threads=threads)
        for hidden in (widths[-1], widths[0])
    )
    n_points = len(points[0])
    n_steps = min(FEWEST_EPOCHS, settings.n_epochs(n_points)) * -(-n_points // settings.batch_size)
    for hidden in widths[:-1]:
        share = (sum(hidden) - sum(widths[-1])) / (sum(widths[0]) - sum(widths[-1]))
        if n_steps * (fast + share * max(slow - fast, 0.0)) <= left():
            return settings if hidden == settings.hidden else _less(settings, "time", hidden=hidden)
    return _less(settings, "time", hidden=widths[-1])


def _seconds_a_step(
    network: Network, points: tuple[Rows, Rows], settings: NetworkOptions, most: float, *, seed: int, threads: int
) -> float:
    """Time steps at a learning rate of zero, which leave the weights as they are."""
    network.output.prepare(np.bincount(points[1].indices, minlength=points[1].width), threads)
    workspace, times = Workspace(), [time.perf_counter()]
    batches = Batcher(*points, batch_size=settings.batch_size, seed=seed).epoch(0)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is an error of training, which says so
        for step, batch in enumerate(islice(batches, PILOT_STEPS), 1):
            context = Pass(threads, workspace, np.random.default_rng((seed, 1, step)))
            network.train_step(batch, context, step=step, factor=0.0)
            times.append(time.perf_counter())
            if step > 1 and times[-1] - times[0] > most:
                break
    network.drop_state()
    paces = np.diff(times)
    return float(np.median(paces[min(FIRST_STEPS, len(paces) - 1) :]))


def decided(parameters: Mapping[str, Any], choices: Mapping[str, tuple[Any, str]]) -> NetworkOptions:
    """Return the settings of a fitted classifier: its size and its steps, where left to it, are what they came to."""
    known = {name: choices[name][0] for name in DECIDED if name in choices}
    return NetworkOptions.of({**parameters, **{name: x for name, x in known.items() if parameters.get(name) == "auto"}})


def as_before(settings: NetworkOptions, checkpoint: str | os.PathLike[str], n_points: int) -> NetworkOptions:
    """Return settings with the size and the epochs of the run that left a checkpoint, where they are "auto".

    A size that no fit on `n_points` would choose raises CheckpointError: a forged one might exhaust the memory.
    """
    if not checkpoints.is_there(Path(checkpoint)):
        return settings
    width, budget, epochs = checkpoints.size(Path(checkpoint))
    found: dict[str, Any] = {"hidden": (width,) if width else (), "wide_budget": budget or settings.wide_budget}
    found["epochs"] = epochs
    kept = {name: value for name, value in found.items() if name in settings.auto}
    possible = {
        "hidden": width in WIDTHS or (width == 0 and settings.may_be_wide_alone),
        "wide_budget": found["wide_budget"] <= settings.wide_budget,
        "epochs": epochs is None or epochs <= settings.n_epochs(n_points),
    }
    for name, value in kept.items():
        if not possible[name]:
            raise CheckpointError(
                f"{checkpoint} is the checkpoint of a run with {name}={value}, which {name}='auto' would not choose: "
                f"set {name} to that, or {checkpoints.AFRESH}"
            )
    return replace(settings, resumed=True, **kept)


def made(settings: NetworkOptions, network: Network, scaling: str, n_points: int) -> Choices:
    """Return the value of each parameter that was left to the classifier, and why it is that."""
    output, wide = network.output, network.output.wide
    every = isinstance(output.sampler, AllSampler)
    negatives = (output.n_labels, "all labels") if every else (output.n_negatives, f"of {output.n_labels:,} labels")
    size = {"hidden": sum(settings.hidden), "wide_budget": settings.wide_budget}
    found: Choices = {name: (value, _why(settings, name)) for name, value in size.items()}
    steps, in_batches = -(-n_points // settings.batch_size), f" in batches of {settings.batch_size:,}"
    found |= {
        "n_negatives": negatives,
        "batch_size": (settings.batch_size, f"a pass over {n_points:,} points has {steps:,} steps"),
        "precision": ("bfloat16" if output.bf16 else "float32", "what this CPU multiplies faster"),
        "epochs": (settings.n_epochs(n_points), _why(settings, "epochs", f"for {n_points:,} points{in_batches}")),
        "normalize": (scaling, WHY_SCALED.get(scaling, "")),
    }
    optimizer = settings.optimizer
    if settings.hidden and isinstance(optimizer, Adam | Adagrad | SGD):
        found["learning_rate"] = (optimizer.rate, settings.because.get("learning_rate", ""))
    if wide is not None and isinstance(wide.config.optimizer, Adagrad):
        found["wide_learning_rate"] = (wide.config.optimizer.rate, "in proportion to the starting weights")
    return {name: choice for name, choice in found.items() if name in settings.auto and (wide or "wide" not in name)}


def hashed(network: Network) -> Choices:
    """Return how labels were hashed in the end, where that was left to be found out in training."""
    sampler = network.output.sampler
    if not isinstance(sampler, LSHSampler) or sampler.config is not None or sampler.in_use is None:
        return {}
    config, shares = sampler.in_use, (f"{family} {100 * share:.0f} %" for family, share in sampler.found.items())
    how = f"lsh: {config.family}, {config.n_tables} tables of {config.n_bits} bits"
    measured = f"what samples held of the best five labels by {TABLES} tables: {', '.join(shares)}"
    return {"sampler": (how, measured if sampler.found else "a guess: too few points or steps to try others")}


def tried(trainer: Trainer) -> Choices:
    """Return whether there are hidden units in the end, and how many passes, where that was found out in training."""
    why, found = [], Choices()
    if trainer.verdict is not None:
        both, alone = trainer.verdict[:2]
        shares = f"{100 * both:.1f} % with the deep path, {100 * alone:.1f} % without it"
        why.append(f"a mean of P@1, P@3 and P@5 of {shares}, on points kept from training")
    if trainer.weighing.deep != 1:
        why.append(f"in the end the deep path counts {trainer.weighing.deep:g} of what it learnt")
    if gained := trainer.weighing.frequent:
        verb = "gain" if gained > 0 else "lose"
        why.append(f"labels {verb} {abs(gained):g} times the logarithm of how many points they have")
    if why:
        found["hidden"] = (trainer.network.output.n_inputs, "; ".join(why))
    if trainer.epochs < trainer.config.epochs:
        looked = trainer.epochs - 1
        where = "on points kept from training, but for what may be chance"
        found["epochs"] = (trainer.epochs, f"after {looked} no more was right than after the first, {where}")
    return found


def _why(settings: NetworkOptions, name: str, usual: str = "there is memory and time for it") -> str:
    if settings.resumed:
        return "what the run had that is resumed"
    if name in settings.because:
        return settings.because[name]
    short_of = settings.short_of.get(name)
    return f"no more fits into the {short_of} there is" if short_of else usual


def tell(choices: Choices, verbose: bool | None) -> None:
    """Print what was chosen and why, if progress is wanted."""
    if choices and is_wanted(verbose):
        about = "; ".join(f"{name}={value} ({why})" for name, (value, why) in choices.items())
        print(f"sparsenet: chose {about}", file=sys.stderr)
