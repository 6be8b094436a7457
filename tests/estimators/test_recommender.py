"""`Recommender`: from logs of every kind to recommendations, measures and saved models."""

from __future__ import annotations

import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from sparsenet import ModelError, Recommender, TreeClassifier, load, metrics


def make_log(n_users: int = 120, n_items: int = 40, n: int = 12, seed: int = 0) -> dict[str, Any]:
    """Return a log of users who like one of four groups of items."""
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(n_users), n)
    near = 4 * rng.integers(0, n_items // 4, len(users)) + users % 4
    items = np.where(rng.random(len(users)) < 0.8, near, rng.integers(0, n_items, len(users)))
    names = {"user": [f"u{user:03}" for user in users], "item": [f"i{item:02}" for item in items]}
    return {**names, "time": rng.permutation(len(users)).astype(float)}


@pytest.fixture(scope="module")
def log() -> dict[str, Any]:
    return make_log()


@pytest.fixture(scope="module")
def model(log: dict[str, Any]) -> Recommender:
    return Recommender(random_state=0, n_jobs=1).fit(log)


def histories(log: dict[str, Any]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for user, item in zip(log["user"], log["item"], strict=True):
        found.setdefault(user, set()).add(item)
    return found


def part(log: dict[str, Any], rows: Any) -> dict[str, Any]:
    return {name: [values[row] for row in rows] for name, values in log.items()}


def same(first: Any, second: Any) -> bool:
    return list(first) == list(second) and all(np.array_equal(first[name], second[name]) for name in first)


# --- recommend ---


def test_recommends_new_items_best_first(model: Recommender, log: dict[str, Any]) -> None:
    found, seen = model.recommend(k=5), histories(log)
    assert list(found) == ["user", "item", "score", "rank"]
    assert found["user"].tolist() == np.repeat(model.users_, 5).tolist()
    assert found["rank"].tolist() == 120 * [1, 2, 3, 4, 5]
    assert (np.diff(found["score"].reshape(-1, 5), axis=1) <= 0).all()
    assert all(item not in seen[user] for user, item in zip(found["user"], found["item"], strict=True))


def test_recommends_what_similar_users_took(model: Recommender) -> None:
    found = model.recommend(k=1)
    own = [int(user[1:]) % 4 == int(item[1:]) % 4 for user, item in zip(found["user"], found["item"], strict=True)]
    assert np.mean(own) > 0.8


def test_users_come_in_the_order_asked_and_may_repeat(model: Recommender) -> None:
    whole = model.recommend(k=2)
    found = model.recommend(["u005", "u001", "u005"], k=2)
    assert found["user"].tolist() == ["u005", "u005", "u001", "u001", "u005", "u005"]
    rows = [10, 11, 2, 3, 10, 11]
    assert found["item"].tolist() == whole["item"][rows].tolist()
    assert found["score"].tolist() == whole["score"][rows].tolist()
    assert same(model.recommend("u001", k=2), model.recommend(np.array(["u001"]), k=2))


def test_seen_items_may_be_recommended_again(model: Recommender, log: dict[str, Any]) -> None:
    found, seen = model.recommend(k=40, exclude_seen=False), histories(log)
    assert any(item in seen[user] for user, item in zip(found["user"], found["item"], strict=True))


def test_fewer_rows_where_no_more_items_are_left(model: Recommender, log: dict[str, Any]) -> None:
    found = model.recommend("u000", k=1000)
    assert len(found["item"]) == model.n_items_ - len(histories(log)["u000"])
    assert not set(found["item"]) & histories(log)["u000"]


def test_only_and_exclude_take_names_and_masks(model: Recommender) -> None:
    wanted = ["i03", "i10", "i21"]
    mask = np.isin(model.items_, wanted)
    found = model.recommend(k=9, only=wanted)
    assert set(found["item"]) == set(wanted)
    assert same(found, model.recommend(k=9, only=mask))
    assert set(model.recommend(k=9, only=wanted, exclude=["i10"])["item"]) == {"i03", "i21"}
    assert same(model.recommend(k=9, exclude=~mask), found)
    assert len(model.recommend(k=9, only=[])["item"]) == 0


def test_new_users_need_no_training(model: Recommender, log: dict[str, Any]) -> None:
    new = {**log, "user": [f"new-{user}" for user in log["user"]]}
    found = model.recommend(history=new, k=3)
    assert found["item"].tolist() == model.recommend(k=3)["item"].tolist()
    assert found["user"].tolist()[:3] == ["new-u000"] * 3
    assert same(model.recommend("new-u007", history=new, k=3), model.recommend(["new-u007"], history=new, k=3))


def test_unknown_items_of_a_history_are_left_out_with_a_warning(model: Recommender) -> None:
    history = {"user": ["x", "x"], "item": ["i01", "unheard of"], "time": [1, 2]}
    with pytest.warns(UserWarning, match="the model does not know the items of 1 of 2 events, 'unheard of': left out"):
        found = model.recommend(history=history, k=3)
    assert found["item"].tolist() == model.recommend_for(["i01"], k=3)["item"].tolist()


def test_unknown_users_are_an_error_or_get_popular_items(model: Recommender) -> None:
    with pytest.raises(ValueError, match=r"users holds 'nobody', which the log .* does not: pass unknown='popular'"):
        model.recommend(["u001", "nobody"])
    found = model.recommend(["nobody", "u001"], k=2, unknown="popular")
    assert found["item"][:2].tolist() == model.recommend_for([], k=2)["item"].tolist()
    assert found["item"][2:].tolist() == model.recommend("u001", k=2)["item"].tolist()


def test_without_a_history_the_most_popular_items_come_first(model: Recommender) -> None:
    order = np.argsort(-model.item_counts_, kind="stable")
    found = model.recommend_for([], k=40)
    assert found["item"].tolist() == model.items_[order].tolist()
    assert found["score"] == pytest.approx(np.sort(model.item_counts_)[::-1] / 120)
    assert model.recommend_for([], k=5, exclude=model.items_[order[:2]])["item"][0] == model.items_[order[2]]
    assert model.recommend_for([], k=5, only=["i05"])["item"].tolist() == ["i05"]


# --- baskets and similar items ---


def test_baskets_one_or_several(model: Recommender) -> None:
    one = model.recommend_for(["i01", "i05"], k=3)
    assert list(one) == ["item", "score", "rank"]
    several = model.recommend_for([["i03"], ["i01", "i05"], []], k=3)
    assert several["basket"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert several["item"][3:6].tolist() == one["item"].tolist()
    assert same(model.recommend_for("i03", k=3), model.recommend_for(["i03"], k=3))
    assert all(int(item[1:]) % 4 == 1 for item in one["item"])


def test_unknown_items_of_a_basket_are_left_out(model: Recommender) -> None:
    with pytest.warns(UserWarning, match="the model does not know 1 of 4 items, 'zz': left out"):
        found = model.recommend_for(["i03", "i07", "i11", "zz"], k=3)
    assert same(found, model.recommend_for(["i03", "i07", "i11"], k=3))
    with pytest.warns(UserWarning, match="know 5 of 6 items, such as 'a', 'b', 'c': left out"):
        model.recommend_for([["a", "b", "a"], ["i03", "c", "d"]], k=3)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["i01", ["i02"]], "items must all be names, or all lists of names, got 'i01' in row 0"),
        ({"item": ["i01"]}, "items must be a list of names, or a list of such lists, got dict"),
        (5.0, "got float"),
        ([3.5], r"row 0 of items: column 'items' holds 3\.5"),
    ],
)
def test_rejects_what_is_no_basket(model: Recommender, items: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.recommend_for(items)


def test_similar_items_are_of_the_same_group(model: Recommender) -> None:
    found = model.similar(["i05", "i02"], k=3)
    assert list(found) == ["item", "similar", "score", "rank"]
    assert found["item"].tolist() == ["i05"] * 3 + ["i02"] * 3
    assert [int(item[1:]) % 4 for item in found["similar"]] == [1, 1, 1, 2, 2, 2]
    assert found["rank"].tolist() == [1, 2, 3, 1, 2, 3]
    assert same(model.similar("i05", k=3), model.similar(["i05"], k=3))
    with pytest.raises(ValueError, match="items holds 'unheard of'"):
        model.similar("unheard of")


# --- forms of logs ---


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_answers_come_in_the_library_of_the_log(library: str, log: dict[str, Any], model: Recommender) -> None:
    frames = pytest.importorskip(library)
    make = frames.table if library == "pyarrow" else frames.DataFrame
    own = Recommender(random_state=0, n_jobs=1).fit(make(log))
    found = own.recommend(["u001"], k=2)
    assert type(found) is type(make(log))
    columns = found.column_names if library == "pyarrow" else list(found.columns)
    assert columns == ["user", "item", "score", "rank"]
    values = found["item"].to_pylist() if library == "pyarrow" else found["item"].to_list()
    assert values == model.recommend(["u001"], k=2)["item"].tolist()


def test_output_chooses_the_library(log: dict[str, Any], tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    model = Recommender(output="pandas", random_state=0, n_jobs=1).fit(log)
    assert isinstance(model.recommend("u001", k=2), pandas.DataFrame)
    assert isinstance(model.set_params(output="arrays").similar("i01", k=2), dict)
    with pytest.raises(ValueError, match="output must be one of"):
        model.set_params(output="excel").recommend("u001")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    model = Recommender(output="polars").fit({"user": ["a"], "item": ["b"]})
    with pytest.raises(
        ImportError, match=r"data frames of polars, which is not installed: .*set_params\(output='arrays"
    ):
        model.recommend("a")


def test_a_file_is_all_it_takes(tmp_path: Path, log: dict[str, Any], model: Recommender) -> None:
    path = tmp_path / "log.csv"
    rows = zip(log["user"], log["item"], log["time"], strict=True)
    path.write_text("user,item,when\n" + "".join(f"{user},{item},{time}\n" for user, item, time in rows))
    own = Recommender(random_state=0, n_jobs=1).fit(path, user="user", item="item", time="when")
    assert own.columns_ == {"user": "user", "item": "item", "time": "when", "weight": None}
    assert same(own.recommend(k=3), model.recommend(k=3))
    assert same(own.recommend(history=path, k=3), model.recommend(k=3))


def test_a_matrix_has_numbers_as_names(log: dict[str, Any]) -> None:
    users, items = ([int(name[1:]) for name in log[column]] for column in ("user", "item"))
    matrix = csr_array((np.ones(len(users)), (users, items)), shape=(121, 40))
    model = Recommender(random_state=0, n_jobs=1).fit(matrix)
    untimed = Recommender(random_state=0, n_jobs=1).fit({"user": users, "item": items})
    assert model.columns_ is None
    assert model.n_users_ == 121
    found, of_log = model.recommend([3, 5], k=2), untimed.recommend([3, 5], k=2)
    assert found["item"].tolist() == of_log["item"].tolist()
    assert found["score"] == pytest.approx(of_log["score"], rel=1e-5)  # the order of the sums differs
    assert model.recommend(120, k=2)["user"].tolist() == [120, 120]  # without a history: the most popular ones
    assert same(model.recommend(history=matrix[[3]], k=2) | {"user": 0}, model.recommend(3, k=2) | {"user": 0})
    wider = csr_array((np.ones(2), ([0, 1], [41, 3])), shape=(2, 42))
    assert model.partial_fit(wider).n_items_ == 42


def test_a_matrix_of_histories_has_a_column_for_each_item(model: Recommender) -> None:
    basket = csr_array(np.isin(model.items_, ["i03", "i07"]).astype(float)[None])
    found = model.recommend(history=basket, k=3)
    assert found["user"].tolist() == [0, 0, 0]
    assert found["item"].tolist() == model.recommend_for(["i03", "i07"], k=3)["item"].tolist()
    with pytest.raises(ValueError, match="history has 3 columns, and the model has 40 items"):
        model.recommend(history=basket[:, :3])


@pytest.mark.parametrize(
    "log",
    [
        {"user": ["a"], "item": ["x"]},
        {"user": ["a", "a"], "item": ["x", "y"]},
        {"user": ["a", "b"], "item": ["x", "x"]},
        {"user": ["a", "b"], "item": ["x", "y"], "time": [1, 1]},
    ],
)
def test_the_smallest_logs(log: dict[str, Any]) -> None:
    model = Recommender(random_state=0).fit(log)
    found = model.recommend(k=5)
    assert set(found["item"]) <= set(log["item"])
    assert len(model.recommend(k=5, exclude_seen=False)["item"]) <= 5 * model.n_users_
    model.similar(model.items_.tolist(), k=5)
    assert model.recommend_for([], k=5)["item"].tolist() != []


# --- evaluate ---


def test_evaluate_agrees_with_the_metrics(model: Recommender, log: dict[str, Any]) -> None:
    """A model of the learn part, measured by hand on the held-out part, has the measures of `evaluate`."""
    order = np.lexsort((log["time"], log["user"]))
    is_last = np.append(np.array(log["user"])[order][1:] != np.array(log["user"])[order][:-1], True)
    learn, last = part(log, order[~is_last]), part(log, order[is_last])
    second = Recommender(random_state=0, n_jobs=1).fit(learn)
    seen = histories(learn)
    fresh = [row for row, user in enumerate(last["user"]) if last["item"][row] not in seen[user]]
    users, items = (np.array(last[name])[fresh] for name in ("user", "item"))
    best = second.recommend(users, k=5)["item"].reshape(-1, 5)
    known = second.items_.tolist()
    truth = csr_array(
        (np.ones(len(users)), (np.arange(len(users)), [known.index(item) for item in items])), (len(users), len(known))
    )
    ids = np.searchsorted(second.items_, best)
    found = model.evaluate(k=5)
    assert found["users"] == len(users)
    assert found["P@1"] == metrics.precision_at_k(truth, ids, 1)
    assert found["recall@5"] == metrics.recall_at_k(truth, ids, 5)
    assert found["nDCG@5"] == metrics.ndcg_at_k(truth, ids, 5)
    assert found["MRR@5"] == metrics.mrr_at_k(truth, ids, 5)
    assert found["coverage@5"] == metrics.coverage_at_k(ids, 5, len(known))
    bias = metrics.popularity_bias_at_k(truth, ids, 5, second.item_counts_)
    assert found["popularity_bias@5"] == pytest.approx(bias)
    assert same(second.evaluate(last, k=5), found)  # the same model, measured on the later log


@pytest.mark.parametrize("split", ["last", "time", "random"])
def test_evaluate_splits_the_log(model: Recommender, split: str) -> None:
    found = model.evaluate(split=split, k=[3, 10])
    names = ["recall", "nDCG", "MRR", "coverage", "popularity_bias"]
    assert [f"{name}@{k}" for k in (3, 10) for name in names] == list(found)[1:-5]
    assert 0 < found["recall@3"] <= found["recall@10"] <= 1
    assert found == model.evaluate(split=split, k=(10, 3)), "one seed gives one split"


def test_evaluate_new_users_without_training(model: Recommender) -> None:
    new = make_log(seed=1)
    new["user"] = [f"new-{user}" for user in new["user"]]
    before = model.recommend(k=3)
    assert model.evaluate(new, split="random")["recall@20"] > 0.5
    assert same(model.recommend(k=3), before)
    with pytest.raises(
        ValueError, match="no user that the model knows, but 'new-u000' and others: pass split='random'"
    ):
        model.evaluate(new)


def test_unknown_items_count_as_missed(model: Recommender) -> None:
    later = {"user": ["u000", "u001"], "item": ["brand new", "brand new too"]}
    found = model.evaluate(later, k=40)
    assert found["recall@40"] == 0
    assert found["unknown_items"] == 2
    assert found["unknown_users"] == found["unknown_history"] == 0


def test_counts_users_and_histories_that_are_left_out(model: Recommender) -> None:
    later = {"user": ["u000", "who", "who", "else"], "item": ["brand new", "i00", "i01", "i02"]}
    found = model.evaluate(later)
    assert (found["users"], found["events"], found["unknown_users"]) == (1, 1, 2)
    new = {"user": ["who"] * 6, "item": [f"new {n}" for n in range(6)], "time": range(6)}
    found = model.evaluate(new, split="random")
    assert found["unknown_items"] + found["unknown_history"] == 6
    assert found["unknown_items"] == 1


def test_allowed_items_fill_the_answers_of_each_user(model: Recommender) -> None:
    asked, only = ["u000", "u001", "u002"], ["i03", "i07", "i11"]
    found = model.recommend(asked, k=3, only=only, exclude_seen=False)
    assert set(found["item"].tolist()) == set(only)
    for n, user in enumerate(asked):
        alone = model.recommend(user, k=3, only=only, exclude_seen=False)
        assert alone["item"].tolist() == found["item"].tolist()[3 * n : 3 * n + 3]


def test_evaluate_needs_something_new(model: Recommender, log: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"no user took a new item in the held-out log.*exclude_seen=False"):
        model.evaluate(log)
    assert model.evaluate(log, exclude_seen=False)["P@1"] > 0.5
    with pytest.raises(ValueError, match="split='random' leaves no user with events in both parts"):
        Recommender().fit({"user": ["a"], "item": ["b"]}).evaluate()
    with pytest.raises(ValueError, match="split='time' needs the time of each event"):
        Recommender().fit(log, time=None).evaluate(split="time")


# --- partial_fit ---


@pytest.mark.parametrize("cut", [1, 700, 1439])
def test_partial_fit_equals_fit_on_all(model: Recommender, log: dict[str, Any], cut: int) -> None:
    n = len(log["user"])
    own = Recommender(random_state=0, n_jobs=1).partial_fit(part(log, range(cut))).partial_fit(part(log, range(cut, n)))
    assert same(own.recommend(k=5), model.recommend(k=5))
    assert own.n_events_ == model.n_events_


def test_a_failed_partial_fit_changes_nothing(log: dict[str, Any]) -> None:
    model = Recommender(random_state=0).fit(part(log, range(300)))
    before = model.recommend(k=2)
    with pytest.raises(ValueError, match="there is no column 'time', which the model learnt from: rename a column"):
        model.partial_fit({"user": ["a"], "item": ["b"]})
    with pytest.raises(ValueError, match="row 0 of log: column 'item' is empty"):
        model.partial_fit({"user": ["a"], "item": [None], "time": [1]})
    with pytest.raises(ValueError, match="must have the columns that the model learnt from, got a matrix"):
        model.partial_fit(csr_array([[1.0]]))
    assert same(model.recommend(k=2), before)


# --- parameters, saving ---


def test_one_seed_gives_one_model_at_any_number_of_threads(model: Recommender, log: dict[str, Any]) -> None:
    assert same(Recommender(random_state=0, n_jobs=3).fit(log).recommend(k=5), model.recommend(k=5))


def test_the_order_of_rows_does_not_matter_if_times_differ(model: Recommender, log: dict[str, Any]) -> None:
    shuffled = part(log, np.random.default_rng(0).permutation(len(log["user"])))
    assert same(Recommender(random_state=0, n_jobs=1).fit(shuffled).recommend(k=5), model.recommend(k=5))


@pytest.mark.parametrize("names", ["strings", "numbers"])
def test_saved_models_answer_alike(tmp_path: Path, log: dict[str, Any], names: str) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(log)
    if names == "numbers":
        frame = frame.assign(user=frame["user"].str[1:].astype(int), item=frame["item"].str[1:].astype(int))
    model = Recommender(random_state=0, n_jobs=1).fit(frame)
    model.save(tmp_path / "shop")
    loaded = load(tmp_path / "shop")
    assert isinstance(loaded, Recommender)
    assert loaded.get_params() == model.get_params()
    assert loaded.recommend(k=3).equals(model.recommend(k=3))
    assert loaded.evaluate() == model.evaluate()
    assert loaded.choices_ == model.choices_
    assert loaded.columns_ == model.columns_
    more = frame.head(5).assign(item=frame["item"].iloc[100:105].to_numpy())
    assert loaded.partial_fit(more).recommend(k=3).equals(model.partial_fit(more).recommend(k=3))


def test_without_users_no_name_is_kept(tmp_path: Path, log: dict[str, Any], model: Recommender) -> None:
    own = Recommender(keep_users=False, random_state=0, n_jobs=1).fit(log)
    own.save(tmp_path / "shop")
    assert not any(b"u001" in file.read_bytes() for file in (tmp_path / "shop").iterdir())
    own = Recommender.load(tmp_path / "shop")
    assert own.users_ is None
    assert same(own.recommend(history=log, k=3), model.recommend(k=3))
    with pytest.raises(ValueError, match=r"keeps no users \(keep_users=False\): pass what the users took as history="):
        own.recommend("u001")
    with pytest.raises(ValueError, match=r"keeps no users.*: call fit on all interactions"):
        own.partial_fit(log)
    with pytest.raises(ValueError, match=r"keeps no users.*pass a log to evaluate on"):
        own.evaluate()
    assert own.evaluate(log, split="random")["users"] > 100


def test_pickles_and_clones(model: Recommender) -> None:
    assert same(pickle.loads(pickle.dumps(model)).recommend(k=2), model.recommend(k=2))
    assert not hasattr(clone(model), "items_")


def test_models_of_another_kind_are_refused(tmp_path: Path, model: Recommender) -> None:
    model.save(tmp_path / "shop")
    with pytest.raises(ModelError, match="this is a model of the kind 'Recommender', not TreeClassifier"):
        TreeClassifier.load(tmp_path / "shop")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"keep_users": "yes"}, "keep_users must be True or False, got 'yes'"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"random_state": "a"}, "random_state must be"),
        ({"verbose": "a"}, "verbose must be"),
    ],
)
def test_rejects_bad_parameters(log: dict[str, Any], parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Recommender(**parameters).fit(log)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"k": 0}, "k must be an integer of at least 1, got 0"),
        ({"exclude_seen": "yes"}, "exclude_seen must be True or False"),
        ({"unknown": "ignore"}, "unknown must be one of 'error', 'popular', got 'ignore'"),
        ({"only": ["i01", "unheard of"]}, "only holds 'unheard of', which the log .* does not: leave it out"),
        ({"exclude": np.ones(3, bool)}, "exclude must hold 40 booleans in the order of items_.* got a mask of 3"),
        ({"users": [3]}, "users holds 3, which the log .* does not: the model knows names such as 'u000'"),
        ({"users": {"user": ["u001"]}}, "users must be names of users, got a log: pass it as history="),
        ({"users": [None]}, "row 0 of users: column 'users' is empty"),
        ({"history": {"user": ["a"], "item": ["i01"]}}, "there is no column 'time'.*; there are 'user', 'item'"),
    ],
)
def test_rejects_bad_questions(model: Recommender, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.recommend(**arguments)


def test_unexpected_arguments_of_files_are_refused(model: Recommender, log: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="unexpected argument 'hist': a file takes format, quotes"):
        model.recommend(history=log, hist=log)
    with pytest.raises(TypeError, match="unexpected argument 'hist': a file takes format, quotes"):
        model.recommend(hist=log)
    output = (
        r"unexpected argument 'output', a parameter of the constructor: pass Recommender\(output='pandas'\), or call"
    )
    for method in (model.recommend, model.evaluate, lambda **file: model.recommend(history=log, **file)):
        with pytest.raises(TypeError, match=output):
            method(output="pandas")
    with pytest.raises(TypeError, match="unexpected argument 'format': without a history"):
        model.recommend(format="csv")
    with pytest.raises(TypeError, match="unexpected argument 'format': without a log"):
        model.evaluate(format="csv")


def test_an_empty_history_has_no_answers(model: Recommender) -> None:
    found = model.recommend(history={"user": [], "item": [], "time": []})
    assert {name: len(values) for name, values in found.items()} == {"user": 0, "item": 0, "score": 0, "rank": 0}
    nothing = model.recommend(history=csr_array((2, 40)), k=1)
    assert nothing["item"].tolist() == model.recommend_for([[], []], k=1)["item"].tolist()
    assert len(model.recommend([], k=1)["item"]) == 0


def test_no_warnings_for_a_usual_log(log: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Recommender(random_state=0).fit(log).evaluate(k=1000)


@pytest.mark.parametrize(("own", "missing"), [({"usr": ["n"], "item": ["x"]}, "user"), ({"user": ["n"]}, "item")])
def test_a_history_without_a_column_is_refused_by_name(own, missing):
    model = Recommender(random_state=0).fit({"user": list("aabb"), "item": list("xyxz")})
    for history in (own, pytest.importorskip("pandas").DataFrame(own)):
        with pytest.raises(ValueError, match=f"history: there is no column '{missing}'.*; there are '"):
            model.recommend(history=history)


def test_unknown_items_have_no_popularity():
    model = Recommender(random_state=0).fit({"user": list("aabb"), "item": list("xyxz")})
    scores = model.evaluate({"user": ["a", "b"], "item": ["q", "r"]}, k=2)
    assert scores["recall@2"] == 0
    assert "popularity_bias@2" not in scores
    scores = model.evaluate({"user": ["a", "b"], "item": ["z", "r"]}, k=2)
    assert scores["unknown_items"] == 1
    assert np.isfinite(list(scores.values())).all()
