"""The recommender: answers, odd logs, saving, the same bits at any number of threads."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet.engines.recommender import recommender_arrays
from sparsenet.engines.recommender.fit_recommender import FittedRecommender, RecommenderOptions, fit
from sparsenet.features.interactions import Interactions
from sparsenet.storage.format import ModelError


def two_tastes(n_users: int = 120, n_items: int = 40, *, timed: bool = False, seed: int = 0) -> Interactions:
    """Return a log: even users take items of the first half, and odd users of the second."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(n_users), 6)
    items = rng.integers(0, n_items // 2, len(users)) + users % 2 * (n_items // 2)
    times = rng.random(len(users)) if timed else None
    return Interactions.of(users, items, times, None, n_users, n_items)


def fitted(log: Interactions, threads: int = 1, seed: int = 0) -> FittedRecommender:
    return fit(log, RecommenderOptions(verbose=False), seed=seed, threads=threads)


@pytest.mark.parametrize("timed", [False, True])
def test_recommends_items_of_the_user_s_taste(timed: bool) -> None:
    log = two_tastes(timed=timed)
    items, scores = fitted(log).topk(log, 5, threads=1)
    assert ((items >= 20) == (np.arange(120)[:, None] % 2 == 1)).mean() > 0.98
    assert (np.diff(scores, axis=1) <= 0).all()


def test_excludes_seen_items_unless_asked() -> None:
    log = two_tastes()
    model = fitted(log)
    seen = set(zip(log.users.tolist(), log.items.tolist(), strict=True))
    items, _ = model.topk(log, 10, threads=1)
    assert not seen & {(u, i) for u in range(120) for i in items[u].tolist()}
    items, _ = model.topk(log, 10, exclude_seen=False, threads=1)
    assert seen & {(u, i) for u in range(120) for i in items[u].tolist()}


def test_recommends_allowed_items_only_and_pads() -> None:
    log = two_tastes()
    only = np.zeros(40, bool)
    only[[3, 25]] = True
    items, scores = fitted(log).topk(log, 4, only=only, threads=1)
    assert set(items.ravel().tolist()) <= {-1, 3, 25}
    assert (items[:, 2:] == -1).all()
    assert np.isneginf(scores[items == -1]).all()


def test_answers_new_users_and_users_without_history() -> None:
    model = fitted(two_tastes())
    new = Interactions.of([0, 0], [30, 31], None, None, 2, 40)
    items, _ = model.topk(new, 5, threads=1)
    assert (items[0] >= 20).all()
    assert (items[1] >= 0).all()
    assert len(set(items[1].tolist())) == 5


def test_similar_items_share_users() -> None:
    near, scores = fitted(two_tastes()).similar(np.array([2, 33], np.int32), 5, threads=1)
    assert (near[0] < 20).all()
    assert (near[1] >= 20).all()
    assert 2 not in near[0]
    assert (np.diff(scores, axis=1) <= 0).all()


@pytest.mark.parametrize("timed", [False, True])
def test_same_bits_at_any_number_of_threads(timed: bool) -> None:
    log = two_tastes(timed=timed)
    one, three = fitted(log), fitted(log, threads=3)
    for name, array in recommender_arrays.pack(one)[0].items():
        assert array.tobytes() == recommender_arrays.pack(three)[0][name].tobytes(), name
    assert recommender_arrays.pack(one)[1] == recommender_arrays.pack(three)[1]
    for a, b in zip(one.topk(log, 5, threads=1), three.topk(log, 5, threads=3), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize(
    ("users", "items", "times", "n_users", "n_items"),
    [
        ([0, 1, 2], [0, 1, 0], None, 3, 2),
        ([0, 1, 2], [0, 1, 0], [1.0, 2.0, 3.0], 3, 2),
        ([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1], None, 3, 2),
        ([0, 0, 1, 1], [0, 1, 0, 1], [1.0, 2.0, 1.0, 2.0], 2, 2),
        ([0], [0], None, 1, 1),
        ([], [], None, 0, 0),
        ([], [], None, 2, 3),
        ([0] * 50, [0] * 50, None, 1, 4),
        (list(range(100)), [0] * 100, None, 100, 3),
        (list(range(100)), list(range(100)), [5.0] * 100, 100, 100),
    ],
)
def test_odd_logs_give_valid_answers(
    users: list[int], items: list[int], times: list[float] | None, n_users: int, n_items: int
) -> None:
    log = Interactions.of(users, items, times, None, n_users, n_items)
    model = fitted(log)
    for exclude_seen in (True, False):
        found, scores = model.topk(log, 3, exclude_seen=exclude_seen, threads=1)
        assert found.shape == scores.shape == (n_users, 3)
        assert ((found >= -1) & (found < n_items)).all()
        assert not np.isnan(scores).any()
        n_seen = log.histories().indptr[1:] - log.histories().indptr[:-1]
        n_left = n_items - (n_seen if exclude_seen else 0)
        assert ((found >= 0).sum(axis=1) == np.minimum(3, n_left)).all()
    found, _ = model.similar(np.arange(n_items, dtype=np.int32), 2, threads=1)
    assert not (found == np.arange(n_items)[:, None]).any()


def test_unpacks_what_it_packed() -> None:
    log = two_tastes(timed=True)
    model = fitted(log)
    again = recommender_arrays.unpack(*recommender_arrays.pack(model))
    for a, b in zip(model.topk(log, 5, threads=1), again.topk(log, 5, threads=1), strict=True):
        assert a.tobytes() == b.tobytes()
    assert dict(again.choices) == dict(model.choices)


@pytest.mark.parametrize("name", ["walk", "regression", "successors"])
def test_refuses_damaged_lists(name: str) -> None:
    arrays, about = recommender_arrays.pack(fitted(two_tastes(timed=True)))
    ids = arrays[f"{name}.indices"]
    with pytest.raises(ValueError, match="beyond the 40 columns"):
        recommender_arrays.unpack({**arrays, f"{name}.indices": np.append(ids[:-1], np.int32(99))}, about)
    with pytest.raises(ModelError, match=f"the ids of {name} must ascend"):
        recommender_arrays.unpack({**arrays, f"{name}.indices": np.zeros_like(ids)}, about)
    with pytest.raises(ModelError, match=f"row pointers of {name}"):
        recommender_arrays.unpack({**arrays, f"{name}.indptr": arrays[f"{name}.indptr"][:-1]}, about)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("users_of", np.array([-1]), "users_of must hold a whole number"),
        ("trend", np.zeros(3, np.float32), r"trend must hold finite numbers in float32 of shape \(40,\)"),
        ("factors", np.full((40, 2), np.nan, np.float32), "factors must hold finite numbers"),
        ("factors", np.zeros(40, np.float32), "factors must hold finite numbers"),
    ],
)
def test_refuses_damaged_arrays(name: str, value: NDArray[Any], message: str) -> None:
    arrays, about = recommender_arrays.pack(fitted(two_tastes()))
    with pytest.raises(ModelError, match=message):
        recommender_arrays.unpack({**arrays, name: value}, about)


@pytest.mark.parametrize("weights", [[1.0], "1", [float("nan")] * 7, [-1.0] * 7])
def test_refuses_damaged_weights(weights: object) -> None:
    arrays, about = recommender_arrays.pack(fitted(two_tastes()))
    with pytest.raises(ValueError, match="weight"):
        recommender_arrays.unpack(arrays, {**about, "weights": weights})


@pytest.mark.parametrize("unit", [0.0, -1.0, float("inf")])
def test_refuses_a_unit_that_amounts_cannot_be_divided_by(unit: float) -> None:
    arrays, about = recommender_arrays.pack(fitted(two_tastes()))
    with pytest.raises(ValueError, match="unit must be"):
        recommender_arrays.unpack(arrays, {**about, "unit": unit})


def test_takes_a_matrix() -> None:
    X = csr_array(np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1]], np.float32))
    items, _ = fitted(Interactions.of_matrix(X)).topk(Interactions.of_matrix(X), 1, threads=1)
    assert items.ravel().tolist() == [2, 1, 0]


def test_repeats_items_where_users_do() -> None:
    rng = np.random.default_rng(0)
    users, favourite = np.repeat(np.arange(200), 12), np.repeat(rng.integers(0, 50, 200), 12)
    items = np.where(rng.random(len(users)) < 0.7, favourite, rng.integers(0, 50, len(users)))
    log = Interactions.of(users, items, rng.random(len(users)), None, 200, 50)
    found, _ = fitted(log).topk(log, 1, exclude_seen=False, threads=1)
    assert (found[:, 0] == favourite[::12]).mean() > 0.8


def test_the_last_items_count_most_where_order_matters() -> None:
    rng = np.random.default_rng(0)  # item i + 1 follows item i, from a random item on
    users, steps = np.repeat(np.arange(300), 8), np.tile(np.arange(8), 300)
    items = (rng.integers(0, 60, 300)[users] + steps) % 60
    log = Interactions.of(users, items, (users % 10) * 8.0 + steps, None, 300, 60)
    found, _ = fitted(log).topk(log, 1, threads=1)
    assert (found[:, 0] == (items[7::8] + 1) % 60).mean() > 0.8


@pytest.mark.parametrize("exclude_seen", [True, False])
def test_answers_do_not_depend_on_the_other_users(exclude_seen: bool) -> None:
    rng = np.random.default_rng(0)  # one user has seen far more items than the others
    users = np.concatenate((np.repeat(np.arange(200), 8), np.full(400, 200)))
    items = np.concatenate((rng.integers(0, 700, 1600), np.arange(400)))
    log = Interactions.of(users, items, None, None, 201, 700)
    model = fitted(log)
    together, scores = model.topk(log, 10, exclude_seen=exclude_seen, threads=1)
    for user in (0, 7, 199, 200):
        alone, own = model.topk(log.of_users(np.array([user])), 10, exclude_seen=exclude_seen, threads=1)
        assert alone[0].tolist() == together[user].tolist()
        assert own[0].tolist() == scores[user].tolist()


def amounts_and_noise(*, tell: bool) -> Interactions:
    """Return a log of five items of a taste and fifteen others each; if amounts `tell`, the former have larger ones."""
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(600), 20)
    taste, is_taste = users % 20, np.tile(np.arange(20) < 5, 600)
    items = np.where(is_taste, taste * 10 + rng.integers(0, 10, len(users)), rng.integers(0, 200, len(users)))
    weights = np.where(is_taste & tell, 20.0, 1.0) * rng.lognormal(0, 0.5, len(users))
    return Interactions.of(users, items, None, weights, 600, 200)


def share_of_taste(log: Interactions, model: FittedRecommender) -> float:
    items, _ = model.topk(log, 5, threads=1)
    return float((items // 10 == np.arange(600)[:, None] % 20).mean())


def test_amounts_count_where_they_tell() -> None:
    log = amounts_and_noise(tell=True)
    model = fitted(log)
    assert model.choices["amounts"].value in ("log", "linear")
    plain = replace(model, parts=replace(model.parts, amounts="ignored"))
    assert share_of_taste(log, model) > share_of_taste(log, plain) + 0.1


def test_amounts_are_ignored_where_they_tell_nothing() -> None:
    log = amounts_and_noise(tell=False)
    model = fitted(log)
    assert model.choices["amounts"].value == "ignored"
    assert "not beyond chance" in model.choices["amounts"].why
