"""Equal numbers are treated alike in any form of X."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from sparsenet import BlendClassifier, ExtremeClassifier, TreeClassifier
from sparsenet.engines.network import building
from tests.support.planted import X, Y, fast

DENSE = X.toarray()


@pytest.mark.parametrize(
    "form",
    [np.asarray, np.ndarray.tolist, pd.DataFrame, np.asfortranarray],
    ids=["array", "lists", "frame", "by column"],
)
def test_dense_counts_are_treated_like_sparse_counts(form):
    expected = fast(epochs=2).fit(X, Y).predict_proba(X)
    given = form(DENSE)
    model = fast(epochs=2).fit(given, Y)
    np.testing.assert_array_equal(model.predict_proba(given), expected)
    model.feature_names_in_ = None  # otherwise scikit-learn would miss the names of a frame
    del model.feature_names_in_
    np.testing.assert_array_equal(model.predict_proba(X), expected)


def with_zeros_stored(X):
    """Return the same numbers with zeros stored in a tenth of the empty places."""
    extra = (np.random.default_rng(0).random(X.shape) < 0.1) | (X.toarray() != 0)
    rows, columns = np.nonzero(extra)
    return sparse.csr_array((X.toarray()[rows, columns], (rows, columns)), shape=X.shape)


@pytest.mark.parametrize("normalize", ["rows", "none"])
@pytest.mark.parametrize(
    "model",
    [
        fast(epochs=2),
        fast(epochs=2, hidden=0),
        fast(epochs=2, wide=False),
        TreeClassifier(random_state=0, n_jobs=1),
        BlendClassifier(network="drop", random_state=0, n_jobs=1),
    ],
    ids=["network", "wide", "deep", "tree", "blend"],
)
def test_stored_zeros_are_not_features(model, normalize):
    counts = sparse.csr_array(np.ceil(X.toarray() * 4))
    filled = with_zeros_stored(counts)
    given = filled.copy()
    model.set_params(normalize=normalize)
    expected, found = (clone(model).fit(points, Y) for points in (counts, given))
    np.testing.assert_array_equal(found.predict_proba(counts), expected.predict_proba(counts))
    np.testing.assert_array_equal(expected.predict_proba(given), expected.predict_proba(counts))
    for name in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(given, name), getattr(filled, name))


def test_the_copy_without_zeros_counts_as_memory(monkeypatch):
    held = []
    monkeypatch.setattr(building, "check_memory", lambda needed, *_: held.append(needed["points"]))
    filled = with_zeros_stored(X).astype(np.float32)
    plain = sparse.csr_array(filled.toarray())
    for points in (plain, filled):
        fast(epochs=1, normalize="none").fit(points, Y)
    assert held[1] - held[0] >= plain.data.nbytes + plain.indices.nbytes


def test_remembers_the_choice_of_fit(tmp_path):
    model = fast(epochs=2).fit(DENSE, Y)
    full = DENSE + 1.0  # by itself, it would be taken for a table
    model.save(tmp_path / "model")
    again = ExtremeClassifier.load(tmp_path / "model")
    for fitted in (model, again):
        np.testing.assert_array_equal(fitted.predict_proba(full), fast(epochs=2).fit(X, Y).predict_proba(full))


@pytest.mark.parametrize(
    "change", [lambda A: A - (A > 0) * 2, lambda A: A + (np.arange(A.shape[1]) % 2)], ids=["negative", "fuller"]
)
def test_standardizes_a_table(change):
    """A table has negative entries or few zeros; shifts and units of its columns do not matter."""
    table = change(DENSE)
    model = fast(epochs=2).fit(table, Y)
    moved = fast(epochs=2).fit(1000 + 8 * table, Y)
    np.testing.assert_allclose(model.predict_proba(table), moved.predict_proba(1000 + 8 * table), atol=1e-4)


@pytest.mark.parametrize("value", [0.1, 1e-3, 123.456])
@pytest.mark.parametrize("classifier", [ExtremeClassifier, TreeClassifier, BlendClassifier])
def test_detects_a_constant_column_despite_rounding(classifier, value):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    table = np.column_stack([rng.normal(y[:, None], 1.0, (600, 6)), np.full(600, value)])
    model = classifier(n_jobs=1, random_state=0).fit(table, y)
    expected = model.score(table, y)
    assert expected > 0.7
    table[:, -1] *= 1 + 1e-7  # as in float32
    assert model.score(table, y) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(
    ("dtype", "found"), [("f2", "f4"), (">f4", "=f4"), (">i4", "=i4"), ("longdouble", "f8"), ("O", "i8"), ("?", "?")]
)
def test_indicator_predictions_have_a_common_type(tmp_path, dtype, found):
    tree = TreeClassifier(random_state=0, n_jobs=1)
    expected = tree.fit(X, Y).predict(X)
    model = clone(tree).fit(X, Y.astype(dtype))
    model.save(tmp_path / "model")
    for known in (model, TreeClassifier.load(tmp_path / "model")):
        predicted = known.predict(X)
        assert predicted.dtype.str == np.dtype(found).str
        np.testing.assert_array_equal(predicted, expected)


@pytest.mark.parametrize(
    ("y", "dtype"),
    [
        (np.array([3, 70000] * 10, ">i4"), "i4"),
        (np.array([3, 4] * 10, "longdouble"), "f8"),
        (np.array(["a", "bc"] * 10, ">U2"), "U2"),
        (np.array([np.True_, False] * 10, object), "?"),
        ([np.True_, False] * 10, "?"),
        ([[np.True_], [False]] * 10, "?"),
        (np.array([np.True_, 5] * 10, object), "i8"),
    ],
    ids=["big-endian", "longdouble", "big-endian strings", "objects", "list", "lists", "mixed"],
)
def test_label_types_are_common_numpy_types(tmp_path, y, dtype):
    points = np.eye(2)[[0, 1] * 10]
    model = TreeClassifier(random_state=0, n_jobs=1).fit(points, y)
    model.save(tmp_path / "model")
    for known in (model, TreeClassifier.load(tmp_path / "model")):
        assert known.classes_.dtype == np.dtype(dtype)
        assert known.score(points, y) == 1


@pytest.mark.parametrize("form", [list, np.array, lambda y: np.array(y, object)], ids=["list", "array", "objects"])
def test_reports_integers_beyond_64_bits(form):
    with pytest.raises(ValueError, match="y holds whole numbers beyond 64 bits: convert them with str"):
        TreeClassifier().fit(np.eye(2), form([-1, 2**64]))
    with pytest.raises(ValueError, match="y holds whole numbers beyond 64 bits: convert them with str"):
        TreeClassifier().fit(np.eye(2), [-1, 2**63])
