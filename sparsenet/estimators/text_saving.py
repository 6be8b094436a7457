"""A fitted text classifier as arrays and JSON, and back. Nothing is pickled, and nothing read is believed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import integer, optional, real
from sparsenet.engines.linear.linear_model import LinearModel
from sparsenet.engines.network.parameters import pack_parameters, unpack_parameters
from sparsenet.engines.text import compact_arrays
from sparsenet.engines.text.fitted_text import Fitted
from sparsenet.engines.text.text_network import NetworkModel
from sparsenet.features.feature_arrays import pack_labels, unpack_target
from sparsenet.features.targets import Target
from sparsenet.features.text import table_columns
from sparsenet.features.text.featuriser import FeatureRules
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import Arrays
from sparsenet.storage import ModelError, size
from sparsenet.storage.parts import check_kind, nothing_believed

if TYPE_CHECKING:
    from sparsenet.estimators.text import TextClassifier

Model = TypeVar("Model", bound="TextClassifier")
KIND = "TextClassifier"


def pack(model: TextClassifier, fitted: Fitted) -> tuple[Arrays, dict[str, Any]]:
    """Return what `unpack` needs to make an equal classifier: arrays, and what JSON can say."""
    parameters = pack_parameters(model.get_params(deep=False))
    model._check()  # wrong parameters, set since, would not be loaded
    target, words, weights = fitted.target, fitted.vocabulary, fitted.model
    labels, about_target = pack_labels(target)
    own, about = weights.to_arrays()
    arrays: Arrays = {
        "slots": words.slots,
        "feature_weights": words.weights,
        "counts": fitted.counts.astype(np.int64),
        **own,
        **labels,
    }
    known = table_columns.lasting(model.columns_)
    return compact_arrays.pack(arrays), {
        "model": KIND,
        "parameters": parameters,
        "rules": dict(zip(("word_ngrams", "char_low", "char_high", "bits"), words.rules.as_tuple(), strict=True)),
        "target": about_target,
        **weights.calibration.as_dict(),
        "n_texts": fitted.n_texts,
        "calls": fitted.calls,
        "validation_score": model.validation_score_,
        "search": model.search_,
        **({} if known is None else {"columns": known}),
        **about,
    }


def saved_size(model: TextClassifier, fitted: Fitted) -> int:
    """Return how many bytes a model takes on disk."""
    return size(*pack(model, fitted))


def unpack(cls: type[Model], arrays: Arrays, metadata: dict[str, Any]) -> Model:
    """Make the classifier that `pack` took apart; raises ModelError where the parts do not fit together."""
    check_kind(metadata, KIND)
    with nothing_believed():
        return _unpack(cls, compact_arrays.unpack(arrays), metadata)


def _unpack(cls: type[Model], arrays: Arrays, metadata: dict[str, Any]) -> Model:
    model = cls(**unpack_parameters(metadata["parameters"]))
    model._check()
    words = Vocabulary(FeatureRules(**metadata["rules"]), arrays["slots"], arrays["feature_weights"])
    counts = arrays["counts"]
    kind = NetworkModel if "network" in metadata else LinearModel
    weights = kind.of_arrays(arrays, metadata)
    target = unpack_target(arrays, metadata["target"])
    _check(target, words, weights, arrays)
    n_texts, calls = (integer(name, metadata[name], 0) for name in ("n_texts", "calls"))
    score, search = optional(real, "validation_score", metadata["validation_score"], 0, 1), metadata["search"]
    if not isinstance(search, list) or not all(isinstance(trial, dict) for trial in search):
        raise ModelError(f"search must be a list of what was tried, got {search!r}")
    fitted = Fitted(target, words, weights, counts, n_texts, calls)
    return model._adopt(fitted, score, search, table_columns.unpack(metadata))


def _check(target: Target, words: Vocabulary, weights: LinearModel | NetworkModel, arrays: Arrays) -> None:
    d, n_labels, counts = len(words.slots), len(target.classes), arrays["counts"]
    _require("slots", words.slots, np.int32, (d,))
    _require("feature_weights", words.weights, np.float32, (d,))
    _require("counts", counts, np.int64, (n_labels,))
    if counts.min(initial=0) < 0:
        raise ModelError("counts must not be negative")
    columns = (1, 2) if target.kind == "single" and n_labels == 2 else (n_labels,)
    if target.classes.ndim != 1 or n_labels == 0 or weights.n_columns not in columns:
        raise ModelError(f"the model has {weights.n_columns} columns for {n_labels} labels")
    if np.any(words.slots[1:] <= words.slots[:-1]) or words.slots.min(initial=0) < 0:
        raise ModelError("slots must ascend from 0 on")
    if words.slots.max(initial=0) >= 1 << words.rules.bits:
        raise ModelError(f"slots must be below 2**{words.rules.bits}")
    if isinstance(weights, LinearModel):
        _check_linear(weights, d)
    elif weights.network.n_features != d:
        raise ModelError(f"the network takes {weights.network.n_features} features, the vocabulary has {d}")


def _check_linear(weights: LinearModel, d: int) -> None:
    if (weights.indptr is None) != (weights.columns is None):
        raise ModelError("indptr and columns must both be there, or neither")
    shape = (d, len(weights.bias)) if weights.indptr is None else (weights.matrix.size,)
    _require("matrix", weights.matrix, np.int8, shape)
    _require("factors", weights.factors, np.float32, (d,))
    _require("bias", weights.bias, np.float32, (len(weights.bias),))
    for name in ("offset", "unknown"):
        if (own := getattr(weights, name)) is not None:
            _require(name, own, np.float32, (len(weights.bias),))
    if weights.indptr is None or weights.columns is None:
        return
    _require("indptr", weights.indptr, np.int64, (d + 1,))
    _require("columns", weights.columns, np.int32, shape)
    rising = weights.indptr[0] == 0 and np.all(weights.indptr[1:] >= weights.indptr[:-1])
    if not rising or weights.indptr[-1] != len(weights.columns):
        raise ModelError("indptr must rise from 0 to the number of weights")
    first = np.zeros(len(weights.columns) + 1, bool)
    first[weights.indptr] = True
    if np.any((weights.columns[1:] <= weights.columns[:-1]) & ~first[1:-1]):
        raise ModelError("columns must ascend within each feature")
    if weights.columns.min(initial=0) < 0 or weights.columns.max(initial=0) >= len(weights.bias):
        raise ModelError("columns must be numbers of labels")


def _require(name: str, array: NDArray[Any], dtype: Any, shape: tuple[int, ...]) -> None:
    if array.dtype != dtype or array.shape != shape:
        raise ModelError(f"{name} must be {np.dtype(dtype)} of shape {shape}, got {array.dtype} of {array.shape}")
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise ModelError(f"{name} holds what is not finite")
