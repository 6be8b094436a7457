"""Features of texts: each backend against plain Python and `unicodedata`."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsenet import kernels
from sparsenet.features.text.featuriser import FeatureRules, unicode_table
from tests.support.text_reference import TEXTS, TOOL, features

RULES = [(1, 3, 0, 22), (2, 3, 5, 22), (3, 1, 2, 30), (8, 2, 64, 20), (2, 3, 5, 2)]
BROKEN = [
    b"\xff",
    b"ab\x80cd",
    b"\xc3",
    b"\xe2\x82",
    b"\xe2\x82z",
    b"\xf0\x9f\x98",
    b"\xed\xa0\x80",
    b"\xc0\xaf\xe0\x80\xaf",
    b"\xf4\x90\x80\x80",
    b"\xf0\x9f\x98\x80\xf0",
]


def extract(module, texts: list[bytes], rules, threads: int = 1) -> list[dict[int, int]]:
    offsets = np.cumsum([0, *map(len, texts)])
    room = module.text_room(offsets, *rules)
    ends = np.empty(len(texts), np.int64)
    slots, counts = np.full(room, -1, np.int32), np.zeros(room, np.uint8)
    text = np.frombuffer(b"".join(texts), np.uint8)
    module.text_features(text, offsets, *unicode_table(), *rules, ends, slots, counts, threads)
    rows = [slice(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
    for row in rows:
        assert len(set(slots[row].tolist())) == row.stop - row.start, "a feature occurs twice"
    return [dict(zip(slots[row].tolist(), counts[row].tolist(), strict=True)) for row in rows]


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_features_match_plain_python(backend, rules):
    texts = [text.encode() for text in TEXTS] + BROKEN
    found = extract(backend, texts, rules)
    for text, row in zip(texts, found, strict=True):
        assert row == features(text, *rules), text[:80]


@given(text=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda t: t.encode("utf-8", "surrogatepass"))))
def test_any_bytes_match_plain_python(text):
    rules = (2, 3, 5, 22)
    assert extract(kernels, [text], rules) == [features(text, *rules)]


def test_threads_change_nothing(backend):
    texts = [f"text number {i} of {i % 7} {'many ' * (i % 11)}words".encode() for i in range(500)]
    one = extract(backend, texts, (2, 3, 5, 22))
    for threads in (2, 4):
        assert extract(backend, texts, (2, 3, 5, 22), threads) == one


@pytest.mark.numba_smoke
def test_features_keep_the_order_of_first_appearance(backend):
    (row,) = extract(backend, [b"b a b"], (1, 3, 0, 22))
    (b,) = extract(backend, [b"b"], (1, 3, 0, 22))
    assert [*row.values()] == [2, 1]
    assert next(iter(row)) == next(iter(b))


def test_uses_slots_evenly():
    """Hashes of 200,000 words fill slots uniformly: more collisions would cost accuracy."""
    (row,) = extract(kernels, [" ".join(f"{i:x}" for i in range(200_000)).encode()], (1, 3, 0, 19))
    n_slots = 2**18
    expected = n_slots * (1 - (1 - 1 / n_slots) ** 200_000)
    assert abs(len(row) / expected - 1) < 0.005


def test_unicode_table_matches_unicodedata():
    pages, entries = unicode_table()
    table = entries.reshape(-1, 128)[pages].reshape(-1)
    assigned = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    assert len(assigned) > 250_000
    if unicodedata.unidata_version != "14.0.0":  # another Unicode has more, and changes little of what there was
        assigned = [c for c in assigned if unicodedata.ucd_3_2_0.category(chr(c)) != "Cn"]
    wrong = [c for c in assigned if table[c] != (ord(TOOL.folded(chr(c))) - c) * 8 + TOOL.kind(chr(c))]
    assert len(wrong) <= (0 if unicodedata.unidata_version == "14.0.0" else 100)


def test_long_texts_need_at_most_one_entry_a_slot(backend):
    assert backend.text_room(np.array([0, 100_000_000]), 2, 3, 5, 20) == 2**20


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": np.array([0, 9])}, "offsets"),
        ({"offsets": np.array([2, 1])}, "offsets"),
        ({"offsets": np.array([-1, 3])}, "offsets"),
        ({"slots": np.zeros(3, np.int32), "counts": np.zeros(3, np.uint8)}, "slots must have room"),
        ({"slots": np.zeros(300, np.int64)}, "slots"),
        ({"bits": 31}, "bits must be from 2 to 30, got 31"),
        ({"word_ngrams": 0}, "word_ngrams must be from 1 to 8, got 0"),
        ({"char_high": 2}, "char_high must be from 3 to 64, got 2"),
        ({"pages": np.zeros(9, np.uint16)}, "pages"),
        ({"entries": np.zeros(9, np.int32)}, "entries|pages"),
        ({"threads": 0}, "threads must be at least 1"),
    ],
)
def test_rejects_wrong_arguments(backend, change, message):
    pages, entries = unicode_table()
    arguments = {
        "text": np.frombuffer(b"a b c", np.uint8),
        "offsets": np.array([0, 5]),
        "pages": pages,
        "entries": entries,
        "word_ngrams": 2,
        "char_low": 3,
        "char_high": 5,
        "bits": 22,
        "ends": np.empty(1, np.int64),
        "slots": np.empty(300, np.int32),
        "counts": np.empty(300, np.uint8),
        "threads": 1,
    }
    backend.text_features(**arguments)
    with pytest.raises(ValueError, match=message):
        backend.text_features(**{**arguments, **change})


class Name(str):
    """A subclass of str, such as NumPy has."""

    __slots__ = ()


@pytest.mark.parametrize(
    "texts", [[], [""], ["abc", "", "d"], ["\u00e9", "a", "\U0001f600\u4e2d", "\udc80x"], [Name("ab")]]
)
def test_texts_are_joined_as_utf8(backend, texts):
    encoded = [text.encode("utf-8", "replace") for text in texts]
    joined, offsets = backend.join_texts(texts)
    assert joined.dtype == np.uint8
    assert joined.tobytes() == b"".join(encoded)
    assert offsets.dtype == np.int64
    assert offsets.tolist() == np.cumsum([0, *map(len, encoded)]).tolist()


@pytest.mark.parametrize("wrong", [None, b"bytes", 3])
def test_rejects_values_that_are_not_text(backend, wrong):
    with pytest.raises(TypeError, match="str"):
        backend.join_texts(["a", wrong])


def test_rules_name_the_wrong_setting():
    with pytest.raises(ValueError, match="word_ngrams must be an integer from 1 to 8, got 9"):
        FeatureRules(word_ngrams=9)
