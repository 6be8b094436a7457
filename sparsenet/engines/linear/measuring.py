"""How good a linear model of texts is on texts that it has not seen: which these are, and what follows from them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsenet.core.ranked import is_hit
from sparsenet.core.rows import Rows
from sparsenet.engines.linear import calibrating, competing, linear
from sparsenet.engines.linear.calibration import CURVATURE, Calibration
from sparsenet.engines.linear.linear import LinearRules
from sparsenet.engines.linear.linear_model import LinearModel, both_classes
from sparsenet.engines.linear.problem import Problem
from sparsenet.engines.text.text_options import TextSettings
from sparsenet.features.text.corpus import Corpus
from sparsenet.features.text.featuriser import FeatureRules
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import F32, F64, I64
from sparsenet.selection.holdout import split

#: Trials that the training of the model that is kept may take the time of.
TRIALS_AFTER = 2
COSTS = (1.0, 0.3, 3.0)
#: Bytes of features that two trainings may share the machine on: some seconds of training.
MOST_SIDE_BY_SIDE = 1 << 26
#: So many texts can tell enough. Few are held out in turns, up to so many, until each of them was once, or enough were.
ENOUGH, TURNS = 800, 5
#: Where one label has nearly all texts, it is those of the others that tell: so many of them, or more, in further turns
#: if all of these go over no more texts than this.
ENOUGH_OTHERS, FURTHER_TURNS_UP_TO = 200, 40_000
#: The most that are held out, unless there would be too few of other labels.
MOST = 5000
#: Fewer texts can tell nothing.
FEWEST = 10
#: A text that is left out for good leaves its labels at least so many others; where all labels have few texts, one
#: other, and no more than so many are left out.
FEWEST_OF_A_LABEL, MOST_OF_RARE = 4, 200
#: Scores of texts that are held out, and the bytes that each takes: calibration holds several tables of them.
MOST_SCORES, BYTES_OF_A_SCORE = 1 << 24, 64


@dataclass(frozen=True)
class Held:
    """Texts to learn from and to measure on, once or in turns; `for_good` if the model never learns the latter."""

    turns: list[tuple[I64, I64]]
    for_good: bool = False


def held_out(labels: Rows, settings: TextSettings, seed: int) -> Held | None:
    """Choose texts to measure on; None where too few would tell nothing, or where none are to be held out."""
    n, n_labels = len(labels), labels.width
    asked_for = settings.asked_for(n)
    if asked_for is not None:
        return Held([split(n, min(asked_for, _room(settings, n_labels)), seed)]) if asked_for > 0 else None
    if n < FEWEST:
        return None
    if not settings.can_train_twice(n, n_labels):
        return _left_out(labels, settings.left_out(n), seed)
    if n < max(ENOUGH, 4 * n_labels):
        return _in_turns(labels, TURNS, TURNS, seed)
    enough = _enough(labels)
    share = min(max(min(n // 10, MOST), min(enough, n // TURNS)), _room(settings, n_labels))
    n_turns = max(math.ceil(ENOUGH / share), min(math.ceil(enough / share), FURTHER_TURNS_UP_TO // n))
    return _in_turns(labels, n // share, min(n_turns, TURNS), seed)


def _in_turns(labels: Rows, n_parts: int, n_turns: int, seed: int) -> Held:
    """Hold out some of so many parts of the texts, in turn, of which each has its share of each label.

    Parts drawn without regard to labels have more of those that the others have fewer of: what is learnt from these
    looks as if it named them too seldom.
    """
    labelled = np.append(labels.indices, -1)[labels.indptr[:-1]]
    order = np.random.default_rng((seed, 2)).permutation(len(labels))
    part = np.empty(len(labels), np.int64)
    part[order[np.argsort(labelled[order], kind="stable")]] = np.arange(len(labels)) % n_parts
    return Held([(np.flatnonzero(part != turn), np.flatnonzero(part == turn)) for turn in range(n_turns)])


def _room(settings: TextSettings, n_labels: int) -> int:
    """Return of how many texts scores fit into memory."""
    limit = MOST_SCORES if settings.memory_limit is None else settings.memory_limit // BYTES_OF_A_SCORE
    return max(min(limit, MOST_SCORES) // n_labels, FEWEST)


def _enough(labels: Rows) -> int:
    """Return of how many texts enough have other labels than the most frequent one."""
    n_labels = len(labels.indices)
    others = n_labels - int(np.bincount(labels.indices, minlength=1).max())
    return max(ENOUGH, math.ceil(ENOUGH_OTHERS * len(labels) / others)) if others > 0 else ENOUGH


def _left_out(labels: Rows, n_held: int, seed: int) -> Held | None:
    counts = np.bincount(labels.indices, minlength=labels.width)
    # Several texts of a label may be left out, but hardly ever all of them.
    rare = np.append(counts[labels.indices] <= FEWEST_OF_A_LABEL, False)
    spared = np.add.reduceat(rare, labels.indptr[:-1]) == 0 if len(labels) else np.empty(0, bool)
    candidates = np.flatnonzero(spared | (np.diff(labels.indptr) == 0))
    n_held, rng = min(n_held, MOST_SCORES // labels.width), np.random.default_rng((seed, 2))
    others = np.sort(rng.permutation(candidates)[:n_held])
    if len(others) < FEWEST:
        others = _one_of_each(labels, counts, min(n_held, MOST_OF_RARE), rng)
    if len(others) < FEWEST:
        return None
    return Held([(np.setdiff1d(np.arange(len(labels)), others), others)], for_good=True)


def _one_of_each(labels: Rows, counts: I64, n_held: int, rng: np.random.Generator) -> I64:
    """Choose texts that share no label, and leave all of theirs another text."""
    single = np.append(counts[labels.indices] < 2, False)
    can_go = (np.diff(labels.indptr) > 0) & (np.add.reduceat(single, labels.indptr[:-1]) == 0)
    chosen: list[int] = []
    touched: set[int] = set()
    for text in rng.permutation(np.flatnonzero(can_go)).tolist():
        if len(chosen) == n_held:
            break
        own = labels.indices[labels.indptr[text] : labels.indptr[text + 1]].tolist()
        if touched.isdisjoint(own):
            chosen.append(text)
            touched.update(own)
    return np.array(sorted(chosen), np.int64)


def measure(problem: Problem, features: FeatureRules, rules: LinearRules, held: Held) -> dict[str, Any]:
    """Train on some texts and measure on the others, with features and weights of the former alone."""
    return _judged(problem, features, rules, held, [_scored(problem, features, rules, turn)[0] for turn in held.turns])


def measured(
    problem: Problem, features: FeatureRules, rules: LinearRules, held: Held
) -> tuple[dict[str, Any], Vocabulary, LinearModel]:
    """Do the same, with a model that is good enough to be kept; it has not learnt what it was measured on."""
    scores, vocabulary, model = _scored(problem, features, rules, held.turns[0])
    return _judged(problem, features, rules, held, [scores]), vocabulary, model


def _scored(
    problem: Problem, features: FeatureRules, rules: LinearRules, turn: tuple[I64, I64]
) -> tuple[F32, Vocabulary, LinearModel]:
    kept, others = (problem.rows.take(texts, problem.spill) for texts in turn)
    labels = problem.labels.take(turn[0])
    vocabulary = Vocabulary.learn(features, kept, labels)
    model = problem.train(kept, labels, vocabulary, rules)
    scores = model.scores(vocabulary.points(others, problem.threads), problem.threads)
    return both_classes(scores, labels.width), vocabulary, model


def _judged(
    problem: Problem, features: FeatureRules, rules: LinearRules, held: Held, found: list[F32]
) -> dict[str, Any]:
    scores, truth = np.concatenate(found), problem.labels.take(np.concatenate([others for _, others in held.turns]))
    shifts: F64 | None = None
    if problem.exclusive:
        # Of what is left out for good no label is rare: it would look as if rare ones were never right.
        counts = None if held.for_good else np.bincount(problem.labels.indices, minlength=problem.labels.width)
        curvature = CURVATURE if truth.width > 2 else 0.0
        competition = competing.fit(scores, truth, counts, problem.costs, curvature=curvature)
        best = competing.cross_fitted(scores, truth, counts, problem.costs)
        calibration = Calibration(competition.steepness, curvature=curvature)
        shifts = None if held.for_good else competition.shifts
    else:
        best = scores.argmax(axis=1).astype(np.int32)
        calibration = calibrating.fit(scores, truth, exclusive=False)
    score = float(is_hit(best, truth).mean())
    return {"score": score, "calibration": calibration, "shifts": shifts, "features": features, "cost": rules.cost}


def measured_and_learnt(
    problem: Problem, features: FeatureRules, rules: LinearRules, held: Held
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
        trial = side.submit(measure, replace(problem, threads=half, memory_limit=limit), features, rules, held)
        learnt = replace(problem, threads=problem.threads - half, memory_limit=limit).learn(features, rules)
        return trial.result(), learnt


def further_trials(
    problem: Problem,
    corpus: Corpus,
    features: FeatureRules,
    rules: LinearRules,
    held: Held,
    first: dict[str, Any],
    slowest: float,
    deadline: float,
) -> Iterator[dict[str, Any]]:
    """Try other costs, then, with the best of these, other lengths of n-grams, while there is time.

    `slowest` is what the `first` trial took.
    """
    started, best = time.monotonic(), first

    def time_left() -> bool:
        # One more, and the training that follows, on all texts and with up to twice the passes.
        return time.monotonic() + (1 + TRIALS_AFTER) * slowest < deadline

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
