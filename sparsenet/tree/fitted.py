"""All that a fitted tree is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsenet.estimators.scaling import Scaling
from sparsenet.estimators.targets import Target
from sparsenet.tree.growing import Shape
from sparsenet.tree.machines import Level


@dataclass(frozen=True)
class Fitted:
    """All that a fitted classifier is, beside its parameters; `label_counts` and `n_points` are those of training.

    `validation` is what was measured on points kept from it, by its names, if anything was.
    """

    shape: Shape
    levels: list[Level]
    cost: float
    target: Target
    scaling: Scaling
    label_counts: NDArray[np.int64]
    n_points: int
    validation: Mapping[str, float] | None = None
