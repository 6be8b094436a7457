"""Hold points out of a network's training: one draw serves validation, the trial of hidden units, or scouting."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparsenet.core.rows import Rows, as_matrix
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.network.training.reports import Validation
from sparsenet.features.targets import LoadedPoints, Points
from sparsenet.kernels.types import I64
from sparsenet.selection.holdout import Holdout


class TrainingPoints(NamedTuple):
    """The points of a fit, by use.

    Attributes
    ----------
    train : (Rows, Rows)
        The points to train on.
    validation : Validation or None
        Points to measure after each epoch.
    held_out : Validation or None
        Points outside `train`, for decisions on hidden units and epochs.
    scouting : Holdout or None
        Numbers of points of `train` that only a pilot run leaves out.
    """

    train: Points
    validation: Validation | None = None
    held_out: Validation | None = None
    scouting: Holdout | None = None

    def for_scouting(self) -> tuple[Points, LoadedPoints] | None:
        """Return the points of a pilot run, and those to measure it on; None without a hold-out."""
        if self.validation is not None:
            return None
        if self.scouting is not None:
            return selected(self.train, self.scouting.kept), rows_of(self.train, self.scouting.held)
        if self.held_out is not None:
            return self.train, (self.held_out.features, Rows.of(self.held_out.truth))
        return None


def split_points(
    options: NetworkOptions,
    points: Points,
    given: LoadedPoints | None,
    holdout: Holdout | None,
    seed: int,
    scouting: Holdout | None = None,
) -> TrainingPoints:
    """Draw the hold-out, unless the caller did, and sort the points by use.

    `given` is the user's validation data, `scouting` the caller's hold-out for a pilot run. Validation data also serve
    the trial of hidden units if there are enough.
    """
    _check_given(options, given)
    held: LoadedPoints | None = None
    if holdout is not None:
        points, held = selected(points, holdout.kept), rows_of(points, holdout.held)
    n_points, n_labels = len(points[0]), points[1].width
    if options.validation_fraction > 0:
        points, given = _apart(points, _n_validation(options, n_points), seed)
    if given is not None:
        validation = _as_validation(given)
        enough = held is None and len(given[0]) >= options.rules.min_held
        return TrainingPoints(points, validation, validation if enough else held and _as_validation(held))
    if held is None and options.may_lose_hidden(n_labels) and n_points >= options.rules.trial_from:
        points, held = _apart(points, options.rules.n_held(n_points), seed)
    if held is not None:
        return TrainingPoints(points, held_out=_as_validation(held))
    n_held = options.for_points(n_points).n_held_for_scouting(n_points, n_labels)
    if n_held and scouting is None:
        scouting = Holdout.draw(n_points, n_held, seed)
    return TrainingPoints(points, scouting=scouting if n_held else None)


def rows_of(points: Points, numbers: I64) -> LoadedPoints:
    """Return some of the points, in memory."""
    return points[0].take(numbers), points[1].take(numbers)


def selected(points: Points, numbers: I64) -> Points:
    """Return some of the points, ascending; those on disk stay there."""
    return points[0].select(numbers), points[1].take(numbers)


def _as_validation(points: LoadedPoints) -> Validation:
    return Validation(points[0], as_matrix(points[1]))


def _check_given(options: NetworkOptions, given: LoadedPoints | None) -> None:
    """Refuse validation data that are empty, given twice, or missing."""
    if given is not None and options.validation_fraction > 0:
        raise ValueError("validation_fraction and validation are both set: leave one of them out")
    if given is not None and len(given[0]) == 0:
        raise ValueError("validation has no rows: pass some to measure each epoch on, or validation=None")
    if given is None and options.validation_fraction == 0 and options.patience is not None:
        raise ValueError("patience needs validation data: set validation_fraction or pass fit(validation=(X, y))")


def _n_validation(options: NetworkOptions, n_points: int) -> int:
    n_held = max(1, round(options.validation_fraction * n_points))
    if n_held >= n_points:
        raise ValueError(
            f"validation_fraction={options.validation_fraction} of {n_points} rows leaves none to train on"
        )
    return n_held


def _apart(points: Points, n_held: int, seed: int) -> tuple[Points, LoadedPoints]:
    """Return the points to train on, and `n_held` others."""
    holdout = Holdout.draw(len(points[0]), n_held, seed)
    if not np.diff(points[1].indptr)[holdout.kept].any():
        raise ValueError(
            f"{n_held} of {len(points[0])} rows are held out to measure on, and y has no label at all in the others: "
            "try another random_state, or measure on points of your own"
        )
    return selected(points, holdout.kept), rows_of(points, holdout.held)
