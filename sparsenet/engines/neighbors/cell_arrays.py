"""Pack the cells of dense neighbors into arrays, and unpack them; unpacking checks everything."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparsenet.core.validation import integer, real
from sparsenet.index.cells import VectorCells
from sparsenet.index.cells.byte_rows import ByteRows
from sparsenet.index.cells.centering import Centering
from sparsenet.index.cells.group_codes import BLOCK_ROWS, N_CODES, Codebook, GroupCodes, n_groups_of
from sparsenet.kernels.types import Arrays
from sparsenet.storage.format import ModelError


def pack_cells(cells: VectorCells) -> Arrays:
    """Return the arrays of cells."""
    return {
        "cells.center": cells.centering.center,
        "cells.centroids": cells.centroids.codes,
        "cells.centroid_scales": cells.centroids.scales,
        "cells.lengths": cells.lengths,
        "cells.starts": cells.starts,
        "cells.codebook": cells.codes.codebook.centroids,
        "cells.blocks": cells.codes.blocks,
        "cells.codes": cells.entries.codes,
        "cells.scales": cells.entries.scales,
        "cells.ids": cells.ids,
    }


def about_cells(cells: VectorCells) -> dict[str, Any]:
    """Return the numbers of cells."""
    units = {"unit": cells.codes.codebook.unit, "scale": cells.centering.scale}
    return {"index": "cells", "effort": cells.effort, "n_candidates": cells.n_candidates, **units}


def unpack_cells(arrays: Arrays, about: dict[str, Any], n_points: int, n_features: int) -> VectorCells:
    """Return the cells of up to `n_points` dense points."""
    starts, ids = arrays["cells.starts"], arrays["cells.ids"]
    n_cells, n, width = len(arrays["cells.centroids"]), len(ids), n_features + 1
    n_groups = n_groups_of(width)
    expected = {
        "center": (np.float32, (n_features,)),
        "centroids": (np.int8, (n_cells, width)),
        "centroid_scales": (np.float32, (n_cells,)),
        "lengths": (np.float32, (n_cells,)),
        "starts": (np.int64, (n_cells + 1,)),
        "codebook": (np.int16, (n_groups, N_CODES, -(-width // n_groups))),
        "blocks": (np.uint8, (-(-n // BLOCK_ROWS), n_groups, N_CODES)),
        "codes": (np.int8, (n, width)),
        "scales": (np.float32, (n,)),
        "ids": (np.int32, (n,)),
    }
    for name, (dtype, size) in expected.items():
        array = arrays[f"cells.{name}"]
        if array.dtype != dtype or array.shape != size:
            raise ModelError(f"{name} of the neighbors' cells must have shape {size}, and have {array.shape}")
        if dtype == np.float32 and not np.isfinite(array).all():
            raise ModelError(f"{name} of the neighbors' cells must be finite")
    if n_cells < 1 or starts[0] != 0 or starts[-1] != n or (starts[1:] < starts[:-1]).any():
        raise ModelError("the starts of the neighbors' cells do not fit")
    if n and not (ids.min() >= 0 and ids.max() < n_points and len(np.unique(ids)) == n):
        raise ModelError(f"the neighbors' cells do not list {n} of {n_points} points")
    unit = real("unit", about["unit"], 0, 1e38)
    if math.frexp(unit)[0] != 0.5:
        raise ModelError(f"the unit of the neighbors' codes must be a power of two, got {unit}")
    return VectorCells(
        Centering(arrays["cells.center"], real("scale", about["scale"], 0, 1e38)),
        ByteRows(arrays["cells.centroids"], arrays["cells.centroid_scales"]),
        arrays["cells.lengths"],
        starts,
        GroupCodes(Codebook(arrays["cells.codebook"], unit), arrays["cells.blocks"]),
        ByteRows(arrays["cells.codes"], arrays["cells.scales"]),
        ids,
        integer("effort", about["effort"], 1, n_cells),
        integer("n_candidates", about["n_candidates"], 1, max(n, 1)),
    )
