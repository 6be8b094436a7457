"""Convert labels, scaling and label statistics to arrays for saving, and back."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.validation import MAX_WIDTH, integer, optional, real
from sparsenet.features.label_stats import LabelStats
from sparsenet.features.part_scaling import PARTS, PartScaling, ScaledPart
from sparsenet.features.scaling import SCALINGS, Scaling
from sparsenet.features.targets import KINDS, Target
from sparsenet.kernels.types import Arrays
from sparsenet.selection.choose import Decision
from sparsenet.storage.format import ModelError
from sparsenet.storage.strings import pack_strings, unpack_strings

#: A fixed-width array of names may have this many bytes, or exceed the size of the names by this factor.
FIXED_WIDTH_BYTES, MAX_PADDING_FACTOR = 1 << 26, 64
#: Types of labels and indicators, as NumPy writes them.
_DTYPE = re.compile(r"[<>|=]?[biufUO]\d{0,9}")


@dataclass(frozen=True, eq=False)
class Header:
    """The estimator's part of a saved model.

    Attributes
    ----------
    parameters : dict
        The constructor parameters as JSON.
    n_features : int
    feature_names : ndarray or None
        The column names of a data frame.
    """

    parameters: dict[str, Any]
    n_features: int
    feature_names: NDArray[Any] | None = None


class Common(NamedTuple):
    """The part of a saved model that all models of points have."""

    header: Header
    target: Target
    scaling: Scaling
    seen: LabelStats


def pack_common(header: Header, fitted: Any) -> tuple[Arrays, dict[str, Any]]:
    """Convert a header, and the labels, scaling and label statistics of a fitted model, to arrays and JSON."""
    names, scaling = header.feature_names, fitted.scaling
    labels, about_target = pack_labels(fitted.target)
    seen, about_seen = _pack_label_stats(fitted.seen)
    arrays = {**labels, **seen}
    if names is not None:
        arrays |= pack_strings(names.tolist(), "features")
    about_parts = {}
    if isinstance(scaling, PartScaling):
        found, about_parts["parts"] = _pack_parts(scaling)
        arrays |= found
    elif scaling.is_of_table:
        arrays |= {"scaling.centre": scaling.centre, "scaling.factor": scaling.factor}
    decision = {} if scaling.decision is None else {"scaling_choice": pack_decision(scaling.decision)}
    return arrays, {
        **decision,
        "parameters": header.parameters,
        "n_features": header.n_features,
        "named_features": names is not None,
        "target": about_target,
        "scaling": scaling.kind,
        **about_parts,
        **about_seen,
    }


def _pack_parts(scaling: PartScaling) -> tuple[Arrays, list[dict[str, Any]]]:
    """Convert the scalings of the parts of X to arrays and JSON."""
    arrays: Arrays = {}
    about = []
    for number, (name, width, own) in enumerate(scaling.parts):
        if own.centre is not None and own.factor is not None:
            arrays |= {f"scaling{number}.centre": own.centre, f"scaling{number}.factor": own.factor}
        decision = {} if own.decision is None else {"choice": pack_decision(own.decision)}
        about.append({"name": name, "width": width, "scaling": own.kind, **decision})
    return arrays, about


def _unpack_parts(arrays: Arrays, about: list[Mapping[str, Any]], n_features: int) -> PartScaling:
    """Restore and check the scalings of the parts of X."""
    parts = []
    for number, saved in enumerate(about):
        name, width = saved["name"], integer("width", saved["width"], 0, MAX_WIDTH)
        if not isinstance(name, str):
            raise ModelError(f"the name of a part must be a string, got {name!r}")
        own = {key: arrays.get(f"scaling{number}.{key}") for key in ("centre", "factor")}
        found = {f"scaling.{key}": array for key, array in own.items() if array is not None}
        scaling = _unpack_scaling(found, saved["scaling"], width)
        if "choice" in saved:
            scaling = replace(scaling, decision=unpack_decision(saved["choice"]))
        parts.append(ScaledPart(name, width, scaling))
    if sum(part.width for part in parts) != n_features or len({part.name for part in parts}) < len(about) or not about:
        raise ModelError(f"the parts {[(part.name, part.width) for part in parts]} do not make {n_features} features")
    return PartScaling(PARTS, parts=tuple(parts))


def unpack_common(arrays: Arrays, metadata: Mapping[str, Any]) -> Common:
    """Restore and check what `pack_common` packed."""
    n_features, names = integer("n_features", metadata["n_features"], 0, MAX_WIDTH), None
    if metadata["named_features"]:
        names = np.array(unpack_strings(arrays, "features"), dtype=object)
        if len(names) != n_features:
            raise ModelError(f"the model names {len(names)} of {n_features} features")
    target = unpack_target(arrays, metadata["target"])
    if metadata["scaling"] == PARTS:
        scaling: Scaling = _unpack_parts(arrays, metadata["parts"], n_features)
    else:
        scaling = _unpack_scaling(arrays, metadata["scaling"], n_features)
    if "scaling_choice" in metadata:
        scaling = replace(scaling, decision=unpack_decision(metadata["scaling_choice"]))
        if scaling.explained().value != scaling.kind:
            raise ModelError(f"the scaling is {scaling.kind!r}, but {scaling.explained().value!r} was chosen")
    seen = unpack_label_stats(arrays, metadata, scaling.kind, len(target.classes), n_features)
    return Common(Header(metadata["parameters"], n_features, names), target, scaling, seen)


def pack_decision(decision: Decision) -> dict[str, Any]:
    """Convert a decision to JSON; the infinite standard error of a single point becomes None."""
    error = decision.standard_error
    finite = None if error is None or math.isinf(error) else error
    return {**decision._asdict(), "options": list(decision.options), "standard_error": finite}


def unpack_decision(saved: Mapping[str, Any]) -> Decision:
    """Restore and check a decision."""
    found = Decision(**{**saved, "options": tuple(saved["options"])})
    if not all(isinstance(text, str) for text in (found.why, *found.options)):
        raise ModelError("the reason and the options of a choice must be strings")
    for name in ("gain", "standard_error"):
        optional(real, name, getattr(found, name), -math.inf, math.inf)
    integer("n", found.n, 0)
    return found


def _array_of(names: list[str], *, fixed_width: bool) -> NDArray[Any]:
    """Convert names to an array: of fixed width, unless the padding would take far more memory than the names.

    Fixed width pads every name to the length of the longest: 40 names, one of them 8 MB long, would take 1.25 GB.
    """
    padded, exact = 4 * len(names) * max(map(len, names), default=0), sum(map(len, names)) + 8 * len(names)
    return np.array(
        names, dtype=str if fixed_width and padded <= max(FIXED_WIDTH_BYTES, MAX_PADDING_FACTOR * exact) else object
    )


def _unpack_scaling(arrays: Arrays, kind: str, n_features: int) -> Scaling:
    """Restore and check the scaling of a saved model."""
    if kind not in SCALINGS:
        raise ModelError(f"the scaling must be one of {', '.join(SCALINGS)}, got {kind!r}")
    if kind in ("rows", "none"):
        return Scaling(kind)
    centre, factor = arrays["scaling.centre"], arrays["scaling.factor"]
    if centre.shape != (n_features,) or factor.shape != (n_features,):
        raise ModelError(f"the scaling is of {centre.shape} and {factor.shape} columns, the model has {n_features}")
    finite = np.isfinite(centre).all() and np.isfinite(factor).all()
    if centre.dtype != np.float64 or factor.dtype != np.float64 or not finite:
        raise ModelError(f"the scaling must be of finite numbers in float64, got {centre.dtype} and {factor.dtype}")
    return Scaling(kind, centre, factor)


def _pack_label_stats(seen: LabelStats) -> tuple[Arrays, dict[str, int | None]]:
    """Convert label statistics to arrays and manifest numbers for `unpack_label_stats`."""
    arrays: Arrays = {"counts": seen.label_counts}
    if seen.features is None:
        return arrays, {"n_points": seen.n_points, "n_blank": None}
    arrays["seen.features"] = seen.features
    if seen.n_blank:
        labels = np.flatnonzero(seen.blank_counts)
        arrays |= {"blank.labels": labels, "blank.counts": seen.blank_counts[labels]}
    return arrays, {"n_points": seen.n_points, "n_blank": seen.n_blank}


def unpack_label_stats(
    arrays: Arrays, about: Mapping[str, Any], kind: str, n_labels: int, n_features: int
) -> LabelStats:
    """Restore and check the label statistics of a saved model with a scaling of this `kind`."""
    counts, n_points = arrays["counts"], integer("n_points", about["n_points"], 0)
    if counts.shape != (n_labels,) or not _are_counts(counts):
        found = f"{counts.dtype} of shape {counts.shape}"
        raise ModelError(f"counts must hold a whole number for each of {n_labels} labels, got {found}")
    blank_counts, n_bytes = np.zeros_like(counts), -(-n_features // 8)
    if "n_blank" not in about:  # older models did not record it
        # Broadcast one byte, since a damaged file may claim any number of features.
        all_features = None if kind != "rows" else np.broadcast_to(np.uint8(255), n_bytes)
        return LabelStats(counts, n_points, all_features, blank_counts, 0)
    if about["n_blank"] is None:
        return LabelStats(counts, n_points, None, blank_counts, 0)
    features = arrays["seen.features"]
    if features.dtype != np.uint8 or features.shape != (n_bytes,):
        raise ModelError(f"seen.features must be a bit for each of {n_features} features")
    n_blank = integer("n_blank", about["n_blank"], 0, n_points)
    if n_blank:
        labels, own = arrays["blank.labels"], arrays["blank.counts"]
        if labels.dtype != np.int64 or labels.ndim != 1 or labels.shape != own.shape or not _are_counts(own):
            raise ModelError("blank.counts must hold a whole number for each of blank.labels")
        if len(labels) and not 0 <= labels.min() <= labels.max() < n_labels:
            raise ModelError(f"blank.labels must be positions of {n_labels} labels")
        blank_counts[labels] = own
    return LabelStats(counts, n_points, features, blank_counts, n_blank)


def _are_counts(array: NDArray[Any]) -> bool:
    return array.dtype == np.int64 and array.min(initial=0) >= 0


def pack_labels(target: Target) -> tuple[Arrays, dict[str, Any]]:
    """Convert labels to arrays and a JSON description for `unpack_target`."""
    strings = target.classes.dtype.kind in "OU"
    arrays = pack_strings(target.classes.tolist(), "classes") if strings else {"classes": target.classes}
    return arrays, {"kind": target.kind, "dtype": target.dtype.str, "strings": strings}


def unpack_target(arrays: Arrays, about: dict[str, Any]) -> Target:
    """Restore and check the labels of a saved model."""
    if about["kind"] not in KINDS:
        raise ModelError(f"the kind of labels must be one of {', '.join(KINDS)}, got {about['kind']!r}")
    if not isinstance(about["dtype"], str) or not _DTYPE.fullmatch(about["dtype"]):
        raise ModelError(f"the type of labels must be a NumPy type of numbers or strings, got {about['dtype']!r}")
    dtype = np.dtype(about["dtype"])
    if not about["strings"]:
        classes = arrays["classes"]
        if classes.ndim != 1 or dtype.kind not in "biuf":
            raise ModelError(
                f"classes must be one row of numbers, got shape {classes.shape}, for labels of type {dtype}"
            )
        _check_ascending(classes)
        return Target(about["kind"], classes, dtype)
    types = {"single": "OU", "lists": "OU", "dense": "biuf"}  # label names, or the column names of an indicator
    if dtype.kind not in types.get(about["kind"], ""):
        raise ModelError(
            f"labels of the kind {about['kind']!r} and the type {dtype} cannot have the names in the model"
        )
    names = _array_of(unpack_strings(arrays, "classes"), fixed_width=dtype.kind == "U")
    if about["kind"] == "dense":  # column names keep the order of the columns
        if len(set(names.tolist())) < len(names):
            raise ModelError("two columns have the same name")
    else:
        _check_ascending(names)
    return Target(about["kind"], names, dtype)


def _check_ascending(classes: NDArray[Any]) -> None:
    """Reject labels that binary search cannot handle: not ascending, or not finite."""
    if classes.dtype.kind == "f" and not np.isfinite(classes).all():
        raise ModelError("classes hold NaN or infinity")
    if not (classes[1:] > classes[:-1]).all():
        raise ModelError("classes must be distinct and ascending")
