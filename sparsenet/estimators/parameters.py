"""What models of every kind have in common on disk: labels, scaling, names of features, parameters."""

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

#: Names become an array of fixed width up to this many bytes, or up to this many times their own size.
USUAL_ROOM, MOST_TIMES = 1 << 26, 64
#: The types that labels and indicators have, as NumPy writes them.
_DTYPE = re.compile(r"[<>|=]?[biufUO]\d{0,9}")
#: Parameters that are more than a number or a text, of which a model on disk can say what they are.
SAVABLE = {c.__name__: c for c in (SGD, Adagrad, Adam, BinaryCrossEntropy, SampledSoftmax, LSHConfig)}


def pack_feature_names(model: Any) -> Arrays:
    """Return the names of columns, where X was a data frame."""
    return pack_strings(model.feature_names_in_.tolist(), "features") if hasattr(model, "feature_names_in_") else {}


def unpack_feature_names(model: Any, arrays: Arrays, metadata: Mapping[str, Any]) -> None:
    """Give a model of any kind, which knows how many features it has, their names, if they have some."""
    if not metadata["named_features"]:
        return
    model.feature_names_in_ = np.array(unpack_strings(arrays, "features"), dtype=object)
    if len(model.feature_names_in_) != model.n_features_in_:
        raise ModelError(f"the model names {len(model.feature_names_in_)} of {model.n_features_in_} features")


def _array_of(names: list[str], *, fixed_width: bool) -> NDArray[Any]:
    """Return names as an array, of a fixed width where that does not take far more memory than the names themselves.

    A fixed width gives every name the room of the longest: 40 names, one of them 8 MB long, would take 1.25 GB.
    """
    room, own = 4 * len(names) * max(map(len, names), default=0), sum(map(len, names)) + 8 * len(names)
    return np.array(names, dtype=str if fixed_width and room <= max(USUAL_ROOM, MOST_TIMES * own) else object)


def pack_parameters(model: BaseEstimator, *, but: Container[str] = ()) -> dict[str, Any]:
    """Return the parameters of a model of any kind, without those that are `but` some, as JSON can say them."""
    parameters = model.get_params(deep=False).items()
    return {name: to_json(name, value) for name, value in parameters if name not in but}


def unpack_parameters(saved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of which `pack_parameters` made this."""
    parameters = {name: from_json(value) for name, value in saved.items()}
    n_jobs(parameters.get("n_jobs"))  # which not every kind of model looks at before it is used
    return parameters


def to_json(name: str, value: Any) -> Any:
    """Return a parameter as JSON can say it; an error names one that it cannot."""
    if isinstance(value, np.random.RandomState):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [to_json(name, item) for item in value]
    if isinstance(value, Mapping):  # whose keys may be numbers
        return {"pairs": [[to_json(name, key), to_json(name, item)] for key, item in value.items()]}
    if is_dataclass(value) and SAVABLE.get(type(value).__name__) is type(value):
        return {"class": type(value).__name__, "fields": asdict(value)}
    raise ValueError(
        f"{name}={value!r} cannot be saved: a model on disk holds no code. Name one of the built-in choices by "
        f"set_params({name}=...) first; it matters for further training only, unless it is the loss"
    )


def from_json(value: Any) -> Any:
    """Return the parameter of which `to_json` made this."""
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
