"""Copy and check the classifiers given as parts of a `BlendClassifier`, before training."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar

from sklearn.base import clone

from sparsenet.core.seeds import check_seed
from sparsenet.engines.network.options import NetworkOptions
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.storage.checkpoint_place import OptionalDirectory, prepare_checkpoint

#: Parameters that are classifiers themselves.
PARTS = {"network": ExtremeClassifier, "tree": TreeClassifier}
#: The network of a blend without one; scikit-learn's VotingClassifier uses the same word.
DROPPED: Literal["drop"] = "drop"
#: Parameters that must be set on the blend instead of its parts. `random_state` of a part is overridden silently, as in
#: scikit-learn's ensembles.
OF_THE_WHOLE = ("normalize", "n_jobs", "random_state", "verbose")
Part = TypeVar("Part", ExtremeClassifier, TreeClassifier)


def is_dropped(part: Any) -> bool:
    """Return whether `network` is "drop"."""
    return isinstance(part, str) and part == DROPPED


def given(name: str, value: Any, kind: type[Part]) -> Part | None:
    """Return the classifier given for a part, or None; raises ValueError for anything else."""
    droppable = name == "network"
    if value is None or (droppable and is_dropped(value)):
        return None
    if not isinstance(value, kind):
        others = f"None, {DROPPED!r}" if droppable else "None"
        raise ValueError(f"{name} must be {others} or an instance such as {kind.__name__}(), got {value!r}")
    return value


def copied(name: str, value: Any, kind: type[Part], of_the_whole: dict[str, Any], time_budget: float | None) -> Part:
    """Return an unfitted copy of the given or default classifier, for scaled points."""
    own = given(name, value, kind)
    part: Part = kind() if own is None else clone(own)
    defaults = kind()
    for parameter in OF_THE_WHOLE:
        if parameter != "random_state" and (other := getattr(part, parameter)) != getattr(defaults, parameter):
            raise ValueError(f"{name} has {parameter}={other!r}: set {parameter} on the blend instead")
    if time_budget is not None and getattr(part, "time_budget", None) is not None:
        raise ValueError(f"time_budget is {time_budget:g}, and {name} has its own: set one of them")
    part.set_params(normalize="none", **of_the_whole)
    return part


def as_given(part: Part) -> Part:
    """Return an untrained copy of a loaded part, as a parameter of the blend."""
    defaults = type(part)().get_params(deep=False)
    copy: Part = clone(part).set_params(**{name: defaults[name] for name in OF_THE_WHOLE})
    return copy


def check_untrained(network: ExtremeClassifier) -> None:
    """Check the parameters of a given network that is not trained."""
    network._options()
    check_seed(network.random_state)


def check_without_network(time_budget: float | None, n_neighbors: int) -> None:
    """Refuse parameters that need a network."""
    if time_budget is not None:
        raise ValueError(
            f"time_budget={time_budget:g} is for the network, and network={DROPPED!r} leaves it out: set "
            "time_budget=None"
        )
    if n_neighbors == 0:
        raise ValueError(f"network is {DROPPED!r} and n_neighbors 0: that is a TreeClassifier")


def check_network(options: NetworkOptions, checkpoint: Any) -> None:
    """Refuse, before the tree is trained, patience without validation data and unusable checkpoints."""
    if options.patience is not None and options.validation_fraction == 0:
        raise ValueError(
            f"network has patience={options.patience}, which needs points to measure each epoch on: set its "
            "validation_fraction, or patience=None"
        )
    if checkpoint is not None and not isinstance(checkpoint, OptionalDirectory):
        prepare_checkpoint(Path(checkpoint))
