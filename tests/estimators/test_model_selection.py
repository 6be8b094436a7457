"""`train_test_split`, `cross_val_score` and `GridSearchCV` of scikit-learn with each kind of y that `fit` takes."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, train_test_split

from sparsenet import BlendClassifier, TextClassifier, TreeClassifier, make_pipeline
from tests.support.planted import X, Y, fast

NAMES = [f"c{row.argmax()}" for row in Y]
KINDS = {
    "names": NAMES,
    "numbers": np.array([row.argmax() for row in Y]),
    "lists": [[f"c{label}" for label in np.flatnonzero(row)] for row in Y],
    "lists of numbers": [np.flatnonzero(row).tolist() for row in Y],
    "dense": Y,
    "sparse": sparse.csr_array(Y),
    "sparse matrix": sparse.csr_matrix(Y),
}
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_splits_points_and_labels(kind):
    X_train, X_test, y_train, y_test = train_test_split(X, KINDS[kind], test_size=0.25, random_state=0)
    model = TreeClassifier(random_state=0).fit(X_train, y_train)
    assert model.score(X_test, y_test) > 0.3


@kinds
def test_searches_parameters(kind):
    folds = KFold(3, shuffle=True, random_state=0)  # lists of labels have no classes to stratify by
    search = GridSearchCV(TreeClassifier(random_state=0), {"cost": [0.1, 0.5]}, cv=folds, error_score="raise")
    search.fit(X, KINDS[kind])
    assert np.isfinite(search.best_score_)
    assert search.best_estimator_.topk(X[:2], 2)[0].shape == (2, 2)


@pytest.mark.parametrize("kind", ["lists", "dense", "names"])
def test_cross_validates_each_classifier(kind):
    folds = KFold(2, shuffle=True, random_state=0)
    for model in (BlendClassifier(network="drop", random_state=0), fast(epochs=1)):
        assert np.isfinite(cross_val_score(model, X, KINDS[kind], cv=folds, error_score="raise")).all()


@pytest.mark.parametrize("y", [["a", "b"] * 30, [["a"], ["b", "c"]] * 30], ids=["names", "lists"])
def test_searches_texts_and_pipelines(y):
    texts = [f"{'even' if i % 2 else 'odd'} text {i}" for i in range(60)]
    folds = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(TextClassifier(random_state=0), {"cost": [0.5, 1.0]}, cv=folds, error_score="raise")
    assert search.fit(texts, y).best_score_ == 1
    from sklearn.feature_extraction.text import CountVectorizer

    grid = {"treeclassifier__cost": [0.5], "countvectorizer__binary": [True]}
    pipeline = make_pipeline(CountVectorizer(), TreeClassifier(random_state=0))
    assert GridSearchCV(pipeline, grid, cv=folds, error_score="raise").fit(texts, y).best_score_ == 1
