"""Measure and calibrate linear text models on held-out texts, and search for better parameters."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsenet.core.ranked import is_hit
from sparsenet.engines.linear import calibrating, competing, linear
from sparsenet.engines.linear.calibration import CURVATURE, Calibration
from sparsenet.engines.linear.linear import LinearRules
from sparsenet.engines.linear.linear_model import LinearModel, both_classes
from sparsenet.engines.linear.problem import Problem
from sparsenet.engines.linear.text_holdout import TextHoldout
from sparsenet.features.text.corpus import Corpus
from sparsenet.features.text.featuriser import FeatureRules
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import F32, F64, I64


@dataclass(frozen=True, eq=False)
class MeasuredText:
    """A model of some features and rules, measured on held-out texts.

    Attributes
    ----------
    features, rules : FeatureRules and LinearRules
    score : float
        Share of held-out texts whose best label is right.
    calibration : Calibration
    shifts : ndarray of shape (n_labels,), or None
        What to add to the scores of exclusive labels.
    """

    features: FeatureRules
    rules: LinearRules
    score: float
    calibration: Calibration
    shifts: F64 | None

    def described(self) -> dict[str, Any]:
        """Return the score and what was tried, by the names of the classifier's parameters."""
        return {"word_ngrams": self.features.word_ngrams, "cost": self.rules.cost, "score": self.score}


def measure(problem: Problem, features: FeatureRules, rules: LinearRules, holdout: TextHoldout) -> MeasuredText:
    """Train without the held-out texts, features and weights included, and measure on them."""
    scores = [_scored(problem, features, rules, turn)[0] for turn in holdout.turns]
    return _measured(problem, features, rules, holdout, scores)


def measure_and_keep(
    problem: Problem, features: FeatureRules, rules: LinearRules, holdout: TextHoldout
) -> tuple[MeasuredText, Vocabulary, LinearModel]:
    """Measure as `measure` does, and also return the model, for hold-outs that are left out for good."""
    scores, vocabulary, model = _scored(problem, features, rules, holdout.turns[0])
    return _measured(problem, features, rules, holdout, [scores]), vocabulary, model


def _scored(
    problem: Problem, features: FeatureRules, rules: LinearRules, turn: tuple[I64, I64]
) -> tuple[F32, Vocabulary, LinearModel]:
    kept, others = (problem.rows.take(texts, problem.spill) for texts in turn)
    labels = problem.labels.take(turn[0])
    vocabulary = Vocabulary.learn(features, kept, labels)
    model = problem.train(kept, labels, vocabulary, rules)
    scores = model.scores(vocabulary.points(others, problem.threads), problem.threads)
    return both_classes(scores, labels.width), vocabulary, model


def _measured(
    problem: Problem, features: FeatureRules, rules: LinearRules, holdout: TextHoldout, found: list[F32]
) -> MeasuredText:
    """Calibrate on the scores of the held-out texts, and count how often the best label is right."""
    scores = np.concatenate(found)
    truth = problem.labels.take(np.concatenate([others for _, others in holdout.turns]))
    shifts: F64 | None = None
    if problem.exclusive:
        # Texts left out for good have no rare labels: those would look as if they were never right.
        counts = None if holdout.for_good else np.bincount(problem.labels.indices, minlength=problem.labels.width)
        curvature = CURVATURE if truth.width > 2 else 0.0
        competition = competing.fit(scores, truth, counts, problem.costs, curvature=curvature)
        best = competing.cross_fitted(scores, truth, counts, problem.costs)
        calibration = Calibration(competition.steepness, curvature=curvature)
        shifts = None if holdout.for_good else competition.shifts
    else:
        best = scores.argmax(axis=1).astype(np.int32)
        calibration = calibrating.fit(scores, truth, exclusive=False)
    return MeasuredText(features, rules, float(is_hit(best, truth).mean()), calibration, shifts)


def measure_and_learn(
    problem: Problem,
    features: FeatureRules,
    rules: LinearRules,
    holdout: TextHoldout,
    *,
    most_side_by_side: int = 1 << 26,
) -> tuple[MeasuredText, tuple[Vocabulary, LinearModel]]:
    """Measure, and train the final model; side by side if one training alone would leave threads idle.

    A single block of labels keeps a single thread busy. Both trainings hold features, and Ctrl-C waits for the one at
    the side, so only up to `most_side_by_side` bytes of features are trained that way: some seconds.
    """
    is_small = problem.rows.slots.nbytes <= min(problem.spill.most_bytes // 2, most_side_by_side)
    if problem.threads < 2 or problem.labels.width > linear.block_width(problem.labels.width) or not is_small:
        return measure(problem, features, rules, holdout), problem.learn(features, rules)
    half = problem.threads // 2
    limit = None if problem.memory_limit is None else problem.memory_limit // 2
    with ThreadPoolExecutor(1) as side:
        part = replace(problem, threads=half, memory_limit=limit)
        measured = side.submit(measure, part, features, rules, holdout)
        learnt = replace(problem, threads=problem.threads - half, memory_limit=limit).learn(features, rules)
        return measured.result(), learnt


def search(
    problem: Problem,
    corpus: Corpus,
    features: FeatureRules,
    rules: LinearRules,
    holdout: TextHoldout,
    deadline: float,
    costs: Sequence[float] = (1.0, 0.3, 3.0),
) -> Iterator[MeasuredText]:
    """Measure the given parameters, then other `costs`, then other word n-grams with the best cost, while time is left.

    A further trial starts only if it, and a final training of twice its time, end before `deadline`.
    """
    slowest = 0.0

    def trial(wanted: FeatureRules, rules: LinearRules) -> MeasuredText:
        nonlocal slowest
        started = time.monotonic()
        own = problem if wanted == features else replace(problem, rows=corpus.features_by(wanted))
        measured = measure(own, wanted, rules, holdout)
        slowest = max(slowest, time.monotonic() - started)
        return measured

    def time_left() -> bool:
        # The final training has all texts, and up to twice the passes.
        return time.monotonic() + 3 * slowest < deadline

    best = trial(features, rules)
    yield best
    for cost in costs:
        if cost != rules.cost and time_left():
            tried = trial(features, replace(rules, cost=cost))
            best = max(best, tried, key=lambda one: one.score)
            yield tried
    for n_words in (3, 1):
        if n_words != features.word_ngrams and corpus.features is not None and time_left():
            yield trial(replace(features, word_ngrams=n_words), replace(rules, cost=best.rules.cost))
