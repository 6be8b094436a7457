"""A fitted classifier as arrays and JSON, and back. Nothing is pickled, and nothing read is believed."""

from __future__ import annotations

import math
import os
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from sparsenet import storage
from sparsenet._validation import boolean, n_jobs, real
from sparsenet.estimators import compact
from sparsenet.estimators.building import AS_IT_WAS, check_layout, outline, wide_config
from sparsenet.estimators.choices import decided
from sparsenet.estimators.fitting import Fitted
from sparsenet.estimators.scaling import Scaling
from sparsenet.estimators.settings import Settings
from sparsenet.estimators.targets import KINDS, Target
from sparsenet.losses import BinaryCrossEntropy, SampledSoftmax
from sparsenet.lsh import LSHConfig
from sparsenet.model import Network
from sparsenet.optim import SGD, Adagrad, Adam
from sparsenet.storage import ModelError, pack_strings, unpack_strings
from sparsenet.training import checkpoints
from sparsenet.wide import WideConfig, WidePath

if TYPE_CHECKING:
    from sparsenet.estimators import ExtremeClassifier

Arrays = dict[str, NDArray[Any]]
Model = TypeVar("Model", bound="ExtremeClassifier")
#: Why a loaded model has the size that it has.
AS_SAVED = "as it was saved"
_SAVABLE = {c.__name__: c for c in (SGD, Adagrad, Adam, BinaryCrossEntropy, SampledSoftmax, LSHConfig)}


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
    arrays: Arrays = {**(compact.shrink(weights) if small else weights), "counts": fitted.label_counts}
    labels, about_target = pack_labels(target)
    arrays |= {**labels, **pack_scaling(scaling), **pack_feature_names(model)}
    return arrays, {
        "model": "ExtremeClassifier",
        "compact": small,
        "parameters": pack_parameters(model),
        "n_features": model.n_features_in_,
        "n_points": fitted.n_points,
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
    settings, counts = decided(model.get_params(deep=False), fitted.choices), fitted.label_counts
    built = outline(settings, model.n_features_in_, counts, fitted.n_points, seed=0, threads=1)
    check_layout(built, fitted.network)
    before = type(fitted.network.output.loss)
    if before is not type(built.output.loss) and before.__name__ in _SAVABLE:
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


def check_kind(metadata: Mapping[str, Any], kind: str) -> None:
    """Refuse what is saved of another kind of model."""
    if checkpoints.is_state(metadata):
        raise ModelError(checkpoints.NO_MODEL)
    if (found := metadata.get("model")) != kind:
        raise ModelError(f"this is a model of the kind {found!r}, not {kind}: sparsenet.load takes any kind")


@contextmanager
def nothing_believed() -> Iterator[None]:
    """Turn whatever goes wrong with the parts of a saved model into a ModelError."""
    try:
        yield
    except ModelError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ModelError(f"the model is not one that this version can use: {error!r}; train it anew") from error


def _unpack(cls: type[Model], arrays: Arrays, metadata: dict[str, Any]) -> Model:
    check_kind(metadata, "ExtremeClassifier")
    if metadata.get("compact", False):
        arrays = compact.grow(arrays)
    model = cls(**unpack_parameters(metadata["parameters"]))
    model.n_features_in_ = int(metadata["n_features"])
    unpack_feature_names(model, arrays, metadata)
    target, counts, n_points = unpack_target(arrays, metadata["target"]), arrays["counts"], int(metadata["n_points"])
    if counts.ndim != 1 or counts.dtype != np.int64 or counts.min(initial=0) < 0:
        raise ModelError(f"counts must hold a whole number for each label, got {counts.dtype} of shape {counts.shape}")
    choices = {str(name): (from_json(value), AS_SAVED) for name, value in metadata.get("choices", {}).items()}
    settings = decided(model.get_params(deep=False), choices)
    network = _network(settings, arrays, model.n_features_in_, counts, n_points)
    if network.output.wide and metadata.get("wide"):
        network.output.wide.configure(_wide_config(settings, metadata["wide"]))
    if len(target.classes) != network.output.n_labels:
        raise ModelError(f"the model counts {len(counts)} labels, and names {len(target.classes)}")
    scaling = unpack_scaling(arrays, metadata["scaling"], model.n_features_in_)
    history, calls = _unpack_history(metadata["history"]), int(metadata["calls"])
    finished = bool(metadata.get("finished", False))  # old models do not say
    fitted = Fitted(
        network, target, scaling, counts, n_points, history, calls=calls, finished=finished, choices=choices
    )
    model._adopt(fitted)
    return model


def _network(settings: Settings, arrays: Arrays, n_features: int, counts: NDArray[Any], n_points: int) -> Network:
    network = outline(settings, n_features, counts, n_points, seed=0, threads=1)
    if settings.wide:
        indptr, indices = arrays["wide.indptr"], arrays["wide.indices"]
        if indptr.dtype != np.int64 or indptr.shape != (len(counts) + 1,) or indices.dtype != np.int32:
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


def pack_part(name: str, arrays: Arrays) -> Arrays:
    """Return the arrays of a model that is part of another one, under names that say of which part."""
    return {f"{name}.{own}": array for own, array in arrays.items()}


def unpack_part(name: str, arrays: Arrays) -> Arrays:
    """Return the arrays of a part under their own names."""
    return {of.removeprefix(f"{name}."): array for of, array in arrays.items() if of.startswith(f"{name}.")}


def pack_scaling(scaling: Scaling) -> Arrays:
    """Return what `unpack_scaling` needs, beside the kind."""
    if scaling.centre is None or scaling.factor is None:
        return {}
    return {"scaling.centre": scaling.centre, "scaling.factor": scaling.factor}


def unpack_scaling(arrays: Arrays, kind: str, n_features: int) -> Scaling:
    """Make the scaling of a saved model, of any kind of estimator."""
    if kind not in ("rows", "columns", "none"):
        raise ModelError(f"the scaling must be rows, columns or none, got {kind!r}")
    if kind != "columns":
        return Scaling(kind)
    centre, factor = arrays["scaling.centre"], arrays["scaling.factor"]
    if centre.shape != (n_features,) or factor.shape != (n_features,):
        raise ModelError(f"the scaling is of {centre.shape} and {factor.shape} columns, the model has {n_features}")
    finite = np.isfinite(centre).all() and np.isfinite(factor).all()
    if centre.dtype != np.float64 or factor.dtype != np.float64 or not finite:
        raise ModelError(f"the scaling must be of finite numbers in float64, got {centre.dtype} and {factor.dtype}")
    return Scaling(kind, centre, factor)


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


def pack_labels(target: Target) -> tuple[Arrays, dict[str, Any]]:
    """Return what `unpack_target` needs: the labels, as numbers or text, and what JSON can say of them."""
    strings = target.classes.dtype.kind in "OU"
    arrays = pack_strings(target.classes.tolist(), "classes") if strings else {"classes": target.classes}
    return arrays, {"kind": target.kind, "dtype": target.dtype.str, "strings": strings}


def unpack_target(arrays: Arrays, about: dict[str, Any]) -> Target:
    """Make the labels of a saved model, of any kind of estimator."""
    if about["kind"] not in KINDS:
        raise ModelError(f"the kind of labels must be one of {', '.join(KINDS)}, got {about['kind']!r}")
    if not isinstance(about["dtype"], str):
        raise ModelError(f"the type of labels must be the name of one, got {about['dtype']!r}")
    dtype = np.dtype(about["dtype"])
    if not about["strings"]:
        classes = arrays["classes"]
        if classes.ndim != 1 or dtype.kind not in "biuf":
            raise ModelError(
                f"classes must be one row of numbers, got shape {classes.shape}, for labels of type {dtype}"
            )
        _check_ascending(classes)
        return Target(about["kind"], classes, dtype)
    types = {"single": "OU", "lists": "OU", "dense": "biuf"}  # of names themselves, and of an indicator with names
    if dtype.kind not in types.get(about["kind"], ""):
        raise ModelError(f"labels of the kind {about['kind']!r} and the type {dtype} cannot be the names in the model")
    # Not as wide as `dtype` says: that could be any amount of memory.
    names = np.array(unpack_strings(arrays, "classes"), dtype=str if dtype.kind == "U" else object)
    if about["kind"] == "dense":  # names of columns, in the order of these
        if len(set(names.tolist())) < len(names):
            raise ModelError("two columns have one name")
    else:
        _check_ascending(names)
    return Target(about["kind"], names, dtype)


def _check_ascending(classes: NDArray[Any]) -> None:
    """Refuse labels among which a search would find nothing, or another one."""
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        raise ModelError("classes hold NaN or infinity")
    if not (classes[1:] > classes[:-1]).all():
        raise ModelError("classes must be distinct, and ascend")


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
    if is_dataclass(value) and _SAVABLE.get(type(value).__name__) is type(value):
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
        return dict(from_json(value["pairs"]))
    if isinstance(value, dict):
        return _SAVABLE[value["class"]](**value["fields"])
    return value
