"""Hold out points to measure the training of a network on."""

from __future__ import annotations

import numpy as np

from sparsenet.core.rows import as_matrix
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.network.training.reports import Validation
from sparsenet.features.targets import Points
from sparsenet.kernels.types import I64
from sparsenet.selection.holdout import Holdout, split

#: From ENOUGH points on, one in EVERY is held out for the trial of hidden units: FEWEST at least, MOST at most.
EVERY, FEWEST, MOST, ENOUGH = 64, 512, 2048, 16384


def points_for_training(
    options: NetworkOptions, points: Points, given: Points | None, holdout: Holdout | None, seed: int
) -> tuple[Points, Validation | None, Validation | None]:
    """Return the points to train on, the validation data, and the hold-out for the trial of hidden units.

    `given` is the user's validation data. A `holdout` drawn by the caller serves the trial.
    """
    held: Points | None = None
    if holdout is not None:
        points, held = rows_of(points, holdout.kept), rows_of(points, holdout.held)
    points, measured = held_out(options, points, given, seed)
    if held is None:
        points, kept = held_for_trial(options, points, measured, seed)
        return points, measured, kept
    tries = options.may_lose_hidden(points[1].width)
    return points, measured, Validation(held[0], as_matrix(held[1])) if tries else None


def rows_of(points: Points, numbers: I64) -> Points:
    """Return some of the points."""
    return points[0].take(numbers), points[1].take(numbers)


def held_out(
    options: NetworkOptions, points: Points, given: Points | None, seed: int
) -> tuple[Points, Validation | None]:
    """Return the points to train on and the validation data: those given, or a share of the points, or None."""
    if given is not None and options.validation_fraction > 0:
        raise ValueError("validation_fraction and validation are both set: leave one of them out")
    if given is not None and len(given[0]) == 0:
        raise ValueError("validation has no rows: pass some to measure each epoch on, or validation=None")
    if given is None and options.validation_fraction > 0:
        n = len(points[0])
        n_held = max(1, round(options.validation_fraction * n))
        if n_held >= n:
            raise ValueError(f"validation_fraction={options.validation_fraction} of {n} rows leaves none to train on")
        points, given = _apart(points, n_held, seed)
    if given is None:
        if options.patience is not None:
            raise ValueError("patience needs validation data: set validation_fraction or pass fit(validation=(X, y))")
        return points, None
    return points, Validation(given[0], as_matrix(given[1]))


def held_for_trial(
    options: NetworkOptions, points: Points, measured: Validation | None, seed: int
) -> tuple[Points, Validation | None]:
    """Return the points to train on and the hold-out for the trial of hidden units, or None without a trial.

    Validation data serve the trial if there are enough; else a few points are held out.
    """
    if measured is not None and options.may_lose_hidden(points[1].width):
        return points, measured if len(measured.features) >= FEWEST else None
    n_held = n_for_trial(options, len(points[0]), points[1].width)
    if n_held == 0:
        return points, None
    points, (features, labels) = _apart(points, n_held, seed)
    return points, Validation(features, as_matrix(labels))


def n_for_trial(options: NetworkOptions, n_points: int, n_labels: int) -> int:
    """Return the size of the hold-out for the trial of hidden units; 0 for no trial."""
    if not options.may_lose_hidden(n_labels) or n_points < ENOUGH:
        return 0
    return min(max(n_points // EVERY, FEWEST), MOST)


def _apart(points: Points, n_held: int, seed: int) -> tuple[Points, Points]:
    """Return the points to train on, and `n_held` others."""
    features, labels = points
    kept, held = split(len(features), n_held, seed)
    if not np.diff(labels.indptr)[kept].any():
        raise ValueError(
            f"{n_held} of {len(features)} rows are held out to measure on, and y has no label at all in the others: "
            "try another random_state, or measure on points of your own"
        )
    return rows_of(points, kept), rows_of(points, held)
