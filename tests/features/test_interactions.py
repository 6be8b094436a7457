"""Logs of interactions: sorting, histories and splits."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from sparsenet.features.interactions import Interactions, LogSplit


def a_log(n: int = 600, *, timed: bool = True) -> Interactions:
    rng = np.random.default_rng(0)
    times = rng.integers(0, 100, n).astype(float) if timed else None
    return Interactions.of(rng.integers(0, 40, n), rng.integers(0, 30, n), times, None, 40, 30)


def test_sorts_by_user_then_time_and_keeps_the_order_of_ties() -> None:
    log = Interactions.of([1, 0, 1, 1], [3, 2, 1, 0], [5.0, 9.0, 5.0, 1.0], [1, 2, 3, 4], 2, 4)
    assert log.users.tolist() == [0, 1, 1, 1]
    assert log.items.tolist() == [2, 0, 3, 1]
    assert log.weights.tolist() == [2, 4, 1, 3]
    assert log.recency.tolist() == [0, 2, 1, 0]


def test_histories_sum_repeated_items() -> None:
    rows = Interactions.of([0, 0, 2], [1, 1, 0], None, [1, 2, 5], 3, 2).histories()
    assert (rows.indptr.tolist(), rows.indices.tolist(), rows.data.tolist()) == ([0, 1, 1, 2], [1, 0], [3, 5])


def test_takes_a_matrix_without_its_zeros() -> None:
    log = Interactions.of_matrix(csr_array(([1.0, 0.0, 2.0], [1, 0, 0], [0, 2, 2, 3]), shape=(3, 2)))
    assert (log.users.tolist(), log.items.tolist(), log.weights.tolist()) == ([0, 2], [1, 0], [1, 2])


def test_random_split_masks_whole_items_of_each_user() -> None:
    log = a_log(timed=False)
    kept, held = log.split("random", 0)
    assert len(kept) + len(held) == len(log)
    pairs = [set(zip(part.users.tolist(), part.items.tolist(), strict=True)) for part in (kept, held)]
    assert not pairs[0] & pairs[1]
    assert set(held.users) == set(range(40))
    assert abs(len(pairs[1]) / (len(pairs[0]) + len(pairs[1])) - 0.2) < 0.05


def test_last_split_holds_out_the_last_event() -> None:
    log = a_log()
    kept, held = log.split("last", 0)
    assert held.users.tolist() == list(range(40))
    for user in range(40):
        assert held.times[user] >= kept.times[kept.users == user].max()


def test_time_split_never_learns_from_later_events() -> None:
    kept, held = a_log().split("time", 0, n_users=10)
    assert len(np.unique(held.users)) == 10
    assert kept.times.max() < held.times.min()


def test_split_of_some_users_leaves_the_others_whole() -> None:
    log = a_log()
    kept, held = log.split("random", 1, n_users=5)
    chosen = np.unique(held.users)
    assert len(chosen) == 5
    others = ~np.isin(log.users, chosen)
    assert np.count_nonzero(~np.isin(kept.users, chosen)) == np.count_nonzero(others)


@pytest.mark.parametrize("strategy", ["time", "random"])
def test_split_holds_out_the_share(strategy: LogSplit) -> None:
    users, items = np.repeat(np.arange(10), 10), np.tile(np.arange(10), 10)
    log = Interactions.of(users, items, np.tile(np.arange(10.0), 10), None, 10, 10)
    assert len(log.split(strategy, 0)[1]) == 20
    assert len(log.split(strategy, 0, share=0.5)[1]) == 50


def test_user_with_one_item_is_not_split() -> None:
    kept, held = Interactions.of([0, 1, 1], [0, 0, 1], [1.0, 1.0, 2.0], None, 2, 2).split("last", 0)
    assert (kept.users.tolist(), held.users.tolist()) == ([0, 1], [1])


@pytest.mark.parametrize("strategy", ["random", "last", "time"])
def test_splits_an_empty_log(strategy: str) -> None:
    empty = Interactions.of([], [], [], None, 0, 0)
    kept, held = empty.split(strategy, 0)
    assert len(kept) == len(held) == 0


def test_rejects_splits_by_time_without_times() -> None:
    with pytest.raises(ValueError, match="split='last' needs the time of each event"):
        a_log(timed=False).split("last", 0)
    with pytest.raises(ValueError, match="split must be one of 'last', 'time', 'random', got 'half'"):
        a_log().split("half", 0)


def test_numbers_chosen_users_in_their_order() -> None:
    log = Interactions.of([0, 1, 2, 2], [0, 1, 2, 0], [1.0, 2.0, 3.0, 4.0], None, 3, 3).of_users(np.array([2, 0]))
    assert (log.users.tolist(), log.items.tolist(), log.n_users) == ([0, 0, 1], [2, 0, 0], 2)
