"""Candidates for the next item of a user, and their features, in Numba; see `learn_stream`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparsenet.kernels.numba.numba_common import jit
from sparsenet.kernels.numba.numba_stream_state import (
    COUNT,
    EVENTS,
    GAP,
    HALF_LIVES,
    ITEM_EVENT,
    ITEM_EVENTS,
    ITEM_LAST,
    ITEM_LEVELS,
    ITEM_REPEATS,
    ITEM_USER,
    LAST,
    LAST_RUN,
    NOVELTY,
    RECEIVED,
    REPEATS,
    RUN,
    USER_EVENTS,
    WAS_RECEIVED,
    StreamState,
    contexts,
)
from sparsenet.kernels.types import F32, I32

# Columns of the features of a candidate: logarithms first, then flags and levels, then features of the user.
LOGS, PLAIN, OF_USER = 15, 10, 12
OWN, LEVELS, NEXT, USER = LOGS, LOGS + 3, LOGS + 8, LOGS + PLAIN
N_FEATURES = LOGS + PLAIN + OF_USER
TABLE = 256  # slots of the hash table of a query's candidates


class StreamScratch(NamedTuple):
    """Room for the candidates of one query, their features, hidden units and scores."""

    candidates: I32
    table: I32
    features: F32
    hidden: F32
    scores: F32
    shift: F32
    scale: F32


@jit
def slot_of(scratch: StreamScratch, item: int) -> int:
    """Return the slot that holds the item, or the free one where it belongs."""
    slot = (np.int64(item) * 2654435769 >> 24) & (TABLE - 1)
    while scratch.table[slot] >= 0 and scratch.candidates[scratch.table[slot]] != item:
        slot = (slot + 1) & (TABLE - 1)
    return int(slot)


@jit
def _add(scratch: StreamScratch, count: int, item: int) -> int:
    """Add a candidate unless it is there, and return the number of candidates."""
    slot = slot_of(scratch, item)
    if scratch.table[slot] >= 0:
        return count
    scratch.table[slot] = count
    scratch.candidates[count] = item
    return count + 1


@jit
def gather(state: StreamState, user: int, scratch: StreamScratch) -> tuple[int, int]:
    """Collect the candidates; return their number, and how many of them the user's history has, which come first."""
    scratch.table[:] = -1
    count = 0
    if user >= 0:
        for h in range(state.pair_items.shape[1]):
            if state.pair_items[user, h, 0] < 0:
                break
            count = _add(scratch, count, state.pair_items[user, h, 0])
    own = count
    for row in contexts(state, user):
        if row >= 0:
            for s in range(state.context_items.shape[1]):
                if state.context_items[row, s] >= 0:
                    count = _add(scratch, count, state.context_items[row, s])
    for half in range(state.popular.shape[0]):
        for p in range(state.popular.shape[1]):
            if state.popular[half, p] >= 0:
                count = _add(scratch, count, state.popular[half, p])
    return count, own


@jit
def _level(state: StreamState, level: float, half_life: float) -> float:
    """Return the logarithm of a decayed count; those below 1 are not told apart."""
    return float(max(0.0, level - state.clock[0] / half_life))


@jit
def _mark_successors(state: StreamState, row: int, scratch: StreamScratch, column: int) -> float:
    """Write the counts of the successors, and return their sum."""
    total = np.float32(0)
    for s in range(state.context_items.shape[1]):
        total += state.context_counts[row, s]
    for s in range(state.context_items.shape[1]):
        if state.context_items[row, s] >= 0:
            candidate = scratch.table[slot_of(scratch, state.context_items[row, s])]
            scratch.features[candidate, column] = state.context_counts[row, s]
            if column == 9:
                scratch.features[candidate, column + 1] = state.context_counts[row, s] / (total + np.float32(1))
    return float(total)


@jit
def _add_given_features(state: StreamState, user: int, scratch: StreamScratch, count: int, own: int) -> None:
    """Write the features of items and events behind the others.

    First the candidate's, alone and times the mean of the history. Then the features of two events: the user's latest
    one with the candidate, and the latest one of all.
    """
    n_item, n_event = state.item_features.shape[1], state.pair_features.shape[2]
    taste = np.zeros(n_item, np.float32)
    for c in range(own):
        taste += state.item_features[scratch.candidates[c]]
    taste /= np.float32(max(own, 1))
    for c in range(count):
        x, of_item = scratch.features[c, N_FEATURES:], state.item_features[scratch.candidates[c]]
        x[:n_item], x[n_item : 2 * n_item] = of_item, of_item * taste
        of_events = x[2 * n_item :]
        if c < own:
            of_events[:n_event] = state.pair_features[user, c]
        if own:
            of_events[n_event:] = state.pair_features[user, 0]


@jit
def describe(state: StreamState, user: int, time: float, scratch: StreamScratch, count: int, own: int) -> None:
    """Write the features of all candidates."""
    events = state.clock[0]
    unit = max((time - state.clock[1]) / max(events, 1.0), 1e-300)
    seen = state.user_values[user, EVENTS] if user >= 0 else 0.0
    gap = state.user_values[user, GAP] if seen > 0 else 0.0
    following = state.pair_items[user, 0, 1] if own else -1
    scratch.features[:count] = 0
    for c in range(count):
        item, x = scratch.candidates[c], scratch.features[c]
        if c < own:
            elapsed = max(time - state.pair_times[user, c], 0.0)
            pair = state.pair_counts[user, c]
            x[0], x[1], x[2] = c, elapsed / unit, pair[COUNT]
            x[3] = max(seen - 1 - pair[USER_EVENTS], 0.0)
            x[4] = max(state.item_counts[item] - pair[ITEM_EVENTS], 0.0)
            x[5], x[13], x[14] = pair[LAST_RUN], elapsed / (gap + unit), pair[RECEIVED]
            x[NEXT + 1] = pair[WAS_RECEIVED]
            x[OWN], x[OWN + 1] = 1, c == 0
            x[OWN + 2] = state.item_values[item, ITEM_USER] == user
        x[6] = state.item_counts[item]
        x[7] = events - state.item_values[item, ITEM_EVENT]
        x[8] = max(time - state.item_values[item, ITEM_LAST], 0.0) / unit
        for h in range(HALF_LIVES):
            x[LEVELS + h] = _level(state, state.item_values[item, ITEM_LEVELS + h], state.half_lives[h])
        arrivals = state.item_values[item, ITEM_LEVELS + HALF_LIVES]
        x[LEVELS + HALF_LIVES] = _level(state, arrivals, state.half_lives[1])
        x[NEXT] = item == following
    total = 0.0
    last, before, both = contexts(state, user)
    if last >= 0:
        total = _mark_successors(state, last, scratch, 9)
    if before >= 0:
        _mark_successors(state, before, scratch, 11)
    if both >= 0:
        _mark_successors(state, both, scratch, 12)
    for c in range(count):
        for f in range(LOGS):
            scratch.features[c, f] = math.log2(np.float32(1) + scratch.features[c, f])
    if scratch.features.shape[1] > N_FEATURES:
        _add_given_features(state, user, scratch, count, own)
    of_user = scratch.features[:count, USER:N_FEATURES]
    of_user[:, 2] = math.log2(1.0 + own)
    if own:
        of_user[:, 11] = state.pair_counts[user, 0, WAS_RECEIVED]
    if seen == 0:
        of_user[:, 10] = 1
        return
    elapsed = max(time - state.user_values[user, LAST], 0.0)
    of_user[:, 0] = math.log2(1.0 + seen)
    of_user[:, 1] = math.log2(1.0 + elapsed / unit)
    of_user[:, 3] = math.log2(1.0 + gap / unit)
    of_user[:, 4] = math.log2(1.0 + state.user_values[user, RUN])
    of_user[:, 5] = math.log2(1.0 + total)
    of_user[:, 6] = math.log2(1.0 + elapsed / (gap + unit))
    of_user[:, 7] = state.user_values[user, NOVELTY]
    of_user[:, 8] = state.user_values[user, REPEATS]
    of_user[:, 9] = state.item_values[last, ITEM_REPEATS] if last >= 0 else 0.5
