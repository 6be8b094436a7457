"""Parts that are held out in turn: their sizes, and how labels are spread over them."""

import numpy as np
import pytest

from sparsenet.core.rows import Rows
from sparsenet.selection.turns import Turns


def labelled(n, n_labels=5):
    return Rows(np.arange(n + 1), (np.arange(n) % n_labels).astype(np.int32), np.ones(n, np.float32), n_labels)


@pytest.mark.parametrize(
    ("n", "sizes"), [(10, (2, 5)), (500, (100, 5)), (2000, (400, 2)), (4000, (800, 1)), (10_000, (1000, 1))]
)
def test_holds_out_a_tenth_or_enough_points(n, sizes):
    assert Turns().sizes(n) == sizes
    parts = Turns().draw(labelled(n), 0)
    assert [len(part.held) for part in parts] == [sizes[0]] * sizes[1]
    held = np.concatenate([part.held for part in parts])
    assert len(np.unique(held)) == len(held)
    for part in parts:
        assert np.array_equal(np.sort(np.concatenate((part.kept, part.held))), np.arange(n))


def test_bounds_the_number_of_points():
    assert Turns().draw(labelled(9), 0) == []
    assert Turns().sizes(10**6) == (5000, 1)
    assert Turns().sizes(1000, most=10) == (10, 5)


def test_spreads_each_label_over_the_parts():
    labels = labelled(100, n_labels=20)
    for part in Turns().draw(labels, 1):
        assert np.bincount(labels.indices[part.held], minlength=20).tolist() == [1] * 20


def test_points_without_labels_are_held_out_too():
    labels = Rows(np.zeros(41, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), 3)
    assert sum(len(part.held) for part in Turns().draw(labels, 0)) == 40
