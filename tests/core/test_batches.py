"""Rows of sparse matrices: reductions, stored zeros, selection, batches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from sparsenet.core.batches import Slots
from sparsenet.core.centroids import lengths
from sparsenet.core.rows import Rows, by_row, squares


@pytest.mark.parametrize("empty", [(), (0,), (3, 4, 5), (0, 1, 5), (0, 1, 2, 3, 4, 5)])
def test_reduces_each_row_separately(empty: tuple[int, ...]) -> None:
    """Empty rows may stand anywhere; those at the end do not cut the row before them."""
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((6, 4)).astype(np.float32)
    dense[list(empty)] = 0
    rows = Rows.of(csr_array(dense))
    np.testing.assert_allclose(by_row(np.add, rows.data, rows.indptr), dense.sum(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(by_row(np.maximum, np.abs(rows.data), rows.indptr), np.abs(dense).max(axis=1))
    np.testing.assert_allclose(lengths(rows), np.linalg.norm(dense, axis=1), rtol=1e-6)
    np.testing.assert_allclose(squares(rows), 1 + np.square(dense).sum(axis=1), rtol=1e-5)


def test_drops_stored_zeros() -> None:
    matrix = csr_array(([1.0, 0.0, 2.0, 0.0, 0.0], ([0, 0, 0, 1, 3], [0, 1, 4, 2, 3])), shape=(5, 6))
    rows = Rows.of(matrix)
    assert (rows.indptr.tolist(), rows.indices.tolist()) == ([0, 2, 2, 2, 2, 2], [0, 4])
    assert rows.data.tolist() == [1, 2]
    assert matrix.nnz == 5
    assert Rows.of(matrix, keep_zeros=True).indices.tolist() == [0, 1, 4, 2, 3]
    assert Rows.of(matrix, np.array([0, 1, 0, 1, 1])).indices.tolist() == [1, 2, 3]


def test_rejects_row_ids_out_of_range() -> None:
    rows = Rows.of(csr_array(np.eye(6, dtype=np.float32)))
    assert rows.take(np.array([5, 0, 5], np.int32)).indices.tolist() == [5, 0, 5]
    assert len(rows.take(np.empty(0, np.int64))) == 0
    for wrong in ([-1], [6], [0, -2]):
        with pytest.raises(IndexError, match="and there are 6 rows"):
            rows.take(np.array(wrong))
    for kind in (np.ones(6, bool), np.array([1.7])):
        with pytest.raises(TypeError, match="must be whole numbers"):
            rows.take(kind)


@pytest.mark.parametrize("share", [0.001, 0.5])
def test_batches_do_not_leak_into_each_other(share: float) -> None:
    rng, slots = np.random.default_rng(0), Slots(2000)
    for growth in (1, 2, 1.5):  # where there is more, it lies elsewhere
        rows = Rows.of(random_array((5, 2000), density=growth * share, rng=rng, format="csr", dtype=np.float32))
        postings = slots.transpose(rows)
        np.testing.assert_array_equal(np.flatnonzero(postings.slots >= 0), np.unique(rows.indices))
        np.testing.assert_array_equal(postings.slots[postings.ids], np.arange(len(postings.ids)))
        assert len(postings.ids) == len(np.unique(rows.indices)) > 0
    assert (slots.transpose(Rows.of(csr_array((5, 2000), dtype=np.float32))).slots == -1).all()


def test_checksum_covers_only_the_entries_of_rows() -> None:
    indptr, ids, values = np.array([0, 1, 2]), np.array([3, 4, 7], np.int32), np.ones(3, np.float32)
    assert Rows(indptr, ids, values, 9).checksum() == Rows(indptr, ids[:2], values[:2], 9).checksum()
    assert Rows(indptr, ids, values, 9).checksum() != Rows(indptr, ids[1:], values[1:], 9).checksum()
