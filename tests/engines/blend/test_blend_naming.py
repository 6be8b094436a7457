"""How many labels a blend looks at for a point: as many as are found to have more right."""

import numpy as np
import pytest
from scipy import sparse
from sparsenet.engines.blend.naming import FEW, MANY
from sparsenet.engines.blend.unlearnt import Unlearnt

from sparsenet import BlendClassifier, Rows, TreeClassifier, storage
from sparsenet.engines.blend import naming, trust, unlearnt
from sparsenet.estimators import blend_saving
from tests.support.planted import planted

N, WIDTH = 400, 1000
RIGHT = np.arange(N, dtype=np.int32)
LABELS = Rows(np.arange(N + 1), RIGHT, np.ones(N, np.float32), WIDTH)


def asked(network="there is one", labels=LABELS):
    return naming.measured(Unlearnt(network, None, None, labels, labels, None, k=3, weight=1.0, threads=1))


@pytest.mark.parametrize(
    ("by_few", "by_many", "expected"),
    [(0.3, 0.3, FEW), (0.3, 0.5, MANY), (0.5, 0.3, FEW), (0.3, 0.3 + 1 / N, FEW), (0.3, 0.3 + 40 / N, MANY)],
)
def test_more_labels_are_named_where_more_are_right(monkeypatch, by_few, by_many, expected):
    def vote(network, judge, points, n, threads, **among):
        share = {FEW: by_few, MANY: by_many}[n]
        named = np.tile(np.arange(WIDTH - n, WIDTH, dtype=np.int32), (len(points), 1))
        named[: round(share * N), 0] = RIGHT[: round(share * N)]
        return named, np.zeros(named.shape, np.float32)

    monkeypatch.setattr(unlearnt, "vote", vote)
    assert asked() == expected


def test_where_nothing_tells_few_are_named(monkeypatch):
    monkeypatch.setattr(unlearnt, "vote", None)
    assert asked(network=None) == FEW
    assert asked(labels=LABELS.take(np.zeros(0, np.int64))) == FEW
    assert asked(labels=Rows(np.arange(N + 1), RIGHT % FEW, np.ones(N, np.float32), FEW)) == FEW


def fitted(monkeypatch, found, **parameters):
    X, Y = planted(n=1200, n_features=200, n_labels=40, seed=1)
    monkeypatch.setattr(trust, "EVERY", 8)
    monkeypatch.setattr(trust, "FEWEST", 100)
    monkeypatch.setattr(naming, "measured", found)
    model = BlendClassifier(network="drop", tree=TreeClassifier(cost=1), random_state=0, n_jobs=1, **parameters)
    return model.fit(X, sparse.csr_array(Y)), X[:50]


def test_as_many_as_were_found_are_named(monkeypatch, tmp_path):
    model, X = fitted(monkeypatch, lambda unlearnt: 7)
    assert model.candidates_ == 7
    assert (np.count_nonzero(model.predict_proba(X), axis=1) == 7).all()
    model.save(tmp_path / "m")
    again = BlendClassifier.load(tmp_path / "m")
    assert (again.candidates, again.candidates_) == ("auto", 7)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert (np.count_nonzero(again.set_params(candidates=5).predict_proba(X), axis=1) == 5).all()
    arrays, metadata = storage.load(tmp_path / "m")
    del metadata["candidates"]
    assert blend_saving.unpack(BlendClassifier, arrays, metadata).candidates_ == FEW, "a model of an older version"


def test_a_number_that_is_given_is_not_looked_for(monkeypatch):
    model, X = fitted(monkeypatch, None, candidates=9)
    assert model.candidates_ == 9
    assert (np.count_nonzero(model.predict_proba(X), axis=1) == 9).all()
    with pytest.raises(ValueError, match="candidates must be"):
        model.set_params(candidates="many").predict(X)
