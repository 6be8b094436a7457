"""Features of events and of items: they help, they are saved, and bad cells are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparsenet.data.frames import read_frame
from sparsenet.temporal import NextItem, TemporalLinkPredictor
from sparsenet.temporal.feature_columns import FeatureColumns
from tests.temporal.test_next_item import part

KINDS = ("bread", "wine", "tea", "soap")
N_USERS, N_ITEMS = 1000, 400


def shop(n: int, seed: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw purchases of users who love one kind of item.

    With five stars they come back to the item, with one star to the one before, or else they take a new one: every
    item is for sale for a while.
    """
    rng = np.random.default_rng(seed)
    kind = np.arange(N_ITEMS) % len(KINDS)
    users, items, stars = rng.integers(0, N_USERS, n), np.zeros(n, int), rng.choice([1.0, 5.0], n)
    own: dict[int, list[int]] = {}
    for e, user in enumerate(users.tolist()):
        mine = own.setdefault(user, [e])
        on_sale = np.arange(24) + int(e / n * (N_ITEMS - 24))
        items[e] = rng.choice(on_sale[kind[on_sale] == user % len(KINDS)])
        if len(mine) > 2 and rng.random() < 0.4:
            items[e] = items[mine[-1 if stars[mine[-1]] == 5 else -2]]
        mine.append(e)
    log = {"user": users, "item": items, "time": np.arange(n), "stars": stars, "way": rng.choice(["web", "shop"], n)}
    price = rng.exponential(10, N_ITEMS) + 30 * kind
    return log, {"item": np.arange(N_ITEMS), "price": price, "kind": [KINDS[k] for k in kind]}


def fitted(log: dict[str, Any], first: int, items: dict[str, Any] | None, *columns: str) -> NextItem:
    return NextItem().fit(part(log, 0, first), event_features=columns, item_features=items)


def test_features_of_events_and_items_help() -> None:
    log, items = shop(4000)
    later = part(log, 3000, 4000)
    without = fitted(log, 3000, None).score(later)["MRR"]
    of_events = fitted(log, 3000, None, "stars").score(later)["MRR"]
    of_items = fitted(log, 3000, items).score(later)["MRR"]
    assert of_events > without + 0.05
    assert of_items > without + 0.01
    assert fitted(log, 3000, items, "stars").score(later)["MRR"] > of_events + 0.01


def test_a_refused_log_leaves_the_features_of_items() -> None:
    log, items = shop(200)
    model = fitted(log, 200, items)
    before = model._saved.stream.arrays.item_features.copy()
    wrong = {"user": ["someone"], "item": [0], "time": [200]}
    with pytest.raises(ValueError, match="column 'user' holds 'someone', and the model knows"):
        model.update(wrong, item_features={"item": log["item"][:1], "price": [9.0], "kind": ["tea"]})
    assert (model._saved.stream.arrays.item_features == before).all()


def test_a_model_with_features_goes_on_after_loading(tmp_path: Path) -> None:
    log, items = shop(600)
    few = {name: values[:200] for name, values in items.items()}
    whole = fitted(log, 300, few, "stars", "way").update(part(log, 300, 400), item_features=items)
    parts = fitted(log, 300, few, "stars", "way")
    parts.save(tmp_path / "model")
    parts = NextItem.load(tmp_path / "model").update(part(log, 300, 400), item_features=items)
    for first in range(400, 600, 7):
        parts.update(part(log, first, min(first + 7, 600)))
    whole.update(part(log, 400, 600))
    n = whole._saved.stream.items.end
    wanted, found = (model._saved.stream.arrays.cut(model._saved.stream.users.end, n) for model in (whole, parts))
    assert wanted["item_features"].any(axis=1).all()
    assert wanted["pair_features"].shape[2] == 3
    for name, array in wanted.items():
        assert found[name].tobytes() == array.tobytes(), name


def test_forgotten_items_get_their_features_again() -> None:
    items = {"item": [*range(30)], "size": [float(i) for i in range(30)]}
    log = {"user": [1] * 60, "item": [*range(30), *range(30)], "time": [*range(60)]}
    model = NextItem(max_items=8).fit(log, item_features=items)
    stream = model._saved.stream
    known = [name is not None for name in stream.items.names]
    names = [name for name in stream.items.names if name is not None]
    np.testing.assert_array_equal(stream.arrays.item_features[: len(known)][known], stream.item_table.of(names))
    assert not stream.arrays.item_features[: len(known)][np.logical_not(known)].any()


def test_items_without_a_row_have_no_features() -> None:
    log, items = shop(300)
    model = fitted(log, 300, {name: values[:100] for name, values in items.items()})
    model.update({"user": [1], "item": [999], "time": [1000]})
    assert model.topk(1, k=1)["item"].tolist() == [999]


@pytest.mark.parametrize("n", [3, 40])
def test_encodes_numbers_and_categories(n: int) -> None:
    frame = read_frame({"size": [*map(float, range(n))], "name": [f"c{i}" for i in range(n)], "code": ["01"] * n})
    columns = FeatureColumns.learn(frame, ["size", "name", "code"])
    found = columns.encode(frame)
    assert found.shape == (n, columns.n_features)
    assert (np.diff(found[:, 0]) > 0).all()
    own = found[:, 1:-1] @ found[:, 1:-1].T
    np.testing.assert_allclose(np.diag(own), 1, rtol=1e-6)
    assert np.abs(own[~np.eye(n, dtype=bool)]).mean() < 0.25
    new = columns.encode(read_frame({"size": [1e9], "name": ["other"], "code": ["01"]}))
    assert not new[0, 1:-1].any()
    assert np.abs(new[0, 0]) <= 4


BAD_EVENTS = [
    ([1.0, float("nan")], "row 1 of log: column 'stars' is empty, and features may not be missing"),
    ([1.0, float("inf")], "row 1 of log: column 'stars' holds inf: it is beyond the range of float32"),
    (["1", "many"], "row 1 of log: column 'stars' holds 'many': the model learnt numbers"),
]


@pytest.mark.parametrize(("stars", "message"), BAD_EVENTS)
def test_names_the_bad_feature_of_an_event(stars: list[Any], message: str) -> None:
    log, items = shop(50)
    model = fitted(log, 50, items, "stars")
    later = {"user": [1, 2], "item": [3, 4], "time": [100, 101], "stars": stars}
    with pytest.raises(ValueError, match=message):
        model.update(later, item_features={"item": [3], "price": [1.0], "kind": ["tea"]})
    assert model.n_events_ == 50
    if "learnt numbers" not in message:
        with pytest.raises(ValueError, match=message):
            NextItem().fit(later, event_features=["stars"])


@pytest.mark.parametrize("model", [NextItem(), TemporalLinkPredictor(memory=8)])
def test_warns_of_a_cell_that_turns_numbers_into_categories(model: Any, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user,item,time,stars\na,x,1,5\nb,y,2,many\na,x,3,4\n")
    message = r"log\.csv, line 3: column 'stars' holds 'many', and numbers in other rows, so its cells are categories"
    with pytest.warns(UserWarning, match=message) as caught:
        model.fit(tmp_path / "log.csv", "user", "item", event_features=["stars"])
    assert caught[0].filename == __file__


def test_refuses_bad_features() -> None:
    log, items = shop(50)
    for change, message in (
        ({"price": [*items["price"][:-1], np.nan]}, "row 399 of item_features: column 'price' is empty"),
        ({"kind": [*items["kind"][:-1], None]}, "row 399 of item_features: column 'kind' is empty"),
        ({"item": [*range(399), 7]}, "row 399 of item_features: column 'item' holds 7: an earlier row has this item"),
        (
            {"item": [f"i{i}" for i in range(400)]},
            "row 0 of item_features: column 'item' holds 'i0', and the model knows such",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            fitted(log, 50, items | change)
    with pytest.raises(ValueError, match="item_features: item='item' is not a column"):
        fitted(log, 50, {"price": [1]})
    with pytest.raises(ValueError, match="there are no features"):
        fitted(log, 50, {"item": [1]})
    with pytest.raises(ValueError, match=r"event_features\[0\]='weight' is not a column"):
        fitted(log, 50, None, "weight")
    with pytest.raises(ValueError, match=r"^time and event_features\[0\] must be different columns"):
        NextItem().fit(log, time="time", event_features=["time"])
    with pytest.raises(ValueError, match="event_features must be a sequence of columns"):
        NextItem().fit(log, event_features="stars")
    with pytest.raises(ValueError, match="item_features: there is no column 'price', which the model"):
        fitted(log, 50, items).update(part(log, 0, 0), item_features={"item": [1], "cost": [1]})
    with pytest.raises(ValueError, match="fitted with item_features"):
        fitted(log, 50, None).update(part(log, 0, 0), item_features=items)
    with pytest.raises(ValueError, match="there is no column 'stars', which the model learnt from: rename a column"):
        fitted(log, 50, None, "stars").update({"user": [1], "item": [1], "time": [99]})
