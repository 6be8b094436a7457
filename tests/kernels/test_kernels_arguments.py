"""Every backend rejects a wrong argument with a ValueError that names it, before it writes anything."""

from __future__ import annotations

import ast
import copy
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sparsenet
from tests.support.kernel_calls import ALONE, Call, Shape
from tests.support.kernel_cases import MAKERS, calls

Array = NDArray[Any]

OTHER_DTYPE = {
    "int8": np.int16,
    "int16": np.int8,
    "uint8": np.int8,
    "uint16": np.int16,
    "float32": np.float64,
    "float64": np.float32,
    "int32": np.int64,
    "int64": np.int32,
}
DAMAGE: dict[str, Callable[[Array], Array]] = {
    "another type": lambda x: x.astype(OTHER_DTYPE[str(x.dtype)]),
    "another byte order": lambda x: x.astype(x.dtype.newbyteorder()),
    "a dimension more": lambda x: x[None],
    "a dimension less": lambda x: x.reshape(-1)[0] if x.ndim == 1 else x.reshape(-1),
    "a step": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "Fortran order": np.asfortranarray,
}
# Arrays whose length no other argument fixes: tables that ids or pointers point into, and single lists of ids.
FREE_LENGTH = {
    "csr_matmul": {"dense"},
    "take_rows": {"indptr"},
    "spread_postings": {"dense"},
    "transpose_batch": {"indptr", "before", "slots"},
    "pair_dot": {"weight"},
    "label_centroids": {"indptr"},
    "wide_touch": {"indptr", "indices", "slots"},
    "wide_forward": {"weights", "dense"},
    "wide_gradient": {"dense"},
    "sgd_rows": {"value"},
    "adam_product": {"dense"},
    "predict_topk": {"wide_indptr"},
    "shortlist": {"index_indptr", "bias", "fallback"},
    "wide_scores": {"wide_indptr"},
    "nearest_points": {"index_indptr"},
    "neighbor_votes": {"label_indptr"},
    "recommend_items": {"fallback"},
}

# Tiles whose number of columns no other argument fixes.
FREE_WIDTH = {
    "spread_postings": "dense",
    "wide_forward": "out",
    "wide_gradient": "grad",
    "bce_gradient": "logits",
    "recommend_items": "vectors",
}

functions = pytest.mark.parametrize("function", sorted(MAKERS))


def sample(function: str) -> Iterator[Call]:
    return (call for _, call in calls(function, Shape(6, 5, 4)))


def arrays(call: Call) -> list[str]:
    return [name for name, x in call.arguments.items() if isinstance(x, np.ndarray)]


def damaged(call: Call, name: str, damage: Callable[[Array], Array]) -> Call:
    arguments = {key: x.copy() if isinstance(x, np.ndarray) else x for key, x in call.arguments.items()}
    arguments[name] = damage(arguments[name])
    return Call(call.function, arguments, call.writes)


def assert_refused(backend: ModuleType, call: Call, pattern: str) -> None:
    arguments = call.arguments if call.function in ALONE else {"threads": 1} | call.arguments
    before = copy.deepcopy(arguments)
    with pytest.raises(ValueError, match=pattern):
        getattr(backend, call.function)(**arguments)
    for name in arrays(call):
        assert arguments[name].tobytes() == before[name].tobytes(), f"{name} was written to"


@functions
@pytest.mark.parametrize("what", sorted(DAMAGE))
def test_rejects_arrays_of_the_wrong_kind_by_name(backend: ModuleType, function: str, what: str) -> None:
    refused = 0
    for call in sample(function):
        for name in arrays(call):
            bad = damaged(call, name, DAMAGE[what])
            array = bad.arguments[name]
            if what in ("a step", "Fortran order") and array.flags.c_contiguous:
                continue  # too small to be anything else
            if what == "another byte order" and call.arguments[name].itemsize == 1:
                continue  # a byte has no order
            if isinstance(array, np.ndarray):
                assert_refused(backend, bad, rf"^{name} ")
                refused += 1
    assert refused or what in ("Fortran order", "a dimension less")


@functions
def test_rejects_short_arrays(backend: ModuleType, function: str) -> None:
    for call in sample(function):
        if function == "matmul" and (call.arguments["a_rows"] is not None or call.arguments["b_rows"] is not None):
            continue  # what is gathered from may have any length
        for name in arrays(call):
            if name not in FREE_LENGTH.get(function, ()) and len(call.arguments[name]):
                assert_refused(backend, damaged(call, name, lambda x: x[:-1].copy()), "|".join(call.arguments))


@functions
def test_rejects_short_rows(backend: ModuleType, function: str) -> None:
    for call in sample(function):
        for name in arrays(call):
            array = call.arguments[name]
            if array.ndim == 2 and array.shape[1] > 0 and FREE_WIDTH.get(function) != name:
                bad = damaged(call, name, lambda x: np.ascontiguousarray(x[:, :-1]))
                assert_refused(backend, bad, "|".join(call.arguments))


@functions
def test_rejects_read_only_outputs_by_name(backend: ModuleType, function: str) -> None:
    def lock(x: Array) -> Array:
        x.flags.writeable = False
        return x

    for call in sample(function):
        for name in call.writes:
            assert_refused(backend, damaged(call, name, lock), rf"^{name} must be writeable")


@functions
def test_accepts_read_only_inputs(backend: ModuleType, function: str) -> None:
    for call in sample(function):
        expected = call.run(backend)
        for name in set(arrays(call)) - set(call.writes):
            call.arguments[name].flags.writeable = False

        def place(x: Array) -> Array:
            return x if not x.flags.writeable else x.copy()

        for name, wanted in expected.items():
            assert call.run(backend, place=place)[name].tobytes() == wanted.tobytes()


@functions
def test_rejects_pointers_that_do_not_start_at_zero(backend: ModuleType, function: str) -> None:
    def shift(x: Array) -> Array:
        x[0] = 1
        return x

    for call in sample(function):
        for name in arrays(call):
            if "indptr" in name and name not in call.writes:
                assert_refused(backend, damaged(call, name, shift), rf"^{name} must start with 0")


@pytest.mark.parametrize("threads", [0, -1])
@pytest.mark.parametrize("function", sorted(MAKERS.keys() - ALONE))
def test_rejects_threads_below_one(backend: ModuleType, function: str, threads: int) -> None:
    for call in sample(function):
        bad = Call(function, call.arguments | {"threads": threads}, call.writes)
        assert_refused(backend, bad, f"threads must be at least 1, got {threads}")


def test_accepts_more_threads_than_cpus(backend: ModuleType) -> None:
    for call in sample("csr_matmul"):
        assert call.run(backend, threads=10**6)["out"].tobytes() == call.run(backend)["out"].tobytes()


@pytest.mark.parametrize("function", ["adam_rows", "adam_product"])
def test_adam_counts_steps_from_one(backend: ModuleType, function: str) -> None:
    for call in sample(function):
        assert_refused(backend, Call(function, call.arguments | {"step": 0}, call.writes), "step")


def test_matmul_names_the_mismatched_argument(backend: ModuleType) -> None:
    zeros = {name: np.zeros(shape, np.float32) for name, shape in (("a", (2, 3)), ("b", (4, 5)), ("out", (2, 5)))}
    form = {"a_rows": None, "b_rows": None, "start": None, "transpose_a": False, "transpose_b": False, "bf16": False}
    assert_refused(backend, Call("matmul", zeros | form, ("out",)), "b does not fit a.* 3 and 4")


def test_rejects_an_unknown_instruction_set(backend: ModuleType) -> None:
    used = backend.isa_used()
    with pytest.raises(ValueError, match="'mmx' is not available"):
        backend.set_isa("mmx")
    assert backend.isa_used() == used
    assert used in backend.isa_available()


def test_backend_has_every_kernel_of_the_contract(backend: ModuleType) -> None:
    stub = Path(sparsenet.__file__).with_name("_core.pyi")
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, ast.FunctionDef):
            function = getattr(backend, node.name, None)
            assert function is not None, f"{node.name} is missing"
            assert argument_names(function) == [argument.arg for argument in node.args.args], node.name


def argument_names(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except ValueError:  # a C++ function: its signature is the first line of its docstring
        return re.findall(r"(\w+): ", (function.__doc__ or "").splitlines()[0])
