"""scikit-learn's splits and searches with each kind of y; `test_interface` tries each classifier."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, train_test_split

from sparsenet import TreeClassifier
from tests.support.planted import X, Y

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
def test_cross_validates(kind):
    folds = KFold(2, shuffle=True, random_state=0)
    model = TreeClassifier(random_state=0)
    assert np.isfinite(cross_val_score(model, X, KINDS[kind], cv=folds, error_score="raise")).all()
