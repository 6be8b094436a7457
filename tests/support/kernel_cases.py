"""Calls of every engine kernel for the kernel tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from tests.support.kernel_calls import N_FEATURES, Arguments, Array, Call, Shape, csr, normal, pick, whole, wide_batch

# --- a maker of calls for each kernel -----


def csr_matmul(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    indptr, indices, data = csr(rng, shape.n, N_FEATURES)
    dense, out = normal(rng, N_FEATURES, shape.width), normal(rng, shape.n, shape.width)
    arguments = {"indptr": indptr, "indices": indices, "data": data, "dense": dense, "out": out}
    yield Call("csr_matmul", arguments, ("out",))


def csr_matmul_narrow(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    [call] = csr_matmul(rng, shape)
    arguments = {name: array for name, array in call.arguments.items() if name != "dense"}
    codes = rng.integers(-127, 128, (N_FEATURES, shape.width)).astype(np.int8)
    yield Call("csr_matmul_narrow", {**arguments, "codes": codes, "steps": _steps(rng, N_FEATURES)}, ("out",))


def _steps(rng: np.random.Generator, n: int) -> Array:
    """Draw the upper halves of the bits of floats near 1."""
    return (np.abs(normal(rng, n)).view(np.uint32) >> 16).astype(np.uint16)


def transpose_batch(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    indptr, indices, data = csr(rng, shape.n, N_FEATURES)
    for i in range(len(indptr) - 1):  # the order within a row is free
        rng.shuffle(indices[indptr[i] : indptr[i + 1]])
    nnz = len(indices)
    before = rng.permutation(N_FEATURES)[:3].astype(np.int32)
    slots = np.full(N_FEATURES, -1, np.int32)
    slots[before] = np.arange(3)
    arguments = {
        "indptr": indptr,
        "indices": indices,
        "data": data,
        "before": before,
        "slots": slots,
        "features": np.empty(nnz, np.int32),
        "starts": np.empty(nnz + 1, np.int64),
        "rows": np.empty(nnz, np.int32),
        "values": np.empty(nnz, np.float32),
    }
    yield Call("transpose_batch", arguments, ("slots", "features", "starts", "rows", "values"))


def take_rows(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    indptr, indices, data = csr(rng, shape.n + 1, N_FEATURES)
    rows = rng.integers(0, shape.n + 1, shape.labels)  # some more than once
    out_indptr = np.concatenate([[0], np.cumsum(np.diff(indptr)[rows])])
    arguments = {"indptr": indptr, "indices": indices, "data": data, "rows": rows, "out_indptr": out_indptr}
    arguments |= {"out_indices": np.full(out_indptr[-1], -1, np.int32), "out_data": normal(rng, out_indptr[-1])}
    yield Call("take_rows", arguments, ("out_indices", "out_data"))


def spread_postings(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    arguments = pick(wide_batch(rng, shape), "starts", "rows", "values", "dense_of", "dense")
    arguments["dense"] = normal(rng, *arguments["dense"].shape)
    yield Call("spread_postings", arguments, ("dense",))


def matmul(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    m, depth, n = shape.n, shape.width, shape.labels
    for form in range(64):
        transpose_a, transpose_b, gather_a, gather_b, bf16, started = (bool(form >> bit & 1) for bit in range(6))
        a_shape = (depth, m) if transpose_a else (m, depth)
        b_shape = (n, depth) if transpose_b else (depth, n)
        a, a_rows = _operand(rng, a_shape, gather_a)
        b, b_rows = _operand(rng, b_shape, gather_b)
        arguments = {"a": a, "b": b, "out": normal(rng, m, n), "a_rows": a_rows, "b_rows": b_rows}
        arguments |= {"start": normal(rng, m) if started else None}
        arguments |= {"transpose_a": transpose_a, "transpose_b": transpose_b, "bf16": bf16}
        yield Call("matmul", arguments, ("out",))


def _operand(rng: np.random.Generator, shape: tuple[int, int], gather: bool) -> tuple[Array, Array | None]:
    if not gather:
        return normal(rng, *shape), None
    # Fewer rows than `indices`, so some rows repeat.
    table = normal(rng, shape[0] // 2 + 1, shape[1])
    return table, rng.integers(0, len(table), shape[0]).astype(np.int32)


def pair_dot(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    indptr, ids, _ = csr(rng, shape.n, shape.labels, most=40)
    arguments = {"indptr": indptr, "ids": ids, "hidden": normal(rng, shape.n, shape.width)}
    arguments |= {"weight": normal(rng, shape.labels, shape.width), "out": normal(rng, len(ids))}
    yield Call("pair_dot", arguments, ("out",))


def label_centroids(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    for draw in (normal, whole):
        indptr, indices, data = csr(rng, shape.n, N_FEATURES, draw)
        label_indptr, label_points, _ = csr(rng, shape.labels, shape.n)
        budget = rng.integers(0, 30, shape.labels)
        starts = np.concatenate([[0], np.cumsum(np.minimum(budget, N_FEATURES) + 1)])
        arguments = {
            "label_indptr": label_indptr,
            "label_points": label_points,
            "indptr": indptr,
            "indices": indices,
            "data": data,
            "n_features": N_FEATURES,
            "budget": budget,
            "starts": starts,
            "out_indices": np.full(starts[-1], -1, np.int32),
            "out_data": np.zeros(starts[-1], np.float32),
            "out_ends": np.full(shape.labels, -1),
        }
        yield Call("label_centroids", arguments, ("out_indices", "out_data", "out_ends"))


def wide_touch(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    wide = wide_batch(rng, shape)
    support = int(np.diff(wide["indptr"])[wide["active"]].sum())
    outputs = {"touched_indptr": np.empty(shape.labels + 1, np.int64), "touched": np.empty(support, np.int64)}
    outputs["touched_slots"] = np.empty(support, np.int32)
    arguments = pick(wide, "active", "indptr", "indices", "slots") | outputs
    yield Call("wide_touch", arguments, tuple(outputs))


POSTINGS = ("starts", "rows", "values", "dense_of", "dense")


def wide_forward(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    wide = wide_batch(rng, shape)
    names = ("touched_indptr", "touched", "touched_slots", "weights", *POSTINGS)
    yield Call("wide_forward", pick(wide, *names) | {"out": normal(rng, shape.labels, shape.n)}, ("out",))


def wide_gradient(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    wide = wide_batch(rng, shape)
    names = ("touched_indptr", "touched", "touched_slots", *POSTINGS)
    tile = {"grad": normal(rng, shape.labels, shape.n), "out": normal(rng, len(wide["touched"]))}
    yield Call("wide_gradient", pick(wide, *names) | tile, ("out",))


# Smoothing, scale, and spread of logits; the tolerance includes their float32 rounding.
LOSS_FORMS = ((0.0, 1.0, 3.0), (0.1, 0.25, 30.0), (0.0, 2.0, 1e4))


def _tile(rng: np.random.Generator, shape: Shape, spread: float) -> Arguments:
    indptr, points, _ = csr(rng, shape.labels, shape.n, most=5)
    logits = spread * normal(rng, shape.labels, shape.n)
    return {"logits": logits, "positive_indptr": indptr, "positive_points": points}


def bce_gradient(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    for smoothing, scale, spread in LOSS_FORMS:
        arguments = _tile(rng, shape, np.float32(spread))
        n_positive = len(arguments["positive_points"])
        arguments["positive_weights"] = rng.random(n_positive, np.float32) + np.float32(0.5)
        arguments["negative_weights"] = rng.random(shape.labels, np.float32) + np.float32(0.5)
        arguments |= {"smoothing": smoothing, "scale": scale, "losses": np.full(shape.labels, np.nan)}
        yield Call("bce_gradient", arguments, ("logits", "losses"), 3e-5 + 1e-6 * spread)


def softmax_gradient(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    for smoothing, scale, spread in LOSS_FORMS:
        arguments = _tile(rng, shape, np.float32(spread))
        points = arguments["positive_points"]
        # Each label of a point has the same weight; points without labels stay without.
        arguments["positive_weights"] = (1 / np.bincount(points, minlength=shape.n)[points]).astype(np.float32)
        arguments["log_expected"] = normal(rng, shape.labels)
        arguments |= {"smoothing": smoothing, "scale": scale, "losses": np.full(shape.n, np.nan)}
        yield Call("softmax_gradient", arguments, ("logits", "losses"), 3e-5 + 1e-6 * spread)


def _parameter(rng: np.random.Generator, shape: Shape) -> Arguments:
    n_rows = shape.labels + 3
    rows = rng.permutation(n_rows)[: shape.labels].astype(np.int64)
    value, grads = normal(rng, n_rows, shape.width), normal(rng, shape.labels, shape.width)
    return {"value": value, "rows": rows, "grads": grads}


def sgd_rows(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    yield Call("sgd_rows", _parameter(rng, shape) | {"rate": 0.1, "decay": 0.01}, ("value",))


def adagrad_rows(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    arguments = _parameter(rng, shape) | {"rate": 0.1, "epsilon": 1e-3, "decay": 0.01}
    arguments["squares"] = normal(rng, *arguments["value"].shape) ** 2
    yield Call("adagrad_rows", arguments, ("value", "squares"))


def adam_rows(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    for step in (1, 2, 300):
        arguments = _parameter(rng, shape) | {"step": step, "rate": 0.1, "epsilon": 1e-3, "decay": 0.01}
        arguments |= {
            "beta1": 0.9,
            "beta2": 0.99,
            "last_step": rng.integers(0, step, shape.labels + 3, np.int32),
        }
        arguments["first"] = normal(rng, *arguments["value"].shape)
        arguments["second"] = normal(rng, *arguments["value"].shape) ** 2
        yield Call("adam_rows", arguments, ("value", "first", "second", "last_step"))


def adam_product(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    for call in adam_rows(rng, shape):
        arguments = {name: x for name, x in call.arguments.items() if name != "grads"}
        arguments |= dict(zip(("indptr", "indices", "data"), csr(rng, shape.labels, shape.n), strict=True))
        yield Call("adam_product", arguments | {"dense": normal(rng, shape.n, shape.width)}, call.writes)


def predict_topk(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    # Integers only: scores are exact in any order of summation, so labels must match, ties included.
    for k in sorted({0, 1, 5, shape.labels} & set(range(shape.labels + 1))):
        arguments = {
            "hidden": whole(rng, shape.n, shape.width),
            "weight": whole(rng, shape.labels, shape.width),
            "bias": whole(rng, shape.labels),
        }
        arguments |= dict(zip(("indptr", "indices", "data"), csr(rng, shape.n, N_FEATURES, whole), strict=True))
        wide = csr(rng, N_FEATURES, shape.labels, whole, most=60)
        arguments |= dict(zip(("wide_indptr", "wide_labels", "wide_weights"), wide, strict=True))
        arguments["out_labels"] = np.full((shape.n, k), -1, np.int32)
        arguments["out_scores"] = np.full((shape.n, k), np.nan, np.float32)
        yield Call("predict_topk", arguments, ("out_labels", "out_scores"))


def shortlist(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    # Integers, as for predict_topk; many sums cancel to zero.
    for c in sorted({1, 5, shape.labels} & set(range(1, shape.labels + 1))):
        points, index = csr(rng, shape.n, N_FEATURES, whole), csr(rng, N_FEATURES, shape.labels, whole, most=60)
        arguments = dict(zip(("indptr", "indices", "data"), points, strict=True))
        arguments |= dict(zip(("index_indptr", "index_labels", "index_weights"), index, strict=True))
        arguments |= {"bias": whole(rng, shape.labels), "fallback": rng.permutation(shape.labels).astype(np.int32)}
        arguments["out_labels"] = np.full((shape.n, c), -1, np.int32)
        arguments["out_scores"] = np.full((shape.n, c), np.nan, np.float32)
        yield Call("shortlist", arguments, ("out_labels", "out_scores"))


def wide_scores(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    points, wide = csr(rng, shape.n, N_FEATURES), csr(rng, shape.labels + 1, N_FEATURES, most=60)
    arguments = dict(zip(("indptr", "indices", "data"), points, strict=True)) | {"n_features": N_FEATURES}
    arguments |= dict(zip(("wide_indptr", "wide_features", "wide_weights"), wide, strict=True))
    arguments["labels"] = rng.integers(0, shape.labels + 1, (shape.n, 7)).astype(np.int32)
    yield Call("wide_scores", arguments | {"out": normal(rng, shape.n, 7)}, ("out",))


def search_cells(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    # Queries are small integers and scales powers of two, so sums are exact, and ties are frequent.
    n, width, n_labels, n_cells = shape.n, shape.width, shape.labels, 7
    weight, bias = whole(rng, n_labels, width), whole(rng, n_labels)
    cells = [np.flatnonzero(np.arange(n_labels) % n_cells == c) for c in range(n_cells)]
    cells = [np.unique(np.append(own, rng.integers(0, max(n_labels, 1), 3 * (n_labels > 0)))) for own in cells]
    cells[3] = cells[3][:0] if n_labels > 100 else cells[3]
    labels = np.concatenate(cells).astype(np.int32)
    codebook = codebook_of(rng, width + 1)
    codes = rng.integers(0, 16, (n_labels, len(codebook))).astype(np.uint8)
    cases = {(k, n_probes) for k in (1, 5, n_labels) for n_probes in (1, 2, 9) if 1 <= k <= n_labels}
    for k, n_probes in sorted(cases):
        arguments = {
            "queries": whole(rng, n, width),
            "centroids": rng.integers(-3, 4, (n_cells, width)).astype(np.int8),
            "centroid_scales": np.float32([0.5, 1, 1, 2, 1, 0.5, 1]),
            "starts": np.concatenate(([0], np.cumsum([len(own) for own in cells]))),
            "codebook": codebook,
            "unit": 0.125,
            "blocks": in_blocks(codes[labels]),
            "labels": labels,
            "weight": weight,
            "bias": bias,
            "n_probes": n_probes,
            "n_candidates": max(k, 10),
            "out_labels": np.full((n, k), -2, np.int32),
            "out_scores": np.full((n, k), np.nan, np.float32),
            "out_scanned": np.zeros(n, np.int64),
        }
        yield Call("search_cells", arguments, ("out_labels", "out_scores", "out_scanned"))


def nearest_in_cells(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    # Sums are exact and ties frequent, as above.
    n, width, n_entries, n_cells = shape.n, shape.width, shape.labels, 7
    starts = np.concatenate(([0], np.sort(rng.integers(0, n_entries + 1, n_cells - 1)), [n_entries]))
    codebook = codebook_of(rng, width)
    blocks = in_blocks(rng.integers(0, 16, (n_entries, len(codebook))).astype(np.uint8))
    for k, n_probes in sorted({(k, n_probes) for k in (1, 5, n_entries + 1) for n_probes in (1, 2, 9)}):
        arguments = {
            "queries": whole(rng, n, width),
            "centroids": rng.integers(-3, 4, (n_cells, width)).astype(np.int8),
            "centroid_scales": np.float32([0.5, 1, 1, 2, 1, 0.5, 1]),
            "starts": starts,
            "codebook": codebook,
            "unit": 0.125,
            "blocks": blocks,
            "lengths": np.float32([1, 0.5, 0, 1, 0.25, 2, 1]),
            "codes": rng.integers(-9, 10, (n_entries, width)).astype(np.int8),
            "scales": np.float32(2.0) ** rng.integers(-3, 2, n_entries).astype(np.float32),
            "n_probes": n_probes,
            "n_candidates": max(k, 20),
            "out_positions": np.full((n, k), -2, np.int32),
            "out_scores": np.full((n, k), np.nan, np.float32),
            "out_scanned": np.zeros(n, np.int64),
        }
        yield Call("nearest_in_cells", arguments, ("out_positions", "out_scores", "out_scanned"))


def codebook_of(rng: np.random.Generator, width: int) -> NDArray[np.int16]:
    n_groups = 4 * max(1, round(width / 16))
    return rng.integers(-300, 300, (n_groups, 16, -(-width // n_groups))).astype(np.int16)


def in_blocks(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the codes (n, g) of rows in blocks of 32."""
    n, n_groups = codes.shape
    padded = np.zeros((-(-n // 32), 32, n_groups), np.uint8)
    padded.reshape(-1, n_groups)[:n] = codes
    return np.ascontiguousarray((padded[:, :16] | padded[:, 16:] << 4).transpose(0, 2, 1))


def nearest_points(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    # Integers, as for predict_topk: products tie, and many are not positive.
    all_of_it = 2**40
    for k, n_others, most in (
        (1, shape.labels, all_of_it),
        (5, shape.labels, all_of_it),
        (shape.labels + 3, shape.labels, all_of_it),
        (40, 3000, all_of_it),
        (2, 20_000, all_of_it),
        (20, 3000, 100),
        (5, shape.labels, 0),
    ):
        points, index = csr(rng, shape.n, N_FEATURES, whole), csr(rng, N_FEATURES, n_others, whole, most=60)
        arguments = dict(zip(("indptr", "indices", "data"), points, strict=True))
        arguments |= dict(zip(("index_indptr", "index_points", "index_weights"), index, strict=True))
        arguments |= {"index_steps": None, "n_others": n_others, "most": most}
        if k in (2, 5):  # of 8 bits, with numbers of points in 16 or 32
            arguments["index_weights"] = arguments["index_weights"].astype(np.int8)
            arguments["index_steps"] = np.full(N_FEATURES, 0x4000, np.uint16)  # 2
            if k == 5:
                arguments["index_points"] = arguments["index_points"].astype(np.uint16)
        arguments["out_points"] = np.full((shape.n, k), -1, np.int32)
        arguments["out_products"] = np.full((shape.n, k), np.nan, np.float32)
        yield Call("nearest_points", arguments, ("out_points", "out_products"))


def neighbor_votes(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    n_labels = shape.labels + 1  # at least one label
    neighbors, labels = csr(rng, shape.n, N_FEATURES), csr(rng, N_FEATURES, n_labels, most=60)
    arguments = dict(zip(("indptr", "indices", "data"), neighbors, strict=True))
    arguments |= dict(zip(("label_indptr", "label_ids", "label_weights"), labels, strict=True))
    arguments |= {"n_labels": n_labels, "wanted": rng.integers(0, n_labels, (shape.n, 7)).astype(np.int32)}
    yield Call("neighbor_votes", arguments | {"out": normal(rng, shape.n, 7)}, ("out",))


def recommend_items(rng: np.random.Generator, shape: Shape) -> Iterator[Call]:
    n_items, k = shape.labels + 1, 3
    for n_values, exclude_seen, has_parts in ((2, True, True), (3, False, True), (3, True, False)):
        events = csr(rng, shape.n, N_FEATURES)
        items = rng.integers(0, n_items, len(events[1])).astype(np.int32)  # some more than once
        lists = csr(rng, n_items, n_items, most=60)
        arguments = {"indptr": events[0], "items": items, "amounts": np.abs(events[2])}
        arguments |= {"list_indptr": lists[0], "list_items": lists[1]}
        arguments["list_values"] = rng.integers(-99, 999, (len(lists[1]), n_values)).astype(np.int16)
        arguments["list_units"] = np.abs(normal(rng, n_items, n_values)) / 500
        arguments["vectors"] = rng.integers(-127, 128, (n_items, shape.width)).astype(np.int8)
        arguments |= {name: np.abs(normal(rng, n_items)) + 0.1 for name in ("inward", "outward", "factors", "trend")}
        arguments["factors"][rng.random(n_items) < 0.2] = 0
        usable = np.flatnonzero(arguments["factors"]).astype(np.int32)
        arguments |= {"fallback": rng.permutation(usable), "weights": np.abs(normal(rng, 9))}
        arguments |= {"mixing": np.abs(normal(rng, 5)) + 0.1, "fading": 0.8, "n_candidates": 5}
        if n_values == 2:
            arguments["mixing"][2:] = 0
        arguments |= {"exclude_seen": exclude_seen, "out_items": np.full((shape.n, k), -5, np.int32)}
        arguments["out_scores"] = np.full((shape.n, k), np.nan, np.float32)
        arguments["out_parts"] = np.full((shape.n if has_parts else 0, k, 9), np.nan, np.float32)
        yield Call("recommend_items", arguments, ("out_items", "out_scores", "out_parts"))


MAKERS: dict[str, Callable[[np.random.Generator, Shape], Iterator[Call]]] = {
    maker.__name__: maker
    for maker in (
        csr_matmul,
        csr_matmul_narrow,
        transpose_batch,
        take_rows,
        spread_postings,
        matmul,
        pair_dot,
        label_centroids,
        wide_touch,
        wide_forward,
        wide_gradient,
        bce_gradient,
        softmax_gradient,
        shortlist,
        wide_scores,
        search_cells,
        nearest_in_cells,
        nearest_points,
        neighbor_votes,
        recommend_items,
        sgd_rows,
        adagrad_rows,
        adam_rows,
        adam_product,
        predict_topk,
    )
}


def calls(function: str, *shapes: Shape) -> Iterator[tuple[str, Call]]:
    """Make every call of a kernel at these shapes, each with a name for messages."""
    for shape in shapes:
        rng = np.random.default_rng([len(function), shape.n, shape.width, shape.labels])
        for form, call in enumerate(MAKERS[function](rng, shape)):
            yield f"{function} {shape} form {form}", call
