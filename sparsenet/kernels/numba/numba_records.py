"""Rows of a sparse matrix as records of a file: see ``csrc/io/records.h`` for the encoding."""

from __future__ import annotations

import os

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.types import F64, I32, I64, U8

#: The top bit of the first of two units.
LONG = 0x8000


@checked(indptr="ptr n+1 nnz", indices="i32 >=nnz", values="f64 >=nnz", out="out u8 _", ends="out i64 n+1")
def encode_rows(indptr: I64, indices: I32, values: F64, value_bytes: int, out: U8, ends: I64) -> None:
    """See `sparsenet/_core.pyi`."""
    if not 0 <= value_bytes <= 8:
        raise ValueError(f"value_bytes must be from 0 to 8, got {value_bytes}")
    if len(out) < indptr[-1] * (4 + value_bytes):
        raise ValueError(f"out must have room for {indptr[-1] * (4 + value_bytes)} entries, got {len(out)}")
    stored = _stored(values, value_bytes)
    _encode_rows(indptr, indices, stored.view(np.uint8).reshape(-1), value_bytes, out, ends)


def _stored(values: F64, value_bytes: int) -> np.ndarray:
    kinds = {2: np.uint16, 4: np.float32, 8: np.float64}
    return values.astype(kinds[value_bytes]) if value_bytes in kinds else np.empty(0, np.uint8)


@jit
def _encode_rows(indptr: I64, indices: I32, stored: U8, value_bytes: int, out: U8, ends: I64) -> None:
    at = 0
    ends[0] = 0
    for i in range(indptr.size - 1):
        before = np.int64(-1)
        for j in range(indptr[i], indptr[i + 1]):
            gap = np.int64(indices[j]) - before - 1
            before = np.int64(indices[j])
            if gap >= LONG:
                high = LONG | gap >> 16
                out[at], out[at + 1] = high & 255, high >> 8
                at += 2
            out[at], out[at + 1] = gap & 255, gap >> 8 & 255
            at += 2
        for b in range(indptr[i] * value_bytes, indptr[i + 1] * value_bytes):
            out[at] = stored[b]
            at += 1
        ends[i + 1] = at


@checked(
    records="u8 _",
    starts="ptr n+1 bytes",
    value_bytes="u8 n",
    indptr="ptr n+1 nnz",
    indices="out i32 >=nnz",
    values="out f64 >=nnz",
)
def decode_rows(
    records: U8, starts: I64, value_bytes: U8, width: int, indptr: I64, indices: I32, values: F64, threads: int
) -> int:
    """See `sparsenet/_core.pyi`."""
    if len(records) < starts[-1]:
        raise ValueError(f"records must have room for {starts[-1]} entries, got {len(records)}")
    is_good = np.zeros(len(value_bytes), np.bool_)
    arguments = records, starts, value_bytes, width, indptr, indices, values, is_good
    parallel_for(_decode_rows, len(value_bytes), threads, *arguments, grain=256)
    return -1 if is_good.all() else int(np.argmin(is_good))


@jit
def _decode_rows(
    first: int,
    last: int,
    records: U8,
    starts: I64,
    value_bytes: U8,
    width: int,
    indptr: I64,
    indices: I32,
    values: F64,
    is_good: U8,
) -> None:
    scratch = np.empty(1, np.uint64)
    as_float, as_single = scratch.view(np.float64), scratch.view(np.float32)
    for i in range(first, last):
        count, bytes_each = indptr[i + 1] - indptr[i], np.int64(value_bytes[i])
        id_bytes = starts[i + 1] - starts[i] - bytes_each * count
        if id_bytes < 2 * count or id_bytes > 4 * count or id_bytes % 2 != 0:
            continue
        at, end = starts[i], starts[i] + id_bytes
        number, is_whole = np.int64(-1), True
        for j in range(indptr[i], indptr[i + 1]):
            if at == end:
                is_whole = False
                break
            gap = np.int64(records[at]) | np.int64(records[at + 1]) << 8
            at += 2
            if gap >= LONG:
                if at == end:
                    is_whole = False
                    break
                gap = (gap - LONG) << 16 | np.int64(records[at]) | np.int64(records[at + 1]) << 8
                at += 2
            number += gap + 1
            indices[j] = number
        if not is_whole or at != end or number >= width:
            continue
        for j in range(indptr[i], indptr[i + 1]):
            bits = np.uint64(0)
            for b in range(bytes_each):
                bits |= np.uint64(records[at + b]) << np.uint64(8 * b)
            at += bytes_each
            if bytes_each == 8:
                scratch[0] = bits
                values[j] = as_float[0]
            elif bytes_each == 4:
                scratch[0] = bits
                values[j] = as_single[0]
            elif bytes_each == 2:
                values[j] = np.float64(bits)
            else:
                values[j] = 1.0
        is_good[i] = True


@checked(offsets="i64 n", starts="ptr n+1 bytes", out="out u8 >=bytes")
def read_records(file: int, offsets: I64, starts: I64, out: U8) -> int:
    """See `sparsenet/_core.pyi`."""
    apart = np.flatnonzero(np.diff(offsets) != np.diff(starts)[:-1]) + 1
    begins = [0, *apart.tolist()] if len(offsets) else []
    for begin, end in zip(begins, [*begins[1:], len(offsets)], strict=False):
        place, left, size = int(offsets[begin]), out.data[starts[begin] : starts[end]], 1
        while left:
            try:
                size = os.preadv(file, [left], place)
            except OSError as error:
                return error.errno or -1
            if size == 0:
                return -1
            left, place = left[size:], place + size
    return 0
