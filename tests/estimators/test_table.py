"""`TableClassifier`: from data frames and files to answers, explanations and saved models."""

from __future__ import annotations

import json
from importlib import import_module

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split

import sparsenet
from sparsenet import TableClassifier
from sparsenet.data.frames import read_frame

SIZES = ["small", "large"]


def columns(n=80, seed=0):
    """Columns of several types; the class depends on the size and the colour."""
    rng = np.random.default_rng(seed)
    size, colour = rng.normal(size=n), rng.choice(["red", "blue"], n)
    return {
        "size": np.where(rng.random(n) < 0.05, np.nan, size),
        "colour": colour.tolist(),
        "title": [f"{rng.choice(['old', 'new'])} {rng.choice(['one', 'two', 'three'])} thing here" for _ in range(n)],
        "day": [f"2024-0{m}-1{d}" for m, d in zip(rng.integers(1, 9, n), rng.integers(0, 9, n), strict=True)],
        "kind": [f"{c} {SIZES[int(s > 0)]}" for c, s in zip(colour, size, strict=True)],
    }


TABLE = columns()
LINEAR = {"method": "linear", "random_state": 0, "n_jobs": 1}
CELLS = {name: values for name, values in TABLE.items() if name != "kind"}


@pytest.fixture(scope="module")
def model():
    return TableClassifier(**LINEAR).fit(TABLE, target="kind")


def frames(tmp_path, kind):
    if kind == "dicts":
        return [dict(zip(TABLE, row, strict=True)) for row in zip(*TABLE.values(), strict=True)]
    if kind in ("pandas", "polars", "pyarrow"):
        pytest.importorskip("narwhals")
        library = pytest.importorskip(kind)
        make = library.table if kind == "pyarrow" else library.DataFrame
        return make({name: list(values) for name, values in TABLE.items()})
    path = tmp_path / f"table.{kind}"
    rows = [dict(zip(TABLE, map(_plain, row), strict=True)) for row in zip(*TABLE.values(), strict=True)]
    if kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        import_module("pyarrow.parquet").write_table(pyarrow.Table.from_pylist(rows), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        mark = "," if kind == "csv" else "\t"
        lines = [TABLE.keys(), *(["" if v is None else str(v) for v in row.values()] for row in rows)]
        path.write_text("".join(mark.join(line) + "\n" for line in lines))
    return path


def _plain(value):
    if isinstance(value, float | np.floating):
        return None if np.isnan(value) else float(value)
    return value


@pytest.mark.parametrize("kind", ["dicts", "pandas", "polars", "pyarrow", "csv", "tsv", "jsonl", "parquet"])
def test_takes_any_table(tmp_path, model, kind):
    given = frames(tmp_path, kind)
    trained = TableClassifier(**LINEAR).fit(given, target="kind")
    assert trained.classes_.tolist() == model.classes_.tolist()
    assert np.array_equal(trained.predict(given), model.predict(TABLE))
    assert trained.score(given) == model.score(TABLE)
    assert model.score(given) > 0.9


def test_takes_y_apart(model):
    apart = TableClassifier(**LINEAR).fit(CELLS, TABLE["kind"])
    assert np.array_equal(apart.predict_proba(CELLS), model.predict_proba(TABLE))
    assert apart.score(CELLS, TABLE["kind"]) == model.score(TABLE)
    assert apart.target_ is None
    assert model.target_ == "kind"


def test_takes_an_array():
    X = np.random.default_rng(0).normal(size=(60, 3))
    trained = TableClassifier(**LINEAR).fit(X, X[:, 1] > 0)
    assert trained.classes_.tolist() == [False, True]
    assert trained.score(X, X[:, 1] > 0) > 0.9
    assert trained.feature_names_in_.tolist() == ["0", "1", "2"]


def test_the_columns_are_shown(model, capsys):
    lines = model.columns_.splitlines()
    assert lines[0].split() == ["column", "type", "distinct", "missing", "example", "why"]
    assert [line.split()[:2] for line in lines[2:]] == [
        ["size", "number"],
        ["colour", "category"],
        ["title", "category"],
        ["day", "date"],
    ]
    TableClassifier(**LINEAR, verbose=True).fit(TABLE, target="kind")
    assert "column" in "".join(capsys.readouterr())


def test_types_can_be_set():
    trained = TableClassifier(**LINEAR).fit(TABLE, target="kind", types={"title": "text", "day": "ignore"})
    assert [line.split()[1] for line in trained.columns_.splitlines()[2:]] == [
        "number",
        "category",
        "text",
        "ignore",
    ]
    without = {name: values for name, values in TABLE.items() if name != "day"}
    assert np.array_equal(trained.predict(without), trained.predict(TABLE))  # an ignored column may be absent


def test_probabilities_and_rankings_agree(model):
    p = model.predict_proba(CELLS)
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-5)
    names, best = model.topk(CELLS, k=2)
    assert np.array_equal(names[:, 0], model.predict(CELLS))
    np.testing.assert_allclose(best[:, 0], p.max(axis=1), rtol=1e-5)
    assert model.predict_topk(CELLS, k=2).shape == p.shape
    exclude = np.zeros(4)
    exclude[np.searchsorted(model.classes_, names[0, 0])] = 1
    assert model.topk(CELLS, k=1, exclude=exclude)[0][0, 0] == names[0, 1]


def test_several_classes_a_row():
    rows = [kind.split() for kind in TABLE["kind"]]
    rows[3] = []
    listed = TableClassifier(method="tree", random_state=0, n_jobs=1).fit(CELLS, rows)
    joined = {**CELLS, "tags": [";".join(row) for row in rows]}
    split = TableClassifier(method="tree", random_state=0, n_jobs=1).fit(joined, target="tags", label_delimiter=";")
    assert split.classes_.tolist() == listed.classes_.tolist() == ["blue", "large", "red", "small"]
    assert split.predict(joined) == listed.predict(CELLS)
    assert split.score(joined) == listed.score(CELLS, rows) > 0.8
    in_cells = TableClassifier(method="tree", random_state=0, n_jobs=1).fit({**CELLS, "tags": rows}, target="tags")
    assert in_cells.predict(CELLS) == listed.predict(CELLS)


@pytest.mark.parametrize("method", ["linear", "boosting", "tree"])
def test_explanations_add_up(method):
    trained = TableClassifier(method=method, random_state=0, n_jobs=1).fit(TABLE, target="kind")
    row = {"size": 1.5, "colour": "red", "title": "old one thing here", "day": "2024-03-11"}
    found = trained.explain(row)
    assert found.label == trained.predict([row])[0] == "red large"
    p = trained.predict_proba([row])[0].max()
    assert found.probability == pytest.approx(p)
    log_odds = np.log(np.clip(p, 1e-6, 1 - 1e-6)) - np.log1p(-np.clip(p, 1e-6, 1 - 1e-6))
    assert found.base + sum(each.added for each in found.columns) == pytest.approx(log_odds, abs=1e-3)
    assert {each.name for each in found.columns[:2]} == {"size", "colour"}
    assert found.columns[0].added > 0
    assert "size = 1.5" in str(found)
    other = trained.explain(row, "blue small")
    assert other.label == "blue small"
    assert {each.name: each.added for each in other.columns}["colour"] < 0
    with pytest.raises(ValueError, match="label must be one of classes_, got 'green'"):
        trained.explain(row, "green")
    with pytest.raises(ValueError, match="row must be one row, got 80"):
        trained.explain(CELLS)


@pytest.mark.parametrize(
    "method",
    [
        "linear",
        "boosting",
        "tree",
        "blend",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("network", "auto")),
    ],
)
def test_saved_models_answer_alike(tmp_path, method):
    trained = TableClassifier(method=method, random_state=0, n_jobs=1).fit(TABLE, target="kind")
    trained.save(tmp_path / "model")
    loaded = sparsenet.load(tmp_path / "model")
    assert isinstance(loaded, TableClassifier)
    assert np.array_equal(loaded.predict_proba(CELLS), trained.predict_proba(CELLS))
    for name in ("columns_", "method_", "target_", "choices_", "validation_", "n_features_in_", "n_points_"):
        assert getattr(loaded, name) == getattr(trained, name), name
    assert loaded.get_params() == trained.get_params()
    assert loaded.score(TABLE) == trained.score(TABLE)
    row = {name: values[0] for name, values in CELLS.items()}
    assert str(loaded.explain(row)) == str(trained.explain(row))
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again" / "manifest.json").read_bytes() == (tmp_path / "model" / "manifest.json").read_bytes()


@pytest.mark.slow
def test_an_average_can_be_saved(tmp_path, monkeypatch):
    from sparsenet.engines.table import fit_table

    trained = TableClassifier(random_state=0, n_jobs=1)
    monkeypatch.setattr(fit_table, "_chosen", lambda *args, **how: (("boosting", "linear"), {}))
    trained.fit(TABLE, target="kind")
    assert trained.method_ == "average"
    trained.save(tmp_path / "model")
    assert np.array_equal(sparsenet.load(tmp_path / "model").predict_proba(CELLS), trained.predict_proba(CELLS))


def test_works_with_scikit_learn(model):
    pd = pytest.importorskip("pandas")
    X, y = pd.DataFrame(CELLS), np.array(TABLE["kind"])
    assert clone(model).get_params() == model.get_params()
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    assert clone(model).fit(X_train, y_train).score(X_test, y_test) > 0.6
    assert cross_val_score(clone(model), X, y, cv=2).mean() > 0.6
    search = GridSearchCV(clone(model), {"method": ["linear", "tree"]}, cv=2).fit(X, y)
    assert search.best_params_["method"] in ("linear", "tree")
    assert search.predict(X).shape == (80,)


@pytest.mark.slow
def test_seeds_and_threads():
    first, second, other = (
        TableClassifier(method="blend", random_state=seed, n_jobs=threads)
        .fit(TABLE, target="kind")
        .predict_proba(CELLS)
        for seed, threads in ((0, 1), (0, 2), (1, 1))
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_empty_tables_have_no_answers(model):
    empty = read_frame({name: values[:0] for name, values in CELLS.items()})
    assert model.predict(empty).shape == (0,)
    assert model.predict_proba(empty).shape == (0, 4)
    assert model.topk(empty)[0].shape == (0, 4)


def test_new_values_and_missing_cells_are_answered(model):
    rows = [{"size": None, "colour": "green", "title": None, "day": None}]
    assert np.isfinite(model.predict_proba(rows)).all()


def test_a_history_looks_back_never_ahead(tmp_path):
    rng = np.random.default_rng(0)
    n = 300
    user, when = rng.integers(0, 10, n), rng.permutation(n)
    item = np.empty(n, object)
    last: dict = {}
    for row in np.argsort(when):  # each user alternates between two items
        item[row] = last[user[row]] = "ab".replace(last.get(user[row], ""), "")[0]
    log = {"user": [f"u{i}" for i in user], "when": when.tolist(), "item": item.tolist()}
    history = {"key": "user", "time": "when", "columns": ["item"], "n": 3}
    trained = TableClassifier(**LINEAR).fit(log, target="item", history=history)
    assert "last item of user" in trained.columns_
    half = sparsenet.TableClassifier(**LINEAR).fit(
        {name: np.asarray(cells)[when < n // 2] for name, cells in log.items()}, target="item", history=history
    )
    later = {name: np.asarray(cells)[when >= n // 2] for name, cells in log.items()}
    assert half.score(later) == half.score(later, later["item"]) > 0.9
    assert trained.feature_names_in_.tolist() == ["user", "when"]
    assert trained.validation_ is not None
    assert trained.validation_["accuracy"] > 0.9
    new = {"user": ["u0"], "when": [n + 1]}
    assert trained.predict(new)[0] == "ab".replace(last[0], "")
    found = trained.explain({"user": "u0", "when": n + 1})
    assert found.columns[0].name == "last item of user"
    assert found.columns[0].cell[0] == last[0]
    trained.save(tmp_path / "model")
    assert np.array_equal(sparsenet.load(tmp_path / "model").predict(log), trained.predict(log))
    for wrong in ({"key": "user"}, "user", {**history, "m": 1}):
        with pytest.raises(ValueError, match="history must be a dict such as"):
            TableClassifier(**LINEAR).fit(log, target="item", history=wrong)
    with pytest.raises(ValueError, match="history"):
        TableClassifier(**LINEAR).fit(log, target="item", history={**history, "key": "nobody"})


@pytest.mark.parametrize("y", [[0, 1], [0.0, 1.0], [False, True], [[0], [0, 1]]])
def test_scores_files_of_classes_that_are_no_strings(y, tmp_path):
    cells = [y[i % 2] for i in range(60)]
    model = TableClassifier(method="tree", random_state=0).fit(
        {"x": [i % 2 for i in range(60)], "y": cells}, target="y"
    )
    lines = [json.dumps({"x": i % 2, "y": cells[i]}) for i in range(60)]
    (tmp_path / "test.jsonl").write_text("\n".join(lines))
    assert model.score(tmp_path / "test.jsonl") == 1
    if not isinstance(y[0], list):
        (tmp_path / "test.csv").write_text("x,y\n" + "".join(f"{i % 2},{cells[i]}\n" for i in range(60)) + "0,new\n")
        assert model.score(tmp_path / "test.csv") == pytest.approx(60 / 61)


def test_measures_validation_rows():
    names = list(TABLE)
    train = {name: TABLE[name][:60] for name in names}
    held = {name: TABLE[name][60:] for name in names}
    model = TableClassifier(**LINEAR).fit(train, target="kind", validation=held)
    plain = TableClassifier(**LINEAR).fit(train, target="kind")
    assert model.validation_ == {"P@1": plain.score(held), **{f"P@{k}": pytest.approx(1 / k, abs=0.2) for k in (3, 5)}}
    cells = {name: cells for name, cells in held.items() if name != "kind"}
    by_pair = TableClassifier(**LINEAR).fit(train, target="kind", validation=(cells, held["kind"]))
    assert by_pair.validation_ == model.validation_
    np.testing.assert_array_equal(model.predict_proba(held), plain.predict_proba(held))


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ({"kind": ["a"]}, "validation: .*missing"),
        ((CELLS, TABLE["kind"][:1]), "validation: X has 80 rows, y has 1"),
        ("nowhere.csv", "nowhere.csv"),
    ],
)
def test_refuses_validation_rows_before_training(monkeypatch, validation, message):
    monkeypatch.setattr(TableClassifier, "_trained", None)  # must not be called
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        TableClassifier(**LINEAR).fit(TABLE, target="kind", validation=validation)


def test_refuses_callbacks():
    with pytest.raises(ValueError, match="callbacks are for networks of points"):
        TableClassifier(**LINEAR).fit(TABLE, target="kind", callbacks=[object()])


@pytest.mark.slow
def test_a_small_linear_table_is_learnt_as_well_as_by_logistic_regression():
    gains = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(2200, 8))
        y = (X @ rng.normal(size=8) + 0.5 * rng.logistic(size=2200) > 0).astype(int)
        models = TableClassifier(random_state=0), LogisticRegression()
        ours, theirs = (model.fit(X[:200], y[:200]).score(X[200:], y[200:]) for model in models)
        gains.append(ours - theirs)
    assert np.mean(gains) > -0.01


def test_y_is_compared_by_spelling():
    X = {"size": [1.0, 2.0] * 20}
    model = TableClassifier(method="tree", random_state=0).fit(X, [1, 2] * 20)
    assert model.score(X, ["1", "2.0"] * 20) == model.score(X, [1, 2] * 20) == 1


def test_learns_where_one_row_alone_has_labels():
    rows = {"a": np.arange(60) * 1.5, "b": [f"c{i % 5}" for i in range(60)]}
    labels = [["p", "q"] if i == 3 else [] for i in range(60)]
    model = TableClassifier(n_jobs=1, random_state=0, verbose=False).fit(rows, labels)
    assert model.choices_["method"].why.endswith("too few rows to hold some out")
