"""TextClassifier with scikit-learn's checks, searches, pipelines and copies."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import SkipTestWarning
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_predict, cross_val_score, learning_curve
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data

from sparsenet import TextClassifier
from tests.support.texts import planted

STEPS = np.arange(-3, 3.1, 0.25)


class OfNumbers(TextClassifier):
    """A TextClassifier that first writes rows of numbers as texts.

    scikit-learn's checks give every estimator rows of numbers, and run hardly any on one whose input is text. With
    this in between they try what does not depend on what X is: parameters, y, answers, copies, messages.
    """

    def fit(self, X, y):  # type: ignore[override]  # rows of numbers
        return super().fit(self._written(X, reset=True), y)

    def partial_fit(self, X, y, classes=None):
        return super().partial_fit(self._written(X, reset=not hasattr(self, "n_features_in_")), y, classes)

    def predict(self, X):  # type: ignore[override]
        return super().predict(self._known(X))

    def predict_proba(self, X):
        return super().predict_proba(self._known(X))

    def decision_function(self, X):
        return super().decision_function(self._known(X))

    def score(self, X, y=None, sample_weight=None):
        return float(np.average(self.predict(X) == np.asarray(y), weights=sample_weight))

    def _known(self, X):
        check_is_fitted(self)
        return self._written(X, reset=False)

    def _written(self, X, *, reset):
        """Write one word for each step below a number, and another word for each step above it."""
        numbers = validate_data(self, X, reset=reset)
        return [" ".join(self._words(row)) for row in numbers]

    @staticmethod
    def _words(row):
        for column, value in enumerate(row):
            yield from (f"c{column}{'over' if value > step else 'under'}{i}" for i, step in enumerate(STEPS))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array = False, False, True
        tags.no_validation = False
        return tags


#: Checks that are expected to fail, with the reason.
EXPECTED_FAILURES: dict[str, str] = {}


@parametrize_with_checks([OfNumbers(n_jobs=1)], expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_tags_match_the_classifier():
    tags = get_tags(TextClassifier())
    assert tags.estimator_type == "classifier"
    assert (tags.input_tags.string, tags.input_tags.one_d_array, tags.input_tags.two_d_array) == (True, True, False)
    assert tags.classifier_tags.multi_class
    assert tags.classifier_tags.multi_label
    with pytest.warns(SkipTestWarning, match="requires input"):  # most checks need rows of numbers
        check_estimator(TextClassifier())


@pytest.mark.parametrize("form", [list, np.array, pd.Series], ids=["list", "array", "series"])
def test_cross_validation_of_every_kind(form):
    texts, labels = planted(120)
    model = TextClassifier(random_state=0, n_jobs=1)
    assert cross_val_score(model, form(texts), form(labels), cv=3).mean() > 0.9
    assert np.mean(cross_val_predict(model, form(texts), form(labels), cv=3) == np.array(labels)) > 0.9
    found = cross_val_predict(model, form(texts), form(labels), cv=3, method="predict_proba")
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    _, learnt, unseen = learning_curve(model, form(texts), form(labels), train_sizes=[20, 60], cv=2)
    assert unseen[1].mean() >= unseen[0].mean() > 0.4
    assert learnt.min() > 0.9


def test_cross_validation_in_processes_changes_nothing():
    texts, labels = planted(120)
    model = TextClassifier(random_state=0)
    here, there = (cross_val_score(model, texts, labels, cv=2, n_jobs=n) for n in (None, 2))
    np.testing.assert_array_equal(here, there)


def test_every_parameter_can_be_searched():
    texts, labels = planted(120)
    grid = {
        "word_ngrams": [1, 2],
        "char_ngrams": ["auto", (2, 4), None],
        "cost": [0.3, 1.0],
        "epochs": [5],
        "class_weight": [None, "balanced", {"food": 2.0}],
        "validation_fraction": ["auto", 0.2],
        "time_budget": [None, 0.0],
        "bits": [16, 22],
    }
    model = TextClassifier(random_state=0, n_jobs=1)
    assert set(grid) <= set(model.get_params())
    search = RandomizedSearchCV(model, grid, n_iter=8, cv=2, random_state=0, error_score="raise")
    assert search.fit(texts, labels).best_score_ > 0.9
    for parameters in search.cv_results_["params"]:
        assert clone(model.set_params(**parameters)).get_params() == model.get_params()


def test_grid_search_over_a_pipeline_and_several_labels():
    texts, labels = planted(80)
    pipeline = make_pipeline(FunctionTransformer(_lower), TextClassifier(random_state=0, n_jobs=1))
    lists = [[label, "any"] for label in labels]
    grid = {"textclassifier__cost": [0.3, 3.0]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(texts, lists)
    assert search.best_score_ > 0.9
    assert search.predict(["A GOAL for the TEAM"]) == [["any", "sport"]]


def _lower(texts):
    return [text.lower() for text in texts]


def test_works_in_a_voting_classifier():
    texts, labels = planted(120)
    models = [(f"cost{cost}", TextClassifier(cost=cost, random_state=0, n_jobs=1)) for cost in (0.1, 1.0)]
    for voting in ("soft", "hard"):
        assert VotingClassifier(models, voting=voting).fit(texts, labels).score(texts, labels) == 1.0


@pytest.mark.parametrize("lists", [False, True], ids=["one label", "several"])
def test_copies_answer_and_learn_alike(tmp_path, lists):
    texts, labels = planted(120)
    y = [[label, "any"] for label in labels] if lists else labels
    model = TextClassifier(random_state=0, n_jobs=1).fit(texts, y)
    joblib.dump(model, tmp_path / "model")
    mapped = joblib.load(tmp_path / "model", mmap_mode="r")
    copies = [pickle.loads(pickle.dumps(model)), mapped]
    more, new = planted(60, seed=1)
    labels_of_more = [[label, "more"] for label in new] if lists else new
    expected = model.predict_proba(more)
    learnt = model.partial_fit(more, labels_of_more).predict_proba(texts)
    for copy in copies:
        np.testing.assert_array_equal(copy.predict_proba(more), expected)
        assert copy.validation_score_ == model.validation_score_
        np.testing.assert_array_equal(copy.partial_fit(more, labels_of_more).predict_proba(texts), learnt)


def test_a_clone_is_not_fitted_and_a_fit_forgets_the_one_before():
    texts, labels = planted(120)
    model = TextClassifier(random_state=0, n_jobs=1).fit(texts, labels)
    expected = model.predict_proba(texts)
    assert not hasattr(clone(model), "classes_")
    two, their = planted(80, topics=2)
    np.testing.assert_array_equal(model.fit(two, their).fit(texts, labels).predict_proba(texts), expected)
