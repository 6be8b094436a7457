"""Kernel gradients against finite differences of the oracle's loss, and optimizers over many lazy steps."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support import reference
from tests.support.kernel_calls import Arguments, Shape, aligned, csr, normal, wide_batch
from tests.support.kernel_cases import calls

Array = NDArray[Any]


def slope(loss: Callable[[Array], float], at: Array, step: float = 1e-5) -> Array:
    """Differentiate by central differences."""
    at = at.astype(np.float64)
    out = np.empty_like(at)
    for i in np.ndindex(at.shape):
        nudge = np.zeros_like(at)
        nudge[i] = step
        out[i] = (loss(at + nudge) - loss(at - nudge)) / (2 * step)
    return out


def assert_slope(found: Array, expected: Array) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", [0, 1], ids=["plain", "smoothed"])
def test_bce_gradient_is_the_slope_of_its_loss(backend: ModuleType, form: int) -> None:
    _, call = list(calls("bce_gradient", Shape(9, 0, 7)))[form]
    x = call.arguments
    positives = (x["positive_indptr"], x["positive_points"], x["positive_weights"], x["negative_weights"])
    targets, weights = reference.bce_targets(x["logits"].shape, *positives, x["smoothing"])

    def loss(logits: Array) -> float:
        return float(x["scale"] * reference.bce_loss(logits, targets, weights).sum())

    assert_slope(call.run(backend)["logits"], slope(loss, x["logits"]))


@pytest.mark.parametrize("form", [0, 1], ids=["plain", "smoothed"])
def test_softmax_gradient_is_the_slope_of_its_loss(backend: ModuleType, form: int) -> None:
    _, call = list(calls("softmax_gradient", Shape(9, 0, 7)))[form]
    x = call.arguments
    positives = (x["positive_indptr"], x["positive_points"], x["positive_weights"])
    targets = reference.softmax_targets(x["logits"].shape, *positives, x["smoothing"])

    def loss(logits: Array) -> float:
        return float(x["scale"] * reference.softmax_loss(logits, targets, x["log_expected"]).sum())

    assert_slope(call.run(backend)["logits"], slope(loss, x["logits"]))


class Composition:
    """A batch through both paths to the loss: logits = weight[active] @ hidden.T + the wide scores."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.shape = Shape(6, 5, 7)
        self.wide = wide_batch(rng, self.shape)
        self.weight = normal(rng, self.shape.labels + 5, self.shape.width)
        self.hidden = normal(rng, self.shape.n, self.shape.width)
        self.active = self.wide["active"]
        indptr, points, weights = csr(rng, self.shape.labels, self.shape.n, most=3)
        negatives = np.ones(self.shape.labels, np.float32)
        self.positives = (indptr, points, np.abs(weights) + np.float32(0.5), negatives)

    def of_batch(self, *names: str) -> Arguments:
        return {name: self.wide[name] for name in ("touched_indptr", "touched", "touched_slots", *names)}

    def loss(self, weight: Array, hidden: Array, wide_weights: Array) -> float:
        n, labels = self.shape.n, self.shape.labels
        wide = self.wide
        points = reference.dense_postings(wide["starts"], wide["rows"], wide["values"], n)
        support = np.zeros((labels, points.shape[1]))
        for label, entries in enumerate(reference.ranges(wide["touched_indptr"])):
            support[label, wide["touched_slots"][entries]] = wide_weights[wide["touched"][entries]]
        logits = weight[self.active] @ hidden.T + support @ points.T
        targets, weights = reference.bce_targets(logits.shape, *self.positives, 0.1)
        return float(reference.bce_loss(logits, targets, weights).sum())

    def gradients(self, backend: ModuleType) -> tuple[Array, Array, Array, float]:
        """Go forward and backward by kernels: gradients of active rows, of hidden, of touched weights; the loss."""
        n, labels = self.shape.n, self.shape.labels
        postings = ("starts", "rows", "values", "dense_of", "dense")
        tile, losses = np.empty((labels, n), np.float32), np.empty(labels)
        backend.matmul(self.weight, self.hidden, tile, self.active, None, None, False, True, False, 2)
        backend.wide_forward(**self.of_batch("weights", *postings), out=tile, threads=2)
        backend.bce_gradient(tile, *self.positives, 0.1, 1.0, losses, 2)
        grad_weight, grad_hidden = np.empty((labels, self.shape.width), np.float32), np.empty_like(self.hidden)
        grad_wide = np.empty(len(self.wide["touched"]), np.float32)
        backend.matmul(tile, self.hidden, grad_weight, None, None, None, False, False, False, 2)
        backend.matmul(tile, self.weight, grad_hidden, None, self.active, None, True, False, False, 2)
        backend.wide_gradient(**self.of_batch(*postings), grad=tile, out=grad_wide, threads=2)
        return grad_weight, grad_hidden, grad_wide, float(losses.sum())


def test_gradients_of_both_paths_together_are_the_slopes_of_the_loss(backend: ModuleType) -> None:
    model = Composition()
    grad_weight, grad_hidden, grad_wide, loss = model.gradients(backend)
    weight, hidden, wide = model.weight, model.hidden, model.wide["weights"]
    np.testing.assert_allclose(loss, model.loss(weight, hidden, wide), rtol=1e-5)
    assert_slope(grad_hidden, slope(lambda x: model.loss(weight, x, wide), hidden))
    assert_slope(grad_weight, slope(lambda x: model.loss(x, hidden, wide), weight)[model.active])
    assert_slope(grad_wide, slope(lambda x: model.loss(weight, hidden, x), wide)[model.wide["touched"]])


# --- optimizers ---


def lazy_steps(n_rows: int, width: int) -> list[tuple[Array, Array]]:
    """Draw the rows and gradients of some steps; most rows sit out most of them, a few all but the last."""
    rng = np.random.default_rng(7)
    chosen = [np.flatnonzero(rng.random(n_rows) < 0.3) for _ in range(20)] + [np.arange(n_rows)]
    return [(rng.permutation(rows), normal(rng, len(rows), width)) for rows in chosen]


@pytest.mark.parametrize("function", ["sgd_rows", "adagrad_rows", "adam_rows"])
def test_optimizer_follows_the_oracle_over_many_lazy_steps(backend: ModuleType, function: str) -> None:
    rng = np.random.default_rng(1)
    value = normal(rng, 13, 17)
    settings: Arguments = {"rate": 0.05, "decay": 0.01}
    state: Arguments = {"value": value}
    if function == "adagrad_rows":
        settings |= {"epsilon": 1e-6}
        state |= {"squares": np.full_like(value, 0.1)}
    if function == "adam_rows":
        settings |= {"epsilon": 1e-6, "beta1": 0.9, "beta2": 0.999}
        state |= {"first": np.zeros_like(value), "second": np.zeros_like(value), "last_step": np.zeros(13, np.int32)}
    found = {name: aligned(x) for name, x in state.items()}
    expected = state
    for step, (rows, grads) in enumerate(lazy_steps(*value.shape), start=1):
        if function == "adam_rows":
            settings["step"] = step
        arguments = {"rows": rows, "grads": grads, **settings}
        getattr(backend, function)(**found, **arguments, threads=2)
        expected = getattr(reference, function)(**expected, **arguments)
    for name, wanted in expected.items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-4, err_msg=name)


def test_skipped_steps_decay_the_moments_and_do_not_move_the_row(backend: ModuleType) -> None:
    value, first, second = (np.full((2, 3), x, np.float32) for x in (1.0, 0.5, 0.25))
    last_step, zero = np.array([3, 9], np.int32), np.zeros((1, 3), np.float32)
    rows, form = np.array([0]), {"rate": 0.0, "beta1": 0.5, "beta2": 0.5, "epsilon": 1e-8, "decay": 0.0}
    backend.adam_rows(value, first, second, last_step, rows, zero, step=10, **form, threads=1)
    assert last_step.tolist() == [10, 9]
    np.testing.assert_array_equal(first, [[0.5 * 0.5**7] * 3, [0.5] * 3])
    np.testing.assert_array_equal(second, [[0.25 * 0.5**7] * 3, [0.25] * 3])
    np.testing.assert_array_equal(value, 1.0)
