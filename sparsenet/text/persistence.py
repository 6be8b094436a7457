"""A fitted text classifier as arrays and JSON, and back. Nothing is pickled, and nothing read is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsenet.estimators.persistence import nothing_believed, unpack_target
from sparsenet.estimators.targets import Target
from sparsenet.storage import ModelError, pack_strings, size
from sparsenet.text import packing
from sparsenet.text.featuriser import FeatureRules
from sparsenet.text.fitted import Fitted
from sparsenet.text.linear import LinearModel
from sparsenet.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from sparsenet.text.classifier import TextClassifier

Arrays = dict[str, NDArray[Any]]
Model = TypeVar("Model", bound="TextClassifier")
KIND = "TextClassifier"


def pack(model: TextClassifier, fitted: Fitted) -> tuple[Arrays, dict[str, Any]]:
    """Return what `unpack` needs to make an equal classifier: arrays, and what JSON can say."""
    target, words, weights = fitted.target, fitted.vocabulary, fitted.model
    strings = target.classes.dtype.kind in "OU"
    arrays: Arrays = {
        "slots": words.slots,
        "feature_weights": words.weights,
        "matrix": weights.matrix,
        "factors": weights.factors,
        "bias": weights.bias,
        "counts": fitted.counts.astype(np.int64),
    }
    if weights.indptr is not None and weights.columns is not None:
        arrays |= {"indptr": weights.indptr, "columns": weights.columns}
    arrays |= (
        pack_strings([str(c) for c in target.classes.tolist()], "classes") if strings else {"classes": target.classes}
    )
    return packing.pack(arrays), {
        "model": KIND,
        "parameters": {name: _to_json(value) for name, value in model.get_params(deep=False).items()},
        "rules": dict(zip(("word_ngrams", "char_low", "char_high", "bits"), words.rules.as_tuple(), strict=True)),
        "target": {"kind": target.kind, "dtype": target.dtype.str, "strings": strings},
        "steepness": weights.steepness,
        "shift": weights.shift,
        "n_texts": fitted.n_texts,
        "calls": fitted.calls,
        "validation_score": model.validation_score_,
        "search": model.search_,
    }


def saved_size(model: TextClassifier, fitted: Fitted) -> int:
    """Return how many bytes a model takes on disk."""
    return size(*pack(model, fitted))


def unpack(cls: type[Model], arrays: Arrays, metadata: dict[str, Any]) -> Model:
    """Make the classifier that `pack` took apart; raises ModelError where the parts do not fit together."""
    if metadata.get("model") != KIND:
        raise ModelError(f"this is a model of the kind {metadata.get('model')!r}, not a {KIND}")
    with nothing_believed():
        return _unpack(cls, packing.unpack(arrays), metadata)


def _unpack(cls: type[Model], arrays: Arrays, metadata: dict[str, Any]) -> Model:
    model = cls(**{name: _from_json(value) for name, value in metadata["parameters"].items()})
    words = Vocabulary(FeatureRules(**metadata["rules"]), arrays["slots"], arrays["feature_weights"])
    counts = arrays["counts"]
    weights = LinearModel(
        arrays["matrix"],
        arrays["factors"],
        arrays["bias"],
        float(metadata["steepness"]),
        float(metadata["shift"]),
        arrays.get("indptr"),
        arrays.get("columns"),
    )
    target = unpack_target(arrays, metadata["target"])
    _check(target, words, weights, arrays)
    fitted = Fitted(target, words, weights, counts, int(metadata["n_texts"]), int(metadata["calls"]))
    return model._adopt(fitted, metadata["validation_score"], metadata["search"])


def _check(target: Target, words: Vocabulary, weights: LinearModel, arrays: Arrays) -> None:
    d, n_labels, counts = len(words.slots), len(target.classes), arrays["counts"]
    columns = (1, 2) if target.kind == "single" and n_labels == 2 else (n_labels,)
    shapes: dict[str, tuple[NDArray[Any], Any, tuple[int, ...]]] = {
        "slots": (words.slots, np.int32, (d,)),
        "feature_weights": (words.weights, np.float32, (d,)),
        "matrix": (weights.matrix, np.int8, (d, len(weights.bias)) if weights.indptr is None else weights.matrix.shape),
        "factors": (weights.factors, np.float32, (d,)),
        "bias": (weights.bias, np.float32, (len(weights.bias),)),
        "counts": (counts, np.int64, (n_labels,)),
    }
    if weights.indptr is not None:
        shapes |= {
            "indptr": (weights.indptr, np.int64, (d + 1,)),
            "columns": (arrays["columns"], np.int32, (weights.matrix.size,)),
        }
    for name, (array, dtype, shape) in shapes.items():
        if array.dtype != dtype or array.shape != shape:
            raise ModelError(f"{name} must be {np.dtype(dtype)} of shape {shape}, got {array.dtype} of {array.shape}")
    if target.classes.ndim != 1 or n_labels == 0 or len(weights.bias) not in columns:
        raise ModelError(f"the model has {len(weights.bias)} columns for {n_labels} labels")
    if np.any(words.slots[1:] <= words.slots[:-1]) or words.slots.min(initial=0) < 0:
        raise ModelError("slots must ascend from 0 on")
    if words.slots.max(initial=0) >= 1 << words.rules.bits:
        raise ModelError(f"slots must be below 2**{words.rules.bits}")
    if weights.indptr is not None and weights.columns is not None:
        rising = weights.indptr[0] == 0 and np.all(weights.indptr[1:] >= weights.indptr[:-1])
        if not rising or weights.indptr[-1] != len(weights.columns):
            raise ModelError("indptr must rise from 0 to the number of weights")
        if weights.columns.min(initial=0) < 0 or weights.columns.max(initial=0) >= len(weights.bias):
            raise ModelError("columns must be numbers of labels")
    for name in ("feature_weights", "factors", "bias"):
        if not np.all(np.isfinite(shapes[name][0])):
            raise ModelError(f"{name} holds what is not finite")


def _to_json(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple | list):
        return [_to_json(item) for item in value]
    if isinstance(value, dict):
        return {"pairs": [[_to_json(key), _to_json(item)] for key, item in value.items()]}
    return None  # a RandomState: it decides nothing about a model that is trained


def _from_json(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    return dict(value["pairs"]) if isinstance(value, dict) else value
