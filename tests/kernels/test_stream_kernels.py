"""Streams of events: the kernels against each other, against plain Python, and at any number of threads."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sparsenet.temporal.ranking.stream_arrays import StreamArrays
from sparsenet.temporal.ranking.stream_rules import RULES, StreamRates, StreamRules
from tests.support.backends import has_extension

N_USERS, N_ITEMS = 12, 15


def events(n: int, seed: int = 0, n_features: int = 0) -> dict[str, Any]:
    """Draw users who repeat their items, go on to the next one, or take any."""
    rng = np.random.default_rng(seed)
    users, items = rng.integers(0, N_USERS, n), np.empty(n, np.int64)
    last = np.zeros(N_USERS, np.int64)
    for e, user in enumerate(users):
        items[e] = rng.choice([last[user], (last[user] + 1) % N_ITEMS, rng.integers(0, N_ITEMS)], p=[0.6, 0.3, 0.1])
        last[user] = items[e]
    times = np.cumsum(rng.exponential(10, n).round())
    features = rng.normal(size=(n, n_features)).astype(np.float32)
    return {"users": users.astype(np.int32), "items": items.astype(np.int32), "times": times, "features": features}


def blank(history: int = 4, widths: tuple[int, int] = (0, 0), rules: StreamRules = RULES) -> StreamArrays:
    arrays = StreamArrays.blank(history, *widths, rules=rules)
    arrays.make_room(N_USERS, 70, N_USERS, 70)
    arrays.item_counts[:N_ITEMS] = 0
    arrays.item_features[:] = np.random.default_rng(1).normal(size=arrays.item_features.shape)
    return arrays


def learn(
    module: ModuleType, arrays: StreamArrays, log: dict[str, Any], refresh: int = 1, mutual: bool = False
) -> list[int]:
    ranks = np.zeros(len(log["users"]), np.int64)
    module.learn_stream(**vars(arrays), **log, mutual=mutual, refresh=refresh, out_ranks=ranks)
    return ranks.tolist()


def rank(module: ModuleType, arrays: StreamArrays, users: list[int], k: int = 20, threads: int = 1) -> Any:
    items, scores = np.empty((len(users), k), np.int32), np.empty((len(users), k), np.float32)
    times = np.full(len(users), arrays.clock[2] + 5)
    module.rank_stream(
        **arrays.state(), users=np.int32(users), times=times, out_items=items, out_scores=scores, threads=threads
    )
    return items, scores


@pytest.mark.numba_smoke
def test_state_counts_what_happened(backend: ModuleType) -> None:
    arrays, log = blank(), events(300)
    learn(backend, arrays, log)
    for user in range(N_USERS):
        own = log["items"][log["users"] == user].tolist()
        latest = list(dict.fromkeys(reversed(own)))[:4]
        assert arrays.pair_items[user, : len(latest), 0].tolist() == latest
        assert arrays.user_values[user, 0] == len(own)
        assert arrays.pair_counts[user, 0, 0] >= 1
        last = np.flatnonzero((log["users"] == user) & (log["items"] == latest[0]))[-1]
        assert arrays.pair_times[user, 0] == log["times"][last]
    assert arrays.item_counts[:N_ITEMS].tolist() == np.bincount(log["items"], minlength=N_ITEMS).tolist()
    for half, half_life in enumerate(RULES.half_lives):
        decayed = [
            sum(2.0 ** (-(300 - e) / half_life) for e in np.flatnonzero(log["items"] == i)) for i in range(N_ITEMS)
        ]
        levels = arrays.item_values[:N_ITEMS, 4 + half] - 300 / half_life
        np.testing.assert_allclose(levels, np.log2(decayed), atol=1e-9)
        best = np.argsort(decayed)[::-1][:8]
        assert set(arrays.popular[half].tolist()) == set(best.tolist())
    assert arrays.clock.tolist() == [300, log["times"][0], log["times"][-1]]


def test_ranks_agree_with_the_answers(backend: ModuleType) -> None:
    arrays, log = blank(), events(200)
    for e in range(200):
        one = {name: values[e : e + 1] for name, values in log.items()}
        items, scores = np.empty((1, 40), np.int32), np.empty((1, 40), np.float32)
        backend.rank_stream(
            **arrays.state(), users=one["users"], times=one["times"], out_items=items, out_scores=scores, threads=1
        )
        found = items[0].tolist()
        (own,) = learn(backend, arrays, one)
        n = sum(item >= 0 for item in found)
        if one["items"][0] in found and e > 20:  # moments of the event itself change the scores a little
            assert abs(own - found.index(one["items"][0]) - 1) <= 2
        elif one["items"][0] not in found:
            assert own > n
        assert math.isclose(scores.sum(), 1, rel_tol=1e-5) == (n > 0)


def test_one_call_equals_many(backend: ModuleType) -> None:
    whole, parts, log = blank(), blank(), events(150)
    ranks = learn(backend, whole, log)
    found = []
    for first in range(0, 150, 7):
        found += learn(backend, parts, {name: values[first : first + 7] for name, values in log.items()})
    assert found == ranks
    for name, array in vars(whole).items():
        assert array.tobytes() == getattr(parts, name).tobytes(), name


@pytest.mark.parametrize("refresh", [1, 7])
def test_learns_the_same_without_ranks(backend: ModuleType, refresh: int) -> None:
    ranked, unranked, log = blank(), blank(), events(100)
    learn(backend, ranked, log, refresh)
    backend.learn_stream(**vars(unranked), **log, mutual=False, refresh=refresh, out_ranks=np.zeros(0, np.int64))
    for name, array in vars(ranked).items():
        assert array.tobytes() == getattr(unranked, name).tobytes(), name


def test_learns_to_rank_repeats_and_successors(backend: ModuleType) -> None:
    ranks = np.array(learn(backend, blank(), events(3000)))
    assert np.mean(1 / ranks[2000:]) > 0.74  # 0.6 repeat, 0.3 go on, 0.1 are any of 15


@pytest.mark.numba_smoke
def test_receivers_remember_who_wrote(backend: ModuleType) -> None:
    arrays = StreamArrays.blank(3)
    arrays.make_room(5, 5, 100, 100)
    arrays.item_counts[:5] = 0
    log = {"users": np.int32([0, 1, 2, 2]), "items": np.int32([1, 2, 1, 2]), "times": np.arange(4.0)}
    log["features"] = np.zeros((4, 0), np.float32)
    learn(backend, arrays, log, mutual=True)
    assert arrays.pair_items[:3, :, 0].tolist() == [[1, -1, -1], [2, 0, -1], [2, 1, -1]]
    assert arrays.pair_counts[1, :, [0, 4, 5]].T.tolist() == [[1, 1, 1], [0, 1, 1], [0, 0, 0]]
    assert arrays.user_values[:3, 0].tolist() == [1, 1, 2]
    with pytest.raises(ValueError, match="users must be the same if mutual"):
        learn(backend, blank(), events(3), mutual=True)


def test_refresh_ranks_a_block_from_the_state_before(backend: ModuleType) -> None:
    arrays, log = blank(), events(60)
    ranks = learn(backend, arrays, log, refresh=60)
    assert ranks == (log["items"] + 1).tolist()  # without candidates: by number
    assert arrays.clock[0] == 60


def test_queries_do_not_depend_on_threads(backend: ModuleType) -> None:
    arrays = blank()
    learn(backend, arrays, events(500))
    before = copy.deepcopy(vars(arrays))
    users = [*range(N_USERS), -1] * 20
    items, scores = rank(backend, arrays, users)
    for threads in (2, 4):
        again = rank(backend, arrays, users, threads=threads)
        assert (again[0].tobytes(), again[1].tobytes()) == (items.tobytes(), scores.tobytes())
    assert all(before[name].tobytes() == array.tobytes() for name, array in vars(arrays).items())
    assert items[12, 0] >= 0  # an unknown user gets popular items


@pytest.mark.skipif(not has_extension(), reason="there is no C++ extension to compare with")
@pytest.mark.parametrize("refresh", [1, 10])
@pytest.mark.parametrize("widths", [(0, 0), (2, 3)])
def test_native_agrees_with_numba(refresh: int, widths: tuple[int, int]) -> None:
    found, log = {}, events(100, n_features=widths[0])
    for name in ("sparsenet._core", "sparsenet.kernels.numba"):
        arrays = blank(widths=widths)
        ranks = learn(importlib.import_module(name), arrays, log, refresh)
        found[name] = ranks, arrays
    (ranks, native), (others, numba) = found.values()
    assert ranks == others
    for name, array in vars(native).items():
        np.testing.assert_allclose(array, getattr(numba, name), rtol=1e-3, atol=1e-3, err_msg=name)


@pytest.mark.skipif(not has_extension(), reason="there is no C++ extension to compare with")
@pytest.mark.parametrize("rate", [field.name for field in dataclasses.fields(StreamRates)])
def test_each_rate_means_the_same_in_both_kernels(rate: str) -> None:
    usual, log = StreamRules(), events(100)
    rules = StreamRules(rates=dataclasses.replace(usual.rates, **{rate: 0.7 * getattr(usual.rates, rate) + 0.2}))
    arrays = [blank(rules=own) for own in (rules, rules, usual)]
    for own, name in zip(arrays, ("sparsenet._core", "sparsenet.kernels.numba", "sparsenet._core"), strict=True):
        learn(importlib.import_module(name), own, log)
    for name, array in vars(arrays[0]).items():
        np.testing.assert_allclose(array, getattr(arrays[1], name), rtol=1e-3, atol=1e-3, err_msg=name)
    assert not np.array_equal(arrays[0].weights, arrays[2].weights)


@pytest.mark.numba_smoke
def test_features_follow_the_history(backend: ModuleType) -> None:
    arrays, log = blank(widths=(2, 3)), events(300, n_features=2)
    learn(backend, arrays, log)
    for user in range(N_USERS):
        for place, item in enumerate(arrays.pair_items[user, :, 0].tolist()):
            last = np.flatnonzero((log["users"] == user) & (log["items"] == item))[-1]
            assert arrays.pair_features[user, place].tolist() == log["features"][last].tolist()
    before = rank(backend, arrays, [0])[1]
    arrays.item_features[arrays.pair_items[0, 0, 0]] += 1
    assert rank(backend, arrays, [0])[1].tolist() != before.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"users": np.zeros(3)}, "users must have dtype int32"),
        ({"times": np.zeros(2)}, r"times has shape\[0\] = 2, expected 3"),
        ({"refresh": 0}, "refresh must be at least 1, got 0"),
        ({"clock": np.zeros(2)}, "clock has shape"),
        ({"rates": np.zeros(3)}, "rates has shape"),
        ({"features": np.zeros((3, 1), np.float32)}, r"features has shape\[1\] = 1, expected 0"),
        ({"item_features": np.zeros((9, 0), np.float32)}, "item_features has shape"),
        ({"weights": np.zeros((9, 32), np.float32)}, "weights has shape|squares has shape"),
        ({"item_values": np.zeros((2, 9))}, "item_values has shape"),
    ],
)
def test_refuses_wrong_arguments(backend: ModuleType, change: dict[str, Any], message: str) -> None:
    given = vars(blank()) | events(3) | {"mutual": False, "refresh": 1, "out_ranks": np.zeros(3, np.int64)} | change
    with pytest.raises(ValueError, match=message):
        backend.learn_stream(**given)
