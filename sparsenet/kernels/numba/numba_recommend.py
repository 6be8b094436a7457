"""Recommend items from histories of users, in Numba."""

from __future__ import annotations

import numpy as np

from sparsenet.kernels.numba.numba_common import checked, jit, parallel_for
from sparsenet.kernels.numba.numba_heap import make_heap, replace_worst, sort_heap
from sparsenet.kernels.types import F32, I8, I16, I32, I64

_N_SCORES, _N_SUMS = 9, 5
_SPECTRAL, _POPULARITY, _RECENCY, _SHARE = 2, 6, 7, 8


@checked(
    indptr="ptr n+1 nnz",
    items="i32 >=nnz",
    amounts="f32 >=nnz",
    list_indptr="ptr N+1 m",
    list_items="i32 >=m",
    list_values="i16 >=m s",
    list_units="f32 N s",
    vectors="i8 N d",
    inward="f32 N",
    outward="f32 N",
    factors="f32 N",
    trend="f32 N",
    fallback="i32 _",
    weights="f32 _",
    mixing="f32 _",
    out_items="out i32 n k",
    out_scores="out f32 n k",
    out_parts="out f32 _ k _",
)
def recommend_items(
    indptr: I64,
    items: I32,
    amounts: F32,
    list_indptr: I64,
    list_items: I32,
    list_values: I16,
    list_units: F32,
    vectors: I8,
    inward: F32,
    outward: F32,
    factors: F32,
    trend: F32,
    fallback: I32,
    weights: F32,
    mixing: F32,
    fading: float,
    n_candidates: int,
    exclude_seen: bool,
    out_items: I32,
    out_scores: F32,
    out_parts: F32,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    _check(len(out_items), list_units, weights, mixing, n_candidates, out_parts)
    events, lists = (indptr, items, amounts), (list_indptr, list_items, list_values, list_units)
    of_items, how = (vectors, inward, outward, factors, trend, fallback), (weights, mixing, np.float32(fading))
    outputs = out_items, out_scores, out_parts
    parallel_for(
        _recommend, len(out_items), threads, *events, *lists, *of_items, *how, n_candidates, exclude_seen, *outputs
    )


def _check(n: int, list_units: F32, weights: F32, mixing: F32, n_candidates: int, out_parts: F32) -> None:
    if list_units.shape[1] not in (2, 3):
        raise ValueError(f"list_units has shape[1] = {list_units.shape[1]}, expected 2 or 3")
    for name, array, size in (("weights", weights, _N_SCORES), ("mixing", mixing, _N_SUMS)):
        if len(array) != size:
            raise ValueError(f"{name} has shape[0] = {len(array)}, expected {size}")
    if len(out_parts) not in (0, n) or out_parts.shape[2] != _N_SCORES:
        raise ValueError(f"out_parts has shape {out_parts.shape}, expected 0 or {n} users and {_N_SCORES} scores")
    if n_candidates < 1:
        raise ValueError(f"n_candidates must be at least 1, got {n_candidates}")


@jit
def _recommend(
    first: int,
    last: int,
    indptr: I64,
    items: I32,
    amounts: F32,
    list_indptr: I64,
    list_items: I32,
    list_values: I16,
    list_units: F32,
    vectors: I8,
    inward: F32,
    outward: F32,
    factors: F32,
    trend: F32,
    fallback: I32,
    weights: F32,
    mixing: F32,
    fading: float,
    n_candidates: int,
    exclude_seen: bool,
    out_items: I32,
    out_scores: F32,
    out_parts: F32,
) -> None:
    n_items = trend.size
    slots, ids = np.full(n_items, -1, np.int32), np.empty(n_items, np.int32)
    sums, events, amount_of = (
        np.zeros((n_items, _N_SUMS), np.float32),
        np.zeros(n_items, np.int32),
        np.empty(n_items, np.float32),
    )
    for user in range(first, last):
        begin, end = indptr[user], indptr[user + 1]
        n_seen = _add_history(items[begin:end], amounts[begin:end], slots, ids, events, amount_of)
        count = _follow_lists(
            n_seen, amount_of, fading, list_indptr, list_items, list_values, list_units, slots, ids, sums
        )
        chosen = np.empty(min(n_candidates + n_seen, n_items), np.int32)
        n = _propose(n_seen, count, ids, sums, mixing, factors, chosen[: min(n_candidates, n_items)])
        n, count = _fill_up(n_seen, count, n_candidates, n, fallback, slots, ids, chosen)
        if not exclude_seen:
            for s in range(n_seen):
                if factors[ids[s]] > 0:
                    chosen[n] = ids[s]
                    n += 1
        history = np.zeros(vectors.shape[1], np.float32)
        for s in range(n_seen):
            value = amount_of[s] * inward[ids[s]]
            for c in range(history.size):
                history[c] += value * np.float32(vectors[ids[s], c])
        parts = np.zeros((n, _N_SCORES), np.float32)
        recency, reached = np.float32(1), 0  # of a slot: the history comes last, by ascending slots
        for c in range(n):
            _score(c, chosen[c], n_seen, end - begin, slots, sums, events, history, vectors, outward, factors, parts)
            parts[c, _POPULARITY] = trend[chosen[c]]
            slot = slots[chosen[c]]
            if slot < n_seen:
                for _ in range(reached, slot):
                    recency *= fading
                parts[c, _RECENCY], reached = recency, slot
        _normalise(parts)
        _write_best(user, chosen[:n], parts, weights, out_items, out_scores, out_parts)
        for s in range(count):
            slots[ids[s]] = -1
            sums[s] = 0


@jit
def _add_history(items: I32, amounts: F32, slots: I32, ids: I32, events: I32, amount_of: F32) -> int:
    """Give each distinct item a slot, from the latest event back; return their number."""
    count = 0
    for e in range(items.size - 1, -1, -1):
        item = items[e]
        if slots[item] < 0:
            slots[item], ids[count], amount_of[count], events[count] = count, item, amounts[e], 0
            count += 1
        events[slots[item]] += 1
    return count


@jit
def _follow_lists(
    n_seen: int,
    amount_of: F32,
    fading: float,
    list_indptr: I64,
    list_items: I32,
    list_values: I16,
    list_units: F32,
    slots: I32,
    ids: I32,
    sums: F32,
) -> int:
    """Add up the lists of all items of a history; return the number of slots."""
    count, is_timed, recency = n_seen, list_units.shape[1] == 3, np.float32(1)
    for s in range(n_seen):
        units, amount, recent = list_units[ids[s]], amount_of[s], amount_of[s] * recency
        for j in range(list_indptr[ids[s]], list_indptr[ids[s] + 1]):
            item = list_items[j]
            slot = slots[item]
            if slot < 0:
                slot = count
                slots[item], ids[count] = slot, item
                count += 1
            walk, regression = np.float32(list_values[j, 0]), np.float32(list_values[j, 1])
            sums[slot, 0] += units[0] * amount * walk
            sums[slot, 1] += units[1] * amount * regression
            if is_timed:
                sums[slot, 2] += units[0] * recent * walk
                sums[slot, 3] += units[1] * recent * regression
                sums[slot, 4] += units[2] * recent * np.float32(list_values[j, 2])
        recency *= fading
    return count


@jit
def _propose(n_seen: int, count: int, ids: I32, sums: F32, mixing: F32, factors: F32, chosen: I32) -> int:
    """Write the unseen items with the best positive sums; return their number."""
    best, n = np.empty(chosen.size, np.float32), 0
    for s in range(n_seen, count):
        total = np.float32(0)
        for i in range(_N_SUMS):
            total += mixing[i] * sums[s, i]
        total *= factors[ids[s]]
        if not total > 0:
            continue
        if n < chosen.size:
            chosen[n], best[n] = ids[s], total
            n += 1
            if n == chosen.size:
                make_heap(chosen, best)
        elif total > best[0] or (total == best[0] and ids[s] < chosen[0]):
            replace_worst(chosen, best, ids[s], total)
    return n


@jit
def _fill_up(
    n_seen: int, count: int, n_candidates: int, n: int, fallback: I32, slots: I32, ids: I32, chosen: I32
) -> tuple[int, int]:
    """Add fallback items until there are enough candidates; return the numbers of candidates and of slots."""
    n_proposed, proposed = n, np.sort(chosen[:n])
    for item in fallback:
        if n >= n_candidates:
            break
        at = np.searchsorted(proposed, item)
        if (at < n_proposed and proposed[at] == item) or 0 <= slots[item] < n_seen:
            continue
        if slots[item] < 0:
            slots[item], ids[count] = count, item
            count += 1
        chosen[n] = item
        n += 1
    return n, count


@jit
def _score(
    c: int,
    item: int,
    n_seen: int,
    n_events: int,
    slots: I32,
    sums: F32,
    events: I32,
    history: F32,
    vectors: I8,
    outward: F32,
    factors: F32,
    parts: F32,
) -> None:
    """Write the scores of a candidate by lists and vectors, and its share of the events."""
    slot = slots[item]
    for i in range(_N_SUMS):
        parts[c, i if i < _SPECTRAL else i + 1] = max(sums[slot, i] * factors[item], np.float32(0))
    product = np.float32(0)
    for i in range(history.size):
        product += history[i] * np.float32(vectors[item, i])
    parts[c, _SPECTRAL] = max(product * outward[item] * factors[item], np.float32(0))
    if slot < n_seen:
        parts[c, _SHARE] = np.float32(events[slot]) / np.float32(n_events)


@jit
def _normalise(parts: F32) -> None:
    """Divide the scores of lists and vectors by their largest value."""
    for p in range(_POPULARITY):
        largest = np.float32(1e-30)
        for c in range(len(parts)):
            largest = max(largest, parts[c, p])
        for c in range(len(parts)):
            parts[c, p] /= largest


@jit
def _write_best(
    user: int, chosen: I32, parts: F32, weights: F32, out_items: I32, out_scores: F32, out_parts: F32
) -> None:
    """Write the best candidates of a user."""
    totals = np.zeros(chosen.size, np.float32)
    for c in range(chosen.size):
        for p in range(_N_SCORES):
            totals[c] += weights[p] * parts[c, p]
        if np.isnan(totals[c]):
            totals[c] = -np.inf
    by_item = np.argsort(chosen)
    ranked, best = chosen.copy(), totals.copy()
    make_heap(ranked, best)
    sort_heap(ranked, best)
    for r in range(out_items.shape[1]):
        is_there = r < chosen.size
        out_items[user, r], out_scores[user, r] = (ranked[r], best[r]) if is_there else (-1, -np.inf)
        if len(out_parts) and is_there:
            out_parts[user, r] = parts[by_item[np.searchsorted(chosen[by_item], ranked[r])]]
        elif len(out_parts):
            out_parts[user, r] = 0
