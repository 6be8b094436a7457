"""What `BlendClassifier` is once it is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparsenet.blend.calibration import USUAL, Correction
from sparsenet.blend.naming import FEW
from sparsenet.blend.neighbors import Neighbors
from sparsenet.estimators import ExtremeClassifier
from sparsenet.estimators.scaling import Scaling
from sparsenet.estimators.seen import Seen
from sparsenet.estimators.targets import Target
from sparsenet.tree import TreeClassifier


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
