"""Parameters and their optimizers, beyond the tests of single kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparsenet import SGD, Adagrad, Adam, BinaryCrossEntropy, Network, RandomSampler, SampledOutput, SparseInput
from sparsenet.engines.network.optim import Optimizer, Parameter, Product

ROWS = np.array([4, 0, 2])
#: Rows of three, none and one entry.
PRODUCT = Product(
    np.array([0, 3, 3, 4]),
    np.array([1, 0, 2, 1], np.int32),
    np.array([0.5, -1.0, 2.0, 3.0], np.float32),
    np.random.default_rng(0).normal(size=(3, 17)).astype(np.float32),
)


class Own:
    """An optimizer with just the methods of the protocol."""

    def state_shapes(self, shape: tuple[int, int]) -> dict[str, Any]:
        return {}

    def step(self, value: Any, state: Any, rows: Any, grads: Any, *, step: int, factor: float, threads: int) -> None:
        value[rows] -= factor * step * grads


class Slower(Adam):
    """Adam with half of its rate."""

    def step(self, value: Any, state: Any, rows: Any, grads: Any, *, step: int, factor: float, threads: int) -> None:
        super().step(value, state, rows, grads, step=step, factor=factor / 2, threads=threads)


@pytest.mark.parametrize(
    "optimizer",
    [SGD(rate=0.1), Adagrad(rate=0.1, decay=0.1), Adam(rate=0.1, decay=0.1), Slower(rate=0.1), Own()],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_product_updates_rows_like_its_gradients(optimizer: Optimizer, threads: int) -> None:
    values = []
    for grads in (PRODUCT, PRODUCT.compute(threads=1)):
        parameter = Parameter("weight", (5, 17), optimizer)
        parameter.allocate(np.ones((5, 17), np.float32))
        for step in (1, 2):
            parameter.record(ROWS, grads)
            parameter.apply(step=step, factor=0.5, threads=threads)
        values.append(parameter.value)
    np.testing.assert_array_equal(values[0], values[1])
    assert (values[0][4] != 1).all()
    assert (values[0][[1, 3]] == 1).all()


def test_a_product_sums_the_rows_it_names() -> None:
    expected = [0.5 * PRODUCT.dense[1] - PRODUCT.dense[0] + 2 * PRODUCT.dense[2], 0 * PRODUCT.dense[0]]
    np.testing.assert_allclose(PRODUCT.compute(threads=1), [*expected, 3 * PRODUCT.dense[1]], rtol=1e-6)


def test_weights_and_state_are_aligned_to_cache_lines():
    """A row of 512 bytes then lies on eight cache lines, not nine; NumPy does not align so large an array."""
    output = SampledOutput(64, 30_000, sampler=RandomSampler(), loss=BinaryCrossEntropy(), n_negatives=10)
    network = Network(input=SparseInput(30_000, 64), output=output)
    network.initialise(seed=0)
    large = [parameter for parameter in network.parameters() if min(parameter.shape) > 1]
    assert len(large) > 1
    for parameter in large:
        parameter.record(np.arange(3), np.ones((3, parameter.shape[1]), np.float32))
        parameter.apply(step=1, factor=0.1, threads=1)
        for array in (parameter.value, *parameter.state.values()):
            assert array.ctypes.data % 64 == 0, parameter.name
            assert array.flags.c_contiguous


def test_lazy_adam_moves_a_row_half_as_far_as_dense_adam() -> None:
    """In dense Adam, momentum goes on without a gradient, to ``1 / sqrt(1 - beta2)`` rates for any `beta1`."""
    parameter = Parameter("weight", (2, 3), Adam(rate=1e-3))
    parameter.allocate(np.zeros((2, 3), np.float32))
    parameter.record(np.array([1]), np.array([[4.0, -0.1, 0.0]], np.float32))
    parameter.apply(step=20_000, factor=1.0, threads=1)  # so late that no bias is left to correct
    whole = 1e-3 / np.sqrt(1 - 0.999)
    np.testing.assert_allclose(parameter.value, [[0, 0, 0], [-whole / 2, whole / 2, 0]], rtol=1e-3)


def test_rounded_weights_are_held_in_8_bits_until_something_reads_or_sets_floats() -> None:
    weight = Parameter("weight", (2, 3), SGD())
    floats = np.array([[127, -3, 0], [0.5, 63.5, 1]], np.float32)
    weight.allocate(floats)
    weight.keep_narrow()
    assert is_narrow(weight)
    assert [array.nbytes for array in weight.arrays()] == [6, 4]
    np.testing.assert_array_equal(weight.value, floats)
    assert not is_narrow(weight), "training may change the floats"
    coded = weight.coded()
    assert coded is not None, "saving finds the codes again"
    np.testing.assert_array_equal(coded.floats(), floats)
    weight.keep_narrow()
    weight.value = 2 * floats
    assert not is_narrow(weight)
    weight.allocate(floats + np.float32(1e-3))
    weight.keep_narrow()
    assert not is_narrow(weight), "other weights stay as they are"


def is_narrow(weight: Parameter) -> bool:
    return weight.narrow is not None


def test_weights_that_were_never_set_are_missing() -> None:
    weight = Parameter("weight", (2, 3), SGD())
    assert not weight.has_weights
    with pytest.raises(AttributeError, match="value"):
        weight.value  # noqa: B018
