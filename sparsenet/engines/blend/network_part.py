"""Decide whether there is time for the network of a blend, and check its checkpoint."""

from __future__ import annotations

import math
import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from sparsenet.engines.network import sizing
from sparsenet.engines.network.building import outline
from sparsenet.engines.network.fit_network import FittedNetwork
from sparsenet.engines.network.network_holdout import split_points
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.network.training import checkpoints
from sparsenet.engines.network.training.fingerprint import DATA, data_of, fingerprint, mismatch
from sparsenet.features.targets import Points
from sparsenet.selection.holdout import Holdout
from sparsenet.storage.checkpoint_place import checkpoint_exists
from sparsenet.storage.format import CheckpointError

#: The classifier named in checkpoints.
TRAINED_FOR = "BlendClassifier"
#: A network after less than this fraction of its epochs adds nothing to tree and neighbors (bench/notes/blends.md).
MIN_EPOCH_FRACTION = 1 / 3
#: Entries of a fingerprint that depend on the built network or on the time left.
UNKNOWN_YET = {*DATA[4:], "trial", "may_end", "hidden", "activation", "dropout", "wide_budget", "parameters"}


def enough_epochs(options: NetworkOptions, n_points: int) -> float:
    """Return the number of epochs after which a network helps, even if more were requested."""
    options = options.for_points(n_points)
    default = replace(options, epochs=None).n_epochs(n_points)
    return MIN_EPOCH_FRACTION * min(options.n_epochs(n_points), default)


def is_trained_enough(fitted: FittedNetwork, epochs: float) -> bool:
    """Return whether a network ran this many epochs, or `MIN_EPOCH_FRACTION` of the number from the pilot run."""
    found = fitted.choices["epochs"].value if "epochs" in fitted.choices else math.inf
    return bool(len(fitted.history) >= min(epochs, MIN_EPOCH_FRACTION * found))


def within(
    options: NetworkOptions, left: float, parts_seconds: float, epochs: float, *, quickest: float = 0.1
) -> NetworkOptions | None:
    """Give the network the seconds left; return None, with a warning, if they are too few for its epochs.

    Parameters
    ----------
    parts_seconds : float
        Time that tree and neighbors took.
    quickest : float
        An epoch of the network takes at least this fraction of `parts_seconds`, and up to ten times as long.
    """
    left = max(left, 0.0)
    if left >= quickest * epochs * parts_seconds:
        return replace(options, time_budget=max(left, quickest * parts_seconds))
    _warn_of_none(f"{left:.1f} s are left")
    return None


def is_kept(fitted: FittedNetwork, epochs: float) -> bool:
    """Return whether a network ran enough epochs in its time, and warn if it did not."""
    if len(fitted.history) >= epochs:
        return True
    made, needed = len(fitted.history), math.ceil(epochs)
    _warn_of_none(f"it took {made} of the {needed} epochs or more that make it useful")
    return False


def _warn_of_none(why: str) -> None:
    warnings.warn(f"time_budget leaves too little for a network, so there is none: {why}", UserWarning, stacklevel=5)


def check_resumed(
    options: NetworkOptions, points: Points, holdout: Holdout | None, checkpoint: str | os.PathLike[str], seed: int
) -> Holdout | None:
    """Refuse the checkpoint of a run with other data or settings, before the tree is trained.

    Return the hold-out of that run: version 0.1 had none where it had no trial of hidden units.
    """
    place = Path(checkpoint)
    if not checkpoint_exists(place):
        return holdout
    try:
        _check_same_run(options, points, holdout, place, seed)
    except CheckpointError:
        if holdout is None:
            raise
        _check_same_run(options, points, None, place, seed)
        return None
    return holdout


def _check_same_run(options: NetworkOptions, points: Points, holdout: Holdout | None, place: Path, seed: int) -> None:
    own, validation, *_ = split_points(options, points, None, holdout, seed)
    n_points, n_labels = len(own[0]), own[1].width
    options = sizing.resumed_options(options.for_points(n_points), place, n_points)
    counts = np.bincount(own[1].indices, minlength=n_labels)
    made = outline(options, own[0].width, counts, n_points, seed, 1)
    config = options.training(n_points, seed=seed, threads=1)
    now = fingerprint(made, config, data_of(*own, validation), classifier=TRAINED_FOR)
    before = checkpoints.saved_fingerprint(place)
    unknown = UNKNOWN_YET | ({"epochs"} if options.epochs is None else set())  # the pilot run may choose fewer
    known = {name: value for name, value in now.items() if name not in unknown}
    if any(before.get(name) != value for name, value in known.items()):
        raise CheckpointError(mismatch(place, {**before, "parameters": []}, {**known, "parameters": []}))
