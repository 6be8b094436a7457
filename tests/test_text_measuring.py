"""Texts that are held out, probabilities that follow from them, and progress of training."""

from __future__ import annotations

import numpy as np
import pytest
from test_text import planted

from sparsenet import TextClassifier, progress
from sparsenet.batches import Rows
from sparsenet.text import calibration, linear, measuring, settings
from sparsenet.text.settings import TextSettings


def many_topics(n_labels: int, each: int, seed: int, clues: int = 1) -> tuple[list[str], list[str]]:
    """Texts of many labels, each told by words of its own among noise, and now and then by another label's."""
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


def rules(**parameters) -> TextSettings:
    return TextSettings.of(TextClassifier(**parameters).get_params())


@pytest.mark.parametrize("each", [3, 4])
def test_probabilities_can_be_believed_after_few_texts_a_label(each):
    model = TextClassifier(random_state=0, n_jobs=1).fit(*many_topics(60, each, seed=1))
    said, right = confidence_and_accuracy(model, *many_topics(60, 5, seed=2))
    assert model.validation_score_ is not None
    assert abs(said - right) < 0.15, "without these texts: 0.1 said"


def test_probabilities_can_be_believed_where_a_second_training_would_take_too_long(monkeypatch):
    monkeypatch.setattr(settings, "MOST_MEASURED", 10)
    monkeypatch.setattr(settings, "MOST_PAIRS", 100)
    model = TextClassifier(random_state=0, n_jobs=1).fit(*many_topics(60, 30, seed=1))
    said, right = confidence_and_accuracy(model, *many_topics(60, 5, seed=2))
    assert model.validation_score_ is not None
    assert abs(said - right) < 0.1
    assert model.n_texts_ == 1800


def test_few_texts_are_held_out_in_turns():
    held = measuring.held_out(rows([[i % 5] for i in range(40)], 5), rules(), seed=0)
    assert held is not None
    assert len(held.turns) == measuring.TURNS
    assert sorted(np.concatenate([others for _, others in held.turns]).tolist()) == list(range(40))
    assert all(np.intersect1d(kept, others).size == 0 for kept, others in held.turns)
    assert measuring.held_out(rows([[0]] * 9, 1), rules(), seed=0) is None
    assert measuring.held_out(rows([[i % 5] for i in range(40)], 5), rules(validation_fraction=0), seed=0) is None


def test_what_is_never_learnt_is_not_the_last_of_its_label(monkeypatch):
    monkeypatch.setattr(settings, "MOST_MEASURED", 10)
    monkeypatch.setattr(settings, "MOST_PAIRS", 100)
    lists = [[i % 20] for i in range(400)] + [[20 + i] for i in range(50)] + [[0, 20]] * 3 + [[]] * 2
    held = measuring.held_out(rows(lists, 70), rules(), seed=0)
    assert held is not None
    assert held.for_good
    ((kept, others),) = held.turns
    assert len(others) == len(lists) // 20
    assert sorted([*kept, *others]) == list(range(len(lists)))
    assert all(label < 20 for text in others for label in lists[text])
    assert measuring.held_out(rows([[i] for i in range(300)], 300), rules(), seed=0) is None, "all labels are rare"
    monkeypatch.setattr(measuring, "MOST_SCORES", 70 * 12)
    fewer = measuring.held_out(rows(lists, 70), rules(), seed=0)
    assert fewer is not None
    assert len(fewer.turns[0][1]) == 12


def test_a_few_texts_move_the_steepness_a_little():
    scores, truth = np.array([[1.0, -1.0]], np.float32), rows([[0]], 2)
    found = calibration.fit(scores, truth, exclusive=True)
    assert 2 < found.steepness < 3, "without what was believed before: as steep as it may be"
    assert (found.shift, found.threshold) == (0, 0.5)
    again = calibration.fit(np.repeat(scores, 5000, axis=0), rows([[0]] * 5000, 2), exclusive=True)
    assert again.steepness > 4


def drawn(
    n: int, n_labels: int, steepness: float, shift: float, seed: int = 0, mean: float = -0.8, spread: float = 0.4
) -> tuple[np.ndarray, Rows]:
    """Scores, and labels that have the log odds that follow from them."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(mean, spread, (n, n_labels)).astype(np.float32)
    truth = rng.random(scores.shape) < 1 / (1 + np.exp(-(steepness * scores + shift)))
    return scores, rows([np.flatnonzero(own).tolist() for own in truth], n_labels)


@pytest.mark.parametrize(("n", "n_labels"), [(20_000, 5), (100, 1000)])
@pytest.mark.parametrize(("steepness", "shift"), [(5.0, 1.0), (3.0, -2.0), (12.0, 0.0)])
def test_probabilities_of_several_labels_are_those_that_the_labels_have(n, n_labels, steepness, shift):
    found = calibration.fit(*drawn(n, n_labels, steepness, shift), exclusive=False)
    assert found.steepness == pytest.approx(steepness, rel=0.1), "whatever was believed before"
    assert found.shift == pytest.approx(shift, abs=0.25)


@pytest.mark.parametrize("mean", [-4.0, -8.0, -12.0, -16.0, 10.0])
@pytest.mark.parametrize("rarity", [0.0, 4.0])
def test_scores_far_from_zero_have_probabilities_too(mean, rarity):
    """As a network has them, whose labels are rare."""
    scores, labels = drawn(500, 200, 1.0, -mean - rarity, mean=mean, spread=2.0)
    found = calibration.fit(scores, labels, exclusive=False)
    assert found.steepness == pytest.approx(1.0, rel=0.1)
    assert found.shift == pytest.approx(-mean - rarity, abs=0.1 * abs(mean))


def test_a_search_ends_at_the_bottom_wherever_it_is():
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

        found = calibration.fit(scores, labels, exclusive=False)
        here = np.array([np.log(found.steepness), found.shift])
        low, high = np.log(calibration.STEEPNESS)
        for a, b in [(0.02, 0), (-0.02, 0), (0, 0.05), (0, -0.05), (0.02, -0.02 * mean * found.steepness)]:
            there = np.add(here, (a, b))
            if low <= there[0] <= high:
                assert loss(here) <= loss(there) + 1e-6


def test_a_few_texts_do_not_make_a_label_certain_or_impossible():
    scores = np.zeros((20, 3), np.float32)
    for labels, expected in (([[]] * 20, 1 / 62), ([[0, 1, 2]] * 20, 61 / 62)):
        found = calibration.fit(scores, rows(labels, 3), exclusive=False).probabilities(scores[:1], exclusive=False)
        np.testing.assert_allclose(found, expected, rtol=0.01)


def test_labels_that_nothing_tells_are_not_all_named():
    rng = np.random.default_rng(0)
    scores = rng.normal(-1, 0.1, (300, 200)).astype(np.float32)
    labels = rows([[int(i)] for i in rng.integers(0, 200, 300)], 200)
    found = calibration.fit(scores, labels, exclusive=False)
    assert found.chosen(scores).sum() <= 3 * 300 * 1.05


def test_a_threshold_is_where_f1_is_best():
    scores, labels = drawn(4000, 20, 5.0, 1.0)
    found = calibration.fit(scores, labels, exclusive=False)
    truth = np.zeros(scores.shape, bool)
    truth[np.repeat(np.arange(len(labels)), np.diff(labels.indptr)), labels.indices] = True

    def f1(chosen: np.ndarray) -> float:
        return float(2 * (truth & chosen).sum() / (truth.sum() + chosen.sum()))

    best = max(f1(found.chosen(scores, t)) for t in np.linspace(0.01, 0.99, 99))
    assert best - 0.003 < f1(found.chosen(scores)) < 0.9
    assert f1(found.chosen(scores)) > f1(found.chosen(scores, 0.5)) + 0.02
    assert found.threshold == pytest.approx(best / 2, abs=0.05), "as it is where probabilities are right"
    unseen = calibration.fit(scores, labels, exclusive=False, missed=10 * len(labels.indices))
    assert unseen.threshold < found.threshold, "with so many missed, each label that is found counts"
    np.testing.assert_array_equal(found.chosen(scores), found.probabilities(scores, exclusive=False) > found.threshold)
    assert found.chosen(scores, 0.0).all()
    assert not found.chosen(scores, 1.0).any()


def test_of_texts_without_a_true_label_there_is_no_threshold_to_learn():
    found = calibration.fit(np.zeros((20, 3), np.float32), rows([[]] * 20, 3), exclusive=False)
    assert found.threshold == 0.5


def test_bounds_hold_the_steepness_and_not_the_shift():
    scores = np.repeat(np.array([[0.1], [-0.1]], np.float32), 5000, axis=0) + 0.5
    found = calibration.fit(scores, rows([[0]] * 5000 + [[]] * 5000, 1), exclusive=False)
    assert found.steepness == calibration.STEEPNESS[1]
    assert found.shift == pytest.approx(-0.5 * found.steepness, abs=0.1)
    assert found.threshold == pytest.approx(0.5, abs=0.01), "in the middle of those that are as good"


@pytest.mark.parametrize("shares", [(0.6, 0.4), (0.7, 0.3), (0.5, 0.3, 0.2)])
def test_the_label_that_a_text_has_most_often_wins(shares):
    names = np.array(["a", "b", "c"])[: len(shares)]
    others, other_labels = planted(100)
    for seed in range(6):
        labels = np.random.default_rng(seed).permutation(np.repeat(names, (300 * np.array(shares)).round().astype(int)))
        model = TextClassifier(random_state=seed, n_jobs=1)
        model.fit(["the same words"] * len(labels) + others, [*labels, *other_labels])
        assert model.predict_one("the same words") == "a"


# --- training a few labels at a time ---


def test_calls_of_the_kernel_change_no_bit_and_tell_of_all_labels(monkeypatch):
    texts, labels = many_topics(40, 5, seed=3)
    whole = TextClassifier(random_state=0, n_jobs=1).fit(texts, labels)
    heard = []
    monkeypatch.setattr(linear, "LEAST_WORK", 1)
    monkeypatch.setattr(linear, "BLOCKS_A_THREAD", 1)
    trained = linear.train
    monkeypatch.setattr(linear, "train", lambda *a, told=None, **k: trained(*a, told=heard.append, **k))
    model = TextClassifier(random_state=0, n_jobs=1, validation_fraction=0).fit(texts, labels)
    assert heard == [16, 16, 8]
    np.testing.assert_array_equal(model.decision_function(texts), whole.decision_function(texts))


@pytest.mark.parametrize("verbose", [0, None, 1])
def test_progress_is_shown_where_it_is_wanted(verbose, monkeypatch, capsys):
    monkeypatch.setattr(progress, "A_MOMENT", 0.0)
    monkeypatch.setattr(linear, "LEAST_WORK", 1)
    TextClassifier(random_state=0, n_jobs=1, validation_fraction=0, verbose=verbose).fit(*many_topics(40, 5, seed=3))
    shown = capsys.readouterr().err
    assert ("200 texts 100%" in shown) == (verbose == 1), "the tests' stderr is no terminal"
