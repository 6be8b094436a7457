"""Neighbors of dense points: cells of vectors in 8 bits."""

import pickle
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from sparsenet import BlendClassifier, ExtremeClassifier, ModelError, Rows
from sparsenet.core import progress
from sparsenet.core.rows import transpose
from sparsenet.engines.neighbors.fit_neighbors import NeighborRules, fit, peak_memory
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.neighbors.unit_points import is_dense
from sparsenet.features.kinds import are_dense
from sparsenet.index.vector_index import share_found
from sparsenet.storage import load, save
from sparsenet.storage.narrow import widen

SMALL_NETWORK = ExtremeClassifier(hidden=8, epochs=2)

RNG = np.random.default_rng(0)
#: Points around twelve centers, which determine the labels; no single column does.
CENTRES = RNG.normal(size=(12, 24))
OWNERS = RNG.integers(0, 12, 700)
TABLE = (CENTRES[OWNERS] + RNG.normal(scale=0.6, size=(700, 24))).astype(np.float32)


def rows(matrix):
    return Rows.of(sparse.csr_array(np.asarray(matrix, np.float32)))


def learnt(points, k=5, threads=1, **rules):
    labels = Rows.of(sparse.csr_array(np.eye(12, dtype=np.float32)[OWNERS[: len(points)]]))
    return fit(points, labels, k, seed=0, threads=threads, rules=NeighborRules(**rules))[0]


def direct(points, queries, k):
    """Return the k largest cosines of each query, in float64."""
    points, queries = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (np.float64(points), np.float64(queries)))
    return -np.sort(-(queries @ points.T), axis=1)[:, :k]


@pytest.mark.parametrize(("there", "expected"), [(0.9, True), (0.55, True), (0.42, False), (0.0, False)])
def test_points_with_half_of_all_values_are_dense(there, expected):
    points = rows(RNG.random((400, 30)) < there)
    assert is_dense(points) == expected
    labels = Rows.of(sparse.csr_array(np.eye(2, dtype=np.float32)[np.arange(400) % 2]))
    found = fit(points, labels, 3, seed=0, threads=1)[0]
    assert (found.cells is not None) == expected
    assert (found.postings is None) == expected


@pytest.mark.parametrize("share", [1.0, 0.1], ids=["dense", "sparse"])
def test_shows_progress_to_the_end(share, capsys, monkeypatch):
    monkeypatch.setattr(progress, "A_MOMENT", 0.0)
    points = rows(TABLE[:200] * (RNG.random((200, 24)) < share))
    labels = Rows.of(sparse.csr_array(np.eye(2, dtype=np.float32)[np.arange(200) % 2]))
    fit(points, labels, 3, seed=0, threads=1, verbose=True)
    last = capsys.readouterr().err.split("\r")[-1]
    assert last.startswith("neighbors among 200 points 100%")


@pytest.mark.parametrize("shift", [0, 5])
def test_finds_the_nearest_of_all_points(shift):
    """A large shift makes all cosines nearly one, and the errors of 8 bits as small."""
    found = learnt(rows(TABLE + shift), recall=1.0, max_points=30)
    near, products = found.nearest(rows(TABLE[:50] + shift), 5, 1)
    lengths = np.linalg.norm(found.queries(rows(TABLE[:50] + shift)).data.reshape(50, -1), axis=1)
    cosines = products / lengths[:, None]
    expected = direct(TABLE + shift, TABLE[:50] + shift, 5)
    spread = 1 - direct(TABLE + shift, TABLE[:50] + shift, 700)[:, -1].mean()
    np.testing.assert_allclose(cosines, expected, atol=0.01 * spread)
    assert (near[:, 0] == np.arange(50)).mean() > 0.95


def test_a_large_shared_offset_hides_no_neighbors():
    """All cosines are within 2e-5 of one."""
    points, asked = TABLE + 200, TABLE[:200] + RNG.normal(scale=0.1, size=(200, 24)).astype(np.float32) + 200
    units = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (np.float64(asked), np.float64(points))]
    nearest = np.argsort(-(units[0] @ units[1].T), axis=1)[:, :5].astype(np.int32)
    assert share_found(nearest, learnt(rows(points), recall=1.0).nearest(rows(asked), 5, 1)[0]) > 0.95


def test_calibration_reaches_the_recall():
    exact = learnt(rows(TABLE), recall=1.0)
    found = learnt(rows(TABLE), recall=0.6)
    assert found.cells.effort < exact.cells.effort
    asked = rows(TABLE)
    share = share_found(exact.nearest(asked, 6, 1)[0], found.nearest(asked, 6, 1)[0])
    assert 0.5 < share < 0.9


def test_answers_do_not_depend_on_threads_or_blocks():
    found = [learnt(rows(TABLE), threads=threads) for threads in (1, 2)]
    answers = [each.nearest(rows(TABLE), 9, threads) for each, threads in zip(found, (1, 2), strict=True)]
    answers += [found[0].nearest(rows(TABLE), 9, 1, block_numbers=numbers) for numbers in (1, 24 * 99 + 5)]
    for near, products in answers[1:]:
        assert near.tobytes() == answers[0][0].tobytes()
        assert products.tobytes() == answers[0][1].tobytes()


def test_unrelated_and_empty_points_have_no_vote():
    points = np.float32([[1, 1], [-1, 1], [2, -1], [1, -1], [0, 0]])
    found = learnt(rows(points), recall=1.0)
    near, products = found.nearest(rows([[3, 1]]), 5, 1)
    assert near[0, :3].tolist() == [0, 2, 3]
    assert (products[0] > 0).tolist() == [True, True, True, False, False]


def test_learns_from_dense_points_without_posting_lists():
    scale = learnt(rows(TABLE * np.float32(2.0**50)), recall=1.0)
    np.testing.assert_array_equal(scale.cells.entries.codes, learnt(rows(TABLE), recall=1.0).cells.entries.codes)
    assert scale.cells.entries.codes.shape == (len(TABLE), TABLE.shape[1] + 1)
    assert sum(array.nbytes for array in scale.cells.arrays()) < 2.5 * TABLE.size


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
    predictor = model.predictor(3)
    for i in range(3):
        np.testing.assert_array_equal(
            predictor(TABLE[500 + i : 501 + i])[0], model.topk(TABLE[500 + i : 501 + i], 3)[0]
        )


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
    assert fit(rows(points), labels, 50, seed=0, threads=1)[0].power > 6
    among_others = rows(np.hstack([points, np.zeros((400, 12))]))
    assert fit(among_others, labels, 50, seed=0, threads=1)[0].power == 6


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


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("dense") / "model"
    model = BlendClassifier(network="drop", random_state=0).fit(TABLE, OWNERS)
    model.save(path)
    arrays, metadata = load(path)
    return model, widen(arrays), metadata


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda cells: {"codes": cells["codes"][:-1]}, "codes"),
        (lambda cells: {"codes": cells["codes"].astype(np.int16)}, "codes"),
        (
            lambda cells: {"scales": cells["scales"] * np.float32(np.nan)},
            "scales of the neighbors' cells must be finite",
        ),
        (lambda cells: {"lengths": cells["lengths"][1:]}, "lengths"),
        (lambda cells: {"blocks": cells["blocks"][1:]}, "blocks"),
        (lambda cells: {"codebook": cells["codebook"][:, :8]}, "codebook"),
        (lambda cells: {"center": cells["center"] * np.float32(np.nan)}, "center of .* must be finite"),
        (lambda cells: {"starts": cells["starts"][::-1].copy()}, "starts"),
        (lambda cells: {"starts": cells["starts"] + 1}, "starts"),
        (lambda cells: {"ids": cells["ids"] + np.int32(1)}, "do not list 700 of 700 points"),
        (lambda cells: {"ids": np.zeros_like(cells["ids"])}, "do not list 700 of 700 points"),
        (lambda cells: {"centroids": cells["centroids"][:0]}, "cells"),
    ],
)
def test_refuses_forged_cells(saved, tmp_path, changed, message):
    _, arrays, metadata = saved
    cells = {name.removeprefix("neighbors.cells."): array for name, array in arrays.items() if ".cells." in name}
    own = {f"neighbors.cells.{name}": array for name, array in changed(cells).items()}
    save(tmp_path / "model", {**arrays, **own}, metadata)
    with pytest.raises(ModelError, match=message):
        BlendClassifier.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "value"),
    [("effort", 0), ("effort", 10**6), ("effort", "3"), ("n_candidates", 0), ("unit", 0.3), ("unit", 0), ("scale", -1)],
)
def test_refuses_forged_numbers_of_cells(saved, tmp_path, name, value):
    _, arrays, metadata = saved
    save(tmp_path / "model", arrays, {**metadata, "neighbors": {**metadata["neighbors"], name: value}})
    with pytest.raises(ModelError, match=name):
        BlendClassifier.load(tmp_path / "model")


def older(neighbors):
    """Return the points of neighbors as the posting lists of version 0.1."""
    unit = TABLE * neighbors.weights
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return transpose(rows(np.where(np.arange(700)[:, None] < 400, unit, 0)))


def test_loads_dense_points_of_version_0_1(saved, tmp_path):
    """They were posting lists of all points, or of a sample."""
    model, arrays, metadata = saved
    index = older(model.neighbors_)
    arrays = {name: array for name, array in arrays.items() if ".cells." not in name}
    arrays |= {f"neighbors.index.{part}": getattr(index, part) for part in ("indptr", "indices", "data")}
    about = {name: metadata["neighbors"][name] for name in ("rarity", "power")}
    n = model.neighbors_.n_centroids
    save(tmp_path / "model", arrays, {**metadata, "neighbors": about | {"n_centroids": n}})
    found = BlendClassifier.load(tmp_path / "model")
    assert found.neighbors_.cells.effort == 1
    assert sorted(found.neighbors_.cells.ids.tolist()) == list(range(400))
    assert found.score(TABLE, OWNERS) > 0.9


def test_unpickles_dense_points_of_version_0_1(saved):
    neighbors = saved[0].neighbors_
    state = {"index": older(neighbors), "labels": neighbors.labels, "weights": neighbors.weights, "power": 2.0}
    found = Neighbors.__new__(Neighbors)
    found.__setstate__(state)
    near, products = found.nearest(rows(TABLE[:9]), 3, 1)
    assert near[:, 0].tolist() == list(range(9))
    assert (products > 0).all()


def test_pickles_keep_cells(saved):
    neighbors = pickle.loads(pickle.dumps(saved[0].neighbors_))
    for one, other in zip(
        neighbors.nearest(rows(TABLE), 5, 1), saved[0].neighbors_.nearest(rows(TABLE), 5, 1), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_training_takes_no_more_memory_than_announced():
    rng = np.random.default_rng(0)
    points, n_labels = rows(rng.normal(size=(30_000, 48))), 3000
    labels = Rows(
        np.arange(30_001), rng.integers(0, n_labels, 30_000).astype(np.int32), np.ones(30_000, np.float32), n_labels
    )
    tracemalloc.start()
    fit(points, labels, 10, seed=0, threads=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.4 * peak_memory(points, labels) < peak < peak_memory(points, labels)
