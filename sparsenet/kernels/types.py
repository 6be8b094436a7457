"""Short names for the array types of the kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

F16 = NDArray[np.float16]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I8 = NDArray[np.int8]
I16 = NDArray[np.int16]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]
U16 = NDArray[np.uint16]
U64 = NDArray[np.uint64]
Bools = NDArray[np.bool_]
#: Named arrays, as in a model file.
Arrays = dict[str, NDArray[Any]]
