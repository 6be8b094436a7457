"""Train a model of texts further."""

from __future__ import annotations

import numpy as np

from sparsenet.engines.linear import linear
from sparsenet.engines.linear.calibration import unmeasured
from sparsenet.engines.linear.linear import LinearRules
from sparsenet.engines.linear.linear_model import LinearModel, both_classes
from sparsenet.engines.linear.problem import Problem
from sparsenet.engines.text import unknown
from sparsenet.engines.text.fit_text import FittedText, check_suits, class_costs
from sparsenet.engines.text.text_blend import BlendModel
from sparsenet.engines.text.text_network import NetworkModel
from sparsenet.engines.text.text_options import TextOptions
from sparsenet.features.text.corpus import Corpus
from sparsenet.features.text.dense_view import DenseFeatures
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import F32, I64


def check_grows(fitted: FittedText) -> None:
    """Refuse to train a blend further: its tree has a fixed set of labels."""
    if isinstance(fitted.model, BlendModel):
        raise ValueError(
            "a blend cannot learn further texts: fit it again on all of them, or train method='linear' or 'network'"
        )


def refit(fitted: FittedText, corpus: Corpus, options: TextOptions, *, seed: int, threads: int) -> FittedText:
    """Train a model further on a corpus from `Corpus.of_more`, which may have new labels and words."""
    check_grows(fitted)
    assert not isinstance(fitted.model, BlendModel)
    target, labels = corpus.target, corpus.labels
    # Columns of an indicator keep their places; other labels are sorted, so new ones may come in between.
    stay = target.kind in ("dense", "sparse") or len(target.classes) == 0
    where = np.arange(len(target.classes)) if stay else np.searchsorted(target.classes, fitted.target.classes)
    vocabulary, features = fitted.vocabulary.grown(corpus.rows, fitted.n_texts)
    counts = np.bincount(labels.indices, minlength=len(target.classes))
    counts[where] += fitted.counts
    model: LinearModel | NetworkModel
    weight: F32 | None = None
    if isinstance(fitted.model, NetworkModel):
        check_suits(options, "network")
        points = vocabulary.points(corpus.rows, threads)
        model = fitted.model.learn_on(points, labels, (features, where), seed, threads)
    else:
        costs = class_costs(options.class_weight, target, counts)
        exclusive = target.kind == "single"
        dense = None
        if fitted.view is not None and corpus.vectors is not None:
            dense = DenseFeatures(corpus.vectors, fitted.view.weight)
            features = np.append(features, len(vocabulary) + np.arange(fitted.view.dim))
        problem = Problem(corpus.rows, labels, exclusive, costs, seed, threads, options.memory_limit, dense=dense)
        model, weight = _refit_linear(fitted, fitted.model, problem, vocabulary, (features, where), options.linear)
    n_texts, calls = fitted.n_texts + len(labels), fitted.calls + 1
    kept = {name: one for name, one in fitted.decisions.items() if name == "vectors"}
    about = (target, vocabulary, model, counts, n_texts, calls, weight, fitted.score)
    return FittedText(*about, decisions=kept, view=fitted.view)


def _refit_linear(
    fitted: FittedText,
    before: LinearModel,
    problem: Problem,
    vocabulary: Vocabulary,
    places: tuple[I64, I64],
    rules: LinearRules,
) -> tuple[LinearModel, F32]:
    """Train a linear model further; `places` are the new positions of its features and labels."""
    features, where = places
    n_labels, n_new, exclusive = problem.labels.width, len(problem.labels), problem.exclusive
    n_features = len(vocabulary) + (0 if problem.dense is None else problem.dense.dim)
    if n_features * n_labels > rules.max_dense_weights:
        linear.check_learning_on(n_features, n_labels, problem.memory_limit)
    weight = before.weights() if fitted.weight is None else fitted.weight
    offset = before.offset
    if exclusive and weight.shape[1] == 1 and n_labels > 2:
        weight = both_classes(weight, len(where))
        offset = None if offset is None else both_classes(offset[None], len(where))[0]
    if exclusive and len(where) == 1 and n_labels == 2 and where[0] == 0:
        weight = -weight  # the column of the only label becomes the column of the second
    width = 1 if exclusive and weight.shape[1] == 1 else n_labels
    start = np.zeros((n_features + 1, width), np.float32)
    start[-1] = -1  # the bias of a label without texts
    columns = np.arange(1) if width == 1 else where
    start[np.ix_(np.append(features, n_features), columns)] = weight
    if offset is not None:
        # The offset applies to the earlier texts, so scale it by their fraction.
        moved = np.zeros(width, np.float32)
        moved[columns] = offset * np.float32(fitted.n_texts / (fitted.n_texts + n_new))
        offset = moved
    truth = problem.columns(problem.labels) if width == 1 else problem.labels
    rules, costs = problem.weighted(rules, width)
    points = problem.points(vocabulary, problem.rows)
    # Each earlier text has as much influence on the biases as a new one. Otherwise a call with a single label would
    # move the biases of all other labels too far, above all of the first label, which has learnt little but its bias.
    stiffness = 1.0 + fitted.n_texts
    weight = linear.train_on(points, truth, rules, problem.seed, problem.threads, start, stiffness, costs)
    calibration = before.calibration
    if calibration == unmeasured(len(where), exclusive=exclusive):
        calibration = unmeasured(n_labels, exclusive=exclusive)
    model = linear.rounded(weight, rules).calibrated(calibration).moved(offset)
    about = (fitted.n_texts, where, problem.labels, problem.are_empty(), problem.costs)
    model = unknown.with_more_texts(model, before, *about, exclusive=exclusive)
    return model, weight
