"""`validation=` and `callbacks=` of trees and blends."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sparsenet import BlendClassifier, ExtremeClassifier, TreeClassifier, load
from sparsenet.metrics import precision_at_k
from tests.support.planted import X, Y, fast

MODELS: dict[str, Callable[[], Any]] = {
    "tree": lambda: TreeClassifier(random_state=0),
    "bare blend": lambda: BlendClassifier(network="drop", random_state=0),
    "blend": lambda: BlendClassifier(network=ExtremeClassifier(hidden=8, epochs=2), random_state=0),
}
kinds = pytest.mark.parametrize("kind", MODELS)


class Counted:
    def __init__(self):
        self.records = []

    def on_epoch(self, record):
        self.records.append(record["epoch"])


@kinds
def test_measures_validation_data_and_saves_the_scores(kind, tmp_path):
    model = MODELS[kind]().fit(X[:300], Y[:300], validation=(X[300:], Y[300:]))
    ranked, _ = model.topk_numbers(X[300:], 5)
    for k in (1, 3, 5):
        assert model.validation_[f"P@{k}"] == pytest.approx(precision_at_k(model.indicator(Y[300:]), ranked, k))
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").validation_ == model.validation_
    plain = MODELS[kind]().fit(X[:300], Y[:300])
    assert plain.validation_ is None
    np.testing.assert_array_equal(plain.predict_proba(X), model.predict_proba(X))


def test_validation_scores_of_a_network_are_of_the_epoch_kept():
    model = fast(epochs=3).fit(X[:300], Y[:300], validation=(X[300:], Y[300:]))
    assert model.validation_["P@1"] == max(record["P@1"] for record in model.history_)
    assert fast(epochs=1).fit(X, Y).validation_ is None


@kinds
@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ((X[:9, :-1], Y[:9]), "validation: X has 59 features"),
        ((X[:9], Y[:8]), "validation: X has 9 rows, y has 8"),
        (X, r"validation must be a pair \(X, y\)"),
        ((X[:9], ["a"] * 9), "validation: y must be of the kind 'dense'"),
    ],
)
def test_refuses_validation_data_before_training(kind, validation, message):
    model = MODELS[kind]()
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y, validation=validation)
    assert not hasattr(model, "classes_")


def test_calls_back_after_each_epoch_of_the_network_of_a_blend():
    counted = Counted()
    model = MODELS["blend"]().fit(X, Y, callbacks=[counted])
    assert counted.records == [1, 2]
    assert model.network_.n_iter_ == 2


@kinds
def test_refuses_callbacks_where_nothing_calls_back(kind):
    model = MODELS[kind]()
    with pytest.raises(TypeError, match="callbacks must be a list of objects with a method"):
        model.fit(X, Y, callbacks=[3])
    if kind != "blend":
        with pytest.raises(ValueError, match=r"leave (them|callbacks) out"):
            model.fit(X, Y, callbacks=[Counted()])
