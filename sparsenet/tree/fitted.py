"""All that a fitted tree is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparsenet.estimators.scaling import Scaling
from sparsenet.estimators.seen import Seen
from sparsenet.estimators.targets import Target
from sparsenet.tree.growing import Shape
from sparsenet.tree.machines import Level


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
