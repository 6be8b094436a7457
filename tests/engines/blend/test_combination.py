"""Three weights combine tree, network and neighbors; a curve turns the sum into probabilities."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax

from sparsenet.engines.blend.candidates import UNKNOWN, Candidates
from sparsenet.engines.blend.combination import (
    FLATTEST,
    LOWEST,
    WEIGHTS,
    WITHOUT_NETWORK,
    Combination,
    fit_weights,
)

#: All labels alike, and rare and frequent ones.
COUNTS, MIXED = np.ones(1000, np.int64), np.array([1, 2, 5, 20, 100, 700] * 200)


def drawn(n, c=12, seed=0):
    """Draw candidates of n points, without true labels; shares are wide apart, so that they tell much."""
    rng = np.random.default_rng(seed)
    labels = rng.permuted(np.tile(np.arange(c, dtype=np.int32), (n, 1)), axis=1)
    penalties, logs = rng.exponential(1, (n, c)), -rng.exponential(2, (n, c))
    return Candidates(labels, *(np.float32(part) for part in (penalties, logs, 3 * np.sqrt(rng.random((n, c))))))


def labelled(candidates, weights, seed=1):
    """Draw one true candidate a point from the softmax of the weighted sum."""
    rng = np.random.default_rng(seed)
    p = softmax(candidates.features.astype(np.float64) @ np.array(weights), axis=1)
    drawn_at = (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1)
    return np.arange(p.shape[1]) == np.minimum(drawn_at, p.shape[1] - 1)[:, None]


def test_a_score_is_the_weighted_sum():
    found = drawn(50)
    scores = Combination((0.5, 0.25, 3.0)).scores(found)
    for i in range(50):
        for j in range(12):
            expected = 3 * found.shares[i, j] + 0.25 * found.log_probabilities[i, j] - 0.5 * found.penalties[i, j]
            assert scores[i, j] == pytest.approx(expected, abs=1e-5)
    assert Combination().weights == (0.5, 0.5, 2.2)
    assert WITHOUT_NETWORK[1] == 0


def test_ranks_by_score_and_ties_by_position():
    tied = Candidates(np.int32([[7, 3, 9, 5]]), *(np.float32([part]) for part in ([1, 0, 1, 0], [0] * 4, [0] * 4)))
    labels, scores = Combination((1.0, 1.0, 1.0)).rank(tied, 4, COUNTS)
    assert labels.tolist() == [[3, 5, 7, 9]]
    assert scores.tolist() == [[0, 0, -1, -1]]
    found = drawn(30)
    few, best = Combination().rank(found, 3, COUNTS)
    every, all_scores = Combination().rank(found, 12, COUNTS)
    np.testing.assert_array_equal(few, every[:, :3])
    np.testing.assert_array_equal(best, all_scores[:, :3])
    assert (np.diff(all_scores, axis=1) <= 0).all()


def test_columns_without_a_candidate_rank_last():
    found = drawn(20)
    penalties = np.where(found.labels < 4, UNKNOWN, found.penalties)
    found = found._replace(penalties=penalties, shares=np.full_like(found.shares, 1.0))
    for combination in (Combination(), Combination((0.0, 0.0, 1e4)), Combination(slope=FLATTEST, temperature=FLATTEST)):
        labels, scores = combination.rank(found, 12, COUNTS)
        assert (labels[:, 8:] < 4).all()
        assert (scores[:, 8:] == LOWEST).all()
        assert combination.probabilities(scores, COUNTS[labels])[:, 8:].max() == 0
        p = combination.exclusive_probabilities(scores)
        assert p[:, 8:].max() == 0
        np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("count_weight", [0.0, 2.0])
@pytest.mark.parametrize("fall", [-2.0, 0.0, 0.3, 5.0])
@pytest.mark.parametrize("slope", [1e-3, 1.0, 50.0])
def test_probabilities_fall_with_rank(fall, slope, count_weight):
    combination = Combination(slope=slope, shift=-0.5, fall=fall, count_weight=count_weight)
    labels, scores = combination.rank(drawn(200), 12, MIXED)
    p = combination.probabilities(scores, MIXED[labels])
    assert (np.diff(p, axis=1) <= 0).all()
    assert p.min() >= 0
    assert p.max() <= 1
    logits = slope * scores[:, 0].astype(np.float64) - 0.5 + count_weight * np.log(MIXED[labels[:, 0]])
    first = 1 / (1 + np.exp(-logits))
    np.testing.assert_allclose(p[:, 0], first, rtol=1e-4, atol=1e-6)


def test_probabilities_follow_the_curve():
    combination = Combination(slope=1.5, shift=0.25, fall=0.4, count_weight=0.2)
    labels, scores = combination.rank(drawn(40), 12, MIXED)
    p = combination.probabilities(scores, MIXED[labels])
    for own, ranked, row in zip(scores.astype(np.float64), labels, p, strict=True):
        most = np.inf
        for rank, (score, label, found) in enumerate(zip(own, ranked, row, strict=True), start=1):
            most = min(most, 1.5 * score + 0.25 - 0.4 * np.log(rank) + 0.2 * np.log(MIXED[label]))
            assert found == pytest.approx(1 / (1 + np.exp(-most)), rel=1e-4, abs=1e-6)


def test_exclusive_probabilities_follow_the_temperature():
    scores = np.float32([[1.0, 0.0, -1.0], [0.0, 0.0, -1e6]])
    found = Combination(temperature=2.0).exclusive_probabilities(scores)
    expected = np.exp([2.0, 0.0, -2.0])
    np.testing.assert_allclose(found[0], expected / expected.sum(), rtol=1e-5)
    np.testing.assert_allclose(found[1], [0.5, 0.5, 0])


@pytest.mark.parametrize("weights", [(0.5, 0.5, 2.2), (2.0, 0.25, 1.0), (0.5, 2.0, 0.0)])
def test_fit_weights_recovers_planted_weights(weights):
    found = drawn(20_000)
    fitted = fit_weights(found, labelled(found, weights), Combination())
    np.testing.assert_allclose(fitted.weights, weights, atol=0.12)


def test_few_points_hardly_move_the_weights():
    found = drawn(20)
    near = fit_weights(found, labelled(found, (3.0, 0.0, 0.0)), Combination()).weights
    np.testing.assert_allclose(near, WEIGHTS, atol=0.2)
    many = drawn(20_000)
    far = fit_weights(many, labelled(many, (3.0, 0.0, 0.0)), Combination()).weights
    assert far[0] > 2.5


def test_fitted_weights_are_not_negative():
    found = drawn(5000)
    fitted = fit_weights(found, labelled(found, (-1.0, 1.0, 1.0)), Combination())
    assert fitted.weights[0] == 0
    assert fitted.weights[1] == pytest.approx(1.0, abs=0.3)


def test_points_without_a_hit_do_not_change_the_fit():
    found = drawn(3000)
    hits = labelled(found, (1.0, 1.0, 1.0))
    hits[::2] = False
    odd = np.arange(3000) % 2 == 1
    expected = fit_weights(found.take(odd), hits[odd], Combination()).weights
    np.testing.assert_allclose(fit_weights(found, hits, Combination()).weights, expected, atol=1e-6)


def test_columns_without_a_candidate_do_not_change_the_fit():
    found = drawn(3000)
    hits = labelled(found, (1.0, 1.0, 1.0))
    more = [np.hstack((part, part[:, :2])) for part in found]
    more[1][:, -2:] = UNKNOWN
    wider = Candidates(*more)
    expected = fit_weights(found, hits, Combination()).weights
    found_weights = fit_weights(wider, np.hstack((hits, np.zeros((3000, 2), bool))), Combination()).weights
    np.testing.assert_allclose(found_weights, expected, atol=1e-4)


def test_several_true_labels_of_a_point_count_as_one():
    found = drawn(20_000)
    hits = labelled(found, (1.0, 1.0, 1.0), seed=1) | labelled(found, (1.0, 1.0, 1.0), seed=2)
    assert hits.sum(axis=1).max() == 2
    np.testing.assert_allclose(fit_weights(found, hits, Combination()).weights, (1.0, 1.0, 1.0), atol=0.12)


@pytest.mark.parametrize("slope", [0.4, 1.0, 3.0])
def test_calibrated_probabilities_match_the_share_of_hits(slope):
    """Each of a point's best five labels is right as often as its probability says, in the mean over each fifth."""
    rng = np.random.default_rng(0)
    found = drawn(12_000)
    truth = Combination(slope=slope, shift=0.5, fall=0.6)

    def hits_of(candidates):
        labels, scores = truth.rank(candidates, 12, COUNTS)
        p = np.empty_like(scores)
        np.put_along_axis(p, labels, truth.probabilities(scores, COUNTS[labels]), axis=1)
        return rng.random(p.shape) < np.take_along_axis(p, candidates.labels, axis=1)

    half = np.arange(12_000) % 2 == 0
    fitted = Combination().calibrated(found.take(half), hits_of(found.take(half)), COUNTS)
    other = found.take(~half)
    right = hits_of(other)
    labels, scores = fitted.rank(other, 5, COUNTS)
    p = fitted.probabilities(scores, COUNTS[labels])
    came = np.zeros((6000, 12), bool)
    np.put_along_axis(came, other.labels, right, axis=1)
    came = np.take_along_axis(came, labels, axis=1)
    for rank in range(5):
        assert p[:, rank].mean() == pytest.approx(came[:, rank].mean(), abs=0.03)
    for part in np.array_split(np.argsort(p[:, 0]), 5):
        assert p[part, 0].mean() == pytest.approx(came[part, 0].mean(), abs=0.06)
    assert fitted.weights == Combination().weights


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_calibrated_fits_the_temperature(temperature):
    found = drawn(8000)
    hits = labelled(found, tuple(temperature * np.array(WEIGHTS)))
    fitted = Combination().calibrated(found, hits, COUNTS)
    assert fitted.temperature == pytest.approx(temperature, rel=0.1)
    p = fitted.exclusive_probabilities(fitted.scores(found))
    assert p.max(axis=1).mean() == pytest.approx(hits[np.arange(8000), p.argmax(axis=1)].mean(), abs=0.03)


def test_misleading_scores_get_the_flattest_curve():
    """Labels that the scores say the opposite of would turn the order round."""
    found = drawn(3000)
    hits = labelled(found, tuple(-np.array(WEIGHTS)))
    fitted = Combination().calibrated(found, hits, COUNTS)
    assert (fitted.slope, fitted.temperature) == (FLATTEST, FLATTEST)


def test_calibration_keeps_the_order():
    found = drawn(300)
    fitted = Combination().calibrated(found, labelled(found, WEIGHTS), COUNTS)
    assert fitted != Combination()
    for own, usual in zip(fitted.rank(found, 12, COUNTS), Combination().rank(found, 12, COUNTS), strict=True):
        np.testing.assert_array_equal(own, usual)


def test_without_neighbors_fitted_weights_are_dropped():
    fitted = Combination((3.0, 0.1, 0.2), slope=5.0, shift=1.0, fall=0.0, temperature=2.0)
    assert fitted.without_neighbors() == Combination()
    assert replace(fitted, weights=WEIGHTS) != fitted


def test_fits_shift_and_fall_again_if_the_slope_would_be_negative():
    found = drawn(4000)
    scores = Combination().scores(found).astype(float)
    hits = np.random.default_rng(1).random(scores.shape) < 1 / (1 + np.exp(0.5 * scores + 2))
    combination = Combination().calibrated(found, hits, COUNTS)
    labels, ranked = combination.rank(found, 5, COUNTS)
    place = np.argsort(-scores, axis=1, kind="stable")[:, :5]
    right = np.take_along_axis(hits, place, axis=1)
    assert combination.slope == FLATTEST
    assert combination.probabilities(ranked, COUNTS[labels])[:, 0].mean() == pytest.approx(right[:, 0].mean(), abs=0.03)


@pytest.mark.parametrize("weight", [-0.3, 0.0, 0.3])
def test_probabilities_of_rare_and_frequent_labels_match_their_hits(weight):
    found = drawn(12_000)
    truth = Combination(shift=-0.5, count_weight=weight)
    labels, scores = truth.rank(found, 12, MIXED)
    p = truth.probabilities(scores, MIXED[labels])
    right = np.random.default_rng(0).random(p.shape) < p
    hits = np.zeros(p.shape, bool)
    np.put_along_axis(hits, labels, right, axis=1)
    hits = np.take_along_axis(hits, found.labels, axis=1)
    fitted = Combination().calibrated(found, hits, MIXED)
    assert fitted.count_weight == pytest.approx(weight, abs=0.15)
    p = fitted.probabilities(scores, MIXED[labels])
    for count in np.unique(MIXED):
        some = MIXED[labels[:, 0]] == count
        assert p[some, 0].mean() == pytest.approx(right[some, 0].mean(), abs=0.06)
