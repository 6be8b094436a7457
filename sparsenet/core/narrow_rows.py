"""Rows of floats in 8 bits, with a step of 16 bits for each row, in memory as on disk.

A number is ``code * step``. The step is a bfloat16 number, so the product is exact, and a row that was rounded once
keeps every bit. Kernels read such rows with the same results as their floats. `index.cells.ByteRows` differs: its
scales are floats, since its rows are scanned by integer products and never read as floats again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sparsenet.core import aligned
from sparsenet.core.rows import by_row
from sparsenet.kernels.types import F32, I8, I64, U16

LARGEST = 127
#: Rows that are rounded or coded together.
BLOCK = 1 << 12


@dataclass(frozen=True, eq=False)
class NarrowRows:
    """Rows of 8-bit codes.

    Attributes
    ----------
    codes : ndarray of int8
        A matrix, or the values of sparse rows.
    steps : ndarray of shape (n,), uint16
        The upper half of the bits of each row's step.
    indptr : ndarray of shape (n + 1,), optional
        Row pointers of sparse rows.
    """

    codes: I8
    steps: U16
    indptr: I64 | None = None

    @classmethod
    def of(cls, values: F32, indptr: I64 | None = None) -> Self | None:
        """Return the codes of rounded floats; None if a row was not rounded to 8 bits."""
        rows = pointers_of_matrix(values) if indptr is None else indptr
        flat, steps = values.reshape(-1), np.empty(len(rows) - 1, np.float32)
        codes = np.empty(flat.shape, np.int8)
        for begin, end in blocks(rows):
            own, inner = flat[rows[begin] : rows[end]], rows[begin : end + 1] - rows[begin]
            steps[begin:end] = _steps(own, inner)
            each = np.repeat(steps[begin:end], np.diff(inner))
            code = np.rint(own / np.where(each > 0, each, np.float32(1)))
            if not np.array_equal(code * each, own) or (np.signbit(own) != (code < 0)).any():
                return None
            codes[rows[begin] : rows[end]] = code
        exact = np.array_equal(cut_to_bfloat16(steps), steps)
        return cls(codes.reshape(values.shape), upper(steps), indptr) if exact else None

    def check(self, name: str) -> None:
        """Raise ValueError for malformed rows, as from a damaged file."""
        rows = pointers_of_matrix(self.codes) if self.indptr is None else self.indptr
        if self.codes.dtype != np.int8 or self.steps.dtype != np.uint16 or self.steps.shape != (len(rows) - 1,):
            raise ValueError(f"{name} is not made of 8-bit rows with a scale for each")
        if not are_pointers(rows, self.codes.size):
            raise ValueError(f"{name} is not made of 8-bit rows with a scale for each: their pointers do not fit")
        if not np.isfinite(from_upper(self.steps)).all():
            raise ValueError(f"the scales of {name} must be finite")

    def floats(self) -> F32:
        """Return the rows as floats."""
        found = aligned.empty(self.codes.shape, np.float32)
        rows = pointers_of_matrix(self.codes) if self.indptr is None else self.indptr
        flat, codes = found.reshape(-1), self.codes.reshape(-1)
        for begin, end in blocks(rows):
            own = slice(rows[begin], rows[end])
            flat[own] = codes[own] * np.repeat(from_upper(self.steps[begin:end]), np.diff(rows[begin : end + 1]))
        return found

    def arrays(self) -> list[NDArray[Any]]:
        """Return the arrays that are held; row pointers belong to another object."""
        return [self.codes, self.steps]


def round_rows(flat: F32, indptr: I64) -> None:
    """Round rows to 8 bits in place."""
    for begin, end in blocks(indptr):
        own, rows = flat[indptr[begin] : indptr[end]], indptr[begin : end + 1] - indptr[begin]
        steps = np.repeat(cut_to_bfloat16(_steps(own, rows)), np.diff(rows))
        np.clip(np.rint(own / np.where(steps > 0, steps, np.float32(1))), -LARGEST, LARGEST, out=own)
        own *= steps
        own += np.float32(0)  # 8 bits have no negative zero


def _steps(own: F32, rows: I64) -> F32:
    """Return the step of each row: 127 of them make its peak."""
    return np.asarray(by_row(np.maximum, np.abs(own), rows) / np.float32(LARGEST))


def cut_to_bfloat16(values: F32) -> F32:
    """Cut floats to bfloat16. So 127 steps are exact, and rounding such a row again changes nothing."""
    return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def to_bfloat16(values: F32) -> F32:
    """Round positive floats to bfloat16, the upper half of their bits."""
    return ((values.view(np.uint32) + np.uint32(0x7FFF)) & np.uint32(0xFFFF0000)).view(np.float32)


def upper(values: F32) -> U16:
    """Return the upper half of the bits of bfloat16 numbers."""
    return (values.view(np.uint32) >> 16).astype(np.uint16)


def from_upper(halves: U16) -> F32:
    """Restore bfloat16 numbers from the upper half of their bits."""
    return (halves.astype(np.uint32) << 16).view(np.float32)


def pointers_of_matrix(array: NDArray[Any]) -> I64:
    """Return the row pointers of a matrix; anything else has no rows."""
    rows, columns = array.shape if array.ndim == 2 else (0, 0)
    return np.asarray(columns * np.arange(rows + 1), np.int64)


def are_pointers(pointers: NDArray[Any], n: int) -> bool:
    """Return whether row pointers rise from 0 to n."""
    return bool(
        pointers.dtype == np.int64
        and pointers.ndim == 1
        and len(pointers)
        and pointers[0] == 0
        and pointers[-1] == n
        and (np.diff(pointers) >= 0).all()
    )


def blocks(indptr: I64) -> Iterator[tuple[int, int]]:
    """Yield the first and last rows of blocks."""
    return pairwise([*range(0, len(indptr) - 1, BLOCK), len(indptr) - 1])
