"""A slow, plain float64 oracle of every engine kernel in `sparsenet/_core.pyi`.

Each function takes the inputs of the kernel of its name and returns what the kernel writes, by argument name.
Arrays that a kernel updates are inputs here as well; nothing is changed in place.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Outputs = dict[str, Array]


def double(x: Array) -> Array:
    return np.asarray(x, dtype=np.float64)


def to_bfloat16(x: Array) -> Array:
    """Round to 8 significant bits, ties to even, as bfloat16 does; its range is that of float32."""
    mantissa, exponent = np.frexp(double(x))
    return np.ldexp(np.round(mantissa * 256) / 256, exponent)


def ranges(indptr: Array) -> list[slice]:
    return [slice(int(first), int(last)) for first, last in pairwise(indptr)]


def dense_batch(indptr: Array, indices: Array, data: Array, width: int) -> Array:
    out = np.zeros((len(indptr) - 1, width))
    for i, entries in enumerate(ranges(indptr)):
        np.add.at(out[i], indices[entries], double(data[entries]))
    return out


def csr_matmul(indptr: Array, indices: Array, data: Array, dense: Array) -> Outputs:
    return {"out": dense_batch(indptr, indices, data, len(dense)) @ double(dense)}


def csr_matmul_narrow(indptr: Array, indices: Array, data: Array, codes: Array, steps: Array) -> Outputs:
    dense = codes * (steps.astype(np.uint32) << 16).view(np.float32)[:, None]
    return csr_matmul(indptr, indices, data, dense)


def take_rows(indptr: Array, indices: Array, data: Array, rows: Array) -> Outputs:
    entries = [np.arange(indptr[row], indptr[row + 1]) for row in rows]
    source = np.concatenate([np.empty(0, np.int64), *entries]).astype(np.int64)
    return {"out_indices": indices[source], "out_data": data[source]}


def spread_postings(starts: Array, rows: Array, values: Array, dense_of: Array, dense: Array) -> Outputs:
    out = np.zeros_like(dense)
    for slot in np.flatnonzero(dense_of >= 0):
        held = slice(starts[slot], starts[slot + 1])
        out[dense_of[slot], rows[held]] = values[held]
    return {"dense": out}


def transpose_batch(indptr: Array, indices: Array, data: Array, before: Array, slots: Array) -> Outputs:
    features = list(dict.fromkeys(indices[: indptr[-1]].tolist()))  # in order of first appearance
    row_of = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    holders = [np.flatnonzero(indices[: indptr[-1]] == f) for f in features]
    order = np.concatenate([np.empty(0, np.int64), *holders]).astype(np.int64)
    out_slots = slots.copy()
    out_slots[before] = -1
    out_slots[features] = np.arange(len(features))
    return {
        "slots": out_slots,
        "features": np.array(features, np.int32),
        "starts": np.cumsum([0, *map(len, holders)]),
        "rows": row_of[order],
        "values": data[order],
        "returned": np.array(len(features)),
    }


def matmul(
    a: Array,
    b: Array,
    a_rows: Array | None,
    b_rows: Array | None,
    start: Array | None,
    transpose_a: bool,
    transpose_b: bool,
    bf16: bool,
) -> Outputs:
    kept = to_bfloat16 if bf16 else double
    left, right = (kept(x if rows is None else x[rows]) for x, rows in ((a, a_rows), (b, b_rows)))
    product = (left.T if transpose_a else left) @ (right.T if transpose_b else right)
    return {"out": product if start is None else double(start)[:, None] + product}


def pair_dot(indptr: Array, ids: Array, hidden: Array, weight: Array) -> Outputs:
    row_of = np.repeat(np.arange(len(hidden)), np.diff(indptr))
    return {"out": np.sum(double(hidden)[row_of] * double(weight)[ids], axis=1)}


def label_centroids(
    label_indptr: Array,
    label_points: Array,
    indptr: Array,
    indices: Array,
    data: Array,
    n_features: int,
    budget: Array,
) -> Outputs:
    points, present = (dense_batch(indptr, indices, data, n_features), np.zeros((len(indptr) - 1, n_features), bool))
    for i, entries in enumerate(ranges(indptr)):
        present[i, indices[entries]] = True
    features, values, ends = [np.empty(0, np.int32)], [np.empty(0)], []
    for label, members in enumerate(ranges(label_indptr)):
        mine = label_points[members]
        total, support = points[mine].sum(axis=0), np.flatnonzero(present[mine].any(axis=0))
        largest = support[np.lexsort((support, -np.abs(total[support])))]
        kept = np.sort(largest[: budget[label]])
        features.append(kept)
        values.append(total[kept])
        ends.append(len(kept))
    return {"out_indices": np.concatenate(features), "out_data": np.concatenate(values), "out_ends": np.cumsum(ends)}


def wide_touch(active: Array, indptr: Array, indices: Array, slots: Array) -> Outputs:
    touched = [[j for j in range(indptr[label], indptr[label + 1]) if slots[indices[j]] >= 0] for label in active]
    positions = np.array([j for label in touched for j in label], np.int64)
    return {
        "touched_indptr": np.cumsum([0, *map(len, touched)]),
        "touched": positions,
        "touched_slots": slots[indices[positions]],
        "returned": np.array(len(positions)),
    }


def dense_postings(starts: Array, rows: Array, values: Array, n: int) -> Array:
    """Return the batch (n, p) with a column for each slot."""
    out = np.zeros((n, len(starts) - 1))
    for slot, posting in enumerate(ranges(starts)):
        np.add.at(out[:, slot], rows[posting], double(values[posting]))
    return out


def wide_forward(
    touched_indptr: Array,
    touched: Array,
    touched_slots: Array,
    weights: Array,
    starts: Array,
    rows: Array,
    values: Array,
    dense_of: Array,
    dense: Array,
    out: Array,
) -> Outputs:
    points = dense_postings(starts, rows, values, out.shape[1])
    scores = double(out)
    for label, entries in enumerate(ranges(touched_indptr)):
        scores[label] += points[:, touched_slots[entries]] @ double(weights[touched[entries]])
    return {"out": scores}


def wide_gradient(
    touched_indptr: Array,
    touched: Array,
    touched_slots: Array,
    starts: Array,
    rows: Array,
    values: Array,
    dense_of: Array,
    dense: Array,
    grad: Array,
) -> Outputs:
    points = dense_postings(starts, rows, values, grad.shape[1])
    out = np.zeros(touched_indptr[-1])
    for label, entries in enumerate(ranges(touched_indptr)):
        out[entries] = double(grad[label]) @ points[:, touched_slots[entries]]
    return {"out": out}


def bce_loss(logits: Array, targets: Array, weights: Array) -> Array:
    """Return the weighted cross-entropy of each entry."""
    return weights * (np.logaddexp(0.0, logits) - targets * logits)


def bce_targets(
    shape: tuple[int, ...],
    positive_indptr: Array,
    positive_points: Array,
    positive_weights: Array,
    negative_weights: Array,
    smoothing: float,
) -> tuple[Array, Array]:
    """Return the target and the weight of each entry."""
    targets, weights = np.full(shape, smoothing), np.tile(double(negative_weights)[:, None], shape[1])
    for label, entries in enumerate(ranges(positive_indptr)):
        targets[label, positive_points[entries]] = 1.0 - smoothing
        weights[label, positive_points[entries]] = positive_weights[entries]
    return targets, weights


def bce_gradient(
    logits: Array,
    positive_indptr: Array,
    positive_points: Array,
    positive_weights: Array,
    negative_weights: Array,
    smoothing: float,
    scale: float,
) -> Outputs:
    z = double(logits)
    positives = (positive_indptr, positive_points, positive_weights)
    targets, weights = bce_targets(z.shape, *positives, negative_weights, smoothing)
    probability = np.exp(-np.logaddexp(0.0, -z))
    return {
        "logits": scale * weights * (probability - targets),
        "losses": scale * bce_loss(z, targets, weights).sum(axis=1),
    }


def softmax_targets(
    shape: tuple[int, ...], positive_indptr: Array, positive_points: Array, positive_weights: Array, smoothing: float
) -> Array:
    """Return the target distribution of each point, a column; all zero for a point without a label."""
    targets = np.zeros(shape)
    for label, entries in enumerate(ranges(positive_indptr)):
        targets[label, positive_points[entries]] = (1.0 - smoothing) * double(positive_weights[entries])
    return np.where(targets.any(axis=0), targets + smoothing / max(1, shape[0]), 0.0)


def softmax_loss(logits: Array, targets: Array, log_expected: Array) -> Array:
    """Return the cross-entropy of each point."""
    if len(logits) == 0:
        return np.zeros(logits.shape[1])
    z = logits - double(log_expected)[:, None]
    return np.sum(targets * (np.logaddexp.reduce(z, axis=0) - z), axis=0)


def softmax_gradient(
    logits: Array,
    positive_indptr: Array,
    positive_points: Array,
    positive_weights: Array,
    log_expected: Array,
    smoothing: float,
    scale: float,
) -> Outputs:
    z = double(logits) - double(log_expected)[:, None]
    targets = softmax_targets(z.shape, positive_indptr, positive_points, positive_weights, smoothing)
    probability = np.exp(z - np.logaddexp.reduce(z, axis=0)) if len(z) else z
    return {
        "logits": scale * np.where(targets.any(axis=0), probability - targets, 0.0),
        "losses": scale * softmax_loss(double(logits), targets, log_expected),
    }


def sgd_rows(value: Array, rows: Array, grads: Array, rate: float, decay: float) -> Outputs:
    out = double(value)
    out[rows] -= rate * (double(grads) + decay * out[rows])
    return {"value": out}


def adagrad_rows(
    value: Array, squares: Array, rows: Array, grads: Array, rate: float, epsilon: float, decay: float
) -> Outputs:
    out, sums = double(value), double(squares)
    g = double(grads) + decay * out[rows]
    sums[rows] += g * g
    out[rows] -= rate * g / (np.sqrt(sums[rows]) + epsilon)
    return {"value": out, "squares": sums}


def adam_product(indptr: Array, indices: Array, data: Array, dense: Array, **step: Any) -> Outputs:
    return adam_rows(grads=csr_matmul(indptr, indices, data, dense)["out"], **step)


def adam_rows(
    value: Array,
    first: Array,
    second: Array,
    last_step: Array,
    rows: Array,
    grads: Array,
    step: int,
    rate: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
) -> Outputs:
    out, m, v, last = double(value), double(first), double(second), last_step.copy()
    for r, g in zip(rows, double(grads), strict=True):
        for _ in range(last[r] + 1, step):  # the steps that skipped this row
            m[r] *= beta1
            v[r] *= beta2
        m[r] = beta1 * m[r] + (1 - beta1) * g
        v[r] = beta2 * v[r] + (1 - beta2) * g * g
        corrected = np.sqrt(v[r] / (1 - beta2**step)) + epsilon
        out[r] -= rate * decay * out[r]
        out[r] -= rate * m[r] / (1 - beta1**step) / corrected
        last[r] = step
    return {"value": out, "first": m, "second": v, "last_step": last}


def all_scores(
    hidden: Array,
    weight: Array,
    bias: Array,
    indptr: Array,
    indices: Array,
    data: Array,
    wide_indptr: Array,
    wide_labels: Array,
    wide_weights: Array,
) -> Array:
    points = dense_batch(indptr, indices, data, len(wide_indptr) - 1)
    wide = dense_batch(wide_indptr, wide_labels, wide_weights, len(bias))
    return double(hidden) @ double(weight).T + double(bias) + points @ wide


def predict_topk(
    hidden: Array,
    weight: Array,
    bias: Array,
    indptr: Array,
    indices: Array,
    data: Array,
    wide_indptr: Array,
    wide_labels: Array,
    wide_weights: Array,
    out_labels: Array,
) -> Outputs:
    scores = all_scores(hidden, weight, bias, indptr, indices, data, wide_indptr, wide_labels, wide_weights)
    scores = np.where(np.isnan(scores), -np.inf, scores)
    labels = np.argsort(-scores, axis=1, kind="stable")[:, : out_labels.shape[1]]
    return {"out_labels": labels, "out_scores": np.take_along_axis(scores, labels, axis=1)}


def shortlist(
    indptr: Array,
    indices: Array,
    data: Array,
    index_indptr: Array,
    index_labels: Array,
    index_weights: Array,
    bias: Array,
    fallback: Array,
    out_labels: Array,
) -> Outputs:
    n, c = out_labels.shape
    hidden, weight = np.zeros((n, 0)), np.zeros((len(bias), 0))
    scores = all_scores(hidden, weight, bias, indptr, indices, data, index_indptr, index_labels, index_weights)
    labels = np.empty((n, c), np.int64)
    for i in range(n):
        features = indices[indptr[i] : indptr[i + 1]]
        named = [index_labels[index_indptr[f] : index_indptr[f + 1]] for f in features]
        candidates = np.unique(np.concatenate([fallback[:c], *named]))
        best = candidates[np.argsort(-scores[i, candidates], kind="stable")[:c]]
        labels[i] = np.sort(best)
    return {"out_labels": labels, "out_scores": np.take_along_axis(scores, labels, axis=1)}


def wide_scores(
    indptr: Array,
    indices: Array,
    data: Array,
    n_features: int,
    wide_indptr: Array,
    wide_features: Array,
    wide_weights: Array,
    labels: Array,
) -> Outputs:
    points = dense_rows(indptr, indices, data, n_features)
    weights = dense_rows(wide_indptr, wide_features, wide_weights, n_features)
    return {"out": np.einsum("ncd,nd->nc", weights[labels], points)}


def search_cells(
    queries: Array,
    centroids: Array,
    centroid_scales: Array,
    starts: Array,
    codebook: Array,
    unit: float,
    blocks: Array,
    labels: Array,
    weight: Array,
    bias: Array,
    n_probes: int,
    n_candidates: int,
    out_labels: Array,
) -> Outputs:
    n, k = out_labels.shape
    out_labels, out_scores = np.full((n, k), -1), np.full((n, k), -np.inf)
    scanned = np.zeros(n, np.int64)
    for i, query in enumerate(queries.astype(np.float64)):
        order, wanted = np.argsort(-(centroids @ query * centroid_scales), kind="stable"), n_probes
        entries = _entries_of(order, starts, wanted)
        while len(np.unique(labels[entries])) < k and wanted < len(order):
            wanted *= 2
            entries = _entries_of(order, starts, wanted)
        scanned[i] = len(entries)
        found, first = np.unique(labels[entries], return_index=True)
        if len(entries) > n_candidates:
            rough = _code_scores(query, codebook, unit, blocks)[entries[first]]
            found = np.sort(found[np.argsort(-rough, kind="stable")[:n_candidates]])
        exact = weight[found] @ query + bias[found]
        best = np.argsort(-exact, kind="stable")[:k]
        out_labels[i, : len(best)], out_scores[i, : len(best)] = found[best], exact[best]
    return {"out_labels": out_labels, "out_scores": out_scores, "out_scanned": scanned}


def nearest_in_cells(
    queries: Array,
    centroids: Array,
    centroid_scales: Array,
    starts: Array,
    codebook: Array,
    unit: float,
    blocks: Array,
    lengths: Array,
    codes: Array,
    scales: Array,
    n_probes: int,
    n_candidates: int,
    out_positions: Array,
) -> Outputs:
    n, k = out_positions.shape
    positions, scores, scanned = np.full((n, k), -1), np.full((n, k), -np.inf), np.zeros(n, np.int64)
    owner = np.repeat(np.arange(len(centroids)), np.diff(starts))
    centroids = centroids * centroid_scales.astype(np.float64)[:, None]
    vectors = centroids[owner] * lengths[owner, None] + codes * scales[:, None].astype(np.float64)
    for i, query in enumerate(queries.astype(np.float64)):
        order, wanted = np.argsort(-(centroids @ query), kind="stable"), n_probes
        while len(_entries_of(order, starts, wanted)) < k and wanted < len(order):
            wanted *= 2
        entries = np.sort(_entries_of(order, starts, wanted))
        scanned[i] = len(entries)
        if len(entries) > n_candidates:
            rough = _code_scores(query, codebook, unit, blocks)[entries] + (centroids @ query * lengths)[owner[entries]]
            entries = np.sort(entries[np.argsort(-rough, kind="stable")[:n_candidates]])
        products = vectors[entries] @ query
        best = np.argsort(-products, kind="stable")[:k]
        positions[i, : len(best)], scores[i, : len(best)] = entries[best], products[best]
    return {"out_positions": positions, "out_scores": scores, "out_scanned": scanned}


def _entries_of(order: Array, starts: Array, wanted: int) -> Array:
    return np.concatenate([np.arange(starts[c], starts[c + 1]) for c in order[:wanted]])


def _code_scores(query: Array, codebook: Array, unit: float, blocks: Array) -> Array:
    """Return the sum of the rounded products of each row's codes, from the definition in `_core.pyi`."""
    n_groups, _, per_group = codebook.shape
    largest, peak = min(32767, (2**31 - 1) // (127 * max(len(query), 1))), np.abs(query).max(initial=0)
    exponent = int(np.floor(np.log2(largest / peak))) if peak else 0
    padded = np.zeros(n_groups * per_group)
    padded[: len(query)] = query
    padded[len(query) : len(query) + 1] = 1  # the bias
    columns = padded.reshape(per_group, n_groups).T * 2.0**exponent
    products = np.einsum("gcm,gm->gc", codebook.astype(np.int64), columns.astype(np.int64))
    products -= products.min(axis=1, keepdims=True)
    shift, rounded = 0, products
    while rounded.max(initial=0) > min(63, 65535 // max(n_groups, 1)):
        shift += 1
        rounded = (products + (1 << shift) // 2) >> shift
    codes = np.concatenate((blocks & 15, blocks >> 4), axis=2)  # (blocks, groups, 32)
    sums = np.take_along_axis(rounded[None], codes.astype(np.int64), axis=2).sum(axis=1).reshape(-1)
    return sums * (unit * 2.0 ** (shift - exponent))


def nearest_points(
    indptr: Array,
    indices: Array,
    data: Array,
    index_indptr: Array,
    index_points: Array,
    index_weights: Array,
    index_steps: Array | None,
    n_others: int,
    most: int,
    out_points: Array,
) -> Outputs:
    counts, data = np.diff(index_indptr), data.copy()
    for i in range(len(indptr) - 1):
        own = range(indptr[i], indptr[i + 1])
        strongest = sorted(own, key=lambda j: (-np.float32(abs(data[j])) / np.float32(max(counts[indices[j]], 1)), j))
        if counts[indices[own]].sum() > most:
            left_out = np.cumsum(counts[indices[strongest]]) > most
            data[np.array(strongest)[left_out]] = 0
    n_features = len(index_indptr) - 1
    if index_steps is not None:
        steps = (index_steps.astype(np.uint32) << 16).view(np.float32)
        index_weights = index_weights * np.repeat(steps, counts)
    products = dense_rows(indptr, indices, data, n_features) @ dense_rows(
        index_indptr, index_points, index_weights, n_others
    )
    points, best = np.zeros(out_points.shape, np.int64), np.zeros(out_points.shape)
    for i, own in enumerate(products):
        found = np.argsort(-own, kind="stable")
        found = found[own[found] > 0][: out_points.shape[1]]
        points[i, : len(found)], best[i, : len(found)] = found, own[found]
    return {"out_points": points, "out_products": best}


def recommend_items(
    indptr: Array,
    items: Array,
    amounts: Array,
    list_indptr: Array,
    list_items: Array,
    list_values: Array,
    list_units: Array,
    vectors: Array,
    inward: Array,
    outward: Array,
    factors: Array,
    trend: Array,
    fallback: Array,
    weights: Array,
    mixing: Array,
    fading: float,
    n_candidates: int,
    exclude_seen: bool,
    out_items: Array,
    out_parts: Array,
) -> Outputs:
    n, k = out_items.shape
    n_items, n_kinds = len(trend), list_units.shape[1]
    related = np.zeros((3, n_items, n_items))
    for item, own in enumerate(ranges(list_indptr)):
        related[:n_kinds, item, list_items[own]] = (double(list_values[own]) * double(list_units[item])).T
    best, scores, parts = np.full((n, k), -1), np.full((n, k), -np.inf), np.zeros((n, k, 9))
    for user, own in enumerate(ranges(indptr)):
        seen = list(dict.fromkeys(items[own][::-1].tolist()))  # the latest one first
        last = {item: amounts[own.start + j] for j, item in enumerate(items[own].tolist())}
        amount, recency = np.array([last[item] for item in seen], float), fading ** np.arange(len(seen))
        sums = [amount @ related[0, seen], amount @ related[1, seen]]
        sums += [(amount * recency) @ related[kind, seen] * (n_kinds == 3) for kind in range(3)]
        proposed = double(mixing) @ np.array(sums) * factors
        proposed[seen] = 0
        candidates = np.argsort(-proposed, kind="stable")[:n_candidates]
        candidates = candidates[proposed[candidates] > 0].tolist()
        others = [item for item in fallback.tolist() if item not in candidates and item not in seen]
        candidates += others[: n_candidates - len(candidates)]
        candidates += [item for item in seen if factors[item] > 0 and not exclude_seen]
        history = (amount * inward[seen]) @ double(vectors)[seen]
        found = np.array([*sums[:2], double(vectors) @ history * outward, *sums[2:]]) * factors
        found = np.maximum(found[:, candidates], 0)
        found = found / np.maximum(found.max(axis=1, initial=0, keepdims=True), 1e-30)
        recent = [recency[seen.index(item)] if item in seen else 0 for item in candidates]
        share = [np.mean(items[own] == item) if item in seen else 0 for item in candidates]
        found = np.array([*found, double(trend)[candidates], recent, share])
        totals = double(weights) @ found
        order = np.lexsort((candidates, -totals))[:k]
        best[user, : len(order)], scores[user, : len(order)] = np.array(candidates, int)[order], totals[order]
        parts[user, : len(order)] = found[:, order].T
    return {"out_items": best, "out_scores": scores, "out_parts": parts[: len(out_parts)]}


def neighbor_votes(
    indptr: Array,
    indices: Array,
    data: Array,
    label_indptr: Array,
    label_ids: Array,
    label_weights: Array,
    n_labels: int,
    wanted: Array,
) -> Outputs:
    neighbors = dense_rows(indptr, indices, data, len(label_indptr) - 1)
    votes = neighbors @ dense_rows(label_indptr, label_ids, label_weights, n_labels)
    return {"out": np.take_along_axis(votes, wanted.astype(np.int64), axis=1)}


def dense_rows(indptr: Array, indices: Array, data: Array, width: int) -> Array:
    out = np.zeros((len(indptr) - 1, width))
    for row, entries in enumerate(ranges(indptr)):
        np.add.at(out[row], indices[entries], double(data[entries]))
    return out
