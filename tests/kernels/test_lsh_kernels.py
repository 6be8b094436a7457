"""Hashing kernels: every backend and instruction set against plain Python, bit for bit, at any thread count."""

import numpy as np
import pytest

from sparsenet.index.hashing.families import _permuted

SIZES = [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 100]


def mix(x: int) -> int:
    x = (x ^ x >> 16) * 0x85EBCA6B % 2**32
    x = (x ^ x >> 13) * 0xC2B2AE35 % 2**32
    return x ^ x >> 16


def plain_bin_codes(values: np.ndarray, bins: np.ndarray) -> np.ndarray:
    window = bins.shape[2]
    flat = bins.reshape(-1, window)
    out = np.zeros((len(bins), len(values)), np.uint16)
    for row, vector in enumerate(values):
        seen = [[(-vector[c], i) for i, c in enumerate(coordinates) if vector[c]] for coordinates in flat]
        symbols = []
        for b in range(len(flat)):
            donors = [b, *(mix(b * 64 + attempt) % len(flat) for attempt in range(64))]
            donor = next((d for d in donors if seen[d]), None)
            symbols.append(0 if donor is None else (min(seen[donor])[1] + donor) % window)
        for s, symbol in enumerate(symbols):
            table = s // bins.shape[1]
            out[table, row] = out[table, row] * window + symbol
    return out


def plain_query(codes: np.ndarray, asked: np.ndarray, probe_limit: int, limit: int) -> list[tuple[int, int]]:
    hits: dict[int, int] = {}
    for table in range(len(codes)):
        for code in asked[table].tolist():
            bucket = np.flatnonzero(codes[table] == code).tolist()
            if len(bucket) > probe_limit:
                start = mix(table << 16 | code) % len(bucket)
                bucket = (bucket + bucket)[start : start + probe_limit]
            for label in bucket:
                hits[label] = hits.get(label, 0) + 1
    return sorted(hits.items(), key=lambda item: (-item[1], item[0]))[:limit]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("n_bits", [1, 9, 16])
def test_packs_signs_into_codes(backend, n, n_bits):
    scores = np.random.default_rng(n).integers(-2, 3, (n, 3 * n_bits)).astype(np.float32)
    bits = (scores >= 0).reshape(n, 3, n_bits) @ (1 << np.arange(n_bits)[::-1])
    for threads in (1, 2, 4):
        codes = np.full((3, n), 7, np.uint16)
        backend.lsh_pack_signs(scores, codes, threads)
        np.testing.assert_array_equal(codes, bits.T)


@pytest.mark.parametrize("n", [0, 1, 7, 16, 17, 33])
@pytest.mark.parametrize(("width", "window", "per_table"), [(1, 2, 3), (7, 8, 2), (33, 4, 2), (100, 16, 1)])
@pytest.mark.parametrize("density", [0.05, 0.5, 1.0])
def test_bin_codes_match_plain_python(backend, n, width, window, per_table, density):
    rng = np.random.default_rng(n)
    values = rng.integers(-3, 4, (n, width)).astype(np.float32)  # small integers: many ties
    values[rng.random(values.shape) > density] = 0
    values[:1] = -0.0  # nothing at all, with the other sign of zero
    bins = _permuted(1, width, (5, per_table, window))
    for threads in (1, 2, 4):
        codes = np.full((5, n), 9, np.uint16)
        backend.lsh_bin_codes(values, bins, codes, threads)
        np.testing.assert_array_equal(codes, plain_bin_codes(values, bins))


@pytest.mark.parametrize("n_labels", SIZES)
def test_builds_sorted_tables(backend, n_labels):
    codes = np.random.default_rng(n_labels).integers(0, 8, (3, n_labels)).astype(np.uint16)
    for threads in (1, 2, 4):
        offsets, labels = np.full((3, 9), -1, np.int32), np.full((3, n_labels), -1, np.int32)
        backend.lsh_build_tables(codes, offsets, labels, threads)
        np.testing.assert_array_equal(labels, np.argsort(codes, axis=1, kind="stable"))
        for table in range(3):
            np.testing.assert_array_equal(offsets[table], np.searchsorted(np.sort(codes[table]), np.arange(9)))


@pytest.mark.parametrize("n_labels", SIZES)
@pytest.mark.parametrize(("n", "probe_limit", "limit"), [(0, 4, 5), (1, 1, 5), (9, 3, 4), (9, 1000, 1), (33, 5, 1000)])
def test_queries_match_plain_python(backend, n_labels, n, probe_limit, limit):
    rng = np.random.default_rng(n_labels + n)
    codes, asked = (rng.integers(0, 4, (6, size)).astype(np.uint16) for size in (n_labels, n))
    offsets, labels = np.empty((6, 5), np.int32), np.empty((6, n_labels), np.int32)
    backend.lsh_build_tables(codes, offsets, labels, 1)
    shared = plain_query(codes, asked, probe_limit, limit)
    for threads in (1, 2, 4):
        counts = np.zeros((threads, n_labels), np.int32)
        ids, hits = np.empty(limit, np.int32), np.empty(limit, np.int32)
        found = backend.lsh_query_shared(offsets, labels, asked, probe_limit, counts, ids, hits, threads)
        assert list(zip(ids[:found].tolist(), hits[:found].tolist(), strict=True)) == shared
        ids, hits = np.empty((n, limit), np.int32), np.empty((n, limit), np.int32)
        sizes = np.empty(n, np.int64)
        backend.lsh_query_each(offsets, labels, asked, probe_limit, counts, ids, hits, sizes, threads)
        for i, size in enumerate(sizes):
            each = list(zip(ids[i, :size].tolist(), hits[i, :size].tolist(), strict=True))
            assert each == plain_query(codes, asked[:, i : i + 1], probe_limit, limit)
        assert not counts.any()


def test_mismatched_arguments_are_named(backend):
    codes = np.zeros((2, 3), np.uint16)
    with pytest.raises(ValueError, match="scores must have 1 to 16 columns for each of the 2 tables, got 5"):
        backend.lsh_pack_signs(np.zeros((3, 5), np.float32), codes, 1)
    with pytest.raises(ValueError, match="bins must have a power of two as its last extent, got 3"):
        backend.lsh_bin_codes(np.zeros((3, 5), np.float32), np.zeros((2, 1, 3), np.int32), codes, 1)
    with pytest.raises(ValueError, match="probe_limit must be at least 1, got 0"):
        backend.lsh_query_shared(
            np.zeros((2, 5), np.int32),
            np.zeros((2, 3), np.int32),
            codes,
            0,
            np.zeros((1, 3), np.int32),
            np.zeros(1, np.int32),
            np.zeros(1, np.int32),
            1,
        )
    with pytest.raises(ValueError, match="labels"):
        backend.lsh_build_tables(codes, np.zeros((2, 5), np.int32), np.zeros((2, 4), np.int32), 1)
