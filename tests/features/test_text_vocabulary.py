"""Counts that vocabularies are learnt from, of texts and labels of each slot, on every backend and level."""

from __future__ import annotations

import numpy as np
import pytest

from sparsenet.features.text.featuriser import FeatureRules, TextRows
from sparsenet.features.text.vocabulary import Vocabulary

BITS, N_TEXTS, N_LABELS = 9, 60, 5
RNG = np.random.default_rng(0)


def texts(lengths: np.ndarray) -> TextRows:
    """Draw texts of distinct slots; the first half of the slots are frequent."""
    rows = [RNG.choice(1 << BITS, size, replace=False).astype(np.int32) for size in lengths]
    slots = np.concatenate([*rows, np.empty(0, np.int32)])
    return TextRows(np.concatenate(([0], np.cumsum(lengths))), slots, np.ones(len(slots), np.uint8))


ROWS = texts(RNG.integers(0, 80, N_TEXTS))
LABELS = RNG.integers(N_LABELS, size=N_TEXTS).astype(np.int32)


def presence(rows: TextRows) -> np.ndarray:
    """Return which text has which slot, (n_texts, n_slots)."""
    found = np.zeros((len(rows), 1 << BITS), bool)
    found[np.repeat(np.arange(len(rows)), np.diff(rows.indptr)), rows.slots] = True
    return found


def test_texts_of_slots(backend):
    counts = np.full(1 << BITS, 7, np.int32)
    backend.count_slots(ROWS.slots, counts)
    np.testing.assert_array_equal(counts, 7 + presence(ROWS).sum(axis=0))


@pytest.mark.parametrize("slots", [[-1], [1 << BITS]])
def test_rejects_slots_out_of_range(backend, slots):
    with pytest.raises(ValueError, match="slots must be below the size of texts"):
        backend.count_slots(np.array(slots, np.int32), np.zeros(1 << BITS, np.int32))


@pytest.mark.parametrize(("first", "n"), [(0, 200), (0, 60), (37, 90), (199, 1), (50, 0)])
def test_texts_of_each_label(backend, first, n):
    slots = np.sort(RNG.choice(1 << BITS, 200, replace=False)).astype(np.int32)
    words = Vocabulary(FeatureRules(bits=BITS), slots, np.ones(200, np.float32))
    counts = np.full((n, N_LABELS), 3, np.int32)
    backend.count_labels(ROWS.indptr[1:], ROWS.slots, ROWS.counts, LABELS, *words.tables, first, counts)
    of_label = np.arange(N_LABELS)[:, None] == LABELS
    expected = 3 + (of_label.astype(int) @ presence(ROWS)[:, slots[first : first + n]]).T
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ends": np.array([3, 2])}, "ends must"),
        ({"ends": np.array([2, 5])}, "ends must"),
        ({"slots": np.array([0, 1, 2, -1], np.int32)}, "slots must be below"),
        ({"slots": np.array([0, 1, 2, 1 << BITS], np.int32)}, "slots must be below"),
        ({"labels": np.array([0, N_LABELS], np.int32)}, "labels must be below"),
        ({"labels": np.array([0, -1], np.int32)}, "labels must be below"),
        ({"ranks": np.zeros((1 << BITS) // 64, np.int32)}, "ranks must count"),
    ],
)
def test_rejects_what_cannot_be_counted(backend, change, message):
    words = Vocabulary(FeatureRules(bits=BITS), np.arange(100, dtype=np.int32), np.ones(100, np.float32))
    used, ranks = words.tables
    arguments = {
        "ends": np.array([2, 4]),
        "slots": np.array([1, 2, 3, 4], np.int32),
        "counts": np.ones(4, np.uint8),
        "labels": np.array([0, 1], np.int32),
        "used": used,
        "ranks": ranks,
        "first": 0,
        "out": np.zeros((100, N_LABELS), np.int32),
    }
    backend.count_labels(**arguments)
    with pytest.raises(ValueError, match=message):
        backend.count_labels(**{**arguments, **change})
