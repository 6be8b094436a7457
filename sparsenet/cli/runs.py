"""A training run of the command line: what it begins with, where its state is kept, and what becomes of its model."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

from sparsenet import data, storage
from sparsenet.cli.reporting import memory_for, say
from sparsenet.cli.sources import Source, check_validation, read_validation
from sparsenet.engines.network.building import TooLargeError
from sparsenet.engines.network.training import checkpoints
from sparsenet.estimators.blend import BlendClassifier
from sparsenet.estimators.extreme import ExtremeClassifier


@dataclass(frozen=True)
class Clock:
    """When a command began, by the wall and by the CPU."""

    wall: float = field(default_factory=time.perf_counter)
    cpu: float = field(default_factory=time.process_time)

    def seconds(self) -> dict[str, float]:
        """Return how long that is ago."""
        return {"seconds": time.perf_counter() - self.wall, "cpu_seconds": time.process_time() - self.cpu}


def begin(source: Source, model_path: Path, valid: Source | None) -> tuple[Clock, data.Dataset, tuple[Any, Any] | None]:
    """Look whether a model can be saved, start the clock, and read the points to train on, and those to measure on."""
    storage.prepare(model_path)  # better now than after an hour of training
    clock = Clock()
    check_validation(source, valid)
    points = source.points()
    return clock, points, read_validation(valid, points)


def place_of_state(model_path: Path) -> Path:
    """Return where the state of a run lies that makes this model."""
    absolute = Path(os.path.abspath(model_path))
    return absolute.with_name(f"{absolute.name}.checkpoint")


def state_of(model_path: Path, checkpoint: bool | None, *, resume: bool) -> tuple[Path | None, dict[str, Any]]:
    """Return where the state of a run is kept, if anywhere, and what `fit` is told of it."""
    state = place_of_state(model_path) if checkpoint is not False or resume else None
    is_there = state is not None and checkpoints.is_there(state)
    if is_there and not resume:
        say(f"{state} of an interrupted run will be replaced; --resume would have gone on with it")
    if resume and not is_there:
        say(f"there is no {state} to go on from: training starts anew")
    return state, {"checkpoint": checkpoints.Spare(state) if state and checkpoint is None else state, "resume": resume}


@contextmanager
def advice_on_size(points: data.Dataset) -> Iterator[None]:
    """Say what does not fit into memory, and by which options a network is made smaller."""
    size = f"{points.n_features} features and {points.n_labels} labels"
    advice = "if most of these occur nowhere, number them without gaps, since it holds them all"
    try:
        with memory_for(f"training a model of {size}: {advice}"):
            yield
    except TooLargeError as error:
        advice = "lower --hidden (the deep weights), --wide-budget (the wide weights), --negatives or --batch-size"
        raise MemoryError(f"{error.needs}: {advice}") from None


def end(
    model: ExtremeClassifier | BlendClassifier,
    model_path: Path,
    state: Path | None,
    epochs: int,
    *,
    interrupted: bool,
    compact: bool,
) -> bool:
    """Save a model and remove the state of its run; return whether it was saved.

    After Ctrl-C the state stays, and a model that has had no epoch replaces none that is there.
    """
    kept = state is not None and checkpoints.is_there(state)
    saved = not interrupted or epochs > 0 or not checkpoints.is_there(model_path)
    if interrupted:
        parts = "tree and neighbours alone, a network had learnt too little" if epochs == 0 and saved else ""
        say(_after_interrupt(model_path, parts if isinstance(model, BlendClassifier) else "", saved=saved, kept=kept))
    if saved:
        save(model, model_path, compact=compact)
    if state and kept and not interrupted:
        storage.remove(state)
    return saved


def save(model: BaseEstimator, model_path: Path, **how: bool) -> None:
    """Save a model, but not the threads that this machine has for it: equal files, however many took part."""
    threads = model.n_jobs
    model.set_params(n_jobs=None).save(model_path, **how)
    model.set_params(n_jobs=threads)


def nothing_saved(model_path: Path) -> str:
    """Say what becomes of a model where nothing is learnt that could be saved."""
    return f"nothing is saved, {model_path} stays as it was" if model_path.exists() else "nothing is saved"


def _after_interrupt(model_path: Path, parts: str, *, saved: bool, kept: bool) -> str:
    """Say what becomes of what was learnt; too little, such as half an epoch, replaces no model that is there."""
    if saved:
        return f"interrupted: saving {parts or 'what was learnt'}" + (", --resume goes on from here" if kept else "")
    stays = f"interrupted before enough was learnt: the model {model_path} stays as it was"
    return f"{stays}; the checkpoint holds what was learnt, --resume goes on from here" if kept else stays
