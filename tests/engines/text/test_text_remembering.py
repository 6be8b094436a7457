"""Replay: a text network remembers a sample of its texts and does not forget old labels for new ones."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

from sparsenet import ModelError, TextClassifier, storage
from sparsenet.core.rows import Rows
from sparsenet.engines.text.replay import ReplayBuffer, n_epochs
from tests.support.many_labels import planted

pytestmark = pytest.mark.usefixtures("narrow_network")
TEST = planted(300, seed=1)


@pytest.fixture(scope="module")
def model(narrow_network: None) -> TextClassifier:
    return TextClassifier(method="network", random_state=0, n_jobs=1).fit(*planted(2500))


def numbered(n: int, first: int = 0) -> tuple[Rows, Rows]:
    """Return points of two features, the second one the point's number, each with one of three labels."""
    data = np.column_stack((np.ones(n), np.arange(first + 1, first + n + 1) / 1024)).astype(np.float32)
    labels = csr_array((np.ones(n, np.float32), np.arange(n) % 3, np.arange(n + 1)), shape=(n, 3))
    return Rows.of(csr_array(data)), Rows.of(labels)


def identities(points: Rows) -> list[int]:
    return np.rint(points.data[1::2] * 1024).astype(int).tolist()


def test_learns_a_new_label_without_forgetting_others(model):
    before = model.score(*TEST)
    texts, labels = planted(5, n_labels=1, first=70, seed=9)
    learnt = pickle.loads(pickle.dumps(model)).partial_fit(texts, labels)
    assert learnt.score(texts, labels) == 1.0
    assert learnt.score(*TEST) > before - 0.01
    assert "label070" not in learnt.predict(TEST[0])
    forgetful = pickle.loads(pickle.dumps(model))
    object.__setattr__(forgetful._fitted.model, "memory", None)
    with pytest.warns(UserWarning, match="keeps no texts to train on again"):
        forgetful.partial_fit(*planted(50, n_labels=1, first=70, seed=9))
    learnt.partial_fit(*planted(50, n_labels=1, first=70, seed=9))
    assert learnt.score(*TEST) > before - 0.01
    assert learnt.score(*TEST) > forgetful.score(*TEST), "memories made no difference"


def test_counts_learnt_texts_once(model):
    learnt = pickle.loads(pickle.dumps(model)).partial_fit(*planted(100, seed=4))
    before, after = model._fitted.model.stats, learnt._fitted.model.stats
    assert after.n_points == before.n_points + 100
    assert after.label_counts.sum() == before.label_counts.sum() + 100


def test_a_saved_model_learns_the_same_from_new_texts(model, tmp_path):
    model.save(tmp_path / "model")
    copies = [TextClassifier.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))]
    for copy in copies:
        for seed in (5, 6):
            copy.partial_fit(*planted(50, seed=seed, first=20))
    scores = [copy.decision_function(TEST[0]) for copy in copies]
    np.testing.assert_array_equal(*scores)
    copies[0].save(tmp_path / "later")
    remembered = [one._fitted.model.memory for one in (copies[1], TextClassifier.load(tmp_path / "later"))]
    for name in ("indptr", "indices", "values"):
        np.testing.assert_array_equal(*(getattr(one, name) for one in remembered))
    np.testing.assert_array_equal(*(one.labels.indices for one in remembered))


def test_partial_fit_does_not_depend_on_threads(model):
    scores = []
    for threads in (1, 2):
        copy = pickle.loads(pickle.dumps(model)).set_params(n_jobs=threads)
        scores.append(copy.partial_fit(*planted(300, seed=5)).decision_function(TEST[0]))
    np.testing.assert_array_equal(*scores)


def test_a_compressed_model_remembers_nothing(model):
    copy = pickle.loads(pickle.dumps(model))
    copy.compress(copy.compress("100MB").bytes_before // 2)
    assert copy._fitted.model.memory is None
    with pytest.warns(UserWarning, match="this model keeps no texts"):
        copy.partial_fit(*planted(20, seed=5))
    assert copy._fitted.model.memory is None


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("memory.indices", lambda array: array[:-1]),
        ("memory.indices", lambda array: np.full_like(array, np.iinfo(array.dtype).max)),
        ("memory.labels.indices", lambda array: np.full_like(array, np.iinfo(array.dtype).max)),
        ("memory.labels.indptr.lengths", lambda array: array[:-1]),
        ("memory.values", lambda array: array.astype(np.float32)),
        ("memory.values", lambda array: np.full_like(array, np.nan)),
    ],
)
def test_rejects_damaged_replay_memory(model, tmp_path, name, change):
    model.save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    storage.save(tmp_path / "wrong", {**arrays, name: change(arrays[name])}, metadata)
    with pytest.raises(ModelError):
        TextClassifier.load(tmp_path / "wrong")


def test_remembers_few_texts_and_samples_many():
    points, labels = numbered(100)
    assert identities(ReplayBuffer.of(points, labels, 0).points(2)) == list(range(1, 101))
    kept = identities(ReplayBuffer.of(points, labels, 0, max_texts=30).points(2))
    assert len(set(kept)) == 30
    assert max(kept) > 70, "the last have their share"
    assert len(ReplayBuffer.of(points, labels, 0, max_texts=30, max_entries=20)) == 10


def test_replays_old_texts_once_and_new_ones_in_each_epoch():
    kept = ReplayBuffer.of(*numbered(100), 0)
    points, labels = numbered(7, first=500)
    passes = list(kept.passes(points, labels, 0))
    assert len(passes) == n_epochs(7) == 17
    seen = [identities(features) for features, _ in passes]
    assert all(one[:7] == list(range(501, 508)) for one in seen)
    assert sorted(i for one in seen for i in one[7:]) == list(range(1, 101))
    for one, (_, owners) in zip(seen, passes, strict=True):
        assert owners.indices.tolist() == [(i - 1) % 3 if i < 500 else (i - 501) % 3 for i in one]


@pytest.mark.parametrize("limit", [{"max_texts": 200}, {"max_entries": 400}])
def test_the_memory_stays_a_uniform_sample(limit):
    first, later, n_kept = 0, 0, 0
    for seed in range(40):
        kept = ReplayBuffer.of(*numbered(600), seed, **limit)
        kept = kept.with_more(*numbered(200, first=600), 600, seed)
        kept = kept.with_more(*numbered(200, first=800), 800, seed + 1)
        assert 150 < len(kept) <= 200
        n_kept += len(kept)
        own = np.array(identities(kept.points(2)))
        assert len(np.unique(own)) == len(kept)
        first, later = first + int(np.count_nonzero(own <= 600)), later + int(np.count_nonzero(own > 800))
    assert first / n_kept == pytest.approx(0.6, abs=0.02)
    assert later / n_kept == pytest.approx(0.2, abs=0.02)


def test_replay_shifts_labels_by_their_true_frequency():
    kept = ReplayBuffer.of(*numbered(90), 0)
    counts, (_, new) = np.array([300, 300, 300]), numbered(9)
    np.testing.assert_allclose(kept.prior_shift(new, counts, 900), 0, atol=1e-6)
    rare = Rows(np.arange(10), np.full(9, 2, np.int32), np.ones(9, np.float32), 3)
    here, world = (30 + 15 * 9) / (90 + 15 * 9), 309 / 909
    assert n_epochs(9) == 15
    assert kept.prior_shift(rare, counts, 900)[2] == pytest.approx(np.log(here / world), rel=1e-5)
    none = ReplayBuffer.empty(3).prior_shift(rare, np.array([0, 900, 0]), 900)
    assert none[0] == 0, "of what no text has nothing is known"
    assert none[2] == pytest.approx(np.log(1 / (9 / 909)), rel=1e-5)
    assert np.isfinite(none).all()
