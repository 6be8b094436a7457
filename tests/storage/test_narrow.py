"""Arrays in fewer bits, without loss."""

from typing import Any

import numpy as np
import pytest

from sparsenet import ModelError
from sparsenet.storage.narrow import SCALE, VALUES, narrow, narrow_rows, rounded, widen


def some_arrays() -> dict[str, Any]:
    """Return arrays with the names and types of a blend's."""
    rng = np.random.default_rng(0)
    lengths = np.array([3, 0, 2, 40])
    starts = np.append(0, np.cumsum(lengths))
    ids = np.concatenate([np.sort(rng.choice(70_000, n, replace=False)) for n in lengths]).astype(np.int32)
    floats = rng.standard_normal(45).astype(np.float32)
    return {
        "tree.level0.starts": starts,
        "tree.level0.features": ids,
        "tree.level0.factors": np.abs(floats),
        "tree.level0.weights": rng.integers(-127, 128, (45, 16), dtype=np.int8) * (rng.random((45, 16)) < 0.4),
        "neighbors.index.indptr": starts,
        "neighbors.index.indices": ids,
        "neighbors.index.data": floats,
        "network.output.weight": rng.standard_normal((50, 7)).astype(np.float32),
        "network.output.bias": rng.standard_normal((50, 1)).astype(np.float32),
        "network.wide.indptr": starts,
        "network.wide.indices": ids,
        "network.wide.weight": 1e-30 * floats[:, None],
        "counts": np.array([0, 5, 1 << 27]),
        "classes": np.array([-4, 0, 9]),
        "seen.features": np.array([7, 255], np.uint8),
    }


def assert_equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert {name: own.dtype for name, own in found.items()} == {name: own.dtype for name, own in expected.items()}
    for name, array in expected.items():
        assert found[name].tobytes() == array.tobytes(), name


def restored(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return all that was narrowed, rows of 8 bits as floats."""
    wide = widen(arrays)
    found = {}
    for name, array in wide.items():
        pointers = next((wide.get(name.replace(own, of)) for own, of in VALUES.items() if name.endswith(own)), None)
        rows = narrow_rows(name, wide, pointers) if name + SCALE in wide else None
        if not name.endswith(SCALE):
            found[name] = array if rows is None else rows.floats()
    return found


def size(arrays: dict[str, Any]) -> int:
    return sum(array.nbytes for array in arrays.values())


def test_parts_of_ids_are_stored_like_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    name, arrays = "neighbors.index.indices", some_arrays()
    arrays[name] //= 2
    whole = narrow(arrays)
    monkeypatch.setattr("sparsenet.storage.narrow.ENTRIES_AT_A_TIME", 4)
    assert_equal(narrow(arrays), whole)
    assert_equal(narrow(arrays | {name: arrays[name].astype(np.uint16)}), whole)


def test_keeps_every_bit_of_any_arrays() -> None:
    assert_equal(restored(narrow(some_arrays())), some_arrays())


def test_rounded_arrays_take_8_bits_and_keep_every_bit() -> None:
    arrays = rounded(some_arrays())
    small = narrow(arrays)
    assert_equal(restored(small), arrays)
    assert size(small) < 0.45 * size(arrays)
    for name in ("neighbors.index.data", "network.output.weight", "network.wide.weight"):
        assert small[name].dtype == np.int8
    assert_equal(rounded(arrays), arrays)


def test_rounds_within_half_a_step() -> None:
    weight = some_arrays()["network.output.weight"]
    weight[3] = 0
    found: Any = rounded({"output.weight": weight})["output.weight"]
    peak = np.abs(weight).max(axis=1, keepdims=True)
    assert (np.abs(found - weight) <= np.where(np.abs(weight) < peak * 126 / 127, 0.5001, 1) * peak / 127).all()
    assert not found[3].any()


@pytest.mark.parametrize(
    "arrays",
    [
        {"indptr": np.array([0, 2]), "indices": np.array([5, 3], np.int32)},  # no ascending ids
        {"indptr": np.array([0, 3]), "indices": np.array([5, 8], np.int32)},  # pointers of another array
        {"starts": np.array([2, 3])},
        {"counts": np.array([-1, 1 << 40])},
        {"output.weight": np.array([[1.0, 0.001]], np.float32), "wide.weight": np.ones((2, 1), np.float32)},
        {"output.weight": np.array([[-0.0, 127.0]], np.float32)},
        {"output.weight": np.array([[np.nan, 1.0]], np.float32), "factors": np.array([np.inf, 0.1], np.float32)},
    ],
)
def test_leaves_what_does_not_fit(arrays: dict[str, Any]) -> None:
    assert_equal(restored(narrow(arrays)), arrays)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"neighbors.index.indices": np.zeros(9, np.uint8)}, "row pointers do not divide"),
        ({"neighbors.index.indices": np.full(45, 255, np.uint8)}, "the last one below 128"),
        ({"neighbors.index.indices": np.tile(np.array([255, 255, 255, 127], np.uint8), 45)}, "too large"),
        ({"neighbors.index.data.scale": np.zeros(3, np.uint16)}, "8-bit rows"),
        ({"neighbors.index.data": np.zeros(44, np.int8)}, "8-bit rows"),
        ({"network.output.weight.scale": np.full(50, 0x7F80, np.uint16)}, "must be finite"),
        ({"tree.level0.weights.mask": np.full((45, 2), 255, np.uint8)}, "bytes for 720 places"),
        ({"tree.level0.weights.mask": np.zeros(90, np.uint8)}, "with a mask"),
    ],
)
def test_refuses_damaged_arrays(changed: dict[str, Any], message: str) -> None:
    with pytest.raises((ModelError, ValueError), match=message):
        restored({**narrow(rounded(some_arrays())), **changed})
