"""How a text classifier learns: features, held-out texts, calibration, search, and the model that is kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.batches import Rows
from sparsenet.estimators.fitting import split
from sparsenet.estimators.inference import is_hit
from sparsenet.estimators.targets import Target
from sparsenet.text import calibration, linear
from sparsenet.text.corpus import Corpus
from sparsenet.text.featuriser import FeatureRules, TextRows, encode, extract
from sparsenet.text.fitted import Fitted
from sparsenet.text.inputs import check_lengths
from sparsenet.text.linear import LinearModel, LinearRules, both_classes
from sparsenet.text.network import MOST_FEATURES, NetworkModel
from sparsenet.text.settings import TextSettings
from sparsenet.text.spilling import Spill
from sparsenet.text.vocabulary import Vocabulary

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]
#: Passes that are enough to measure and calibrate on held-out texts.
QUICK_EPOCHS = 5
COSTS = (1.0, 0.3, 3.0)
#: Bytes of features that two trainings may share the machine on: some seconds of training.
MOST_SIDE_BY_SIDE = 1 << 26
#: A network takes a step in any case.
LEAST_SECONDS = 1e-3


@dataclass(frozen=True, eq=False)
class Problem:
    """Texts as counted features, and their labels as columns of a model."""

    rows: TextRows
    labels: Rows
    exclusive: bool
    costs: F32 | None
    seed: int
    threads: int
    memory_limit: int | None

    @cached_property
    def spill(self) -> Spill:
        """Where large arrays go."""
        return Spill.within(self.memory_limit)

    def columns(self, labels: Rows) -> Rows:
        """Return what is learnt: for two exclusive classes, whether it is the second."""
        if not self.exclusive or labels.width != 2:
            return labels
        second = labels.indices == 1
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(second)))
        n = int(indptr[-1])
        return Rows(indptr, np.zeros(n, np.int32), np.ones(n, np.float32), 1)

    def weighed(self, rules: LinearRules, n_columns: int) -> tuple[LinearRules, F32 | None]:
        """Return the rules and the costs of so many columns."""
        costs = self.costs
        if costs is None or n_columns == len(costs):
            return rules, costs
        # One column for two classes: its negative texts are the positive ones of the other.
        return replace(rules, cost=rules.cost * float(costs[0])), costs[1:] / costs[0]

    def learn(self, features: FeatureRules, rules: LinearRules) -> tuple[Vocabulary, LinearModel]:
        """Train a model on all texts."""
        vocabulary = Vocabulary.learn(features, self.rows, self.labels)
        return vocabulary, self.train(self.rows, self.labels, vocabulary, rules)

    def train(self, rows: TextRows, labels: Rows, vocabulary: Vocabulary, rules: LinearRules) -> LinearModel:
        """Train a model on some of the texts."""
        points, columns = vocabulary.points(rows, self.threads, self.spill), self.columns(labels)
        rules, costs = self.weighed(rules, columns.width)
        return linear.train_model(points, columns, rules, self.seed, self.threads, costs, self.memory_limit)


def fit(
    corpus: Corpus, settings: TextSettings, seed: int, threads: int
) -> tuple[Fitted, float | None, list[dict[str, Any]]]:
    """Return a fitted model, the share of held-out texts that it got right, and what a search tried."""
    deadline = time.monotonic() + (settings.time_budget or 0)
    features, rules, labels, target = corpus.rules, settings.linear, corpus.labels, corpus.target
    counts = np.bincount(labels.indices, minlength=labels.width)
    costs = class_costs(settings.class_weight, target, counts)
    problem = Problem(corpus.rows, labels, target.kind == "single", costs, seed, threads, settings.memory_limit)
    if settings.is_network(len(problem.rows.slots), labels.width):
        return fit_network(problem, target, counts, features, settings)
    n_held = settings.held_out(len(labels), labels.width)
    held = split(len(labels), n_held, seed) if n_held > 0 else None
    trial, search = None, []
    if held is not None and settings.time_budget is not None:
        trial = measure(problem, features, rules, held)
        search = [trial, *further_trials(problem, corpus, features, rules, held, trial, deadline)]
        trial = max(search, key=lambda tried: tried["score"])
        if trial["features"] != features and corpus.features is not None:
            features = trial["features"]
            problem = replace(problem, rows=corpus.features(features))
        rules, held = replace(rules, cost=trial["cost"]), None
    if held is None:
        vocabulary, model = problem.learn(features, rules)
    else:
        trial, (vocabulary, model) = measured_and_learnt(problem, features, rules, held)
    score: float | None = None
    if trial is not None:
        score, model = trial["score"], model.calibrated(trial["steepness"], trial["shift"])
    return Fitted(target, vocabulary, model, counts, len(labels)), score, [described(tried) for tried in search]


def fit_network(
    problem: Problem, target: Target, counts: I64, features: FeatureRules, settings: TextSettings
) -> tuple[Fitted, float | None, list[dict[str, Any]]]:
    """Do the same with a network, which is not trained on the texts it is measured on.

    Features are weighed by the labels of these too: to go through all texts once more would cost more than it tells.
    """
    labels, threads = problem.labels, problem.threads
    _check_unweighed(settings)
    vocabulary, score = Vocabulary.learn(features, problem.rows, labels, most=MOST_FEATURES), None
    n_held = settings.left_out(len(labels))
    held = split(len(labels), n_held, problem.seed) if n_held > 0 else None

    def part(texts: I64 | None) -> tuple[Rows, Rows]:
        rows = problem.rows if texts is None else problem.rows.take(texts, problem.spill)
        return vocabulary.points(rows, threads, problem.spill), labels if texts is None else labels.take(texts)

    kept = part(None if held is None else held[0])
    seconds = None if settings.time_budget is None else max(settings.time_budget, LEAST_SECONDS)
    parameters: dict[str, Any] = {"time_budget": seconds, "memory_limit": settings.memory_limit}
    model = NetworkModel.train(*kept, problem.seed, threads, **parameters)
    if held is not None:
        others, truth = part(held[1])
        model = model.calibrated(others, truth, threads, exclusive=problem.exclusive)
        score = float(is_hit(model.best(others, 1, threads)[0][:, 0], truth).mean())
    return Fitted(target, vocabulary, model, counts, len(labels)), score, []


def _check_unweighed(settings: TextSettings) -> None:
    if settings.class_weight is not None:
        raise ValueError("class_weight must be None where there are so many labels and texts that a network is trained")


def refit(
    fitted: Fitted, texts: list[str], y: Any, classes: Any, settings: TextSettings, seed: int, threads: int
) -> Fitted:
    """Return the model after further texts, whose labels and words may be new."""
    new, labels = grown_target(fitted.target, y, classes)
    check_lengths(texts, labels)
    where = np.searchsorted(new.classes, fitted.target.classes) if len(new.classes) else np.empty(0, np.int64)
    text, offsets = encode(texts)
    rows = extract(text, offsets, fitted.vocabulary.rules, threads)
    vocabulary, features = fitted.vocabulary.grown(rows, fitted.n_texts)
    counts = np.bincount(labels.indices, minlength=len(new.classes))
    counts[where] += fitted.counts
    about = (counts, fitted.n_texts + len(labels), fitted.calls + 1)
    if isinstance(fitted.model, NetworkModel):
        _check_unweighed(settings)
        network = fitted.model.learn_on(vocabulary.points(rows, threads), labels, (features, where), threads)
        return Fitted(new, vocabulary, network, *about)
    before = fitted.model.weights() if fitted.weight is None else fitted.weight
    exclusive = new.kind == "single"
    if exclusive and before.shape[1] == 1 and len(new.classes) > 2:
        before = both_classes(before, len(where))
    if exclusive and len(where) == 1 and len(new.classes) == 2 and where[0] == 0:
        before = -before  # the column of the one label was its own, and is now that of the second
    width = 1 if exclusive and before.shape[1] == 1 else len(new.classes)
    start = np.zeros((len(vocabulary) + 1, width), np.float32)
    start[-1] = -1  # what a label is that no text has had
    places = np.arange(1) if width == 1 else where
    start[np.ix_(np.append(features, len(vocabulary)), places)] = before
    costs = class_costs(settings.class_weight, new, counts)
    problem = Problem(rows, labels, exclusive, costs, seed, threads, settings.memory_limit)
    columns = problem.columns(labels) if width == 1 else labels
    rules, costs = problem.weighed(settings.linear, width)
    points = vocabulary.points(rows, threads)
    stiffness = (fitted.n_texts + len(labels)) / max(len(labels), 1)
    weight = linear.train_on(points, columns, rules, seed, threads, start, stiffness, costs)
    model = LinearModel.rounded(weight).calibrated(fitted.model.steepness, fitted.model.shift)
    return Fitted(new, vocabulary, model, *about, weight)


def grown_target(target: Target, y: Any, classes: Any = None) -> tuple[Target, Rows]:
    """Return a target that knows the labels of y and of `classes` too, and y in its terms."""
    own, _ = Target.learn(y)
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
        raise ValueError(
            f"{name} holds labels such as {more[0]!r}, the model knows such as {known[0]!r}: use one type for all"
        )
    dtype = np.result_type(known, more)
    if dtype.kind == "f" and "f" not in (known.dtype.kind, more.dtype.kind):  # which not all of 64 bits fit into
        raise ValueError(f"{name} holds {more.dtype} labels, the model knows {known.dtype}: use one type for all")
    return np.array(sorted({*known.tolist(), *more.tolist()}), dtype=dtype)


# --- measuring on held-out texts ---


def measure(problem: Problem, features: FeatureRules, rules: LinearRules, held: tuple[I64, I64]) -> dict[str, Any]:
    """Train on some texts and measure on the others, with features and weights of the former alone."""
    (kept, labels), (others, truth) = (
        (problem.rows.take(part, problem.spill), problem.labels.take(part)) for part in held
    )
    vocabulary = Vocabulary.learn(features, kept, labels)
    quick = replace(rules, epochs=min(rules.epochs, QUICK_EPOCHS))
    model = problem.train(kept, labels, vocabulary, quick)
    scores = both_classes(model.scores(vocabulary.points(others, problem.threads), problem.threads), truth.width)
    steepness, shift = calibration.fit(scores, truth, exclusive=problem.exclusive)
    best = scores.argmax(axis=1).astype(np.int64)
    score = float(is_hit(best, truth).mean())
    return {"score": score, "steepness": steepness, "shift": shift, "features": features, "cost": rules.cost}


def measured_and_learnt(
    problem: Problem, features: FeatureRules, rules: LinearRules, held: tuple[I64, I64]
) -> tuple[dict[str, Any], tuple[Vocabulary, LinearModel]]:
    """Measure, and train the model that is kept: side by side where one alone would leave threads idle.

    Labels of a block are trained together, by one thread: with a single block there is nothing else for the others.
    """
    # Both hold features, and Ctrl-C waits for what goes on at the side: on large data neither would do.
    is_small = problem.rows.slots.nbytes <= min(problem.spill.most_bytes // 2, MOST_SIDE_BY_SIDE)
    if problem.threads < 2 or problem.labels.width > linear.block_width(problem.labels.width) or not is_small:
        return measure(problem, features, rules, held), problem.learn(features, rules)
    half = problem.threads // 2
    limit = None if problem.memory_limit is None else problem.memory_limit // 2
    with ThreadPoolExecutor(1) as side:
        measured = side.submit(measure, replace(problem, threads=half, memory_limit=limit), features, rules, held)
        learnt = replace(problem, threads=problem.threads - half, memory_limit=limit).learn(features, rules)
        return measured.result(), learnt


def further_trials(
    problem: Problem,
    corpus: Corpus,
    features: FeatureRules,
    rules: LinearRules,
    held: tuple[I64, I64],
    first: dict[str, Any],
    deadline: float,
) -> Iterator[dict[str, Any]]:
    """Try other costs, then, with the best of these, other lengths of n-grams, while there is time."""
    started, slowest, best = time.monotonic(), 0.0, first

    def time_left() -> bool:
        return time.monotonic() + 2 * slowest < deadline  # one more, and what follows

    for cost in COSTS:
        if cost != rules.cost and time_left():
            trial = measure(problem, features, replace(rules, cost=cost), held)
            slowest, started = max(slowest, time.monotonic() - started), time.monotonic()
            best = max(best, trial, key=lambda tried: tried["score"])
            yield trial
    again = corpus.features
    for n_words in (3, 1):
        if n_words != features.word_ngrams and again is not None and time_left():
            other = replace(features, word_ngrams=n_words)
            changed = replace(problem, rows=again(other))
            yield measure(changed, other, replace(rules, cost=best["cost"]), held)
            slowest, started = max(slowest, time.monotonic() - started), time.monotonic()


def described(trial: dict[str, Any]) -> dict[str, Any]:
    """Return what was tried, and how well it did, in the words of the parameters."""
    return {"word_ngrams": trial["features"].word_ngrams, "cost": trial["cost"], "score": trial["score"]}


def class_costs(weight: Any, target: Target, counts: NDArray[np.int64]) -> F32 | None:
    """Return by what the cost of each label's texts is multiplied; None: 1."""
    if weight is None:
        return None
    if isinstance(weight, str):
        return np.asarray(counts.sum() / np.maximum(counts, 1) / len(counts), np.float32)
    unknown = set(weight) - set(target.classes.tolist())
    if unknown:
        raise ValueError(f"class_weight names {min(unknown, key=repr)!r}, which is no label of y")
    found = np.array([weight.get(label, 1.0) for label in target.classes.tolist()], np.float32)
    if not np.all(np.isfinite(found) & (found > 0)):
        raise ValueError("class_weight must hold positive numbers")
    return found
