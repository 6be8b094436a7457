"""partial_fit of TextClassifier: labels of every type, class weights, classes announced for later."""

from __future__ import annotations

import numpy as np
import pytest

from sparsenet import TextClassifier
from tests.support.texts import planted

TEXTS, TOPICS = planted(60)


def numbered(dtype) -> np.ndarray:
    """Return the topics of TEXTS as two classes of a type of number."""
    return np.array([topic == "food" for topic in TOPICS]).astype(dtype)


@pytest.mark.parametrize("dtype", ["?", "u1", "i1", "i2", "u4", "i4", "i8", "u8", "f4", "f8"])
def test_keeps_the_type_of_labels(tmp_path, dtype):
    y = numbered(dtype)
    model = TextClassifier(random_state=0).fit(TEXTS, y).partial_fit(TEXTS, y)
    assert model.classes_.dtype == model.predict(TEXTS).dtype == y.dtype
    assert model.score(TEXTS, y) == 1.0
    model.save(tmp_path / "model")
    assert TextClassifier.load(tmp_path / "model").predict(TEXTS).dtype == y.dtype


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        ("u1", "i8", "i8"),
        ("i4", "i8", "i8"),
        ("?", "i8", "i8"),
        ("f4", "f8", "f8"),
        ("U1", "U9", "U9"),
        ("O", "U4", "O"),
    ],
)
def test_mixed_label_types_get_a_common_type(first, second, found):
    names = {"U": ["a", "b"], "O": ["a", "b"]}
    one, other = (np.array([names.get(d[0], [0, 1])[i] for i in numbered(int)], dtype=d) for d in (first, second))
    other[0] = "long" if second[0] == "U" else 7
    model = TextClassifier(random_state=0).fit(TEXTS, one).partial_fit(TEXTS, other)
    assert model.classes_.dtype == np.dtype(found)
    assert model.classes_.tolist() == (["a", "b", "long"] if second[0] == "U" else [0, 1, 7])


def test_lists_of_zeros_and_ones_are_label_lists():
    model = TextClassifier(random_state=0).fit(["a goal", "soup", "a loan"] * 5, [[0, 1], [1], [2]] * 5)
    model.partial_fit(["a goal", "a match"], [[0, 1], [1, 0]])
    assert model.label_counts_.tolist() == [7, 12, 5]
    with pytest.raises(ValueError, match="y must be of the kind 'lists' as it was before, got the kind 'dense'"):
        model.partial_fit(["a goal", "a match"], np.array([[0, 1], [1, 0]]))
    indicator = TextClassifier(random_state=0).fit(["a goal", "soup"] * 5, [[0, 1], [1, 0]] * 5)
    assert indicator.partial_fit(["a goal"], [[1, 1]]).label_counts_.tolist() == [6, 6]


def test_labels_beyond_32_bits_are_kept():
    y = numbered(np.int64) + 2**40
    model = TextClassifier(random_state=0).fit(TEXTS, y).partial_fit(TEXTS, y + 1)
    assert model.classes_.tolist() == [2**40, 2**40 + 1, 2**40 + 2]
    with pytest.raises(ValueError, match="y holds int64 labels, the model knows uint64: use one type for all"):
        TextClassifier().fit(TEXTS, numbered("u8")).partial_fit(TEXTS, y)


def test_class_weights_hold_on_later_calls():
    for topics in (2, 3):
        first, more = planted(100, topics=topics, clues=1), planted(60, seed=1, topics=topics, clues=1)
        food = [
            text for text, topic in zip(*planted(200, seed=2, topics=topics, clues=1), strict=True) if topic == "food"
        ]
        found = {}
        for name, weight in {"none": None, "food": {"food": 50.0}, "sport": {"sport": 50.0}}.items():
            model = TextClassifier(random_state=0, n_jobs=1).fit(*first).set_params(class_weight=weight)
            found[name] = model.partial_fit(*more).predict_proba(food)[:, 0].mean()
        assert found["food"] > found["none"] > found["sport"]


@pytest.mark.parametrize(("y", "unknown"), [(list("xy"), "'z'"), ([1, 2], "'z'")])
def test_rejects_weights_of_unknown_classes_on_every_call(y, unknown):
    model = TextClassifier().fit(["a", "b"], y)
    wrong = {"class_weight": {"z": 2.0, 7: 1.0}}
    for learn in (
        TextClassifier(**wrong).fit,
        TextClassifier(**wrong).partial_fit,
        model.set_params(**wrong).partial_fit,
    ):
        with pytest.raises(ValueError, match=f"class_weight names {unknown}, which is not a label of y"):
            learn(["a", "b"], y)
    network = TextClassifier(method="network", random_state=0).fit(["a", "b"], y).set_params(class_weight="balanced")
    with pytest.raises(ValueError, match="class_weight must be None: it is for linear models"):
        network.partial_fit(["a", "b"], y)


def test_classes_may_be_added_on_every_call():
    model = TextClassifier(random_state=0).partial_fit(TEXTS, TOPICS, classes=["food", "money", "sport"])
    model.partial_fit(TEXTS, TOPICS, classes=["arts", "sport"])
    assert model.classes_.tolist() == ["arts", "food", "money", "sport"]
    assert model.label_counts_.tolist()[0] == 0
    assert model.predict_proba(TEXTS).shape == (60, 4)
    assert model.score(TEXTS, TOPICS) == 1.0
    with pytest.raises(ValueError, match=r"classes holds labels such as .*, the model knows such as 'arts'"):
        model.partial_fit(TEXTS, TOPICS, classes=[1, 2])
    indicator = np.eye(2, dtype=int)
    model = TextClassifier(random_state=0).fit(["a", "b"], indicator)
    with pytest.raises(ValueError, match="classes must be the 2 that the classifier knows"):
        model.partial_fit(["a", "b"], indicator, classes=[0, 1, 2])


def test_one_class_first_and_others_later():
    texts, topics = planted(90)
    for order in (["food", "sport", "money"], ["sport", "money", "food"], ["money", "food", "sport"]):
        model = TextClassifier(random_state=0)
        for first in range(3):
            chosen = [i for i, topic in enumerate(topics) if topic in order[: first + 1]]
            seen = [texts[i] for i in chosen], [topics[i] for i in chosen]
            assert model.partial_fit(*seen).classes_.tolist() == sorted(order[: first + 1])
            assert model.score(*seen) > 0.9
    model = TextClassifier(random_state=0).partial_fit(["a goal"], ["sport"]).partial_fit(texts, topics)
    assert model.score(texts, topics) > 0.9


@pytest.mark.parametrize("n", [5, 30, 300])
@pytest.mark.parametrize("classes", [None, [0, 1], [0, 1, 2]])
def test_a_stream_sorted_by_label_loses_none(n, classes):
    rng = np.random.default_rng(n)

    def texts(label, n):
        return [" ".join(rng.choice([f"w{label}x{i}" for i in range(12)], 6)) for _ in range(n)]

    model = TextClassifier(random_state=0).partial_fit(texts(0, n), [0] * n, classes=classes)
    for label in (1, 2):
        model.partial_fit(texts(label, n), [label] * n)
        for known in range(label + 1):
            assert (model.predict(texts(known, 100)) == known).mean() > 0.95


def test_rejects_empty_input_on_every_call():
    for model in (TextClassifier(), TextClassifier(random_state=0).fit(TEXTS, TOPICS)):
        with pytest.raises(ValueError, match="X holds no texts: there must be at least one"):
            model.partial_fit([], [])
    model = TextClassifier(random_state=0).fit(["a", "b"], [["x"], ["x", "y"]])
    assert model.partial_fit(["a"], [[]]).classes_.tolist() == ["x", "y"], "a text without labels tells of all of them"


def test_partial_fit_keeps_the_score_of_fit():
    model = TextClassifier(random_state=0, validation_fraction=0.2).fit(TEXTS, TOPICS)
    before = model.validation_score_
    assert before is not None
    assert model.partial_fit(TEXTS, TOPICS).validation_score_ == before
    assert model.set_params(validation_fraction=0.0).fit(TEXTS, TOPICS).validation_score_ is None
