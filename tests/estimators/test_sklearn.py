"""ExtremeClassifier with scikit-learn's checks and tools."""

import pickle

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from sparsenet import ExtremeClassifier, LSHConfig, RandomSampler

SMALL = {"hidden": 16, "epochs": 60, "random_state": 0, "n_jobs": 1}

#: Checks that are expected to fail, with the reason.
EXPECTED_FAILURES: dict[str, str] = {}


@parametrize_with_checks([ExtremeClassifier(n_jobs=1)], expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def text_pipeline(**parameters):
    return make_pipeline(TfidfVectorizer(), ExtremeClassifier(**{**SMALL, **parameters}))


SENTENCES = ["sort an array", "sort a list", "order the array", "fit a line", "fit a curve", "least squares line"] * 4
TOPICS = ["sorting", "sorting", "sorting", "fitting", "fitting", "fitting"] * 4


def test_works_in_a_text_pipeline():
    pipeline = text_pipeline().fit(SENTENCES, TOPICS)
    assert pipeline.predict(["sort the list", "a line of least squares"]).tolist() == ["sorting", "fitting"]


def test_grid_search_over_a_pipeline():
    grid = {"extremeclassifier__hidden": [0, 8], "extremeclassifier__normalize": ["rows"]}
    search = GridSearchCV(text_pipeline(), grid, cv=2, error_score="raise").fit(SENTENCES, TOPICS)
    assert search.best_score_ == 1.0
    assert search.predict(["sort"]).tolist() == ["sorting"]


@pytest.mark.parametrize("n_jobs", [None, 1])
def test_cross_validation_in_processes(n_jobs):
    X, y = load_iris(return_X_y=True)
    model = ExtremeClassifier(**{**SMALL, "epochs": "auto"})
    here = cross_val_score(model, X, y, cv=3)
    there = cross_val_score(model.set_params(n_jobs=n_jobs), X, y, cv=3, n_jobs=2)
    assert here.mean() > 0.8
    np.testing.assert_array_equal(here, there)


def test_concurrent_fits_do_not_disturb_each_other():
    X, y = load_iris(return_X_y=True)
    alone = ExtremeClassifier(**SMALL).fit(X, y).predict_proba(X)
    model = ExtremeClassifier(**{**SMALL, "n_jobs": 2})
    jobs = (joblib.delayed(lambda: clone(model).fit(X, y).predict_proba(X))() for _ in range(3))
    for together in joblib.Parallel(n_jobs=3, backend="threading")(jobs):
        np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("sampler", [LSHConfig(n_tables=4, n_bits=4), RandomSampler(), "frequency"], ids=type)
def test_clone_keeps_parameters_that_are_objects(sampler):
    copy = clone(ExtremeClassifier(sampler=sampler, **SMALL))
    assert type(copy.sampler) is type(sampler)
    X, Y = make_multilabel_classification(30, 5, random_state=0)
    copy.fit(X, Y)


def test_pickles_and_maps_memory(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = ExtremeClassifier(**SMALL).fit(X, y)
    expected = model.predict_proba(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), expected)
    joblib.dump(model, tmp_path / "model")
    mapped = joblib.load(tmp_path / "model", mmap_mode="r")
    np.testing.assert_array_equal(mapped.predict_proba(X), expected)
    mapped.partial_fit(X, y)
    np.testing.assert_array_equal(mapped.predict_proba(X), model.partial_fit(X, y).predict_proba(X))


def test_a_pickle_holds_little_but_the_weights():
    X, Y = make_multilabel_classification(200, 30, n_classes=40, random_state=0)
    model = ExtremeClassifier(**{**SMALL, "epochs": 1}).fit(X, Y)
    model.predict_topk(X)
    weights = sum(array.nbytes for array in model.network_.weights().values())
    assert len(pickle.dumps(model)) < 1.5 * weights + 10_000
