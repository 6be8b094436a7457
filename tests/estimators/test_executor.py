"""`fit(executor=...)` gives the model of one process, bit for bit."""

import os

import numpy as np
import pytest

from sparsenet import BlendClassifier, ExtremeClassifier, TextClassifier, TreeClassifier, Workers
from sparsenet.engines.tree import train_levels
from tests.support import pool_tasks
from tests.support.planted import X, Y
from tests.support.pool_tasks import processes
from tests.support.same_trees import LABELS, POINTS, assert_same_tree, many_tasks, tree

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    many_tasks(monkeypatch)


@pytest.fixture(scope="module")
def usual():
    return tree()


@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_tree_is_the_same_on_processes(usual, n, tmp_path):
    with processes(n) as pool:
        assert_same_tree(tree(executor=Workers(pool, scratch=tmp_path)), usual)
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_tree_is_the_same_on_spawned_processes(usual):
    with processes(2, "spawn") as pool:
        assert_same_tree(tree(executor=pool), usual)


def test_workers_read_points_of_a_cache(usual, tmp_path):
    for name in ("cache", "scratch"):
        (tmp_path / name).mkdir()
    with processes(2) as pool:
        found = tree(executor=Workers(pool, scratch=tmp_path / "scratch"), cache=tmp_path / "cache")
    assert_same_tree(found, usual)
    assert os.listdir(tmp_path / "scratch") == []


def test_a_tree_is_the_same_if_a_worker_is_killed(usual, tmp_path, monkeypatch):
    monkeypatch.setenv("DIED", str(tmp_path / "died"))
    monkeypatch.setattr(train_levels, "route", pool_tasks.route_once_dying)
    assert_same_tree(tree(executor=processes), usual)
    assert (tmp_path / "died").exists()


@pytest.mark.parametrize("network", ["drop", None])
def test_a_blend_is_the_same_on_processes(network, tmp_path):
    def fitted(**how):
        own = {"hidden": 8, "epochs": 1} if network is None else None
        model = BlendClassifier(random_state=0, n_jobs=1, network=ExtremeClassifier(**own) if own else network)
        return model.fit(POINTS[:1500], LABELS[:1500], **how)

    usual = fitted()
    for name in ("cache", "scratch"):
        (tmp_path / name).mkdir()
    how = {"cache": tmp_path / "cache"} if network == "drop" else {}
    with processes(2) as pool:
        found = fitted(executor=Workers(pool, scratch=tmp_path / "scratch"), **how)
    assert_same_tree(found.tree_, usual.tree_)
    assert found.choices_ == usual.choices_
    for a, b in zip(found.topk(POINTS[1500:1700], 5), usual.topk(POINTS[1500:1700], 5), strict=True):
        np.testing.assert_array_equal(a, b)
    assert os.listdir(tmp_path / "scratch") == []


def test_a_blend_of_texts_is_the_same_on_processes():
    texts = [" ".join(f"w{word}" for word in row.indices) for row in POINTS[:600]]

    def fitted(**how):
        return TextClassifier(method="blend", epochs=1, random_state=0, n_jobs=1).fit(texts, LABELS[:600], **how)

    with processes(2) as pool:
        found = fitted(executor=pool)
    for a, b in zip(found.topk(texts[:50], 5), fitted().topk(texts[:50], 5), strict=True):
        np.testing.assert_array_equal(a, b)


def test_neighbors_of_dense_points_are_the_same_on_processes():
    points = np.random.default_rng(0).normal(size=(300, 12))
    points += np.arange(300)[:, None] % 5

    def fitted(**how):
        return (
            BlendClassifier(random_state=0, n_jobs=1, network="drop").fit(points, np.arange(300) % 5, **how).neighbors_
        )

    with processes(2) as pool:
        found, expected = fitted(executor=pool), fitted()
    assert found.power == expected.power
    for one, other in zip(found.arrays(), expected.arrays(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_failed_fit_on_workers_leaves_the_model_unchanged(tmp_path):
    model = TreeClassifier(random_state=0).fit(X, Y)
    before = model.fitted_
    with processes(1) as pool, pytest.raises(ValueError, match="overflow float32"):
        model.set_params(normalize="none").fit(
            np.full((40, 3), 1e30), np.arange(40), executor=Workers(pool, scratch=tmp_path)
        )
    assert model.fitted_ is before
    assert os.listdir(tmp_path) == []


def test_rejects_what_is_no_executor():
    with pytest.raises(ValueError, match="executor must be"):
        tree(executor=3)
