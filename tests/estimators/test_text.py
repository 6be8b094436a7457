"""TextClassifier: learning, answers, and models on disk."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from sparsenet import ModelError, TextClassifier, kernels
from sparsenet.engines.linear.linear_model import LinearModel
from sparsenet.engines.linear.measuring import search
from sparsenet.engines.linear.problem import Problem
from sparsenet.engines.linear.text_holdout import draw_holdout
from sparsenet.engines.text.text_options import TextOptions
from sparsenet.features.text.corpus import Corpus
from sparsenet.features.text.featuriser import FeatureRules, extract
from sparsenet.features.text.vocabulary import _own_share
from sparsenet.storage.parts import model_errors
from tests.support.texts import FILLER, TOPICS, fitted, planted


@pytest.mark.parametrize("topics", [2, 3])
def test_learns_planted_labels(topics):
    model = TextClassifier(random_state=0).fit(*planted(400, topics=topics))
    assert model.score(*planted(300, seed=1, topics=topics)) > 0.97
    assert model.classes_.tolist() == sorted(list(TOPICS)[:topics])
    assert model.validation_score_ > 0.9


def test_answer_methods_agree():
    model = fitted()
    texts = planted(50, seed=2)[0] + ["", "unheard-of", "\ud800 surrogate goal"]
    labels = model.predict(texts)
    probabilities = model.predict_proba(texts)
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(model.predict_log_proba(texts), np.log(probabilities))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert labels.tolist() == model.classes_[probabilities.argmax(axis=1)].tolist()
    assert [model.predict_one(text) for text in texts] == labels.tolist()
    assert [model.predict([text])[0] for text in texts] == labels.tolist()
    best = model.predict_topk(texts, k=2)
    assert best.shape == (len(texts), 3)
    assert model.classes_[best.indices.reshape(-1, 2)[:, 0]].tolist() == labels.tolist()
    np.testing.assert_allclose(best.data.reshape(-1, 2)[:, 0], probabilities.max(axis=1))
    names, sure = model.topk(texts, k=2)
    assert names.tolist() == model.classes_[best.indices.reshape(-1, 2)].tolist()
    assert sure.tolist() == best.data.reshape(-1, 2).tolist()
    assert [part.shape for part in model.topk(texts, k=9)] == [(len(texts), 3)] * 2
    assert model.decision_function(texts).shape == (len(texts), 3)


def test_two_classes_agree_with_several():
    model = TextClassifier(random_state=0).fit(*planted(300, topics=2))
    texts = planted(40, seed=3, topics=2)[0]
    scores = model.decision_function(texts)
    assert scores.shape == (40,)
    assert model.predict(texts).tolist() == model.classes_[(scores > 0).astype(int)].tolist()
    assert ((model.predict_proba(texts)[:, 1] > 0.5) == (scores > 0)).all()


def test_answers_empty_input():
    model = fitted()
    assert model.predict([]).shape == (0,)
    assert model.predict_proba([]).shape == (0, 3)
    assert model.predict_topk([]).shape == (0, 3)
    assert [part.shape for part in model.topk([], k=2)] == [(0, 2)] * 2


@pytest.mark.parametrize("threads", [2, 4])
def test_threads_change_nothing(threads):
    one, more = (TextClassifier(random_state=0, n_jobs=n).fit(*planted(400)) for n in (1, threads))
    np.testing.assert_array_equal(one._fitted.model.matrix, more._fitted.model.matrix)
    np.testing.assert_array_equal(one._fitted.model.bias, more._fitted.model.bias)
    texts = planted(100, seed=4)[0]
    np.testing.assert_array_equal(one.predict_proba(texts), more.predict_proba(texts))


def test_probabilities_are_calibrated():
    """With clues in some texts only, the mean probability of the best label matches its accuracy."""
    texts, labels = planted(6000, seed=5, clues=1)
    hidden = [" ".join(w for w in text.split() if i % 3 or w in FILLER) for i, text in enumerate(texts)]
    model = TextClassifier(random_state=0).fit(hidden[:3000], labels[:3000])
    sure = model.predict_proba(hidden[3000:]).max(axis=1).mean()
    assert abs(sure - model.score(hidden[3000:], labels[3000:])) < 0.08
    assert 0.6 < sure < 0.9


def test_several_labels_a_text():
    texts, labels = planted(300)
    others, more = planted(300, seed=6)
    both = [f"{a} {b}" for a, b in zip(texts, others, strict=True)]
    y = [sorted({a, b}) for a, b in zip(labels, more, strict=True)]
    model = TextClassifier(random_state=0).fit(both, y)
    answers = model.predict(both)
    assert np.mean([sorted(a) == b for a, b in zip(answers, y, strict=True)]) > 0.95
    assert model.score(both, y) > 0.97
    found, scores = model.predict_proba(both), model.decision_function(both)
    assert found.shape == (300, 3)
    orders = np.argsort(-scores, axis=1, kind="stable")

    def best_first(threshold: float) -> list[list[str]]:
        named = zip(orders, found, strict=True)
        return [[model.classes_[i] for i in order if row[i] > threshold] for order, row in named]

    assert answers == best_first(model.threshold_)
    assert any(own != sorted(own) for own in answers)
    for threshold in (0.1, 0.9):
        assert model.predict(both, threshold=threshold) == best_first(threshold)
    assert model.predict(both[:2], threshold=0) == [[model.classes_[i] for i in order] for order in orders[:2]]
    assert model.predict(both[:2], threshold=1.0) == [[], []]
    with pytest.raises(ValueError, match="threshold must be"):
        model.predict(both, threshold=1.5)


def test_a_threshold_is_saved_for_several_labels(tmp_path):
    texts, labels = planted(60)
    one = TextClassifier(random_state=0).fit(texts, labels)
    assert one.threshold_ is None
    with pytest.raises(ValueError, match=r"threshold must be None where each text has one label.*TunedThreshold"):
        one.predict(texts, threshold=0.5)
    lists = [[label] for label in labels]
    unmeasured = TextClassifier(random_state=0, validation_fraction=0).fit(texts, lists)
    assert unmeasured.threshold_ == 0.5
    rng = np.random.default_rng(7)
    texts, labels = planted(400)
    noisy = [[label, f"{label}-at-times"][: 1 + (rng.random() < 0.6)] for label in labels]
    several = TextClassifier(random_state=0).fit(texts, noisy)
    assert 0.05 < several.threshold_ < 0.48  # a rare label gets 0.6 at most
    several.save(tmp_path / "model")
    loaded = TextClassifier.load(tmp_path / "model")
    assert loaded.threshold_ == several.threshold_ == several.partial_fit(texts, noisy).threshold_


@pytest.mark.parametrize("kind", ["array", "object", "series", "frame column", "tuple", "bytes", "generator"])
def test_accepts_many_forms_of_texts(kind):
    texts, labels = planted(60)
    expected = TextClassifier(random_state=0).fit(texts, labels).predict(texts)
    given = {
        "array": np.array(texts),
        "object": np.array(texts, dtype=object),
        "series": pd.Series(texts, index=range(100, 160)),
        "frame column": pd.DataFrame({"text": texts}),
        "tuple": tuple(texts),
        "bytes": [text.encode() for text in texts],
        "generator": (text for text in texts),
    }[kind]
    y = pd.Series(labels) if kind == "series" else labels
    assert TextClassifier(random_state=0).fit(given, y).predict(texts).tolist() == expected.tolist()


def test_accepts_integer_classes():
    texts, labels = planted(60, topics=2)
    model = TextClassifier(random_state=0).fit(texts, [len(label) for label in labels])
    assert set(model.predict(texts).tolist()) == {4, 5}


class Sparse(TextClassifier):
    """Keeps the weights of models of 50 and more weights sparse."""

    def _options(self) -> TextOptions:
        found = super()._options()
        return replace(found, linear=replace(found.linear, max_dense_weights=50, smallest=1e-4, rows_at_a_time=7))


def test_many_labels_keep_only_large_weights(tmp_path):
    texts, labels = planted(400)
    plain = TextClassifier(random_state=0).fit(texts, labels)
    model = Sparse(random_state=0, n_jobs=1).fit(texts, labels)
    assert model._fitted.model.indptr is not None
    test, truth = planted(100, seed=3)
    np.testing.assert_allclose(model.predict_proba(test), plain.predict_proba(test), atol=0.02)
    assert model.score(test, truth) > 0.97
    assert model.explain(test[0]).score == pytest.approx(model.decision_function(test[:1]).max(), abs=1e-6)
    parts = model.explain(test[0])
    assert parts.bias + sum(part.score for part in parts.parts) == pytest.approx(parts.score, abs=1e-5)
    model.save(tmp_path / "model")
    copy = TextClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(copy.predict_proba(test), model.predict_proba(test))


def test_a_pruned_model_learns_on(tmp_path):
    texts, labels = planted(300, topics=2)
    model = Sparse(random_state=0).fit(texts, labels)
    for seed in (7, 9):
        model.partial_fit(*planted(300, seed=seed))
        kept = model._fitted.model
        assert len(kept.matrix) == kept.indptr[-1] < 0.9 * model._fitted.weight[:-1].size
    assert model.classes_.tolist() == ["food", "money", "sport"]
    test, truth = planted(200, seed=8)
    assert model.score(test, truth) > 0.9
    whole = LinearModel.rounded(model._fitted.weight).scores(model._fitted.vocabulary.points(counted(test), 1), 1)
    np.testing.assert_allclose(model.decision_function(test), whole, atol=0.15)  # ten words: root of 10
    model.save(tmp_path / "model")
    copy = Sparse.load(tmp_path / "model").partial_fit(["a yacht", "my yacht"], ["boat", "boat"])
    assert copy.predict(["the yacht"]).tolist() == ["boat"]
    assert copy.score(test, truth) > 0.9
    with pytest.raises(MemoryError, match=r"further training of 4 labels .* needs .* kB, and there are 1.0 kB"):
        copy.set_params(memory_limit="1kB").partial_fit(["a yacht"], ["boat"])


def counted(texts):
    return extract(*kernels.join_texts(texts), FeatureRules(), 1)


# --- learning on ---


def test_partial_fit_learns_new_labels_and_words():
    texts, labels = planted(300, topics=2)
    model = TextClassifier(random_state=0).fit(texts, labels)
    more, new = planted(300, seed=7)
    model.partial_fit(more, new)
    assert model.classes_.tolist() == ["food", "money", "sport"]
    assert model.label_counts_.sum() == 600
    assert model.score(*planted(200, seed=8)) > 0.9


def test_partial_fit_alone_and_repeated_is_deterministic():
    def run() -> np.ndarray:
        model = TextClassifier(random_state=0, n_jobs=1)
        for seed in range(4):
            model.partial_fit(*planted(50, seed=seed), classes=list(TOPICS))
        return model.predict_proba(planted(20, seed=9)[0])

    np.testing.assert_array_equal(run(), run())
    model = TextClassifier(random_state=0)
    for seed in range(4):
        model.partial_fit(*planted(50, seed=seed))
    assert model.score(*planted(200, seed=9)) > 0.9


def test_partial_fit_rejects_labels_of_another_type():
    with pytest.raises(ValueError, match="use one type for all"):
        fitted().partial_fit(["a goal"], [3])
    model = TextClassifier(random_state=0).fit(["a goal", "a soup"], [3, 4])
    with pytest.raises(ValueError, match="y holds labels such as 'sport', the model knows such as 3: use one type"):
        model.partial_fit(["a goal"], ["sport"])


def test_balanced_weights_favor_rare_labels():
    texts, labels = planted(2000, topics=2, clues=1)
    rare = [i for i, label in enumerate(labels) if label == "food"][:12]
    kept = [i for i, label in enumerate(labels) if label == "sport"] + rare
    X, y = [texts[i] for i in kept], [labels[i] for i in kept]
    test, truth = planted(400, seed=3, topics=2, clues=1)
    food = [text for text, label in zip(test, truth, strict=True) if label == "food"]
    plain = TextClassifier(random_state=0).fit(X, y)
    balanced = TextClassifier(random_state=0, class_weight="balanced").fit(X, y)
    by_hand = TextClassifier(random_state=0, class_weight={"food": 50.0}).fit(X, y)
    scores = [-model.decision_function(food).mean() for model in (plain, balanced, by_hand)]  # positive for sport
    assert scores[1] > scores[0] + 0.01
    assert scores[2] > scores[0] + 0.01


def test_class_weights_may_name_labels_that_a_fold_lacks():
    X, y = planted(200, topics=2)
    weighed = [TextClassifier(random_state=0, class_weight=own) for own in ({"food": 5.0}, {"food": 5.0, "money": 9.0})]
    scores = [model.fit(X, y).decision_function(X) for model in weighed]
    np.testing.assert_array_equal(*scores)
    with pytest.raises(ValueError, match="class_weight names no label of y: it has 'money', y has labels like"):
        TextClassifier(class_weight={"money": 9.0}).fit(X, y)


def test_chance_features_of_a_rare_label_do_not_dominate():
    """One text in a hundred has the label, and most of these contain one word; all else is noise."""
    rng = np.random.default_rng(0)
    rare = rng.random(12000) < 0.01
    has_clue = np.where(rare, rng.random(12000) < 0.8, rng.random(12000) < 0.005)
    noise = rng.integers(300, size=(12000, 10))
    texts = [
        " ".join([*(f"w{i}" for i in row), *["clue"] * int(clue)]) for row, clue in zip(noise, has_clue, strict=True)
    ]
    model = TextClassifier(random_state=0, class_weight="balanced").fit(texts[:8000], rare[:8000].astype(int))
    truth, scores, found = rare[8000:], model.decision_function(texts[8000:]), model.predict(texts[8000:])
    assert roc_auc_score(truth, scores) > 0.85
    assert found[truth].mean() > 0.6
    assert found[~truth].mean() < 0.05


def test_only_rare_labels_are_discounted():
    np.testing.assert_array_equal(_own_share(np.full(4, 0.25)), 0)
    share = _own_share(np.array([0.98, 0.02]))
    assert share[0] == 0
    assert 0.9 < share[1] < 1
    np.testing.assert_array_equal(_own_share(np.array([0.98, 0.02, 0, 0]))[:2], share)  # two labels have no text


def test_the_search_reserves_time_for_training():
    """Each measurement takes ten seconds and reserves twenty for the final model: 31 seconds allow one."""
    clock = [0.0]

    class Slow(Problem):
        def train(self, *given):
            clock[0] += 10.0
            return super().train(*given)

    options = TextOptions.of(TextClassifier(validation_fraction=0.1).get_params())
    corpus = Corpus.of_texts(*planted(400), options.features, 1)
    holdout = draw_holdout(corpus.labels, options.holdout, 0)
    assert holdout is not None
    problem = Slow(corpus.rows, corpus.labels, True, None, 0, 1, None)
    for seconds, trials in ((0, 1), (31, 1), (41, 2), (51, 3), (1000, 4)):
        clock[0] = 0.0
        given = (problem, corpus, corpus.rules, options.linear, holdout)
        _, tried, _ = search(*given, seconds, clock=lambda: clock[0])
        assert len(tried) == trials


def test_a_time_budget_enables_the_search(tmp_path):
    model = TextClassifier(random_state=0, time_budget=60).fit(*planted(400))
    tried = {(trial["word_ngrams"], trial["cost"]) for trial in model.search_}
    assert {(2, 1.0), (2, 0.3), (2, 3.0)} <= tried
    assert {n for n, _ in tried} == {2, 3}
    cost, words = model.choices_["cost"], model.choices_["word_ngrams"]
    assert cost.options == ("1", "0.3", "3")
    assert words.options == ("2", "3")
    assert cost.n == words.n == 400
    chosen = {"cost": cost.value, "word_ngrams": words.value, "score": model.validation_score_}
    assert chosen in model.search_
    model.save(tmp_path / "model")
    assert TextClassifier.load(tmp_path / "model").choices_ == model.choices_
    assert TextClassifier(random_state=0, time_budget=0).fit(*planted(400)).search_[1:] == []


def test_one_held_out_text_gives_no_standard_error(tmp_path):
    texts, labels = planted(40)
    model = TextClassifier(random_state=0, time_budget=60, validation_fraction=0.02).fit(texts, labels)
    assert model.choices_["cost"].n == 1
    assert model.choices_["cost"].value == model.cost
    model.save(tmp_path / "model")
    assert TextClassifier.load(tmp_path / "model").choices_["cost"].standard_error is None


@pytest.mark.parametrize("char_ngrams", ["auto", (3, 3)])
def test_records_choices_by_the_size_of_the_data(char_ngrams):
    model = TextClassifier(random_state=0, char_ngrams=char_ngrams).fit(*planted(40))
    assert model.choices_["method"].value == "linear"
    assert model.choices_.get("char_ngrams", [None])[0] == ((3, 5) if char_ngrams == "auto" else None)


def test_score_weighs_texts_and_counts_unknown_labels_as_misses():
    model = fitted()
    texts, truth = ["a goal", "the team", "a zebra"], ["sport", "food", "animals"]
    assert model.score(texts, truth) == pytest.approx(1 / 3)
    assert model.score(texts, truth, sample_weight=[2, 1, 1]) == 0.5
    assert model.score(texts, truth, sample_weight=np.array([0.0, 1.0, 5.0])) == 0.0
    with pytest.warns(UserWarning, match="y holds no label that the classifier knows"):
        assert model.score(["a goal", "a zebra"], ["animals", "plants"]) == 0.0
    for wrong in ([1, 1], [[1, 1, 1]], 1.0):
        with pytest.raises(ValueError, match="sample_weight must have one number for each of 3 rows"):
            model.score(texts, truth, sample_weight=wrong)
    with pytest.raises(ValueError, match="X has 3 texts, y has 1 entries"):
        model.score(texts, ["food"])
    with pytest.raises(ValueError, match="X holds no texts"):
        model.score([], [])


def test_rejects_answers_before_fit():
    for method in ("predict", "predict_proba", "topk", "predict_topk", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(TextClassifier(), method)(["text"])
    with pytest.raises(NotFittedError):
        TextClassifier().predict_one("text")


# --- models on disk ---


@pytest.mark.parametrize("topics", [2, 3])
def test_save_and_load(tmp_path, topics):
    model = TextClassifier(random_state=0, char_ngrams=(2, 4)).fit(*planted(300, topics=topics))
    model.save(tmp_path / "model")
    copy = TextClassifier.load(tmp_path / "model")
    texts = planted(50, seed=2, topics=topics)[0]
    np.testing.assert_array_equal(copy.predict_proba(texts), model.predict_proba(texts))
    assert copy.get_params() == model.get_params()
    assert copy.classes_.tolist() == model.classes_.tolist()
    assert copy.validation_score_ == model.validation_score_
    copy.save(tmp_path / "again")
    assert {f.name: f.read_bytes() for f in (tmp_path / "again").iterdir()} == {
        f.name: f.read_bytes() for f in (tmp_path / "model").iterdir()
    }


def test_parameters_are_saved_or_rejected(tmp_path):
    texts, labels = planted(60)
    numbers = [len(label) for label in labels]
    weights = {4: 2.0, np.int64(5): 1}
    for given in (weights, MappingProxyType(weights), OrderedDict(weights)):
        model = TextClassifier(random_state=0, class_weight=given, char_ngrams=[2, 4]).fit(texts, numbers)
        model.save(tmp_path / "model")
        copy = TextClassifier.load(tmp_path / "model")
        assert copy.class_weight == weights
        assert copy.char_ngrams == (2, 4)
        assert copy.partial_fit(texts, numbers).predict(texts).tolist() == model.predict(texts).tolist()
    model.set_params(random_state=np.random.RandomState(0), class_weight=None).save(tmp_path / "model")
    assert TextClassifier.load(tmp_path / "model").random_state is None
    with pytest.raises(ValueError, match=r"class_weight=.*Fraction.* cannot be saved"):
        model.set_params(class_weight={4: Fraction(1, 2)}).save(tmp_path / "model")


def test_rejects_a_model_of_mismatched_parts(tmp_path):
    from sparsenet import storage
    from sparsenet.engines.text.compact_arrays import unpack

    fitted().save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    arrays = unpack(arrays)  # a model may also hold them unpacked
    for change, message in [
        ({"slots": arrays["slots"][::-1].copy()}, "slots must ascend"),
        ({"slots": arrays["slots"].astype(np.int64)}, "slots must be int32"),
        ({"bias": np.full_like(arrays["bias"], np.nan)}, "bias holds NaN or infinity"),
        ({"bias": arrays["bias"][:, :2]}, "columns|must be"),
        ({"bias": np.vstack([arrays["bias"], arrays["bias"]])}, "not one that this version can use"),
        ({"matrix": arrays["matrix"][:, :2].copy()}, "matrix must be"),
        ({"slots": arrays["slots"] + (1 << 22)}, "slots must be below"),
        ({"indptr": np.zeros(len(arrays["slots"]) + 1, np.int64)}, "indptr and columns must both be there, or neither"),
        ({"columns": np.zeros(0, np.int32)}, "indptr and columns must both be there, or neither"),
        ({"counts": -arrays["counts"]}, "counts must not be negative"),
    ]:
        storage.save(tmp_path / "wrong", {**arrays, **change}, metadata)
        with pytest.raises(ModelError, match=message):
            TextClassifier.load(tmp_path / "wrong")
    wrong: dict[str, tuple[Any, ...]] = {
        "steepness": (0, -1.0, float("inf"), float("nan"), "steep", None),
        "shift": (float("inf"), float("nan"), None),
        "threshold": (-0.1, 1.1, float("nan"), "high", None),
        "n_texts": (-1, 0.5, "many", None),
        "calls": (-1, None),
        "validation_score": (-0.1, 1.1, float("nan"), "good"),
        "search": (None, {}, "none", [1], [None]),
    }
    for name, values in wrong.items():
        for value in values:
            with pytest.raises(ModelError), model_errors():
                TextClassifier._unpack(arrays, {**metadata, name: value})
    storage.save(tmp_path / "right", arrays, {**metadata, "validation_score": None, "search": [{"score": 1.0}]})
    assert TextClassifier.load(tmp_path / "right").search_ == [{"score": 1.0}]
    storage.save(tmp_path / "wrong", arrays, {**metadata, "model": "ExtremeClassifier"})
    with pytest.raises(ModelError, match="not TextClassifier"):
        TextClassifier.load(tmp_path / "wrong")


# --- bad input ---


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ("a text", ["a"], "y must be None if X is a path"),
        (sparse.csr_array(np.eye(2)), ["a", "b"], "X must hold raw texts, got a sparse matrix: BlendClassifier takes"),
        (sparse.csr_array([[1], [2]]), ["a", "b"], "X must hold raw texts, got a sparse matrix"),
        (b"a text", ["a"], "a single one: pass"),
        (["a", None], ["x", "y"], r"got None in row 1: fill missing texts in"),
        (["a", float("nan")], ["x", "y"], r"got nan in row 1: fill missing texts in"),
        (["a", 3], ["x", "y"], "got 3 in row 1: convert it with str"),
        (["a", "b"], ["x"], "X has 2 texts, y has 1 entries"),
        (["a", "b"], None, "requires y to be passed"),
        (["a", "b"], [[], []], "no label at all"),
        (np.array([["a", "b"], ["c", "d"]]), ["x", "y"], "one column of texts"),
        (7, ["x"], "must be a sequence of texts, got int"),
        ([], [], "X holds no texts"),
    ],
)
def test_rejects_bad_texts(X, y, message):
    with pytest.raises(ValueError, match=message):
        TextClassifier().fit(X, y)


@pytest.mark.parametrize(
    "parameters",
    [
        {"word_ngrams": 0},
        {"char_ngrams": (5, 3)},
        {"char_ngrams": "all"},
        {"cost": 0},
        {"cost": float("nan")},
        {"epochs": 0},
        {"epochs": "all"},
        {"bits": 40},
        {"class_weight": "heavy"},
        {"class_weight": {"unknown": 1.0}},
        {"class_weight": {"food": -1.0}},
        {"class_weight": {"food": "a"}},
        {"class_weight": {"food": float("nan")}},
        {"class_weight": {"food": None}},
        {"validation_fraction": 1.5},
        {"time_budget": -1},
        {"n_jobs": 0},
    ],
    ids=str,
)
def test_rejects_absurd_parameters(parameters):
    (name,) = parameters
    with pytest.raises(ValueError, match=name):
        TextClassifier(**parameters).fit(*planted(20))


def test_a_failed_fit_keeps_the_earlier_model():
    model = fitted()
    before = model.predict_proba(["a goal"])
    with pytest.raises(ValueError, match="row 1"):
        model.fit(["a", None], ["x", "y"])
    np.testing.assert_array_equal(model.predict_proba(["a goal"]), before)


def test_a_single_class_is_always_predicted():
    model = TextClassifier().fit(["one text", "another text"], ["only", "only"])
    assert model.predict(["text", ""]).tolist() == ["only", "only"]
    assert model.predict_proba(["text"]).tolist() == [[1.0]]
    assert model.predict_one("text") == "only"


def test_learns_a_label_seen_once():
    texts, labels = planted(300, topics=2)
    model = TextClassifier(random_state=0).fit([*texts, "zebra zebra crossing", "zebra"], [*labels, "zoo", "zoo"])
    assert "zoo" in model.classes_.tolist()
    once = TextClassifier(random_state=0).fit([*texts, "zebra crossing"], [*labels, "zoo"])
    assert once.predict_proba(["zebra crossing"]).shape == (1, 3)


def test_accepts_empty_texts_and_null_bytes():
    model = TextClassifier(random_state=0).fit(["", "a\0b", "goal", "goal"], ["x", "x", "y", "y"])
    assert model.predict(["", "\0", "goal"]).shape == (3,)
    assert TextClassifier().fit(["", ""], ["x", "y"]).predict([""]).tolist()[0] in ("x", "y")


def test_accepts_a_huge_text():
    model = fitted()
    assert model.predict_one("goal team " * 1_000_000) == "sport"
    assert model.predict(["x" * 20_000_000]).shape == (1,)
