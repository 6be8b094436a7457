"""What a blend trains: copies of the parts that it was given, and a network only where there is time for one."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from sklearn.base import clone

from sparsenet.core.rows import Rows, as_matrix
from sparsenet.core.seeds import run_seed
from sparsenet.engines.network import sizing
from sparsenet.engines.network.building import outline
from sparsenet.engines.network.network_holdout import held_for_trial, held_out
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.engines.network.training import CheckpointError, checkpoints
from sparsenet.engines.network.training.fingerprint import DATA, data_of, differences, fingerprint
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.tree import TreeClassifier

#: Parameters that are classifiers themselves.
PARTS = {"network": ExtremeClassifier, "tree": TreeClassifier}
#: A network that there is not to be, as scikit-learn's VotingClassifier calls it.
DROPPED: Literal["drop"] = "drop"
#: What parts are not asked for: the blend says it. One's own `random_state` is overridden without a word, as
#: scikit-learn's ensembles set all that they find.
OF_THE_WHOLE = ("normalize", "n_jobs", "random_state", "verbose")
#: A network that has had less than this share of its passes is worth no more than none beside tree and neighbours
#: (bench/notes/blends.md). These take as long as one of its passes, or up to ten: where even such quick ones would not
#: do, it is not tried.
WORTH_A_NETWORK, QUICKEST_PASS = 1 / 3, 1 / 10
#: The most features that a label holds in the wide path, where that is left open. A network alone needs more; beside a
#: tree, which weighs them all, it is as good with these, smaller and faster (bench/notes/networks.md).
WIDE_BUDGET = 256
#: What tells one run from another, and shows when the network is built, or goes by the time that is left for it.
UNKNOWN_YET = {*DATA[4:], "trial", "may_end", "hidden", "activation", "dropout", "wide_budget", "parameters"}
Part = TypeVar("Part", ExtremeClassifier, TreeClassifier)


def is_dropped(part: Any) -> bool:
    """Tell whether this is what is given in place of a network where there is to be none."""
    return isinstance(part, str) and part == DROPPED


def given(name: str, value: Any, kind: type[Part]) -> Part | None:
    """Return the classifier that was given for a part, if one was."""
    droppable = name == "network"
    if value is None or (droppable and is_dropped(value)):
        return None
    if not isinstance(value, kind):
        others = f"None, {DROPPED!r}" if droppable else "None"
        raise ValueError(f"{name} must be {others} or an instance such as {kind.__name__}(), got {value!r}")
    return value


def copied(name: str, value: Any, kind: type[Part], of_the_whole: dict[str, Any], time_budget: float | None) -> Part:
    """Return a classifier like the one that was given, or one by defaults, to be trained on scaled points."""
    own = given(name, value, kind)
    part: Part = kind() if own is None else clone(own)
    usual = kind()
    for parameter in OF_THE_WHOLE:
        if parameter != "random_state" and (other := getattr(part, parameter)) != getattr(usual, parameter):
            raise ValueError(f"{name} has {parameter}={other!r}, which is for the blend to say: set it there")
    if time_budget is not None and getattr(part, "time_budget", None) is not None:
        raise ValueError(f"time_budget is {time_budget:g}, and {name} has its own: set one of them")
    part.set_params(normalize="none", **of_the_whole)
    return part


def check_without_network(checkpoint: Any, time_budget: float | None, n_neighbors: int) -> None:
    """Refuse what makes no sense where there is to be no network."""
    if checkpoint is not None:
        raise ValueError(f"network is {DROPPED!r}, and of nothing else there are checkpoints: leave checkpoint out")
    if time_budget is not None:
        raise ValueError(
            f"time_budget={time_budget:g} is for the network, and network={DROPPED!r} leaves it out: set "
            "time_budget=None"
        )
    if n_neighbors == 0:
        raise ValueError(f"network is {DROPPED!r} and n_neighbors 0: that is a TreeClassifier")


def check_network(settings: NetworkOptions, checkpoint: Any) -> None:
    """Refuse what the network would, before the tree is trained: patience with nothing to measure on, and the place."""
    if settings.patience is not None and settings.validation_fraction == 0:
        raise ValueError(
            f"network has patience={settings.patience}, which needs points to measure each epoch on: set its "
            "validation_fraction, or patience=None"
        )
    if checkpoint is not None and not isinstance(checkpoint, checkpoints.Spare):
        checkpoints.prepare(Path(checkpoint))


def check_resumed(network: ExtremeClassifier, points: Rows, labels: Rows, checkpoint: Any) -> None:
    """Refuse the checkpoint, if there is one, of a run with other data or settings, before the tree is trained.

    Of the layers nothing is known before the network is built. It looks at them itself.
    """
    place, settings = Path(checkpoint), network._settings()
    if not checkpoints.is_there(place):
        return
    seed = run_seed(network.random_state)
    given = Rows.of(as_matrix(points)), Rows.of(as_matrix(labels))  # as `fit` has them, without zeros
    own, measured = held_out(settings, given, None, seed)
    own, _ = held_for_trial(settings, own, measured, seed)
    settings = sizing.as_before(settings.for_points(len(own[0])), checkpoint, len(own[0]))
    made = outline(settings, points.width, np.bincount(own[1].indices, minlength=labels.width), len(own[0]), seed, 1)
    data = data_of(*own, measured)
    now = fingerprint(made, settings.training(len(own[0]), seed=seed, threads=1), data, classifier=network._trained_for)
    before = checkpoints.run_of(place)
    unknown = UNKNOWN_YET | ({"epochs"} if settings.epochs is None else set())  # which a first training may find
    known = {name: value for name, value in now.items() if name not in unknown}
    if any(before.get(name) != value for name, value in known.items()):
        there, here = differences({**before, "parameters": []}, {**known, "parameters": []})
        raise CheckpointError(
            f"{place} is the checkpoint of a run with other data or settings: that had {there}; this one has {here}; "
            "give the same ones, or remove it to start afresh"
        )


def enough(network: ExtremeClassifier, n_points: int) -> float:
    """Return after how many passes a network is worth something: those that are asked for may be without end."""
    settings = NetworkOptions.of(network.get_params(deep=False)).for_points(n_points)
    usual = replace(settings, epochs=None).n_epochs(n_points)
    return WORTH_A_NETWORK * min(settings.n_epochs(n_points), usual)


def has_had(network: ExtremeClassifier, passes: float) -> bool:
    """Tell whether a trained network has had so many passes, or as large a share of fewer that it found to be best."""
    found = network.choices_.get("epochs", (math.inf, ""))[0]
    return bool(network.n_iter_ >= min(passes, WORTH_A_NETWORK * found))


def in_time(network: ExtremeClassifier, left: float, a_pass: float, passes: float) -> ExtremeClassifier | None:
    """Give the network the seconds that are left, or none back where these will not do for so many passes.

    `a_pass` is what tree and neighbours took.
    """
    left = max(left, 0.0)
    if left >= QUICKEST_PASS * passes * a_pass:
        network.set_params(time_budget=max(left, QUICKEST_PASS * a_pass))
        return network
    _warn_of_none(f"{left:.1f} s are left")
    return None


def kept(network: ExtremeClassifier, passes: float) -> ExtremeClassifier | None:
    """Return a trained network, or none where the time that was left has done for fewer passes than those."""
    if network.n_iter_ >= passes:
        return network
    made, needed = network.n_iter_, math.ceil(passes)
    _warn_of_none(f"in what was left it made {made} of its passes, and is worth nothing before {needed}")
    return None


def _warn_of_none(why: str) -> None:
    warnings.warn(f"time_budget leaves too little for a network, and there is none: {why}", UserWarning, stacklevel=4)
