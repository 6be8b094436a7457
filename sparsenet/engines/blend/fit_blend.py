"""What `BlendClassifier` is once it is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparsenet.engines.blend.correction import USUAL, Correction
from sparsenet.engines.blend.naming import FEW
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.estimators.extreme import ExtremeClassifier
from sparsenet.estimators.tree import TreeClassifier
from sparsenet.features.scaling import Scaling
from sparsenet.features.seen import Seen
from sparsenet.features.targets import Target


@dataclass(frozen=True, eq=False)
class Fitted:
    """The parts, fitted on scaled points and an indicator of labels, and what makes these of X and y.

    `seen` is what training had, `candidates` how many labels the tree names for a point, `tree_weight` what its vote
    counts beside the network's, and `correction` how sure the whole may be. `validation` is what was measured of it on
    points kept from training, by its names, if anything was.
    """

    network: ExtremeClassifier | None
    tree: TreeClassifier
    neighbors: Neighbors | None
    target: Target
    scaling: Scaling
    seen: Seen
    candidates: int = FEW
    tree_weight: float = 1.0
    correction: Correction = USUAL
    validation: Mapping[str, float] | None = None
