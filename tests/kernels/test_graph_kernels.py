"""Temporal graph networks: the kernels against float64, finite differences, and at any number of threads."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.support import graph_reference as reference
from tests.support.graph_reference import Arrays, attention_inputs, double, gru_inputs, message_inputs, normal, slope_of

SIZES: list[dict[str, int]] = [{}, {"seeds": 1, "k": 1}, {"heads": 1, "f": 0}, {"rows": 0}, {"seeds": 0}]


def messages(module: ModuleType, inputs: Arrays, threads: int = 1) -> Arrays:
    n, m, t = len(inputs["nodes"]), inputs["memory"].shape[1], inputs["times"].shape[1]
    width = 2 * m + inputs["features"].shape[1] + t + 1
    shapes = {"out_messages": (n, width), "out_states": (n, m + 1), "out_sines": (n, t)}
    outs = {name: np.full(shape, np.nan, np.float32) for name, shape in shapes.items()}
    module.message_rows(**inputs, **outs, threads=threads)
    return outs


def gru(module: ModuleType, inputs: Arrays, slopes: Any, threads: int = 1) -> Arrays:
    copies = {name: array.copy() for name, array in inputs.items()}
    out = np.full(copies["before"].shape, np.nan, np.float32)
    module.gru_rows(**copies, out=out, threads=threads)
    module.gru_gradient(**copies, slopes=slopes, threads=threads)
    return {"out": out, **copies}


def attend(module: ModuleType, inputs: Arrays, threads: int = 1) -> Arrays:
    outs = {name: np.full(x.shape, np.nan, np.float32) for name, x in reference.attend(**double(inputs)).items()}
    module.attend_last(**inputs, **outs, threads=threads)
    return outs


def attention_gradient(module: ModuleType, inputs: Arrays, slopes: Arrays, threads: int = 1) -> Arrays:
    weights = attend(module, inputs)["out_weights"]
    shapes = {f"out_{name}": inputs[name].shape for name in ("queries", "edge_queries", "rows")}
    shapes["out_times"] = (len(inputs["links"]), *inputs["times"].shape)
    outs = {name: np.full(shape, np.nan, np.float32) for name, shape in shapes.items()}
    module.attend_gradient(
        **inputs, weights=weights, slopes=slopes["out"], edge_slopes=slopes["out_edges"], **outs, threads=threads
    )
    return outs


def close(found: Arrays, wanted: Arrays, names: Any = None) -> None:
    for name in names or wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.numba_smoke
@pytest.mark.parametrize("size", [{}, {"n": 0}, {"f": 0, "m": 1}, {"n": 1, "t": 33}])
def test_messages_equal_the_reference(backend: ModuleType, size: dict[str, int]) -> None:
    inputs = message_inputs(**size)
    close(messages(backend, inputs), reference.messages(**double(inputs)))


def test_large_angles_are_exact(backend: ModuleType) -> None:
    inputs = message_inputs(n=2000, t=7)
    inputs["elapsed"] = (10.0 ** np.random.default_rng(0).uniform(-3, 9, 2000)).astype(np.float32)
    inputs["times"] = np.float32([[1, -1, 0.5, 2, -0.25, 0, 1], [0, 0, 0, 0, 0, 3, 0]])  # products without rounding
    close(messages(backend, inputs), reference.messages(**double(inputs)))


@pytest.mark.numba_smoke
@pytest.mark.parametrize("size", [{}, {"n": 0}, {"m": 1}, {"n": 1, "m": 40}])
def test_memory_and_its_gradient_equal_the_reference(backend: ModuleType, size: dict[str, int]) -> None:
    inputs = gru_inputs(**size)
    slopes = normal(np.random.default_rng(1), *inputs["before"].shape)
    found = gru(backend, inputs, slopes)
    close(found, {"out": reference.gru(**double(inputs))})
    for name in ("gates", "states"):
        wanted = slope_of(lambda **given: np.sum(reference.gru(**given) * slopes), double(inputs), name)
        np.testing.assert_allclose(found[name], wanted, rtol=2e-3, atol=2e-5, err_msg=name)


def test_gates_far_from_zero_saturate(backend: ModuleType) -> None:
    inputs = {name: 200 * array for name, array in gru_inputs().items()}
    close(gru(backend, inputs, np.ones_like(inputs["before"])), {"out": reference.gru(**double(inputs))})


@pytest.mark.numba_smoke
@pytest.mark.parametrize("size", SIZES)
def test_attention_equals_the_reference(backend: ModuleType, size: dict[str, int]) -> None:
    inputs = attention_inputs(**size)
    if size.get("rows") == 0:
        wanted = {name: np.zeros_like(x) for name, x in reference.attend(**double(attention_inputs())).items()}
        found = {name: np.full(x.shape, np.nan, np.float32) for name, x in wanted.items()}
        backend.attend_last(**inputs, **found, threads=1)
        close(found, wanted)
    else:
        close(attend(backend, inputs), reference.attend(**double(inputs)))


@pytest.mark.parametrize("size", [{"seeds": 4}, {"seeds": 3, "heads": 1, "f": 0, "k": 1}])
def test_the_gradient_of_attention_equals_finite_differences(backend: ModuleType, size: dict[str, int]) -> None:
    inputs = attention_inputs(rows=5, **size)
    rng = np.random.default_rng(2)
    slopes = {name: normal(rng, *x.shape) for name, x in reference.attend(**double(inputs)).items()}

    def total(**given: Any) -> float:
        found = reference.attend(**given)
        return float(sum(np.sum(found[name] * slopes[name]) for name in ("out", "out_edges")))

    found = attention_gradient(backend, inputs, slopes)
    found["out_times"] = found["out_times"].sum(axis=0)
    for name in ("queries", "edge_queries", "rows", "times"):
        wanted = slope_of(total, double(inputs), name)
        np.testing.assert_allclose(found[f"out_{name}"], wanted, rtol=1e-3, atol=2e-4, err_msg=name)


def test_results_do_not_depend_on_threads(backend: ModuleType) -> None:
    inputs = attention_inputs(seeds=200, rows=90)
    slopes = {name: normal(np.random.default_rng(3), *x.shape) for name, x in attend(backend, inputs).items()}
    gates, given = gru_inputs(n=200), message_inputs(n=200)
    before = normal(np.random.default_rng(4), *gates["before"].shape)
    found = [
        {
            **attend(backend, inputs, threads),
            **attention_gradient(backend, inputs, slopes, threads),
            **gru(backend, gates, before, threads),
            **messages(backend, given, threads),
        }
        for threads in (1, 2, 4)
    ]
    for other in found[1:]:
        assert {name: x.tobytes() for name, x in found[0].items()} == {name: x.tobytes() for name, x in other.items()}


@pytest.mark.numba_smoke
def test_rings_hold_the_last_links(backend: ModuleType) -> None:
    rng = np.random.default_rng(0)
    n, nodes, k = 60, 7, 3
    sources, targets = rng.integers(0, nodes, (2, n)).astype(np.int32)
    times, features = np.arange(n, dtype=np.float64), normal(rng, n, 2)
    neighbors, counts = np.full((nodes, k), -1, np.int32), np.zeros(nodes, np.int64)
    neighbor_times, neighbor_features = np.zeros((nodes, k)), np.zeros((nodes, k, 2), np.float32)
    for part in (slice(0, 25), slice(25, n)):
        events = (sources[part], targets[part], times[part], features[part])
        backend.remember_links(neighbors, neighbor_times, neighbor_features, counts, *events)
    for node in range(nodes):
        own = [(e, b) for e in range(n) for a, b in ((sources[e], targets[e]), (targets[e], sources[e])) if a == node]
        assert counts[node] == len(own)
        for i, (e, other) in list(enumerate(own))[-k:]:
            assert (neighbors[node, i % k], neighbor_times[node, i % k]) == (other, e)
            assert neighbor_features[node, i % k].tolist() == features[e].tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"links": np.zeros((2, 2), np.int32)}, r"links has shape\[0\] = 2, expected 21"),
        ({"rows": np.zeros((3, 7), np.float32)}, r"rows has shape\[1\] = 7, expected 20"),
        ({"times": np.zeros((1, 6), np.float32)}, r"times has shape\[0\] = 1, expected 2"),
        ({"edge_queries": np.zeros((2, 21, 4), np.float32)}, r"shape\[2\]"),
        ({"keep": np.zeros((21, 4, 1), np.float32)}, r"keep has shape\[2\] = 1, expected 2"),
        ({"ages": np.zeros((21, 4))}, "ages must have dtype float32"),
        ({"threads": 0}, "threads must be at least 1"),
    ],
)
def test_refuses_wrong_arguments(backend: ModuleType, change: dict[str, Any], message: str) -> None:
    given = attention_inputs()
    outs = {name: np.zeros(x.shape, np.float32) for name, x in reference.attend(**double(given)).items()}
    with pytest.raises(ValueError, match=message):
        backend.attend_last(**{**given, **outs, "threads": 1, **change})
