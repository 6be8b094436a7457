"""Dense matrix product in Numba: pack both operands into panels, then multiply the panels.

BLAS is not an option. The last bits of its result depend on how threads split the product, and only one thread of a
process can reliably limit its number of threads. It is not faster either: 110 GFLOP/s for NumPy's OpenBLAS on an
AVX-512 Zen 5 core, against 130 to 200 here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.types import F32, I32

# A register block is PANEL_ROWS rows of A by PANEL_COLUMNS columns of B; each step of its loop covers DEPTH_STEP.
PANEL_ROWS, PANEL_COLUMNS, DEPTH_STEP = 4, 64, 4
TASK_PANELS = 16  # panels of A that a task multiplies by one panel of B
DEPTH_BLOCK = 256  # rows of a panel of B, which then stays in the L2 cache

# Indices are unsigned: Numba checks whether a signed one is negative, and then does not vectorise.
U = np.uintp
N1, N2, N3, N4 = U(PANEL_COLUMNS), U(2 * PANEL_COLUMNS), U(3 * PANEL_COLUMNS), U(4 * PANEL_COLUMNS)

NO_ROWS: I32 = np.empty(0, np.int32)
NO_START: F32 = np.empty(0, np.float32)


class Operand(NamedTuple):
    """One operand of a product: ``data``, or ``data[rows]`` if `gather`, with panels along rows or columns."""

    data: F32
    rows: I32
    gather: bool
    along_rows: bool

    @classmethod
    def of(cls, data: F32, rows: I32 | None, along_rows: bool) -> Operand:
        """Wrap a matrix, or the given rows of it."""
        return cls(data, NO_ROWS if rows is None else rows, rows is not None, along_rows)

    def extents(self) -> tuple[int, int]:
        """Return the extent along the panels and the depth of the product."""
        shape = (len(self.rows) if self.gather else len(self.data), self.data.shape[1])
        return shape if self.along_rows else shape[::-1]


@checked(a="f32 _ _", b="f32 _ _", out="out f32 _ _", a_rows="i32? _", b_rows="i32? _", start="f32? _")
def matmul(
    a: F32,
    b: F32,
    out: F32,
    a_rows: I32 | None,
    b_rows: I32 | None,
    start: F32 | None,
    transpose_a: bool,
    transpose_b: bool,
    bf16: bool,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    left, right = Operand.of(a, a_rows, not transpose_a), Operand.of(b, b_rows, bool(transpose_b))
    (m, depth), (n, b_depth) = left.extents(), right.extents()
    if depth != b_depth:
        raise ValueError(f"b does not fit a: the inner extents are {depth} and {b_depth}")
    if out.shape != (m, n):
        raise ValueError(f"out has shape {out.shape}, expected {(m, n)}")
    if start is not None and start.shape != (m,):
        raise ValueError(f"start has shape {start.shape}, expected {(m,)}")
    multiply(left, right, out, threads, start=start, bf16=bf16)


def multiply(
    left: Operand, right: Operand, out: F32, threads: int, *, start: F32 | None = None, bf16: bool = False
) -> None:
    """Compute ``out = start + left @ right`` for operands of matching shapes."""
    a, b = pack(left, PANEL_ROWS, threads), pack(right, PANEL_COLUMNS, threads)
    if bf16:
        for panels in (a, b):
            parallel_for(_round_to_bfloat16, len(panels), threads, panels.view(np.uint32))
    blocks = -(-len(a) // TASK_PANELS)
    parallel_for(_multiply, blocks * len(b), threads, a, b, NO_START if start is None else start, out)


def pack(operand: Operand, width: int, threads: int) -> F32:
    """Copy to (panels, depth, width): element (q, p, i) is (q * width + i, p) of the operand, or 0 outside."""
    count, depth = operand.extents()
    out = np.empty((-(-count // width), -(-depth // DEPTH_STEP) * DEPTH_STEP, width), np.float32)
    parallel_for(_pack, len(out), threads, *operand, count, depth, out, grain=64 // width)
    return out


@jit
def _pack(
    first: int, last: int, data: F32, rows: I32, gather: bool, along_rows: bool, count: int, depth: int, out: F32
) -> None:
    width = out.shape[2]
    source = np.empty(width, np.int64)
    for q in range(first, last):
        used = min(width, count - q * width)
        out[q, depth:] = 0
        out[q, :depth, used:] = 0
        if along_rows:
            for i in range(used):
                source[i] = rows[q * width + i] if gather else q * width + i
            for p in range(depth):
                for i in range(used):
                    out[q, p, i] = data[source[i], p]
        else:
            for p in range(depth):
                row = data[rows[p] if gather else p]
                for i in range(used):
                    out[q, p, i] = row[q * width + i]


@jit
def _round_to_bfloat16(first: int, last: int, bits: Any) -> None:
    # Round to nearest, ties to even. A carry out of the mantissa correctly gives the next power of two, or infinity.
    for q in range(first, last):
        panel = bits[q].reshape(-1)
        for i in range(panel.size):
            word = panel[i]
            carry = np.uint32(0x7FFF) + ((word >> np.uint32(16)) & np.uint32(1))
            is_nan = (word & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
            panel[i] = (word | np.uint32(0x00400000) if is_nan else word + carry) & np.uint32(0xFFFF0000)


@jit
def _multiply(first: int, last: int, a: F32, b: F32, start: F32, out: F32) -> None:
    # A task multiplies one panel of B by a block of panels of A. Each sum runs over the depth in order.
    m, n, depth = out.shape[0], out.shape[1], a.shape[1]
    tile = np.empty(PANEL_ROWS * PANEL_COLUMNS, np.float32)
    for task in range(first, last):
        block, panel = task // b.shape[0], task % b.shape[0]
        columns = slice(panel * PANEL_COLUMNS, min((panel + 1) * PANEL_COLUMNS, n))
        for begin in range(0, max(1, depth), DEPTH_BLOCK):
            stop = min(depth, begin + DEPTH_BLOCK)
            right = b[panel, begin:stop].reshape(-1)
            for q in range(block * TASK_PANELS, min((block + 1) * TASK_PANELS, a.shape[0])):
                tile[:] = 0
                _multiply_tile(a[q, begin:stop].reshape(-1), right, tile)
                for i in range(min(PANEL_ROWS, m - q * PANEL_ROWS)):
                    row = q * PANEL_ROWS + i
                    before = start[row] if start.size else np.float32(0)
                    _put(tile[i * PANEL_COLUMNS :], begin > 0, before, out[row, columns])


@jit
def _put(sums: F32, more: bool, before: np.float32, out: F32) -> None:
    if more:
        for j in range(out.size):
            out[j] += sums[j]
    else:
        for j in range(out.size):
            out[j] = before + sums[j]


@jit
def _multiply_tile(a: F32, b: F32, tile: F32) -> None:
    at, q = U(0), U(0)
    for _ in range(a.size // (PANEL_ROWS * DEPTH_STEP)):
        a00, a10, a20, a30 = a[at], a[at + U(1)], a[at + U(2)], a[at + U(3)]
        a01, a11, a21, a31 = a[at + U(4)], a[at + U(5)], a[at + U(6)], a[at + U(7)]
        a02, a12, a22, a32 = a[at + U(8)], a[at + U(9)], a[at + U(10)], a[at + U(11)]
        a03, a13, a23, a33 = a[at + U(12)], a[at + U(13)], a[at + U(14)], a[at + U(15)]
        for j in range(N1):
            b0, b1, b2, b3 = b[q + j], b[q + j + N1], b[q + j + N2], b[q + j + N3]
            tile[j] += a00 * b0 + a01 * b1 + a02 * b2 + a03 * b3
            tile[j + N1] += a10 * b0 + a11 * b1 + a12 * b2 + a13 * b3
            tile[j + N2] += a20 * b0 + a21 * b1 + a22 * b2 + a23 * b3
            tile[j + N3] += a30 * b0 + a31 * b1 + a32 * b2 + a33 * b3
        at += U(PANEL_ROWS * DEPTH_STEP)
        q += N4
