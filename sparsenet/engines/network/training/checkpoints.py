"""Save and restore the state of a training run, so that a resumed run ends like an uninterrupted one."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet import storage
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.training import restoring
from sparsenet.engines.network.training.fingerprint import RESTART, mismatch
from sparsenet.engines.network.training.restoring import RunSize
from sparsenet.kernels.types import Arrays
from sparsenet.storage.checkpoint_place import CheckpointPlace, checkpoint_exists
from sparsenet.storage.format import CheckpointError


@dataclass
class Best:
    """The weights of the epoch with the best validation score."""

    score: float = -math.inf
    epoch: int = -1
    weights: Arrays = field(default_factory=dict)


@dataclass
class RunState:
    """The position of a run: the next batch to train on, and the measurements so far.

    Attributes
    ----------
    first : ndarray of shape (n_held_out,), optional
        The mean of P@1, P@3 and P@5 of each held-out point of the trial after the first epoch.
    last : int, optional
        The number of epochs after which the run ends early, once the trial has found it.
    """

    epoch: int = 0
    batch: int = 0
    loss_sum: float = 0.0
    recall: float | None = None
    history: list[dict[str, float]] = field(default_factory=list)
    best: Best = field(default_factory=Best)
    first: NDArray[np.float64] | None = None
    last: int | None = None


def _check_resumable(network: Network) -> None:
    """Refuse parts without a `__repr__` of their own: a resumed run could not compare their settings."""
    output = network.output
    for part in (output.sampler, output.loss, *(parameter.optimizer for parameter in network.parameters())):
        if type(part).__repr__ is object.__repr__:
            name = type(part).__name__
            raise ValueError(
                f"checkpoint needs {name} to have a __repr__ that names its settings, so that a resumed run can "
                f"compare them: make {name} a dataclass, or pass no checkpoint"
            )


class Checkpoint:
    """Write the state of a run to a directory every few seconds, or nowhere.

    Parameters
    ----------
    place : path or None
        The directory; None writes nothing. If an `OptionalDirectory` is not writable, training continues without it.
    network : Network
        The network that is trained.
    seconds : float
        Minimum seconds between two writes: after each of many short epochs, writing would take longer than training.
    seconds_within : float
        Minimum seconds before a write within an epoch: the most that a killed run loses.
    """

    def __init__(
        self,
        place: str | os.PathLike[str] | None,
        network: Network,
        *,
        seconds: float = 5.0,
        seconds_within: float = 300.0,
    ) -> None:
        self._place = CheckpointPlace(place)
        self._network, self._seconds, self._seconds_within = network, seconds, seconds_within
        self._began, self._saved_at = time.perf_counter(), -math.inf
        if place is not None:
            _check_resumable(network)
            self._place.prepare()  # rather than fail after the first epoch

    @property
    def is_wanted(self) -> bool:
        """Return whether there is a directory to write to."""
        return self._place.path is not None

    def is_due(self) -> bool:
        """Return whether enough time has passed since the last write."""
        return time.perf_counter() - self._saved_at >= self._seconds

    def is_due_within_epoch(self) -> bool:
        """Return whether a killed run would lose too much."""
        return time.perf_counter() - max(self._saved_at, self._began) >= self._seconds_within

    def save(self, state: RunState, fingerprint: Callable[[], dict[str, Any]]) -> None:
        """Write the state of the run, if there is a directory."""
        if self._place.path is not None:
            with self._place.writing():
                _save(self._place.path, self._network, state, fingerprint())
            self._saved_at = time.perf_counter()

    def load(
        self, fingerprint: Callable[[], dict[str, Any]], size: RunSize, *, may_drop_hidden: bool
    ) -> RunState | None:
        """Restore the network, and return the state of the run; None if there is no checkpoint.

        With `may_drop_hidden`, the hidden units are dropped first if the interrupted run had dropped them. Raises
        CheckpointError for a checkpoint that is damaged or holds anything that this run could not have written; the
        weights are then unchanged.
        """
        place = self._place.path
        if place is None or not checkpoint_exists(place):
            return None
        run = saved_fingerprint(place)
        if may_drop_hidden and run.get("trial") is not None and run.get("hidden") == [0]:
            self._network.drop_hidden()
        return _load(place, self._network, fingerprint(), size)


def _save(directory: Path, network: Network, state: RunState, run: dict[str, Any]) -> None:
    """Write a checkpoint of the run with the fingerprint `run`."""
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


def saved_fingerprint(directory: Path) -> dict[str, Any]:
    """Return the fingerprint of the run that wrote a checkpoint; raise CheckpointError if there is none."""
    with _explained(directory):
        return _checked_run(directory, storage.metadata(directory))


def check_classifier(place: str | os.PathLike[str], classifier: str) -> None:
    """Refuse a checkpoint of another kind of classifier; do nothing without a checkpoint."""
    directory = Path(place)
    saved = saved_fingerprint(directory).get("classifier") if checkpoint_exists(directory) else None
    if saved not in (None, classifier):
        problem = f"{directory} was written by {saved}.fit, and this is {classifier}.fit"
        raise CheckpointError(f"{problem}: resume with the former, or {RESTART}")


def saved_size(directory: Path) -> tuple[int, int | None, int | None, bool]:
    """Return the last hidden width, wide budget and epochs of a saved run, and whether it went on from a pilot run."""
    run = saved_fingerprint(directory)
    widths = [columns for name, _, columns, _ in run.get("parameters", []) if name == "output.weight"]
    return (widths or [0])[0], run.get("wide_budget"), run.get("epochs"), run.get("follows_pilot", False)


def _load(directory: Path, network: Network, run: dict[str, Any], run_size: RunSize) -> RunState:
    with _explained(directory):
        arrays, metadata = storage.load(directory)
        before = _checked_run(directory, metadata)
        if before != run:
            raise CheckpointError(mismatch(directory, before, run))
        position = restoring.check_position(metadata, run_size)
        content = restoring.check_arrays(arrays, network, run_size, position)
        network.output.sampler.restore(content.sampler)
    network.set_weights(content.weights)
    for parameter in network.parameters():
        parameter.state = content.states[parameter.name]
    score, epoch = position.pop("best_score"), position.pop("best_epoch")
    best = Best() if score is None else Best(score, epoch, content.best)
    return RunState(**position, best=best, first=content.first)


def _checked_run(directory: Path, metadata: Mapping[str, Any]) -> dict[str, Any]:
    run = metadata.get("run")
    if not isinstance(run, dict):
        raise CheckpointError(f"{directory} is not a checkpoint: name the directory of an interrupted run")
    restoring.check_fingerprint(run)
    return run


@contextmanager
def _explained(directory: Path) -> Iterator[None]:
    """Turn every error about the content of a checkpoint into a CheckpointError that names the directory."""
    try:
        yield
    except CheckpointError:
        raise
    except storage.ModelError as error:  # which names the file
        raise CheckpointError(f"the checkpoint cannot be read: {error}; or {RESTART}") from error
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise CheckpointError(f"{directory} is not a checkpoint of this run: {error}; {RESTART}") from error
