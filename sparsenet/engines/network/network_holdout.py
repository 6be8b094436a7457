"""Points that a network's training is measured on."""

from __future__ import annotations

import numpy as np

from sparsenet.core.rows import as_matrix
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.network.training.reports import Validation
from sparsenet.features.targets import Points
from sparsenet.selection.holdout import split

#: Whether hidden units earn their keep is measured on one point of EVERY, but on no fewer than FEWEST and no more than
#: MOST; where there are not ENOUGH points it is not, since too many of them would be missed.
EVERY, FEWEST, MOST, ENOUGH = 64, 512, 2048, 16384


def held_out(
    settings: NetworkOptions, points: Points, given: Points | None, seed: int
) -> tuple[Points, Validation | None]:
    """Return the points to train on and those to measure on: the ones given, or a share of the former, or none."""
    if given is not None and settings.validation_fraction > 0:
        raise ValueError("validation_fraction and validation are both set: leave one of them out")
    if given is not None and len(given[0]) == 0:
        raise ValueError("validation has no rows: pass some to measure each epoch on, or validation=None")
    if given is None and settings.validation_fraction > 0:
        n = len(points[0])
        n_held = max(1, round(settings.validation_fraction * n))
        if n_held >= n:
            raise ValueError(f"validation_fraction={settings.validation_fraction} of {n} rows leaves none to train on")
        points, given = _apart(points, n_held, seed)
    if given is None:
        if settings.patience is not None:
            raise ValueError("patience needs validation data: set validation_fraction or pass fit(validation=(X, y))")
        return points, None
    return points, Validation(given[0], as_matrix(given[1]))


def held_for_trial(
    settings: NetworkOptions, points: Points, measured: Validation | None, seed: int
) -> tuple[Points, Validation | None]:
    """Return the points to train on and those that tell whether hidden units earn their keep, if that is to be seen.

    What each epoch is measured on, if anything, will do; else a few points are kept from training.
    """
    if measured is not None and settings.may_lose_hidden(points[1].width):
        return points, measured if len(measured.features) >= FEWEST else None
    n_held = n_for_trial(settings, len(points[0]), points[1].width)
    if n_held == 0:
        return points, None
    points, (features, labels) = _apart(points, n_held, seed)
    return points, Validation(features, as_matrix(labels))


def n_for_trial(settings: NetworkOptions, n_points: int, n_labels: int) -> int:
    """Return how many of so many points, of which none are held out, are kept from training to try it on."""
    if not settings.may_lose_hidden(n_labels) or n_points < ENOUGH:
        return 0
    return min(max(n_points // EVERY, FEWEST), MOST)


def _apart(points: Points, n_held: int, seed: int) -> tuple[Points, Points]:
    """Return the points to train on and so many to measure on."""
    features, labels = points
    kept, held = split(len(features), n_held, seed)
    if not np.diff(labels.indptr)[kept].any():
        raise ValueError(
            f"{n_held} of {len(features)} rows are held out to measure on, and y has no label at all in the others: "
            "try another random_state, or measure on points of your own"
        )
    return (features.take(kept), labels.take(kept)), (features.take(held), labels.take(held))
