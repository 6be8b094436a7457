"""Derive the seed of a training run from `random_state`."""

from __future__ import annotations

import os
from typing import Any

import numpy as np


def run_seed(
    random_state: Any, checkpoint: str | os.PathLike[str] | None = None, call: int = 0, *, resume: bool = False
) -> int:
    """Return the seed of a run; each `call` of partial_fit has its own, and a checkpoint needs a fixed one."""
    if resume and checkpoint is None:
        raise ValueError("resume=True needs checkpoint: name the directory that the interrupted run kept its state in")
    if checkpoint is not None and not isinstance(random_state, int | np.integer):
        raise ValueError(
            f"checkpoint needs random_state to be an integer, got {random_state!r}: a resumed run must draw the same "
            "numbers"
        )
    seed = int(_generator(random_state).randint(np.iinfo(np.int32).max))
    return seed if call == 0 else int(np.random.SeedSequence((seed, call)).generate_state(1)[0])


def _generator(random_state: Any) -> np.random.RandomState:
    from sklearn.utils import check_random_state  # a second to import, unless an estimator has done so

    try:
        generator: np.random.RandomState = check_random_state(random_state)
    except ValueError:
        found = "a Generator" if isinstance(random_state, np.random.Generator) else repr(random_state)
        raise ValueError(
            f"random_state must be None, an integer from 0 to {2**32 - 1} or a RandomState, got {found}"
        ) from None
    return generator


def check_seed(random_state: Any) -> None:
    """Raise the error that `run_seed` would raise, without drawing from a shared generator."""
    _generator(random_state)
