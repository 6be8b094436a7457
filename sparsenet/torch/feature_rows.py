"""Read the sparse features of a batch, for heads with a wide path."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from sparsenet.core.matrices import canonical, check_structure
from sparsenet.core.rows import Rows


def as_features(features: Any, n_points: int, n_features: int) -> Rows:
    """Return a SciPy matrix or a tensor (n_points, n_features) as rows."""
    if features is None:
        raise ValueError("features are missing: a head with a wide path takes the features of the points, too")
    if not isinstance(features, Tensor) and not sparse.issparse(features):
        raise TypeError(f"features must be a SciPy matrix or a tensor, got {type(features).__name__}")
    matrix: Any = (_of_tensor(features) if isinstance(features, Tensor) else features).tocsr()
    if tuple(matrix.shape) != (n_points, n_features):
        raise ValueError(f"features must have the shape ({n_points}, {n_features}), got {tuple(matrix.shape)}")
    check_structure("features", matrix)
    if matrix.dtype.kind not in "biuf":
        raise TypeError(f"features must hold real numbers, got {matrix.dtype}")
    if not np.isfinite(matrix.data).all():
        raise ValueError("features hold NaN or infinity: replace them")
    return Rows.of(canonical(matrix))


def _of_tensor(features: Tensor) -> Any:
    found = features.detach().cpu()
    if found.layout == torch.strided:
        return sparse.csr_array(found.numpy())
    entries = found.to_sparse_coo().coalesce()
    return sparse.coo_array((entries.values().numpy(), tuple(entries.indices().numpy())), shape=tuple(found.shape))
