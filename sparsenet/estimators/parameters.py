"""Save and load the parameters and feature names of any model."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from sparsenet.core.validation import n_jobs
from sparsenet.engines.network.losses import BinaryCrossEntropy, SampledSoftmax
from sparsenet.engines.network.optim import SGD, Adagrad, Adam
from sparsenet.index.hashing import LSHConfig
from sparsenet.kernels.types import Arrays
from sparsenet.storage import ModelError, pack_strings, unpack_strings

#: NumPy's names of the types that labels and indicators may have.
_DTYPE = re.compile(r"[<>|=]?[biufUO]\d{0,9}")
#: Classes of parameters that can be saved.
SAVABLE = {c.__name__: c for c in (SGD, Adagrad, Adam, BinaryCrossEntropy, SampledSoftmax, LSHConfig)}


def pack_feature_names(model: Any) -> Arrays:
    """Pack the column names if X was a data frame."""
    return pack_strings(model.feature_names_in_.tolist(), "features") if hasattr(model, "feature_names_in_") else {}


def unpack_feature_names(model: Any, arrays: Arrays, metadata: Mapping[str, Any]) -> None:
    """Restore the feature names of a model, if any; `n_features_in_` must be set."""
    if not metadata["named_features"]:
        return
    model.feature_names_in_ = np.array(unpack_strings(arrays, "features"), dtype=object)
    if len(model.feature_names_in_) != model.n_features_in_:
        raise ModelError(f"the model names {len(model.feature_names_in_)} of {model.n_features_in_} features")


def _array_of(names: list[str], *, fixed_width: bool, max_bytes: int = 1 << 26, max_waste: int = 64) -> NDArray[Any]:
    """Return names as an array, with a fixed width unless it exceeds `max_bytes` and `max_waste` times the names.

    A fixed width pads all names to the longest: 40 names, one of them 8 MB long, would take 1.25 GB.
    """
    padded, own = 4 * len(names) * max(map(len, names), default=0), sum(map(len, names)) + 8 * len(names)
    return np.array(names, dtype=str if fixed_width and padded <= max(max_bytes, max_waste * own) else object)


def pack_parameters(model: BaseEstimator, *, but: Container[str] = ()) -> dict[str, Any]:
    """Convert the parameters of a model to JSON values, except those named in `but`."""
    parameters = model.get_params(deep=False).items()
    return {name: to_json(name, value) for name, value in parameters if name not in but}


def unpack_parameters(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Restore the parameters from the output of `pack_parameters`."""
    parameters = {name: from_json(value) for name, value in saved.items()}
    n_jobs(parameters.get("n_jobs"))  # some models validate it only at its first use
    return parameters


def to_json(name: str, value: Any) -> Any:
    """Convert a parameter to a JSON value; raise ValueError if it cannot be saved."""
    if isinstance(value, np.random.RandomState):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [to_json(name, item) for item in value]
    if isinstance(value, Mapping):  # JSON keys must be strings
        return {"pairs": [[to_json(name, key), to_json(name, item)] for key, item in value.items()]}
    if is_dataclass(value) and SAVABLE.get(type(value).__name__) is type(value):
        return {"class": type(value).__name__, "fields": asdict(value)}
    raise ValueError(
        f"{name}={value!r} cannot be saved: a model on disk holds no code. Name one of the built-in choices by "
        f"set_params({name}=...) first; it matters for further training only, unless it is the loss"
    )


def from_json(value: Any) -> Any:
    """Restore a parameter from the output of `to_json`."""
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
