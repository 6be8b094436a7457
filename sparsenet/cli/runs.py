"""The clock, the place of checkpoints and saving, shared by all training runs of the command line."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator

from sparsenet import kernels, storage
from sparsenet.cli.reporting import say
from sparsenet.engines.blend.fit_blend import TREES
from sparsenet.storage.checkpoint_place import beside, checkpoint_exists


@dataclass(frozen=True)
class Clock:
    """The start of a command, in wall time and CPU time."""

    wall: float = field(default_factory=time.perf_counter)
    cpu: float = field(default_factory=time.process_time)

    def summary(self, model_path: Path) -> dict[str, Any]:
        """Return the part of a summary that all models share."""
        return {
            "seconds": time.perf_counter() - self.wall,
            "cpu_seconds": time.process_time() - self.cpu,
            "model": str(model_path),
            "model_bytes": sum(file.stat().st_size for file in model_path.iterdir()),
            "backend": kernels.backend(),
            "interrupted": False,
        }


def checkpoint_of(model_path: Path) -> Path:
    """Return the place of the checkpoint of a model's training run."""
    absolute = Path(os.path.abspath(model_path))
    return absolute.with_name(f"{absolute.name}.checkpoint")


def unfinished(model_path: Path) -> Path | None:
    """Return the checkpoint of a model's interrupted training run; None without one."""
    state = checkpoint_of(model_path)
    return state if any(checkpoint_exists(place) for place in _places(state)) else None


def remove_checkpoint(model_path: Path) -> None:
    """Remove the checkpoint of a model's training run, and the checkpoints of its trees."""
    for place in _places(checkpoint_of(model_path)):
        if checkpoint_exists(place):
            storage.remove(place)


def _places(state: Path) -> list[Path]:
    return [state, *(Path(beside(state, tree)) for tree in TREES)]


def save(model: BaseEstimator, model_path: Path, **how: bool) -> None:
    """Save a model without its number of threads, so that equal models are equal files."""
    threads = model.n_jobs
    others = "the earlier model" if checkpoint_exists(model_path) else "no model"
    try:
        model.set_params(n_jobs=None).save(model_path, **how)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"while saving: {model_path} holds {others}, or all of the new one") from None
    model.set_params(n_jobs=threads)


def check_readable(*paths: Path | None) -> None:
    """Raise now what reading these files would raise after training; leave pipes alone, which can be read only once."""
    for path in paths:
        if path is not None and str(path) != "-" and not path.is_fifo():
            path.open("rb").close()


@contextmanager
def measuring_saved(model_path: Path) -> Iterator[None]:
    """After an error or Ctrl-C in the final measurement, report that the model is saved."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(saved_unmeasured(model_path)) from None
    except Exception:
        say(saved_unmeasured(model_path))
        raise


def saved_unmeasured(model_path: Path) -> str:
    """Describe the state of the model directory after Ctrl-C during the final measurement."""
    return f"the model {model_path} is saved, and was not measured"
