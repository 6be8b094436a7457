"""Vectors in 8 bits behind cells: rounding, recall, threads and memory."""

import tracemalloc
from typing import NamedTuple

import numpy as np
import pytest

from sparsenet.index.cells import CellsConfig, VectorCells
from sparsenet.index.cells.group_codes import n_groups_of
from sparsenet.index.vector_index import share_found

RNG = np.random.default_rng(0)
N, WIDTH = 2000, 24
PLACES = RNG.normal(size=(40, WIDTH))
POINTS = (PLACES[np.arange(N) % 40] + RNG.normal(size=(N, WIDTH))).astype(np.float32)
POINTS /= np.linalg.norm(POINTS, axis=1, keepdims=True)
QUERIES = (POINTS[::9] + 0.1 * RNG.normal(size=POINTS[::9].shape)).astype(np.float32)


class InMemory(NamedTuple):
    rows: np.ndarray

    @property
    def width(self):
        return self.rows.shape[1]

    def take(self, at):
        return self.rows[at]


def built(points=POINTS, threads=1, **settings):
    return VectorCells.build(InMemory(points), np.arange(len(points)), CellsConfig(**settings), threads=threads)


def test_products_are_nearly_exact():
    ids, products = built().nearest(QUERIES, 10, 1)
    np.testing.assert_allclose(products, np.einsum("ij,ikj->ik", QUERIES, POINTS[ids]), atol=0.005)
    best = np.argsort(-QUERIES @ POINTS.T, axis=1)[:, :10]
    assert share_found(best, ids) > 0.97


def test_rounding_is_relative_to_the_spread_within_cells():
    """Without the means of cells, 8 bits of these vectors would all be equal."""
    near = np.float32([1, 0, 0, 0]) + 1e-4 * RNG.normal(size=(500, 4)).astype(np.float32)
    ids, _ = built(near, n_cells=1).nearest(near, 1, 1)
    assert (ids[:, 0] == np.argmax(near @ near.T, axis=1)).mean() > 0.9


def test_only_listed_vectors_are_found():
    cells = VectorCells.build(InMemory(POINTS), np.arange(0, N, 100))
    ids, products = cells.nearest(QUERIES, 30, 1)
    assert set(ids[:, :20].ravel().tolist()) == set(range(0, N, 100))
    assert (ids[:, 20:] == -1).all()
    assert np.isneginf(products[:, 20:]).all()


def test_calibration_finds_the_lowest_effort():
    cells = built()
    exact, found = cells.nearest(QUERIES, 10, 1)[0], cells.calibrated(QUERIES, 10, 0.9, 1)
    assert share_found(exact, found.nearest(QUERIES, 10, 1)[0]) >= 0.9
    assert share_found(exact, found.nearest(QUERIES, 10, 1, found.effort - 1)[0]) < 0.9
    assert found.search(QUERIES, 10, 1)[2].mean() < 0.5 * N
    assert cells.calibrated(QUERIES, 10, 1.0, 1).effort <= len(cells.lengths)


def test_results_do_not_depend_on_threads():
    one, two = (built(threads=threads) for threads in (1, 2))
    for first, second in zip(one.arrays(), two.arrays(), strict=True):
        assert first.tobytes() == second.tobytes()
    for first, second in zip(one.search(QUERIES, 5, 1, 3), two.search(QUERIES, 5, 2, 3), strict=True):
        assert first.tobytes() == second.tobytes()


def test_kernels_take_the_groups_of_any_width():
    assert [n_groups_of(width) for width in (1, 25, 10**7)] == [4, 8, 65532]


@pytest.mark.parametrize(("n", "width", "settings"), [(60_000, 32, {}), (300_000, 3, {"n_cells": 32})])
def test_building_takes_no_more_memory_than_announced(n, width, settings):
    points, settings = 1 + RNG.normal(size=(n, width)).astype(np.float32), {"n_iterations": 1, **settings}
    tracemalloc.start()
    built(points, **settings)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    announced = VectorCells.peak_memory(n, width, CellsConfig(**settings))
    assert 0.5 * announced < peak < announced
