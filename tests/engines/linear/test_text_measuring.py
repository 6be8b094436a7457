"""Hold-outs of texts, probabilities fitted on them, and progress of training."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from sparsenet import TextClassifier
from sparsenet.core import progress
from sparsenet.core.rows import Rows
from sparsenet.engines.linear import calibrating, linear
from sparsenet.engines.linear.calibration import CURVATURE, Calibration
from sparsenet.engines.linear.linear import LinearRules
from sparsenet.engines.linear.text_holdout import HoldoutOptions, draw_holdout
from sparsenet.engines.text.text_options import TextOptions
from sparsenet.selection.platt import STEEPNESS
from sparsenet.selection.turns import Turns
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
ONCE = {"max_measured": 10, "max_pairs": 100}


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
    assert len(held.turns) == Turns.most_turns
    assert sorted(np.concatenate([turn.held for turn in held.turns]).tolist()) == list(range(40))
    assert all(np.intersect1d(turn.kept, turn.held).size == 0 for turn in held.turns)
    assert draw_holdout(rows([[0]] * 9, 1), options(), seed=0) is None
    assert draw_holdout(rows([[i % 5] for i in range(40)], 5), options(validation_fraction=0), seed=0) is None


@pytest.mark.parametrize("network", [False, True])
def test_a_hold_out_for_good_leaves_a_text_of_each_label(network):
    once = options() if network else replace(options(), **ONCE)
    lists = [[i % 20] for i in range(400)] + [[20 + i] for i in range(50)] + [[0, 20]] * 3 + [[21, 21 + 49]] + [[]] * 2
    held = draw_holdout(rows(lists, 71), once, seed=0, for_good=network)
    assert held is not None
    assert held.for_good
    (turn,) = held.turns
    assert len(turn.held) == len(lists) // 20
    assert sorted([*turn.kept, *turn.held]) == list(range(len(lists)))
    kept = {label for text in turn.kept for label in lists[text]}
    assert kept == set(range(71))
    for seed in range(20):
        again = draw_holdout(rows(lists, 71), once, seed=seed, for_good=network)
        assert again is not None
        assert not set(range(422, 450)) & set(again.turns[0].held.tolist()), "each is the only text of its label"
    singles = rows([[i] for i in range(300)], 300)
    assert draw_holdout(singles, once, seed=0, for_good=network) is None, "none has another"
    nearly = rows([[max(i, 9)] for i in range(300)], 300)
    eleven = replace(once, turns=Turns(fewest=11))
    assert draw_holdout(nearly, eleven, seed=0, for_good=network) is None, "ten measure too little"
    assert draw_holdout(nearly, once, seed=0, for_good=network) is not None
    few_scored = replace(once, max_scores=7 * 12)
    assert len(draw_holdout(rows(lists, 71), few_scored, 0, for_good=network, n_scored=7).turns[0]) == 12
    fewer = draw_holdout(rows(lists, 71), replace(once, max_scores=71 * 12), seed=0, for_good=network)
    assert fewer is not None
    assert len(fewer.turns[0].held) == 12


def test_the_hold_out_is_bounded_by_memory():
    labels = rows([[i % 900] for i in range(9000)], 900)
    held = draw_holdout(labels, options(validation_fraction=0.5, memory_limit="10MB"), seed=0)
    assert held is not None
    assert [len(turn.held) for turn in held.turns] == [10_000_000 // 64 // 900]
    held = draw_holdout(labels, options(memory_limit="1MB"), seed=0)
    assert held is not None
    assert len(held.turns) == Turns.most_turns, "no more trainings, however little each tells"
    assert all(len(turn.held) < 20 for turn in held.turns)


@pytest.mark.parametrize("exclusive", [False, True])
def test_calibration_takes_the_announced_memory(exclusive):
    rng, labels = np.random.default_rng(0), rows([[i % 300] for i in range(2000)], 300)
    scores = rng.normal(-1, 1, (2000, 300)).astype(np.float32)
    calibrating.fit(scores[:10], labels.slice(0, 10), exclusive=exclusive)  # imports
    tracemalloc.start()
    calibrating.fit(scores, labels, exclusive=exclusive)
    peak = tracemalloc.get_traced_memory()[1] + scores.nbytes
    tracemalloc.stop()
    assert peak < HoldoutOptions.score_bytes * scores.size


def test_weak_scores_that_are_always_right_are_made_steep():
    """The curvature is almost zero where all labels are about as probable, so Newton's first step is huge."""
    right = np.arange(3000) % 1000
    scores = np.full((3000, 1000), -1.0, np.float32)
    scores[np.arange(3000), right] += np.float32(0.29)
    found = calibrating.fit_softmax(scores, rows([[label] for label in right.tolist()], 1000))
    assert found.steepness == STEEPNESS[1]


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
        others = np.concatenate([turn.held for turn in held.turns])
        assert len(held.turns) == n_turns
        assert len(np.unique(others)) == len(others) == max(len(others), min(n, Turns.enough)) <= Turns.most
        for turn in held.turns:
            assert sorted([*turn.kept, *turn.held]) == list(range(n))
            assert len(turn.held) <= n / 5 + 1


def competitors(n: int, shares: list[float], shifts: list[float], seed: int = 0) -> tuple[np.ndarray, Rows, np.ndarray]:
    """Draw scores, lower for rare labels, labels from the softmax of four times the shifted scores, and counts."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(-0.7 + np.log(shares) / 4, 0.5, (n, len(shares))).astype(np.float32)
    logits = 4 * (scores + np.array(shifts))
    right = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return scores, rows([[int(label)] for label in right], len(shares)), np.bincount(right, minlength=len(shares))


def improbability(scores: np.ndarray, labels: Rows, found: calibrating.SoftmaxFit) -> float:
    logits = found.steepness * (scores + found.shifts)
    return float((np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(scores)), labels.indices]).mean())


def too_low(n: int, shares: list[float], by: float = 0.3) -> tuple[np.ndarray, Rows, np.ndarray, np.ndarray]:
    """Draw scores that lack `by` for each e-fold in rarity, labels and counts; also return the missing shifts."""
    scores, labels, counts = competitors(n, shares, [0.0] * len(shares))
    missing = -by * np.log(counts / counts[0])
    return (scores - missing).astype(np.float32), labels, counts, missing


def test_shifts_labels_that_win_too_seldom():
    scores, labels, counts, missing = too_low(20_000, [0.6, 0.3, 0.08, 0.02])
    found = calibrating.fit_softmax(scores, labels, counts)
    assert found.steepness == pytest.approx(4.0, rel=0.05)
    np.testing.assert_allclose(found.shifts - found.shifts[0], missing, atol=0.04)
    plain = calibrating.fit_softmax(scores, labels)
    assert plain.shifts.tolist() == [0, 0, 0, 0]
    assert improbability(scores, labels, found) < improbability(scores, labels, plain) - 0.05


def test_few_texts_shift_by_frequency_only():
    scores, labels, counts = competitors(60, [0.95, 0.05], [-0.15, 0.15])
    assert 0.1 < np.diff(calibrating.fit_softmax(scores, labels, counts).shifts)[0] < 0.6
    even = calibrating.fit_softmax(scores, labels, np.array([30, 30])).shifts
    assert even.tolist() == [0, 0], "nothing is rare"
    nothing = calibrating.fit_softmax(scores[:0], labels.take(np.arange(0)), counts)
    assert nothing.steepness == pytest.approx(2.0)
    assert nothing.shifts.tolist() == [0, 0]


def test_rare_labels_are_never_shifted_down():
    """Texts without information have frequent labels more often, which must not lower the trust in other texts."""
    rng = np.random.default_rng(0)
    shares = np.array([0.6, *np.full(40, 0.01)])
    right = rng.choice(41, 600, p=shares)
    scores = rng.normal(-0.9, 0.02, (600, 41)).astype(np.float32)
    informative = rng.random(600) < 0.5
    scores[np.flatnonzero(informative), right[informative]] = rng.normal(0.2, 0.3, np.count_nonzero(informative))
    counts = np.bincount(right, minlength=41)
    found = calibrating.fit_softmax(scores, rows([[int(label)] for label in right], 41), counts)
    assert found.shifts[0] <= found.shifts[1:].min()
    best = (scores + found.shifts).argmax(axis=1)
    sure = informative & (scores.max(axis=1) > -0.5)
    assert (best[sure] == right[sure]).mean() > 0.97


def test_the_softmax_fit_reaches_the_optimum():
    rng = np.random.default_rng(0)
    for i in range(60):
        n, n_labels = int(rng.integers(1, 400)), int(rng.integers(2, 20))
        shares = rng.dirichlet(np.full(n_labels, rng.uniform(0.2, 3)))
        by_frequency = rng.uniform(-0.5, 0.1)
        scores, labels, counts = competitors(n, shares.tolist(), (by_frequency * np.log(shares)).tolist())
        scores *= 1 if i < 40 else 0.05
        weights = rng.uniform(0.1, 3, n)
        logs = np.log(np.maximum(counts, 1)) - np.log(np.maximum(counts, 1)).mean()

        def loss(x: np.ndarray, scores=scores, labels=labels, weights=weights, logs=logs) -> float:
            logits = np.exp(x[0]) * scores.astype(float) + x[1] * logs
            each = np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(scores)), labels.indices]
            return float(weights @ each + np.sum((x - calibrating.PRIOR) ** 2) / 2)

        best = minimize(loss, calibrating.PRIOR, method="L-BFGS-B", options={"maxfun": 100_000})
        at = calibrating._fit_softmax(scores.astype(float), logs, labels.indices, weights)
        assert loss(at) <= best.fun + 1e-4 * n


def test_costs_weigh_texts_without_adding_evidence():
    scores, labels, counts, _ = too_low(500, [0.7, 0.3])
    plain = calibrating.fit_softmax(scores, labels, counts)
    same = calibrating.fit_softmax(scores, labels, counts, np.full(2, 10.0, np.float32))
    np.testing.assert_allclose(same.shifts, plain.shifts, rtol=1e-6)
    dearer = calibrating.fit_softmax(scores, labels, counts, np.array([1.0, 4.0], np.float32))
    assert np.diff(dearer.shifts) > np.diff(plain.shifts)


def test_bounds_the_steepness_and_the_shifts():
    scores, labels, counts, _ = too_low(2000, [0.7, 0.2, 0.1])
    assert calibrating.fit_softmax(scores * np.float32(0.05), labels, counts).steepness == STEEPNESS[1]
    assert np.abs(calibrating.fit_softmax(scores, labels, counts).shifts).max() > 0.1
    bounded = calibrating.fit_softmax(scores, labels, counts, max_shift=0.01)
    assert np.abs(bounded.shifts).max() == pytest.approx(0.01)


def test_fits_the_curvature_of_scores():
    rng = np.random.default_rng(0)
    scores = rng.normal(-0.5, 0.6, (20_000, 4)).astype(np.float32)
    says = np.where(scores < 1, scores - 0.4 * scores**2, 0.6 + 0.2 * (scores - 1))
    right = (4 * says + rng.gumbel(size=says.shape)).argmax(axis=1)
    labels = rows([[int(label)] for label in right], 4)
    found = calibrating.fit_softmax(scores, labels, curvature=0.4)
    assert found.steepness == pytest.approx(4.0, rel=0.05)
    curve = Calibration(found.steepness, curvature=0.4)
    likely = curve.probabilities(scores, exclusive=True)
    assert (likely.argsort(axis=1) == scores.argsort(axis=1)).all()
    scores_again = curve.scores_of(likely[:100].astype(float), exclusive=True).astype(np.float32)
    np.testing.assert_allclose(curve.probabilities(scores_again, exclusive=True), likely[:100], rtol=1e-4)
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


def test_ignores_the_only_text_of_a_label():
    scores, labels, counts = competitors(400, [0.6, 0.3, 0.1], [0.0, 0.0, 0.0])
    more = np.hstack([scores, np.full((400, 2), -1, np.float32)])
    alone = rows([*([int(label)] for label in labels.indices), [3], [4]], 5)
    all_counts = np.array([*counts, 1, 1])
    found = calibrating.fit_softmax(np.vstack([more, more[:2]]), alone, all_counts)
    expected = calibrating.fit_softmax(more, alone.take(np.arange(400)), all_counts)
    assert found.steepness == expected.steepness
    np.testing.assert_array_equal(found.shifts, expected.shifts)


def test_uninformative_scores_get_no_shifts():
    rng = np.random.default_rng(0)
    right = rng.choice(3, 3000, p=[0.9, 0.09, 0.01])
    truth, counts = rows([[int(label)] for label in right], 3), np.bincount(right)
    found = calibrating.fit_softmax(rng.normal(0, 0.1, (3000, 3)).astype(np.float32), truth, counts)
    assert found.shifts.tolist() == [0, 0, 0]


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
            belief = 0.5 * 0.25 * (np.exp(x[0]) - 2.0) ** 2 / n / n_labels
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
            clues = [f"w{about}x{i}" for i in rng.integers(4, size=2)]
            texts.append(" ".join(rng.permutation([*clues, *(f"n{i}" for i in rng.integers(60, size=5))])))
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


def test_splitting_kernel_calls_changes_nothing_and_reports_all_labels():
    rng = np.random.default_rng(0)
    points, labels = rows([[int(i)] for i in rng.integers(50, size=200)], 50), rows([[i % 40] for i in range(200)], 40)
    whole = linear.train(points, labels, LinearRules(), 0, 1)
    done: list[int] = []
    in_parts = LinearRules(min_work=1, blocks_per_thread=1)
    found = linear.train(points, labels, in_parts, 0, 1, on_progress=done.append)
    assert done == [16, 16, 8]
    np.testing.assert_array_equal(found, whole)


class InParts(TextClassifier):
    def _options(self) -> TextOptions:
        found = super()._options()
        return replace(found, linear=replace(found.linear, min_work=1))


@pytest.mark.parametrize("verbose", [0, None, 1])
def test_shows_progress_on_request(verbose, monkeypatch, capsys):
    monkeypatch.setattr(progress, "A_MOMENT", 0.0)
    InParts(random_state=0, n_jobs=1, validation_fraction=0, verbose=verbose).fit(*many_topics(40, 5, seed=3))
    shown = capsys.readouterr().err
    assert ("200 texts 100%" in shown) == (verbose == 1), "the tests' stderr is not a terminal"
