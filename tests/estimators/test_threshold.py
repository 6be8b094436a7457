"""`predict` of several labels a point names all labels of at least the probability threshold."""

import numpy as np
import pytest
from sklearn.base import clone

from sparsenet import BlendClassifier, ExtremeClassifier, TreeClassifier
from tests.support.planted import planted

X, Y = planted(n=300, n_features=60, n_labels=30, seed=3)
NETWORK = ExtremeClassifier(hidden=8, epochs=2)


@pytest.mark.parametrize(
    "classifier",
    [NETWORK, TreeClassifier(), BlendClassifier(network=NETWORK), BlendClassifier(network="drop")],
    ids=["network", "tree", "blend", "light"],
)
def test_predicts_labels_that_reach_the_threshold(classifier):
    model = clone(classifier).set_params(random_state=0, n_jobs=1).fit(X, Y)
    probabilities, named = model.predict_proba(X), []
    for threshold in (0.02, 0.1, 0.3, 0.9):
        found = model.predict(X, threshold=threshold)
        np.testing.assert_array_equal(found, probabilities >= threshold)
        named.append(found.sum())
    assert named[0] > named[-1]
    np.testing.assert_array_equal(model.predict(X), probabilities >= 0.5)
    assert model.predict(X[:3], threshold=0).all()
    own = float(probabilities[0].max())  # a label of exactly this probability is kept
    np.testing.assert_array_equal(model.predict(X[:1], threshold=own), probabilities[:1] >= own)
    with pytest.raises(ValueError, match="threshold must be"):
        model.predict(X, threshold=1.5)
    one = clone(classifier).set_params(random_state=0, n_jobs=1).fit(X, np.asarray(Y).argmax(axis=1))
    with pytest.raises(ValueError, match="threshold must be None where each row has one label"):
        one.predict(X, threshold=0.3)
