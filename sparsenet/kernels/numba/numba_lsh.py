"""Hash codes, hash tables and retrieval by hit counts in Numba, bit-identical to ``csrc/index/lsh.cpp``."""

from __future__ import annotations

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.types import F32, I32, I64, U16

BORROW_ATTEMPTS = 64
ROW_GRAIN = 32


@jit
def _mix(x: int) -> int:
    # The finaliser of Murmur3 on 32 bits: keep only the low half of each product.
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    return x ^ (x >> 16)


@checked(scores="f32 n _", codes="out u16 t n")
def lsh_pack_signs(scores: F32, codes: U16, threads: int) -> None:
    """See `sparsenet/_core.pyi`."""
    n_bits, surplus = divmod(scores.shape[1], max(len(codes), 1))
    if len(codes) < 1 or surplus or not 1 <= n_bits <= 16:
        raise ValueError(f"scores must have 1 to 16 columns for each of the {len(codes)} tables, got {scores.shape[1]}")
    parallel_for(_pack_signs, len(scores), threads, scores, n_bits, codes, grain=ROW_GRAIN)


@jit
def _pack_signs(first: int, last: int, scores: F32, n_bits: int, codes: U16) -> None:
    for row in range(first, last):
        at = 0
        for table in range(codes.shape[0]):
            code = 0
            for _ in range(n_bits):
                code = code * 2 + (1 if scores[row, at] >= 0 else 0)
                at += 1
            codes[table, row] = code


@checked(values="f32 n _", bins="i32 t _ _", codes="out u16 t n")
def lsh_bin_codes(values: F32, bins: I32, codes: U16, threads: int) -> None:
    """See `sparsenet/_core.pyi`."""
    window = bins.shape[2]
    if window < 2 or window & (window - 1):
        raise ValueError(f"bins must have a power of two as its last extent, got {window}")
    parallel_for(_bin_codes, len(values), threads, values, bins, codes, grain=ROW_GRAIN)


@jit
def _bin_codes(first: int, last: int, values: F32, bins: I32, codes: U16) -> None:
    n_tables, per_table, window = bins.shape
    flat = bins.reshape(-1, window)
    winners = np.empty(len(flat), np.int64)
    for row in range(first, last):
        for b in range(len(flat)):
            winners[b] = _winner(values[row], flat[b])
        for table in range(n_tables):
            code = 0
            for i in range(per_table):
                code = code * window + _symbol(winners, table * per_table + i, window)
            codes[table, row] = code


@jit
def _winner(values: F32, coordinates: I32) -> int:
    best, position = np.float32(-np.inf), -1
    for i in range(len(coordinates)):
        value = values[coordinates[i]]
        if value != 0 and value > best:
            best, position = value, i
    return position


@jit
def _symbol(winners: I64, bin_: int, window: int) -> int:
    donor, attempt = bin_, 0
    while winners[donor] < 0 and attempt < BORROW_ATTEMPTS:
        donor = _mix(bin_ * BORROW_ATTEMPTS + attempt) % len(winners)
        attempt += 1
    return (winners[donor] + donor) & (window - 1) if winners[donor] >= 0 else 0


@checked(codes="u16 t l", offsets="out i32 t _", labels="out i32 t l")
def lsh_build_tables(codes: U16, offsets: I32, labels: I32, threads: int) -> None:
    """See `sparsenet/_core.pyi`."""
    if offsets.shape[1] < 1:
        raise ValueError("offsets.shape[1] must be at least 1, got 0")
    parallel_for(_build_tables, len(codes), threads, codes, offsets, labels)


@jit
def _build_tables(first: int, last: int, codes: U16, offsets: I32, labels: I32) -> None:
    for table in range(first, last):
        code, start = codes[table], offsets[table]
        start[:] = 0
        for label in range(len(code)):
            start[int(code[label]) + 1] += 1
        for bucket in range(len(start) - 1):
            start[bucket + 1] += start[bucket]
        following = start.copy()
        for label in range(len(code)):
            labels[table, following[code[label]]] = label
            following[code[label]] += 1


@checked(
    offsets="i32 t _",
    labels="i32 t l",
    codes="u16 t n",
    counts="out i32 s l",
    ids="out i32 limit",
    hits="out i32 limit",
)
def lsh_query_shared(
    offsets: I32, labels: I32, codes: U16, probe_limit: int, counts: I32, ids: I32, hits: I32, threads: int
) -> int:
    """See `sparsenet/_core.pyi`."""
    _check_query(probe_limit, counts)
    touched = [np.empty(0, np.int32)] * len(counts)

    def count(first: int, last: int) -> None:
        for slot in range(first, last):
            tables = slice(slot, None, len(counts))
            touched[slot] = _count_shared(offsets[tables], labels[tables], codes[tables], slot, probe_limit, counts)

    parallel_for(count, len(counts), threads)
    for slot in range(1, len(counts)):
        touched[0] = _absorb(touched[0], counts[0], touched[slot], counts[slot])
    return int(_take(touched[0], counts[0], ids, hits))


@jit
def _count_shared(offsets: I32, labels: I32, codes: U16, slot: int, probe_limit: int, counts: I32) -> I32:
    n_slots, n_labels = counts.shape
    touched, n_touched = np.empty(n_labels, np.int32), 0
    for i in range(len(offsets)):
        ordered = np.sort(codes[i])
        first = 0
        while first < len(ordered):
            code, last = ordered[first], first + 1
            while last < len(ordered) and ordered[last] == code:
                last += 1
            bucket = labels[i, offsets[i, code] : offsets[i, int(code) + 1]]
            where = (slot + i * n_slots) << 16 | int(code)
            n_touched = _probe(bucket, where, probe_limit, last - first, counts[slot], touched, n_touched)
            first = last
    return touched[:n_touched].copy()


@jit
def _probe(bucket: I32, where: int, probe_limit: int, weight: int, counts: I32, touched: I32, n_touched: int) -> int:
    start = _mix(where) % len(bucket) if len(bucket) > probe_limit else 0
    for i in range(min(len(bucket), probe_limit)):
        at = start + i
        label = bucket[at if at < len(bucket) else at - len(bucket)]
        if counts[label] == 0:
            touched[n_touched] = label
            n_touched += 1
        counts[label] += weight
    return n_touched


@jit
def _absorb(touched: I32, counts: I32, others: I32, other_counts: I32) -> I32:
    fresh = others[counts[others] == 0]
    for label in others:
        counts[label] += other_counts[label]
        other_counts[label] = 0
    return np.concatenate((touched, fresh))


@jit
def _take(touched: I32, counts: I32, ids: I32, hits: I32) -> int:
    found = counts[touched]
    least = _cut(found, len(ids))
    keys = np.empty(np.count_nonzero(found >= least), np.int64)
    n_keys = 0
    for i in range(len(touched)):
        if found[i] >= least:
            # Ascending keys: most hits first, then the smaller label.
            keys[n_keys] = (np.int64(0x7FFFFFFF) - found[i]) << 32 | touched[i]
            n_keys += 1
        counts[touched[i]] = 0
    keys.sort()
    for i in range(min(len(ids), n_keys)):
        ids[i] = keys[i] & 0xFFFFFFFF
        hits[i] = 0x7FFFFFFF - (keys[i] >> 32)
    return min(len(ids), n_keys)


@jit
def _cut(found: I32, limit: int) -> int:
    most = found.max() if len(found) else 1
    histogram = np.zeros(most + 1, np.int64)
    for count in found:
        histogram[count] += 1
    reached = 0
    while most > 1:
        reached += histogram[most]
        if reached >= limit:
            break
        most -= 1
    return most


@checked(
    offsets="i32 t _",
    labels="i32 t l",
    codes="u16 t n",
    counts="out i32 s l",
    ids="out i32 n limit",
    hits="out i32 n limit",
    found="out i64 n",
)
def lsh_query_each(
    offsets: I32,
    labels: I32,
    codes: U16,
    probe_limit: int,
    counts: I32,
    ids: I32,
    hits: I32,
    found: I64,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    _check_query(probe_limit, counts)
    parallel_for(_query_each, len(counts), threads, offsets, labels, codes, probe_limit, counts, ids, hits, found)


@jit
def _query_each(
    first: int,
    last: int,
    offsets: I32,
    labels: I32,
    codes: U16,
    probe_limit: int,
    counts: I32,
    ids: I32,
    hits: I32,
    found: I64,
) -> None:
    touched = np.empty(min(counts.shape[1], len(offsets) * probe_limit), np.int32)
    for slot in range(first, last):
        for point in range(slot, codes.shape[1], len(counts)):
            n_touched = 0
            for table in range(len(offsets)):
                code = int(codes[table, point])
                bucket = labels[table, offsets[table, code] : offsets[table, code + 1]]
                where = table << 16 | code
                n_touched = _probe(bucket, where, probe_limit, 1, counts[slot], touched, n_touched)
            found[point] = _take(touched[:n_touched], counts[slot], ids[point], hits[point])


def _check_query(probe_limit: int, counts: I32) -> None:
    if len(counts) < 1:
        raise ValueError("counts.shape[0] must be at least 1, got 0")
    if probe_limit < 1:
        raise ValueError(f"probe_limit must be at least 1, got {probe_limit}")
