"""TextClassifier with many labels, where a network replaces the linear models."""

from __future__ import annotations

import json
import pickle
import time
from dataclasses import replace

import numpy as np
import pytest

from sparsenet import ModelError, TextClassifier, storage
from sparsenet.engines.text.text_network import NetworkModel
from sparsenet.engines.text.text_options import TextOptions
from sparsenet.features.text.corpus import Corpus
from sparsenet.features.text.vocabulary import Vocabulary
from tests.support.many_labels import planted
from tests.support.text_command_line import run
from tests.support.text_command_line import unchecked as sparsenet

pytestmark = pytest.mark.usefixtures("narrow_network")


@pytest.fixture(scope="module")
def model(narrow_network: None) -> TextClassifier:
    return TextClassifier(method="network", random_state=0, n_jobs=1).fit(*planted(2500))


TEST = planted(200, seed=1)


def test_learns_planted_labels(model):
    assert isinstance(model._fitted.model, NetworkModel)
    assert model.score(*TEST) > 0.9
    assert 0.85 < model.validation_score_ <= 1
    assert len(model.classes_) == 60
    assert model.n_texts_ == 2500


def test_runs_all_epochs_and_keeps_the_last():
    """The learning rate falls until the end, so the last epoch beats the best one on a few held-out texts."""
    texts, labels = planted(300, n_labels=10)
    fitted = TextClassifier(method="network", random_state=0, n_jobs=1).fit(texts, labels)._fitted.model.fitted
    assert len(fitted.history) == fitted.choices["epochs"][0] > 100
    assert "P@1" not in fitted.history[-1]


class Hasty(TextClassifier):
    """Trains networks of little data already."""

    def _options(self) -> TextOptions:
        return replace(super()._options(), max_products=1e4)


def test_many_labels_choose_the_network_for_partial_fit():
    texts, labels = planted(600)
    assert not isinstance(TextClassifier(random_state=0).partial_fit(texts, labels)._fitted.model, NetworkModel)
    assert isinstance(Hasty(random_state=0).partial_fit(texts, labels)._fitted.model, NetworkModel)
    linear = Hasty(random_state=0, method="linear").fit(texts, labels)
    assert not isinstance(linear._fitted.model, NetworkModel)


def test_answer_methods_agree(model):
    texts = TEST[0] + ["", "unheard-of", "\ud800 surrogate w3a w3b"]
    labels = model.predict(texts)
    probabilities = model.predict_proba(texts)
    assert probabilities.shape == (203, 60)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert labels.tolist() == model.classes_[probabilities.argmax(axis=1)].tolist()
    assert [model.predict_one(text) for text in texts] == labels.tolist()
    best = model.predict_topk(texts, k=3)
    np.testing.assert_allclose(best.data.reshape(-1, 3), -np.sort(-probabilities, axis=1)[:, :3], rtol=1e-5)
    assert model.topk(texts, k=3)[0][:, 0].tolist() == labels.tolist()
    assert model.classes_[model.decision_function(texts).argmax(axis=1)].tolist() == labels.tolist()


def test_answers_empty_input(model):
    assert model.predict([]).shape == (0,)
    assert model.predict_proba([]).shape == (0, 60)
    assert model.predict_topk([]).shape == (0, 60)
    assert model.decision_function([]).shape == (0, 60)


def test_probabilities_are_calibrated(model):
    sure = model.predict_proba(TEST[0]).max(axis=1).mean()
    assert abs(sure - model.score(*TEST)) < 0.1


def test_labels_beyond_the_candidates_have_probability_zero():
    texts, labels = planted(1500, n_labels=150)
    model = TextClassifier(method="network", random_state=0, n_jobs=1).fit(texts, labels)
    probabilities = model.predict_proba(texts[:50])
    assert (np.count_nonzero(probabilities, axis=1) <= 100).all()
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    everything = model.predict_topk(texts[:50], k=150)
    np.testing.assert_allclose(everything.toarray(), probabilities, rtol=1e-5)


def test_threads_change_nothing(model):
    more = TextClassifier(method="network", random_state=0, n_jobs=2).fit(*planted(2500))
    np.testing.assert_array_equal(more.decision_function(TEST[0]), model.decision_function(TEST[0]))


def test_several_labels_a_text():
    texts, labels = planted(2000, n_labels=30)
    others, more = planted(2000, n_labels=30, seed=6)
    both = [f"{a} {b}" for a, b in zip(texts, others, strict=True)]
    y = [sorted({a, b}) for a, b in zip(labels, more, strict=True)]
    model = TextClassifier(method="network", random_state=0).fit(both, y)
    assert model.score(both, y) > 0.95
    answers = model.predict(both)
    assert np.mean([sorted(a) == b for a, b in zip(answers, y, strict=True)]) > 0.8
    for text, own in zip(both[:100], answers[:100], strict=True):
        assert own == [] or own[0] == model.predict_one(text)
    assert model.predict_proba(both[:10]).shape == (10, 30)
    in_parts = replace(model._fitted.answers, competing=4, max_cells=70)
    for threshold in (0.0, 0.001, 0.3):
        expected = [np.flatnonzero(row >= threshold).tolist() for row in model.predict_proba(both[:50])]
        found, ends = in_parts.likely(both[:50], threshold, 1)
        assert [sorted(own.tolist()) for own in np.split(found, ends[1:-1])] == expected


def test_save_load_and_pickle(model, tmp_path):
    model.save(tmp_path / "model")
    expected = model.predict_proba(TEST[0])
    for copy in (TextClassifier.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(copy.predict_proba(TEST[0]), expected)
        assert copy.get_params() == model.get_params()
        assert copy.validation_score_ == model.validation_score_
    arrays, metadata = storage.load(tmp_path / "model")
    for change, message in [
        ({"feature_weights": arrays["feature_weights"][:-1]}, "feature_weights must be"),
        ({"network.output.weight": arrays["network.output.weight"][:-1]}, "output.weight"),
    ]:
        storage.save(tmp_path / "wrong", {**arrays, **change}, metadata)
        with pytest.raises(ModelError, match=message):
            TextClassifier.load(tmp_path / "wrong")


def test_explanations_sum_to_the_score(model):
    text, label = TEST[0][0], TEST[1][0]
    found = model.explain(text)
    assert found.label == label
    assert found.bias + sum(part.score for part in found.parts) == pytest.approx(found.score, abs=1e-4)
    assert found.score == pytest.approx(model.decision_function([text]).max(), abs=1e-5)
    assert any(part.name.startswith(f"w{int(label[5:])}") for part in found.parts[:4])


def test_partial_fit_learns_new_labels_and_words(model):
    copy = pickle.loads(pickle.dumps(model))
    for seed in range(3):
        copy.partial_fit(*planted(600, n_labels=20, first=50, seed=10 + seed))
    assert len(copy.classes_) == 70
    assert copy.n_texts_ == 4300
    assert copy.label_counts_.sum() == 4300
    assert copy.score(*planted(100, n_labels=10, first=60, seed=20)) > 0.8
    assert copy.score(*TEST) > 0.8, "what was known is still known"
    assert len(model.classes_) == 60


def test_compress_keeps_the_deep_path_and_the_largest_wide_weights(model, tmp_path):
    copy = pickle.loads(pickle.dumps(model))
    copy.save(tmp_path / "whole")
    whole = sum(file.stat().st_size for file in (tmp_path / "whole").iterdir())
    report = copy.compress(whole // 3, *TEST)
    copy.save(tmp_path / "small")
    assert sum(file.stat().st_size for file in (tmp_path / "small").iterdir()) == report.bytes_after <= whole // 3
    assert report.weights_after < report.weights_before
    assert report.accuracy_after > 0.85
    np.testing.assert_allclose(
        TextClassifier.load(tmp_path / "small").decision_function(TEST[0]), copy.decision_function(TEST[0]), atol=1e-4
    )
    with pytest.raises(ValueError, match="the rows of the hidden layer"):
        copy.compress(1000)


def test_keeps_exactly_the_most_frequent_features():
    texts, labels = planted(60)
    options = TextOptions.of(TextClassifier().get_params())
    known = Corpus.of_texts(texts, labels, options.features, 1)
    every = Vocabulary.learn(known.rules, known.rows, known.labels)
    counts = dict(zip(*np.unique(known.rows.slots, return_counts=True), strict=True))
    assert min(counts.values()) < max(counts.values())
    for most in (1, 10, len(every) // 2, len(every) - 1, len(every), len(every) + 1):
        kept = Vocabulary.learn(known.rules, known.rows, known.labels, n_max=most)
        expected = sorted(sorted(counts, key=lambda slot: (-counts[slot], slot))[:most])
        assert kept.slots.tolist() == expected
        assert len(kept) == min(most, len(every))


def test_rejects_class_weights():
    with pytest.raises(ValueError, match="class_weight must be None"):
        TextClassifier(method="network", class_weight="balanced").fit(*planted(300))


@pytest.mark.parametrize("method", ["network", "auto"])
def test_rejects_a_cost(method):
    """A cost would change nothing, also if the network was chosen automatically."""
    texts, labels = planted(300)
    why = "method is 'network'" if method == "network" else "there are too many labels and texts for others"
    message = rf"cost=0\.5 is for linear models, and a network is trained \({why}\): leave it out"
    with pytest.raises(ValueError, match=message):
        Hasty(method=method, cost=0.5).partial_fit(texts, labels)
    fitted = Hasty(method=method, cost=1, epochs=1, random_state=0).partial_fit(texts, labels)
    with pytest.raises(ValueError, match=message):
        fitted.set_params(cost=0.5).partial_fit(texts, labels)


@pytest.mark.parametrize("epochs", [1, 3, 10])
def test_runs_the_given_number_of_epochs(tmp_path, epochs):
    texts, labels = planted(300)
    given = TextClassifier(method="network", epochs=epochs, random_state=0, n_jobs=1).fit(texts, labels)
    assert len(given._fitted.model.fitted.history) == epochs
    given.save(tmp_path / "model")
    again = TextClassifier.load(tmp_path / "model").partial_fit(texts[:20], labels[:20])
    assert again.score(texts, labels) > 0.9 * given.score(texts, labels)


def test_the_command_line_refuses_a_cost_and_takes_epochs(tmp_path):
    texts, labels = planted(300)
    (tmp_path / "t.txt").write_text("".join(f"__label__{b} {a}\n" for a, b in zip(texts, labels, strict=True)))
    command = ["train", tmp_path / "t.txt", "--model", tmp_path / "m", "--method", "network"]
    code, _, said = run(*command, "--cost", "0.5")
    assert code == 1
    assert "error: --cost 0.5 is for linear models, and a network is trained" in said
    assert run(*command, "--epochs", "2")[0] == 0
    assert len(TextClassifier.load(tmp_path / "m")._fitted.model.fitted.history) == 2


def test_rejects_a_network_that_does_not_fit():
    with pytest.raises(MemoryError, match=r"the limit is 1\.0 MB: lower bits"):
        TextClassifier(method="network", memory_limit="1MB").fit(*planted(300))


def test_a_time_budget_ends_the_training():
    short = TextClassifier(method="network", time_budget=0, validation_fraction=0, random_state=0).fit(*planted(600))
    assert len(short._fitted.model.fitted.history) <= 1
    assert short.validation_score_ is None


def test_a_time_budget_counts_what_came_before_the_training():
    def slowly(labels):
        time.sleep(0.5)
        yield from labels

    texts, labels = planted(300)
    model = TextClassifier(method="network", time_budget=20, random_state=0).fit(texts, slowly(labels))
    assert 10 < model._fitted.model.parameters["time_budget"] < 19.5


def test_the_command_line_evaluates_and_predicts(tmp_path, monkeypatch):
    texts, labels = planted(1500)
    (tmp_path / "train.txt").write_text("".join(f"__label__{b} {a}\n" for a, b in zip(texts, labels, strict=True)))
    TextClassifier(method="network", random_state=0).fit(tmp_path / "train.txt").save(tmp_path / "model")
    done = sparsenet("evaluate", tmp_path / "model", tmp_path / "train.txt", "--json")
    assert json.loads(done.stdout)["P@1"] > 0.9, done.stderr
    done = sparsenet("predict", tmp_path / "model", "--k", "2", stdin=texts[0].encode())
    assert done.stdout.decode().startswith(labels[0] + ":")


@pytest.mark.parametrize("texts", [["", ""], [" ", "\n"]])
def test_warns_about_texts_without_features(texts):
    with pytest.raises(ValueError, match="the texts hold nothing that a network could learn from, as if all"):
        TextClassifier(method="network").fit(texts, ["a", "b"])
    assert TextClassifier(method="linear").fit(texts, ["a", "b"]).predict(texts).shape == (2,)
