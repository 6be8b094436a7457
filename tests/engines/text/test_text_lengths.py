"""The choice of character n-gram lengths by the amount and length of texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsenet import TextClassifier
from sparsenet.engines.text.text_options import TextOptions

KIB, MIB = 1 << 10, 1 << 20


def lengths_of(char_ngrams, n_texts: int, n_bytes: int) -> tuple[int, int] | None:
    lengths = np.full(n_texts, n_bytes, np.int64)
    rules = parsed(char_ngrams).features.rules(lengths)
    return (rules.char_low, rules.char_high) if rules.char_high else None


def parsed(char_ngrams) -> TextOptions:
    return TextOptions.of(TextClassifier(char_ngrams=char_ngrams).get_params())


@pytest.mark.parametrize(
    ("n_texts", "n_bytes", "expected"),
    [
        (0, 1, (3, 5)),
        (1, 0, (3, 5)),
        (10_000, 100, (3, 5)),
        (20_000, 100, (4, 4)),
        (1_000, 3 * KIB, (4, 4)),  # so few texts use them, whatever their length
        (3_000, 3 * KIB, None),
        (25_000, 1300, None),
        (120_000, 240, None),
        (30_000, 240, (4, 4)),
        (400_000, 60, (4, 4)),
        (700_000, 60, None),
        (1, 33 * MIB, None),
    ],
)
def test_short_texts_use_character_ngrams_and_long_ones_do_not(n_texts, n_bytes, expected):
    assert lengths_of("auto", n_texts, n_bytes) == expected


def test_keeps_the_given_lengths():
    assert lengths_of((2, 6), 100_000, 2000) == (2, 6)
    assert lengths_of(None, 10, 10) is None


@given(
    first=st.lists(st.integers(0, 12 * MIB), max_size=12),
    many=st.integers(0, 300_000),
    each=st.integers(1, 200),
    rest=st.lists(st.integers(0, 12 * MIB), max_size=12),
)
def test_partial_fit_keeps_the_choice(first, many, each, rest):
    begin = np.array([*first, *[each] * many], np.int64)
    options = parsed("auto").features
    if options.are_decided(begin):
        assert options.rules(begin) == options.rules(np.concatenate((begin, np.array(rest, np.int64))))
