"""Histories: the last events of a key, strictly before each row's time."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sparsenet.core.rows import as_matrix
from sparsenet.data.frames import Frame, read_frame
from sparsenet.features.columns.encoder_arrays import pack, unpack
from sparsenet.features.columns.history import History, HistorySpec
from sparsenet.features.columns.table_encoder import TableEncoder
from sparsenet.storage.format import ModelError
from tests.support.tables import table

SPEC = HistorySpec(key="user", time="when", columns=("item",), n=3)
LAST = "last item of user"


def log(n: int = 200, seed: int = 0) -> Frame:
    rng = np.random.default_rng(seed)
    return read_frame(
        {
            "user": [f"u{i}" for i in rng.integers(0, 12, n)],
            "when": rng.integers(0, 60, n).astype(float),
            "item": [f"i{i}" for i in rng.integers(0, 8, n)],
        }
    )


def by_hand(past: Frame, rows: Frame, n: int = 3) -> list[list[str]]:
    """The items of earlier events, the latest first."""
    events = list(zip(past["user"], past["when"], past["item"], strict=True))
    found = []
    for user, when in zip(rows["user"], rows["when"], strict=True):
        own = [(t, i) for i, (u, t, _) in enumerate(events) if u == user and t < when]
        found.append([events[i][2] for _, i in sorted(own)][::-1][:n])
    return found


def looked_up(history: History, frame: Frame) -> list[list[str]]:
    names = [*history.values[0].values, "rare"]
    return [[names[code] for code in row if code >= 0] for row in history.past(frame)[LAST]]


def test_finds_the_last_events_before_each_row() -> None:
    frame = log()
    assert looked_up(History.learn(frame, SPEC), frame) == by_hand(frame, frame)


def test_a_row_sees_neither_itself_nor_rows_of_the_same_time() -> None:
    frame = table(user=["a", "a", "a", "a"], when=[1, 2, 2, 3], item=["x", "y", "y", "x"])
    assert looked_up(History.learn(frame, SPEC), frame) == [[], ["x"], ["x"], ["y", "y", "x"]]


def test_the_order_of_rows_does_not_matter() -> None:
    frame = log()
    distinct = frame.take(
        np.unique(frame["when"] + 1000 * np.unique(frame["user"], return_inverse=True)[1], return_index=True)[1]
    )
    order = np.random.default_rng(1).permutation(len(distinct))
    history = History.learn(distinct, SPEC)
    again = looked_up(History.learn(distinct.take(order), SPEC), distinct.take(order))
    assert again == [looked_up(history, distinct)[i] for i in order]


def test_new_rows_continue_the_histories_of_training_and_of_each_other() -> None:
    frame = log()
    first, later = frame.take(frame["when"] < 40), frame.take(frame["when"] >= 40)
    history = History.learn(first, SPEC)
    both = first.take(np.arange(len(first)))
    joined = read_frame({name: [*both[name], *later[name]] for name in frame.names})
    assert looked_up(history, later) == by_hand(joined, later)


def test_a_new_key_has_no_history_before_its_first_row() -> None:
    history = History.learn(log(), SPEC)
    rows = table(user=["new", "new"], when=[5, 6], item=["i1", "i2"])
    assert looked_up(history, rows) == [[], ["i1"]]


def test_counts_events_and_the_time_since_the_last() -> None:
    days = ["2024-01-01", "2024-01-03", "2024-01-03 12:00", None]
    frame = table(user=["a", "a", "a", "a"], when=days, item=["x", "y", "x", "y"])
    past = History.learn(frame, SPEC).past(frame)
    assert past["events of user"].tolist() == [0, 1, 2, 0]
    assert past["days since user"].tolist()[1:3] == [2.0, 0.5]
    assert np.isnan(past["days since user"][[0, 3]]).all()


def test_rows_without_key_or_value_are_no_events() -> None:
    frame = table(user=["a", None, "a", "a"], when=[1, 2, 3, 4], item=["x", "x", None, "x"])
    assert looked_up(History.learn(frame, SPEC), frame) == [[], [], ["x"], ["x"]]


def test_keeps_the_last_events_of_each_key_only() -> None:
    frame = log(1000)
    history = History.learn(frame, SPEC)
    assert all(np.bincount(track.key).max() == 3 for track in history.tracks)


def test_bounds_the_events_that_are_kept() -> None:
    track = History.learn(log(1000), SPEC).tracks[0]
    fewer = track.last(3, 12, max_events=10)
    assert len(fewer) == 9
    latest = [track.time[track.key == key].max() for key in range(12)]
    assert min(latest[key] for key in set(fewer.key.tolist())) >= max(
        latest[key] for key in set(range(12)) - set(fewer.key.tolist())
    )


def test_the_target_may_be_part_of_the_history() -> None:
    frame = log()
    encoder = TableEncoder.learn(frame, {"item": "ignore"}, history=SPEC)
    with_items = as_matrix(encoder.rows(table(user=["u1"], when=[99.0], item=["i1"]))).toarray()
    without = as_matrix(encoder.rows(table(user=["u1"], when=[99.0]))).toarray()
    assert np.array_equal(with_items, without)
    names = {encoder.feature_name(i).split(" = ")[0] for i in np.flatnonzero(without[0])}
    assert LAST in names


def test_encodes_histories_as_rows_and_matrix_and_saves_them() -> None:
    frame = log()
    encoder = TableEncoder.learn(frame, {}, history=SPEC)
    assert [column.type for column in encoder.columns[3:]] == ["number", "number", "history"]
    rows = encoder.rows(frame)
    rows.check("rows")
    arrays, about = pack(encoder)
    again = unpack(arrays, json.loads(json.dumps(about)))
    assert np.array_equal(again.rows(frame).data, rows.data)
    assert np.array_equal(again.matrix(frame)[0], encoder.matrix(frame)[0], equal_nan=True)
    assert len(encoder.rows(frame.take(np.empty(0, np.int64)))) == 0


def test_refuses_damaged_histories() -> None:
    arrays, about = pack(TableEncoder.learn(log(), {}, history=SPEC))
    for name in arrays:
        with pytest.raises(ModelError):
            unpack({key: array for key, array in arrays.items() if key != name}, about)
    key = arrays["history.tracks.0.key"]
    for damaged in (key[::-1].copy(), key + 1000, key - 1, key.astype(np.float64), key[1:]):
        with pytest.raises(ModelError):
            unpack({**arrays, "history.tracks.0.key": damaged}, about)
    with pytest.raises(ModelError):
        unpack({**arrays, "history.tracks.1.code": arrays["history.tracks.1.code"] + 99}, about)
    without = {key: value for key, value in about.items() if key != "history"}
    with pytest.raises(ModelError):
        unpack(arrays, without)


def test_refuses_columns_that_are_not_there() -> None:
    with pytest.raises(ValueError, match="history='when' is not a column"):
        TableEncoder.learn(table(user=["a"], item=["x"]), {}, history=SPEC)
    encoder = TableEncoder.learn(log(), {}, history=SPEC)
    with pytest.raises(ValueError, match="the column 'when' is missing, which the model needs"):
        encoder.rows(table(user=["a"], item=["x"]))


def test_refuses_times_that_are_none_and_names_the_row() -> None:
    frame = table(user=["a", "a"], when=["2024-01-01", "soon"], item=["x", "y"])
    with pytest.raises(ValueError, match="row 1 of X: column 'when' holds 'soon': the times of a history"):
        TableEncoder.learn(frame, {"when": "ignore"}, history=SPEC)


def test_refuses_lists_as_events() -> None:
    frame = table(user=["a", "a"], when=[1, 2], item=["x", ["x", "y"]])
    with pytest.raises(ValueError, match=r"row 1 of X: column 'item' holds .*: a history needs columns with one value"):
        TableEncoder.learn(frame, {"item": "ignore"}, history=SPEC)


@pytest.mark.parametrize(
    "change",
    [
        {"n": 0},
        {"n": 2.5},
        {"columns": ()},
        {"columns": ("item", "item")},
        {"time": "user"},
        {"columns": ("user",)},
        {"key": 3},
    ],
)
def test_refuses_impossible_specifications(change: dict) -> None:
    with pytest.raises(ValueError, match="history"):
        HistorySpec(**{"key": "user", "time": "when", "columns": ("item",), **change})


def test_refuses_histories_that_do_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = TableEncoder.learn(log(), {}, history=SPEC)
    monkeypatch.setattr("sparsenet.features.columns.history.available_memory", lambda: 10_000)
    with pytest.raises(MemoryError, match=r"looking back on 3 events of 200 rows needs 24.0 kB, but only 10.0 kB"):
        encoder.rows(log())
