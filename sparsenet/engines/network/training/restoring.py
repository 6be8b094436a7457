"""Check the content of a checkpoint before any of it reaches a network.

Checksums show that a file is as it was written, not that a run wrote it. Kernels trust the shapes and numbers that they
receive, so every array and every number of a checkpoint is compared with the run that is about to resume.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import MAX_WIDTH, integer, optional, real
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.optim import Adagrad, Adam, Parameter
from sparsenet.engines.network.samplers import LSHSampler, Sampler
from sparsenet.kernels.types import Arrays
from sparsenet.metrics.ranking import RANKS

#: The keys of the metadata. Checkpoints of older versions have no "last".
POSITION = frozenset(
    {"run", "epoch", "batch", "loss_sum", "recall", "history", "best_score", "best_epoch", "last"},
)
OPTIONAL = frozenset({"last"})


@dataclass(frozen=True)
class RunSize:
    """Sizes of a run, which bound the content of its checkpoint.

    Attributes
    ----------
    epochs, batches : int
        Maximum epochs of the run, and the batches of each.
    steps_before : int
        Steps that the network took in earlier runs.
    is_validated : bool
        Whether each epoch is measured on validation data.
    trial_points : int or None
        Held-out points of a trial that may end the run early; None if no trial may.
    """

    epochs: int
    batches: int
    steps_before: int = 0
    is_validated: bool = False
    trial_points: int | None = None


def check_fingerprint(run: Mapping[str, Any]) -> None:
    """Refuse a fingerprint whose parts have other types; older versions leave some parts out."""
    parameters, classifier = run.get("parameters", []), run.get("classifier")
    if classifier is not None and not isinstance(classifier, str):
        raise ValueError(f"classifier must be a name, got {classifier!r}")
    optional(integer, "wide_budget", run.get("wide_budget"), 1, MAX_WIDTH)
    if run.get("follows_pilot", True) is not True:
        raise ValueError(f"follows_pilot must be True or left out, got {run['follows_pilot']!r}")
    if "epochs" in run:
        integer("epochs", run["epochs"], 1, MAX_WIDTH)
    if not isinstance(parameters, list) or not all(map(_is_parameter, parameters)):
        raise ValueError("parameters must be a list of names, shapes and optimizers")


def _is_parameter(item: Any) -> bool:
    return isinstance(item, list) and [type(part) for part in item] == [str, int, int, str]


def check_position(metadata: Mapping[str, Any], size: RunSize) -> dict[str, Any]:
    """Return where the run stands, each number checked; raises ValueError for numbers that no such run has."""
    if metadata.keys() - POSITION or POSITION - OPTIONAL - metadata.keys():
        wrong = sorted(metadata.keys() ^ POSITION)
        raise ValueError(f"its metadata has other keys than a checkpoint: {', '.join(map(repr, wrong))}")
    last = optional(integer, "last", metadata.get("last"), 1, size.epochs)
    if last is not None and size.trial_points is None:
        raise ValueError("last must be None for a run that cannot end early")
    end = size.epochs if last is None else last
    epoch = integer("epoch", metadata["epoch"], 0, end)
    history = _history(metadata["history"], epoch, size)
    score, best_epoch = metadata["best_score"], integer("best_epoch", metadata["best_epoch"], -1, epoch - 1)
    found = history[best_epoch].get("P@1") if best_epoch >= 0 else None
    if optional(real, "best_score", score, 0, 1) != found or (found is None and best_epoch >= 0):
        raise ValueError(f"best_score must be the P@1 of epoch {best_epoch}, {found}, got {score}")
    return {
        "epoch": epoch,
        "batch": integer("batch", metadata["batch"], 0, size.batches if epoch < end else 0),
        "loss_sum": real("loss_sum", metadata["loss_sum"], -math.inf, math.inf),
        "recall": optional(real, "recall", metadata["recall"], -math.inf, math.inf),
        "history": history,
        "last": last,
        "best_score": score,
        "best_epoch": best_epoch,
    }


def _history(records: Any, n_epochs: int, size: RunSize) -> list[dict[str, float]]:
    """Return a record for each epoch done, with finite numbers under the names that training gives them."""
    if not isinstance(records, list) or len(records) != n_epochs:
        raise ValueError(f"history must be a list of {n_epochs} records, one for each epoch")
    shares = [f"P@{rank}" for rank in RANKS] if size.is_validated else []
    wanted = {"epoch", "loss", "seconds", *shares}
    found = []
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict) or record.keys() - {"index_recall"} != wanted:
            raise ValueError(f"record {number} of history must have {', '.join(sorted(wanted))}")
        checked = {name: real(name, value, -math.inf, math.inf) for name, value in record.items()}
        if checked["epoch"] != number or checked["seconds"] < 0:
            raise ValueError(f"record {number} of history must be of epoch {number} and at least 0 seconds")
        for name in shares:
            real(name, checked[name], 0, 1)
        found.append(checked)
    return found


@dataclass(frozen=True)
class Content:
    """The arrays of a checkpoint, by purpose and under the names that the network gives them."""

    weights: Arrays
    states: dict[str, Arrays]
    sampler: Arrays
    best: Arrays
    first: NDArray[np.float64] | None


def check_arrays(arrays: Arrays, network: Network, size: RunSize, position: Mapping[str, Any]) -> Content:
    """Sort the arrays by purpose; raises ValueError where one is missing, unknown, or not what the network has."""
    left = dict(arrays)
    own = network.weights()
    weights = _weights(left, "", own)
    best = {} if position["best_score"] is None else _weights(left, "best-", own)
    done = size.steps_before + position["epoch"] * size.batches + position["batch"]
    states = {parameter.name: _state(left, parameter, done) for parameter in network.parameters()}
    first = left.pop("trial-first", None)
    if first is not None:
        _check_first(first, size.trial_points)
    sampler = {name: left.pop(name) for name in list(left) if name.startswith("sampler-")}
    if left:
        raise ValueError(f"it holds the array {min(left)!r}, which this run does not have")
    sampler = {name.removeprefix("sampler-"): array for name, array in sampler.items()}
    _check_sampler(sampler, network)
    return Content(weights, states, sampler, best, first)


def _take(left: Arrays, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    array = left.pop(name, None)
    if array is None:
        raise ValueError(f"the array {name!r} is missing")
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(f"{name} must be {np.dtype(dtype)} of shape {shape}, got {array.dtype} of {array.shape}")
    return array


def _check_finite(name: str, array: NDArray[Any]) -> None:
    # The float64 sum of float32 numbers is finite if all of them are, and needs no array of booleans.
    with np.errstate(invalid="ignore"):
        if not np.isfinite(array.sum(dtype=np.float64)):
            raise ValueError(f"{name} holds NaN or infinity")


def _weights(left: Arrays, prefix: str, like: Mapping[str, NDArray[Any]]) -> Arrays:
    """Take the weights of a network, whose wide path has the features that the data gave it."""
    found = {name: _take(left, prefix + name, own.shape, own.dtype) for name, own in like.items()}
    for name, array in found.items():
        if array.dtype.kind == "f":
            _check_finite(prefix + name, array)
        elif not np.array_equal(array, like[name]):
            raise ValueError(f"{prefix}{name} must be what the data of the run give")
    return found


def _state(left: Arrays, parameter: Parameter, done: int) -> Arrays:
    """Take the optimizer's state of a parameter, or nothing if the checkpoint has none."""
    shapes, prefix = parameter.optimizer.state_shapes(parameter.shape), f"state-{parameter.name}-"
    names = [name for name in left if name.startswith(prefix)]
    if not names:
        return {}
    found = {name.removeprefix(prefix): left.pop(name) for name in names}
    wanted = {name: (shape, np.dtype(dtype)) for name, (shape, dtype) in shapes.items()}
    if {name: (array.shape, array.dtype) for name, array in found.items()} != wanted:
        raise ValueError(f"it holds a state of {parameter.name} that its optimizer does not have")
    if isinstance(parameter.optimizer, Adam | Adagrad):  # the meaning of other states is unknown
        for name, array in found.items():
            _check_state(prefix + name, array, is_first=name == "first", done=done)
    return found


def _check_state(name: str, array: NDArray[Any], *, is_first: bool, done: int) -> None:
    if array.dtype.kind == "i":
        if array.min(initial=0) < 0 or array.max(initial=0) > done:
            raise ValueError(f"{name} must hold steps from 0 to {done}, got {array.min()} to {array.max()}")
        return
    _check_finite(name, array)
    if not is_first and array.min(initial=0) < 0:
        raise ValueError(f"{name} holds squares below zero")


def _check_first(first: NDArray[Any], n_points: int | None) -> None:
    if n_points is None:
        raise ValueError("it holds the array 'trial-first', which this run does not have")
    if first.shape != (n_points,) or first.dtype != np.float64:
        raise ValueError(f"trial-first must be float64 of shape {(n_points,)}, got {first.dtype} of {first.shape}")
    if not (first.min(initial=0) >= 0 and first.max(initial=1) <= 1):
        raise ValueError("trial-first must hold shares from 0 to 1")


def _check_sampler(state: Arrays, network: Network) -> None:
    """Refuse a state that the sampler does not keep, or whose index has vectors of another width."""
    sampler, width = network.output.sampler, network.output.n_inputs
    if state and getattr(type(sampler), "restore", None) is Sampler.restore:
        raise ValueError(f"it holds a state of the sampler, and {sampler!r} keeps none")
    center = state.get("index.center")
    if isinstance(sampler, LSHSampler) and center is not None and center.shape != (width + 1,):
        raise ValueError(f"index.center must have shape {(width + 1,)}, got {center.shape}")
