"""The weight of word vectors against words: what decides, and when nothing can."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from sparsenet import kernels
from sparsenet.core.rows import Rows
from sparsenet.engines.linear.linear import LinearRules
from sparsenet.engines.linear.problem import Problem
from sparsenet.engines.linear.text_holdout import HoldoutOptions, draw_holdout
from sparsenet.engines.text.vector_weight import WeightRules, choose_weight
from sparsenet.features.text.featuriser import FeatureRules, extract
from tests.support.texts import planted

FEATURES = FeatureRules(bits=12)
TEXTS, NAMES = planted(100)


def problem_and_holdout(texts=TEXTS, **options):
    rows = extract(*kernels.join_texts(texts), FEATURES, 1)
    numbers = np.unique(NAMES, return_inverse=True)[1].astype(np.int32)
    labels = Rows(np.arange(101), numbers, np.ones(100, np.float32), 3)
    problem = Problem(rows, labels, True, None, 0, 1, None)
    return problem, draw_holdout(labels, HoldoutOptions(**options), 0)


def one_hot(problem):
    return np.eye(3, dtype=np.float32)[problem.labels.indices]


def noise(seed=0):
    rows = np.random.default_rng(seed).normal(size=(100, 20)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def decide(problem, vectors, holdout, **more):
    return choose_weight(problem, vectors, FEATURES, LinearRules(), holdout, **more)


def test_vectors_that_tell_the_label_get_the_highest_weight():
    problem, holdout = problem_and_holdout(["nothing"] * 100)
    decision, measured = decide(problem, one_hot(problem), holdout)
    assert decision.value == 2.0
    assert decision.why.startswith("2: log-likelihood of the labels of a text ")
    assert measured is not None
    assert measured.score == 1.0


def test_noise_gets_the_lowest_weight():
    problem, holdout = problem_and_holdout()
    decision, measured = decide(problem, noise(), holdout)
    assert decision.value == 0.25
    assert decision.gain > 0
    assert measured is not None


def test_the_first_weight_may_be_the_best():
    problem, holdout = problem_and_holdout()
    decision, _ = decide(problem, noise(), holdout, choosing=WeightRules(weights=(0.25, 2.0)))
    assert decision.value == 0.25
    assert decision.why.startswith("0.25: the highest log-likelihood")


def test_without_held_out_texts_nothing_is_compared():
    problem, _ = problem_and_holdout()
    decision, measured = decide(problem, noise(), None)
    assert (decision.value, decision.options, measured) == (1.0, (), None)


def test_many_products_are_not_tried():
    problem, holdout = problem_and_holdout()
    decision, measured = decide(problem, noise(), holdout, choosing=replace(WeightRules(), max_products=10))
    assert (decision.value, measured) == (1.0, None)
    assert "to compare weights on 100 texts takes too long" in decision.why


def test_a_deadline_ends_the_search():
    problem, holdout = problem_and_holdout()
    clock = count().__next__  # each trial takes a second
    decision, _ = decide(problem, noise(), holdout, deadline=6.0, clock=clock)
    assert decision.options == ("1", "0.5")
    decision, measured = decide(problem, noise(), holdout, deadline=0.0, clock=count().__next__)
    assert decision.options == ("1",)
    assert measured is not None


@pytest.mark.parametrize("exclusive", [True, False])
def test_the_likelihood_is_that_of_all_labels(exclusive):
    from sparsenet.engines.linear.calibration import Calibration
    from sparsenet.engines.linear.measuring import log_likelihood

    truth = Rows(np.array([0, 1, 2] if exclusive else [0, 2, 2]), np.array([0, 1], np.int32), np.ones(2, np.float32), 2)
    scores, calibration = np.array([[0.5, -0.5], [1.0, 2.0]], np.float32), Calibration()
    p = calibration.probabilities(scores, exclusive=exclusive).astype(float)
    wanted = [p[0, 0], p[1, 1]] if exclusive else [p[0].prod(), (1 - p[1]).prod()]
    np.testing.assert_allclose(log_likelihood(calibration, scores, truth, exclusive), np.log(wanted), rtol=1e-5)
