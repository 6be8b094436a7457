"""Rank the candidates of a blend, composed of the other Numba kernels."""

from __future__ import annotations

import numpy as np

from sparsenet.kernels.numba.numba_neighbors import nearest_points, neighbor_votes
from sparsenet.kernels.numba.numba_shortlist import shortlist, wide_scores
from sparsenet.kernels.numba.numba_sparse import floats_of, pair_dot
from sparsenet.kernels.numba.numba_tree_search import Level, search_tree
from sparsenet.kernels.types import F32, I8, I32, I64, U16

NeighborArrays = tuple[F32, I64, I32 | U16, F32 | I8, U16 | None, I64, I32]
NetworkArrays = tuple[F32, F32 | I8, F32, F32 | None, I64 | None, I32 | None, F32 | I8 | None, U16 | None, U16 | None]
Points = tuple[I64, I32, F32]

_TINY, _LOWEST = np.finfo(np.float32).tiny, np.float32(-1e6)


def rank_blend(
    levels: list[Level],
    names: I32,
    beam: int,
    indptr: I64,
    indices: I32,
    data: F32,
    n_features: int,
    n_labels: int,
    neighbors: NeighborArrays | None,
    most: int,
    n_neighbors: int,
    power: float,
    network: NetworkArrays | None,
    weights: F32,
    pseudo_neighbor: float,
    n_candidates: int,
    n_proposed: int,
    out_labels: I32,
    out_scores: F32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    points, n = (indptr, indices, data), len(indptr) - 1
    if not 1 <= n_candidates <= len(names):
        raise ValueError(f"n_candidates must be from 1 to {len(names)}, got {n_candidates}")
    labels, found = np.empty((n, n_candidates), np.int32), np.empty((n, n_candidates), np.float32)
    search_tree(levels, *points, n_features, beam, names, labels, found, threads)
    while few := np.flatnonzero(labels[:, -1] < 0).tolist():
        beam *= 2
        for i in few:
            own = slice(i, i + 1)
            search_tree(levels, *_point(points, i), n_features, beam, names, labels[own], found[own], threads)
    penalties = np.sqrt(-found)
    votes, own_share = np.zeros_like(penalties), np.full((n, 1), 1 + pseudo_neighbor, np.float32)
    if neighbors is not None:
        near = _vote_weights(points, neighbors, most, n_neighbors, power, threads)
        label_lists = neighbors[5], neighbors[6], np.ones(len(neighbors[6]), np.float32)
        if n_proposed > 0:
            more, shares = np.empty((n, n_proposed), np.int32), np.empty((n, n_proposed), np.float32)
            others = np.arange(n_proposed, dtype=np.int32)
            shortlist(*near, *label_lists, np.zeros(n_labels, np.float32), others, more, shares, threads)
            first = np.arange(n)[:, None] * np.int64(n_labels)  # so that equal labels of other points differ
            is_new = (shares > 0) & ~np.isin(first + more, first + labels)
            penalties = np.hstack([penalties, np.where(is_new, penalties[:, -1:], np.float32(np.inf))])
            labels = np.hstack([labels, more])
        votes = np.empty(labels.shape, np.float32)
        neighbor_votes(*near, *label_lists, n_labels, labels, votes, threads)
        own_share[near[2].reshape(n, -1).any(axis=1)] = pseudo_neighbor
    if network is None:
        log_p, p = np.zeros_like(penalties), np.exp(-np.square(penalties))
    else:
        log_p = _log_probabilities(points, n_features, network, labels, threads)
        p = np.exp(log_p)
    with np.errstate(invalid="ignore"):
        scores = weights[2] * np.sqrt(votes + own_share * p) + weights[1] * log_p - weights[0] * penalties
    scores = np.where(np.isnan(scores) | (scores < _LOWEST), _LOWEST, scores)
    scores[np.isinf(penalties)] = -np.inf  # repeated labels, behind all others
    order = np.argsort(-scores, axis=1, kind="stable")[:, : out_labels.shape[1]]
    out_labels[:], out_scores[:] = np.take_along_axis(labels, order, 1), np.take_along_axis(scores, order, 1)


def _point(points: Points, i: int) -> Points:
    own = slice(points[0][i], points[0][i + 1])
    return np.array([0, own.stop - own.start]), points[1][own], points[2][own]


def _vote_weights(
    points: Points, neighbors: NeighborArrays, most: int, k: int, power: float, threads: int
) -> tuple[I64, I32, F32]:
    """Return the weights of the nearest points of each point, which sum to one."""
    indptr, indices, data = points
    feature_weights, starts, others, values, steps, label_starts, _ = neighbors
    index = starts, others, values, steps
    n, queries = len(indptr) - 1, np.empty_like(data)
    for i in range(n):
        own = slice(indptr[i], indptr[i + 1])
        largest = np.abs(data[own]).max(initial=0)
        queries[own] = data[own] / (largest if largest > 0 else np.float32(1)) * feature_weights[indices[own]]
    near, weights = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
    nearest_points(indptr, indices, queries, *index, len(label_starts) - 1, most, near, weights, threads)
    weights /= np.maximum(weights.max(axis=1, keepdims=True), _TINY)
    weights **= np.float32(power)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), _TINY)
    return np.arange(n + 1) * k, near.reshape(-1), weights.reshape(-1)


def _log_probabilities(points: Points, n_features: int, network: NetworkArrays, labels: I32, threads: int) -> F32:
    """Return the network's log probabilities of the candidate labels."""
    hidden, weight, bias, totals, starts, features, values, steps, wide_steps = network
    own, found = np.unique(labels, return_inverse=True)  # only rows of candidates become floats
    numbers = found.reshape(labels.shape).astype(np.int32)
    scores = np.zeros(labels.shape, np.float32)
    if starts is not None and features is not None and values is not None:
        lists = _lists_of(own, starts, features, values, wide_steps)
        wide_scores(*points, n_features, *lists, numbers, scores, threads)
    scores += bias[labels]
    if hidden.shape[1]:
        rows, deep = np.asarray(weight[own], np.float32), np.empty(labels.size, np.float32)
        if steps is not None:
            rows *= floats_of(steps[own])[:, None]
        pair_dot(np.arange(len(labels) + 1) * labels.shape[1], numbers.reshape(-1), hidden, rows, deep, threads)
        scores += deep.reshape(labels.shape)
    if totals is not None:
        return np.asarray(scores - totals[:, None])
    return np.asarray(np.maximum(-np.logaddexp(np.float32(0), -scores), np.log(_TINY)))


def _lists_of(own: I32, starts: I64, features: I32, values: F32 | I8, steps: U16 | None) -> tuple[I64, I32, F32]:
    """Return the sparse weights of some labels, as floats."""
    lengths = starts[own + 1] - starts[own]
    pointers = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
    at = np.arange(pointers[-1]) + np.repeat(starts[own] - pointers[:-1], lengths)
    found = np.asarray(values[at], np.float32)
    return pointers, features[at], found if steps is None else found * np.repeat(floats_of(steps[own]), lengths)
