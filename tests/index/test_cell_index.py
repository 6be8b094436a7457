"""Coarse cells: what they find, and that changes and threads do not matter."""

import tracemalloc

import numpy as np
import pytest

from sparsenet.index.cells import CellIndex, CellsConfig, spherical_kmeans
from sparsenet.index.cells import cell_index as module
from sparsenet.index.cells.group_codes import Codebook
from sparsenet.index.exact import exact_topk
from sparsenet.index.vector_index import Examples, calibrate, share_found

RNG = np.random.default_rng(0)
N_LABELS, WIDTH = 600, 16
PLACES = RNG.normal(size=(20, WIDTH))
WEIGHT = (PLACES[np.arange(N_LABELS) % 20] + RNG.normal(size=(N_LABELS, WIDTH))).astype(np.float32)
BIAS = RNG.normal(size=N_LABELS).astype(np.float32)
QUERIES = (WEIGHT[::3] + 0.7 * RNG.normal(size=WEIGHT[::3].shape)).astype(np.float32)


def built(examples=None, threads=1, **settings):
    index = CellIndex(CellsConfig(**settings), threads)
    index.rebuild(WEIGHT, BIAS, examples)
    return index


def test_all_cells_give_the_exact_best_labels():
    index = built(n_candidates=N_LABELS)
    labels, scores = index.topk(QUERIES, WEIGHT, BIAS, 5, index.max_effort)
    exact, best = exact_topk(QUERIES, WEIGHT, BIAS, 5, 1)
    np.testing.assert_array_equal(labels, exact)
    np.testing.assert_allclose(scores, best, rtol=1e-5, atol=1e-5)


def test_few_cells_find_most_labels_and_scan_few():
    labels, _, scanned = built(n_candidates=60).search(QUERIES, WEIGHT, BIAS, 1, 20)
    assert share_found(exact_topk(QUERIES, WEIGHT, BIAS, 1, 1)[0], labels) > 0.95
    assert scanned.mean() < 0.4 * N_LABELS


def test_codes_find_most_of_the_best_labels():
    index, exact = built(), exact_topk(QUERIES, WEIGHT, BIAS, 1, 1)[0]
    index.calibrate_candidates(QUERIES, WEIGHT, BIAS, exact, 0.96)
    assert share_found(exact, index.topk(QUERIES, WEIGHT, BIAS, 1, index.max_effort)[0]) >= 0.98
    assert index.n_candidates <= 0.2 * N_LABELS


def test_sums_of_many_groups_do_not_overflow():
    """The codes of the best row are the largest in all 1,252 groups."""
    weight, bias = np.repeat(np.arange(16, dtype=np.float32)[:, None], 5000, axis=1), np.zeros(16, np.float32)
    index = CellIndex(CellsConfig(n_cells=1, n_candidates=1))
    index.rebuild(weight, bias)
    queries = np.ones((2, 5000), np.float32) * np.float32([[1], [-1]])
    assert index.topk(queries, weight, bias, 1, 1)[0].ravel().tolist() == [15, 0]


def test_results_do_not_depend_on_threads():
    examples = Examples(QUERIES, np.arange(len(QUERIES) + 1), np.arange(len(QUERIES), dtype=np.int32))
    found = [built(examples, threads).search(QUERIES, WEIGHT, BIAS, 5, 3) for threads in (1, 2)]
    for one, other in zip(*found, strict=True):
        assert one.tobytes() == other.tobytes()


def test_cells_list_the_labels_seen_there():
    places = np.eye(8, WIDTH, dtype=np.float32)
    seen = np.arange(8, dtype=np.int32)
    weight = np.roll(places, 1, axis=0)  # no row falls into the cell of its label's input
    weight[:, 8] = 10 - np.arange(8)
    index = CellIndex(CellsConfig(n_cells=8, n_candidates=1))
    index.rebuild(weight, np.zeros(8, np.float32), Examples(places, np.arange(9), seen))
    pairs = [index._labels[index._starts[c] : index._starts[c + 1]].tolist() for c in range(8)]
    falls = {int(np.argmax(index._centroids @ place)): label for label, place in enumerate(places)}
    assert all(falls[c] in pairs[c] for c in range(8))
    assert sum(map(len, pairs)) == 16


def test_updated_rows_are_found_like_after_a_rebuild():
    index, weight, bias = built(n_candidates=N_LABELS), WEIGHT.copy(), BIAS.copy()
    rows = np.array([7, 500, 3])
    weight[rows], bias[rows] = -weight[rows], 3
    index.update(weight, bias, rows)
    assert index.topk(weight[rows], weight, bias, 1, 1)[0][:, 0].tolist() == rows.tolist()
    labels, _ = index.topk(QUERIES, weight, bias, 5, index.max_effort)
    np.testing.assert_array_equal(labels, exact_topk(QUERIES, weight, bias, 5, 1)[0])


def test_update_codes_changed_rows_alone(monkeypatch):
    examples = Examples(QUERIES, np.arange(len(QUERIES) + 1), np.arange(len(QUERIES), dtype=np.int32))
    index, other, coded, codes = built(examples), built(examples), [], Codebook.codes
    weight, bias, rows = (
        np.concatenate((WEIGHT, 2 * WEIGHT[:2])),
        np.append(BIAS, [9, 9]).astype(np.float32),
        [7, 500, 3],
    )
    weight[rows] = -weight[rows]
    changed = np.array([*rows, N_LABELS, N_LABELS + 1])

    def counted(self, given):
        coded.append(given)
        return codes(self, given)

    monkeypatch.setattr(Codebook, "codes", counted)
    index.update(weight, bias, changed)
    seen = np.bincount(examples.labels, minlength=len(weight))
    assert {row.tobytes() for row in np.concatenate(coded)} == {
        row.tobytes() for row in np.column_stack((weight, bias))[changed]
    }
    assert len(changed) <= sum(map(len, coded)) <= len(changed) + seen[changed].sum()
    other.update(weight, bias, np.arange(len(weight)))
    assert index._codes.blocks.tobytes() == other._codes.blocks.tobytes()


def test_new_labels_are_inserted():
    index = built(n_candidates=50)
    weight, bias = np.concatenate((WEIGHT, 2 * WEIGHT[:2])), np.append(BIAS, [9, 9]).astype(np.float32)
    index.update(weight, bias, np.array([N_LABELS, N_LABELS + 1]))
    assert index.topk(WEIGHT[:2], weight, bias, 1, 1)[0][:, 0].tolist() == [N_LABELS, N_LABELS + 1]
    with pytest.raises(ValueError, match="rows must name the 1 new labels"):
        index.update(np.concatenate((weight, weight[:1])), np.append(bias, bias[:1]), np.array([0]))


def test_more_cells_are_scanned_until_there_are_k_labels():
    labels, _ = built(n_candidates=1).topk(QUERIES, WEIGHT, BIAS, 100, 1)
    assert labels.min() >= 0


def test_calibration_finds_the_lowest_effort():
    index, exact = built(n_candidates=100), exact_topk(QUERIES, WEIGHT, BIAS, 3, 1)[0]
    found = calibrate(index, QUERIES, WEIGHT, BIAS, exact, 0.9)
    assert found.recall == share_found(exact, index.topk(QUERIES, WEIGHT, BIAS, 3, found.effort)[0]) >= 0.9
    assert share_found(exact, index.topk(QUERIES, WEIGHT, BIAS, 3, found.effort - 1)[0]) < 0.9
    unreachable = calibrate(index, QUERIES, WEIGHT, BIAS, np.full_like(exact, -5), 0.9)
    assert unreachable == (index.max_effort, 0)


def test_memory_is_announced_and_refused(monkeypatch):
    index = built()
    assert index.nbytes == index.memory(N_LABELS, WIDTH)
    announced = index.peak_memory(N_LABELS, WIDTH)
    monkeypatch.setattr(module, "available_memory", lambda: announced - 1)
    with pytest.raises(MemoryError, match="an index of 600 labels needs"):
        built()


def test_update_is_refused_before_anything_changes(monkeypatch):
    index = built()
    needed = index.update_memory(N_LABELS, WIDTH)
    monkeypatch.setattr(module, "available_memory", lambda: needed - 1)
    before = index.topk(QUERIES, WEIGHT, BIAS, 3, 5)[0]
    with pytest.raises(MemoryError, match="updating an index of 600 labels needs"):
        index.update(-WEIGHT, BIAS, np.arange(N_LABELS))
    np.testing.assert_array_equal(index.topk(QUERIES, WEIGHT, BIAS, 3, 5)[0], before)


def test_building_and_updating_take_no_more_memory_than_announced():
    n, width = 90_000, 16  # the scratch memory of a block is less than what is sorted
    weight, bias = np.ones((n, width), np.float32), np.zeros(n, np.float32)
    weight += RNG.normal(size=weight.shape).astype(np.float32)
    examples = Examples(weight[:9000], np.arange(9001), np.arange(9000, dtype=np.int32))
    for given, listed in ((None, 0), (examples, 9000)):
        index = CellIndex(CellsConfig(n_iterations=1))
        tracemalloc.start()
        index.rebuild(weight, bias, given)
        held, peak = tracemalloc.get_traced_memory()
        assert 0.4 * index.peak_memory(n, width, listed) < peak < index.peak_memory(n, width, listed)
        tracemalloc.reset_peak()
        index.update(weight, bias, np.arange(n))
        peak = tracemalloc.get_traced_memory()[1] - held
        tracemalloc.stop()
        assert 0.4 * index.update_memory(n, width, listed) < peak < index.update_memory(n, width, listed)


def test_kmeans_repeats_vectors_if_they_are_fewer_than_cells():
    centroids = spherical_kmeans(np.eye(3, dtype=np.float32), 5, n_iterations=2, seed=0, threads=1)
    assert {tuple(row) for row in centroids} <= {tuple(row) for row in np.eye(3)}
    assert len({tuple(row) for row in centroids}) == 3


def test_zero_and_unusable_queries_get_the_best_biases():
    queries = np.zeros((2, WIDTH), np.float32)
    labels = built(n_candidates=60).topk(queries, WEIGHT, BIAS, 1, 200)[0]
    best = int(np.argmax(BIAS))
    np.testing.assert_array_equal(labels, [[best]] * 2)
    queries[1, 3] = np.nan
    assert np.isneginf(built().topk(queries, WEIGHT, BIAS, 1, 200)[1][1, 0])
