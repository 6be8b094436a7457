"""A fitted tree as arrays and JSON, and back; loading checks everything it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from sparsenet.core.validation import integer, real
from sparsenet.engines.tree import machines, tree_shape
from sparsenet.engines.tree.fit_tree import FittedTree
from sparsenet.engines.tree.machines import COST, Level
from sparsenet.engines.tree.tree_shape import Shape
from sparsenet.features.feature_arrays import Header, pack_common, unpack_common
from sparsenet.kernels.types import Arrays
from sparsenet.storage.narrow import narrow, widen
from sparsenet.storage.parts import check_kind

#: The kind of model, as manifests name it.
KIND = "TreeClassifier"
PARTS = tuple(field.name for field in fields(Level))


def pack(fitted: FittedTree, header: Header) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays and JSON of an equal tree."""
    arrays, about = pack_common(header, fitted)
    arrays["labels"] = fitted.shape.labels
    for depth, level in enumerate(fitted.levels):
        arrays |= {f"level{depth}.{part}": getattr(level, part) for part in PARTS}
    return narrow(arrays), {
        "model": KIND,
        **about,
        "cost": fitted.cost,
        "n_levels": len(fitted.levels),
        **pack_validation(fitted.validation),
    }


def unpack(arrays: Arrays, metadata: Mapping[str, Any]) -> tuple[Header, FittedTree]:
    """Return the header and the tree; raises ModelError if the parts do not fit together."""
    check_kind(metadata, KIND)
    arrays = widen(arrays)
    (header, target, scaling, seen), labels = unpack_common(arrays, metadata), arrays["labels"]
    n_labels, n_features = len(target.classes), integer("n_features", header.n_features, 1)
    depths = range(integer("n_levels", metadata["n_levels"], 1))
    levels = [Level(**{part: arrays[f"level{depth}.{part}"] for part in PARTS}) for depth in depths]
    shape = Shape(labels, [level.children for level in levels])
    tree_shape.check(shape, n_labels)
    for level in levels:
        machines.check(level, n_features)
    given = header.parameters.get("cost", "auto")  # old models do not hold the cost in use
    cost = real("cost", metadata.get("cost", COST if given == "auto" else given), 0, 1e6, open_low=True)
    return header, FittedTree(shape, levels, cost, target, scaling, seen, unpack_validation(metadata))


def pack_validation(validation: Mapping[str, float] | None) -> dict[str, Any]:
    """Return the measures on held-out points as JSON; nothing without them."""
    return {} if validation is None else {"validation": dict(validation)}


def unpack_validation(metadata: Mapping[str, Any]) -> dict[str, float] | None:
    """Return the measures that `pack_validation` packed, or None."""
    found = metadata.get("validation")
    return None if found is None else {name: real(name, value, 0, 1) for name, value in found.items()}
