"""A fitted text model as arrays and JSON, and back; loading checks everything it reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import choice, integer, optional, real
from sparsenet.engines.linear.linear_model import LinearModel
from sparsenet.engines.text import compact_arrays
from sparsenet.engines.text.fit_text import FittedText, TextModel
from sparsenet.engines.text.text_blend import BlendModel
from sparsenet.engines.text.text_network import NetworkModel
from sparsenet.engines.text.text_options import METHODS
from sparsenet.features.feature_arrays import pack_decision, pack_labels, unpack_decision, unpack_target
from sparsenet.features.targets import Target
from sparsenet.features.text.featuriser import FeatureRules
from sparsenet.features.text.table_columns import KnownColumns, lasting
from sparsenet.features.text.table_columns import unpack as unpack_columns
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import Arrays
from sparsenet.selection.choose import Decision
from sparsenet.storage import ModelError
from sparsenet.storage.parts import check_kind

#: The kind of model, as manifests name it.
KIND = "TextClassifier"
#: The models with metadata of their own, by its name.
_KINDS: dict[str, type[NetworkModel | BlendModel]] = {"network": NetworkModel, "blend": BlendModel}


def pack(
    fitted: FittedText, parameters: dict[str, Any], columns: KnownColumns | None = None
) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and the metadata that `unpack` takes; `parameters` of the estimator are JSON."""
    words, model = fitted.vocabulary, fitted.model
    labels, label_metadata = pack_labels(fitted.target)
    weights, model_metadata = model.to_arrays()
    choices = {name: pack_decision(decision) for name, decision in fitted.decisions.items()}
    arrays: Arrays = {
        "slots": words.slots,
        "feature_weights": words.weights,
        "counts": fitted.counts.astype(np.int64),
        **weights,
        **labels,
    }
    return compact_arrays.pack(arrays), {
        "model": KIND,
        "rules": dict(zip(("word_ngrams", "char_low", "char_high", "bits"), words.rules.as_tuple(), strict=True)),
        "target": label_metadata,
        **model.calibration.as_dict(),
        "n_texts": fitted.n_texts,
        "calls": fitted.calls,
        "validation_score": fitted.score,
        "search": list(fitted.search),
        **({"choices": choices} if choices else {}),
        "parameters": parameters,
        **model_metadata,
        **({} if (known := lasting(columns)) is None else {"columns": known}),
    }


def unpack(arrays: Arrays, metadata: Mapping[str, Any]) -> tuple[FittedText, dict[str, Any], KnownColumns | None]:
    """Return what `pack` packed; a ModelError or any other error means that it is damaged."""
    check_kind(metadata, KIND)
    arrays = compact_arrays.unpack(arrays)
    words = Vocabulary(FeatureRules(**metadata["rules"]), arrays["slots"], arrays["feature_weights"])
    kind = next((own for name, own in _KINDS.items() if name in metadata), LinearModel)
    model = kind.of_arrays(arrays, metadata)
    target = unpack_target(arrays, metadata["target"])
    _check(target, words, model, arrays)
    n_texts, calls = (integer(name, metadata[name], 0) for name in ("n_texts", "calls"))
    score, search = optional(real, "validation_score", metadata["validation_score"], 0, 1), metadata["search"]
    if not isinstance(search, list) or not all(isinstance(trial, dict) for trial in search):
        raise ModelError(f"search must be a list of what was tried, got {search!r}")
    decisions = {name: _unpack_decision(name, own) for name, own in metadata.get("choices", {}).items()}
    fitted = FittedText(
        target, words, model, arrays["counts"], n_texts, calls, score=score, search=search, decisions=decisions
    )
    return fitted, metadata["parameters"], unpack_columns(metadata)


def _unpack_decision(name: str, saved: Mapping[str, Any]) -> Decision:
    """Restore and check a decision of `FittedText.decisions`."""
    decision = unpack_decision(saved)
    if name == "method":
        choice("method", decision.value, METHODS)
    else:
        real("value", decision.value, 0, math.inf)
    return decision


def _check(target: Target, words: Vocabulary, model: TextModel, arrays: Arrays) -> None:
    """Refuse parts that do not fit together."""
    d, n_labels, counts = len(words.slots), len(target.classes), arrays["counts"]
    _require("slots", words.slots, np.int32, (d,))
    _require("feature_weights", words.weights, np.float32, (d,))
    _require("counts", counts, np.int64, (n_labels,))
    if counts.min(initial=0) < 0:
        raise ModelError("counts must not be negative")
    columns = (1, 2) if target.kind == "single" and n_labels == 2 else (n_labels,)
    if target.classes.ndim != 1 or n_labels == 0 or model.n_columns not in columns:
        raise ModelError(f"the model has {model.n_columns} columns for {n_labels} labels")
    if np.any(words.slots[1:] <= words.slots[:-1]) or words.slots.min(initial=0) < 0:
        raise ModelError("slots must ascend from 0 on")
    if words.slots.max(initial=0) >= 1 << words.rules.bits:
        raise ModelError(f"slots must be below 2**{words.rules.bits}")
    if isinstance(model, LinearModel):
        _check_linear(model, d)
    elif model.n_features != d:
        part = "network" if isinstance(model, NetworkModel) else "blend"
        raise ModelError(f"the {part} takes {model.n_features} features, the vocabulary has {d}")


def _check_linear(model: LinearModel, d: int) -> None:
    if (model.indptr is None) != (model.columns is None):
        raise ModelError("indptr and columns must both be there, or neither")
    shape = (d, len(model.bias)) if model.indptr is None else (model.matrix.size,)
    _require("matrix", model.matrix, np.int8, shape)
    _require("factors", model.factors, np.float32, (d,))
    _require("bias", model.bias, np.float32, (len(model.bias),))
    for name in ("offset", "unknown"):
        if (own := getattr(model, name)) is not None:
            _require(name, own, np.float32, (len(model.bias),))
    if model.indptr is None or model.columns is None:
        return
    _require("indptr", model.indptr, np.int64, (d + 1,))
    _require("columns", model.columns, np.int32, shape)
    rising = model.indptr[0] == 0 and np.all(model.indptr[1:] >= model.indptr[:-1])
    if not rising or model.indptr[-1] != len(model.columns):
        raise ModelError("indptr must rise from 0 to the number of weights")
    first = np.zeros(len(model.columns) + 1, bool)
    first[model.indptr] = True
    if np.any((model.columns[1:] <= model.columns[:-1]) & ~first[1:-1]):
        raise ModelError("columns must ascend within each feature")
    if model.columns.min(initial=0) < 0 or model.columns.max(initial=0) >= len(model.bias):
        raise ModelError("columns must be numbers of labels")


def _require(name: str, array: NDArray[Any], dtype: Any, shape: tuple[int, ...]) -> None:
    if array.dtype != dtype or array.shape != shape:
        raise ModelError(f"{name} must be {np.dtype(dtype)} of shape {shape}, got {array.dtype} of {array.shape}")
    if array.dtype.kind == "f" and not np.all(np.isfinite(array)):
        raise ModelError(f"{name} holds NaN or infinity")
