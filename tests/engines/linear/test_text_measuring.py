"""Hold-outs of texts, probabilities fitted on them, and progress of training."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from sparsenet import TextClassifier
from sparsenet.core import progress
from sparsenet.core.rows import Rows
from sparsenet.engines.linear import calibrating, competing, linear
from sparsenet.engines.linear.calibration import CURVATURE, Calibration
from sparsenet.engines.linear.text_holdout import HoldoutOptions, draw_holdout
from sparsenet.engines.text.text_options import TextOptions
from sparsenet.selection.platt import STEEPNESS
from tests.support.texts import planted


def many_topics(n_labels: int, each: int, seed: int, clues: int = 1) -> tuple[list[str], list[str]]:
    """Draw texts of many labels, with words of their label, noise, and at times words of another label."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for label in range(n_labels):
        for _ in range(each):
            about = label if rng.random() < 0.8 else rng.integers(n_labels)
            words = [f"w{about}x{i}" for i in rng.integers(3, size=clues)]
            texts.append(" ".join(rng.permutation([*words, *(f"noise{i}" for i in rng.integers(40, size=5))])))
            labels.append(f"label{label}")
    return texts, labels


def confidence_and_accuracy(model: TextClassifier, texts: list[str], labels: list[str]) -> tuple[float, float]:
    probabilities = model.predict_proba(texts)
    best = model.classes_[probabilities.argmax(axis=1)]
    return float(probabilities.max(axis=1).mean()), float(np.mean(best == np.array(labels)))


def rows(lists: list[list[int]], width: int) -> Rows:
    indptr = np.cumsum([0, *map(len, lists)])
    indices = np.array([label for own in lists for label in own], np.int32)
    return Rows(indptr, indices, np.ones(len(indices), np.float32), width)


def options(**parameters) -> HoldoutOptions:
    return TextOptions.of(TextClassifier(**parameters).get_params()).holdout


#: As if a second training would take minutes from 11 labels and 101 pairs of a text and a label on.
ONCE = {"most_measured": 10, "most_pairs": 100}


class TrainedOnce(TextClassifier):
    def _options(self) -> TextOptions:
        found = super()._options()
        return replace(found, holdout=replace(found.holdout, **ONCE))


@pytest.mark.parametrize("each", [3, 4])
def test_probabilities_are_calibrated_with_few_texts_a_label(each):
    model = TextClassifier(random_state=0, n_jobs=1).fit(*many_topics(60, each, seed=1))
    said, right = confidence_and_accuracy(model, *many_topics(60, 5, seed=2))
    assert model.validation_score_ is not None
    assert abs(said - right) < 0.15, "without these texts: 0.1 said"


@pytest.mark.parametrize(("n_labels", "each", "off"), [(60, 30, 0.1), (200, 3, 0.15)], ids=["frequent", "all rare"])
def test_probabilities_are_calibrated_without_a_second_training(n_labels, each, off):
    model = TrainedOnce(random_state=0, n_jobs=1).fit(*many_topics(n_labels, each, seed=1))
    said, right = confidence_and_accuracy(model, *many_topics(n_labels, 5, seed=2))
    assert model.validation_score_ is not None
    assert abs(said - right) < off
    assert model.n_texts_ == n_labels * each


@pytest.mark.parametrize("how", ["fit", "partial_fit", "labels that come later"])
def test_unmeasured_probabilities_follow_the_number_of_labels(how):
    texts, labels = many_topics(200, 4, seed=1, clues=3)
    model = TextClassifier(random_state=0, n_jobs=1, validation_fraction=0)
    if how == "fit":
        model.fit(texts, labels)
    elif how == "partial_fit":
        model.partial_fit(texts[:400], labels[:400], classes=sorted(set(labels)))
        model.partial_fit(texts[400:], labels[400:])
    else:
        model.partial_fit(texts[:20], labels[:20])
        model.partial_fit(texts[20:], labels[20:])
    said, right = confidence_and_accuracy(model, *many_topics(200, 5, seed=2, clues=3))
    assert model.validation_score_ is None
    assert said > right / 3, "as steep as of two labels: 0.05 said"


def test_cross_validates_few_texts():
    held = draw_holdout(rows([[i % 5] for i in range(40)], 5), options(), seed=0)
    assert held is not None
    assert len(held.turns) == HoldoutOptions.turns
    assert sorted(np.concatenate([others for _, others in held.turns]).tolist()) == list(range(40))
    assert all(np.intersect1d(kept, others).size == 0 for kept, others in held.turns)
    assert draw_holdout(rows([[0]] * 9, 1), options(), seed=0) is None
    assert draw_holdout(rows([[i % 5] for i in range(40)], 5), options(validation_fraction=0), seed=0) is None


def test_the_hold_out_leaves_a_text_of_each_label():
    once = replace(options(), **ONCE)
    lists = [[i % 20] for i in range(400)] + [[20 + i] for i in range(50)] + [[0, 20]] * 3 + [[]] * 2
    held = draw_holdout(rows(lists, 70), once, seed=0)
    assert held is not None
    assert held.for_good
    ((kept, others),) = held.turns
    assert len(others) == len(lists) // 20
    assert sorted([*kept, *others]) == list(range(len(lists)))
    assert all(label < 20 for text in others for label in lists[text])
    assert draw_holdout(rows([[i] for i in range(300)], 300), once, seed=0) is None, "none has another"
    fewer = draw_holdout(rows(lists, 70), replace(once, most_scores=70 * 12), seed=0)
    assert fewer is not None
    assert len(fewer.turns[0][1]) == 12


def test_a_hold_out_takes_one_text_of_a_rare_label():
    # Labels have two or three texts, labels from 400 on have one, and some texts have no label.
    pairs, singles = [[i, i + 1] for i in range(400)], [[i] for i in range(0, 400, 2)]
    lists = pairs + singles + [[400 + i] for i in range(50)] + [[]] * 9
    held = draw_holdout(rows(lists, 450), replace(options(), **ONCE), seed=0)
    assert held is not None
    ((kept, others),) = held.turns
    left = [label for text in others for label in lists[text]]
    assert len(others) == len(lists) // 20
    assert len(left) == len(set(left))
    assert set(left) <= {label for text in kept for label in lists[text]}


def test_the_hold_out_is_bounded_by_memory():
    labels = rows([[i % 900] for i in range(9000)], 900)
    held = draw_holdout(labels, options(validation_fraction=0.5, memory_limit="10MB"), seed=0)
    assert held is not None
    assert [len(others) for _, others in held.turns] == [10_000_000 // 64 // 900]
    held = draw_holdout(labels, options(memory_limit="1MB"), seed=0)
    assert held is not None
    assert len(held.turns) == HoldoutOptions.turns, "no more trainings, however little each tells"
    assert all(len(others) < 20 for _, others in held.turns)


def test_few_texts_move_the_slope_a_little():
    scores, truth = np.array([[1.0, -1.0]], np.float32), rows([[0]], 2)
    found = calibrating.fit(scores, truth, exclusive=True)
    assert 2 < found.steepness < 3, "without what was believed before: as steep as it may be"
    assert (found.shift, found.threshold) == (0, 0.5)
    again = calibrating.fit(np.repeat(scores, 5000, axis=0), rows([[0]] * 5000, 2), exclusive=True)
    assert again.steepness > 4


def test_uses_as_many_folds_as_needed():
    for n, n_turns in ((799, 5), (801, 5), (1500, 3), (2500, 2), (4000, 1), (20_000, 1), (80_000, 1)):
        held = draw_holdout(rows([[i % 5] for i in range(n)], 5), options(), seed=0)
        assert held is not None
        others = np.concatenate([own for _, own in held.turns])
        assert len(held.turns) == n_turns
        assert (
            len(np.unique(others))
            == len(others)
            == max(len(others), min(n, HoldoutOptions.enough))
            <= HoldoutOptions.most
        )
        for kept, own in held.turns:
            assert sorted([*kept, *own]) == list(range(n))
            assert len(own) <= n / 5 + 1


def test_holds_out_more_texts_of_imbalanced_labels():
    for n, one_in, n_turns, n_held in (
        (4000, 20, 5, 4000),
        (8000, 20, 3, 4800),
        (12_000, 5, 1, 1200),
        (30_000, 50, 1, 6000),
        (30_000, 15_000, 1, 6000),
        (200_000, 100, 1, 20_000),
    ):
        held = draw_holdout(rows([[int(i % one_in == 0)] for i in range(n)], 2), options(), seed=0)
        assert held is not None
        others = np.concatenate([own for _, own in held.turns])
        assert (len(held.turns), len(others), len(np.unique(others))) == (n_turns, n_held, n_held), (n, one_in)
    held = draw_holdout(rows([[0]] * 20_000, 1), options(), seed=0)
    assert held is not None
    assert [len(own) for _, own in held.turns] == [2000], "of one label alone there is nothing to tell"


def competitors(n: int, shares: list[float], shifts: list[float], seed: int = 0) -> tuple[np.ndarray, Rows, np.ndarray]:
    """Draw scores, lower for rare labels, labels from the softmax of four times the shifted scores, and counts."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(-0.7 + np.log(shares) / 4, 0.5, (n, len(shares))).astype(np.float32)
    logits = 4 * (scores + np.array(shifts))
    right = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return scores, rows([[int(label)] for label in right], len(shares)), np.bincount(right, minlength=len(shares))


def improbability(scores: np.ndarray, labels: Rows, found: competing.Competition) -> float:
    logits = found.steepness * (scores + found.shifts)
    return float((np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(scores)), labels.indices]).mean())


def test_shifts_labels_that_win_too_seldom():
    shifts = [0.0, 0.2, 0.1, 0.4]
    scores, labels, counts = competitors(20_000, [0.6, 0.3, 0.08, 0.02], shifts)
    found = competing.fit(scores, labels, counts)
    assert found.steepness == pytest.approx(4.0, rel=0.05)
    np.testing.assert_allclose(found.shifts - found.shifts[0], shifts, atol=0.04)
    plain = competing.fit(scores, labels)
    assert plain.shifts.tolist() == [0, 0, 0, 0]
    assert improbability(scores, labels, found) < improbability(scores, labels, plain) - 0.05


def test_few_texts_shift_by_frequency_only():
    scores, labels, counts = competitors(60, [0.95, 0.05], [-0.15, 0.15])
    assert 0.1 < np.diff(competing.fit(scores, labels, counts).shifts)[0] < 0.6
    even = competing.fit(scores, labels, np.array([30, 30])).shifts
    assert np.abs(even).max() < 0.07, "nothing is rare: what 60 texts say of a label is chance"
    nothing = competing.fit(scores[:0], labels.take(np.arange(0)), counts)
    assert nothing.steepness == pytest.approx(2.0)
    assert nothing.shifts.tolist() == [0, 0]


def test_rare_labels_are_never_shifted_down():
    """Texts without information have frequent labels more often, which must not lower the trust in other texts."""
    rng = np.random.default_rng(0)
    shares = np.array([0.6, *np.full(40, 0.01)])
    right = rng.choice(41, 600, p=shares)
    scores = rng.normal(-0.9, 0.02, (600, 41)).astype(np.float32)
    told = rng.random(600) < 0.5
    scores[np.flatnonzero(told), right[told]] = rng.normal(0.2, 0.3, np.count_nonzero(told))
    found = competing.fit(scores, rows([[int(label)] for label in right], 41), np.bincount(right, minlength=41))
    rare = found.shifts[1:]
    assert np.ptp(rare) < 0.1, "all have as many texts"
    best = (scores + found.shifts).argmax(axis=1)
    sure = told & (scores.max(axis=1) > -0.5)
    assert (best[sure] == right[sure]).mean() > 0.97


def test_the_softmax_fit_reaches_the_optimum():
    rng = np.random.default_rng(0)
    steepest = []
    rarity = []
    for i in range(60):
        n, n_labels = int(rng.integers(1, 400)), int(rng.integers(2, 20))
        shares = rng.dirichlet(np.full(n_labels, rng.uniform(0.2, 3)))
        by_rarity, own = rng.uniform(-0.5, 0.1), rng.normal(0, rng.uniform(0, 0.2), n_labels)
        scores, labels, counts = competitors(n, shares, (by_rarity * np.log(shares) + own).tolist())
        scores *= 1 if i < 40 else 0.05  # here the upper bound of the slope barely suffices
        costs = rng.uniform(0.1, 50, n_labels).astype(np.float32) if rng.random() < 0.5 else None
        weights = np.ones(n) if costs is None else costs[labels.indices].astype(float)
        weights *= weights.sum() / np.square(weights).sum()
        common = np.log(np.maximum(counts, 1)) - np.log(np.maximum(counts, 1)).mean()

        def loss(x: np.ndarray, scores=scores, labels=labels, weights=weights, common=common) -> float:
            logits = np.exp(x[0]) * scores.astype(float) + x[1] * common + x[2:]
            each = np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(scores)), labels.indices]
            both = (x[:2] - [competing.PRIOR.log_steepness, 0]) / [1, competing.PRIOR.by_rarity]
            return float(weights @ each + (np.sum(both**2) + np.sum((x[2:] / competing.PRIOR.own) ** 2)) / 2)

        start = np.concatenate([[competing.PRIOR.log_steepness, 0], np.zeros(n_labels)])
        bounds = [competing.LOG_STEEPNESS, (None, 0)] + [(None, None)] * n_labels
        best = minimize(loss, start, bounds=bounds, method="L-BFGS-B", options={"maxfun": 100_000})
        at = competing._minimum(competing._HeldOutScores.of(scores.astype(float), labels.indices, counts, costs))
        rarity.append(at.by_rarity == 0)
        steepest.append(at.log_steepness == competing.LOG_STEEPNESS[1])
        assert loss(np.concatenate([[at.log_steepness, at.by_rarity], at.own])) <= best.fun + 1e-4 * n
    assert 5 < sum(rarity[:40]) < 38
    assert 5 < sum(steepest) < 30


def test_fits_the_curvature_of_scores():
    rng = np.random.default_rng(0)
    scores = rng.normal(-0.5, 0.6, (20_000, 4)).astype(np.float32)
    says = np.where(scores < 1, scores - 0.4 * scores**2, 0.6 + 0.2 * (scores - 1))
    right = (4 * says + rng.gumbel(size=says.shape)).argmax(axis=1)
    labels = rows([[int(label)] for label in right], 4)
    found = competing.fit(scores, labels, curvature=0.4)
    assert found.steepness == pytest.approx(4.0, rel=0.05)
    curve = Calibration(found.steepness, curvature=0.4)
    likely = curve.probabilities(scores, exclusive=True)
    assert (likely.argsort(axis=1) == scores.argsort(axis=1)).all()
    told = curve.scores_of(likely[:100].astype(float), exclusive=True).astype(np.float32)
    np.testing.assert_allclose(curve.probabilities(told, exclusive=True), likely[:100], rtol=1e-4)
    both = np.array([[-0.7, 0.7]], np.float32)
    straight = Calibration(curve.steepness).probabilities(both, exclusive=True)
    np.testing.assert_allclose(curve.probabilities(both, exclusive=True), straight, rtol=1e-5)


def test_fits_curvature_for_three_labels_but_not_for_two():
    texts, labels = planted(200)
    curvatures = {}
    for n_labels in (2, 3):
        few = [
            (text, label) for text, label in zip(texts, labels, strict=True) if label in sorted(set(labels))[:n_labels]
        ]
        model = TextClassifier(random_state=0).fit(*zip(*few, strict=True))
        curvatures[n_labels] = model._fitted.model.calibration.curvature
    assert curvatures == {2: 0.0, 3: CURVATURE}


def test_ignores_labels_unknown_to_a_fold():
    scores, labels, counts = competitors(400, [0.6, 0.3, 0.1], [0.0, 0.0, 0.0])
    more = np.hstack([scores, np.zeros((400, 2), np.float32)])
    alone = rows([*([int(label)] for label in labels.indices), [3], [4]], 5)
    found = competing.fit(np.vstack([more, more[:2]]), alone, np.array([*counts, 1, 1]))
    expected = competing.fit(scores, labels, counts)
    assert found.steepness == expected.steepness
    np.testing.assert_array_equal(found.shifts, [*expected.shifts, *[expected.shifts[counts.argmin()]] * 2])
    to_come = competing.fit(more, rows([[int(label)] for label in labels.indices], 5), np.array([*counts, 1, 0]))
    assert to_come.shifts[4] == to_come.shifts.min()


def test_shifts_stay_small_if_scores_say_little():
    rng = np.random.default_rng(0)
    right = rng.choice(3, 3000, p=[0.9, 0.09, 0.01])
    truth, counts = rows([[int(label)] for label in right], 3), np.bincount(right)
    found = competing.fit(rng.normal(0, 0.1, (3000, 3)).astype(np.float32), truth, counts)
    assert np.abs(found.shifts).max() <= competing.PRIOR.farthest
    assert (np.diff(found.shifts) < 0).all()


def test_validates_each_half_on_the_other():
    rng = np.random.default_rng(0)
    scores, labels = np.zeros((400, 2), np.float32), rng.integers(2, size=400)
    winners = competing.cross_fitted(scores, rows([[int(label)] for label in labels], 2), np.array([200, 200]))
    halves = [set(winners[half::2].tolist()) for half in (0, 1)]
    assert halves == [{int(labels[1 - half :: 2].mean() > 0.5)} for half in (0, 1)]


def drawn(
    n: int, n_labels: int, steepness: float, shift: float, seed: int = 0, mean: float = -0.8, spread: float = 0.4
) -> tuple[np.ndarray, Rows]:
    """Draw scores, and labels with log-odds that follow from the scores."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(mean, spread, (n, n_labels)).astype(np.float32)
    truth = rng.random(scores.shape) < 1 / (1 + np.exp(-(steepness * scores + shift)))
    return scores, rows([np.flatnonzero(own).tolist() for own in truth], n_labels)


@pytest.mark.parametrize(("n", "n_labels"), [(20_000, 5), (100, 1000)])
@pytest.mark.parametrize(("steepness", "shift"), [(5.0, 1.0), (3.0, -2.0), (12.0, 0.0)])
def test_multi_label_probabilities_are_calibrated(n, n_labels, steepness, shift):
    found = calibrating.fit(*drawn(n, n_labels, steepness, shift), exclusive=False)
    assert found.steepness == pytest.approx(steepness, rel=0.1), "whatever was believed before"
    assert found.shift == pytest.approx(shift, abs=0.25)


@pytest.mark.parametrize("mean", [-4.0, -8.0, -12.0, -16.0, 10.0])
@pytest.mark.parametrize("rarity", [0.0, 4.0])
def test_extreme_scores_have_finite_probabilities(mean, rarity):
    """A network of rare labels has such scores."""
    scores, labels = drawn(500, 200, 1.0, -mean - rarity, mean=mean, spread=2.0)
    found = calibrating.fit(scores, labels, exclusive=False)
    assert found.steepness == pytest.approx(1.0, rel=0.1)
    assert found.shift == pytest.approx(-mean - rarity, abs=0.1 * abs(mean))


def test_the_slope_search_reaches_the_optimum():
    rng = np.random.default_rng(0)
    for _ in range(60):
        n, n_labels = int(rng.integers(20, 300)), int(rng.integers(1, 60))
        steepness, mean, spread = (
            float(np.exp(rng.uniform(-2, 2))),
            float(rng.uniform(-20, 10)),
            float(rng.uniform(0.1, 3)),
        )
        scores, labels = drawn(n, n_labels, steepness, rng.uniform(-6, 2) - steepness * mean, 1, mean, spread)
        truth = np.zeros(scores.shape, bool)
        truth[np.repeat(np.arange(n), np.diff(labels.indptr)), labels.indices] = True
        right = truth.sum()
        target = np.where(truth, (right + 1) / (right + 2), 1 / (truth.size - right + 2))

        def loss(x: np.ndarray, scores=scores, target=target, n_cells=truth.size, n=n, n_labels=n_labels) -> float:
            logits = np.exp(x[0]) * scores.astype(float) + x[1]
            belief = 0.5 / n / n_labels * (x[0] - np.log(2.0)) ** 2
            return float((np.logaddexp(0, logits) - target * logits).mean() + belief)

        found = calibrating.fit(scores, labels, exclusive=False)
        here = np.array([np.log(found.steepness), found.shift])
        low, high = np.log(STEEPNESS)
        for a, b in [(0.02, 0), (-0.02, 0), (0, 0.05), (0, -0.05), (0.02, -0.02 * mean * found.steepness)]:
            there = np.add(here, (a, b))
            if low <= there[0] <= high:
                assert loss(here) <= loss(there) + 1e-6


def test_few_texts_do_not_make_a_label_certain():
    scores = np.zeros((20, 3), np.float32)
    for labels, expected in (([[]] * 20, 1 / 62), ([[0, 1, 2]] * 20, 61 / 62)):
        found = calibrating.fit(scores, rows(labels, 3), exclusive=False).probabilities(scores[:1], exclusive=False)
        np.testing.assert_allclose(found, expected, rtol=0.01)


def test_unpredictable_labels_are_not_all_predicted():
    rng = np.random.default_rng(0)
    scores = rng.normal(-1, 0.1, (300, 200)).astype(np.float32)
    labels = rows([[int(i)] for i in rng.integers(0, 200, 300)], 200)
    found = calibrating.fit(scores, labels, exclusive=False)
    assert found.chosen(scores).sum() <= 3 * 300 * 1.05


def test_the_threshold_maximizes_f1():
    scores, labels = drawn(4000, 20, 5.0, 1.0)
    found = calibrating.fit(scores, labels, exclusive=False)
    truth = np.zeros(scores.shape, bool)
    truth[np.repeat(np.arange(len(labels)), np.diff(labels.indptr)), labels.indices] = True

    def f1(chosen: np.ndarray) -> float:
        return float(2 * (truth & chosen).sum() / (truth.sum() + chosen.sum()))

    best = max(f1(found.chosen(scores, t)) for t in np.linspace(0.01, 0.99, 99))
    assert best - 0.003 < f1(found.chosen(scores)) < 0.9
    assert f1(found.chosen(scores)) > f1(found.chosen(scores, 0.5)) + 0.02
    assert found.threshold == pytest.approx(best / 2, abs=0.05), "as it is where probabilities are right"
    unseen = calibrating.fit(scores, labels, exclusive=False, missed=10 * len(labels.indices))
    assert unseen.threshold < found.threshold, "with so many missed, each label that is found counts"
    np.testing.assert_array_equal(found.chosen(scores), found.probabilities(scores, exclusive=False) > found.threshold)
    assert found.chosen(scores, 0.0).all()
    assert not found.chosen(scores, 1.0).any()


def test_learns_no_threshold_without_true_labels():
    found = calibrating.fit(np.zeros((20, 3), np.float32), rows([[]] * 20, 3), exclusive=False)
    assert found.threshold == 0.5


def test_bounds_apply_to_the_slope_only():
    scores = np.repeat(np.array([[0.1], [-0.1]], np.float32), 5000, axis=0) + 0.5
    found = calibrating.fit(scores, rows([[0]] * 5000 + [[]] * 5000, 1), exclusive=False)
    assert found.steepness == STEEPNESS[1]
    assert found.shift == pytest.approx(-0.5 * found.steepness, abs=0.1)
    assert found.threshold == pytest.approx(0.5, abs=0.01), "in the middle of those that are as good"


def unbalanced(n: int, share: float, seed: int) -> tuple[list[str], list[str]]:
    """Draw texts with few about food; a third of all words are three times as frequent."""
    rng = np.random.default_rng(seed)
    about_food = rng.random(n) < share
    chances = np.ones(600)
    chances[:200] *= 3
    food, other = rng.choice(600, (n, 40), p=chances / chances.sum()), rng.integers(600, size=(n, 40))
    texts = [" ".join(f"w{word}" for word in own) for own in np.where(about_food[:, None], food, other)]
    return texts, np.where(about_food, "food", "other").tolist()


def test_a_rare_class_is_predicted_as_often_as_it_occurs():
    test, truth = unbalanced(3000, 0.15, seed=1)
    rare = np.array(truth) == "food"
    found = {}
    for name, parameters in {
        "plain": {},
        "unmeasured": {"validation_fraction": 0},
        "balanced": {"class_weight": "balanced"},
    }.items():
        model = TextClassifier(random_state=0, n_jobs=1, **parameters).fit(*unbalanced(1000, 0.15, seed=2))
        found[name] = np.array(model.predict(test)) == "food"
        if name == "plain":
            said = model.predict_proba(test)[:, 0]
            assert said.mean() == pytest.approx(rare.mean(), abs=0.03)
            assert (found[name] == (said > 0.5)).all(), "what is likelier than not is what is answered"
            assert model.validation_score_ == pytest.approx((found[name] == rare).mean(), abs=0.03)
    right = {name: (own == rare).mean() for name, own in found.items()}
    recall = {name: own[rare].mean() for name, own in found.items()}
    assert right["plain"] > right["unmeasured"] + 0.005
    assert recall["unmeasured"] + 0.15 < recall["plain"] < recall["balanced"]


@pytest.mark.parametrize("shares", [(0.6, 0.4), (0.7, 0.3), (0.5, 0.3, 0.2)])
def test_the_most_frequent_label_of_a_repeated_text_wins(shares):
    names = np.array(["a", "b", "c"])[: len(shares)]
    others, other_labels = planted(100)
    winners = []
    for seed in range(6):
        labels = np.random.default_rng(seed).permutation(np.repeat(names, (300 * np.array(shares)).round().astype(int)))
        model = TextClassifier(random_state=seed, n_jobs=1)
        model.fit(["the same words"] * len(labels) + others, [*labels, *other_labels])
        winners.append(model.predict_one("the same words"))
    # Ten epochs leave the scores of many equal texts half-way.
    assert winners.count("a") >= len(winners) - (shares[0] - shares[1] < 0.25)


def rare_and_frequent(seed: int, each: int, each_rare: int) -> tuple[list[str], list[str]]:
    """Draw texts of 20 frequent and 100 rare labels; usually two of seven words belong to the label."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for label in range(120):
        for _ in range(each if label < 20 else each_rare):
            about = label if rng.random() < 0.85 else rng.integers(120)
            told = [f"w{about}x{i}" for i in rng.integers(4, size=2)]
            texts.append(" ".join(rng.permutation([*told, *(f"n{i}" for i in rng.integers(60, size=5))])))
            labels.append(f"l{label}")
    return texts, labels


def test_labels_never_held_out_do_not_count_as_wrong():
    train, (texts, labels) = rare_and_frequent(1, 60, 4), rare_and_frequent(2, 10, 2)
    measured = TrainedOnce(random_state=0, n_jobs=1).fit(*train)
    unmeasured = TextClassifier(random_state=0, n_jobs=1, validation_fraction=0).fit(*train)
    assert measured.validation_score_ is not None
    rare = np.array([int(label[1:]) >= 20 for label in labels])
    right = [np.array(model.predict(texts)) == labels for model in (measured, unmeasured)]
    assert right[0][rare].mean() > right[1][rare].mean() - 0.05 > 0.5


def test_partial_fit_does_not_start_from_held_out_weights(tmp_path):
    model = TextClassifier(random_state=0, n_jobs=1).fit(*unbalanced(1000, 0.15, seed=2))
    linear = model._fitted.model
    assert np.abs(linear.offset).max() > 0.05
    trained = (
        TextClassifier(random_state=0, n_jobs=1, validation_fraction=0)
        .fit(*unbalanced(1000, 0.15, seed=2))
        ._fitted.model
    )
    np.testing.assert_allclose(linear.weights()[-1], trained.bias, atol=1e-6)
    model.save(tmp_path / "m")
    more, test = unbalanced(250, 0.15, seed=5), unbalanced(1000, 0.15, seed=6)
    rare = np.array(test[1]) == "food"
    before = (np.array(model.predict(test[0])) == "food")[rare].mean()
    loaded = TextClassifier.load(tmp_path / "m").partial_fit(*more)
    np.testing.assert_allclose(loaded._fitted.model.offset, linear.offset * 1000 / 1250, rtol=1e-5)
    after = (np.array(loaded.predict(test[0])) == "food")[rare].mean()
    assert after > before - 0.1, "further texts of the same kind do not take the shifts back"
    loaded.partial_fit(["something else entirely"] * 3, ["new"] * 3)
    np.testing.assert_allclose(loaded._fitted.model.offset[0], -loaded._fitted.model.offset[2], rtol=1e-5)
    assert loaded._fitted.model.offset[1] == 0
    loaded.compress("20kB")
    assert len(loaded._fitted.model.offset) == 3


# --- training a few labels at a time ---


def test_splitting_kernel_calls_changes_nothing_and_reports_all_labels(monkeypatch):
    texts, labels = many_topics(40, 5, seed=3)
    whole = TextClassifier(random_state=0, n_jobs=1, validation_fraction=0).fit(texts, labels)
    heard: list[Any] = []
    monkeypatch.setattr(linear, "LEAST_WORK", 1)
    monkeypatch.setattr(linear, "BLOCKS_A_THREAD", 1)
    trained = linear.train
    monkeypatch.setattr(linear, "train", lambda *a, on_progress=None, **k: trained(*a, on_progress=heard.append, **k))
    model = TextClassifier(random_state=0, n_jobs=1, validation_fraction=0).fit(texts, labels)
    assert heard == [16, 16, 8]
    np.testing.assert_array_equal(model.decision_function(texts), whole.decision_function(texts))


@pytest.mark.parametrize("verbose", [0, None, 1])
def test_shows_progress_on_request(verbose, monkeypatch, capsys):
    monkeypatch.setattr(progress, "A_MOMENT", 0.0)
    monkeypatch.setattr(linear, "LEAST_WORK", 1)
    TextClassifier(random_state=0, n_jobs=1, validation_fraction=0, verbose=verbose).fit(*many_topics(40, 5, seed=3))
    shown = capsys.readouterr().err
    assert ("200 texts 100%" in shown) == (verbose == 1), "the tests' stderr is no terminal"
