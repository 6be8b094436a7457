"""scikit-learn's own checks, and its tools around the classifier."""

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

#: Nothing is expected to fail; a check that does needs its reason here.
EXPECTED_FAILURES: dict[str, str] = {}


@parametrize_with_checks(
    [ExtremeClassifier(n_jobs=1)], expected_failed_checks=lambda estimator: EXPECTED_FAILURES
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
