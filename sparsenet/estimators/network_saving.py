"""A fitted classifier as arrays and JSON, and back. Nothing is pickled, and nothing read is believed."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sparsenet import storage
from sparsenet.core.validation import MAX_WIDTH, boolean, integer, real
from sparsenet.engines.network import compact
from sparsenet.engines.network.building import AS_IT_WAS, check_layout, outline, wide_config
from sparsenet.engines.network.fit_network import Fitted
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.optim import Adagrad
from sparsenet.engines.network.options import Settings
from sparsenet.engines.network.sizing import decided
from sparsenet.engines.network.wide import WideConfig, WidePath
from sparsenet.estimators.parameters import (
    SAVABLE,
    from_json,
    pack_feature_names,
    pack_parameters,
    to_json,
    unpack_feature_names,
    unpack_parameters,
)
from sparsenet.estimators.transaction import check_seed
from sparsenet.features.feature_arrays import (
    pack_labels,
    pack_scaling,
    pack_seen,
    unpack_scaling,
    unpack_seen,
    unpack_target,
)
from sparsenet.features.seen import Seen
from sparsenet.kernels.types import Arrays
from sparsenet.storage import ModelError
from sparsenet.storage.parts import check_kind, nothing_believed

if TYPE_CHECKING:
    from sparsenet.estimators.extreme import ExtremeClassifier

Model = TypeVar("Model", bound="ExtremeClassifier")
#: Why a loaded model has the size that it has.
AS_SAVED = "as it was saved"


class SavingMixin:
    """The methods of `ExtremeClassifier` that put it on disk and take it from there."""

    _fitted: Fitted

    def save(self: Any, path: str | os.PathLike[str], *, compact: bool = False) -> None:
        """Save to a directory: safetensors and a manifest with checksums, replaced as a whole or not at all.

        Predictions after `load` are equal bit for bit, unless `compact`: that takes a quarter of the room for dense
        weights and half of it for sparse ones, by numbers of 8 and 16 bits. What only further training would need is
        not saved: the optimizer's state, and the state of a `random_state` that is a RandomState, which becomes None.
        """
        check_is_fitted(self)
        storage.save(path, *pack(self, self._fitted, small=boolean("compact", compact)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Load what `save` saved; a ModelError says what is wrong with a damaged or foreign model."""
        model: Self = storage.load_as(path, partial(unpack, cast(Any, cls)))
        return model


def pack(model: ExtremeClassifier, fitted: Fitted, *, small: bool = False) -> tuple[Arrays, dict[str, Any]]:
    """Return what `unpack` needs to make an equal, or if `small` nearly equal, classifier: arrays and JSON."""
    _check_unchanged(model, fitted)
    target, scaling = fitted.target, fitted.scaling
    weights: Arrays = dict(fitted.network.weights())
    seen, about_seen = pack_seen(fitted.seen)
    arrays: Arrays = {**(compact.shrink(weights) if small else weights), **seen}
    labels, about_target = pack_labels(target)
    arrays |= {**labels, **pack_scaling(scaling), **pack_feature_names(model)}
    return arrays, {
        "model": "ExtremeClassifier",
        "compact": small,
        "parameters": pack_parameters(model),
        "n_features": model.n_features_in_,
        **about_seen,
        "calls": fitted.calls,
        "finished": fitted.finished,
        # Not why: a resumed run has its size for another reason than an uninterrupted one, and is its equal.
        "choices": {name: to_json(name, value) for name, (value, _) in fitted.choices.items()},
        "target": about_target,
        "scaling": scaling.kind,
        "wide": _wide_start(fitted.network),
        "named_features": hasattr(model, "feature_names_in_"),
        "history": [_history_entry(record) for record in fitted.history],
    }


def _wide_start(network: Network) -> dict[str, float] | None:
    """Say what the data decided about the wide path, which further training has to know."""
    wide = network.output.wide
    if wide is None or not isinstance(wide.config.optimizer, Adagrad):
        return None
    adagrad = wide.config.optimizer
    return {"norm": wide.config.norm, "learning_rate": adagrad.rate, "epsilon": adagrad.epsilon}


def _check_unchanged(model: ExtremeClassifier, fitted: Fitted) -> None:
    """Refuse parameters that were changed since `fit` to those of another network: `unpack` builds from them."""
    check_seed(model.random_state)
    settings, counts = decided(model.get_params(deep=False), fitted.choices), fitted.seen.label_counts
    built = outline(settings, model.n_features_in_, counts, fitted.seen.n_points, seed=0, threads=1)
    check_layout(built, fitted.network)
    before = type(fitted.network.output.loss)
    if before is not type(built.output.loss) and before.__name__ in SAVABLE:
        raise ValueError(
            f"loss was changed since the classifier was fitted, and decides what scores mean: {AS_IT_WAS}, or call "
            "partial_fit"
        )


def _history_entry(record: dict[str, float]) -> dict[str, float | None]:
    """Leave out how long the epoch took: equal models are equal files."""
    return {name: value if math.isfinite(value) else None for name, value in record.items() if name != "seconds"}


def _unpack_history(saved: Any) -> list[dict[str, float]]:
    """Return what was measured of each epoch; what is None was no finite number."""
    if not isinstance(saved, list) or not all(isinstance(record, dict) and "loss" in record for record in saved):
        raise ModelError("history must be a list of what was measured of each epoch, the loss among it")
    return [
        {name: math.nan if value is None else real(name, value, -math.inf, math.inf) for name, value in record.items()}
        for record in saved
    ]


def unpack(cls: type[Model], arrays: Arrays, metadata: dict[str, Any]) -> Model:
    """Make the classifier that `pack` took apart; raises ModelError where the parts do not fit together."""
    with nothing_believed():
        return _unpack(cls, arrays, metadata)


def _unpack(cls: type[Model], arrays: Arrays, metadata: dict[str, Any]) -> Model:
    check_kind(metadata, "ExtremeClassifier")
    if boolean("compact", metadata.get("compact", False)):
        arrays = compact.grow(arrays)
    model = cls(**unpack_parameters(metadata["parameters"]))
    model.n_features_in_ = integer("n_features", metadata["n_features"], 0, MAX_WIDTH)
    unpack_feature_names(model, arrays, metadata)
    target, n_features = unpack_target(arrays, metadata["target"]), model.n_features_in_
    scaling = unpack_scaling(arrays, metadata["scaling"], n_features)
    seen = unpack_seen(arrays, metadata, scaling.kind, len(target.classes), n_features)
    check_seed(model.random_state)
    choices = {str(name): (from_json(value), AS_SAVED) for name, value in metadata.get("choices", {}).items()}
    settings = decided(model.get_params(deep=False), choices)
    network = _network(settings, arrays, n_features, seen)
    if network.output.wide and metadata.get("wide"):
        network.output.wide.configure(_wide_config(settings, metadata["wide"]))
    history, calls = _unpack_history(metadata["history"]), integer("calls", metadata["calls"], 0)
    finished = boolean("finished", metadata.get("finished", False))  # old models do not say
    fitted = Fitted(network, target, scaling, seen, history, calls=calls, finished=finished, choices=choices)
    model._adopt(fitted)
    return model


def _network(settings: Settings, arrays: Arrays, n_features: int, seen: Seen) -> Network:
    network = outline(settings, n_features, seen.label_counts, seen.n_points, seed=0, threads=1)
    if settings.wide:
        indptr, indices = arrays["wide.indptr"], arrays["wide.indices"]
        if indptr.dtype != np.int64 or indptr.shape != (len(seen.label_counts) + 1,) or indices.dtype != np.int32:
            raise ModelError("wide.indptr and wide.indices do not describe a list of features for each label")
        network.output.wide = WidePath(n_features, indptr, indices, wide_config(settings))
    network.set_weights(arrays)
    return network


def _wide_config(settings: Settings, start: dict[str, Any]) -> WideConfig:
    rate = real("learning_rate of the wide path", start["learning_rate"], 0, math.inf)
    norm = real("norm of the wide path", start["norm"], 0, math.inf)
    epsilon = real(
        "epsilon of the wide path", start.get("epsilon", Adagrad.epsilon), 0, math.inf
    )  # old models have none
    optimizer = replace(settings.wide_optimizer, rate=rate, epsilon=epsilon)
    return replace(wide_config(settings), norm=norm, optimizer=optimizer)
