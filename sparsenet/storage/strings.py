"""Store strings as arrays, so that a model can hold millions of them without pickling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.storage.format import ModelError


def pack_strings(strings: Sequence[str], name: str = "strings") -> dict[str, NDArray[Any]]:
    """Turn strings into two arrays: their UTF-8 bytes (uint8), and the offset of each string and of the end (int64).

    Examples
    --------
    >>> pack_strings(["a", "", "bc"], "labels")
    {'labels.utf8': array([97, 98, 99], dtype=uint8), 'labels.offsets': array([0, 1, 1, 3])}
    """
    try:
        encoded = [string.encode() for string in strings]
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} holds {error.object!r}, which UTF-8 cannot express: {error.reason}") from error
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(item) for item in encoded], out=offsets[1:])
    return {f"{name}.utf8": np.frombuffer(b"".join(encoded), np.uint8), f"{name}.offsets": offsets}


def unpack_strings(arrays: Mapping[str, NDArray[Any]], name: str = "strings") -> list[str]:
    """Return the strings that `pack_strings` stored in `arrays`.

    Examples
    --------
    >>> unpack_strings(pack_strings(["a", "", "bc"]))
    ['a', '', 'bc']
    """
    try:
        utf8, offsets = arrays[f"{name}.utf8"], arrays[f"{name}.offsets"]
    except KeyError as error:
        raise ModelError(f"the array {error} is missing: the model does not hold the strings {name!r}") from error
    if utf8.dtype != np.uint8 or offsets.dtype != np.int64 or utf8.ndim != 1 or offsets.ndim != 1:
        raise ModelError(f"the arrays of the strings {name!r} must be one-dimensional, of uint8 and int64")
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(utf8) or np.any(offsets[1:] < offsets[:-1]):
        raise ModelError(f"{name}.offsets must rise from 0 to the length of {name}.utf8, {len(utf8)}")
    raw = utf8.tobytes()
    try:
        return [raw[start:end].decode() for start, end in pairwise(offsets.tolist())]
    except UnicodeDecodeError as error:
        raise ModelError(f"{name}.utf8 holds invalid UTF-8: {error.object!r}") from error
