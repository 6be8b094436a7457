"""What makes a run the same as another, so that one can go on where the other was; and in what two differ."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.engines.network.layers import Dense, SparseInput
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.training.reports import Validation
from sparsenet.engines.network.training.training_config import TrainingConfig
from sparsenet.engines.network.training.trial import Trial

#: What the data of a run are, in the order in which they come.
DATA = ("points", "labels", "validation points", "validation labels", "trial points", "trial labels")
#: What people cannot know by its own name.
_CALLED = {"seed": "seed (by random_state)"}


def fingerprint(
    network: Network,
    config: TrainingConfig,
    data: Mapping[str, Rows],
    *,
    trial: Trial | None = None,
    classifier: str | None = None,
) -> dict[str, Any]:
    """Say what makes a run the same as another: settings, shapes and data, but not the number of threads.

    `trial` is what hidden units and further epochs are measured by, if they are, and `classifier` whose network it is,
    if it is one's.
    Settings have the names that `ExtremeClassifier` has for them, for `differences`; values are as JSON has them.
    """
    layers: list[SparseInput | Dense] = [*([network.input] if network.input else []), *network.hidden]
    output = network.output
    settings = asdict(config)
    schedule = settings.pop("schedule")
    del settings["threads"]
    return {
        "classifier": classifier,
        **dict.fromkeys(DATA),
        **{name: _about(rows) for name, rows in data.items()},
        "trial": trial.epochs if trial else None,
        **({"may_end": True} if trial and trial.may_end else {}),
        **settings,
        **schedule,
        "hidden": [layer.n_outputs for layer in layers] or [0],
        "activation": list(dict.fromkeys(layer.activation.name for layer in layers)),
        "dropout": list(dict.fromkeys(layer.activation.dropout for layer in layers)),
        "sampler": repr(output.sampler),
        "n_negatives": output.n_negatives,
        "loss": repr(output.loss),
        "precision": "bfloat16" if output.bf16 else "float32",
        "per_sample": output.per_sample,
        "wide": output.wide is not None,
        "wide_budget": output.wide.config.budget if output.wide else None,
        "parameters": [[p.name, *p.shape, repr(p.optimizer)] for p in network.parameters()],
    }


def data_of(features: Rows, labels: Rows, validation: Validation | None, trial: Trial | None = None) -> dict[str, Rows]:
    """Return the data of a run by their names: those of training, and those that decide something."""
    rows: list[Rows | None] = [features, labels]
    for held_out in (validation, trial.held_out if trial else None):
        rows += [held_out.features, Rows.of(held_out.truth)] if held_out else [None, None]
    return {name: own for name, own in zip(DATA, rows, strict=True) if own is not None}


def _about(rows: Rows) -> str:
    checksum = 0
    for array in (rows.indptr, rows.indices, rows.data):
        checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
    return f"{len(rows)} x {rows.width} of checksum {checksum:08x}"


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, str]:
    """Say in what two runs differ: what the one had, and what the other has instead.

    >>> differences({"epochs": 5, "seed": 0, "parameters": []}, {"epochs": 8, "seed": 0, "parameters": []})
    ('epochs=5', 'epochs=8')
    """
    found = [
        (_CALLED.get(name, name), _shown(before[name]) if name in before else "not recorded", _shown(value))
        for name, value in now.items()
        if name != "parameters" and (name not in before or _unlike(before[name], value))
    ]
    found += _optimizers(before.get("parameters", []), now["parameters"])
    if not found:  # of which nothing else tells
        found = [("weights", str(before.get("parameters")), str(now["parameters"]))]
    there, here = (", ".join(f"{name}={values[side]}" for name, *values in found) for side in (0, 1))
    return there, here


def _unlike(before: Any, now: Any) -> bool:
    """Tell whether a setting differs; what layers have is nothing to compare where one run has no such layers."""
    return bool(before != now) and before != [] != now


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return str(value[0]) if len(value) == 1 else f"({', '.join(map(str, value))})"
    return "none" if value is None else str(value)


def _optimizers(before: Sequence[Sequence[Any]], now: Sequence[Sequence[Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield which optimizers differ, each once: those of the deep weights are mostly one."""
    used = {parameter[0]: parameter[-1] for parameter in before}
    called = {"wide.weight": "wide optimizer", "output.bias": "bias optimizer"}
    told = set()
    for name, *_, optimizer in now:
        change = used.get(name, optimizer), optimizer
        if change[0] != optimizer and change not in told:
            told.add(change)
            yield called.get(name, "optimizer"), *change
