"""How a text classifier learns: features, held-out texts, calibration, search, and the model that is kept."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.core.ranked import is_hit
from sparsenet.core.rows import Rows
from sparsenet.engines.linear import linear
from sparsenet.engines.linear.calibration import unmeasured
from sparsenet.engines.linear.linear import LinearRules
from sparsenet.engines.linear.linear_model import both_classes
from sparsenet.engines.linear.measuring import (
    described,
    further_trials,
    held_out,
    measure,
    measured,
    measured_and_learnt,
)
from sparsenet.engines.linear.problem import Problem
from sparsenet.engines.text import unknown
from sparsenet.engines.text.fitted_text import Fitted
from sparsenet.engines.text.text_network import MOST_FEATURES, NetworkModel
from sparsenet.engines.text.text_options import TextSettings
from sparsenet.features.targets import Target
from sparsenet.features.text.corpus import Corpus
from sparsenet.features.text.featuriser import FeatureRules, extract
from sparsenet.features.text.inputs import check_lengths
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import F32, I64
from sparsenet.selection.holdout import split

#: A network takes a step in any case.
LEAST_SECONDS = 1e-3


def fit(
    corpus: Corpus, settings: TextSettings, seed: int, threads: int, started: float
) -> tuple[Fitted, float | None, list[dict[str, Any]]]:
    """Return a fitted model, the share of held-out texts that it got right, and what a search tried.

    A time budget counts from when it `started`, the reading of texts included.
    """
    deadline = started + (settings.time_budget or 0)
    features, rules, labels, target = corpus.rules, settings.linear, corpus.labels, corpus.target
    counts = np.bincount(labels.indices, minlength=labels.width)
    costs = class_costs(settings.class_weight, target, counts)
    about = (costs, seed, threads, settings.memory_limit, settings.verbose)
    problem = Problem(corpus.rows, labels, target.kind == "single", *about)
    if settings.is_network(len(problem.rows.slots), labels.width):
        return fit_network(problem, target, counts, features, settings, deadline)
    held = held_out(labels, settings, seed)
    trial, search = None, []
    if held is not None and settings.time_budget is not None:
        begun = time.monotonic()
        trial = measure(problem, features, rules, held)
        pace = time.monotonic() - begun
        search = [trial, *further_trials(problem, corpus, features, rules, held, trial, pace, deadline)]
        trial = max(search, key=lambda tried: tried["score"])
        if trial["features"] != features and corpus.features is not None:
            features = trial["features"]
            problem = replace(problem, rows=corpus.features(features))
        rules = replace(rules, cost=trial["cost"])
    if held is not None and held.for_good:
        trial, vocabulary, model = measured(problem, features, rules, held)
    elif held is not None and trial is None:
        trial, (vocabulary, model) = measured_and_learnt(problem, features, rules, held)
    else:
        vocabulary, model = problem.learn(features, rules)
    score: float | None = None
    if trial is not None:
        score, model = trial["score"], model.calibrated(trial["calibration"], trial["shifts"])
    else:
        model = model.calibrated(unmeasured(labels.width, exclusive=problem.exclusive))
    is_empty = np.diff(problem.rows.indptr) == 0
    usual = unknown.shares(labels, is_empty, costs, exclusive=problem.exclusive)
    model = unknown.told(model, usual, exclusive=problem.exclusive)
    return Fitted(target, vocabulary, model, counts, len(labels)), score, [described(tried) for tried in search]


def fit_network(
    problem: Problem, target: Target, counts: I64, features: FeatureRules, settings: TextSettings, deadline: float
) -> tuple[Fitted, float | None, list[dict[str, Any]]]:
    """Do the same with a network, which is not trained on the texts it is measured on; a budget ends at `deadline`.

    Features are weighed by the labels of these too: to go through all texts once more would cost more than it tells.
    """
    labels, threads = problem.labels, problem.threads
    _check_suits_network(settings)
    vocabulary, score = Vocabulary.learn(features, problem.rows, labels, most=MOST_FEATURES), None
    n_held = settings.left_out(len(labels))
    held = split(len(labels), n_held, problem.seed) if n_held > 0 else None

    def part(texts: I64 | None) -> tuple[Rows, Rows]:
        rows = problem.rows if texts is None else problem.rows.take(texts, problem.spill)
        return vocabulary.points(rows, threads, problem.spill), labels if texts is None else labels.take(texts)

    kept = part(None if held is None else held[0])
    parameters: dict[str, Any] = {"memory_limit": settings.memory_limit, "verbose": settings.verbose}
    if settings.epochs is not None:
        parameters["epochs"] = settings.epochs
    if settings.time_budget is not None:
        parameters["time_budget"] = max(deadline - time.monotonic(), LEAST_SECONDS)
    model = NetworkModel.train(*kept, problem.seed, threads, **parameters)
    if held is not None:
        others, truth = part(held[1])
        model = model.calibrated(others, truth, threads, exclusive=problem.exclusive)
        score = float(is_hit(model.best(others, 1, threads)[0][:, 0], truth).mean())
    return Fitted(target, vocabulary, model, counts, len(labels)), score, []


def _check_suits_network(settings: TextSettings) -> None:
    """Refuse what only linear models have."""
    why = "method is 'network'" if settings.method == "network" else "of so many labels and texts"
    if settings.class_weight is not None:
        raise ValueError(f"class_weight must be None where a network is trained ({why}), which knows none")
    if settings.linear.cost != LinearRules.cost:
        known = f"is for linear models, and a network is trained ({why}), which knows none: leave it out"
        raise ValueError(f"cost={settings.linear.cost:g} {known}")


def refit(
    fitted: Fitted, texts: list[str], y: Any, classes: Any, settings: TextSettings, seed: int, threads: int
) -> Fitted:
    """Return the model after further texts, whose labels and words may be new."""
    new, labels = grown_target(fitted.target, y, classes)
    check_lengths(texts, labels)
    # Columns of an indicator stay where they are; other labels are in order, and new ones may come between them.
    stay = new.kind in ("dense", "sparse") or len(new.classes) == 0
    where = np.arange(len(new.classes)) if stay else np.searchsorted(new.classes, fitted.target.classes)
    text, offsets = kernels.join_texts(texts)
    rows = extract(text, offsets, fitted.vocabulary.rules, threads)
    vocabulary, features = fitted.vocabulary.grown(rows, fitted.n_texts)
    counts = np.bincount(labels.indices, minlength=len(new.classes))
    counts[where] += fitted.counts
    about = (counts, fitted.n_texts + len(labels), fitted.calls + 1)
    if isinstance(fitted.model, NetworkModel):
        _check_suits_network(settings)
        network = fitted.model.learn_on(vocabulary.points(rows, threads), labels, (features, where), seed, threads)
        return Fitted(new, vocabulary, network, *about)
    if len(vocabulary) * len(new.classes) > linear.MOST_DENSE:
        linear.check_learning_on(len(vocabulary), len(new.classes), settings.memory_limit)
    before = fitted.model.weights() if fitted.weight is None else fitted.weight
    exclusive, offset = new.kind == "single", fitted.model.offset
    if exclusive and before.shape[1] == 1 and len(new.classes) > 2:
        before = both_classes(before, len(where))
        offset = None if offset is None else both_classes(offset[None], len(where))[0]
    if exclusive and len(where) == 1 and len(new.classes) == 2 and where[0] == 0:
        before = -before  # the column of the one label was its own, and is now that of the second
    width = 1 if exclusive and before.shape[1] == 1 else len(new.classes)
    start = np.zeros((len(vocabulary) + 1, width), np.float32)
    start[-1] = -1  # what a label is that no text has had
    places = np.arange(1) if width == 1 else where
    start[np.ix_(np.append(features, len(vocabulary)), places)] = before
    if offset is not None:
        # It is about the texts before, and counts for as much as these are of all.
        moved = np.zeros(width, np.float32)
        moved[places] = offset * np.float32(fitted.n_texts / (fitted.n_texts + len(labels)))
        offset = moved
    costs = class_costs(settings.class_weight, new, counts)
    problem = Problem(rows, labels, exclusive, costs, seed, threads, settings.memory_limit)
    columns = problem.columns(labels) if width == 1 else labels
    rules, costs = problem.weighed(settings.linear, width)
    points = vocabulary.points(rows, threads)
    # Each text before has as much say about the biases as a new one, however many these are. A call of one label alone
    # would else move the biases of all others past what their words say, and that of a first label most of all: nothing
    # told its texts from others, so its bias has most of what its words should have.
    stiffness = 1.0 + fitted.n_texts
    weight = linear.train_on(points, columns, rules, seed, threads, start, stiffness, costs)
    calibration = fitted.model.calibration
    if calibration == unmeasured(len(where), exclusive=exclusive):
        calibration = unmeasured(len(new.classes), exclusive=exclusive)
    model = linear.kept(weight).calibrated(calibration).moved(offset)
    learnt_on = (fitted.model, fitted.n_texts, where, labels, np.diff(rows.indptr) == 0, problem.costs)
    model = unknown.told_on(model, *learnt_on, exclusive=exclusive)
    return Fitted(new, vocabulary, model, *about, weight)


def grown_target(target: Target, y: Any, classes: Any = None) -> tuple[Target, Rows]:
    """Return a target that knows the labels of y and of `classes` too, and y in its terms."""
    own, _ = Target.learn(y, before=target.kind)
    if own.kind != target.kind:
        raise ValueError(f"y must be of the kind {target.kind!r} as it was before, got the kind {own.kind!r}")
    if target.kind in ("dense", "sparse"):
        return target, target.encode(y, classes=classes)
    known = _with_labels(target.classes, own.classes, "y")
    if classes is not None:
        known = _with_labels(known, Target.learn(classes)[0].classes, "classes")
    new = replace(target, classes=known, dtype=known.dtype)
    return new, new.encode(y)


def _with_labels(known: NDArray[Any], more: NDArray[Any], name: str) -> NDArray[Any]:
    """Return labels and further ones, ascending, in a type that holds all of them."""
    if len(more) == 0:
        return known
    if (more.dtype.kind in "OU") != (known.dtype.kind in "OU"):
        (new,), (old,) = more[:1].tolist(), known[:1].tolist()
        raise ValueError(f"{name} holds labels such as {new!r}, the model knows such as {old!r}: use one type for all")
    dtype = np.result_type(known, more)
    if dtype.kind == "f" and "f" not in (known.dtype.kind, more.dtype.kind):  # which not all of 64 bits fit into
        raise ValueError(f"{name} holds {more.dtype} labels, the model knows {known.dtype}: use one type for all")
    return np.array(sorted({*known.tolist(), *more.tolist()}), dtype=dtype)


def class_costs(weight: Any, target: Target, counts: NDArray[np.int64]) -> F32 | None:
    """Return by what the cost of each label's texts is multiplied; None: 1."""
    if weight is None:
        return None
    if isinstance(weight, str):
        return np.asarray(counts.sum() / np.maximum(counts, 1) / len(counts), np.float32)
    labels = target.classes.tolist()
    if weight and not set(weight).intersection(labels):  # a fold may lack some
        unknown = f"class_weight names {min(weight, key=repr)!r}, which is no label of y"
        raise ValueError(f"{unknown}, and none that is one: y has such as {labels[0]!r}")
    return np.array([weight.get(label, 1.0) for label in labels], np.float32)
