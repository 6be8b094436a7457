"""All that a fitted tree is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparsenet.engines.tree.machines import Level
from sparsenet.engines.tree.tree_shape import Shape
from sparsenet.features.scaling import Scaling
from sparsenet.features.seen import Seen
from sparsenet.features.targets import Target


@dataclass(frozen=True)
class Fitted:
    """All that a fitted classifier is, beside its parameters; `seen` is what training had.

    `validation` is what was measured on points kept from it, by its names, if anything was.
    """

    shape: Shape
    levels: list[Level]
    cost: float
    target: Target
    scaling: Scaling
    seen: Seen
    validation: Mapping[str, float] | None = None
