"""Collision rates match theory, and completed vectors collide by inner product."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from sparsenet import kernels
from sparsenet.index.hashing import LSHConfig, LSHIndex
from sparsenet.index.hashing.families import DWTA, HASH_FAMILIES, SimHash, _permuted
from sparsenet.index.hashing.sphere import LabelSphere

N_HASHES = 4000


def bound(rate: float) -> float:
    """Return five standard errors: a correct implementation fails once in two million runs."""
    return 5 * np.sqrt(rate * (1 - rate) / N_HASHES) + 1e-9


def simhash_agreement(a: np.ndarray, b: np.ndarray) -> float:
    family = SimHash(LSHConfig(n_tables=N_HASHES // 16, n_bits=16, seed=3), a.size - 2)
    codes = family.codes(np.stack((a, b)).astype(np.float32), threads=1)
    differing = np.unpackbits((codes[:, 0] ^ codes[:, 1]).view(np.uint8)).sum()
    return 1 - differing / N_HASHES


def bin_agreement(a: np.ndarray, b: np.ndarray, window: int) -> float:
    bins = _permuted(7, a.size, (N_HASHES, 1, window))
    codes = np.empty((N_HASHES, 2), np.uint16)
    kernels.lsh_bin_codes(np.stack((a, b)).astype(np.float32), bins, codes, 1)
    return float((codes[:, 0] == codes[:, 1]).mean())


@pytest.mark.parametrize("degrees", [0, 10, 45, 60, 90, 120, 180])
def test_simhash_collisions_follow_the_angle(degrees):
    angle = np.radians(degrees)
    rng = np.random.default_rng(degrees)
    u, v = np.linalg.qr(rng.standard_normal((128, 2)))[0].T
    a, b = np.rint(8000 * u), np.rint(8000 * (np.cos(angle) * u + np.sin(angle) * v))
    expected = 1 - angle / np.pi
    # Rounding vectors to integers turns them by up to half a degree where they (anti)coincide.
    assert abs(simhash_agreement(a, b) - expected) < bound(expected) + 0.003


@pytest.mark.parametrize(
    ("other", "expected"), [((1, 1), 0.75), ((1, 0), 1.0), ((0, 1), 0.5), ((1, -1), 0.75), ((3, 1), 0.8976)]
)
def test_simhash_of_two_coordinates_follows_the_angle(other, expected):
    """Plain signs would tie here and allow only three values of agreement."""
    a, b = np.zeros((2, 64))
    a[5], (b[5], b[9]) = 1000, (1000 * other[0], 1000 * other[1])
    assert abs(simhash_agreement(a, b) - expected) < bound(expected) + 0.012


@pytest.mark.parametrize(("common", "own"), [(0, 100), (30, 70), (80, 20), (100, 0)])
def test_minhash_collisions_follow_jaccard(common, own):
    a, b = np.zeros((2, 512))
    a[: common + own] = 1
    b[:common] = b[common + own : common + 2 * own] = 1
    jaccard = common / (common + 2 * own)
    empty = (1 - 100 / 512) ** 8
    # Borrowed positions coincide by chance, one time in eight.
    surplus = (1 - jaccard) * 2 * empty / 8
    rate = bin_agreement(a, b, window=8)
    assert jaccard - bound(jaccard) <= rate <= jaccard + surplus + bound(jaccard + surplus)


@pytest.mark.parametrize("common", [0, 8, 16])
def test_densification_keeps_jaccard_with_empty_bins(common):
    """Use sets of 16 among 1,024: seven of eight bins are empty and must borrow."""
    a, b = np.zeros((2, 1024))
    a[:16] = 1
    b[16 - common : 32 - common] = 1
    jaccard = common / (32 - common)
    rate = bin_agreement(a, b, window=8)
    chance = (1 - jaccard) / 8
    # Hashes share donors here: their errors are not independent, hence the wider bound.
    assert jaccard - 3 * bound(0.5) <= rate <= jaccard + 1.5 * chance + 3 * bound(0.5)


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0, 10.0])
def test_winner_take_all_of_two_follows_pairwise_order(noise):
    rng = np.random.default_rng(int(10 * noise))
    a = rng.random(100) + 0.01
    b = a + noise * rng.random(100)
    order = np.sign(a[:, None] - a) == np.sign(b[:, None] - b)
    expected = order[~np.eye(100, dtype=bool)].mean()
    assert abs(bin_agreement(a, b, window=2) - expected) < bound(expected)


def test_winner_take_all_ignores_monotone_functions():
    values = np.random.default_rng(0).random(100) + 0.01
    assert bin_agreement(values, np.exp(5 * values), window=8) == 1


def hits_of_all(family: str, weight: np.ndarray, bias: np.ndarray, hidden: np.ndarray, bits: int) -> np.ndarray:
    """Count in how many tables each label shares the code of one point."""
    config = LSHConfig(family=family, n_tables=1500, n_bits=bits, covered=1.0, probe_limit=10**6, seed=1)
    index = LSHIndex(config, len(weight), weight.shape[1])
    index.rebuild(weight.astype(np.float32), bias.astype(np.float32))
    ids, hits = index.query(hidden[None].astype(np.float32), len(weight))
    out = np.zeros(len(weight))
    out[ids] = hits
    return out


@pytest.mark.parametrize(("family", "bits", "least"), [("simhash", 1, 0.97), ("dwta", 3, 0.8), ("minhash", 3, 0.75)])
def test_collisions_rank_by_inner_product_not_cosine(family, bits, least):
    """Labels point in all directions, and their lengths differ so much that the two rankings disagree."""
    rng = np.random.default_rng(2)
    hidden = np.maximum(rng.standard_normal(64), 0)
    weight = rng.standard_normal((400, 64)) + np.linspace(-1, 2, 400)[:, None] * hidden
    weight *= np.exp(rng.uniform(-1.5, 0, (400, 1)))
    centered = weight - weight.mean(axis=0)
    scores = centered @ hidden
    cosines = scores / np.linalg.norm(centered, axis=1)
    positive = scores > 0  # below that, more length means a lower score and MinHash and DWTA see little
    hits = hits_of_all(family, weight, np.zeros(400), hidden, bits)[positive]
    by_score, by_cosine = (spearmanr(hits, values[positive]).statistic for values in (scores, cosines))
    assert by_score > least
    assert by_score > by_cosine + 0.05


@pytest.mark.parametrize(("family", "bits"), [("simhash", 1), ("dwta", 3), ("minhash", 3)])
def test_bias_raises_collisions(family, bits):
    rng = np.random.default_rng(3)
    hidden = np.maximum(rng.standard_normal(64), 0)
    weight = np.tile(rng.standard_normal((100, 64)), (2, 1)) * 0.3
    bias = np.repeat([2.0, -2.0], 100)
    hits = hits_of_all(family, weight, bias, hidden, bits)
    assert (hits[:100] > hits[100:]).mean() > 0.9


def test_simhash_sums_are_exact_in_float32():
    """The largest products at the greatest width stay below 2**24, where float32 represents every integer."""
    family = SimHash(LSHConfig(n_tables=4, n_bits=8), 8192)
    rng = np.random.default_rng(0)
    sphere = LabelSphere(center=np.zeros(8193, np.float32), radius=50.0)
    weight, bias = rng.standard_normal((8, 8192)).astype(np.float32), np.ones(8, np.float32)
    for vectors in (family.label_vectors(sphere, weight, bias), family.query_vectors(weight)):
        assert (vectors == np.rint(vectors)).all()
        lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
        assert lengths.max() * np.linalg.norm(family.functions.astype(np.float64), axis=1).max() < 2**24


def test_vectors_beyond_the_radius_keep_their_direction():
    config = LSHConfig(n_tables=10, n_bits=16)
    family = HASH_FAMILIES[config.family](config, 32)
    sphere = LabelSphere(center=np.zeros(33, np.float32), radius=1.0)
    weight = np.random.default_rng(0).standard_normal((1, 32)).astype(np.float32)
    weight /= np.linalg.norm(weight)
    both = family.label_vectors(sphere, np.concatenate((weight, 9 * weight)), np.zeros(2, np.float32))
    codes = family.codes(both, 1)
    assert np.unpackbits((codes[:, 0] ^ codes[:, 1]).view(np.uint8)).sum() <= 2


def test_dwta_threshold_drops_short_labels():
    config = LSHConfig(family="dwta", n_tables=100, n_bits=3)
    family = DWTA(config, 32)
    sphere = LabelSphere(center=np.zeros(33, np.float32), radius=1.0)
    tiny = np.full((1, 32), 1e-3, np.float32)
    codes = family.codes(family.label_vectors(sphere, tiny, np.zeros(1, np.float32)), 1)
    bins = np.arange(100)
    assert (codes[:, 0] == (7 + bins) % 8).all()  # the last place wins in every bin
