"""Measure and calibrate linear text models on held-out texts, and search for better parameters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsenet.core.ranked import is_hit
from sparsenet.core.rows import Rows, by_row
from sparsenet.engines.linear import calibrating, linear
from sparsenet.engines.linear.calibration import CURVATURE, Calibration
from sparsenet.engines.linear.linear import LinearRules
from sparsenet.engines.linear.linear_model import LinearModel, both_classes
from sparsenet.engines.linear.problem import Problem
from sparsenet.engines.linear.text_holdout import TextHoldout
from sparsenet.features.text.corpus import Corpus
from sparsenet.features.text.featuriser import FeatureRules
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import F32, F64
from sparsenet.selection.choose import Decision, Option, Rule, choose

#: One standard error: a tenth of the texts rarely shows two.
BETTER = Rule("accuracy", standard_errors=1.0)


@dataclass(frozen=True, eq=False)
class MeasuredText:
    """A model of some features and rules, measured on held-out texts.

    Attributes
    ----------
    features, rules : FeatureRules and LinearRules
    hits : ndarray of shape (n_held,)
        1 for each held-out text whose best label is right, else 0.
    likelihood : ndarray of shape (n_held,), or None
        The log-likelihood of the labels of each held-out text. Measured with dense features only, whose weight it helps
        to choose.
    calibration : Calibration
    shifts : ndarray of shape (n_labels,), or None
        What to add to the scores of exclusive labels.
    """

    features: FeatureRules
    rules: LinearRules
    hits: F64
    likelihood: F64 | None
    calibration: Calibration
    shifts: F64 | None

    @property
    def score(self) -> float:
        """Fraction of held-out texts whose best label is right."""
        return float(self.hits.mean())

    def described(self) -> dict[str, Any]:
        """Return the score and what was tried, by the names of the classifier's parameters."""
        return {"word_ngrams": self.features.word_ngrams, "cost": self.rules.cost, "score": self.score}


def measure(
    problem: Problem, features: FeatureRules, rules: LinearRules, holdout: TextHoldout
) -> tuple[MeasuredText, tuple[Vocabulary, LinearModel]]:
    """Train without the held-out texts, features and weights included, and measure on them.

    Also return the model of the last turn.
    """
    found = []
    for turn in holdout.turns:
        kept, held = (problem.rows.take(texts, problem.spill) for texts in (turn.kept, turn.held))
        labels = problem.labels.take(turn.kept)
        vocabulary = Vocabulary.learn(features, kept, labels)
        model = problem.train(kept, labels, vocabulary, rules, turn.kept)
        points = problem.points(vocabulary, held, turn.held)
        scores = model.scores(points, problem.threads)
        found.append(both_classes(scores, labels.width))
    scores, shifts = np.concatenate(found), None
    truth = problem.labels.take(np.concatenate([turn.held for turn in holdout.turns]))
    if problem.exclusive:
        counts = np.bincount(problem.labels.indices, minlength=problem.labels.width)
        curvature = CURVATURE if truth.width > 2 else 0.0
        steepness, shifts = calibrating.fit_softmax(scores, truth, counts, problem.costs, curvature=curvature)
        calibration = Calibration(steepness, curvature=curvature)
    else:
        calibration = calibrating.fit(scores, truth, exclusive=False)
    scores = scores if shifts is None else (scores + shifts).astype(np.float32)
    hits = is_hit(scores.argmax(axis=1).astype(np.int32), truth).astype(np.float64)
    likelihood = None if problem.dense is None else log_likelihood(calibration, scores, truth, problem.exclusive)
    return MeasuredText(features, rules, hits, likelihood, calibration, shifts), (vocabulary, model)


def log_likelihood(calibration: Calibration, scores: F32, truth: Rows, exclusive: bool) -> F64:
    """Return the log-likelihood of the labels of each text by its calibrated scores."""
    p = calibration.probabilities(scores, exclusive=exclusive).astype(np.float64)
    p = np.clip(p, np.finfo(np.float32).tiny, 1 - np.finfo(np.float32).epsneg)
    right = p[np.repeat(np.arange(len(truth)), np.diff(truth.indptr)), truth.indices]
    own = by_row(np.add, np.log(right) if exclusive else np.log(right) - np.log1p(-right), truth.indptr)
    return np.asarray(own if exclusive else own + np.log1p(-p).sum(axis=1))


def measure_and_learn(
    problem: Problem,
    features: FeatureRules,
    rules: LinearRules,
    holdout: TextHoldout,
    *,
    max_parallel_bytes: int = 1 << 26,
) -> tuple[MeasuredText, tuple[Vocabulary, LinearModel]]:
    """Measure, and train the final model; side by side if one training alone would leave threads idle.

    A single block of labels keeps a single thread busy. Both trainings hold features, and Ctrl-C waits for the one at
    the side, so only up to `max_parallel_bytes` bytes of features are trained that way: some seconds.
    """
    is_small = problem.rows.slots.nbytes <= min(problem.spill.max_bytes // 2, max_parallel_bytes)
    if problem.threads < 2 or problem.labels.width > linear.block_width(problem.labels.width) or not is_small:
        return measure(problem, features, rules, holdout)[0], problem.learn(features, rules)
    half = problem.threads // 2
    limit = None if problem.memory_limit is None else problem.memory_limit // 2
    with ThreadPoolExecutor(1) as side:
        part = replace(problem, threads=half, memory_limit=limit)
        measured = side.submit(measure, part, features, rules, holdout)
        learnt = replace(problem, threads=problem.threads - half, memory_limit=limit).learn(features, rules)
        return measured.result()[0], learnt


def search(
    problem: Problem,
    corpus: Corpus,
    features: FeatureRules,
    rules: LinearRules,
    holdout: TextHoldout,
    deadline: float,
    costs: Sequence[float] = (0.3, 1.0, 3.0),
    word_ngrams: Sequence[int] = (3,),
    clock: Callable[[], float] = time.monotonic,
) -> tuple[MeasuredText, list[MeasuredText], dict[str, Decision]]:
    """Choose the cost, then the longest word n-gram, while time is left; return the best, all trials and the decisions.

    A further trial starts only if it, and a final training of twice its time, end before `deadline`.
    """
    slowest = 0.0

    def trial(wanted: FeatureRules, rules: LinearRules) -> MeasuredText:
        nonlocal slowest
        started = clock()
        own = problem if wanted == features else replace(problem, rows=corpus.features_by(wanted))
        tried.append(measure(own, wanted, rules, holdout)[0])
        slowest = max(slowest, clock() - started)
        return tried[-1]

    def time_left() -> bool:
        # The final training has all texts, and up to twice the passes.
        return clock() + 3 * slowest < deadline

    tried: list[MeasuredText] = []
    options = [Option(f"{rules.cost:g}", trial(features, rules))]
    options.extend(
        Option(f"{cost:g}", trial(features, replace(rules, cost=cost)))
        for cost in costs
        if cost != rules.cost and time_left()
    )
    by_cost = choose(options, lambda one: one.hits, BETTER)
    options = [Option(str(features.word_ngrams), by_cost.value)]
    options.extend(
        Option(str(n), trial(replace(features, word_ngrams=n), by_cost.value.rules))
        for n in word_ngrams
        if n != features.word_ngrams and corpus.features is not None and time_left()
    )
    by_words = choose(options, lambda one: one.hits, BETTER)
    best: MeasuredText = by_words.value
    decisions = {
        "cost": by_cost._replace(value=best.rules.cost),
        "word_ngrams": by_words._replace(value=best.features.word_ngrams),
    }
    return best, tried, decisions
