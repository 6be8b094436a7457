"""Pack a fitted network into arrays and JSON, and unpack it; unpacking checks everything."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sparsenet.core.seeds import check_seed
from sparsenet.core.validation import boolean, integer, real
from sparsenet.engines.network import compact
from sparsenet.engines.network.building import SET_IT_BACK, check_layout, outline, wide_config
from sparsenet.engines.network.fit_network import FittedNetwork
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.optim import Adagrad
from sparsenet.engines.network.options import DEFAULTS, NetworkOptions
from sparsenet.engines.network.parameters import SAVABLE, from_json, to_json, unpack_parameters
from sparsenet.engines.network.sizing import fitted_options
from sparsenet.engines.network.wide import WideConfig, WidePath
from sparsenet.features.feature_arrays import Header, pack_common, unpack_common
from sparsenet.features.label_stats import LabelStats
from sparsenet.kernels.types import Arrays
from sparsenet.selection.choose import Decision
from sparsenet.storage.format import ModelError
from sparsenet.storage.narrow import narrow, rounded, widen
from sparsenet.storage.parts import check_kind

#: The kind of model, as manifests and checkpoints name it.
KIND = "ExtremeClassifier"
#: Why a loaded model has its size.
AS_SAVED = "as it was saved"


def pack(fitted: FittedNetwork, header: Header, *, small: bool = False) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and JSON of an equal network; if `small`, of a nearly equal one in fewer bits."""
    common, about = pack_common(header, fitted)
    weights: Arrays = dict(fitted.network.weights(recode=True))
    return {**(narrow(rounded(weights)) if small else weights), **common}, {
        "model": KIND,
        "compact": small,
        **about,
        "calls": fitted.calls,
        "finished": fitted.finished,
        # Values without reasons: a resumed run has other reasons for the same size, and must save the same file.
        "choices": {name: to_json(name, decision.value) for name, decision in fitted.choices.items()},
        "wide": _wide_start(fitted.network),
        "history": [_history_entry(record) for record in fitted.history],
    }


def _wide_start(network: Network) -> dict[str, float] | None:
    """Return the fitted configuration of the wide path; further training needs it."""
    wide = network.output.wide
    if wide is None or not isinstance(wide.config.optimizer, Adagrad):
        return None
    adagrad = wide.config.optimizer
    return {"norm": wide.config.norm, "learning_rate": adagrad.rate, "epsilon": adagrad.epsilon}


def check_unchanged(fitted: FittedNetwork, parameters: Mapping[str, Any], n_features: int) -> None:
    """Refuse parameters changed since training if the network no longer matches them."""
    check_seed(parameters["random_state"])
    options, counts = fitted_options(parameters, fitted.choices), fitted.seen.label_counts
    built = outline(options, n_features, counts, fitted.seen.n_points, seed=0, threads=1)
    check_layout(built, fitted.network)
    before = type(fitted.network.output.loss)
    if before is not type(built.output.loss) and before.__name__ in SAVABLE:
        raise ValueError(
            f"loss was changed since the classifier was fitted, and decides what scores mean: {SET_IT_BACK}, or call "
            "partial_fit"
        )


def _history_entry(record: dict[str, float]) -> dict[str, float | None]:
    """Return a record without its seconds: equal models are equal files."""
    return {name: value if math.isfinite(value) else None for name, value in record.items() if name != "seconds"}


def _unpack_history(saved: Any) -> list[dict[str, float]]:
    """Return the measurements of each epoch; None stands for NaN."""
    if not isinstance(saved, list) or not all(isinstance(record, dict) and "loss" in record for record in saved):
        raise ModelError("history must be a list of the measurements of each epoch, with the loss")
    return [
        {name: math.nan if value is None else real(name, value, -math.inf, math.inf) for name, value in record.items()}
        for record in saved
    ]


def unpack(arrays: Arrays, metadata: Mapping[str, Any]) -> tuple[Header, FittedNetwork]:
    """Return the header and the network; raises ModelError if the parts contradict each other."""
    check_kind(metadata, KIND)
    if boolean("compact", metadata.get("compact", False)):
        arrays = compact.grow(widen(arrays))
    header, target, scaling, seen = unpack_common(arrays, metadata)
    parameters = all_parameters(header)
    check_seed(parameters["random_state"])
    choices = {str(name): Decision(from_json(value), AS_SAVED) for name, value in metadata.get("choices", {}).items()}
    if "normalize" in choices and scaling.decision is not None:
        choices["normalize"] = scaling.decision
    options = fitted_options(parameters, choices)
    network = _network(options, arrays, header.n_features, seen)
    if network.output.wide and metadata.get("wide"):
        network.output.wide.configure(_wide_config(options, metadata["wide"]))
    history, calls = _unpack_history(metadata["history"]), integer("calls", metadata["calls"], 0)
    finished = boolean("finished", metadata.get("finished", False))  # absent from old models
    fitted = FittedNetwork(network, target, scaling, seen, history, calls=calls, finished=finished, choices=choices)
    return header, fitted


def all_parameters(header: Header) -> dict[str, Any]:
    """Return the parameters of a packed network, and the defaults of newer parameters."""
    return {**DEFAULTS, **unpack_parameters(header.parameters)}


def _network(options: NetworkOptions, arrays: Arrays, n_features: int, seen: LabelStats) -> Network:
    network = outline(options, n_features, seen.label_counts, seen.n_points, seed=0, threads=1)
    if options.wide:
        indptr, indices = arrays["wide.indptr"], arrays["wide.indices"]
        if indptr.dtype != np.int64 or indptr.shape != (len(seen.label_counts) + 1,) or indices.dtype != np.int32:
            raise ModelError("wide.indptr and wide.indices do not describe a list of features for each label")
        network.output.wide = WidePath(n_features, indptr, indices, wide_config(options))
    network.set_weights(arrays)
    return network


def _wide_config(options: NetworkOptions, start: dict[str, Any]) -> WideConfig:
    rate = real("learning_rate of the wide path", start["learning_rate"], 0, math.inf)
    norm = real("norm of the wide path", start["norm"], 0, math.inf)
    epsilon = start.get("epsilon", Adagrad.epsilon)  # absent from old models
    epsilon = real("epsilon of the wide path", epsilon, 0, math.inf)
    optimizer = replace(options.wide_optimizer, rate=rate, epsilon=epsilon)
    return replace(wide_config(options), norm=norm, optimizer=optimizer)
