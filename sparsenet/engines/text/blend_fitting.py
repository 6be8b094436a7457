"""Fit a blend to a corpus: its features, its hold-out, its parameters."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sparsenet.core.rows import Rows
from sparsenet.engines.blend.blend_holdout import BlendHoldout, HoldoutAnswers, HoldoutSize
from sparsenet.engines.linear.problem import Problem
from sparsenet.engines.neighbors.fit_neighbors import POSTINGS
from sparsenet.engines.text.text_blend import BlendModel
from sparsenet.engines.text.text_network import MAX_FEATURES
from sparsenet.engines.text.text_options import TextOptions
from sparsenet.features.text.corpus import Corpus
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import F64
from sparsenet.selection.holdout import Holdout


class MeasuredBlend(NamedTuple):
    """A blend, its features, and its answers on the hold-out; None without one."""

    vocabulary: Vocabulary
    model: BlendModel
    answers: HoldoutAnswers | None

    @property
    def score(self) -> float | None:
        """Fraction of held-out texts whose best label is right."""
        return None if self.answers is None else float(self.answers.hits[:, 0].mean())

    def precision(self, holdout: Holdout) -> F64:
        """Return the mean of P@1, P@3 and P@5 of each held-out text."""
        assert self.answers is not None
        assert np.array_equal(self.answers.held, holdout.held)
        return self.answers.precision()


def draw_for_blend(labels: Rows, fraction: float | None, seed: int) -> BlendHoldout:
    """Hold out a fraction of the texts for good; None: as many as a `BlendClassifier` does."""
    if fraction is None:
        return HoldoutSize().draw(labels, seed)
    n = len(labels)
    holdout = Holdout.draw(n, min(round(fraction * n), n - 1), seed)
    has_label = np.diff(labels.indptr) > 0
    can_measure = has_label[holdout.held].any() and has_label[holdout.kept].any()
    return BlendHoldout(holdout, for_good=True) if can_measure else BlendHoldout()


def fit_blend(
    problem: Problem,
    corpus: Corpus,
    options: TextOptions,
    held_out: BlendHoldout,
    deadline: float,
    *,
    is_compared: bool = False,
) -> MeasuredBlend:
    """Train a blend, and fit its threshold on the hold-out.

    Features are chosen and weighted without texts that are held out for good. With `is_compared`, they are chosen
    without any held-out texts: those would raise the features that they share with single other texts, and the blend
    would look a point better on the hold-out than it is (bench/notes/texts.md).
    """
    rules = options.features.single_words().rules_like(corpus.rules)
    rows = problem.rows
    if rules != corpus.rules and corpus.features is not None:
        rows = corpus.features_by(rules)
    else:
        rules = corpus.rules  # texts from a pipe can be read only once
    unseen = held_out.points if is_compared else held_out.without
    learnt = rows, problem.labels
    if unseen is not None:
        learnt = rows.take(unseen.kept, problem.spill), problem.labels.take(unseen.kept)
    vocabulary = Vocabulary.learn(rules, *learnt, n_max=MAX_FEATURES)
    del learnt
    points = vocabulary.ascending(rows, problem.threads, problem.spill)
    del rows  # large
    parameters: dict[str, Any] = {"memory_limit": options.memory_limit, "verbose": options.verbose}
    if options.epochs is not None:
        parameters["epochs"] = options.epochs
    if options.time_budget is not None:
        parameters["time_budget"] = max(deadline - time.monotonic(), 1e-3)
    parameters |= {"runner": problem.runner, "spill": replace(problem.spill, purpose=POSTINGS)}
    data = points, problem.labels, held_out, problem.seed, problem.threads
    model, answers = BlendModel.train(*data, held=corpus.n_bytes, **parameters)
    if answers is not None and not problem.exclusive:
        model = model.with_threshold(answers, problem.labels.take(answers.held))
    return MeasuredBlend(vocabulary, model, answers)
