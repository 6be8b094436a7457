"""Weighted features and scores of texts on every backend and level, against a float64 oracle."""

from __future__ import annotations

import numpy as np
import pytest

from sparsenet import kernels
from sparsenet.features.text.featuriser import FeatureRules, extract, unicode_table
from sparsenet.features.text.vocabulary import Vocabulary, log_counts
from tests.support.texts import planted

TEXTS = [*planted(40)[0], "", "unheard-of", "one " * 300, "x" * 5000]


def vocabulary(rules: FeatureRules, share: float, rng: np.random.Generator) -> Vocabulary:
    """Return a vocabulary of some slots, with random weights."""
    slots = np.flatnonzero(rng.random(1 << rules.bits) < share).astype(np.int32)
    return Vocabulary(rules, slots, rng.uniform(0.5, 2, len(slots)).astype(np.float32))


def expected_points(words: Vocabulary) -> np.ndarray:
    """Return all texts as dense points (n, n_features)."""
    rules = words.rules
    rows = extract(*kernels.join_texts(TEXTS), rules, 1)
    points = np.zeros((len(TEXTS), len(words)))
    place = {slot: feature for feature, slot in enumerate(words.slots.tolist())}
    for text in range(len(TEXTS)):
        for entry in range(rows.indptr[text], rows.indptr[text + 1]):
            if rows.slots[entry] in place:
                feature = place[rows.slots[entry]]
                points[text, feature] = (1 + np.log(int(rows.counts[entry]))) * words.weights[feature]
    of_words = words.slots < 1 << (rules.bits - 1)
    for kind in (of_words, ~of_words):
        lengths = np.sqrt((points[:, kind] ** 2).sum(axis=1, keepdims=True))
        points[:, kind] /= np.maximum(lengths, 1e-300) * np.sqrt(2 if rules.char_high else 1)
    return points


@pytest.mark.parametrize("bits", [2, 5, 6, 7, 14])
@pytest.mark.parametrize("char_high", [0, 5])
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_text_points_match_the_oracle(backend, monkeypatch, bits, char_high, share):
    monkeypatch.setattr("sparsenet.features.text.vocabulary.kernels.text_points", backend.text_points)
    words = vocabulary(FeatureRules(char_high=char_high, bits=bits), share, np.random.default_rng(bits))
    points = words.points(extract(*kernels.join_texts(TEXTS), words.rules, 1), threads=2)
    found = np.zeros((len(TEXTS), len(words)))
    found[np.repeat(np.arange(len(TEXTS)), np.diff(points.indptr)), points.indices] = points.data
    np.testing.assert_allclose(found, expected_points(words), rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("n_columns", [1, 2, 3, 4, 5, 6, 7, 16, 17, 40])
@pytest.mark.parametrize(("bits", "char_high", "share"), [(14, 5, 0.3), (14, 0, 1.0), (5, 5, 0.5), (7, 5, 0.0)])
@pytest.mark.parametrize("kept", [None, 0.1, 0.3])  # of 40 columns: some features with a full row, and all
def test_text_scores_match_the_oracle(backend, n_columns, bits, char_high, share, kept):
    rng = np.random.default_rng(n_columns)
    words = vocabulary(FeatureRules(char_high=char_high, bits=bits), share, rng)
    matrix = rng.integers(-127, 128, (len(words), n_columns)).astype(np.int8)
    places: tuple[np.ndarray, ...] = ()
    given = matrix
    if kept is not None:
        matrix[rng.random(matrix.shape) > kept] = 0
        feature, column = np.nonzero(matrix)
        places = np.searchsorted(feature, np.arange(len(words) + 1)), column.astype(np.int32)
        given = matrix[feature, column]
    factors = rng.uniform(0.001, 0.01, len(words)).astype(np.float32)
    bias = rng.normal(size=n_columns).astype(np.float32)
    about = (*unicode_table(), *words.rules.as_tuple(), *words.tables, words.weights, log_counts())
    scorer = backend.TextScorer(*about, given, factors, bias, *places)
    out = np.full((len(TEXTS), n_columns), np.nan, np.float32)
    scorer.scores(*kernels.join_texts(TEXTS), out, 2)
    expected = expected_points(words) @ (matrix * factors[:, None].astype(np.float64)) + bias
    np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-5)
    best, score = scorer.best(TEXTS[0])
    if n_columns == 1:
        assert (best, score) == (int(out[0, 0] > 0), pytest.approx(abs(out[0, 0]), abs=1e-6))
    else:
        assert (best, score) == (out[0].argmax(), pytest.approx(out[0].max(), abs=1e-6))
