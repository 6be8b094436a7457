"""Convert parameters of classifiers to JSON and back."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np

from sparsenet.core.validation import n_jobs
from sparsenet.engines.network.losses import BinaryCrossEntropy, SampledSoftmax
from sparsenet.engines.network.optim import SGD, Adagrad, Adam
from sparsenet.index.hashing import LSHConfig
from sparsenet.storage.format import ModelError

#: Classes of parameters that a saved model can name.
SAVABLE = {c.__name__: c for c in (SGD, Adagrad, Adam, BinaryCrossEntropy, SampledSoftmax, LSHConfig)}


def pack_parameters(parameters: Mapping[str, Any], *, but: Container[str] = ()) -> dict[str, Any]:
    """Return constructor parameters as JSON, without those named in `but`."""
    return {name: to_json(name, value) for name, value in parameters.items() if name not in but}


def unpack_parameters(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that `pack_parameters` packed."""
    parameters = {name: from_json(value) for name, value in saved.items()}
    n_jobs(parameters.get("n_jobs"))  # some classifiers do not check it before they use it
    return parameters


def to_json(name: str, value: Any) -> Any:
    """Return a parameter as JSON; raises ValueError for an object that JSON cannot hold."""
    if isinstance(value, np.random.RandomState):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [to_json(name, item) for item in value]
    if isinstance(value, Mapping):  # keys may be numbers
        return {"pairs": [[to_json(name, key), to_json(name, item)] for key, item in value.items()]}
    if is_dataclass(value) and SAVABLE.get(type(value).__name__) is type(value):
        return {"class": type(value).__name__, "fields": pack_parameters(asdict(value))}
    raise ValueError(
        f"{name}={value!r} cannot be saved: a model on disk holds no code. Name one of the built-in choices by "
        f"set_params({name}=...) first; it matters for further training only, unless it is the loss"
    )


def from_json(value: Any) -> Any:
    """Return the parameter that `to_json` packed."""
    if isinstance(value, list):
        return tuple(from_json(item) for item in value)
    if isinstance(value, dict) and "pairs" in value:
        pairs = from_json(value["pairs"])
        if len(dict(pairs)) < len(pairs):
            raise ModelError("a parameter holds a key twice")
        return dict(pairs)
    if isinstance(value, dict):
        return SAVABLE[value["class"]](**value["fields"])
    return value
