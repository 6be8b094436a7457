"""Sparse and dense parts of X together: ``fit({"words": csr, "vector": array}, y)``."""

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from sparsenet import BlendClassifier, ExtremeClassifier, ModelError, TreeClassifier, load
from sparsenet.storage import load as load_arrays
from sparsenet.storage import save as save_arrays
from tests.support.planted import X, Y, fast

N = len(Y)
RNG = np.random.default_rng(0)
VECTORS = (Y @ RNG.normal(size=(Y.shape[1], 12)) + RNG.normal(size=(N, 12))).astype(np.float32)
BOTH = {"words": sparse.csr_array(X), "vector": VECTORS}
MODELS = {
    "network": lambda: fast(epochs=3),
    "tree": lambda: TreeClassifier(random_state=0),
    "blend": lambda: BlendClassifier(network=ExtremeClassifier(hidden=16, epochs=3), random_state=0),
    "bare blend": lambda: BlendClassifier(network="drop", random_state=0),
}
kinds = pytest.mark.parametrize("kind", MODELS)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("v.npy", r"X\['vector'\] must be a matrix, got the path 'v.npy': pass np.load\('v.npy'\)"),
        (Path("v.npz"), r"got the path 'v.npz': pass scipy.sparse.load_npz\('v.npz'\)"),
        (VECTORS[:, 0], r"X\['vector'\] must be a matrix with a row for each point, got a ndarray of shape \(.*,\)"),
        (None, r"X\['vector'\] must be a matrix with a row for each point, got a NoneType"),
    ],
)
def test_names_a_part_that_is_no_matrix(part, message):
    with pytest.raises(ValueError, match=message):
        BlendClassifier(network="drop").fit(BOTH | {"vector": part}, Y)
    model = TreeClassifier(random_state=0).fit(BOTH, Y)
    with pytest.raises(ValueError, match=message):
        model.predict(BOTH | {"vector": part})
    with pytest.raises(ValueError, match=r"X\['a'\] must be a matrix, got the path 'a.npy'"):
        TreeClassifier().fit({"a": "a.npy", "b": "b.npy"}, Y)


def rows(parts, own):
    return {name: part[own] for name, part in parts.items()}


@kinds
def test_both_parts_are_better_than_one(kind):
    train, test, few = np.arange(300), np.arange(300, N), X[:, ::4]
    scores = {}
    for name, parts in {"both": BOTH | {"words": few}, "words": {"words": few}, "vector": {"vector": VECTORS}}.items():
        scores[name] = MODELS[kind]().fit(rows(parts, train), Y[train]).score(rows(parts, test), Y[test])
    assert scores["both"] > max(scores["words"], scores["vector"])


@kinds
def test_each_part_is_scaled_by_its_own_kind(kind):
    model = MODELS[kind]().fit(BOTH, Y)
    assert model.parts_ == {"words": X.shape[1], "vector": 12}
    assert model.n_features_in_ == X.shape[1] + 12
    assert model.normalize_ == "parts"
    assert model.choices_["normalize"].why in ("words: rows, vector: columns", "words: rows, vector: together")
    points = model.fitted_.scaling.apply(sparse.hstack([X, VECTORS]))
    squares = np.add.reduceat(np.square(points.data), points.indptr[:-1])
    assert squares.mean() == pytest.approx(1, abs=0.05)


@kinds
def test_a_saved_model_knows_its_parts(kind, tmp_path):
    model = MODELS[kind]().fit(BOTH, Y)
    model.save(tmp_path / "model")
    other = load(tmp_path / "model")
    assert other.parts_ == model.parts_
    np.testing.assert_array_equal(other.predict_proba(BOTH), model.predict_proba(BOTH))
    reordered = dict(reversed(list(BOTH.items())))
    np.testing.assert_array_equal(other.predict_proba(reordered), model.predict_proba(BOTH))


@kinds
def test_answers_single_rows_and_none(kind):
    model = MODELS[kind]().fit(BOTH, Y)
    together = model.topk_numbers(rows(BOTH, np.arange(5)), 3)[0]
    np.testing.assert_array_equal(model.topk_numbers(rows(BOTH, np.array([4])), 3)[0][0], together[4])
    assert model.predict(rows(BOTH, np.arange(0))).shape == (0, Y.shape[1])
    assert model.topk_numbers(rows(BOTH, np.arange(5)), 2, only=[1, 2])[0].shape == (5, 2)


def test_one_matrix_as_a_mapping_is_scaled_as_the_matrix():
    ours = TreeClassifier(random_state=0).fit({"words": X}, Y)
    plain = TreeClassifier(random_state=0).fit(X, Y)
    np.testing.assert_allclose(ours.predict_proba({"words": X}), plain.predict_proba(X), atol=1e-6)


@kinds
def test_explains_columns_by_their_part(kind):
    model = MODELS[kind]().fit(BOTH, Y)
    found = model.explain(rows(BOTH, np.array([3])))
    for part in found.parts:
        name, column = part.name.split()
        assert part.value == pytest.approx(BOTH[name][3, int(column)])
    assert {part.name.split()[0] for part in found.parts} == {"words", "vector"}


def test_a_predictor_takes_parts_and_numbers_features_through():
    model = fast(epochs=3).fit(BOTH, Y)
    predictor = model.predictor(k=2, candidates=Y.shape[1])
    classes, p = predictor(rows(BOTH, np.arange(3)))
    whole = sparse.csr_array(sparse.hstack([X, VECTORS]))[[1]]
    one, own = predictor.one(whole.indices, whole.data)
    assert one.tolist() == classes[1].tolist()
    np.testing.assert_allclose(own, p[1], rtol=1e-4)


def test_validates_and_trains_further_with_parts():
    model = fast(epochs=1).fit(BOTH, Y, validation=(rows(BOTH, np.arange(50)), Y[:50]))
    assert "P@1" in model.validation_
    assert model.partial_fit(rows(BOTH, np.arange(50)), Y[:50]).n_points_ == N + 50
    first = ExtremeClassifier(hidden=4, random_state=0).partial_fit(BOTH, Y)
    assert first.parts_ == model.parts_


def test_a_later_fit_forgets_the_parts():
    model = TreeClassifier(random_state=0).fit(BOTH, Y).fit(X, Y)
    assert model.parts_ is None
    assert model.predict(X).shape == Y.shape
    with pytest.raises(ValueError, match="X is a mapping of 2 matrices, but the model learnt from one matrix"):
        model.predict(BOTH)


@pytest.mark.parametrize("form", [lambda A: A.tolist(), lambda A: A.astype(np.float16), sparse.csc_array])
def test_parts_may_be_of_any_form(form):
    model = TreeClassifier(random_state=0).fit({"words": X.tocoo(), "vector": form(VECTORS)}, Y)
    assert model.score({"words": X, "vector": form(VECTORS)}, Y) > 0.5


@kinds
@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"words": X},
            r"X has no part 'vector': the model learnt from 'words' \(60 columns\), 'vector' \(12",
        ),
        ({**BOTH, "more": VECTORS}, "X has a part 'more', but the model learnt from .*: leave it out"),
        ({**BOTH, "vector": VECTORS[:, :5]}, r"X\['vector'\] has 5 columns, the model learnt from 12"),
        ({**BOTH, "vector": VECTORS[:9]}, r"X\['vector'\] has 9 rows, X\['words'\] has 400: all parts must have a row"),
        ({**BOTH, "vector": np.full_like(VECTORS, np.nan)}, r"X\['vector'\]: X holds NaN in row 0, column 0"),
        (
            {**BOTH, "vector": VECTORS[:, 0]},
            r"X\['vector'\] must be a matrix with a row for each point, got a ndarray of shape",
        ),
        (X, "X must be a mapping of names to matrices, as in training: .*; got csr"),
        ({}, "X must be a mapping of names to matrices, as in training: .*; got dict"),
    ],
)
def test_refuses_other_parts(kind, parts, message):
    model = MODELS[kind]().fit(BOTH, Y)
    for query in (model.predict, lambda X: model.score(X, Y)):
        with pytest.raises(ValueError, match=message):
            query(parts)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({1: X}, "X has a part with the name 1: names of parts must be strings"),
        ({"words": X, "vector": VECTORS[:9]}, r"X\['vector'\] has 9 rows, X\['words'\] has 400"),
        ({"words": X, "vector": np.full_like(VECTORS, np.inf)}, r"X\['vector'\]: X holds infinity"),
        ({"words": X[:9], "vector": VECTORS[:9]}, "X has 9 rows, y has 400"),
        ({"words": [["a", "b"]] * N}, r"X\['words'\]: X holds lists of strings"),
        ({"price": [1.0] * N}, "X is a mapping of 1 columns: pass a matrix of numbers, or use TableClassifier"),
        ({}, "X is a mapping of 0 columns"),
    ],
)
def test_refuses_to_learn_from_unfit_parts(parts, message):
    model = TreeClassifier()
    with pytest.raises(ValueError, match=message):
        model.fit(parts, Y)
    assert not hasattr(model, "parts_")


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, about: about["parts"][0].update(width=3),
        lambda arrays, about: about["parts"][0].update(name=3),
        lambda arrays, about: about["parts"][0].update(name="vector"),
        lambda arrays, about: about["parts"][0].update(scaling="parts"),
        lambda arrays, about: about.update(parts=[]),
        lambda arrays, about: about.pop("parts"),
        lambda arrays, about: arrays.pop("scaling1.centre"),
        lambda arrays, about: arrays.update({"scaling1.factor": np.full(12, np.nan)}),
    ],
)
def test_refuses_forged_parts(change, tmp_path):
    TreeClassifier(random_state=0).fit(BOTH, Y).save(tmp_path / "model")
    arrays, metadata = load_arrays(tmp_path / "model")
    change(arrays, metadata)
    save_arrays(tmp_path / "model", arrays, metadata)
    with pytest.raises(ModelError):
        load(tmp_path / "model")
