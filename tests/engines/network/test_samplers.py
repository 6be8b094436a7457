"""Samplers: distinct labels, inclusion as often as expected, equal results after a restart."""

from typing import Any

import numpy as np
import pytest

from sparsenet.engines.network.samplers import AllSampler, FrequencySampler, LSHSampler, RandomSampler, Sampler
from sparsenet.index.hashing import LSHConfig, LSHIndex, best_index
from sparsenet.index.hashing.choosing import FEWER_TABLES, MORE_TABLES, TABLES

N_LABELS, WIDTH = 120, 16


def output_layer(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((N_LABELS, WIDTH)).astype(np.float32), np.zeros(N_LABELS, np.float32)


def points(n: int = 16, seed: int = 1) -> np.ndarray:
    return np.maximum(np.random.default_rng(seed).standard_normal((n, WIDTH)), 0).astype(np.float32)


def hashed() -> LSHSampler:
    return LSHSampler(LSHConfig(family="dwta", n_tables=20, n_bits=3), hashed=0.5, check_every=2)


def choosing() -> LSHSampler:
    return LSHSampler(check_every=2, seed=3)


SAMPLERS = [RandomSampler, FrequencySampler, lambda: FrequencySampler(1.0), hashed, choosing, AllSampler]
NAMES = ["random", "frequency", "proportional", "hashed", "choosing", "all"]


@pytest.fixture(params=SAMPLERS, ids=NAMES)
def sampler(request) -> Sampler:
    made = request.param()
    made.prepare(N_LABELS, np.arange(N_LABELS) ** 2 // 40)
    made.update(*output_layer(), np.arange(N_LABELS))
    return made


@pytest.mark.parametrize("n", [0, 1, 7, 15, 60, N_LABELS - 1, N_LABELS, N_LABELS + 5])
def test_samples_are_distinct_ascending_and_of_the_given_size(sampler, n):
    ids = sampler.sample(points(), n, np.random.default_rng(0))
    assert ids.dtype == np.int32
    assert (np.diff(ids) > 0).all()
    assert ids.size == (N_LABELS if isinstance(sampler, AllSampler) else min(n, N_LABELS))
    assert ids.size == 0 or 0 <= ids[0] <= ids[-1] < N_LABELS


@pytest.mark.parametrize("n", [5, 25, 60, 90])
def test_labels_are_included_as_often_as_expected(sampler, n):
    rng, n_trials = np.random.default_rng(n), 4000
    counts = np.zeros(N_LABELS)
    for _ in range(n_trials):
        counts[sampler.sample(points(), n, rng)] += 1
    expected = sampler.expected(np.arange(N_LABELS, dtype=np.int32), n).astype(np.float64)
    assert expected.min() > 0  # every label keeps a chance
    if not isinstance(sampler, AllSampler):
        assert expected.sum() == pytest.approx(n, rel=1e-3)
    error = 5 * np.sqrt(expected * (1 - expected) / n_trials) + 3 / n_trials  # a label that is all but certain
    if isinstance(sampler, FrequencySampler):
        error += 0.25 * expected * (1 - expected) / np.sqrt(n)  # its expectation is an approximation
    np.testing.assert_array_less(np.abs(counts / n_trials - expected), error + 1e-6)


@pytest.mark.parametrize("n", [0, 1, 7, 60, N_LABELS + 5])
@pytest.mark.parametrize("n_points", [0, 1, 9])
def test_each_point_may_have_its_own_sample(sampler, n, n_points):
    indptr, ids, expected = sampler.sample_each(points(n_points), n, np.random.default_rng(0))
    size = N_LABELS if isinstance(sampler, AllSampler) else min(n, N_LABELS)
    np.testing.assert_array_equal(indptr, np.arange(n_points + 1) * size)
    assert ids.dtype == np.int32
    for i in range(n_points):
        own = ids[indptr[i] : indptr[i + 1]]
        assert np.unique(own).size == size
    assert ((expected > 0) & (expected <= 1)).all()
    assert expected.size == ids.size


@pytest.mark.parametrize("n", [1, 40])
def test_samples_frequent_labels_first(n):
    """One label dwarfs the rest, so that rejection sampling would hardly end."""
    counts = np.ones(1000, np.int64)
    counts[7] = 10**12
    sampler = FrequencySampler(1.0)
    sampler.prepare(1000, counts)
    ids = sampler.sample(points(), n, np.random.default_rng(0))
    assert 7 in ids
    assert np.unique(ids).size == n
    assert sampler.expected(np.array([7]), n)[0] > 0.99


def test_weights_of_one_over_expected_estimate_the_sum_over_all_labels():
    """Reweighting by `expected` makes negatives unbiased, hashed labels included."""
    sampler = hashed()
    sampler.prepare(N_LABELS, np.ones(N_LABELS, np.int64))
    sampler.update(*output_layer(), np.arange(N_LABELS))
    values, rng = np.exp(np.random.default_rng(5).standard_normal(N_LABELS)), np.random.default_rng(6)
    estimates = []
    for _ in range(4000):
        ids = sampler.sample(points(), 30, rng)
        estimates.append((values[ids] / sampler.expected(ids, 30)).sum())
    assert abs(np.mean(estimates) - values.sum()) < 5 * np.std(estimates) / np.sqrt(4000)


def run(sampler: Sampler, rng: np.random.Generator, first: int, last: int) -> list[np.ndarray]:
    """Imitate training: sample, then change the weights of the sampled labels."""
    samples = []
    weight, bias = output_layer()
    for step in range(last):
        drift = np.random.default_rng(step).standard_normal((20, WIDTH)).astype(np.float32)
        rows = np.random.default_rng(step + 1000).choice(N_LABELS, 20, replace=False)
        weight[rows] += drift
        if step >= first:
            samples.append(sampler.sample(points(seed=step), 30, rng))
            sampler.update(weight, bias, rows)
    return samples


@pytest.mark.parametrize("make", SAMPLERS, ids=NAMES)
def test_resumed_equals_uninterrupted(make):
    counts = np.arange(N_LABELS) % 13
    whole, half, resumed = make(), make(), make()
    for each in (whole, half, resumed):
        each.prepare(N_LABELS, counts)
    rng = np.random.default_rng(3)
    expected = run(whole, np.random.default_rng(3), 0, 40)
    samples = run(half, rng, 0, 21)
    resumed.restore({name: array.copy() for name, array in half.state().items()})
    samples += run(resumed, rng, 21, 40)
    for a, b in zip(expected, samples, strict=True):
        np.testing.assert_array_equal(a, b)
    if isinstance(whole, LSHSampler):
        assert whole.n_rehashes >= 2
        assert resumed.n_rehashes == whole.n_rehashes
        assert resumed.in_use == whole.in_use
        assert resumed.found == whole.found
        assert set(whole.found) == (set() if whole.config else {"simhash", "dwta", "minhash"})


def test_hashed_labels_score_higher_than_random_ones():
    sampler = hashed()
    sampler.prepare(N_LABELS, np.ones(N_LABELS, np.int64))
    weight, bias = output_layer()
    assert sampler.sample(points(), 30, np.random.default_rng(0)).size == 30  # before any index: all at random
    sampler.update(weight, bias, np.arange(N_LABELS))
    standing = []
    for seed in range(20):
        hidden = points(1, seed)
        ids = sampler.sample(hidden, 20, np.random.default_rng(0))
        scores = hidden[0] @ weight.T
        by_hash = ids[sampler.expected(ids, 20) == 1]
        assert by_hash.size == 10
        standing.append((scores[by_hash].mean() - scores.mean()) / scores.std())
    assert np.mean(standing) > 0.6  # standard deviations; at random 0, give or take 0.07


def test_rehashes_when_recall_has_fallen():
    sampler = hashed()
    sampler.prepare(N_LABELS, np.ones(N_LABELS, np.int64))
    weight, bias = output_layer()
    rng = np.random.default_rng(0)
    for _ in range(40):
        sampler.sample(points(), 10, rng)
        sampler.update(weight, bias, np.arange(3))  # no weight has changed
    calm = sampler.n_rehashes
    assert calm <= 1  # the first check has nothing to compare with
    for _ in range(64):
        sampler.sample(points(), 10, rng)
        sampler.update(-weight, bias, np.arange(N_LABELS))
    assert sampler.n_rehashes == calm + 1
    fresh = LSHSampler(sampler.config)
    fresh.prepare(N_LABELS, np.ones(N_LABELS, np.int64))
    fresh.update(-weight, bias, np.arange(N_LABELS))
    assert sampler.measure_recall(points(), -weight, bias, 40) == pytest.approx(
        fresh.measure_recall(points(), -weight, bias, 40), abs=0.1
    )


def test_chooses_a_family_again_after_1_2_4_and_8_rehashes():
    class Noted(LSHSampler):
        def _choose(self, *args):
            tried.append(self.n_rehashes)
            super()._choose(*args)

    tried: list[int] = []
    sampler = Noted(check_every=2, seed=3)
    sampler.prepare(N_LABELS, np.ones(N_LABELS, np.int64))
    assert sampler.in_use is None
    run(sampler, np.random.default_rng(3), 0, 60)
    assert sampler.n_rehashes > 4
    assert tried == [1, 2, 4, 8, 16, 32][: len(tried)]
    assert len(tried) >= 3
    used: Any = sampler.in_use
    assert used.family in sampler.found
    assert used.seed == 3


def test_chooses_a_family_early_but_not_on_few_points():
    weight, bias = output_layer()
    rng = np.random.default_rng(0)
    for n_points, expected in ((16, {"simhash", "dwta", "minhash"}), (15, set())):
        sampler = choosing()
        sampler.prepare(N_LABELS, np.ones(N_LABELS, np.int64))
        for _ in range(20):
            sampler.sample(points(n_points), 30, rng)
            sampler.update(weight, bias, np.arange(0))
        assert set(sampler.found) == expected


def test_chooses_a_family_by_the_recall_of_samples(monkeypatch):
    calls = []

    def recall(index, hidden, weight, bias, *, k, limit, shared=False):
        calls.append((len(hidden), limit, shared))
        return 0.5

    monkeypatch.setattr(LSHIndex, "recall", recall)
    weight, bias = output_layer()
    for each, draw in ((True, "sample_each"), (False, "sample")):
        sampler = choosing()
        sampler.prepare(N_LABELS, np.ones(N_LABELS, np.int64))
        sampler.update(weight, bias, np.arange(N_LABELS))
        getattr(sampler, draw)(points(40), 30, np.random.default_rng(0))
        for _ in range(sampler.check_every):
            sampler.update(weight, bias, np.arange(0))
        assert calls.count((40, 15, not each)) == 4  # three families, and more tables
        calls.clear()


def test_rehashes_an_index_that_finds_nothing():
    class Blind(LSHSampler):
        def _measure(self, weight, bias):
            return 0.0

    sampler = Blind(LSHConfig(family="dwta", n_tables=20, n_bits=3), hashed=0.5, check_every=2)
    sampler.prepare(N_LABELS, np.ones(N_LABELS, np.int64))
    run(sampler, np.random.default_rng(3), 0, 20)
    assert sampler.n_rehashes >= 9


def test_prepare_forgets_an_earlier_training():
    sampler = choosing()
    runs = []
    for _ in range(2):
        sampler.prepare(N_LABELS, np.ones(N_LABELS, np.int64))
        assert (sampler.n_rehashes, sampler.found, sampler.in_use) == (0, {}, None)
        runs.append(np.concatenate(run(sampler, np.random.default_rng(3), 0, 60)))
    np.testing.assert_array_equal(*runs)
    assert sampler.n_rehashes > 4


def test_negative_hidden_vectors_use_simhash():
    weight, bias = output_layer()
    index, found = best_index(weight, bias, weight[:8], lambda index: 0.5, seed=0, threads=1)
    assert (index.config.family, list(found)) == ("simhash", ["simhash"])


@pytest.mark.parametrize(
    ("shares", "more", "expected"),
    [
        ({"simhash": 0.4, "dwta": 0.5, "minhash": 0.3}, 0.56, ("dwta", MORE_TABLES)),
        ({"simhash": 0.4, "dwta": 0.5, "minhash": 0.3}, 0.54, ("dwta", TABLES)),  # twice the tables do not pay
        ({"simhash": 0.4, "dwta": 0.5, "minhash": 0.95}, 0.91, ("minhash", FEWER_TABLES)),
        ({"simhash": 0.4, "dwta": 0.5, "minhash": 0.95}, 0.89, ("minhash", TABLES)),
        ({"simhash": 0.5, "dwta": 0.5, "minhash": 0.5}, 0.5, ("simhash", TABLES)),  # the first of equals
    ],
)
def test_chooses_the_number_of_tables_by_recall(shares, more, expected):
    def recall(index):
        return shares[index.config.family] if index.config.n_tables == TABLES else more

    index, found = best_index(*output_layer(), points(), recall, seed=0, threads=1)
    assert (index.config.family, index.config.n_tables) == expected
    assert found == shares


def test_choosing_takes_no_more_memory_than_announced(monkeypatch):
    """At each moment: the best so far and the one that is tried."""
    sizes, most = [], 0

    def recall(index):
        nonlocal most
        index.query_each(points(), 5)  # this takes its counts
        sizes.append(index.nbytes)
        most = max(most, max(sizes[:-1], default=0) + sizes[-1])
        return len(sizes) / 10

    best_index(*output_layer(), points(), recall, seed=0, threads=1)
    assert 0.8 * choosing().memory(N_LABELS, WIDTH) < most + N_LABELS <= choosing().memory(N_LABELS, WIDTH)


def test_measures_the_recall_of_a_sample(sampler):
    weight, bias = output_layer()
    hidden = points()
    top = np.argsort(-(hidden @ weight.T), axis=1)[:, :5]
    rng = np.random.default_rng(0)
    held = [np.isin(top, sampler.sample(hidden, 30, rng)).mean() for _ in range(1500)]
    measured = sampler.measure_recall(hidden, weight, bias, 30)
    # The random sampler reports the mean over labels; the others know their labels.
    assert abs(np.mean(held) - measured) < 5 * np.std(held) / np.sqrt(1500) + 0.02


def test_announces_the_memory_of_the_index():
    sampler = hashed()
    sampler.prepare(N_LABELS, np.ones(N_LABELS, np.int64))
    sampler.update(*output_layer(), np.arange(N_LABELS))
    assert sampler.memory(N_LABELS, WIDTH) == sampler._index.nbytes + N_LABELS


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hashed": 1.5}, "hashed must be from 0 to 1, got 1.5"),
        ({"recall_target": -1}, "recall_target must be from 0 to 1, got -1"),
        ({"n_queries": 0}, "n_queries must be at least 1, got 0"),
        ({"check_every": 0}, "check_every must be at least 1, got 0"),
    ],
)
def test_rejects_settings_that_make_no_sense(settings, message):
    with pytest.raises(ValueError, match=message):
        LSHSampler(**settings)


def test_rejects_a_senseless_power():
    with pytest.raises(ValueError, match="power must be from 0 to 4, got -1"):
        FrequencySampler(-1)
