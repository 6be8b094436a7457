"""Check hidden states, and view them as the arrays that the kernels read."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sparsenet.kernels.types import F32

#: Types of hidden states; they are converted to float32.
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def as_array(hidden: Tensor, width: int) -> F32:
    """Return hidden states (n, width) as an array; it shares the memory of contiguous float32 tensors on the CPU."""
    if not isinstance(hidden, Tensor):
        raise TypeError(f"hidden must be a tensor, got {type(hidden).__name__}: pass torch.as_tensor(hidden)")
    if hidden.dtype not in DTYPES:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in DTYPES)
        raise TypeError(f"hidden must be a tensor of {names}, got {hidden.dtype}: call hidden.float()")
    if hidden.dim() != 2 or hidden.shape[1] != width:
        raise ValueError(f"hidden must have the shape (n, {width}), got {tuple(hidden.shape)}")
    array: F32 = np.ascontiguousarray(hidden.detach().to("cpu", torch.float32).numpy())
    if not np.isfinite(array).all():
        point, unit = np.argwhere(~np.isfinite(array))[0]
        raise ValueError(f"hidden holds {array[point, unit]} at [{point}, {unit}]: the layers below have diverged")
    return array
