"""One-vs-rest classifiers by dual coordinate descent: against SciPy's solver, across backends and threads."""

from __future__ import annotations

import importlib
import signal
import time

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

from tests.support.backends import has_extension


def problem(n=60, d=12, n_labels=5, seed=0, density=0.4):
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, d), density=density, rng=rng, dtype=np.float32).tocsr()
    Y = sparse.csr_array(rng.random((n, n_labels)) < 0.3)
    return X, Y, rng.uniform(0.1, 2, n_labels).astype(np.float32), rng.uniform(0.1, 2, n_labels).astype(np.float32)


def train(module, X, Y, positive, negative, *, width=4, epochs=3000, tolerance=1e-6, first=0, threads=1, seed=0):
    n_blocks = -(-(Y.shape[1] - first) // width)
    padding = np.full(n_blocks * width - Y.shape[1] + first, 1e30, np.float32)
    weight = np.zeros((n_blocks, X.shape[1] + 1, width), np.float32)
    used = np.zeros(n_blocks, np.int32)
    squares = 1 + np.asarray(X.multiply(X).sum(axis=1), np.float32).ravel()
    module.dual_train(
        X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data, squares,
        Y.indptr.astype(np.int64), Y.indices.astype(np.int32), first,
        np.concatenate([positive[first:], padding]), np.concatenate([negative[first:], padding]),
        epochs, tolerance, seed, weight, used, threads,
    )  # fmt: skip
    return weight.transpose(1, 0, 2).reshape(X.shape[1] + 1, -1), used


def optimum(X, y, positive, negative):
    dense = np.hstack([X.toarray(), np.ones((X.shape[0], 1))]).astype(np.float64)
    slack, sign = np.where(y, positive, negative), np.where(y, 1.0, -1.0)

    def loss(w):
        short = np.maximum(1 - sign * (dense @ w), 0)
        return w @ w / 2 + (short**2 / slack).sum() / 2, w - dense.T @ (sign * short / slack)

    return minimize(loss, np.zeros(dense.shape[1]), jac=True, method="L-BFGS-B", options={"ftol": 1e-15}).x


@pytest.mark.parametrize("width", [1, 4, 8, 16])
def test_reaches_the_optimum(backend, width):
    X, Y, positive, negative = problem()
    weight, _ = train(backend, X, Y, positive, negative, width=width)
    for label in range(Y.shape[1]):
        best = optimum(X, Y[:, [label]].toarray()[:, 0], positive[label], negative[label])
        np.testing.assert_allclose(weight[:, label], best, atol=2e-3)
    assert np.abs(weight[:, Y.shape[1] :]).max(initial=0) < 1e-20, "padding learns nothing"


def test_threads_change_nothing(backend):
    X, Y, *slacks = problem(200, 30, 37)
    one, _ = train(backend, X, Y, *slacks, width=8, epochs=5)
    for threads in (2, 4):
        np.testing.assert_array_equal(train(backend, X, Y, *slacks, width=8, epochs=5, threads=threads)[0], one)
    assert not np.array_equal(train(backend, X, Y, *slacks, width=8, epochs=5, seed=1)[0], one)


def test_labels_can_be_trained_in_parts(backend):
    X, Y, *slacks = problem(200, 30, 12)
    whole, _ = train(backend, X, Y, *slacks, epochs=3)
    part, _ = train(backend, X, Y, *slacks, epochs=3, first=8)
    np.testing.assert_array_equal(part, whole[:, 8:])


@pytest.mark.levels
@pytest.mark.skipif(not has_extension(), reason="needs both backends")
def test_native_agrees_with_numba():
    native, numba = (importlib.import_module(n) for n in ("sparsenet._core", "sparsenet.kernels.numba"))
    X, Y, *slacks = problem(100, 20, 9)
    for epochs in (1, 4):
        a, b = (train(m, X, Y, *slacks, width=16, epochs=epochs)[0] for m in (native, numba))
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_padding_points_take_no_passes(backend):
    """Labels beside padding take as many passes as the same labels in a full block."""
    X, Y, *slacks = problem(200, 30, 4)
    whole, used = train(backend, X, Y, *slacks, width=4, epochs=500, tolerance=1e-2)
    padded, with_padding = train(backend, X, Y, *slacks, width=8, epochs=500, tolerance=1e-2)
    assert used[0] < 500
    assert with_padding.tolist() == used.tolist()
    np.testing.assert_allclose(padded[:, :4], whole, atol=1e-4)


@pytest.mark.levels
@pytest.mark.skipif(not has_extension(), reason="needs both backends")
def test_native_agrees_with_numba_on_resting_points():
    """With rare labels beside padding, the same points rest from the first pass on."""
    native, numba = (importlib.import_module(n) for n in ("sparsenet._core", "sparsenet.kernels.numba"))
    X, Y, *slacks = problem(400, 30, 3)
    keep = np.random.default_rng(1).random(Y.nnz) < 0.05
    Y = sparse.csr_array((Y.data * keep, Y.indices, Y.indptr), shape=Y.shape)
    Y.eliminate_zeros()
    for epochs in (2, 6, 40):
        (a, used), (b, also) = (train(m, X, Y, *slacks, width=8, epochs=epochs, tolerance=0.3) for m in (native, numba))
        assert used.tolist() == also.tolist()
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_accepts_extents_of_zero(backend):
    X, Y, *slacks = problem(0, 3, 2)
    weight, used = train(backend, X, Y, *slacks)
    assert not weight.any()
    assert used.tolist() == [0]
    X, Y, *slacks = problem(5, 0, 2)
    assert train(backend, X, Y, *slacks)[0].shape == (1, 4)


def test_training_stops_at_convergence(backend):
    X, Y, *slacks = problem()
    _, used = train(backend, X, Y, *slacks, tolerance=1e-2)
    assert (used < 3000).all()


def test_rejects_wrong_arguments(backend):
    X, Y, positive, negative = problem()
    with pytest.raises(ValueError, match="weight must have 1, 4, 8 or 16 columns"):
        train(backend, X, Y, positive, negative, width=5)
    with pytest.raises(ValueError, match="slack"):
        train(backend, X, Y, positive[:3], negative)
    with pytest.raises(ValueError, match="threads"):
        train(backend, X, Y, positive, negative, threads=0)


@pytest.mark.skipif(not has_extension(), reason="Numba's kernels end before Ctrl-C is noticed")
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_long_training(threads):
    """Without it, a million passes take minutes."""
    native, started = importlib.import_module("sparsenet._core"), time.monotonic()
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            train(native, *problem(n=2000, n_labels=40), epochs=1_000_000, tolerance=1e-30, threads=threads)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - started < 10
    train(native, *problem(), epochs=3, threads=threads)  # the pool goes on
