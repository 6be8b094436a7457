"""One interface: each classifier answers, restricts, explains, measures and saves in the same way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, KFold, train_test_split

from sparsenet import (
    BlendClassifier,
    ClassifierPipeline,
    ExtremeClassifier,
    TableClassifier,
    TextClassifier,
    TreeClassifier,
    load,
    make_pipeline,
)

N, COLOURS = 48, np.array(["blue", "green", "red", "white"])
NAMES = [str(COLOURS[i % 4]) for i in range(N)]
LISTS = [[name, "thing"] if i % 3 == 0 else [name] for i, name in enumerate(NAMES)]
WORDS = [f"a {name} {'big' if i % 5 else 'small'} thing{i % 7}" for i, name in enumerate(NAMES)]
POINTS = sparse.csr_array(
    np.array([[name == colour for colour in COLOURS] + [1.0, i % 5, i % 7] for i, name in enumerate(NAMES)], float)
)
TABLE = {"text": WORDS, "size": [i % 5 for i in range(N)]}
NETWORK: dict[str, Any] = {"hidden": 8, "epochs": 10, "batch_size": 16, "normalize": "rows"}
SEED: dict[str, Any] = {"random_state": 0, "n_jobs": 1}


@dataclass(frozen=True)
class Door:
    """How to make a classifier, and what it learns from."""

    make: Callable[[], Any]
    X: Any
    few: Any
    one: Any
    grid: dict[str, list[Any]]


def points(make: Callable[[], Any], **grid: list[Any]) -> Door:
    return Door(make, POINTS, POINTS[:3], POINTS[[0]], grid)


DOORS = {
    "network": points(lambda: ExtremeClassifier(**NETWORK, **SEED), epochs=[10]),
    "tree": points(lambda: TreeClassifier(**SEED), cost=[0.1]),
    "blend": points(lambda: BlendClassifier(network=ExtremeClassifier(hidden=8, epochs=3), **SEED), normalize=["rows"]),
    "bare blend": points(lambda: BlendClassifier(network="drop", **SEED), normalize=["rows"]),
    "text": Door(lambda: TextClassifier(method="linear", **SEED), WORDS, WORDS[:3], WORDS[0], {"cost": [0.5]}),
    "text blend": Door(lambda: TextClassifier(method="blend", **SEED), WORDS, WORDS[:3], WORDS[0], {"cost": [1.0]}),
    "table": Door(
        lambda: TableClassifier(method="tree", **SEED),
        TABLE,
        {name: values[:3] for name, values in TABLE.items()},
        {name: values[0] for name, values in TABLE.items()},
        {"method": ["tree"]},
    ),
    "pipeline": Door(
        lambda: make_pipeline(TfidfVectorizer(), TreeClassifier(**SEED)),
        WORDS,
        WORDS[:3],
        WORDS[:1],
        {"treeclassifier__cost": [0.1]},
    ),
}


@pytest.fixture(scope="module", params=DOORS)
def door(request):
    return DOORS[request.param]


@pytest.fixture(scope="module", params=[name for name in DOORS if name != "text blend"])
def quick(request):
    return DOORS[request.param]


@pytest.fixture(scope="module")
def model(door):
    return door.make().fit(door.X, NAMES)


@pytest.fixture(scope="module")
def several(door):
    return door.make().fit(door.X, LISTS)


def test_ranks(door, model):
    names, p = model.topk(door.few, 2)
    numbers, same = model.topk_numbers(door.few, 2)
    assert names.shape == p.shape == (3, 2)
    assert (model.classes_[numbers] == names).all()
    np.testing.assert_array_equal(p, same)
    assert names[:, 0].tolist() == list(model.predict(door.few)) == NAMES[:3]
    best = model.predict_topk(door.few, 2)
    assert best.shape == (3, 4)
    assert best.indices.tolist() == numbers.ravel().tolist()
    assert model.topk(door.few, 99)[0].shape == (3, 4)
    for k in (0, 1.5, "2"):
        with pytest.raises(ValueError, match="k must be"):
            model.topk(door.few, k)


MASK = COLOURS != "red"
OWN = [["red", "blue"], ["green"], ["white", "blue", "red"]]
OWN_MASK = np.array([[colour in own for colour in COLOURS] for own in OWN])


@pytest.mark.parametrize("argument", ["only", "exclude"])
@pytest.mark.parametrize(
    ("mask", "names"),
    [(MASK, COLOURS[MASK].tolist()), (MASK, COLOURS[MASK]), (OWN_MASK, OWN), (sparse.csr_array(OWN_MASK), OWN)],
    ids=["list", "array", "lists", "sparse"],
)
def test_restricts(door, model, argument, mask, names):
    by_mask, by_name = (model.topk_numbers(door.few, 2, **{argument: given}) for given in (mask, names))
    for ours, theirs in zip(by_mask, by_name, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    allowed = np.broadcast_to(OWN_MASK if sparse.issparse(mask) else mask, (3, 4))
    allowed = allowed if argument == "only" else ~allowed
    for row, own in zip(by_mask[0], allowed, strict=True):
        assert own[row[row >= 0]].all()
    assert (np.diff(model.predict_topk(door.few, 2, **{argument: names}).indptr) == np.minimum(allowed.sum(1), 2)).all()


def test_refuses_unknown_names(door, model):
    for argument in ("only", "exclude"):
        with pytest.raises(ValueError, match=f"{argument} names 'tea', not among the 4 labels"):
            model.topk(door.few, 1, **{argument: ["tea"]})


def test_explains(door, model):
    best, other = model.explain(door.one), model.explain(door.one, "white")
    assert best.label == "blue"
    assert other.label == "white"
    assert "blue" in str(best)
    assert "<" in best._repr_html_()
    with pytest.raises(ValueError, match="tea"):
        model.explain(door.one, "tea")


def test_shows_decisions_in_notebooks(door, model):
    html = model._repr_html_() if hasattr(model, "_repr_html_") else model._repr_mimebundle_()["text/html"]
    assert "sparsenet-fitted" in html
    assert "4 labels" in html
    assert model._repr_mimebundle_()["text/plain"]
    assert "sparsenet-fitted" not in door.make()._repr_mimebundle_()["text/html"]


def test_makes_indicators(model):
    found = model.indicator(["red", "blue", "red"])
    assert found.shape == (3, 4)
    assert found.indices.tolist() == [2, 0, 2]


def test_learns_lists_of_labels(door, several):
    assert several.classes_.tolist() == ["blue", "green", "red", "thing", "white"]
    assert several.score(door.X, LISTS) > 0.8
    assert all(isinstance(own, list) for own in several.predict(door.few))
    assert several.indicator(LISTS).nnz == sum(map(len, LISTS))


def test_measures_validation_data(door):
    model = door.make()
    if isinstance(model, ClassifierPipeline):  # its steps do not transform the validation data
        return
    model.fit(door.X, NAMES, validation=(door.few, NAMES[:3]))
    assert model.validation_["P@1"] == 1
    assert "P@3" in model.validation_


class Calls:
    def __init__(self) -> None:
        self.epochs = 0

    def on_batch(self, progress: Any) -> None: ...

    def on_epoch(self, record: Any) -> None:
        self.epochs += 1


def test_calls_back_or_says_which_classifier_does(door):
    calls, model = Calls(), door.make()
    prefix = "treeclassifier__" if isinstance(model, ClassifierPipeline) else ""
    if isinstance(model, ExtremeClassifier) or (isinstance(model, BlendClassifier) and model.network != "drop"):
        model.fit(door.X, NAMES, callbacks=[calls])
        assert calls.epochs
    else:
        with pytest.raises(ValueError, match="callbacks") as refused:
            model.fit(door.X, NAMES, **{f"{prefix}callbacks": [calls]})
        assert "network" in str(refused.value)


def test_survives_saving(door, model, tmp_path):
    model.save(tmp_path / "model")
    same = load(tmp_path / "model")
    assert type(same) is type(model)
    for ours, theirs in zip(same.topk(door.few, 3), model.topk(door.few, 3), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_answers_no_rows_with_nothing(door, model):
    none = {name: [] for name in door.X} if isinstance(door.X, dict) else door.X[:0]
    if not isinstance(model, ClassifierPipeline):  # vectorizers of scikit-learn refuse them
        assert len(model.predict(none)) == 0
        assert model.topk(none, 2)[0].shape == (0, 2)
        assert model.predict_topk(none, 2).shape == (0, 4)
        assert model.topk_numbers(none, 2, only=["red", "blue"])[0].shape == (0, 2)
        assert model.predict_proba(none).shape == (0, 4)


LABELS = {
    "list": list,
    "array": np.array,
    "objects": lambda y: np.array([*y, None], object)[:-1],
    "pandas": lambda y: pytest.importorskip("pandas").Series(y),
    "polars": lambda y: pytest.importorskip("polars").Series(y),
    "arrow": lambda y: pytest.importorskip("pyarrow").array(y),
}


@pytest.mark.parametrize("form", LABELS)
def test_takes_labels_of_other_libraries(door, model, several, form):
    assert model.score(door.X, LABELS[form](NAMES)) == model.score(door.X, NAMES)
    if form != "array":
        assert several.score(door.X, LABELS[form](LISTS)) == several.score(door.X, LISTS)


KINDS = {"names": NAMES, "lists": LISTS, "sparse": sparse.csr_array(np.eye(4)[np.arange(N) % 4])}


@pytest.mark.parametrize("kind", KINDS)
def test_splits_and_searches(quick, kind):
    X, y = quick.X, KINDS[kind]
    X = pytest.importorskip("pandas").DataFrame(X) if isinstance(X, dict) else X
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.25, random_state=0)
    assert 0 <= quick.make().fit(X_train, y_train).score(X_test, y_test) <= 1
    folds = KFold(2, shuffle=True, random_state=0)
    search = GridSearchCV(clone(quick.make()), quick.grid, cv=folds, error_score="raise").fit(X, y)
    assert 0 <= search.best_score_ <= 1
    assert search.best_estimator_.topk(quick.few, 2)[0].shape == (3, 2)


def test_refuses_wrong_labels(door):
    for y, message in [
        (NAMES[:-1], f"{N}.*{N - 1}"),
        (None, "y|target"),
        ([{"a": 1}] * N, "dicts"),
        ([None, *NAMES[1:]], "row 0|missing|None"),
        ([], "0"),
        ([1, "a"] * (N // 2), "mix|alone"),
    ]:
        with pytest.raises(ValueError, match=message):
            door.make().fit(door.X, y)
