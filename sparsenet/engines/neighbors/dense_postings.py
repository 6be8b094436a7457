"""Dense points of version 0.1, which were posting lists; to be removed in version 0.3."""

from __future__ import annotations

import numpy as np

from sparsenet.core.rows import Rows, transpose
from sparsenet.engines.neighbors.unit_points import UnitPoints
from sparsenet.index.cells import CellsConfig, VectorCells


def cells_of_postings(index: Rows, *, min_density: float = 0.45, most: int = 1 << 25) -> VectorCells | None:
    """Return the points of an index (d, n) in one cell; None unless they are dense, and `most` numbers."""
    longest, limit = int(np.diff(index.indptr).max(initial=0)), min(len(index.indices) / min_density, most)
    if longest * len(index) > limit:  # a quick lower bound on the size of the matrix
        return None
    points = UnitPoints(transpose(index), np.ones(len(index), np.float32))
    ids = points.ids
    return VectorCells.build(points, ids, CellsConfig(n_cells=1)) if 0 < len(ids) * len(index) <= limit else None
