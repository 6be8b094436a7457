"""The rules of a recommender: injected values take effect, and bounds of memory change no bit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sparsenet.core.rows import Rows
from sparsenet.engines.recommender import recommender_arrays
from sparsenet.engines.recommender.fit_recommender import FittedRecommender, RecommenderOptions, fit
from sparsenet.engines.recommender.item_lists import transitions
from sparsenet.engines.recommender.local_regression import regress
from sparsenet.engines.recommender.recommender_rules import RULES
from sparsenet.engines.recommender.spectrum import leading
from sparsenet.features.interactions import Interactions


def a_log(n_users: int = 80, n_items: int = 30, *, timed: bool = True) -> Interactions:
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(n_users), 8)
    items = (users * 3 + rng.integers(0, 9, len(users))) % n_items
    return Interactions.of(users, items, rng.random(len(users)) if timed else None, None, n_users, n_items)


def fitted(log: Interactions, **rules: Any) -> FittedRecommender:
    return fit(log, RecommenderOptions(rules=replace(RULES, **rules), verbose=False), seed=0, threads=1)


@pytest.mark.parametrize("timed", [False, True])
def test_sizes_of_blocks_change_no_bit(timed: bool) -> None:
    log = a_log(timed=timed)
    usual, tiny = fitted(log, fewest=10), fitted(log, fewest=10, product_cells=1, users_at_a_time=7, grain=1)
    assert "debias" in usual.choices
    for name, array in recommender_arrays.pack(usual)[0].items():
        assert array.tobytes() == recommender_arrays.pack(tiny)[0][name].tobytes(), name
    for a, b in zip(usual.topk(log, 5, threads=1), tiny.topk(log, 5, threads=2), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("timed", [False, True])
def test_too_few_users_leave_the_prior(timed: bool) -> None:
    own = tuple(np.arange(7.0))
    model = fitted(a_log(timed=timed), fewest=1000, **{"timed_prior" if timed else "prior": own})
    assert model.weights.tolist() == list(own)
    assert "fewer than 1000" in model.choices["weights"].why


def test_large_catalogues_get_short_lists_and_few_singular_vectors() -> None:
    parts = fitted(a_log(), max_numbers=1, shortest=2).parts
    assert parts.factors.shape == (30, 2)
    for lists in parts.lists:
        assert np.diff(lists.indptr).max() <= 30
    assert np.diff(parts.lists.walk.indptr).max() == np.diff(parts.lists.successors.indptr).max() == 2


def test_the_latest_items_of_a_user_count() -> None:
    log = Interactions.of(np.repeat(np.arange(20), 4), np.tile(np.arange(4), 20), np.arange(80.0), None, 20, 4)
    assert fitted(log, max_per_user=2).parts.users_of.tolist() == [0, 0, 20, 20]


def test_transitions_reach_as_far_as_the_rule() -> None:
    log = Interactions.of([0, 0, 0], [0, 1, 2], [1.0, 2.0, 3.0], None, 1, 3)
    assert np.diff(transitions(log, 3, replace(RULES, reach=1)).indptr).tolist() == [1, 1, 0]
    assert np.diff(transitions(log, 3).indptr).tolist() == [2, 1, 0]


@pytest.mark.parametrize(("rules", "most"), [({"n_near": 2}, 2), ({"work": 0}, 0), ({"fewest_users": 1000}, 0)])
def test_regressions_are_bounded(rules: dict[str, Any], most: int) -> None:
    histories = a_log(timed=False).histories()
    near = fitted(a_log()).parts.lists.walk
    found = regress(histories, near, 4.0, 1, replace(RULES, **rules))
    assert np.bincount(found.indices, minlength=30).max() == most


def test_directions_below_the_noise_are_dropped() -> None:
    data = np.array([1.0, 0.1], np.float32)
    rows = Rows(np.arange(3), np.arange(2, dtype=np.int32), data, 2)
    assert leading(rows, 2, seed=0, threads=1).values == pytest.approx([1.0, 0.1])
    assert leading(rows, 2, seed=0, threads=1, rules=replace(RULES, noise=0.5)).values == pytest.approx([1.0])


def test_only_candidates_are_recommended() -> None:
    log = a_log()
    model = fitted(log)
    few = replace(model, parts=replace(model.parts, rules=replace(RULES, n_candidates=3)))
    best, few_best = model.topk(log, 3, threads=1)[0], few.topk(log, 3, threads=1)[0]
    assert (best != few_best).any()
    assert (few_best >= 0).all()


def test_unpacks_with_the_rules_of_the_answers() -> None:
    model = fitted(a_log(), fading=0.5)
    arrays, about = recommender_arrays.pack(model)
    assert recommender_arrays.unpack(arrays, about).parts.rules == RULES
    again = recommender_arrays.unpack(arrays, about, model.parts.rules)
    for a, b in zip(model.topk(a_log(), 5, threads=1), again.topk(a_log(), 5, threads=1), strict=True):
        assert a.tobytes() == b.tobytes()
