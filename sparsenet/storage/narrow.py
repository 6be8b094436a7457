"""Store the arrays of a model in fewer bits, without loss.

Row pointers become the lengths of rows, ascending ids the gaps between them, and counts themselves, in 7 bits a byte.
Rows of floats become 8-bit codes with a 16-bit step for each row, if that keeps every bit: `rounded` makes it so. An
array that does not fit is not changed. `widen` recognises packed arrays by their types.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.rows import by_row
from sparsenet.kernels.types import F32, I64, Arrays
from sparsenet.storage.format import ModelError
from sparsenet.storage.varints import TOO_LARGE, decode_varints, encode_varints

#: Endings of the names of row pointers, of ids with the ending of their pointers, and of other whole numbers.
POINTERS = ("indptr", "starts", "children")
IDS = {"indices": "indptr", "features": "starts"}
COUNTS = ("counts",)
#: Endings of the names of sparse values, with the ending of their pointers.
VALUES = {"wide.weight": "wide.indptr", "index.data": "index.indptr"}
#: Suffixes of the scales of 8-bit rows, and of the mask of bytes that are not zero.
SCALE, MASK = ".scale", ".mask"
LARGEST = 127
#: Rows that are rounded or coded together.
BLOCK = 1 << 12


def narrow(arrays: Arrays) -> Arrays:
    """Return arrays that `widen` restores bit for bit."""
    found: Arrays = {}
    for name, array in arrays.items():
        found |= _narrowed(name, array, arrays)
    return found


def widen(arrays: Arrays) -> Arrays:
    """Restore the arrays that `narrow` received; raise ModelError if they are damaged."""
    found: Arrays = {}
    by_kind = sorted(arrays, key=lambda name: not _ends(name, POINTERS))  # ids need the pointers
    for name in by_kind:
        if not (name.endswith(MASK) or (name.endswith(SCALE) and arrays[name].dtype == np.uint16)):
            found[name] = _widened(name, arrays, found)
    unchanged = {name for name, array in found.items() if array is arrays[name]}
    if 2 * sum(arrays[name].nbytes for name in unchanged) < sum(array.nbytes for array in arrays.values()):
        found |= {name: found[name].copy() for name in unchanged}  # so that the memory of the file is freed
    return {name: found[name] for name in arrays if name in found}


def rounded(arrays: Arrays) -> Arrays:
    """Return copies of floats in 8-bit rows and 16-bit factors, which `narrow` makes small, and the other arrays."""
    found = {
        name: array if _row_pointers(name, array, arrays) is None else array.copy() for name, array in arrays.items()
    }
    round_rows(found)
    return {name: to_bfloat16(array) if _is_factor(name, array) else array for name, array in found.items()}


def round_rows(arrays: Arrays) -> None:
    """Round the floats that are stored as 8-bit rows in place."""
    for name, array in arrays.items():
        if (pointers := _row_pointers(name, array, arrays)) is not None:
            _round(array.reshape(-1), pointers)


def _round(flat: F32, indptr: I64) -> None:
    for begin, end in _blocks(indptr):
        own, rows = flat[indptr[begin] : indptr[end]], indptr[begin : end + 1] - indptr[begin]
        steps = np.repeat(_cut_to_bfloat16(_steps(own, rows)), np.diff(rows))
        np.clip(np.rint(own / np.where(steps > 0, steps, np.float32(1))), -LARGEST, LARGEST, out=own)
        own *= steps
        own += np.float32(0)  # 8 bits have no negative zero


def _steps(own: F32, rows: I64) -> F32:
    """Return the step of each row: 127 of them make its peak."""
    return np.asarray(by_row(np.maximum, np.abs(own), rows) / np.float32(LARGEST))


def _cut_to_bfloat16(values: F32) -> F32:
    """Cut floats to bfloat16. So 127 steps are exact, and rounding such a row again changes nothing."""
    return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def to_bfloat16(values: F32) -> F32:
    """Round positive floats to bfloat16, the upper half of their bits."""
    return ((values.view(np.uint32) + np.uint32(0x7FFF)) & np.uint32(0xFFFF0000)).view(np.float32)


def _narrowed(name: str, array: NDArray[Any], arrays: Arrays) -> Arrays:
    numbers = _numbers(name, array, arrays)
    if numbers is not None:
        fits = numbers.min(initial=0) >= 0 and numbers.max(initial=0) < TOO_LARGE
        return {name: encode_varints(numbers) if fits else array}
    if _is_factor(name, array) and np.array_equal(_cut_to_bfloat16(array), array):
        return {name: _upper(array)}
    if _ends(name, ("weights",)) and array.dtype == np.int8 and array.ndim == 2 and array.shape[1] % 8 == 0:
        used = array != 0
        return {name: array[used], name + MASK: np.packbits(used, axis=1)}
    pointers = _row_pointers(name, array, arrays)
    coded = None if pointers is None else _coded(array, pointers)
    return {name: array} if coded is None else {name: coded[0], name + SCALE: coded[1]}


def _numbers(name: str, array: NDArray[Any], arrays: Arrays) -> NDArray[Any] | None:
    """Return what is stored of row pointers, ids and counts; None for other arrays."""
    if array.ndim != 1:
        return None
    if _ends(name, POINTERS) and array.dtype == np.int64 and len(array) and array[0] == 0:
        return np.diff(array)
    if _ends(name, COUNTS) and array.dtype == np.int64:
        return array
    pointers = arrays.get(_pointers_of(name, IDS))
    if pointers is None or array.dtype != np.int32 or not _are_pointers(pointers, len(array)):
        return None
    gaps, filled = np.diff(array, prepend=np.int32(0)), pointers[:-1][np.diff(pointers) > 0]
    gaps[filled] = array[filled]
    return gaps


def _widened(name: str, arrays: Arrays, wide: Arrays) -> NDArray[Any]:
    """Restore one array, given the row pointers that are wide already."""
    array = arrays[name]
    if array.dtype == np.uint8 and array.ndim == 1:
        if _ends(name, POINTERS):
            return np.concatenate((np.zeros(1, np.int64), np.cumsum(decode_varints(name, array))))
        if _ends(name, COUNTS):
            return decode_varints(name, array)
        if (pointers := wide.get(_pointers_of(name, IDS))) is not None:
            return _ids(name, decode_varints(name, array), pointers)
    if _ends(name, ("factors",)) and array.dtype == np.uint16:
        return _from_upper(array)
    if array.dtype == np.int8 and name + MASK in arrays:
        return _unmasked(name, array, arrays[name + MASK])
    if array.dtype == np.int8 and name + SCALE in arrays and arrays[name + SCALE].dtype == np.uint16:
        return _decoded(name, array, arrays[name + SCALE], wide)
    return array


def _ids(name: str, gaps: I64, pointers: NDArray[Any]) -> NDArray[np.int32]:
    if not _are_pointers(pointers, len(gaps)):
        raise ModelError(f"{name} has {len(gaps)} numbers, which its row pointers do not divide")
    sums = np.cumsum(gaps)
    before = np.concatenate((np.zeros(1, np.int64), sums))[pointers[:-1]]
    ids = sums - np.repeat(before, np.diff(pointers))
    if ids.max(initial=0) > np.iinfo(np.int32).max:
        raise ModelError(f"{name} holds a number that is too large")
    return np.asarray(ids, np.int32)


def _unmasked(name: str, codes: NDArray[Any], mask: NDArray[Any]) -> NDArray[np.int8]:
    if mask.dtype != np.uint8 or mask.ndim != 2 or codes.ndim != 1:
        raise ModelError(f"{name} must be a list of bytes with a mask")
    used = np.unpackbits(mask, axis=1).view(np.bool_)
    if np.count_nonzero(used) != len(codes):
        raise ModelError(f"{name} has {len(codes)} bytes for {np.count_nonzero(used)} places")
    found = np.zeros(used.shape, np.int8)
    found[used] = codes
    return found


def _decoded(name: str, codes: NDArray[Any], scales: NDArray[Any], wide: Arrays) -> F32:
    """Restore 8-bit rows."""
    pointers = _of_matrix(codes) if (of := _pointers_of(name, VALUES)) not in wide else wide[of]
    if scales.ndim != 1 or len(scales) != len(pointers) - 1 or not _are_pointers(pointers, codes.size):
        raise ModelError(f"{name} is not made of 8-bit rows with a scale for each")
    return np.asarray(codes * np.repeat(_from_upper(scales), np.diff(pointers)).reshape(codes.shape), np.float32)


def _coded(array: F32, indptr: I64) -> tuple[NDArray[np.int8], NDArray[np.uint16]] | None:
    """Return codes and scales of rows; None if a row was not rounded to 8 bits."""
    flat, scales = array.reshape(-1), np.empty(len(indptr) - 1, np.float32)
    codes = np.empty(flat.shape, np.int8)
    for begin, end in _blocks(indptr):
        own, rows = flat[indptr[begin] : indptr[end]], indptr[begin : end + 1] - indptr[begin]
        scales[begin:end] = _steps(own, rows)
        steps = np.repeat(scales[begin:end], np.diff(rows))
        code = np.rint(own / np.where(steps > 0, steps, np.float32(1)))
        if not np.array_equal(code * steps, own) or (np.signbit(own) != (code < 0)).any():
            return None
        codes[indptr[begin] : indptr[end]] = code
    return (codes.reshape(array.shape), _upper(scales)) if np.array_equal(_cut_to_bfloat16(scales), scales) else None


def _upper(values: F32) -> NDArray[np.uint16]:
    """Return the upper half of the bits of bfloat16 numbers."""
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def _from_upper(halves: NDArray[np.uint16]) -> F32:
    """Restore bfloat16 numbers from the upper half of their bits."""
    return (halves.astype(np.uint32) << 16).view(np.float32)


def _row_pointers(name: str, array: NDArray[Any], arrays: Arrays) -> I64 | None:
    """Return the row pointers of floats that are stored as 8-bit rows; None for other arrays."""
    if array.dtype != np.float32 or (array.ndim == 2 and not array.flags.c_contiguous):
        return None
    if (pointers := arrays.get(_pointers_of(name, VALUES))) is not None:
        return pointers if _are_pointers(pointers, array.size) else None
    return _of_matrix(array) if array.ndim == 2 and array.shape[1] > 1 and name.endswith(".weight") else None


def _of_matrix(array: NDArray[Any]) -> I64:
    rows, columns = array.shape if array.ndim == 2 else (0, 0)
    return np.asarray(columns * np.arange(rows + 1), np.int64)


def _pointers_of(name: str, endings: dict[str, str]) -> str:
    """Return the name of an array's row pointers; the empty string if it has none."""
    return next((name.removesuffix(own) + of for own, of in endings.items() if _ends(name, (own,))), "")


def _is_factor(name: str, array: NDArray[Any]) -> bool:
    return _ends(name, ("factors",)) and array.dtype == np.float32 and array.flags.c_contiguous


def _ends(name: str, endings: tuple[str, ...]) -> bool:
    return any(name == ending or name.endswith(f".{ending}") for ending in endings)


def _are_pointers(pointers: NDArray[Any], n: int) -> bool:
    """Return whether row pointers rise from 0 to n."""
    return bool(
        pointers.dtype == np.int64
        and pointers.ndim == 1
        and len(pointers)
        and pointers[0] == 0
        and pointers[-1] == n
        and (np.diff(pointers) >= 0).all()
    )


def _blocks(indptr: I64) -> list[tuple[int, int]]:
    """Return the first and last rows of blocks."""
    return list(pairwise([*range(0, len(indptr) - 1, BLOCK), len(indptr) - 1]))
