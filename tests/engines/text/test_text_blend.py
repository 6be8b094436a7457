"""TextClassifier with a blend: tree, network and neighbors over the features of texts."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest

import sparsenet
from sparsenet import ModelError, TextClassifier, storage
from sparsenet.core import spilling
from sparsenet.core.seeds import run_seed
from sparsenet.engines.text.blend_fitting import MeasuredBlend, draw_for_blend
from sparsenet.engines.text.text_blend import BlendModel
from sparsenet.engines.text.text_options import TextOptions
from sparsenet.features.targets import Target
from sparsenet.selection.choose import Rule
from tests.support.interrupting import interrupted_in
from tests.support.many_labels import planted
from tests.support.text_command_line import run

pytestmark = pytest.mark.usefixtures("narrow_network")
TEST, TRUTH = planted(200, seed=1)


def tagged(n, seed=0):
    """Draw texts with one or two labels each."""
    (texts, labels), (more, others) = planted(n, seed=seed), planted(n, seed=seed + 100)
    joined = [f"{text} {more[i]}" if i % 2 else text for i, text in enumerate(texts)]
    return joined, [sorted({label, others[i]}) if i % 2 else [label] for i, label in enumerate(labels)]


def blend(**parameters):
    return TextClassifier(method="blend", random_state=0, n_jobs=1, **parameters)


@pytest.fixture(scope="module")
def model(narrow_network: None) -> TextClassifier:
    return blend().fit(*planted(1500))


@pytest.fixture(scope="module")
def tagger(narrow_network: None) -> TextClassifier:
    return blend().fit(*tagged(1500))


def test_learns_planted_labels(model):
    assert isinstance(model.fitted_.model, BlendModel)
    assert model.score(TEST, TRUTH) > 0.9
    assert model.validation_score_ > 0.9
    assert model.n_texts_ == 1500
    assert {"weights", "rarity", "power"} <= model.choices_.keys()


def test_posting_lists_beyond_the_limit_are_in_files(monkeypatch):
    usual = blend(epochs=1).fit(*planted(200))
    monkeypatch.setattr(spilling, "available_memory", lambda: 1600)
    found = blend(epochs=1).fit(*planted(200))
    lists = [each.fitted_.model.fitted.neighbors.index for each in (usual, found)]
    for one, other in zip(*(each.arrays() for each in lists), strict=True):
        np.testing.assert_array_equal(one, other)
    assert [each.rows.codes.flags.writeable for each in lists] == [True, False]


def test_single_words_are_the_features(model):
    assert model.fitted_.vocabulary.rules.word_ngrams == 1
    assert blend(word_ngrams=2, epochs=1).fit(*planted(200)).fitted_.vocabulary.rules.word_ngrams == 2


def test_features_do_not_depend_on_texts_held_out_for_good():
    texts, labels = planted(400)
    held = draw_for_blend(Target.learn(labels)[1], 0.2, run_seed(run_seed(0))).points.held
    changed = [np.array(own, object) for own in (texts, labels)]
    for own in changed:
        own[held] = own[np.roll(held, 1)]
    model = blend(epochs=1, validation_fraction=0.2)
    found = [model.fit(*own).fitted_.vocabulary for own in ((texts, labels), [own.tolist() for own in changed])]
    assert (found[0].slots == found[1].slots).all()
    assert (found[0].weights == found[1].weights).all()


def test_answers_agree(model):
    names, p = model.topk(TEST, 3)
    all_p = model.predict_proba(TEST)
    assert model.predict(TEST).tolist() == names[:, 0].tolist()
    assert [model.predict_one(text) for text in TEST[:5]] == names[:5, 0].tolist()
    np.testing.assert_allclose(all_p.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.sort(all_p, axis=1)[:, :-4:-1], p, rtol=1e-4, atol=1e-7)
    assert (np.diff(p, axis=1) <= 0).all()
    scores = model.decision_function(TEST)
    assert scores.shape == (200, 60)
    assert model.classes_[scores.argmax(axis=1)].tolist() == names[:, 0].tolist()


def test_several_labels(tagger):
    texts, truth = tagged(100, seed=2)
    assert tagger.multilabel_
    assert 0 < tagger.threshold_ <= 0.5
    found = tagger.predict(texts)
    right = sum(len(set(own) & set(labels)) for own, labels in zip(found, truth, strict=True))
    assert right > 0.8 * sum(map(len, truth))
    assert right > 0.8 * sum(map(len, found))
    names, p = tagger.topk(texts, 2)
    best = [name for name, probability in zip(names[0], p[0], strict=True) if probability > tagger.threshold_]
    assert list(found[0])[: len(best)] == best
    assert all(len(own) == 60 for own in tagger.predict(texts[:2], threshold=0))
    assert [list(own) for own in tagger.predict(texts[:2], threshold=1)] == [[], []]


@pytest.mark.parametrize("text", ["", " ", "zzz"])
def test_a_text_without_known_words_gets_label_frequencies(model, tagger, text):
    for each in (model, tagger):
        (name,), (p,) = (found[0] for found in each.topk([text], 1))
        shares = each.label_counts_ / each.n_texts_
        assert name == each.classes_[shares.argmax()]
        assert p == pytest.approx(shares.max(), rel=1e-3)
        assert each.predict_proba([text])[0] == pytest.approx(shares / (shares.sum() if each is model else 1), rel=1e-3)


def test_explains_a_score(model):
    found = model.explain(TEST[0])
    assert found.label == model.predict(TEST[:1])[0]
    assert found.parts[0].name.startswith("w")
    assert found.bias + sum(part.score for part in found.parts) == pytest.approx(found.score, rel=1e-4)
    assert "(rest of the score)" in str(found)
    other = model.explain(TEST[0], label="label001")
    assert other.label == "label001"
    assert model.explain("").parts == []


def test_cannot_learn_further_texts(model):
    before = model.predict_proba(TEST)
    with pytest.raises(ValueError, match="a blend cannot learn further texts"):
        model.partial_fit(TEST, TRUTH)
    assert np.array_equal(model.predict_proba(TEST), before)
    with pytest.raises(ValueError, match="a blend cannot learn further texts"):
        blend().partial_fit(TEST, TRUTH)


@pytest.mark.parametrize("which", ["model", "tagger"])
def test_save_and_load(which, request, tmp_path):
    one = request.getfixturevalue(which)
    one.save(tmp_path / "model")
    again = sparsenet.load(tmp_path / "model")
    assert np.array_equal(again.predict_proba(TEST), one.predict_proba(TEST))
    assert again.choices_ == one.choices_
    assert (again.threshold_, again.validation_score_) == (one.threshold_, one.validation_score_)
    assert np.array_equal(pickle.loads(pickle.dumps(one)).predict_proba(TEST), one.predict_proba(TEST))


@pytest.mark.parametrize(
    "change",
    [
        {"compact": "yes"},
        {"n_texts": -1},
        {"choices": {"method": {"value": "tree", "why": "", "options": []}}},
        {"blend": {}},
    ],
)
def test_refuses_a_damaged_model(model, tmp_path, change):
    model.save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    storage.save(tmp_path / "bad", arrays, {**metadata, **change})
    with pytest.raises(ModelError):
        TextClassifier.load(tmp_path / "bad")


def test_refuses_a_blend_of_other_features(model, tmp_path):
    model.save(tmp_path / "model")
    arrays, metadata = storage.load(tmp_path / "model")
    few = {name: arrays[name][:-1] for name in ("feature_weights", "slots.gaps") if name in arrays}
    storage.save(tmp_path / "bad", {**arrays, **few}, metadata)
    with pytest.raises(ModelError):
        TextClassifier.load(tmp_path / "bad")


def test_results_do_not_depend_on_threads():
    one, two = (blend(epochs=2).set_params(n_jobs=n).fit(*planted(600)) for n in (1, 2))
    assert np.array_equal(one.predict_proba(TEST), two.predict_proba(TEST))


def test_compresses_by_rounding(model, tmp_path):
    """As after further training, or in a model of version 0.2, the weights have 32 bits."""
    copy = pickle.loads(pickle.dumps(model))
    for parameter in copy.fitted_.model.fitted.network.network.parameters():
        parameter.value = np.float32(1.1) * parameter.value
    rounded, size = (storage.size(*each._pack(each.fitted_)) for each in (model, copy))
    assert size > 1.3 * rounded
    small = copy.compress(int(1.01 * rounded), TEST, TRUTH)
    assert small.bytes_after <= 1.01 * rounded
    assert small.accuracy_after > 0.9
    copy.save(tmp_path / "small")
    assert np.array_equal(TextClassifier.load(tmp_path / "small").predict_proba(TEST), copy.predict_proba(TEST))
    with pytest.raises(ValueError, match="max_bytes=1000 is impossible: a blend holds its training texts"):
        copy.compress(1000)


def test_validation_fraction():
    texts, labels = planted(600)
    assert blend(validation_fraction=0, epochs=1).fit(texts, labels).validation_score_ is None
    third = blend(validation_fraction=1 / 3, epochs=1).fit(texts, labels)
    assert third.choices_["weights"].n == 200
    assert third.fitted_.model.fitted.network.seen.n_points == 400


def test_time_budget_ends_in_time():
    found = blend(time_budget=30).fit(*planted(600))
    assert found.score(TEST, TRUTH) > 0.8


def test_interrupt_keeps_the_model_before(model, monkeypatch):
    copy = pickle.loads(pickle.dumps(model))
    interrupted_in(monkeypatch, 1)
    with pytest.raises(KeyboardInterrupt):
        copy.fit(*planted(300))
    assert np.array_equal(copy.predict_proba(TEST), model.predict_proba(TEST))


@pytest.mark.parametrize(
    ("parameters", "texts", "labels", "message"),
    [
        ({"class_weight": "balanced"}, *planted(50), "class_weight must be None: .* a blend is trained"),
        ({"cost": 2.0}, *planted(50), "cost=2 is for linear models, and a blend is trained"),
        ({}, ["", " "] * 10, ["a", "b"] * 10, "nothing that a blend could learn from"),
        ({"word_ngrams": "all"}, *planted(50), "word_ngrams must be 'auto'"),
        ({}, [], [], "X holds no texts|y "),
        (
            {"memory_limit": "1kB"},
            *planted(600),
            "1.0 kB: raise memory_limit, or use fewer points or features",
        ),
    ],
)
def test_rejects_what_it_cannot_train(parameters, texts, labels, message):
    with pytest.raises((ValueError, MemoryError), match=message):
        blend(**parameters).fit(texts, labels)


@pytest.mark.parametrize("n", [1, 2, 12])
def test_few_texts(n):
    texts, labels = planted(n)
    found = blend(epochs=1).fit(texts, labels)
    assert found.predict(texts).shape == (n,)
    assert found.validation_score_ is None


def test_one_label():
    found = blend(epochs=1).fit(["a red car", "a blue car", "sky"], ["x"] * 3)
    assert found.predict(["car", ""]).tolist() == ["x", "x"]
    assert found.predict_proba(["car"]).tolist() == [[1.0]]


def test_two_exclusive_labels_have_one_score():
    found = blend(epochs=1).fit(["a red car", "a blue sky"] * 20, ["x", "y"] * 20)
    scores = found.decision_function(["red car", "blue sky"])
    assert scores.shape == (2,)
    assert scores[0] < 0 < scores[1]


# --- the choice of the method ---


class Choosing(TextClassifier):
    """Compares models of few labels already."""

    def _options(self) -> TextOptions:
        return replace(super()._options(), **self.limits)


def choosing(**limits):
    found = Choosing(random_state=0, n_jobs=1)
    found.limits = {"max_few_labels": 10, **limits}
    return found


def test_few_labels_train_a_linear_model():
    method = TextClassifier(random_state=0).fit(*planted(300)).choices_["method"]
    assert (method.value, method.n) == ("linear", 0)
    assert "few" in method.why


def test_many_labels_and_texts_train_a_blend():
    found = choosing(max_products=1e4).fit(*planted(300))
    assert found.choices_["method"].value == "blend"
    assert "minutes" in found.choices_["method"].why


@pytest.mark.parametrize("better", ["blend", "linear"])
def test_between_them_held_out_texts_decide(better, tmp_path, monkeypatch):
    monkeypatch.setattr(MeasuredBlend, "precision", lambda self, holdout: np.full(130, 2.0 * (better == "blend")))
    found = choosing().fit(*planted(1300))
    method = found.choices_["method"]
    assert (method.value, method.options, method.n) == (better, ("linear", "blend"), 130)
    assert found.score(TEST, TRUTH) > 0.9
    assert found.validation_score_ > 0.9
    found.save(tmp_path / "model")
    assert TextClassifier.load(tmp_path / "model").choices_["method"] == method


def test_the_linear_model_that_wins_learns_all_texts():
    texts, labels = planted(1500)
    won = choosing(better=Rule("P", min_gain=2)).fit(texts, labels)
    alone = TextClassifier(method="linear", random_state=0, n_jobs=1).fit(texts, labels)
    assert np.array_equal(won.fitted_.model.matrix, alone.fitted_.model.matrix)


@pytest.mark.parametrize("parameters", [{"class_weight": "balanced"}, {"cost": 2.0}, {"time_budget": 20}])
def test_settings_of_linear_models_leave_the_blend_out(parameters):
    found = choosing().set_params(**parameters)
    assert found.fit(*planted(200)).choices_["method"].value == "linear"


def test_few_texts_are_not_compared():
    method = choosing().fit(*planted(100)).choices_["method"]
    assert method.value == "linear"
    assert "too few" in method.why


def test_partial_fit_from_the_start_trains_a_model_that_can_grow():
    texts, labels = planted(300)
    found = choosing().partial_fit(texts, labels)
    assert found.choices_["method"].value == "linear"
    assert choosing(max_products=1e4).partial_fit(texts, labels).choices_["method"].value == "network"


# --- files ---


def write_products(path, n, seed=0):
    texts, labels = tagged(n, seed)
    rows = [{"title": text, "body": None, "tags": own} for text, own in zip(texts, labels, strict=True)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return texts, labels


def test_trains_on_json_lines_with_lists_of_labels(tmp_path):
    texts, labels = write_products(tmp_path / "products.jsonl", 400)
    found = blend(epochs=2).fit(tmp_path / "products.jsonl", text=["title", "body"], target="tags")
    same = blend(epochs=2).fit(texts, labels)
    assert found.columns_["text"] == ["title", "body"]
    assert np.array_equal(found.predict_proba(TEST), same.predict_proba(TEST))


def test_command_line(tmp_path):
    data, test, model = (str(tmp_path / name) for name in ("products.jsonl", "test.jsonl", "model"))
    write_products(tmp_path / "products.jsonl", 1400)
    write_products(tmp_path / "test.jsonl", 50, seed=3)
    names = ["--text", "title", "--target", "tags"]
    assert run("train", data, "--model", model, "--method", "blend", "--epochs", "4", *names)[0] == 0
    found = run("info", model)[1]
    assert "method=blend" in found
    assert "decided     weights" in found
    scores = json.loads(run("evaluate", model, test, "--json")[1])
    assert scores["P@1"] > 0.9
    assert scores["micro_f1"] > 0.7
    assert len(run("predict", model, test, "--k", "2")[1].splitlines()) == 50


def test_command_line_refuses_a_tree_of_texts(tmp_path):
    write_products(tmp_path / "products.jsonl", 20)
    status, _, problem = run("train", tmp_path / "products.jsonl", "--model", "m", "--method", "tree")
    assert status == 2
    assert "a tree is for sparse points" in problem
