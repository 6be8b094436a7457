"""Read the compact networks of version 0.2: dense rows of int8 with a float32 scale, and wide weights of 16 bits."""

from __future__ import annotations

import numpy as np

from sparsenet.kernels.types import Arrays

_SCALE = ".scale"


def grow(small: Arrays) -> Arrays:
    """Restore the arrays of a network."""
    arrays: Arrays = {}
    for name, array in small.items():
        scale = small.get(name + _SCALE)
        if name.endswith(_SCALE) and array.dtype != np.uint16:
            continue
        if scale is not None and scale.dtype != np.uint16:  # newer models have 16 bits, and stay narrow
            if array.ndim != 2 or array.dtype != np.int8 or scale.dtype != np.float32 or scale.shape != (len(array), 1):
                raise ValueError(f"{name} is not made of 8-bit rows with a scale for each")
            arrays[name] = array * scale
        else:
            arrays[name] = array.astype(_WIDE_TYPES.get((name, array.dtype.str), array.dtype), copy=False)
    return arrays


_WIDE_TYPES = {("wide.weight", "<f2"): np.float32, ("wide.indices", "<u2"): np.int32}
