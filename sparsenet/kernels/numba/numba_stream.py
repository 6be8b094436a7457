"""Rank the next item of a user in a stream of events, and learn from each event, in Numba."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.numba.numba_stream_features import (
    N_FEATURES,
    TABLE,
    StreamScratch,
    describe,
    gather,
    slot_of,
)
from sparsenet.kernels.numba.numba_stream_state import (
    HALF_LIVES,
    ITEM_LEVELS,
    LEARNING_RATE,
    LEAST_VARIANCE,
    NEGLIGIBLE,
    StreamState,
    receive,
    remember,
)
from sparsenet.kernels.types import F32, F64, I32, I64

_N_RATES = NEGLIGIBLE + 1


class StreamRanker(NamedTuple):
    """The weights of the ranker, and what learning keeps of gradients and features."""

    weights: F32
    squares: F32
    moments: F64


_STATE = {
    "pair_items": "out i32 U H two",
    "pair_times": "out f64 U H",
    "pair_counts": "out f32 U H six",
    "pair_features": "out f32 U H E",
    "user_values": "out f64 U seven",
    "item_counts": "out f64 N",
    "item_values": "out f64 N nine",
    "item_features": "out f32 N I",
    "context_items": "out i32 R S",
    "context_counts": "out f32 R S",
    "context_keys": "out i64 Q",
    "popular": "out i32 halves P",
    "half_lives": "f64 halves",
    "clock": "out f64 three",
    "rates": "f64 rates",
}


@checked(
    **_STATE,
    weights="out f32 rows u",
    squares="out f32 rows u",
    moments="out f64 F+1 two",
    users="i32 n",
    items="i32 n",
    times="f64 n",
    features="f32 n E",
    out_ranks="out i64 _",
)
def learn_stream(
    pair_items: I32,
    pair_times: F64,
    pair_counts: F32,
    pair_features: F32,
    user_values: F64,
    item_counts: F64,
    item_values: F64,
    item_features: F32,
    context_items: I32,
    context_counts: F32,
    context_keys: I64,
    popular: I32,
    half_lives: F64,
    clock: F64,
    rates: F64,
    weights: F32,
    squares: F32,
    moments: F64,
    users: I32,
    items: I32,
    times: F64,
    features: F32,
    mutual: bool,
    refresh: int,
    out_ranks: I64,
) -> None:
    """See `sparsenet/_core.pyi`."""
    state = StreamState(
        pair_items, pair_times, pair_counts, pair_features, user_values, item_counts, item_values, item_features,
        context_items, context_counts, context_keys, popular, half_lives, clock, rates,
    )  # fmt: skip
    _check(state, weights, moments)
    if mutual and len(user_values) != len(item_counts):
        raise ValueError("items and users must be the same if mutual")
    if len(out_ranks) not in (0, len(users)):
        raise ValueError(f"out_ranks has shape[0] = {len(out_ranks)}, expected {len(users)}")
    if refresh < 1:
        raise ValueError(f"refresh must be at least 1, got {refresh}")
    _learn(state, StreamRanker(weights, squares, moments), users, items, times, features, mutual, refresh, out_ranks)


@checked(
    **{name: spec.removeprefix("out ") for name, spec in _STATE.items()},
    weights="f32 rows u",
    moments="f64 F+1 two",
    users="i32 n",
    times="f64 n",
    out_items="out i32 n k",
    out_scores="out f32 n k",
)
def rank_stream(
    pair_items: I32,
    pair_times: F64,
    pair_counts: F32,
    pair_features: F32,
    user_values: F64,
    item_counts: F64,
    item_values: F64,
    item_features: F32,
    context_items: I32,
    context_counts: F32,
    context_keys: I64,
    popular: I32,
    half_lives: F64,
    clock: F64,
    rates: F64,
    weights: F32,
    moments: F64,
    users: I32,
    times: F64,
    out_items: I32,
    out_scores: F32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    state = StreamState(
        pair_items, pair_times, pair_counts, pair_features, user_values, item_counts, item_values, item_features,
        context_items, context_counts, context_keys, popular, half_lives, clock, rates,
    )  # fmt: skip
    _check(state, weights, moments)
    parallel_for(
        _rank, len(users), threads, state, StreamRanker(weights, weights, moments), users, times, out_items, out_scores,
        grain=16,
    )  # fmt: skip


def _check(state: StreamState, weights: F32, moments: F64) -> None:
    n_features = N_FEATURES + 2 * (state.pair_features.shape[2] + state.item_features.shape[1])
    for name, array, axis, expected in (
        ("pair_items", state.pair_items, 2, 2),
        ("pair_counts", state.pair_counts, 2, 6),
        ("user_values", state.user_values, 1, 7),
        ("item_values", state.item_values, 1, ITEM_LEVELS + HALF_LIVES + 1),
        ("context_items", state.context_items, 0, len(state.item_counts) + len(state.context_keys)),
        ("half_lives", state.half_lives, 0, HALF_LIVES),
        ("clock", state.clock, 0, 3),
        ("rates", state.rates, 0, _N_RATES),
        ("weights", weights, 0, n_features + 2),
        ("moments", moments, 0, n_features + 1),
    ):
        if array.shape[axis] != expected:
            raise ValueError(f"{name} has shape[{axis}] = {array.shape[axis]}, expected {expected}")
    history, successors, popular = state.pair_items.shape[1], state.context_items.shape[1], state.popular.size
    if history < 1 or successors < 1 or len(state.context_keys) < 1:
        raise ValueError("pair_items, context_items and context_keys must have room for an entry")
    if history + 3 * successors + popular > TABLE // 2:
        raise ValueError(f"pair_items, context_items and popular name more than {TABLE // 2} candidates")


@jit
def _scratch(state: StreamState, ranker: StreamRanker) -> StreamScratch:
    most = state.pair_items.shape[1] + 3 * state.context_items.shape[1] + state.popular.size
    n_features = len(ranker.moments) - 1
    found = StreamScratch(
        np.empty(most, np.int32),
        np.empty(TABLE, np.int32),
        np.empty((most, n_features), np.float32),
        np.empty((most, ranker.weights.shape[1]), np.float32),
        np.empty(most, np.float32),
        np.empty(n_features, np.float32),
        np.empty(n_features, np.float32),
    )
    _standardize(state, ranker, found)
    return found


# --- the ranker ---


@jit
def _standardize(state: StreamState, ranker: StreamRanker, scratch: StreamScratch) -> None:
    """Compute the mean and the inverse standard deviation of each feature."""
    n_features, least = len(scratch.shift), state.rates[LEAST_VARIANCE]
    n = ranker.moments[n_features, 0] + 1  # as if one candidate of variance 1 had been there
    for f in range(n_features):
        mean = ranker.moments[f, 0] / n
        scratch.shift[f] = mean
        scratch.scale[f] = 1 / math.sqrt(max((ranker.moments[f, 1] + 1) / n - mean * mean, least))


@jit
def _count_features(ranker: StreamRanker, scratch: StreamScratch, count: int) -> None:
    """Add the features of the candidates to the moments."""
    n_features = len(scratch.shift)
    ranker.moments[n_features, 0] += count
    for f in range(n_features):
        total, squares = 0.0, 0.0
        for c in range(count):
            x = float(scratch.features[c, f])
            total += x
            squares += x * x
        ranker.moments[f, 0] += total
        ranker.moments[f, 1] += squares


@jit
def _score(weights: F32, scratch: StreamScratch, count: int) -> None:
    """Compute the hidden units and the score of each candidate, from standardized features."""
    n_features, n_units = len(scratch.shift), weights.shape[1]
    for c in range(count):
        x, hidden = scratch.features[c], scratch.hidden[c]
        for u in range(n_units):
            hidden[u] = weights[n_features, u]
        for f in range(n_features):
            for u in range(n_units):
                hidden[u] += x[f] * weights[f, u]
        total = np.float32(0)
        for u in range(n_units):
            hidden[u] = max(hidden[u], np.float32(0))
            total += hidden[u] * weights[n_features + 1, u]
        scratch.scores[c] = total


@jit
def _scale_features(scratch: StreamScratch, count: int) -> None:
    for c in range(count):
        for f in range(len(scratch.shift)):
            scratch.features[c, f] = (scratch.features[c, f] - scratch.shift[f]) * scratch.scale[f]


@jit
def _to_shares(scratch: StreamScratch, count: int) -> None:
    """Turn scores into softmax probabilities."""
    highest = scratch.scores[0]
    for c in range(count):
        highest = max(highest, scratch.scores[c])
    total = np.float32(0)
    for c in range(count):
        scratch.scores[c] = math.exp(scratch.scores[c] - highest)
        total += scratch.scores[c]
    for c in range(count):
        scratch.scores[c] /= total


@jit
def _step(
    rates: F64, ranker: StreamRanker, scratch: StreamScratch, count: int, right: int, gradient: F32, slope: F32
) -> None:
    """Take a step of Adagrad on the cross-entropy of the right candidate."""
    weights, squares = ranker.weights, ranker.squares
    rate, negligible = np.float32(rates[LEARNING_RATE]), np.float32(rates[NEGLIGIBLE])
    n_features, n_units = len(scratch.shift), weights.shape[1]
    gradient[:] = 0
    _to_shares(scratch, count)
    for c in range(count):
        error = scratch.scores[c] - np.float32(c == right)
        if abs(error) < negligible:
            continue
        x, hidden = scratch.features[c], scratch.hidden[c]
        for u in range(n_units):
            gradient[n_features + 1, u] += error * hidden[u]
            slope[u] = error * weights[n_features + 1, u] if hidden[u] > 0 else np.float32(0)
            gradient[n_features, u] += slope[u]
        for f in range(n_features):
            for u in range(n_units):
                gradient[f, u] += x[f] * slope[u]
    for f in range(n_features + 2):
        for u in range(n_units):
            g = gradient[f, u]
            squares[f, u] += g * g
            weights[f, u] -= rate * g / math.sqrt(squares[f, u] + np.float32(1))


@jit
def _rank_of(scratch: StreamScratch, count: int, right: int) -> int:
    """Return the rank of a candidate, from 1; ties go to the earlier one."""
    score, rank = scratch.scores[right], 1
    for c in range(count):
        if scratch.scores[c] > score or (scratch.scores[c] == score and c < right):
            rank += 1
    return rank


@jit
def _rank_behind(state: StreamState, item: int, scratch: StreamScratch, count: int) -> int:
    """Return the rank of an item that is no candidate: behind these, by the number of events, then by number."""
    mine, rank = state.item_counts[item], count + 1
    for other in range(len(state.item_counts)):
        if state.item_counts[other] > mine or (state.item_counts[other] == mine and other < item):
            rank += 1
    for c in range(count):
        other = scratch.candidates[c]
        if state.item_counts[other] > mine or (state.item_counts[other] == mine and other < item):
            rank -= 1
    return rank


@jit
def _learn(
    state: StreamState,
    ranker: StreamRanker,
    users: I32,
    items: I32,
    times: F64,
    features: F32,
    mutual: bool,
    refresh: int,
    out_ranks: I64,
) -> None:
    scratch = _scratch(state, ranker)
    gradient, slope = np.empty_like(ranker.weights), np.empty(ranker.weights.shape[1], np.float32)
    frozen = ranker.weights.copy()
    if len(users) and state.clock[0] == 0:
        state.clock[1] = times[0]
    for first in range(0, len(users), refresh):
        end = min(first + refresh, len(users))
        if refresh > 1:
            frozen[:] = ranker.weights
        for e in range(first, end):
            count, own = gather(state, users[e], scratch)
            right = scratch.table[slot_of(scratch, items[e])]
            if right < 0:
                if len(out_ranks):
                    out_ranks[e] = _rank_behind(state, items[e], scratch, count)
                continue
            describe(state, users[e], times[e], scratch, count, own)
            _count_features(ranker, scratch, count)
            _standardize(state, ranker, scratch)
            _scale_features(scratch, count)
            if refresh > 1 and len(out_ranks):
                _score(frozen, scratch, count)
                out_ranks[e] = _rank_of(scratch, count, right)
            _score(ranker.weights, scratch, count)
            if refresh == 1 and len(out_ranks):
                out_ranks[e] = _rank_of(scratch, count, right)
            _step(state.rates, ranker, scratch, count, right, gradient, slope)
        for e in range(first, end):
            remember(state, users[e], items[e], times[e], features[e])
            if mutual and users[e] != items[e]:
                receive(state, items[e], users[e], times[e], features[e])


@jit
def _rank(
    first: int,
    last: int,
    state: StreamState,
    ranker: StreamRanker,
    users: I32,
    times: F64,
    out_items: I32,
    out_scores: F32,
) -> None:
    scratch = _scratch(state, ranker)
    for i in range(first, last):
        count, own = gather(state, users[i], scratch)
        describe(state, users[i], times[i], scratch, count, own)
        _scale_features(scratch, count)
        _score(ranker.weights, scratch, count)
        out_items[i], out_scores[i] = -1, 0
        if count:
            _to_shares(scratch, count)
        for c in range(count):
            place = _rank_of(scratch, count, c) - 1
            if place < out_items.shape[1]:
                out_items[i, place], out_scores[i, place] = scratch.candidates[c], scratch.scores[c]
