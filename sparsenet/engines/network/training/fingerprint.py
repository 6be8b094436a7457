"""Identify a run by its settings and data, so that only the same run resumes; and name the differences of two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sparsenet.core.rows import Rows, RowSource
from sparsenet.engines.network.layers import Dense, SparseInput
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.training.reports import Validation
from sparsenet.engines.network.training.training_config import TrainingConfig
from sparsenet.engines.network.training.trial import Trial

#: The names of the data of a run, in the order of `data_of`.
DATA = ("points", "labels", "validation points", "validation labels", "trial points", "trial labels")
#: Settings with another name in the public API.
_CALLED = {
    "seed": "seed (by random_state)",
    "shards": "shards of labels (by executor)",
    "follows_pilot": "start from a pilot run",
}
#: Settings that only some runs record.
_OPTIONAL = {"shards", "follows_pilot"}
#: Advice for a checkpoint that cannot be resumed.
RESTART = "remove it to start again from the beginning"


def fingerprint(
    network: Network,
    config: TrainingConfig,
    data: Mapping[str, RowSource],
    *,
    trial: Trial | None = None,
    classifier: str | None = None,
    shards: int | None = None,
    follows_pilot: bool = False,
) -> dict[str, Any]:
    """Return everything that two equal runs share: settings, shapes and checksums, but not the number of threads.

    `classifier` is the class that trains the network, None for a network alone. `shards` is the number of shards of
    labels, if tasks train them. `follows_pilot`: training went on from a pilot run. Settings have the names of the
    parameters of `ExtremeClassifier`, which `differences` shows. All values are JSON values.
    """
    layers: list[SparseInput | Dense] = [*([network.input] if network.input else []), *network.hidden]
    output = network.output
    settings = asdict(config)
    schedule = settings.pop("schedule")
    del settings["threads"]
    return {
        "classifier": classifier,
        **dict.fromkeys(DATA),
        **{name: rows.checksum() for name, rows in data.items()},
        "trial": trial.epochs if trial else None,
        **({"may_end": True} if trial and trial.may_end else {}),
        **({"shards": shards} if shards else {}),
        **({"follows_pilot": True} if follows_pilot else {}),
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


def data_of(
    features: RowSource, labels: Rows, validation: Validation | None, trial: Trial | None = None
) -> dict[str, RowSource]:
    """Return the data of a run by name: training data, validation data and held-out data of the trial."""
    rows: list[RowSource | None] = [features, labels]
    for held_out in (validation, trial.held_out if trial else None):
        rows += [held_out.features, Rows.of(held_out.truth)] if held_out else [None, None]
    return {name: own for name, own in zip(DATA, rows, strict=True) if own is not None}


def mismatch(place: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Return the message for a checkpoint of another run."""
    there, here = differences(before, now)
    data = " other training data:" if any(before.get(name) != now.get(name) for name in DATA[:2]) else ""
    return (
        f"{place} is the checkpoint of a run with other data or settings:{data} that had {there}; this one has {here}; "
        f"give the same ones, or {RESTART}"
    )


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, str]:
    """Return the differing settings of two runs as text: first their values before, then their values now.

    >>> differences({"epochs": 5, "seed": 0, "parameters": []}, {"epochs": 8, "seed": 0, "parameters": []})
    ('epochs=5', 'epochs=8')
    """
    found = [
        (_CALLED.get(name, name), _shown(before[name]) if name in before else "not recorded", _shown(value))
        for name, value in {**dict.fromkeys(_OPTIONAL & before.keys()), **now}.items()
        if name != "parameters" and (name not in before or _unlike(before[name], value))
    ]
    found += _optimizers(before.get("parameters", []), now["parameters"])
    if not found:  # the shapes are the only difference
        found = [("weights", str(before.get("parameters")), str(now["parameters"]))]
    there, here = (", ".join(f"{name}={values[side]}" for name, *values in found) for side in (0, 1))
    return there, here


def _unlike(before: Any, now: Any) -> bool:
    """Return whether a setting differs; the empty list of a run without such layers differs from nothing."""
    return bool(before != now) and before != [] != now


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return str(value[0]) if len(value) == 1 else f"({', '.join(map(str, value))})"
    return "none" if value is None else str(value)


def _optimizers(before: Sequence[Sequence[Any]], now: Sequence[Sequence[Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield the name and both values of each optimizer that differs, once: deep layers mostly share one."""
    used = {parameter[0]: parameter[-1] for parameter in before}
    called = {"wide.weight": "wide optimizer", "output.bias": "bias optimizer"}
    reported = set()
    for name, *_, optimizer in now:
        change = used.get(name, optimizer), optimizer
        if change[0] != optimizer and change not in reported:
            reported.add(change)
            yield called.get(name, "optimizer"), *change
