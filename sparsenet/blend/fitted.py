"""What `BlendClassifier` is once it is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sparsenet.blend.neighbors import Neighbors
from sparsenet.estimators import ExtremeClassifier
from sparsenet.estimators.scaling import Scaling
from sparsenet.estimators.targets import Target
from sparsenet.tree import TreeClassifier


@dataclass(frozen=True, eq=False)
class Fitted:
    """The parts, fitted on scaled points and an indicator of labels, and what makes these of X and y.

    `tree_weight` is what the tree's vote counts beside the network's. `validation` is what was measured of the whole on
    points kept from training, by its names, if anything was.
    """

    network: ExtremeClassifier | None
    tree: TreeClassifier
    neighbors: Neighbors | None
    target: Target
    scaling: Scaling
    label_counts: NDArray[np.int64]
    n_points: int
    tree_weight: float = 1.0
    validation: Mapping[str, float] | None = None
