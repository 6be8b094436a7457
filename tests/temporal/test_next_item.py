"""`NextItem`: learning, answers, saving, bad input."""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import signal
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsenet import DataError, ModelError, kernels, load, storage
from sparsenet.temporal import NextItem
from tests.support import forging

NAMES = [f"page {i}" for i in range(30)]


def log_of(n: int, n_users: int = 20, seed: int = 0, first: int = 0) -> dict[str, Any]:
    """Draw users who stay at a page, go on to the next one, or go anywhere."""
    rng = np.random.default_rng(seed)
    users, pages, last = rng.integers(0, n_users, n), np.empty(n, int), np.zeros(n_users, int)
    for e, user in enumerate(users):
        pages[e] = rng.choice([last[user], (last[user] + 1) % 30, rng.integers(30)], p=[0.5, 0.4, 0.1])
        last[user] = pages[e]
    rows = slice(first, n)
    return {
        "user": [f"user {u}" for u in users[rows]],
        "item": [NAMES[page] for page in pages[rows]],
        "time": np.cumsum(rng.integers(0, 50, n))[rows].tolist(),
    }


def part(log: dict[str, Any], first: int, last: int) -> dict[str, Any]:
    return {name: values[first:last] for name, values in log.items()}


def answers(model: NextItem, users: list[Any]) -> list[tuple[Any, ...]]:
    found = model.topk(users, k=5)
    return list(zip(*(found[name].tolist() for name in ("user", "item", "score", "rank")), strict=True))


def test_predicts_the_next_page() -> None:
    log = log_of(3000)
    model = NextItem().fit(part(log, 0, 2500))
    scores = model.score(part(log, 2500, 3000))
    assert scores["MRR"] > 0.65  # half stay, four in ten go on
    assert scores["recall@10"] > 0.9
    assert model.n_events_ == 3000
    assert (model.n_users_, model.n_items_) == (20, 30)
    found = model.topk("user 3", k=3)
    assert found["rank"].tolist() == [1, 2, 3]
    assert (np.diff(found["score"]) <= 0).all()


def test_score_equals_predictions_before_each_event() -> None:
    log = log_of(400)
    scored, updated = (NextItem().fit(part(log, 0, 300)) for _ in range(2))
    whole = scored.score(part(log, 300, 400))
    ones = [updated.score(part(log, e, e + 1)) for e in range(300, 400)]
    assert {name: np.mean([one[name] for one in ones]) for name in whole} == pytest.approx(whole)


@pytest.mark.parametrize(("refresh", "mutual", "known"), [(1, False, 1), (4, False, 0), (1, True, 2)])
def test_an_item_without_earlier_events_is_a_miss(refresh: int, mutual: bool, known: int) -> None:
    log = {"user": ["u", "v"], "item": ["a", "b"], "time": [0, 0]}
    later = {"user": ["u", "u", "v", "w"], "item": ["x", "x", "w", "u"], "time": [1, 2, 3, 4]}
    scores = NextItem(refresh=refresh, mutual=mutual).fit(log).score(later)
    assert scores["recall@10"] == known / 4
    assert scores["MRR"] <= scores["recall@10"]


def test_updates_in_any_parts_are_equal(tmp_path: Path) -> None:
    log = log_of(500)
    whole = NextItem(max_users=8, max_items=12).fit(part(log, 0, 100)).update(part(log, 100, 500))
    parts = NextItem(max_users=8, max_items=12).fit(part(log, 0, 100))
    for first in range(100, 500, 9):
        parts.update(part(log, first, min(first + 9, 500)))
        if first == 307:
            parts.save(tmp_path / "model")
            parts = NextItem.load(tmp_path / "model")
    assert answers(parts, [f"user {i}" for i in range(20)]) == answers(whole, [f"user {i}" for i in range(20)])
    assert parts.n_users_ <= 8
    assert parts.n_items_ <= 12
    found, wanted = (model._saved.stream.arrays.cut(8, 12) for model in (parts, whole))
    for name, array in wanted.items():
        assert found[name].tobytes() == array.tobytes(), name


def test_new_users_and_items_take_part_from_their_first_event() -> None:
    log = log_of(300)
    model = NextItem().fit(log)
    before = model.topk("eva", k=30)["item"].tolist()
    assert "page 99" not in before
    model.update({"user": ["eva"], "item": ["page 99"], "time": [log["time"][-1] + 1]})
    assert model.topk("eva", k=1)["item"].tolist() == ["page 99"]
    assert model.topk("nobody", k=3)["item"].tolist()


def test_people_who_write_to_each_other_answer(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pairs: list[tuple[int, int]] = []
    for _ in range(600):
        writer, reader = rng.choice(40, 2, replace=False).tolist()
        pairs += [(writer, reader), (reader, writer)]
    log = {"user": [a for a, _ in pairs], "item": [b for _, b in pairs], "time": [*range(1200)]}
    alone, mutual = (NextItem(mutual=mutual).fit(part(log, 0, 800)) for mutual in (False, True))
    few = NextItem(mutual=True, max_users=20).fit(part(log, 0, 800))
    few.save(tmp_path / "few")
    loaded = NextItem.load(tmp_path / "few")
    later = part(log, 800, 1200)
    found = few.score(later)
    assert loaded.score(later) == found
    assert few.n_users_ == few.n_items_ <= 20
    assert alone.score(later)["recall@1"] < 0.2
    assert mutual.score(later)["recall@1"] > 0.45  # each second message is an answer
    with pytest.raises(ValueError, match="max_users must be an integer from 2"):
        NextItem(mutual=True, max_users=1).fit(log)
    with pytest.raises(ValueError, match="must both be named by strings, or both by whole numbers"):
        NextItem(mutual=True).fit({"user": ["a"], "item": [1], "time": [0]})


def test_similar_items_follow() -> None:
    found = NextItem().fit(log_of(3000)).similar("page 4", k=2)
    assert found["similar"][0] == "page 5"
    assert found["score"][0] > 0.5
    with pytest.raises(ValueError, match="items holds 'page 77', which the model does not know"):
        NextItem().fit(log_of(300)).similar("page 77")


def test_forgets_the_oldest_users_and_items(tmp_path: Path) -> None:
    log = {"user": [*range(10)], "item": [*range(10)], "time": [*range(10)]}
    model = NextItem(max_users=np.int64(8), max_items=8).fit(log)
    assert model.n_users_ == 8
    known = set(model.topk([9], k=20)["item"].tolist())
    assert known == set(range(2, 10))
    model.save(tmp_path / "model")
    assert answers(NextItem.load(tmp_path / "model"), [9]) == answers(model, [9])
    with pytest.raises(ValueError, match="does not know"):
        model.similar([0])


@pytest.mark.parametrize("mutual", [False, True])
def test_forgets_by_the_order_of_events_if_times_are_equal(mutual: bool) -> None:
    users = [*range(8), 0, 8]
    model = NextItem(max_users=8, mutual=mutual).fit({"user": users, "item": users, "time": [5] * 10})
    assert sorted(name for name in model._saved.stream.users.names if name is not None) == [0, *range(2, 9)]


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl", "pandas", "dicts"])
def test_reads_frames_and_files(form: str, tmp_path: Path) -> None:
    log = log_of(200)
    wanted = answers(NextItem().fit(log), ["user 1"])
    rows = [dict(zip(log, row, strict=True)) for row in zip(*log.values(), strict=True)]
    given: Any = rows
    if form == "pandas":
        given = pytest.importorskip("pandas").DataFrame(log)
    elif form == "jsonl":
        given = tmp_path / "log.jsonl"
        given.write_text(
            "".join(f'{{"user": "{r["user"]}", "item": "{r["item"]}", "time": {r["time"]}}}\n' for r in rows)
        )
    elif form != "dicts":
        mark, given = {"csv": ",", "tsv": "\t"}[form], tmp_path / f"log.{form}"
        given.write_text("".join(mark.join(map(str, row)) + "\n" for row in [log, *(r.values() for r in rows)]))
    assert answers(NextItem(output="arrays").fit(given), ["user 1"]) == wanted


def test_dates_and_positions(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("ann,tea,2026-03-01 10:00\nann,pot,2026-03-01 11:00\nbob,tea,2026-03-02 09:00\n")
    model = NextItem().fit(path, user=0, item=1, time=2)
    assert model.topk("bob", "2026-03-03", k=1)["item"].tolist() == ["tea"]
    with pytest.raises(ValueError, match="time 2026-03-01 is before 2026-03-02T09:00, the last event learnt"):
        model.topk("bob", "2026-03-01")
    with pytest.raises(ValueError, match=r"1e\+300"):
        NextItem().fit(log_of(9)).topk("bob", 1e300)


def test_order_alone_stands_for_time() -> None:
    log = log_of(100)
    numbered = log | {"time": [*range(100)]}
    log["Time"] = log.pop("time")
    assert answers(NextItem().fit(log, time=None), ["user 1"]) == answers(NextItem().fit(numbered), ["user 1"])
    with pytest.raises(ValueError, match="log: there is no column 'time' or 'timestamp': name the column of the times"):
        NextItem().fit(log)


def test_an_event_may_be_a_dict() -> None:
    one, many = (NextItem().fit(log_of(50)) for _ in range(2))
    one.update({"user": "eva", "item": "page 1", "time": 10**6})
    many.update({"user": ["eva"], "item": ["page 1"], "time": [10**6]})
    assert answers(one, ["eva"]) == answers(many, ["eva"])


def test_sorts_if_told() -> None:
    log = log_of(200)
    order = np.random.default_rng(1).permutation(200)
    times = np.array(log["time"]) + np.arange(200) / 1000
    ordered = log | {"time": times}
    mixed = {name: np.array(values)[order] for name, values in ordered.items()}
    assert answers(NextItem().fit(mixed, sort=True), ["user 1"]) == answers(NextItem().fit(ordered), ["user 1"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"time": [1, 3, 2]}, "row 2 of log: the time in column 'time' goes back from 3 to 2: pass sort=True"),
        ({"time": [1, 1e308, 1e308]}, "row 1 of log: 1e\\+308, beyond the range of float32"),
        ({"time": [1, float("nan"), 2]}, "row 1 of log: column 'time' holds no time"),
        ({"user": ["a", None, "b"]}, "row 1 of log: column 'user' is empty"),
        ({"item": [2**70, 1, 1]}, "row 0 of log: column 'item' holds 1.18059e\\+21, which is too large to be exact"),
        ({"item": [True, False, True]}, "column 'item' holds True and False"),
    ],
)
def test_names_the_bad_row(change: dict[str, Any], message: str) -> None:
    log = {"user": ["a", "b", "a"], "item": ["x", "y", "x"], "time": [1, 2, 3]}
    model = NextItem().fit(log)
    before = model.n_events_
    later = {"time": [11, 12, 13]} | {
        name: [v + 10 for v in values] if name == "time" else values for name, values in change.items()
    }
    with pytest.raises(ValueError, match=message.replace("from 3 to 2", "from 13 to 12")):
        model.update(log | later)
    with pytest.raises(ValueError, match=message):
        NextItem().fit(log | change)
    assert model.n_events_ == before


def test_names_dates_as_dates() -> None:
    days = {"user": ["a", "b"], "item": ["x", "y"], "time": ["2026-03-30", "2026-03-31 18:30"]}
    model = NextItem().fit(days)
    with pytest.raises(ValueError, match=r"the time 2026-03-30 .* is before 2026-03-31T18:30, the last event learnt"):
        model.update(days)
    with pytest.raises(ValueError, match="goes back from 2026-03-31T18:30 to 2026-03-30: pass sort=True"):
        NextItem().fit(days | {"time": days["time"][::-1]})


def test_refuses_events_older_than_the_state() -> None:
    model = NextItem().fit({"user": [1, 2], "item": [5, 6], "time": [10, 20]})
    with pytest.raises(ValueError, match=r"row 0 of log: the time 19 in column 'time' is before 20"):
        model.update({"user": [1], "item": [5], "time": [19]})
    with pytest.raises(ValueError, match=r"row 1 of log: the time 19 in column 'time' is before 20"):
        model.update({"user": [1, 1], "item": [5, 5], "time": [30, 19]}, sort=True)
    assert model.update({"user": [1], "item": [5], "time": [20]}).n_events_ == 3


def test_accepts_odd_streams() -> None:
    same = NextItem().fit({"user": [7] * 50, "item": [7] * 50, "time": [3] * 50})  # one user, self-loops, duplicates
    assert same.topk(7, k=3)["item"].tolist() == [7]
    wide = NextItem().fit({"user": [2**62, -5], "item": [2**40, -(2**40)], "time": [0, 1]})
    assert wide.topk(2**62, k=1)["item"].tolist() == [2**40]
    assert same.topk("7")["score"].tolist() == same.topk(7)["score"].tolist()


def test_duplicate_events_count_twice() -> None:
    log = {"user": [1, 1, 1], "item": [5, 5, 6], "time": [1, 1, 2]}
    model = NextItem().fit(log)
    assert model.n_events_ == 3
    arrays = model._saved.stream.arrays
    assert arrays.item_counts[:2].tolist() == [2, 1]
    assert arrays.pair_counts[0, :2, 0].tolist() == [1, 2]


def test_who_writes_to_herself_is_one_person() -> None:
    model = NextItem(mutual=True).fit({"user": ["a", "a", "b"], "item": ["a", "a", "a"], "time": [1, 2, 3]})
    assert (model.n_users_, model.n_events_) == (2, 3)
    assert set(model.topk("a", k=3)["item"].tolist()) == {"a", "b"}
    assert model.score({"user": ["a"], "item": ["b"], "time": [4]})["recall@10"] == 1


def test_takes_users_and_times_in_any_form() -> None:
    model = NextItem().fit({"user": [1, 2], "item": [5, 6], "time": [10, 20]})
    assert model.topk(np.array([1.0, 2.0]), time=[20, 30], k=1)["item"].tolist() == [5, 6]
    assert len(model.topk([], k=3)["item"]) == 0
    with pytest.raises(ValueError, match="time must be one time, or one for each of 2 queries, got 3"):
        model.topk([1, 2], time=[20, 21, 22])
    with pytest.raises(ValueError, match=r"row 0 of users: column 'users' holds 1\.5"):
        model.topk([1.5])
    with pytest.raises(ValueError, match="k must be an integer from 1 to 100, got 0"):
        model.topk(1, k=0)
    for users in (None, {"user": [1]}):
        with pytest.raises(ValueError, match="users must be a name, or a sequence of names, got"):
            model.topk(users)


def test_reads_questions_in_any_order() -> None:
    model = NextItem().fit({"user": ["b", "a"], "item": ["x", "y"], "time": [10, 20]})
    assert model.users_.tolist() == ["a", "b"]
    asked = model.read_questions({"time": [40, 30], "user": ["b", "c"]})
    assert (asked["users"].tolist(), asked["time"].tolist()) == (["b", "c"], [40, 30])
    assert model.topk(**asked, k=1)["item"].tolist()[0] == "x"
    assert model.read_questions({"user": ["b"]}).keys() == {"users"}
    with pytest.raises(ValueError, match=r"row 1 of log: the time 19 .* is before 20.*: ask for a later time"):
        model.read_questions({"time": [40, 19], "user": ["b", "c"]})


def test_refuses_what_is_no_log() -> None:
    for log in (None, np.zeros((3, 3)), 5):
        with pytest.raises(ValueError, match="log must be a data frame"):
            NextItem().fit(log)
    with pytest.raises(ValueError, match="log: holds no rows"):
        NextItem().fit({"user": [], "item": [], "time": []})
    with pytest.raises(ValueError, match="history must be an integer from 1 to 48, got 0"):
        NextItem(history=0).fit(log_of(5))


def test_names_the_file_that_holds_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "none.csv"
    path.write_text("user,item,time\n")
    with pytest.raises(DataError, match=r"none\.csv: holds no rows: a log has a row for each event"):
        NextItem().fit(path)
    with pytest.raises(DataError, match=r"none\.csv: holds no rows, so there is nothing to measure"):
        NextItem().fit(log_of(5)).score(path)


def test_queries_during_updates_see_whole_events() -> None:
    log = log_of(4000)
    model, alone = NextItem().fit(part(log, 0, 100)), NextItem().fit(part(log, 0, 100))
    found: list[Any] = []
    done = threading.Event()

    def ask() -> None:
        while not done.is_set():
            found.append((model.n_events_, model.topk("user 1", k=3)["item"].tolist()))

    asking = threading.Thread(target=ask)
    asking.start()
    for first in range(100, 4000, 100):
        model.update(part(log, first, first + 100))
    done.set()
    asking.join()
    alone.update(part(log, 100, 4000))
    assert all(events % 100 == 0 and len(items) == 3 for events, items in found)
    assert answers(model, ["user 1", "user 2"]) == answers(alone, ["user 1", "user 2"])


def test_ctrl_c_ends_after_a_whole_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(300)
    stopped, whole = (NextItem().fit(part(log, 0, 100)) for _ in range(2))

    def interrupt(**arguments: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        learn_stream(**arguments)

    learn_stream = kernels.learn_stream
    monkeypatch.setattr(kernels, "learn_stream", interrupt)
    monkeypatch.setattr("sparsenet.temporal.ranking.stream._CHUNK", 50)
    with pytest.raises(KeyboardInterrupt):
        stopped.update(part(log, 100, 300))
    monkeypatch.undo()
    whole.update(part(log, 100, 150))
    assert (stopped.n_events_, stopped.n_users_, stopped.n_items_) == (150, whole.n_users_, whole.n_items_)
    users = [f"user {i}" for i in range(4)]
    assert answers(stopped.update(part(log, 150, 300)), users) == answers(whole.update(part(log, 150, 300)), users)


def test_running_out_of_memory_leaves_no_name_without_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(200, n_users=150)
    model, other = (NextItem().fit(part(log, 0, 30)) for _ in range(2))

    def refuse(*_: Any) -> None:
        raise MemoryError

    before = {name: array.copy() for name, array in vars(model._saved.stream.arrays).items()}
    monkeypatch.setattr("sparsenet.temporal.ranking.stream_arrays._blank_items", refuse)
    names = [f"new {i}" for i in range(90)]
    with pytest.raises(MemoryError):
        model.update({"user": names, "item": names, "time": log["time"][30:31] * 90})
    monkeypatch.undo()
    assert all(vars(model._saved.stream.arrays)[name].tobytes() == array.tobytes() for name, array in before.items())
    assert (model.n_users_, model.n_items_) == (other.n_users_, other.n_items_)
    users = [f"user {i}" for i in range(150)]
    assert answers(model.update(part(log, 30, 200)), users) == answers(other.update(part(log, 30, 200)), users)


def test_rows_stay_within_the_maximum() -> None:
    log = {name: list(range(90)) for name in ("user", "item", "time")}
    model = NextItem(max_users=70, max_items=100).fit(log)
    assert len(model._saved.stream.arrays.user_values) == 70
    assert len(model._saved.stream.arrays.item_counts) == 100


def test_copies_and_pickles_are_independent() -> None:
    log = log_of(200)
    model = NextItem().fit(part(log, 0, 100))
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        twin.update(part(log, 100, 200))
        assert (model.n_events_, twin.n_events_) == (100, 200)


def test_load_of_the_package_loads_it(tmp_path: Path) -> None:
    model = NextItem().fit(log_of(10))
    model.save(tmp_path / "model")
    found = load(tmp_path / "model")
    assert isinstance(found, NextItem)
    assert answers(found, ["user 1"]) == answers(model, ["user 1"])


def test_refuses_damaged_models(tmp_path: Path) -> None:
    NextItem().fit(log_of(100)).save(tmp_path / "model")
    for name, place, value in (
        ("stream.pair_items", (0, 0, 0), 99),
        ("stream.popular", (0, 0), 99),
        ("stream.context_keys", 0, 99 << 32),
        ("stream.half_lives", 0, np.nan),
        ("stream.weights", (0, 0), np.nan),
        ("users.slots", 0, 5),
        ("max_users", None, 3),
    ):
        arrays, metadata = storage.load(tmp_path / "model")
        if place is None:
            metadata[name] = value
        else:
            arrays[name] = arrays[name].copy()
            arrays[name][place] = value
        storage.save(tmp_path / name, arrays, metadata)
        with pytest.raises(ModelError):
            NextItem.load(tmp_path / name)


@pytest.mark.parametrize("forged", [forging.forged_metadata, forging.forged_arrays], ids=["metadata", "arrays"])
def test_forged_models_are_refused_or_answer(forged: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    NextItem().fit(log_of(60)).save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    for _, *content in list(forged(arrays=arrays, metadata=metadata))[::29]:
        forging.save(tmp_path / "model", *content)
        with contextlib.suppress(ModelError):
            NextItem.load(tmp_path / "model").topk("user 1")


def test_a_forged_size_takes_no_memory(tmp_path: Path) -> None:
    NextItem().fit(log_of(60)).save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    storage.save(tmp_path / "model", arrays, metadata | {"n_users": 10**8})
    tracemalloc.start()
    with pytest.raises(ModelError, match=r"stream\.pair_items must be"):
        NextItem.load(tmp_path / "model")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 26
