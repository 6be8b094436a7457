"""The LSH index: recall, updates, equality across backends, and rejected input."""

import numpy as np
import pytest

from sparsenet import kernels
from sparsenet.index.exact import exact_topk
from sparsenet.index.hashing import LSHConfig, LSHIndex

FAMILIES = ["simhash", "dwta", "minhash"]


def planted(n_labels: int, width: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return hidden vectors, each near the weights of one label, then weights of all lengths, and biases."""
    rng = np.random.default_rng(seed)
    features = np.maximum(rng.standard_normal((n_labels, width)) - 0.3, 0)
    hidden = np.maximum(features[rng.integers(n_labels, size=n)] + 0.3 * rng.standard_normal((n, width)), 0)
    weight = (features - features.mean(axis=0)) * np.exp(0.3 * rng.standard_normal((n_labels, 1)))
    bias = 0.3 * rng.standard_normal(n_labels) - 5
    return hidden.astype(np.float32), weight.astype(np.float32), bias.astype(np.float32)


def built(family: str, weight: np.ndarray, bias: np.ndarray, threads: int = 1, **settings: int) -> LSHIndex:
    config = LSHConfig.for_size(len(weight), family, **settings)
    index = LSHIndex(config, len(weight), weight.shape[1], threads)
    index.rebuild(weight, bias)
    return index


def everything(index: LSHIndex, hidden: np.ndarray) -> list[np.ndarray]:
    return [index.codes, *index.query(hidden, 50), *index.query_each(hidden, 20), *index.state().values()]


def assert_same(left: list[np.ndarray], right: list[np.ndarray]) -> None:
    for a, b in zip(left, right, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture
def on_backend(backend, monkeypatch):
    """Use one backend for the index."""
    for name in ("matmul", "predict_topk", *(name for name in dir(backend) if name.startswith("lsh_"))):
        monkeypatch.setattr(kernels, name, getattr(backend, name), raising=False)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.usefixtures("on_backend")
def test_equal_on_every_backend_and_thread_count(family, golden):
    hidden, weight, bias = planted(500, 31, 40)
    for threads in (1, 2, 4):
        index = built(family, weight, bias, threads, probe_limit=10, n_tables=20)
        assert_same(golden.setdefault(family, everything(index, hidden)), everything(index, hidden))


@pytest.fixture(scope="module")
def golden() -> dict[str, list[np.ndarray]]:
    """Keep the results of the first backend; all others must equal them."""
    return {}


@pytest.mark.parametrize(("family", "least"), [("simhash", 0.4), ("dwta", 0.55), ("minhash", 0.45)])
def test_finds_planted_labels_more_often_than_chance(family, least):
    hidden, weight, bias = planted(10_000, 64, 100)
    index = built(family, weight, bias)
    assert index.recall(hidden, weight, bias, k=1, limit=200) > least
    top = exact_topk(hidden, weight, bias, 1, 1)[0]
    at_random = np.random.default_rng(0).random((100, 10_000)).argsort(axis=1)[:, :200]
    assert (at_random == top).any(axis=1).mean() < least / 5


@pytest.mark.parametrize("family", FAMILIES)
def test_orders_by_hits_then_by_id(family):
    hidden, weight, bias = planted(300, 16, 12)
    weight[100:200] = weight[:100]  # duplicates collide always: ties
    bias[100:200] = bias[:100]
    ids, hits = built(family, weight, bias).query(hidden, 300)
    order = np.lexsort((ids, -hits))
    np.testing.assert_array_equal(order, np.arange(ids.size))
    assert np.unique(ids).size == ids.size


@pytest.mark.parametrize("family", FAMILIES)
def test_shared_queries_sum_over_points(family):
    hidden, weight, bias = planted(200, 16, 9)
    index = built(family, weight, bias, probe_limit=5)
    _, ids, hits = index.query_each(hidden, 200)
    shared_ids, shared_hits = index.query(hidden, 200)
    expected = np.bincount(ids, weights=hits, minlength=200)
    np.testing.assert_array_equal(expected[shared_ids], shared_hits)
    assert expected.sum() == shared_hits.sum()


@pytest.mark.parametrize("family", FAMILIES)
def test_updating_changed_rows_equals_a_rebuild(family):
    hidden, weight, bias = planted(300, 24, 10)
    index, other = (built(family, weight, bias) for _ in range(2))
    rows = np.array([3, 299, 17, 18], np.int32)
    weight[rows] = -weight[rows]
    bias[rows] -= 0.5
    before = index.codes.copy()
    assert not index.update(weight, bias, rows)
    assert not other.update(weight, bias, np.arange(300))
    assert (index.codes != before).any(axis=0).sum() == 4
    assert_same([index.codes, *index.query(hidden, 50)], [other.codes, *other.query(hidden, 50)])
    index.rebuild(weight, bias)
    assert_same(everything(index, hidden)[:3], everything(built(family, weight, bias), hidden)[:3])


def test_rebuilds_when_rows_outgrow_the_radius():
    _, weight, bias = planted(100, 16, 1)
    index = built("simhash", weight, bias, covered=1.0)
    longest = np.argmax(index.state()["lengths"])
    weight[longest] *= 1.04
    assert not index.update(weight, bias, np.array([longest]))
    assert index.n_rebuilds == 1
    weight[longest] *= 1.2
    assert index.update(weight, bias, np.array([longest]))
    assert index.n_rebuilds == 2
    assert_same([index.codes], [built("simhash", weight, bias, covered=1.0).codes])


def test_few_long_rows_do_not_cause_a_rebuild():
    _, weight, bias = planted(100, 16, 1)
    index = built("simhash", weight, bias, covered=0.5)
    weight[:5] *= 10
    assert not index.update(weight, bias, np.arange(5))
    weight[:60] *= 2
    assert index.update(weight, bias, np.arange(60))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("size", [1, 7, 8, 15, 16, 17, 31, 32, 33])
def test_an_index_of_any_size_answers_within_bounds(family, size):
    hidden, weight, bias = planted(size, size, size)
    index = built(family, weight, bias)
    for n in (0, 1, size):
        indptr, ids, _ = index.query_each(hidden[:n], 5)
        assert indptr.shape == (n + 1,)
        assert indptr[-1] == ids.size <= n * min(size, 5)
        assert index.query(hidden[:n], 3)[0].size <= min(3, size)
    assert index.nbytes == index.config.memory(size, size)


@pytest.mark.parametrize("family", FAMILIES)
def test_an_index_without_labels_finds_nothing(family):
    index = built(family, np.empty((0, 4), np.float32), np.empty(0, np.float32))
    assert index.query(np.ones((2, 4), np.float32), 3)[0].size == 0
    assert not index.update(np.empty((0, 4), np.float32), np.empty(0, np.float32), np.empty(0, np.int32))


@pytest.mark.parametrize("family", FAMILIES)
def test_zero_vectors_have_valid_ids(family):
    zeros = np.zeros((40, 8), np.float32)
    index = built(family, zeros, np.zeros(40, np.float32), probe_limit=3)
    ids, hits = index.query(zeros[:2], 40)
    assert ((ids >= 0) & (ids < 40)).all()
    assert hits.sum() <= 2 * 3 * index.config.n_tables
    assert index.update(zeros + 1, np.zeros(40, np.float32), np.arange(0)) is False


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_codes_do_not_depend_on_the_scale_of_weights(family, scale):
    """Scale by powers of two, so that rounding scales too."""
    _, weight, bias = planted(100, 16, 5)
    scale = np.float32(2.0 ** np.round(np.log2(scale)))
    assert_same([built(family, weight, bias).codes], [built(family, weight * scale, bias * scale).codes])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_reports_the_memory_it_allocates(family, threads):
    hidden, weight, bias = planted(1000, 40, 8)
    index = built(family, weight, bias, threads)
    index.query(hidden, 10)
    assert index.nbytes == index.config.memory(1000, 40, threads)


@pytest.mark.parametrize("family", FAMILIES)
def test_restored_equals_saved(family):
    hidden, weight, bias = planted(200, 16, 10)
    index = built(family, weight, bias)
    restored = LSHIndex(index.config, 200, 16)
    restored.restore(index.state())
    weight[:20] *= -1
    for each in (index, restored):
        each.update(weight, bias, np.arange(20))
    assert_same(everything(index, hidden), everything(restored, hidden))


def test_takes_the_state_of_an_old_pickle():
    hidden, weight, bias = planted(50, 8, 10)
    index = built("simhash", weight, bias)
    old = LSHIndex.__new__(LSHIndex)
    old.__setstate__({"_frame" if name == "_sphere" else name: value for name, value in vars(index).items()})
    assert_same(everything(old, hidden), everything(index, hidden))


def test_rejects_a_damaged_state():
    _, weight, bias = planted(50, 8, 1)
    index = built("simhash", weight, bias)
    state = index.state()
    with pytest.raises(ValueError, match="codes of the index must be uint16"):
        index.restore({**state, "codes": state["codes"][:, :-1]})
    with pytest.raises(ValueError, match="codes of the index must be below"):
        index.restore({**state, "codes": state["codes"] | np.uint16(0x8000)})


def test_recall_counts_the_exact_top_labels():
    hidden, weight, bias = planted(200, 16, 20)
    index = built("simhash", weight, bias, n_bits=4)
    top = np.argsort(-(hidden @ weight.T + bias), axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(np.sort(exact_topk(hidden, weight, bias, 3, 1)[0]), np.sort(top))
    ids, _ = index.query(hidden, 30)
    assert index.recall(hidden, weight, bias, k=3, limit=30, shared=True) == pytest.approx(np.isin(top, ids).mean())
    _, each, _ = index.query_each(hidden, 30)
    assert each.size == 20 * 30
    expected = [np.isin(row, found).mean() for row, found in zip(top, each.reshape(20, 30), strict=True)]
    assert index.recall(hidden, weight, bias, k=3, limit=30) == pytest.approx(np.mean(expected))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"family": "e2lsh"}, "family must be one of 'simhash', 'dwta', 'minhash', got 'e2lsh'"),
        ({"n_tables": 0}, "n_tables must be an integer from 1 to 4096, got 0"),
        ({"n_bits": 17}, "n_bits must be an integer from 1 to 16, got 17"),
        ({"n_bits": 2.5}, "n_bits must be an integer from 1 to 16, got 2.5"),
        ({"family": "dwta", "n_bits": 10}, "n_bits must be a multiple of 3 for a window of 8, got 10"),
        ({"family": "dwta", "window": 6}, "window must be a power of two from 2 to 64, got 6"),
        ({"n_tables": True}, "n_tables must be an integer from 1 to 4096, got True"),
        ({"headroom": 0.9}, r"headroom must be a number in \[1, inf\], got 0.9"),
        ({"headroom": "large"}, r"headroom must be a number in \[1, inf\], got 'large'"),
        ({"covered": 0.0}, r"covered must be a number in \(0, 1\], got 0.0"),
    ],
)
def test_rejects_senseless_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        LSHConfig(**settings)


def test_numbers_of_numpy_are_settings():
    own = LSHConfig(family="dwta", n_bits=np.int64(6), seed=np.int64(3), headroom=np.float32(1.5))
    assert own == LSHConfig(family="dwta", n_bits=6, seed=3, headroom=1.5)
    _, weight, bias = planted(50, 8, 1)
    index = LSHIndex(own, 50, 8)
    index.rebuild(weight, bias)
    assert index.codes.max() < own.n_buckets


def test_rejects_mismatched_arguments():
    _, weight, bias = planted(50, 8, 1)
    index = built("simhash", weight, bias)
    with pytest.raises(ValueError, match=r"hidden must be \(n, 8\), got \(3, 9\)"):
        index.query(np.zeros((3, 9), np.float32), 5)
    with pytest.raises(ValueError, match="limit must be at least 1, got 0"):
        index.query_each(np.zeros((3, 8), np.float32), 0)
    with pytest.raises(ValueError, match="rows must be from 0 to 49, got 3 to 50"):
        index.update(weight, bias, np.array([3, 50]))
    with pytest.raises(ValueError, match=r"weight and bias must be \(50, 8\)"):
        index.rebuild(weight[:49], bias[:49])
    with pytest.raises(ValueError, match="width must be from 1 to 8192, got 0"):
        LSHIndex(LSHConfig(), 5, 0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_rejects_diverged_weights_without_changes(value):
    hidden, weight, bias = planted(2000, 8, 3)
    index = built("dwta", weight, bias)
    before = [array.copy() for array in everything(index, hidden)]
    weight[1500, 3] = value
    with pytest.raises(ValueError, match="training has diverged"):
        index.update(weight, bias, np.array([3, 1500]))
    with pytest.raises(ValueError, match="training has diverged"):
        index.rebuild(weight, bias)
    assert_same(before, everything(index, hidden))
