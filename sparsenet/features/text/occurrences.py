"""Name and locate the features of a text, which the kernel only hashes and counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from sparsenet.features.text.featuriser import FeatureRules, unicode_table


class CharacterClass(IntEnum):
    """The classes of code points in `unicode_table`, as the kernel numbers them."""

    WORD = 1
    MARK = 2
    SYMBOL = 3
    SINGLE = 4  # a word of its own, as in Chinese
    IGNORED = 5
    INNER = 6  # part of a word between letters, such as an apostrophe


class HashConstant(IntEnum):
    """Constants of the kernel's hash function."""

    MASK = 2**64 - 1
    SEED = 0x243F6A8885A308D3
    TEXT_START = 0x13198A2E03707344  # also the seed of character n-grams
    TEXT_END = 0xA4093822299F31D0
    WORD_START = 0x110000  # beyond the last code point
    WORD_END = 0x110001
    CHAIN_FACTOR = 0x9E3779B97F4A7C15
    MIX_FACTOR = 0xD6E8FEB86659FD93


@dataclass(frozen=True)
class FeatureOccurrence:
    """An occurrence of a feature: its name, its place in the text, and its slot."""

    name: str
    begin: int
    end: int
    slot: int


class _Token(NamedTuple):
    """A word or symbol: its folded code points, its place in the text, and the place of each code point."""

    codes: list[int]
    begin: int
    end: int
    is_word: bool
    places: list[int]


def occurrences(text: str, rules: FeatureRules) -> Iterator[FeatureOccurrence]:
    """Yield every occurrence of every feature, hashed as the kernel does, in slow Python."""
    tokens = list(_tokens(text))
    # A hash, a name and a place for each item of word n-grams: the start, the tokens, the end.
    items = [
        (int(HashConstant.TEXT_START), "^", 0, 0),
        *((_mixed(_chained(HashConstant.SEED, t.codes)), text[t.begin : t.end], t.begin, t.end) for t in tokens),
        (int(HashConstant.TEXT_END), "$", len(text), len(text)),
    ]
    for last in range(1, len(items) if tokens else 0):
        for n in range(1, min(rules.word_ngrams, last + 1) + 1):
            first = last - n + 1
            if first == len(tokens) + 1:
                continue  # the end alone
            words = items[max(first, 1) : min(last, len(tokens)) + 1]
            seed = HashConstant.TEXT_START if first == 0 else HashConstant.SEED
            value = _chained(seed, [item[0] for item in items[max(first, 1) : last + 1]])
            name = " ".join(item[1] for item in items[first : last + 1])
            yield FeatureOccurrence(name, words[0][2], words[-1][3], _slot(value, rules.bits, 0))
    for token in tokens:
        if token.is_word and rules.char_high:
            yield from _character_ngrams(token, rules)


def _character_ngrams(token: _Token, rules: FeatureRules, max_characters: int = 64) -> Iterator[FeatureOccurrence]:
    """Yield the character n-grams of the first `max_characters` code points of a word."""
    start_mark, end_mark = HashConstant.WORD_START, HashConstant.WORD_END
    codes = [start_mark, *token.codes[:max_characters], end_mark]
    edges = [token.begin, *token.places[:max_characters], token.end]
    for first in range(len(codes)):
        for n in range(rules.char_low, min(rules.char_high, len(codes) - first, len(codes) - 1) + 1):
            run = codes[first : first + n]
            begin, end = edges[first], edges[first + n - 1] + (first + n < len(codes))
            name = "".join("^" if code == start_mark else "$" if code == end_mark else chr(code) for code in run)
            begin = min(begin, token.end - 1)
            end = min(max(end, begin + 1), token.end)
            yield FeatureOccurrence(
                f"~{name}", begin, end, _slot(_chained(HashConstant.TEXT_START, run), rules.bits, 1)
            )


def _tokens(text: str) -> Iterator[_Token]:
    """Split a text into words and symbols."""
    pages, entries = unicode_table()
    known = []
    for place, char in enumerate(text):
        entry = int(entries[(int(pages[ord(char) >> 7]) << 7) + (ord(char) & 127)])
        if entry & 7 != CharacterClass.IGNORED:
            known.append((place, ord(char) + (entry >> 3), entry & 7))
    codes: list[int] = []
    places: list[int] = []
    single = False
    for i, (place, code, kind) in enumerate(known):
        following = known[i + 1][2] if i + 1 < len(known) else 0
        goes_on = following in (CharacterClass.WORD, CharacterClass.MARK)
        inside = kind == CharacterClass.INNER and codes and not single and goes_on
        if not (inside or kind == CharacterClass.MARK or (kind == CharacterClass.WORD and not single)):
            if codes:
                yield _Token(codes, places[0], places[-1] + 1, True, places)
            codes, places, single = [], [], kind == CharacterClass.SINGLE
            if kind in (CharacterClass.SYMBOL, CharacterClass.INNER):
                yield _Token([code], place, place + 1, False, [place])
            if kind not in (CharacterClass.SINGLE, CharacterClass.WORD):
                continue
        codes.append(code)
        places.append(place)
    if codes:
        yield _Token(codes, places[0], places[-1] + 1, True, places)


def _chained(value: int, items: Sequence[int]) -> int:
    for item in items:
        value = ((value ^ item) * HashConstant.CHAIN_FACTOR) & HashConstant.MASK
    return value


def _mixed(value: int) -> int:
    value = ((value ^ (value >> 32)) * HashConstant.MIX_FACTOR) & HashConstant.MASK
    return value ^ (value >> 32)


def _slot(value: int, bits: int, half: int) -> int:
    return (_mixed(value) >> (65 - bits)) | half << (bits - 1)
