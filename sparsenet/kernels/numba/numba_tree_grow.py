"""Balanced 2-means for growing label trees in Numba: see ``csrc/tree/grow.cpp``."""

from __future__ import annotations

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.numba.numba_split_mix import split_mix
from sparsenet.kernels.types import F32, I32, I64


@checked(
    indptr="ptr r+1 nnz", indices="i32 >=nnz", data="f32 >=nnz", starts="ptr s+1 m", left="i64 s", order="out i32 m"
)
def split_sets(
    indptr: I64,
    indices: I32,
    data: F32,
    n_features: int,
    starts: I64,
    left: I64,
    seed: int,
    most_rounds: int,
    order: I32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    rows, limits = (indptr, indices, data), (n_features, np.uint64(seed), most_rounds)
    parallel_for(_split_sets, len(left), threads, rows, limits, starts, left, order)


@jit
def _split_sets(first, last, rows, limits, starts, left, order):  # type: ignore[no-untyped-def]
    n_features, seed, most_rounds = limits
    sums = np.zeros((2, n_features), np.float32)
    for b in range(first, last):
        own, n_left = order[starts[b] : starts[b + 1]], left[b]
        n = len(own)
        if n_left <= 0 or n_left >= n:
            continue
        random = split_mix(seed + np.uint64(b))
        one = np.int64(random % np.uint64(n))
        other = (one + 1 + np.int64((random >> np.uint64(32)) % np.uint64(n - 1))) % n
        sides = (own[one : one + 1].copy(), own[other : other + 1].copy())
        for _ in range(most_rounds):
            similarity = _left_similarity(rows, sides, own, sums)  # type: ignore[no-untyped-call]
            if not _divide(own, similarity, n_left):  # type: ignore[no-untyped-call]
                break
            sides = (own[:n_left].copy(), own[n_left:].copy())


@jit
def _left_similarity(rows, sides, own, sums):  # type: ignore[no-untyped-def]
    """Return each row's similarity to the left centroid minus the right one; `sums` is zero before and after."""
    indptr, indices, data = rows
    similarity, signs = np.zeros(len(own), np.float32), (np.float32(1), np.float32(-1))
    for side in range(2):
        total, members = sums[side], sides[side]
        for i in members:
            for j in range(indptr[i], indptr[i + 1]):
                total[indices[j]] += data[j]
        dots = np.zeros(len(own), np.float32)
        for at in range(len(own)):
            for j in range(indptr[own[at]], indptr[own[at] + 1]):
                dots[at] += data[j] * total[indices[j]]
        similarity += dots * (signs[side] * _inverse_length(rows, members, total))  # type: ignore[no-untyped-call]
    return similarity


@jit
def _inverse_length(rows, members, total):  # type: ignore[no-untyped-def]
    """Return 1 / the length of a sum of rows, and reset it to zero on the way, so that each feature counts once."""
    indptr, indices, _ = rows
    squares = 0.0
    for i in members:
        for j in range(indptr[i], indptr[i + 1]):
            squares += np.float64(total[indices[j]]) ** 2
            total[indices[j]] = 0
    return np.float32(1 / np.sqrt(squares)) if squares > 0 else np.float32(0)


@jit
def _divide(own, similarity, n_left):  # type: ignore[no-untyped-def]
    """Move the `n_left` rows nearest to the left to the front of `own`, by number; return whether any moved."""
    by_number = np.argsort(own)
    best = by_number[np.argsort(-similarity[by_number], kind="mergesort")]
    left, right = np.sort(own[best[:n_left]]), np.sort(own[best[n_left:]])
    if np.all(left == np.sort(own[:n_left])):
        return False
    own[:n_left] = left
    own[n_left:] = right
    return True
