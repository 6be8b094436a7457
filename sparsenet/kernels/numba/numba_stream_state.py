"""The state of a stream of events, and how an event changes it, in Numba; see `learn_stream`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sparsenet.kernels.numba.numba_common import jit
from sparsenet.kernels.types import F32, F64, I32, I64

# Columns of user_values.
EVENTS, LAST, GAP, NOVELTY, REPEATS, RUN, USER_EVENT = range(7)
# Columns of pair_counts.
COUNT, USER_EVENTS, ITEM_EVENTS, LAST_RUN, RECEIVED, WAS_RECEIVED = range(6)
# Columns of item_values: then the levels of popularity, one a half-life, and the level of new users.
ITEM_LAST, ITEM_EVENT, ITEM_USER, ITEM_REPEATS, ITEM_LEVELS = range(5)
HALF_LIVES = 4
# Places in rates.
AVERAGE_RATE, KEEP_COUNTS, LEAST_VARIANCE, LEARNING_RATE, NEGLIGIBLE = range(5)


class StreamState(NamedTuple):
    """The arrays of a state, as `learn_stream` describes them."""

    pair_items: I32
    pair_times: F64
    pair_counts: F32
    pair_features: F32
    user_values: F64
    item_counts: F64
    item_values: F64
    item_features: F32
    context_items: I32
    context_counts: F32
    context_keys: I64
    popular: I32
    half_lives: F64
    clock: F64
    rates: F64


@jit
def context_of(state: StreamState, last: int, before: int) -> int:
    """Return the row of the successors of two items."""
    z = (np.uint64(last) << np.uint64(32)) | np.uint64(before)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return len(state.item_counts) + int(z % np.uint64(len(state.context_keys)))


@jit
def key_of(last: int, before: int) -> np.int64:
    """Return two items as one number."""
    return (np.int64(last) << np.int64(32)) | np.int64(before)


@jit
def contexts(state: StreamState, user: int) -> tuple[int, int, int]:
    """Return the rows of the successors of the user's last item, the one before, and both; -1 where there is none."""
    last = state.pair_items[user, 0, 0] if user >= 0 else -1
    before = state.pair_items[user, 1, 0] if user >= 0 and state.pair_items.shape[1] > 1 else -1
    both = -1
    if before >= 0:
        row = context_of(state, last, before)
        if state.context_keys[row - len(state.item_counts)] == key_of(last, before):
            both = row
    return last, before, both


@jit
def _raise_level(state: StreamState, item: int, column: int, half_life: float) -> None:
    """Add 1 to a decayed count."""
    decayed = state.clock[0] / half_life
    level = state.item_values[item, ITEM_LEVELS + column]
    state.item_values[item, ITEM_LEVELS + column] = math.log2(2.0 ** (level - decayed) + 1) + decayed


@jit
def _count_successor(state: StreamState, row: int, item: int) -> None:
    """Add 1 to the decayed count of a successor, which replaces the lowest one if it is new."""
    at, low = -1, 0
    for s in range(state.context_items.shape[1]):
        state.context_counts[row, s] *= np.float32(state.rates[KEEP_COUNTS])
        if state.context_items[row, s] == item:
            at = s
        if state.context_counts[row, s] < state.context_counts[row, low]:
            low = s
    if at < 0:
        at = low
        state.context_items[row, at], state.context_counts[row, at] = item, 0
    state.context_counts[row, at] += 1


@jit
def _leave(state: StreamState, user: int, item: int) -> None:
    """Remember that the user went from the last item to another one."""
    last = state.pair_items[user, 0, 0]
    state.pair_items[user, 0, 1] = item
    state.pair_counts[user, 0, LAST_RUN] = state.user_values[user, RUN]
    state.user_values[user, RUN] = 0
    _count_successor(state, last, item)
    before = state.pair_items[user, 1, 0] if state.pair_items.shape[1] > 1 else -1
    if before >= 0:
        row = context_of(state, last, before)
        slot = row - len(state.item_counts)
        if state.context_keys[slot] != key_of(last, before):
            state.context_keys[slot] = key_of(last, before)
            state.context_items[row], state.context_counts[row] = -1, 0
        _count_successor(state, row, item)


@jit
def _bring_to_front(state: StreamState, user: int, item: int, features: F32) -> bool:
    """Move the item to the front of the user's history, with the features of an event; return whether it was there."""
    items, times, counts = state.pair_items[user], state.pair_times[user], state.pair_counts[user]
    of_events = state.pair_features[user]
    at, found = 0, False
    while at < len(items) - 1 and items[at, 0] >= 0 and items[at, 0] != item:
        at += 1
    found = items[at, 0] == item
    following = items[at, 1] if found else -1
    kept = counts[at].copy()
    for h in range(at, 0, -1):
        items[h], times[h], counts[h], of_events[h] = items[h - 1], times[h - 1], counts[h - 1], of_events[h - 1]
    items[0, 0], items[0, 1] = item, following
    counts[0] = kept if found else np.zeros_like(kept)
    of_events[0] = features
    return bool(found)


@jit
def remember(state: StreamState, user: int, item: int, time: float, features: F32) -> None:
    """Add an event to the state."""
    events, values = state.clock[0], state.user_values[user]
    last = state.pair_items[user, 0, 0]
    is_again = last == item
    if values[EVENTS] > 0:
        values[GAP] += state.rates[AVERAGE_RATE] * (time - values[LAST] - values[GAP])
        values[REPEATS] += state.rates[AVERAGE_RATE] * (is_again - values[REPEATS])
    else:
        values[GAP] = (time - state.clock[1]) / max(events, 1.0)
        values[NOVELTY] = values[REPEATS] = 0.5
    if last >= 0:
        repeats = state.item_values[last, ITEM_REPEATS]
        state.item_values[last, ITEM_REPEATS] = repeats + state.rates[AVERAGE_RATE] * (is_again - repeats)
        if not is_again:
            _leave(state, user, item)
    is_known = _bring_to_front(state, user, item, features)
    if values[EVENTS] > 0:
        values[NOVELTY] += state.rates[AVERAGE_RATE] * ((not is_known) - values[NOVELTY])
    if not is_known:
        _raise_level(state, item, HALF_LIVES, state.half_lives[1])
    state.item_counts[item] += 1
    pair = state.pair_counts[user, 0]
    state.pair_times[user, 0] = time
    pair[COUNT] += 1
    pair[WAS_RECEIVED] = 0
    pair[USER_EVENTS], pair[ITEM_EVENTS] = values[EVENTS], state.item_counts[item]
    values[EVENTS] += 1
    values[LAST] = time
    values[RUN] += 1
    values[USER_EVENT] = events
    of_item = state.item_values[item]
    of_item[ITEM_LAST], of_item[ITEM_EVENT], of_item[ITEM_USER] = time, events, user
    for h in range(HALF_LIVES):
        _raise_level(state, item, h, state.half_lives[h])
        _list_popular(state, item, h)
    state.clock[0], state.clock[2] = events + 1, time


@jit
def receive(state: StreamState, user: int, sender: int, time: float, features: F32) -> None:
    """Add the sender of an event to the history of the user who received it."""
    _bring_to_front(state, user, sender, features)
    pair = state.pair_counts[user, 0]
    state.pair_times[user, 0] = time
    pair[USER_EVENTS], pair[ITEM_EVENTS] = state.user_values[user, EVENTS], state.item_counts[sender]
    pair[RECEIVED] += 1
    pair[WAS_RECEIVED] = 1


@jit
def _list_popular(state: StreamState, item: int, half: int) -> None:
    """Put the item into the list of the most popular ones if it belongs there.

    Counts decay alike, so that only events change their order.
    """
    low, lowest = 0, np.inf
    for p in range(state.popular.shape[1]):
        other = state.popular[half, p]
        if other == item:
            return
        level = state.item_values[other, ITEM_LEVELS + half] if other >= 0 else -np.inf
        if level < lowest:
            low, lowest = p, level
    if state.popular.shape[1] and state.item_values[item, ITEM_LEVELS + half] > lowest:
        state.popular[half, low] = item
