"""Boosted trees answer as scikit-learn's estimator does, from arrays that a model file can hold."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from sparsenet.engines.boosting import boosting_arrays, fit_boosting, grown_trees
from sparsenet.engines.boosting.fit_boosting import BoostingRules
from sparsenet.storage import ModelError

IS_CATEGORY = np.array([False, False, True, False, True])
FAST = BoostingRules(rounds=(5,))


def points(n=600, seed=0):
    """Numbers, codes with gaps and missing values; the labels depend on all of them."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(n, 5))
    matrix[:, 2], matrix[:, 4] = 7 * rng.integers(0, 30, n), rng.integers(3, 9, n)
    matrix[rng.random(matrix.shape) < 0.05] = np.nan
    known = np.nan_to_num(matrix)
    return matrix, (known[:, 0] + known[:, 2] % 3 + rng.normal(size=n) > 1).astype(int) + (known[:, 1] > 0.5)


def fitted(matrix, labels, n_labels, rounds, *, seed=0, threads=1):
    found = fit_boosting.fit(
        matrix, IS_CATEGORY, labels.astype(np.int32), n_labels, FAST, [rounds], seed=seed, threads=threads
    )
    return next(found)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_equals_scikit_learn(n_classes):
    matrix, labels = points()
    labels = np.minimum(labels, n_classes - 1)
    model = fitted(matrix, labels, n_classes, rounds=12)
    theirs = HistGradientBoostingClassifier(
        max_iter=12, categorical_features=[2, 4], early_stopping=False, random_state=0
    )
    with threadpool_limits(1):
        theirs.fit(matrix, labels)
    test, _ = points(seed=1)
    test[:50, 2] = np.arange(50)  # most of these codes are unknown
    test[50:60, :2] = [[np.inf, -np.inf]] * 10
    np.testing.assert_allclose(model.probabilities(test), theirs.predict_proba(test), atol=1e-6)


def test_a_point_has_the_same_answer_among_others():
    matrix, labels = points()
    model = fitted(matrix, labels, 3, rounds=5)
    alone = np.vstack([model.probabilities(matrix[i : i + 1]) for i in range(20)])
    assert np.array_equal(alone, model.probabilities(matrix)[:20])
    assert model.probabilities(matrix[:0]).shape == (0, 3)


def test_threads_and_saving_do_not_change_bits():
    matrix, labels = points()
    one, two = (fitted(matrix, labels, 3, rounds=5, threads=threads) for threads in (1, 2))
    arrays, about = boosting_arrays.pack(one)
    again = boosting_arrays.unpack(arrays, json.loads(json.dumps(about)), 5)
    for other in (two, again):
        assert np.array_equal(one.probabilities(matrix), other.probabilities(matrix))


def test_more_rounds_continue_from_fewer():
    matrix, labels = points()
    path = list(fit_boosting.fit(matrix, IS_CATEGORY, labels.astype(np.int32), 3, FAST, [2, 4], seed=0, threads=1))
    for model, rounds in zip(path, (2, 4), strict=True):
        assert model.trees.n_rounds == rounds
        assert np.array_equal(model.probabilities(matrix), fitted(matrix, labels, 3, rounds).probabilities(matrix))


def test_labels_without_points_have_no_probability():
    matrix, labels = points()
    model = fitted(matrix, 2 * labels, 6, rounds=3)
    p = model.probabilities(matrix)
    assert p.shape == (600, 6)
    assert (p[:, [1, 3, 5]] == 0).all()


def test_columns_without_values():
    matrix, labels = points()
    matrix[:, [0, 2]] = np.nan
    assert np.isfinite(fitted(matrix, labels, 3, rounds=3).probabilities(matrix)).all()


def test_refuses_codes_that_are_none():
    matrix, labels = points()
    matrix[3, 2] = 255
    with pytest.raises(
        ValueError, match="column 2 of the matrix must hold category codes, whole numbers from 0 to 254"
    ):
        fitted(matrix, labels, 3, rounds=3)


def test_names_the_version_whose_trees_are_unknown():
    with pytest.raises(RuntimeError, match=r"scikit-learn .* keeps boosted trees in another form than versions 1\.6"):
        grown_trees.extract(SimpleNamespace(), np.arange(2), [], 3)


@pytest.mark.parametrize(
    ("part", "change", "problem"),
    [
        ("left", lambda a: np.where(a == a[0], 0, a), "must come after"),
        ("right", lambda a: a + 10**6, "must come after"),
        ("feature", lambda a: a + 5, "one of 5 columns"),
        ("value", lambda a: a * np.nan, "NaN or infinity"),
        ("threshold", lambda a: a * np.nan, "NaN"),
        ("bits", lambda a: a + 10**6, "rows of `sets`"),
        ("bits", lambda a: np.full_like(a, -1), "by sets"),
        ("roots", lambda a: a - 1, "must be nodes"),
        ("roots", lambda a: a[:-1], "same number"),
        ("sets", lambda a: a[:, :3], "dimensions"),
        ("known", lambda a: a[:3], "must be uint32"),
        ("baseline", lambda a: a.astype(np.float32), "must be float64"),
        ("labels", lambda a: a[::-1], "must ascend"),
        ("labels", lambda a: a + 1, "must ascend"),
    ],
)
def test_refuses_damaged_trees(part, change, problem):
    matrix, labels = points()
    arrays, about = boosting_arrays.pack(fitted(matrix, labels, 3, rounds=3))
    with pytest.raises(ModelError, match=problem):
        boosting_arrays.unpack({**arrays, part: np.ascontiguousarray(change(arrays[part]))}, about, 5)


@pytest.mark.parametrize("label", [0, 1, 2])
def test_one_class_needs_no_trees(label):
    matrix, _ = points(40)
    model = fitted(matrix, np.full(40, label), 3, rounds=5)
    assert model.probabilities(matrix).argmax(axis=1).tolist() == [label] * 40
    assert boosting_arrays.unpack(*boosting_arrays.pack(model), 5).trees.n_rounds == 0
