"""TextClassifier with word vectors: what it learns, decides, answers, explains, saves and refuses."""

import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import sparsenet
from sparsenet import ModelError, TextClassifier, WordVectors, storage
from sparsenet.engines.text.text_options import TextOptions
from tests.support.texts import planted, write
from tests.support.vector_tables import UNSEEN, vectors, write_lines

FEW = planted(60)


def fitted(texts=FEW[0], labels=FEW[1], **parameters):
    return TextClassifier(**{"vectors": vectors(), "random_state": 0, "n_jobs": 1} | parameters).fit(texts, labels)


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture(scope="module")
def pair():
    """Return a model of two labels, which has a single column."""
    return fitted(*planted(60, topics=2))


# --- answers ---


def test_knows_words_that_no_training_text_has(model):
    texts = [f"the {word} was in it" for word in UNSEEN]
    assert model.predict(texts).tolist() == list(UNSEEN.values())
    assert fitted(vectors=None).score(texts, list(UNSEEN.values())) < 1


def test_two_labels_share_a_column(pair):
    assert pair.predict(["umpire", "noodles"]).tolist() == ["sport", "food"]
    assert [pair.predict_one(text) for text in ("umpire", "noodles")] == ["sport", "food"]
    assert pair.decision_function(["umpire", "noodles"]).tolist() == pytest.approx(
        pair.decision_function(["umpire"]).tolist() + pair.decision_function(["noodles"]).tolist()
    )


@pytest.mark.parametrize("which", ["model", "pair"])
def test_one_text_is_answered_like_many(which, request):
    own = request.getfixturevalue(which)
    texts = [*planted(40, seed=3)[0], *UNSEEN, "", "xyzzy", "\ud800", "goal \ud800 umpire"]
    assert [own.predict_one(text) for text in texts] == own.predict(texts).tolist()
    alone = np.concatenate([own.predict_proba([text]) for text in texts])
    assert (alone == own.predict_proba(texts)).all()


def test_texts_without_known_words_get_the_frequencies_of_labels():
    texts, labels = planted(60)
    keep = [i for i, label in enumerate(labels) if label != "food" or i < 10]
    own = fitted([texts[i] for i in keep], [labels[i] for i in keep])
    found = own.predict_proba(["", "xyzzy"])
    shares = own.label_counts_ / own.n_texts_
    np.testing.assert_allclose(found, np.tile(shares, (2, 1)), atol=0.03)
    assert own.predict_one("xyzzy") == own.classes_[shares.argmax()]


def test_results_do_not_depend_on_threads(model):
    texts = planted(40, seed=3)[0]
    assert (fitted(n_jobs=2).predict_proba(texts) == model.predict_proba(texts)).all()


def test_several_labels_a_text():
    labels = [[label, "all"] if i % 2 else [label] for i, label in enumerate(FEW[1])]
    own = fitted(labels=labels)
    found = dict(zip(own.classes_.tolist(), own.predict_proba(["umpire"])[0].tolist(), strict=True))
    assert found["sport"] > 2 * max(found["food"], found["money"])
    assert own.choices_["vectors"].n == 60


def test_a_sparse_model_answers_like_a_dense_one(monkeypatch, model):
    """A model of very many weights drops the small ones."""
    whole = TextOptions.of

    def of(parameters):
        found = whole(parameters)
        return replace(found, linear=replace(found.linear, max_dense_weights=1, smallest=1e-6))

    monkeypatch.setattr(TextOptions, "of", of)
    own = fitted()
    assert own.fitted_.model.indptr is not None
    texts = [*planted(40, seed=3)[0], *UNSEEN]
    np.testing.assert_allclose(own.predict_proba(texts), model.predict_proba(texts), atol=0.02)


def test_pickles_of_older_versions_have_no_vectors():
    own = fitted(vectors=None)
    state = {name: value for name, value in own.__getstate__().items() if name != "vectors"}
    again = TextClassifier.__new__(TextClassifier)
    again.__setstate__(state)
    assert clone(again).vectors is None
    assert again.predict_one("goal") == own.predict_one("goal")


# --- decisions ---


def test_the_weight_is_chosen_on_held_out_texts(model):
    found = model.choices_["vectors"]
    assert found.options == ("1", "0.5", "0.25", "2")
    assert found.value == model.fitted_.view.weight
    assert found.n == 60
    assert "held-out texts" in found.why
    assert model.validation_score_ is not None


def test_without_held_out_texts_the_weight_is_the_usual_one():
    found = fitted(validation_fraction=0).choices_["vectors"]
    assert (found.value, found.options) == (1.0, ())
    assert found.why == "1: no texts were held out to compare weights on"


def test_a_time_budget_searches_with_the_chosen_weight():
    own = fitted(time_budget=30)
    assert {"vectors", "cost", "word_ngrams"} <= own.choices_.keys()
    assert own.predict_one("umpire") == "sport"


# --- more ways to learn ---


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".txt"])
def test_files_and_data_frames_give_the_same_model_as_lists(tmp_path, suffix, model):
    write(path := tmp_path / f"train{suffix}", *FEW)
    own = fitted(path, None) if suffix == ".txt" else fitted_on(path)
    texts = list(UNSEEN)
    assert (own.predict_proba(texts) == model.predict_proba(texts)).all()


def fitted_on(X):
    own = TextClassifier(vectors=vectors(), random_state=0, n_jobs=1)
    return own.fit(X, text="review", target="topic")


def test_data_frames_are_answered(model):
    own = fitted_on(pd.DataFrame({"review": FEW[0], "topic": FEW[1]}))
    assert own.predict(pd.DataFrame({"review": ["umpire"]})).tolist() == ["sport"]


def test_a_path_is_read_when_fit_is_called(tmp_path, model):
    write_lines(path := tmp_path / "vectors.txt")
    own = fitted(vectors=path)
    assert own.vectors == path
    assert own.fitted_.view.vectors.source == str(path)
    assert (own.predict_proba(list(UNSEEN)) == model.predict_proba(list(UNSEEN))).all()


def test_partial_fit_learns_new_labels_and_keeps_the_vectors():
    own = TextClassifier(vectors=vectors(), random_state=0, n_jobs=1).partial_fit(*planted(60, topics=2))
    before = own.fitted_.view
    texts, labels = planted(60, seed=5)
    own.partial_fit(texts, labels)
    assert own.fitted_.view is before
    assert own.choices_["vectors"].value == before.weight
    assert own.predict(["mortgage", "umpire", "noodles"]).tolist() == ["money", "sport", "food"]


def test_scikit_learn_clones_and_splits():
    own = TextClassifier(vectors=vectors(), random_state=0, n_jobs=1)
    assert clone(own).vectors is own.vectors
    assert cross_val_score(own, *FEW, cv=2).mean() > 0.8


# --- explanations ---


@pytest.mark.parametrize("which", ["model", "pair"])
@pytest.mark.parametrize("label", [None, "food", "sport"])
def test_the_parts_sum_to_the_score(which, label, request):
    own = request.getfixturevalue(which)
    text = "the goal, the umpire and the noodles"
    found = own.explain(text, label)
    assert sum(part.score for part in found.parts) + found.bias == pytest.approx(found.score, abs=1e-4)
    assert found.characters().sum() + found.bias == pytest.approx(found.score, abs=1e-4)
    named = {part.name: part for part in found.parts}
    assert {"≈goal", "≈umpire", "≈noodles", "≈the"} <= named.keys()
    assert [text[slice(*span)] for span in named["≈the"].spans] == ["the"] * 3
    assert "≈umpire" in str(found)
    assert "≈umpire" in found.to_html()


def test_words_of_a_label_speak_for_it(model):
    (first, *_), (against, *_) = (model.explain("umpire", label).parts for label in ("sport", "food"))
    assert first.name == against.name == "≈umpire"
    assert first.score > 0 > against.score


def test_texts_without_words_have_no_parts(model):
    assert model.explain("").parts == model.explain("xyzzy").parts == []
    found = model.explain("xyzzy")
    assert found.bias == pytest.approx(found.score, abs=1e-5)


# --- saved models ---


def test_a_saved_model_needs_no_other_file(tmp_path):
    write_lines(path := tmp_path / "vectors.txt")
    own = fitted(vectors=path)
    own.save(tmp_path / "model")
    path.unlink()
    again = sparsenet.load(tmp_path / "model")
    texts = [*planted(40, seed=3)[0], *UNSEEN, ""]
    assert (again.predict_proba(texts) == own.predict_proba(texts)).all()
    assert isinstance(again.vectors, WordVectors)
    assert again.choices_["vectors"] == own.choices_["vectors"]
    assert again.explain("umpire").parts == own.explain("umpire").parts
    assert again.partial_fit(["a mortgage"], ["money"]).predict_one("umpire") == "sport"
    again.save(tmp_path / "again")
    assert sparsenet.load(tmp_path / "again").predict(list(UNSEEN)).tolist() == again.predict(list(UNSEEN)).tolist()


def test_a_loaded_model_can_be_fitted_again(tmp_path, model):
    model.save(tmp_path / "model")
    again = clone(TextClassifier.load(tmp_path / "model")).fit(*FEW)
    assert (again.predict_proba(list(UNSEEN)) == model.predict_proba(list(UNSEEN))).all()


def without(name):
    def change(arrays, metadata):
        del arrays[f"vectors.{name}"]

    return change


def with_array(name, value):
    def change(arrays, metadata):
        arrays[f"vectors.{name}"] = value(arrays[f"vectors.{name}"])

    return change


def with_metadata(value):
    def change(arrays, metadata):
        metadata["vectors"] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        without("table"),
        without("factors"),
        without("words.utf8"),
        with_array("table", lambda table: table[:-1]),
        with_array("table", lambda table: table[:, :-1]),
        with_array("table", lambda table: table.astype(np.int16)),
        with_array("factors", lambda factors: factors * np.float32(np.nan)),
        with_array("factors", lambda factors: factors[:-1]),
        with_array("words.offsets", lambda offsets: offsets[:-1]),
        with_metadata(None),
        with_metadata({}),
        with_metadata({"source": 3, "weight": 1.0}),
        with_metadata({"source": "words", "weight": -1.0}),
    ],
)
def test_a_damaged_or_missing_table_is_a_model_error(tmp_path, model, change):
    arrays, metadata = model._pack(model.fitted_)
    arrays, metadata = dict(arrays), dict(metadata)
    change(arrays, metadata)
    storage.save(tmp_path / "model", arrays, metadata)
    with pytest.raises(ModelError):
        sparsenet.load(tmp_path / "model")


def test_a_flipped_byte_of_the_table_is_a_model_error(tmp_path, model):
    model.save(tmp_path / "model")
    (file,) = (tmp_path / "model").glob("*.safetensors")
    raw = bytearray(file.read_bytes())
    raw[-1] ^= 1
    file.write_bytes(raw)
    with pytest.raises(ModelError):
        sparsenet.load(tmp_path / "model")


def test_compression_says_that_vectors_stay(model):
    with pytest.raises(ValueError, match=r"max_bytes=3000 is impossible: .* with its word vectors, which cannot be"):
        model.compress("3kB")
    assert model.compress("1GB").bytes_after < 10**9


# --- refusals ---


@pytest.mark.parametrize("wrong", [3, 0.5, ["a"], {"a": [1.0]}, WordVectors, np.ones((2, 2))])
def test_refuses_wrong_types(wrong):
    with pytest.raises(ValueError, match=r"vectors must be a path, 'wordllama', WordVectors or None, got "):
        TextClassifier(vectors=wrong).fit(*FEW)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        TextClassifier(vectors=os.fspath(tmp_path / "nowhere")).fit(*FEW)


def test_a_network_takes_no_vectors():
    with pytest.raises(ValueError, match=r"vectors must be None: .* a network is trained \(method is 'network'\)"):
        fitted(method="network")


def test_a_blend_takes_no_vectors():
    with pytest.raises(ValueError, match=r"vectors must be None: .* a blend is trained \(method is 'blend'\)"):
        fitted(method="blend")


def test_with_vectors_many_labels_are_not_compared_with_a_blend():
    options = TextOptions.of(TextClassifier().get_params())
    assert options.by_size(1000, 10_000, 5000) is None
    assert options.with_vectors(vectors()).by_size(1000, 10_000, 5000).value == "linear"
