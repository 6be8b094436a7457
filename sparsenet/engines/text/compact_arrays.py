"""Compress the arrays of a text model without loss.

Ascending ids are stored as gaps, row pointers as row lengths, and integers in the narrowest type. Arrays with few
distinct values, as in compressed models, are stored as codes of 1 to 8 bits with a list of the values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.kernels.types import Arrays
from sparsenet.storage import ModelError
from sparsenet.storage.varints import decode_varints, encode_varints

_ASCENDING = "slots"
_POINTERS = ("indptr", "classes.offsets", "memory.indptr", "memory.labels.indptr")
_NUMBERS = ("columns", "counts", "memory.indices", "memory.labels.indices")
_VALUES = ("matrix", "factors", "feature_weights")
_UNPACKED = {name: np.int64 if name == "counts" else np.int32 for name in _NUMBERS}


def pack(arrays: Arrays) -> Arrays:
    """Compress arrays; `unpack` restores them bit for bit."""
    packed: Arrays = {}
    for name, array in arrays.items():
        if name == _ASCENDING:
            packed[f"{name}.gaps"] = encode_varints(np.diff(array, prepend=np.int32(-1)) - 1)
        elif name in _POINTERS:
            packed[f"{name}.lengths"] = _narrowed(np.diff(array))
        elif name in _NUMBERS:
            packed[name] = _narrowed(array)
        else:
            packed |= (_coded(name, array) if name in _VALUES else None) or {name: array}
    return packed


def unpack(packed: Arrays) -> Arrays:
    """Restore the arrays that `pack` received; raise ModelError if they are damaged."""
    arrays: Arrays = {}
    for name, array in packed.items():
        base, _, kind = name.rpartition(".")
        if kind == "gaps":
            arrays[base] = (np.cumsum(decode_varints(name, array) + 1) - 1).astype(np.int32)
        elif kind == "lengths":
            arrays[base] = np.concatenate((np.zeros(1, np.int64), np.cumsum(_flat(name, array), dtype=np.int64)))
        elif kind == "codes":
            arrays[base] = _decoded(base, packed)
        elif kind not in ("levels", "shape"):
            arrays[name] = array.astype(_UNPACKED.get(name, array.dtype), copy=False)
    return arrays


def _flat(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim != 1 or array.dtype.kind != "u":
        raise ModelError(f"{name} must be a list of unsigned integers, got {array.dtype} of shape {array.shape}")
    return array


def _narrowed(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.min_scalar_type(int(array.max(initial=0))))


def _coded(name: str, array: NDArray[Any]) -> Arrays | None:
    """Return codes and the list of values, or None if that saves no space."""
    levels = _distinct(array)
    bits = _code_bits(len(levels))
    if bits is None or bits >= 8 * array.itemsize or array.size <= len(levels):
        return None
    codes = np.searchsorted(levels, array.reshape(-1)).astype(np.uint8)
    per_byte = 8 // bits
    codes = np.pad(codes, (0, -len(codes) % per_byte)).reshape(-1, per_byte)
    packed = np.bitwise_or.reduce(codes << (bits * np.arange(per_byte)).astype(np.uint8), axis=1)
    shape = np.array(array.shape, np.int64)
    return {f"{name}.codes": packed.astype(np.uint8), f"{name}.levels": levels, f"{name}.shape": shape}


def _code_bits(n_levels: int) -> int | None:
    """Return the number of bits of a code for `n_levels` values, or None if it exceeds 8."""
    return next((bits for bits in (1, 2, 4, 8) if n_levels <= 1 << bits), None)


def _distinct(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype != np.int8:
        return np.unique(array)
    present = np.zeros(256, bool)  # sorting a large table would take seconds
    present[array.reshape(-1).view(np.uint8)] = True
    return np.sort(np.flatnonzero(present).astype(np.uint8).view(np.int8))


def _decoded(name: str, packed: Arrays) -> NDArray[Any]:
    codes, levels, shape = (packed[f"{name}.{kind}"] for kind in ("codes", "levels", "shape"))
    if codes.dtype != np.uint8 or codes.ndim != 1 or levels.ndim != 1 or not 0 < len(levels) <= 256:
        raise ModelError(f"{name} must have codes, and a list of at most 256 values")
    if shape.dtype != np.int64 or shape.ndim != 1 or shape.min(initial=0) < 0:
        raise ModelError(f"{name}.shape must be a list of sizes")
    bits = _code_bits(len(levels)) or 8  # 256 levels at most
    per_byte, size = 8 // bits, int(np.prod(shape.astype(object)))
    if len(codes) != -(-size // per_byte):
        raise ModelError(f"{name} has {len(codes)} bytes of codes for {size} values")
    unpacked = codes[:, None] >> (bits * np.arange(per_byte)).astype(np.uint8) & np.uint8((1 << bits) - 1)
    numbers = unpacked.reshape(-1)[:size]
    if numbers.max(initial=0) >= len(levels):
        raise ModelError(f"{name} holds codes outside of its list of values")
    return np.asarray(levels[numbers].reshape(shape.tolist()))
