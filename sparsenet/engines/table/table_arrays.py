"""Pack the model of a table into arrays and JSON, and unpack it; unpacking checks everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.core.validation import boolean
from sparsenet.data.dialect import LearntFile
from sparsenet.engines.blend import blend_arrays
from sparsenet.engines.blend.blend_arrays import BlendHeader
from sparsenet.engines.boosting import boosting_arrays
from sparsenet.engines.network import network_arrays
from sparsenet.engines.network.parameters import pack_parameters
from sparsenet.engines.table.fit_table import FittedTable
from sparsenet.engines.table.logistic import FittedLogistic
from sparsenet.engines.table.members import (
    AverageMember,
    BlendMember,
    BoostingMember,
    LinearMember,
    Member,
    NetworkMember,
    TreeMember,
)
from sparsenet.engines.table.table_points import TablePoints, n_features
from sparsenet.engines.table.training_members import NETWORK
from sparsenet.engines.tree import tree_arrays
from sparsenet.features.columns import encoder_arrays
from sparsenet.features.columns.table_encoder import TableEncoder
from sparsenet.features.feature_arrays import (
    Header,
    pack_decision,
    pack_labels,
    unpack_decision,
    unpack_label_stats,
    unpack_target,
)
from sparsenet.kernels.types import Arrays, Bools
from sparsenet.storage.format import ModelError
from sparsenet.storage.parts import check_kind, pack_part, unpack_part

#: The kind of model, as manifests name it.
KIND = "TableClassifier"
#: The kinds of models within.
KINDS = [each.kind for each in (AverageMember, LinearMember, BoostingMember, TreeMember, NetworkMember, BlendMember)]


def pack(fitted: FittedTable, parameters: dict[str, Any], *, small: bool = False) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and JSON of an equal model; if `small`, of a nearly equal one in fewer bits.

    `parameters` are the estimator's, as JSON.
    """
    labels, about_target = pack_labels(fitted.target)
    encoder, about_encoder = encoder_arrays.pack(fitted.encoder)
    member, about_member = _pack_member(fitted.member, small=small)
    background, about_background = _pack_points(fitted.background)
    arrays = {**labels, "counts": fitted.seen.label_counts, **pack_part("encoder", encoder)}
    if fitted.dropped is not None:
        arrays["dropped"] = fitted.dropped
    arrays |= {**pack_part("member", member), **pack_part("background", background)}
    return arrays, {
        "model": KIND,
        "parameters": parameters,
        "column": fitted.column,
        "label_delimiter": fitted.label_delimiter,
        "file": fitted.file.as_json(),
        "target": about_target,
        "n_points": fitted.seen.n_points,
        "encoder": about_encoder,
        "member": about_member,
        "background": about_background,
        "choices": {name: pack_decision(choice) for name, choice in fitted.choices.items()},
        **tree_arrays.pack_validation(fitted.validation),
    }


def unpack(arrays: Arrays, metadata: Mapping[str, Any]) -> tuple[dict[str, Any], FittedTable]:
    """Return the parameters and the model; raises ModelError if the parts contradict each other."""
    check_kind(metadata, KIND)
    target = unpack_target(arrays, metadata["target"])
    encoder = encoder_arrays.unpack(unpack_part("encoder", arrays), metadata["encoder"])
    about_seen = {"n_points": metadata["n_points"], "n_blank": None}
    seen = unpack_label_stats(arrays, about_seen, "none", len(target.classes), encoder.n_features)
    member = _unpack_member(unpack_part("member", arrays), metadata["member"], encoder)
    if member.n_labels != len(target.classes):
        raise ModelError(f"the model has {member.n_labels} labels, and there are {len(target.classes)} classes")
    background = _unpack_points(unpack_part("background", arrays), metadata["background"], encoder)
    choices = {str(name): unpack_decision(choice) for name, choice in metadata["choices"].items()}
    column, delimiter = metadata["column"], metadata["label_delimiter"]
    if not isinstance(column, str | None) or not isinstance(delimiter, str | None):
        raise ModelError(f"the column of classes and its delimiter must be names, got {column!r} and {delimiter!r}")
    validation = tree_arrays.unpack_validation(metadata)
    dropped = arrays.get("dropped")
    if dropped is not None and (dropped.dtype != np.bool_ or dropped.shape != (n_features(encoder),)):
        raise ModelError(f"dropped must hold a bool for each of {n_features(encoder)} features, got {dropped.shape}")
    about = (target, seen, encoder, background, choices, validation, column, delimiter, dropped)
    fitted = FittedTable(member, *about, LearntFile.of_json(metadata.get("file")))
    return metadata["parameters"], fitted


def _pack_member(member: Member, *, small: bool) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and JSON of one model; its kind is in the JSON."""
    about: dict[str, Any] = {"kind": member.kind}
    if isinstance(member, AverageMember):
        packed = [_pack_member(part, small=small) for part in member.models]
        arrays = {**pack_part("first", packed[0][0]), **pack_part("second", packed[1][0])}
        return arrays, {**about, "parts": [own for _, own in packed]}
    if isinstance(member, LinearMember):
        arrays, own = member.model.to_arrays()
    elif isinstance(member, BoostingMember):
        arrays, own = boosting_arrays.pack(member.model)
    else:
        assert isinstance(member, TreeMember | NetworkMember | BlendMember)
        about["exclusive"] = member.exclusive
        arrays, own = _pack_part_of_blend(member, small=small)
    return arrays, {**about, "about": own}


def _pack_part_of_blend(
    member: TreeMember | NetworkMember | BlendMember, *, small: bool
) -> tuple[Arrays, dict[str, Any]]:
    tree, network = Header({}, 0), Header(pack_parameters(NETWORK), 0)
    if isinstance(member, TreeMember):
        return tree_arrays.pack(member.model, _sized(tree, member.n_features))
    if isinstance(member, NetworkMember):
        return network_arrays.pack(member.model, _sized(network, member.n_features), small=small)
    n = member.n_features
    header = BlendHeader(
        whole=_sized(tree, n),
        tree=_sized(tree, n),
        network=None if member.model.network is None else _sized(network, n),
        given=[],
        untrained=None,
        is_dropped=False,
    )
    return blend_arrays.pack(member.model, header, small=small)


def _sized(header: Header, n_features: int) -> Header:
    return Header(header.parameters, n_features)


def _unpack_member(arrays: Arrays, about: Mapping[str, Any], encoder: TableEncoder) -> Member:
    """Restore and check one model."""
    kind, width = about["kind"], n_features(encoder)
    if kind not in KINDS:
        raise ModelError(f"{kind!r} is no kind of model of a table")
    if kind == AverageMember.kind:
        first, second = (
            _unpack_member(unpack_part(name, arrays), own, encoder)
            for name, own in zip(("first", "second"), about["parts"], strict=True)
        )
        if first.n_labels != second.n_labels or AverageMember.kind in (first.kind, second.kind):
            raise ModelError("the two models of an average must have the same labels")
        return AverageMember((first, second))
    own = about["about"]
    if kind == LinearMember.kind:
        return LinearMember(FittedLogistic.of_arrays(arrays, own, width))
    if kind == BoostingMember.kind:
        return BoostingMember(boosting_arrays.unpack(arrays, own, len(_codes(encoder))))
    return _unpack_part_of_blend(arrays, kind, own, width, exclusive=boolean("exclusive", about["exclusive"]))


def _unpack_part_of_blend(arrays: Arrays, kind: str, own: Mapping[str, Any], width: int, *, exclusive: bool) -> Member:
    member: TreeMember | NetworkMember | BlendMember
    if kind == TreeMember.kind:
        header, tree = tree_arrays.unpack(arrays, own)
        member = TreeMember(tree, exclusive, header.n_features)
    elif kind == NetworkMember.kind:
        header, network = network_arrays.unpack(arrays, own)
        member = NetworkMember(network, exclusive, header.n_features)
    else:
        headers, blend = blend_arrays.unpack(arrays, own)
        member = BlendMember(blend, exclusive, headers.tree.n_features)
    if member.n_features != width:
        raise ModelError(f"the {kind} has {member.n_features} features, the columns {width}")
    return member


def _codes(encoder: TableEncoder) -> Bools:
    """Return which columns of the encoder's matrix hold category codes."""
    return np.array([code for column in encoder.used for code in column.codes], bool)


def _pack_points(points: TablePoints) -> tuple[Arrays, dict[str, Any]]:
    rows = points.rows
    return {"indptr": rows.indptr, "indices": rows.indices, "data": rows.data, "matrix": points.matrix}, {}


def _unpack_points(arrays: Arrays, about: Mapping[str, Any], encoder: TableEncoder) -> TablePoints:
    rows = Rows(arrays["indptr"], arrays["indices"], arrays["data"], n_features(encoder))
    rows.check("background")
    matrix, codes = arrays["matrix"], _codes(encoder)
    if matrix.dtype != np.float64 or matrix.shape != (len(rows), len(codes)):
        raise ModelError(f"the background must be {len(rows)} rows of {len(codes)} numbers, got {matrix.shape}")
    return TablePoints(rows, matrix, codes)
