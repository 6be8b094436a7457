"""The state of a run on disk: all that the rest of it depends on, so that resuming changes nothing."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet import storage
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.optim import Parameter
from sparsenet.engines.network.training.fingerprint import differences
from sparsenet.kernels.types import Arrays


class CheckpointError(ValueError):
    """A checkpoint belongs to another run than the one that is to be resumed.

    Examples
    --------
    >>> from sparsenet import CheckpointError
    >>> issubclass(CheckpointError, ValueError)
    True
    """


@dataclass(frozen=True)
class Spare(os.PathLike[str]):
    """A place for checkpoints that nobody asked for: where they cannot be written, training goes on without."""

    path: Path

    def __fspath__(self) -> str:
        return os.fspath(self.path)


@dataclass
class Best:
    """The weights of the epoch that validation liked best."""

    score: float = -math.inf
    epoch: int = -1
    weights: Arrays = field(default_factory=dict)


@dataclass
class RunState:
    """Where a run stands: the next batch to train on, and what has been measured so far.

    `first` is what the points of its trial were worth after the first epoch; after `last` epochs it ends, if that has
    been found.
    """

    epoch: int = 0
    batch: int = 0
    loss_sum: float = 0.0
    recall: float | None = None
    history: list[dict[str, float]] = field(default_factory=list)
    best: Best = field(default_factory=Best)
    first: NDArray[np.float64] | None = None
    last: int | None = None


def check_resumable(network: Network) -> None:
    """Refuse parts that cannot be told from others of their kind in another process: no run could be resumed."""
    output = network.output
    for part in (output.sampler, output.loss, *(parameter.optimizer for parameter in network.parameters())):
        if type(part).__repr__ is object.__repr__:
            name = type(part).__name__
            raise ValueError(
                f"checkpoint needs {name} to have a __repr__ that names its settings, by which a resumed run knows "
                f"that it goes on with the same ones: make {name} a dataclass, or pass no checkpoint"
            )


def save(directory: Path, network: Network, state: RunState, run: dict[str, Any]) -> None:
    """Write a checkpoint of the run that `run`, its fingerprint, describes."""
    arrays: Arrays = dict(network.weights())
    for parameter in network.parameters():
        arrays |= {f"state-{parameter.name}-{key}": array for key, array in parameter.state.items()}
    arrays |= {f"sampler-{key}": array for key, array in network.output.sampler.state().items()}
    arrays |= {f"best-{key}": array for key, array in state.best.weights.items()}
    if state.first is not None:
        arrays["trial-first"] = state.first
    position = {
        "run": run,
        "epoch": state.epoch,
        "batch": state.batch,
        "loss_sum": state.loss_sum,
        "recall": state.recall,
        "history": state.history,
        "best_score": state.best.score if state.best.weights else None,
        "best_epoch": state.best.epoch,
        "last": state.last,
    }
    storage.save(directory, arrays, position)


def prepare(directory: Path) -> None:
    """Raise now what `save` would raise after an epoch, and refuse to replace a model."""
    storage.prepare(directory)
    with suppress(storage.ModelError):  # what is damaged is no model, and may be replaced
        if is_there(directory) and (kind := storage.metadata(directory).get("model")):
            raise FileExistsError(
                f"{directory}: holds a model, {kind}, which a checkpoint would replace: name another directory"
            )


def is_there(directory: Path) -> bool:
    """Say whether there is a checkpoint; a directory without one is what a run leaves that was killed at its first."""
    return (directory / storage.MANIFEST).exists()


def check_classifier(place: str | os.PathLike[str], classifier: str) -> None:
    """Refuse a checkpoint, if there is one, that another kind of classifier left."""
    directory = Path(place)
    before = storage.metadata(directory).get("run", {}).get("classifier") if is_there(directory) else None
    if before not in (None, classifier):
        left = f"{directory} was left by {before}.fit, and this is {classifier}.fit"
        raise CheckpointError(f"{left}: go on with the former, or remove it to start afresh")


def size(directory: Path) -> tuple[int, int | None, int | None]:
    """Return the units of the last hidden layer, the wide budget and the epochs of the run that left a checkpoint."""
    run = storage.metadata(directory).get("run", {})
    widths = [columns for name, _, columns, _ in run.get("parameters", []) if name == "output.weight"]
    return (widths or [0])[0], run.get("wide_budget"), run.get("epochs")


def has_dropped_hidden(directory: Path) -> bool:
    """Say whether the run that left a checkpoint went on without the hidden units that it began with."""
    run = storage.metadata(directory).get("run", {})
    return run.get("trial") is not None and run.get("hidden") == [0]


def load(directory: Path, network: Network, run: dict[str, Any]) -> RunState:
    """Put a network back to where the checkpoint was written, and return the state of the run there."""
    arrays, position = storage.load(directory)
    before = position.get("run")
    if not isinstance(before, dict):
        raise CheckpointError(f"{directory} is no checkpoint of a training: name the directory that a run kept one in")
    if before != run:
        there, here = differences(before, run)
        raise CheckpointError(
            f"{directory} is the checkpoint of a run with other data or settings: that had {there}; this one has "
            f"{here}; give the same ones, or remove it to start afresh"
        )
    network.set_weights({name: array for name, array in arrays.items() if "-" not in name})
    for parameter in network.parameters():
        parameter.state = _optimizer_state(parameter, _strip(arrays, f"state-{parameter.name}-"), directory)
    network.output.sampler.restore(_strip(arrays, "sampler-"))
    best = Best()
    if position["best_score"] is not None:
        best = Best(position["best_score"], position["best_epoch"], _strip(arrays, "best-"))
    numbers = {name: position[name] for name in ("epoch", "batch", "loss_sum", "recall", "history")}
    # The last two are in no checkpoint of older versions.
    return RunState(**numbers, best=best, first=arrays.get("trial-first"), last=position.get("last"))


def _optimizer_state(parameter: Parameter, state: Arrays, directory: Path) -> Arrays:
    """Return `state` if it is what the optimizer keeps, or nothing at all: a kernel believes the shapes."""
    wanted = {
        name: (shape, np.dtype(t)) for name, (shape, t) in parameter.optimizer.state_shapes(parameter.shape).items()
    }
    if state and {name: (array.shape, array.dtype) for name, array in state.items()} != wanted:
        raise CheckpointError(
            f"{directory} holds a state of {parameter.name} that its optimizer does not have; remove it"
        )
    return state


def _strip(arrays: Arrays, prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
