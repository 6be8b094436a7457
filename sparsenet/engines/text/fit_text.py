"""Train a model of texts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.core.ranked import is_hit
from sparsenet.core.rows import Rows
from sparsenet.core.seeds import run_seed
from sparsenet.engines.blend.blend_holdout import BlendHoldout, mean_precision
from sparsenet.engines.linear.calibration import unmeasured
from sparsenet.engines.linear.linear import LinearRules
from sparsenet.engines.linear.linear_model import LinearModel, both_classes
from sparsenet.engines.linear.measuring import MeasuredText, measure, measure_and_learn, search
from sparsenet.engines.linear.problem import Problem
from sparsenet.engines.linear.text_holdout import TextHoldout, draw_holdout
from sparsenet.engines.text import unknown
from sparsenet.engines.text.blend_answers import BlendAnswers
from sparsenet.engines.text.blend_fitting import MeasuredBlend, draw_for_blend, fit_blend
from sparsenet.engines.text.network_answers import NetworkAnswers
from sparsenet.engines.text.text_answers import LinearAnswers
from sparsenet.engines.text.text_blend import BlendModel
from sparsenet.engines.text.text_network import COMPETING, MAX_FEATURES, NetworkModel
from sparsenet.engines.text.text_options import TextOptions, usual_method
from sparsenet.engines.text.vector_weight import choose_weight
from sparsenet.features.targets import Target
from sparsenet.features.text.corpus import Corpus
from sparsenet.features.text.dense_view import DenseFeatures, DenseView
from sparsenet.features.text.featuriser import TextRows
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import F32, I64, Bools
from sparsenet.metrics.ranking import RANKS
from sparsenet.selection.choose import Decision, Option, choose

TextModel = LinearModel | NetworkModel | BlendModel


@dataclass(frozen=True, eq=False)
class FittedText:
    """A fitted text model.

    Attributes
    ----------
    target, vocabulary : Target and Vocabulary
    model : LinearModel, NetworkModel or BlendModel
    counts : ndarray of shape (n_labels,)
        Training texts of each label.
    n_texts, calls : int
        Number of training texts, and of calls of `refit` (see `refit_text`).
    weight : ndarray, optional
        Weights of a linear model before rounding, once `refit` needs them.
    score : float or None
        Fraction of held-out texts whose best label is right; None if none were held out.
    search : sequence of dict
        The parameters that a search tried, and their scores.
    decisions : mapping
        Decisions on the method and of a search, by parameter.
    view : DenseView or None
        The word vectors, whose dimensions follow the features of the vocabulary.
    """

    target: Target
    vocabulary: Vocabulary
    model: TextModel
    counts: NDArray[np.int64]
    n_texts: int
    calls: int = 0
    weight: F32 | None = None
    score: float | None = None
    search: Sequence[dict[str, Any]] = ()
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    view: DenseView | None = None

    @cached_property
    def answers(self) -> LinearAnswers | NetworkAnswers | BlendAnswers:
        """The model in the form that predicts."""
        n_labels = len(self.target.classes)
        if isinstance(self.model, BlendModel):
            return BlendAnswers(self.model, self.vocabulary, self.exclusive)
        if isinstance(self.model, NetworkModel):
            return NetworkAnswers(self.model, self.vocabulary, self.exclusive)
        return LinearAnswers.of(self.model, self.vocabulary, n_labels, exclusive=self.exclusive, view=self.view)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "answers"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"decisions": {}, **state})  # pickles of version 0.1 have none

    @property
    def kind(self) -> str:
        """Return "linear", "network" or "blend"."""
        return {NetworkModel: "network", BlendModel: "blend"}.get(type(self.model), "linear")

    @property
    def method(self) -> Decision:
        """Return the decision between a linear model, a network and a blend."""
        if "method" in self.decisions:
            return self.decisions["method"]
        return usual_method(self.kind, self.n_texts, len(self.target.classes))

    @property
    def char_ngrams(self) -> Decision:
        """Return the decision on the lengths of character n-grams."""
        rules = self.vocabulary.rules
        return Decision(rules.char_lengths, f"for the size of {self.n_texts:,} texts")

    @property
    def choices(self) -> Mapping[str, Decision]:
        """Return the decisions, including the decisions of a blend."""
        of_blend = self.model.fitted.choices if isinstance(self.model, BlendModel) else {}
        return {**of_blend, **self.decisions}

    @property
    def exclusive(self) -> bool:
        """Whether each text has exactly one label."""
        return self.target.kind == "single"

    def hits(self, texts: list[str], truth: Rows, threads: int) -> Bools:
        """Return whether the best label of each text is right."""
        return is_hit(self.answers.winners(texts, threads), truth)


def fit(
    corpus: Corpus,
    options: TextOptions,
    *,
    seed: int,
    threads: int,
    started: float | None = None,
    grows: bool = False,
) -> FittedText:
    """Train a linear model, a network or a blend on labelled texts.

    Parameters
    ----------
    corpus : Corpus
    options : TextOptions
    started : float, optional
        `time.monotonic` at which a time budget began, for example before the texts were read; now by default.
    grows : bool
        Whether `refit` will follow.
    """
    deadline = (time.monotonic() if started is None else started) + (options.time_budget or 0)
    labels, target = corpus.labels, corpus.target
    counts = np.bincount(labels.indices, minlength=labels.width)
    costs = class_costs(options.class_weight, target, counts)
    settings = (costs, seed, threads, options.memory_limit, options.verbose)
    problem = Problem(corpus.rows, labels, target.kind == "single", *settings)
    n_features = len(problem.rows.slots) + (0 if corpus.vectors is None else corpus.vectors.size)
    method = options.by_size(len(labels), n_features, labels.width, grows=grows)
    fraction = options.holdout.validation_fraction
    if method is None:
        held_out = draw_for_blend(labels, fraction, run_seed(seed))
        if held_out.points is not None:
            return _fit_better(problem, corpus, counts, options, held_out, deadline)
        method = Decision("linear", f"{len(labels):,} texts are too few to compare models on a hold-out")
    if method.value == "linear":
        fitted = _fit_linear(problem, corpus, counts, options, deadline, draw_holdout(labels, options.holdout, seed))
    elif method.value == "network":
        n_scored = min(COMPETING, labels.width)
        holdout = draw_holdout(labels, options.holdout, seed, for_good=True, n_scored=n_scored)
        fitted = fit_network(problem, corpus, counts, options, deadline, holdout)
    else:
        check_suits(options, "blend")
        held_out = draw_for_blend(labels, fraction, run_seed(seed))
        fitted = _of_blend(corpus, counts, fit_blend(problem, corpus, options, held_out, deadline))
    is_saved = options.method == "auto" and method != fitted.method
    return replace(fitted, decisions={**fitted.decisions, "method": method}) if is_saved else fitted


def _fit_better(
    problem: Problem, corpus: Corpus, counts: I64, options: TextOptions, held_out: BlendHoldout, deadline: float
) -> FittedText:
    """Train a linear model and a blend without the hold-out, and choose; few texts then train with all features."""
    assert held_out.points is not None
    holdout, labels = held_out.points, problem.labels
    trained = problem, corpus, options, held_out, deadline
    of_blend = fit_blend(*trained, is_compared=True)
    text_holdout = TextHoldout([holdout], for_good=held_out.for_good)
    of_linear = measure(problem, corpus.rules, options.linear, text_holdout)
    vocabulary, model = of_linear[1]
    points = vocabulary.points(problem.rows.take(holdout.held, problem.spill), problem.threads)
    scores = both_classes(model.scores(points, problem.threads), labels.width)
    shifts = 0.0 if of_linear[0].shifts is None else of_linear[0].shifts
    ranked = np.argsort(-(scores + shifts), axis=1, kind="stable")[:, : max(RANKS)].astype(np.int32)
    precision = {
        "linear": mean_precision(is_hit(ranked, labels.take(holdout.held))),
        "blend": of_blend.precision(holdout),
    }
    method = choose([Option(name, name) for name in precision], precision.__getitem__, options.better)
    if method.value == "blend":
        fitted = _of_blend(corpus, counts, of_blend if held_out.for_good else fit_blend(*trained))
    else:
        fitted = _fit_linear(problem, corpus, counts, options, deadline, text_holdout, of_linear)
    return replace(fitted, decisions={**fitted.decisions, "method": method})


def _of_blend(corpus: Corpus, counts: I64, found: MeasuredBlend) -> FittedText:
    model, n_texts = found.model, len(corpus.labels)
    return FittedText(corpus.target, found.vocabulary, model, counts, n_texts, score=found.score)


def _fit_linear(
    problem: Problem,
    corpus: Corpus,
    counts: I64,
    options: TextOptions,
    deadline: float,
    holdout: TextHoldout | None,
    known: tuple[MeasuredText, tuple[Vocabulary, LinearModel]] | None = None,
) -> FittedText:
    """Train a linear model, and calibrate it on held-out texts; `known` is what `measure` found on them already."""
    features, rules, exclusive = corpus.rules, options.linear, problem.exclusive
    measured: MeasuredText | None = None
    tried: list[MeasuredText] = []
    choices: dict[str, Decision] = {}
    view: DenseView | None = None
    if corpus.vectors is not None and options.features.vectors is not None:
        until = None if options.time_budget is None else deadline
        by_weight, measured = choose_weight(problem, corpus.vectors, features, rules, holdout, until)
        view, choices["vectors"] = DenseView(options.features.vectors, by_weight.value), by_weight
        problem = replace(problem, dense=DenseFeatures(corpus.vectors, view.weight))
    if holdout is not None and options.time_budget is not None:
        measured, tried, found = search(problem, corpus, features, rules, holdout, deadline)
        choices |= found
        features, rules = measured.features, measured.rules
        problem = replace(problem, rows=corpus.features_by(features))
    if known is not None and holdout is not None:
        measured, (vocabulary, model) = known
        if not _takes_minutes(problem, options):
            vocabulary, model = problem.learn(features, rules)
    elif holdout is not None and holdout.for_good:
        measured, (vocabulary, model) = measure(problem, features, rules, holdout)
    elif holdout is not None and measured is None:
        measured, (vocabulary, model) = measure_and_learn(problem, features, rules, holdout)
    else:
        vocabulary, model = problem.learn(features, rules)
    if measured is not None:
        model = model.calibrated(measured.calibration, measured.shifts)
    else:
        model = model.calibrated(unmeasured(problem.labels.width, exclusive=exclusive))
    shares = unknown.label_frequencies(problem.labels, problem.are_empty(), problem.costs, exclusive=exclusive)
    model = unknown.with_probabilities(model, shares, exclusive=exclusive)
    score, trials = None if measured is None else measured.score, [one.described() for one in tried]
    about = (corpus.target, vocabulary, model, counts, len(problem.labels))
    return FittedText(*about, score=score, search=trials, decisions=choices, view=view)


def fit_network(
    problem: Problem, corpus: Corpus, counts: I64, options: TextOptions, deadline: float, holdout: TextHoldout | None
) -> FittedText:
    """Train a network, and calibrate it on held-out texts, which neither it nor its features learn from."""
    labels, threads, score = problem.labels, problem.threads, None
    check_suits(options, "network")

    def rows_and_labels(texts: I64) -> tuple[TextRows, Rows]:
        return problem.rows.take(texts, problem.spill), labels.take(texts)

    rows, own = (problem.rows, labels) if holdout is None else rows_and_labels(holdout.turns[0].kept)
    vocabulary = Vocabulary.learn(corpus.rules, rows, own, n_max=MAX_FEATURES)
    points = vocabulary.points(rows, threads, problem.spill)
    del rows  # large
    parameters: dict[str, Any] = {"memory_limit": options.memory_limit, "verbose": options.verbose}
    if options.epochs is not None:
        parameters["epochs"] = options.epochs
    if options.time_budget is not None:
        parameters["time_budget"] = max(deadline - time.monotonic(), 1e-3)  # at least one step
    model = NetworkModel.train(points, own, problem.seed, threads, held=corpus.n_bytes, **parameters)
    if holdout is not None:
        rows, truth = rows_and_labels(holdout.turns[0].held)
        held = vocabulary.points(rows, threads, problem.spill)
        model = model.calibrated(held, truth, threads, exclusive=problem.exclusive)
        score = float(is_hit(model.network.topk(held, 1, threads)[0][:, 0], truth).mean())
    return FittedText(corpus.target, vocabulary, model, counts, len(labels), score=score)


def _takes_minutes(problem: Problem, options: TextOptions) -> bool:
    """Return whether a second linear model would take minutes, so that the first must do."""
    n_labels = problem.labels.width
    return n_labels > options.holdout.max_measured and len(problem.labels) * n_labels > options.holdout.max_pairs


def check_suits(options: TextOptions, method: str) -> None:
    """Refuse parameters that only linear models have; `method` is "network" or "blend"."""
    why = f"method is {method!r}" if options.method == method else "there are too many labels and texts for others"
    if options.class_weight is not None:
        raise ValueError(f"class_weight must be None: it is for linear models, and a {method} is trained ({why})")
    if options.features.vectors is not None:
        raise ValueError(f"vectors must be None: they are for linear models, and a {method} is trained ({why})")
    if options.linear.cost != LinearRules.cost:
        problem = f"is for linear models, and a {method} is trained ({why}): leave it out"
        raise ValueError(f"cost={options.linear.cost:g} {problem}")


def class_costs(weight: Any, target: Target, counts: NDArray[np.int64]) -> F32 | None:
    """Return the cost factor of each label's texts; None if all are 1."""
    if weight is None:
        return None
    if isinstance(weight, str):
        return np.asarray(counts.sum() / np.maximum(counts, 1) / len(counts), np.float32)
    labels = target.classes.tolist()
    if weight and not set(weight).intersection(labels):  # the texts of a fold may lack some labels
        unknown = min(weight, key=repr)
        raise ValueError(f"class_weight names no label of y: it has {unknown!r}, y has labels like {labels[0]!r}")
    return np.array([weight.get(label, 1.0) for label in labels], np.float32)
