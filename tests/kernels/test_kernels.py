"""Every engine kernel, on every backend and instruction set, against the float64 oracle."""

from __future__ import annotations

import importlib
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support import reference
from tests.support.backends import has_extension
from tests.support.kernel_calls import LARGE, SHAPES, Call, Shape, misaligned, normal, whole
from tests.support.kernel_cases import MAKERS, calls

functions = pytest.mark.parametrize("function", sorted(MAKERS))


def assert_close(found: reference.Outputs, expected: reference.Outputs, tolerance: float, name: str) -> None:
    """Compare the values that the oracle defines, integers exactly; a buffer may be longer."""
    assert found.keys() == expected.keys()
    for output, wanted in expected.items():
        got = found[output][: len(wanted)] if wanted.ndim else found[output]
        limit = tolerance if wanted.dtype.kind == "f" else 0
        np.testing.assert_allclose(got, wanted, rtol=limit, atol=limit, err_msg=f"{output} of {name}")


def assert_same_bytes(found: reference.Outputs, expected: reference.Outputs, name: str) -> None:
    for output, wanted in expected.items():
        assert found[output].tobytes() == wanted.tobytes(), f"{output} of {name}"


@lru_cache(maxsize=1)  # the levels of one call come one after the other
def expected_calls(function: str, *shapes: Shape) -> list[tuple[str, Call, reference.Outputs]]:
    """Return every call of a kernel at these shapes, with its name and the oracle's outputs."""
    return [(name, call, call.expected()) for name, call in calls(function, *shapes)]


@functions
def test_kernel_agrees_with_the_oracle_at_any_size_and_alignment(backend: ModuleType, function: str) -> None:
    for name, call, expected in expected_calls(function, *SHAPES):
        assert_close(call.run(backend), expected, call.tolerance, name)
        assert_close(call.run(backend, place=misaligned), expected, call.tolerance, f"{name}, misaligned")


@functions
@pytest.mark.parametrize("shape", LARGE, ids=str)
def test_result_does_not_depend_on_threads_in_any_bit(backend: ModuleType, function: str, shape: Shape) -> None:
    for name, call, expected in expected_calls(function, shape):
        alone = call.run(backend, threads=1)
        assert_close(alone, expected, call.tolerance, name)
        for threads in (2, 4):
            assert_same_bytes(call.run(backend, threads), alone, f"{name} at {threads} threads")


@functions
def test_result_repeats_in_every_bit_wherever_arrays_lie(backend: ModuleType, function: str) -> None:
    for name, call in calls(function, LARGE[1]):
        assert_same_bytes(call.run(backend, place=misaligned), call.run(backend), name)


@pytest.mark.levels
@pytest.mark.skipif(not has_extension(), reason="there is no C++ extension to compare with")
@functions
def test_native_agrees_with_numba(function: str) -> None:
    native = importlib.import_module("sparsenet._core")
    numba = importlib.import_module("sparsenet.kernels.numba")
    for name, call in calls(function, Shape(64, 33, 100), *LARGE):
        assert_close(call.run(native, threads=2), call.run(numba, threads=2), call.tolerance, name)


# --- single kernels ---


@pytest.mark.numba_smoke
def test_transposes_a_batch_over_the_previous_one(backend: ModuleType) -> None:
    pointers, values, slots = np.array([0, 2]), np.ones(2, np.float32), np.full(5, -1, np.int32)
    features, rows = np.empty(2, np.int32), np.empty(2, np.int32)
    before = features[:0]
    for held in ([0, 4], [4, 2], [3, 1]):
        out = slots, features, np.empty(3, np.int64), rows, np.empty(2, np.float32)
        assert backend.transpose_batch(pointers, np.array(held, np.int32), values, before, *out) == 2
        before = features[:2]
        assert before.tolist() == held
        np.testing.assert_array_equal(np.flatnonzero(slots >= 0), np.sort(held))


LONG_ROWS = np.cumsum([0, 0, 31, 32, 33, 65])


@pytest.mark.parametrize("width", [3, 15, 255, 256, 257, 273])
def test_sums_of_many_entries_over_many_columns(backend: ModuleType, width: int) -> None:
    rng = np.random.default_rng(width)
    indices, data = rng.integers(0, 70, LONG_ROWS[-1]).astype(np.int32), normal(rng, LONG_ROWS[-1])
    dense, out = normal(rng, 70, width), np.full((5, width), np.nan, np.float32)
    backend.csr_matmul(LONG_ROWS, indices, data, dense, out, 1)
    expected = reference.csr_matmul(LONG_ROWS, indices, data, dense)["out"]
    np.testing.assert_allclose(out, expected, rtol=3e-5, atol=3e-5)

    form = {"step": 3, "rate": 0.1, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-3, "decay": 0.01, "threads": 2}
    found = []
    for gradient in ("grads", "product"):
        state = {name: np.full((7, width), 0.5, np.float32) for name in ("value", "first", "second")}
        given: dict[str, Any] = {**state, "last_step": np.zeros(7, np.int32), "rows": np.array([6, 0, 3, 1, 4])}
        if gradient == "grads":
            backend.adam_rows(**given, grads=out, **form)
        else:
            backend.adam_product(**given, indptr=LONG_ROWS, indices=indices, data=data, dense=dense, **form)
        found.append(given["value"])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


@pytest.mark.parametrize("width", [3, 33, 256])
def test_narrow_rows_have_the_products_of_their_floats_to_the_last_bit(backend: ModuleType, width: int) -> None:
    for _, call in calls("csr_matmul_narrow", Shape(17, width, 5)):
        given = dict(call.arguments)
        dense = given.pop("codes") * (given.pop("steps").astype(np.uint32) << 16).view(np.float32)[:, None]
        expected = Call("csr_matmul", {**given, "dense": dense}, ("out",)).run(backend)
        assert_same_bytes(call.run(backend), expected, f"width {width}")


@pytest.mark.parametrize("n", [15, 257])
def test_wide_scores_of_many_frequent_features(backend: ModuleType, n: int) -> None:
    """Every label has all 100 features, the first 80 as dense rows; no point has the last one."""
    rng, slots, labels = np.random.default_rng(n), 100, 3
    holders = [np.flatnonzero(rng.random(n) < 0.5).astype(np.int32) for _ in range(slots - 1)]
    starts = np.concatenate([[0], np.cumsum([len(points) for points in holders]), [sum(map(len, holders))]])
    points, values = np.concatenate(holders), normal(rng, starts[-1])
    dense_of = np.where(np.arange(slots) < 80, np.arange(slots), -1).astype(np.int32)
    dense = np.zeros((80, n), np.float32)
    backend.spread_postings(starts, points, values, dense_of, dense)
    touched = {
        "touched_indptr": np.arange(labels + 1) * slots,
        "touched": np.arange(labels * slots),
        "touched_slots": np.tile(np.arange(slots, dtype=np.int32), labels),
    }
    batch = {"starts": starts, "rows": points, "values": values, "dense_of": dense_of, "dense": dense}
    weights, out = normal(rng, labels * slots), normal(rng, labels, n)
    everything = reference.dense_postings(starts, points, values, n)
    expected = out + weights.reshape(labels, slots).astype(np.float64) @ everything.T
    backend.wide_forward(**touched, weights=weights, **batch, out=out, threads=1)
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    slopes = np.empty(labels * slots, np.float32)
    backend.wide_gradient(**touched, **batch, grad=out, out=slopes, threads=1)
    np.testing.assert_allclose(slopes.reshape(labels, slots), out @ everything, rtol=1e-4, atol=1e-3)


def test_centroid_ties_keep_the_smaller_feature(backend: ModuleType) -> None:
    def i64(*x: int) -> NDArray[np.int64]:
        return np.array(x, np.int64)

    indices, data = np.array([5, 3, 9, 1, 7], np.int32), np.array([-2, 2, 2, 1, -2], np.float32)
    kept, values, count = np.full(3, -1, np.int32), np.zeros(3, np.float32), i64(0)
    points = (i64(0, 1), np.array([0], np.int32), i64(0, 5), indices, data)
    backend.label_centroids(*points, 10, i64(3), i64(0, 3), kept, values, count, 1)
    assert kept.tolist() == [3, 5, 7]
    assert values.tolist() == [2, -2, -2]
    assert count.tolist() == [3]


@pytest.mark.numba_smoke
@pytest.mark.parametrize("function", ["bce_gradient", "softmax_gradient"])
def test_huge_logits_give_finite_losses_and_gradients(backend: ModuleType, function: str) -> None:
    for name, call in calls(function, Shape(17, 0, 33)):
        logits = call.arguments["logits"]
        for size in (1e4, 1e30):
            call.arguments["logits"] = np.sign(logits) * np.float32(size)
            written = call.run(backend)
            assert np.isfinite(written["logits"]).all(), name
            assert np.isfinite(written["losses"]).all(), name


@pytest.mark.parametrize("function", ["bce_gradient", "softmax_gradient"])
def test_nan_logits_give_nan_losses(backend: ModuleType, function: str) -> None:
    for name, call in calls(function, Shape(17, 0, 33)):
        call.arguments["logits"][:] = np.nan
        assert np.isnan(call.run(backend)["losses"]).any(), name


def topk_call(rng: np.random.Generator, shape: Shape, k: int) -> Call:
    """Score on the dense path with few different integers, which tie everywhere."""
    arguments: dict[str, Any] = {
        "hidden": whole(rng, shape.n, shape.width),
        "weight": whole(rng, shape.labels, shape.width),
        "bias": np.zeros(shape.labels, np.float32),
        "indptr": np.zeros(shape.n + 1, np.int64),
        "indices": np.empty(0, np.int32),
        "data": np.empty(0, np.float32),
        "wide_indptr": np.zeros(1, np.int64),
        "wide_labels": np.empty(0, np.int32),
        "wide_weights": np.empty(0, np.float32),
        "out_labels": np.full((shape.n, k), -1, np.int32),
        "out_scores": np.full((shape.n, k), np.nan, np.float32),
    }
    return Call("predict_topk", arguments, ("out_labels", "out_scores"))


@pytest.mark.parametrize(("n_labels", "k"), [(1000, 1000), (5000, 1000), (40_000, 3), (40_000, 700)])
def test_topk_over_many_blocks_of_labels_is_exact(backend: ModuleType, n_labels: int, k: int) -> None:
    call = topk_call(np.random.default_rng(k), Shape(5, 3, n_labels), k)
    expected = call.expected()
    for threads in (1, 2, 4):
        assert_close(call.run(backend, threads), expected, 0, f"{threads} threads")


def test_topk_of_real_numbers_finds_the_best_scores(backend: ModuleType) -> None:
    rng = np.random.default_rng(0)
    call = topk_call(rng, Shape(150, 64, 3000), 10)
    for name in ("hidden", "weight", "bias"):
        call.arguments[name] = normal(rng, *call.arguments[name].shape)
    written, expected = call.run(backend, 2), call.expected()
    np.testing.assert_allclose(written["out_scores"], expected["out_scores"], rtol=1e-4)
    model = {name: x for name, x in call.arguments.items() if not name.startswith("out_")}
    scores = np.take_along_axis(reference.all_scores(**model), written["out_labels"].astype(int), axis=1)
    np.testing.assert_allclose(scores, expected["out_scores"], rtol=1e-4)


def test_topk_rejects_k_beyond_the_number_of_labels(backend: ModuleType) -> None:
    call = topk_call(np.random.default_rng(0), Shape(3, 2, 4), 5)
    with pytest.raises(ValueError, match="out_labels"):
        call.run(backend)


def test_topk_survives_nan_scores(backend: ModuleType) -> None:
    call = topk_call(np.random.default_rng(0), Shape(40, 3, 5000), 100)
    call.arguments["hidden"][::2] = np.nan
    call.arguments["weight"][::3] = np.inf
    written = call.run(backend, 2)
    assert written["out_labels"].min() >= 0
    assert written["out_labels"].max() < 5000


@pytest.mark.parametrize(("n_labels", "k"), [(1, 1), (3, 3), (5000, 1), (5000, 100), (40_000, 700)])
def test_topk_ranks_nan_and_infinite_scores(backend: ModuleType, n_labels: int, k: int) -> None:
    rng = np.random.default_rng(k)
    call = topk_call(rng, Shape(6, 0, n_labels), k)
    call.arguments["bias"] = rng.choice(np.float32([np.nan, -np.inf, np.inf, 0.5, 1, 2]), n_labels)
    call.arguments["bias"][0] = np.nan
    expected = call.expected()
    for threads in (1, 2):
        written = call.run(backend, threads)
        for name in expected:
            np.testing.assert_array_equal(written[name], expected[name], name)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_shortlist_ranks_nan_and_infinite_scores(backend: ModuleType, size: int) -> None:
    rng, n_labels = np.random.default_rng(size), 9000
    weights = rng.normal(size=n_labels).astype(np.float32)
    weights[rng.permutation(n_labels)[:4000]] = np.repeat(np.float32([np.nan, -np.inf, 0.5, -0.0]), 1000)
    named = rng.permutation(n_labels).astype(np.int32)
    one = np.zeros(1, np.int32)
    labels, scores = np.empty((1, size), np.int32), np.empty((1, size), np.float32)
    point = (np.arange(2, dtype=np.int64), one, np.ones(1, np.float32))
    index = (np.array([0, n_labels], np.int64), named, weights[named])
    bias, worst = np.zeros(n_labels, np.float32), np.where(np.isnan(weights), -np.inf, weights)
    fallback = np.argsort(worst, kind="stable")[:size].astype(np.int32)
    assert size == 1 or np.isnan(weights[fallback]).any()
    backend.shortlist(*point, *index, bias, fallback, labels, scores, 1)
    best = np.lexsort((np.arange(n_labels), -np.where(np.isnan(weights), -np.inf, weights)))[:size]
    np.testing.assert_array_equal(labels[0], np.sort(best))
    np.testing.assert_array_equal(scores[0], weights[np.sort(best)])
