"""Store the arrays of a model in fewer bits, without loss.

Row pointers become the lengths of rows, ascending ids the gaps between them, and counts themselves, in 7 bits a byte.
Rows of floats become 8-bit codes with a 16-bit step for each row, if that keeps every bit: `rounded` makes it so. An
array that does not fit is not changed. `widen` recognises packed arrays by their types. It leaves rows of 8 bits as
they are: memory holds them so, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.memory import release_pages
from sparsenet.core.narrow_rows import (
    NarrowRows,
    are_pointers,
    cut_to_bfloat16,
    from_upper,
    pointers_of_matrix,
    to_bfloat16,
    upper,
)
from sparsenet.core.narrow_rows import round_rows as round_array
from sparsenet.core.rows import parts_of
from sparsenet.kernels.types import I64, Arrays
from sparsenet.storage.format import ModelError
from sparsenet.storage.varints import TOO_LARGE, decode_varints, encode_varints

#: Endings of the names of row pointers, of ids with the ending of their pointers, and of other whole numbers.
POINTERS = ("indptr", "starts", "children")
IDS = {"indices": "indptr", "features": "starts"}
COUNTS = ("counts",)
#: Endings of the names of sparse values, with the ending of their pointers.
VALUES = {"wide.weight": "wide.indptr", "index.data": "index.indptr"}
#: Ids that are encoded at a time, which takes some 50 bytes for each.
ENTRIES_AT_A_TIME = 1 << 18
#: Suffixes of the scales of 8-bit rows, and of the mask of bytes that are not zero.
SCALE, MASK = ".scale", ".mask"


def narrow(arrays: Arrays) -> Arrays:
    """Return arrays that `widen` and `narrow_rows` restore bit for bit."""
    found: Arrays = {}
    for name, array in arrays.items():
        found |= _narrowed(name, array, arrays)
    return found


def widen(arrays: Arrays) -> Arrays:
    """Restore the arrays that `narrow` received but for 8-bit rows; raise ModelError if they are damaged."""
    found: Arrays = {}
    by_kind = sorted(arrays, key=lambda name: not _ends(name, POINTERS))  # ids need the pointers
    for name in by_kind:
        if not name.endswith(MASK):
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
            round_array(array.reshape(-1), pointers)


def _narrowed(name: str, array: NDArray[Any], arrays: Arrays) -> Arrays:
    numbers = _numbers(name, array, arrays)
    if numbers is not None:
        codes = [_varints(part) for part in numbers]
        fitting = [code for code in codes if code is not None]
        return {name: np.concatenate(fitting) if len(fitting) == len(codes) else array}
    if _is_factor(name, array) and np.array_equal(cut_to_bfloat16(array), array):
        return {name: upper(array)}
    if _ends(name, ("weights",)) and array.dtype == np.int8 and array.ndim == 2 and array.shape[1] % 8 == 0:
        used = array != 0
        return {name: array[used], name + MASK: np.packbits(used, axis=1)}
    pointers = _row_pointers(name, array, arrays)
    rows = None if pointers is None else NarrowRows.of(array, pointers)
    return {name: array} if rows is None else of_rows(name, rows)


def _varints(numbers: NDArray[Any]) -> NDArray[np.uint8] | None:
    """Encode numbers; None if one does not fit."""
    return encode_varints(numbers) if numbers.min(initial=0) >= 0 and numbers.max(initial=0) < TOO_LARGE else None


def _numbers(name: str, array: NDArray[Any], arrays: Arrays) -> Iterator[NDArray[Any]] | None:
    """Return the numbers that are stored for row pointers, ids and counts, in parts; None for other arrays."""
    if array.ndim != 1:
        return None
    if _ends(name, POINTERS) and array.dtype == np.int64 and len(array) and array[0] == 0:
        return iter([np.diff(array)])
    if _ends(name, COUNTS) and array.dtype == np.int64:
        return iter([array])
    pointers = arrays.get(_pointers_of(name, IDS))
    if pointers is None or array.dtype not in (np.int32, np.uint16) or not are_pointers(pointers, len(array)):
        return None
    return _gaps(array, pointers)


def _gaps(ids: NDArray[Any], pointers: I64) -> Iterator[NDArray[np.int32]]:
    """Yield the first id of each row and the gaps between the others, in parts; free their pages if ids are mapped."""
    for begin, end in parts_of(pointers, ENTRIES_AT_A_TIME):
        starts = pointers[begin:end] - pointers[begin]
        own = ids[pointers[begin] : pointers[end]].astype(np.int32)
        gaps, filled = np.diff(own, prepend=np.int32(0)), starts[np.diff(pointers[begin : end + 1]) > 0]
        gaps[filled] = own[filled]
        yield gaps
        release_pages(ids)


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
        return from_upper(array)
    if array.dtype == np.int8 and name + MASK in arrays:
        return _unmasked(name, array, arrays[name + MASK])
    return array


def _ids(name: str, gaps: I64, pointers: NDArray[Any]) -> NDArray[np.int32]:
    if not are_pointers(pointers, len(gaps)):
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


def of_rows(name: str, rows: NarrowRows) -> Arrays:
    """Return the arrays of 8-bit rows under the names that `narrow_rows` reads."""
    return {name: rows.codes, name + SCALE: rows.steps}


def narrow_rows(name: str, arrays: Arrays, indptr: NDArray[Any] | None = None) -> NarrowRows | None:
    """Return the 8-bit rows of an array that `widen` has left narrow, checked; None for floats."""
    codes = arrays[name]
    if codes.dtype != np.int8:
        return None
    if name + SCALE not in arrays:
        raise ModelError(f"{name} is not made of 8-bit rows with a scale for each: there are no scales")
    rows = NarrowRows(codes, arrays[name + SCALE], indptr)
    rows.check(name)
    return rows


def with_floats(arrays: Arrays) -> Arrays:
    """Return the arrays with 8-bit rows as floats."""
    found = {name: array for name, array in arrays.items() if not name.endswith(SCALE)}
    for name in found:
        if (rows := narrow_rows(name, arrays, arrays.get(_pointers_of(name, VALUES)))) is not None:
            found[name] = rows.floats()
    return found


def _row_pointers(name: str, array: NDArray[Any], arrays: Arrays) -> I64 | None:
    """Return the row pointers of floats that are stored as 8-bit rows; None for other arrays."""
    if array.dtype != np.float32 or (array.ndim == 2 and not array.flags.c_contiguous):
        return None
    if (pointers := arrays.get(_pointers_of(name, VALUES))) is not None:
        return pointers if are_pointers(pointers, array.size) else None
    return pointers_of_matrix(array) if array.ndim == 2 and array.shape[1] > 1 and name.endswith(".weight") else None


def _pointers_of(name: str, endings: dict[str, str]) -> str:
    """Return the name of an array's row pointers; the empty string if it has none."""
    return next((name.removesuffix(own) + of for own, of in endings.items() if _ends(name, (own,))), "")


def _is_factor(name: str, array: NDArray[Any]) -> bool:
    return _ends(name, ("factors",)) and array.dtype == np.float32 and array.flags.c_contiguous


def _ends(name: str, endings: tuple[str, ...]) -> bool:
    return any(name == ending or name.endswith(f".{ending}") for ending in endings)
