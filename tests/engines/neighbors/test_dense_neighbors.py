"""Neighbors of dense points: an exact comparison with all points."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from scipy import sparse

from sparsenet import BlendClassifier, ExtremeClassifier, Rows
from sparsenet.core.rows import transpose
from sparsenet.engines.neighbors import neighbors as neighbors_module
from sparsenet.engines.neighbors.neighbors import NeighborRules, Neighbors
from sparsenet.engines.neighbors.side_by_side import SideBySide, dense_ids, limit_dense
from sparsenet.features.kinds import are_dense
from sparsenet.storage import load, save

SMALL_NETWORK = ExtremeClassifier(hidden=8, epochs=2)

RNG = np.random.default_rng(0)
#: Points around twelve centers, which determine the labels; no single column does.
CENTRES = RNG.normal(size=(12, 24))
OWNERS = RNG.integers(0, 12, 700)
TABLE = (CENTRES[OWNERS] + RNG.normal(scale=0.6, size=(700, 24))).astype(np.float32)


def rows(matrix):
    return Rows.of(sparse.csr_array(np.asarray(matrix, np.float32)))


def beside(points):
    index = transpose(rows(points))
    return SideBySide(index, dense_ids(index))


def learnt(points, k=5, **rules):
    labels = Rows.of(sparse.csr_array(np.eye(12, dtype=np.float32)[OWNERS[: len(points)]]))
    return Neighbors.learn(points, labels, k, seed=0, threads=1, rules=NeighborRules(**rules))[0]


@pytest.mark.parametrize("threads", [1, 2])
def test_finds_the_nearest_of_all_points(threads):
    points, asked = RNG.normal(size=(300, 7)), RNG.normal(size=(150, 7))
    points[::3, 2], asked[::2, 4] = 0, 0
    near, products = np.empty((150, 20), np.int32), np.empty((150, 20), np.float32)
    beside(points).nearest(rows(asked), near, products, threads)
    expected = asked @ points.T
    best = -np.sort(-expected, axis=1)[:, :20]
    np.testing.assert_allclose(products, np.maximum(best, 0), atol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(expected, near, axis=1), best, atol=1e-4)


def test_unrelated_points_have_no_vote():
    near, products = np.empty((1, 4), np.int32), np.empty((1, 4), np.float32)
    beside([[1, 1], [-1, 1], [2, -1], [1, -1]]).nearest(rows([[3, 1]]), near, products, 1)
    assert near[0, :3].tolist() == [2, 0, 3]
    assert products.tolist() == [[5, 4, 2, 0]]


@pytest.mark.parametrize(("there", "expected"), [(0.9, True), (0.55, True), (0.42, False), (0.0, False)])
def test_points_with_half_of_all_values_are_dense(there, expected):
    index = transpose(rows(RNG.random((400, 30)) < there))
    numbers = dense_ids(index)
    assert (numbers is not None) == expected
    if expected:
        np.testing.assert_array_equal(numbers, np.arange(400))


@pytest.mark.parametrize(("numbers", "left"), [(TABLE.size, 700), (TABLE.size - 1, 699), (100 * 24 + 5, 100), (3, 1)])
def test_compares_a_sample_of_too_many_points(numbers, left):
    points = rows(TABLE)
    found = limit_dense(points, seed=0, max_cells=numbers)
    lengths = np.diff(found.indptr)
    assert (len(found), found.width, np.count_nonzero(lengths)) == (700, 24, left)
    stay = np.flatnonzero(lengths)
    np.testing.assert_array_equal(found.data, points.take(stay).data)
    if numbers > 24:
        np.testing.assert_array_equal(dense_ids(transpose(found), max_cells=numbers), stay)
    assert (limit_dense(points, seed=0, max_cells=numbers).data == found.data).all()
    sparse_ones = rows(np.where(RNG.random((500, 40)) < 0.1, 1, 0))
    assert limit_dense(sparse_ones, seed=0) is sparse_ones


def test_compares_all_dense_points():
    """An index of each feature's strongest points would miss the nearest ones."""
    found = learnt(rows(TABLE), max_points=30)
    assert (np.diff(found.index.indptr) == 700).all()
    unit = TABLE / np.linalg.norm(TABLE, axis=1, keepdims=True)
    near = found.nearest(rows(TABLE[:50]), 5, 1)[0]
    expected = np.argsort(-unit[:50] @ unit.T, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(np.sort(near, axis=1), np.sort(expected, axis=1))
    padded = np.hstack([TABLE, np.zeros((700, 30))])  # most values are zero
    cut = learnt(rows(padded), max_points=30)
    assert (np.diff(cut.index.indptr)[:24] == 30).all()
    assert (np.sort(cut.nearest(rows(padded[:50]), 5, 1)[0], axis=1) != np.sort(expected, axis=1)).any()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_table_uses_its_neighbors(tmp_path, n_jobs):
    model = BlendClassifier(network="drop", random_state=0, n_jobs=n_jobs).fit(TABLE[:500], OWNERS[:500])
    assert model.score(TABLE[500:], OWNERS[500:]) > 0.9
    assert len(model.neighbors_.labels) == 500
    model.save(tmp_path / "model")
    copy = BlendClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(copy.predict_proba(TABLE), model.predict_proba(TABLE))
    single = np.concatenate([model.predict_proba(row[None]) for row in TABLE[500:520]])
    np.testing.assert_allclose(single, model.predict_proba(TABLE[500:520]), rtol=1e-4, atol=1e-6)


def test_a_large_table_uses_a_sample():
    found = learnt(rows(TABLE), max_cells=150 * 24)
    assert len(np.unique(found.index.indices)) == 150
    others = np.setdiff1d(np.arange(700), found.index.indices)
    weights = found.vote_weights(rows(TABLE[others]), 5, 1)
    ranked, shares = found.propose(weights, 12, 1)
    best = np.take_along_axis(ranked, shares.argmax(axis=1)[:, None], axis=1)[:, 0]
    assert (best == OWNERS[others]).mean() > 0.85
    # A loaded model has the default rules, and still finds only the points of the sample.
    copy = replace(found, rules=NeighborRules())
    np.testing.assert_array_equal(copy.vote_weights(rows(TABLE[others]), 5, 1).data, weights.data)


def test_may_compare_fewer_points_than_vote():
    found = learnt(rows(TABLE), max_cells=7 * 24)
    near, products = found.nearest(rows(TABLE[:20]), 50, 1)
    assert (near.shape, products.shape) == ((20, 50), (20, 50))
    assert (products[:, 7:] == 0).all()
    assert set(near[products > 0]) <= set(found.index.indices)


def test_a_table_without_neighbors_has_none_later():
    model = BlendClassifier(network=SMALL_NETWORK, n_neighbors=0, random_state=0).fit(TABLE, OWNERS)
    model.set_params(n_neighbors=5)
    with pytest.raises(ValueError, match="n_neighbors is 5, and this model does not hold its training points"):
        model.predict(TABLE[:2])


def test_nearest_points_count_more_if_all_cosines_are_near_one():
    """Three of fifty neighbors are of a point's own kind, the others of any kind with cosines of 0.9."""
    centres = np.hstack([np.full((100, 1), 8.0), RNG.normal(size=(100, 7))])
    points = np.repeat(centres, 4, axis=0) + RNG.normal(scale=0.02, size=(400, 8))
    labels = Rows.of(sparse.csr_array(np.repeat(np.eye(8, dtype=np.float32)[RNG.integers(0, 8, 100)], 4, axis=0)))
    assert Neighbors.learn(rows(points), labels, 50, seed=0, threads=1)[0].power > 6
    among_others = rows(np.hstack([points, np.zeros((400, 12))]))
    assert Neighbors.learn(among_others, labels, 50, seed=0, threads=1)[0].power == 6


@dataclass(frozen=True, eq=False)
class Watched(Rows):
    """Rows that record the sizes of their blocks."""

    block_sizes: list[int] = field(default_factory=list)

    def blocks(self, *size):
        for part in super().blocks(*size):
            self.block_sizes.append(len(part))
            yield part


def test_processes_queries_in_blocks():
    index = transpose(rows(TABLE))
    queries, found = rows(TABLE), []
    for block_numbers, sizes in ((1 << 22, [700]), (24 * 99 + 5, [99] * 7 + [7]), (1, [1] * 700)):
        compared = SideBySide(index, dense_ids(index), block_numbers=block_numbers)
        near, products = np.empty((700, 5), np.int32), np.empty((700, 5), np.float32)
        watched = Watched(queries.indptr, queries.indices, queries.data, queries.width)
        compared.nearest(watched, near, products, 1)
        assert watched.block_sizes == sizes
        found.append((near, products))
    for near, products in found[1:]:
        np.testing.assert_array_equal(near, found[0][0])
        np.testing.assert_allclose(products, found[0][1], rtol=1e-6)


def test_a_sample_of_dense_points_is_dense():
    """A sample may have slightly less than half of its values."""
    points = rows(np.maximum(RNG.normal(0.01, 1, size=(4000, 16)), 0))
    assert are_dense(points)
    samples = [limit_dense(points, seed=seed, max_cells=300 * 16) for seed in range(20)]
    assert min(len(sample.indices) for sample in samples) < 300 * 8
    assert all(len(dense_ids(transpose(sample), max_cells=300 * 16)) == 300 for sample in samples)


def test_a_sample_measures_feature_rarity():
    """All points have the first feature and half have the second, in a sample too."""
    features = np.ones((2000, 4))
    features[::2, 1] = 0
    labels = Rows.of(sparse.csr_array(np.eye(2, dtype=np.float32)[np.arange(2000) % 2]))
    points = rows(features)
    weights = []
    for numbers in (8000, 800):
        held = limit_dense(points, seed=0, max_cells=numbers)
        weights.append(neighbors_module._weigh_features(held, transpose(held), 1.0)[1])
    np.testing.assert_allclose(weights[1], weights[0], rtol=0.05)
    rules = NeighborRules(max_cells=800)
    assert len(Neighbors.learn(points, labels, 3, seed=0, threads=1, rules=rules)[0].labels) == 2000


def test_old_models_of_tables_without_neighbors_load(tmp_path):
    """Such models were saved before tables had neighbors."""
    model = BlendClassifier(network=SMALL_NETWORK, n_neighbors=0, random_state=0).fit(TABLE, OWNERS)
    model.save(tmp_path / "model")
    arrays, metadata = load(tmp_path / "model")
    metadata["parameters"]["n_neighbors"] = 50
    save(tmp_path / "older", arrays, metadata)
    older = BlendClassifier.load(tmp_path / "older")
    assert older.n_neighbors == 0
    np.testing.assert_array_equal(older.predict_proba(TABLE), model.predict_proba(TABLE))


@pytest.mark.parametrize(("share", "rate"), [(1.0, 0.012), (0.4, 0.004)])
def test_dense_points_get_a_higher_rate(share, rate):
    points = np.where(RNG.random(TABLE.shape) < share, TABLE, 0)
    for learn, more in (("fit", {}), ("partial_fit", {"classes": np.arange(12)})):
        model = getattr(ExtremeClassifier(hidden=8, random_state=0), learn)(sparse.csr_array(points), OWNERS, **more)
        value, why = model.choices_["learning_rate"][:2]
        assert value == pytest.approx(rate)
        assert why == f"for batches of 256{', of dense points' if share == 1 else ''}"


@pytest.mark.parametrize("beside", [np.ones((700, 9)), np.eye(40)[np.arange(700) % 40]], ids=["constants", "flags"])
def test_shared_columns_make_points_dense(beside):
    """A constant column is zero after standardizing; a point has one of the flags beside its amounts."""
    table = np.hstack([TABLE[:, :6], beside])
    model = ExtremeClassifier(hidden=8, epochs=1, random_state=0).fit(table, OWNERS)
    assert model.choices_["learning_rate"][0] == pytest.approx(0.012)


def test_mostly_flags_keep_the_lower_rate():
    table = np.hstack([TABLE[:, :2], *(np.eye(40)[(np.arange(700) + 7 * i) % 40] for i in range(4))])
    model = ExtremeClassifier(hidden=8, epochs=1, random_state=0).fit(table, OWNERS)
    assert model.choices_["normalize"][0] == "mixed"
    assert model.choices_["learning_rate"][0] == pytest.approx(0.004)


def test_other_optimizers_keep_their_rate():
    sgd = ExtremeClassifier(hidden=8, epochs=1, random_state=0, optimizer="sgd").fit(TABLE, OWNERS)
    assert sgd.choices_["learning_rate"][:2] == (pytest.approx(0.004), "for batches of 256")


def test_counts_and_single_points_are_not_dense():
    counts = np.hstack([RNG.poisson(9, (300, 4)) + 1, np.eye(300)])
    assert not are_dense(rows(counts))
    around_zero = counts * np.where(RNG.random(counts.shape) < 0.5, -1, 1)
    assert are_dense(rows(around_zero))
    assert not are_dense(rows(around_zero[:63]))
    apart = np.vstack([np.eye(100, 304), around_zero])  # the first points are not dense
    assert not are_dense(rows(apart))
