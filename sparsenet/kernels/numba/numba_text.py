"""Extract hashed features of texts in Numba, with the same results as ``csrc/text/features.cpp``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.kernels.numba.numba_common import checked, close_gaps, jit, parallel_for
from sparsenet.kernels.types import I32, I64, U8

MAX_WORDS, MAX_CHARACTERS, MAX_COUNT = 8, 64, 255
_WORD, _MARK, _SYMBOL, _SINGLE, _IGNORED, _INNER = range(1, 7)
_REPLACEMENT = 0xFFFD
_START = np.uint64(0x243F6A8885A308D3)
_TEXT_START = np.uint64(0x13198A2E03707344)
_TEXT_END = np.uint64(0xA4093822299F31D0)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_MIXER = np.uint64(0xD6E8FEB86659FD93)
_WORD_START, _WORD_END = 0x110000, 0x110001
_HALF = np.uint64(32)
# Indices into the state of a text. `table` is a hash table from slots to positions + 1, with linear probing.
_FOUND, _LENGTH, _PENDING, _SINGLE_WORD, _N_HISTORY = range(5)


def join_texts(texts: list[str]) -> tuple[U8, I64]:
    """See `sparsenet/_core.pyi`."""
    encoded = [str.encode(text, "utf-8", "replace") for text in texts]
    offsets = np.zeros(len(encoded) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)), out=offsets[1:])
    return np.frombuffer(b"".join(encoded), np.uint8), offsets


def text_room(offsets: I64, word_ngrams: int, char_low: int, char_high: int, bits: int) -> int:
    """See `sparsenet/_core.pyi`."""
    _check_rules(word_ngrams, char_low, char_high, bits)
    return int(_max_features(offsets, word_ngrams, char_low, char_high, bits).sum())


@checked(
    text="u8 _", offsets="i64 n+1", pages="u16 _", entries="i32 _", ends="out i64 n", slots="out i32 m",
    counts="out u8 m",
)  # fmt: skip
def text_features(
    text: U8,
    offsets: I64,
    pages: NDArray[np.uint16],
    entries: I32,
    word_ngrams: int,
    char_low: int,
    char_high: int,
    bits: int,
    ends: I64,
    slots: I32,
    counts: U8,
    threads: int,
) -> None:
    """See `sparsenet/_core.pyi`."""
    _check_rules(word_ngrams, char_low, char_high, bits)
    if offsets[0] < 0 or np.any(offsets[1:] < offsets[:-1]) or offsets[-1] > len(text):
        raise ValueError("offsets must rise from 0 or more to at most the size of text")
    if len(pages) != 0x110000 >> 7 or len(entries) < (int(pages.max()) + 1) << 7:
        raise ValueError("pages and entries are not a Unicode table")
    starts = np.concatenate(([0], np.cumsum(_max_features(offsets, word_ngrams, char_low, char_high, bits))))
    if len(slots) < starts[-1]:
        raise ValueError(f"slots must have room for {starts[-1]} features")
    rules = np.array([word_ngrams, char_low, char_high, bits])
    out = (ends, slots, counts)
    parallel_for(_extract_all, len(ends), threads, text, offsets, pages, entries, rules, starts, *out, grain=32)
    close_gaps(starts, *out)


def _check_rules(word_ngrams: int, char_low: int, char_high: int, bits: int) -> None:
    lowest_high = char_low if char_high else 0
    for name, value, low, high in (
        ("word_ngrams", word_ngrams, 1, MAX_WORDS),
        ("char_low", char_low, 1, MAX_CHARACTERS),
        ("char_high", char_high, lowest_high, MAX_CHARACTERS),
        ("bits", bits, 2, 30),
    ):
        if not low <= value <= high:
            raise ValueError(f"{name} must be from {low} to {high}, got {value}")


def _max_features(offsets: I64, word_ngrams: int, char_low: int, char_high: int, bits: int) -> I64:
    lengths = char_high - char_low + 1 if char_high else 0
    sizes: I64 = np.diff(offsets)
    return np.minimum(sizes * (word_ngrams + 3 * lengths) + 2 * MAX_WORDS, 1 << bits)


@jit
def _extract_all(
    first: int,
    last: int,
    text: U8,
    offsets: I64,
    pages: NDArray[np.uint16],
    entries: I32,
    rules: I64,
    starts: I64,
    ends: I64,
    slots: I32,
    counts: U8,
) -> None:
    table = np.zeros(1024, np.int32)
    codes = np.zeros(MAX_CHARACTERS + 2, np.int64)
    hashes = np.zeros(MAX_WORDS + 1, np.uint64)  # of the last n-grams, then of the current word
    for i in range(first, last):
        row_slots, row_counts = slots[starts[i] : starts[i + 1]], counts[starts[i] : starts[i + 1]]
        state = np.zeros(5, np.int64)
        table = _extract(
            text[offsets[i] : offsets[i + 1]],
            pages,
            entries,
            rules,
            state,
            codes,
            hashes,
            table,
            row_slots,
            row_counts,
        )
        ends[i] = state[_FOUND]


@jit
def _extract(
    text: U8,
    pages: NDArray[np.uint16],
    entries: I32,
    rules: I64,
    state: I64,
    codes: I64,
    hashes: NDArray[np.uint64],
    table: I32,
    slots: I32,
    counts: U8,
) -> I32:
    hashes[MAX_WORDS] = _START
    if rules[0] > 1:
        hashes[0] = _TEXT_START
        state[_N_HISTORY] = 1
    out = (rules, state, codes, hashes, slots, counts)
    at = 0
    while at < len(text):
        code, at = _read_code(text, at)
        entry = entries[(np.int64(pages[code >> 7]) << 7) + (code & 127)]
        table = _read(code + (entry >> 3), entry & 7, out, table)
    table = _end_word(out, table)
    if state[_FOUND] > 0:
        table = _add_token(_TEXT_END, False, out, table)
    mask = len(table) - 1
    for i in range(state[_FOUND]):
        at = _hash(slots[i]) & mask
        while table[at] != 0:
            table[at] = 0
            at = (at + 1) & mask
    return table


@jit
def _read_code(text: U8, at: int) -> tuple[Any, int]:
    lead = np.int64(text[at])
    at += 1
    if lead < 0x80:
        return lead, at
    if lead < 0xC2 or lead > 0xF4:
        return _REPLACEMENT, at
    more = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
    code = lead & (0x3F >> more)
    low = 0xA0 if lead == 0xE0 else 0x90 if lead == 0xF0 else 0x80
    high = 0x9F if lead == 0xED else 0x8F if lead == 0xF4 else 0xBF
    for _ in range(more):
        if at == len(text) or text[at] < low or text[at] > high:
            return _REPLACEMENT, at
        code = code << 6 | (np.int64(text[at]) & 0x3F)
        at += 1
        low, high = 0x80, 0xBF
    return code, at


@jit
def _read(folded: int, kind: int, out: Any, table: I32) -> I32:
    state = out[1]
    if kind in (_WORD, _MARK):
        if state[_SINGLE_WORD] and kind == _WORD:
            table = _end_word(out, table)
        if state[_PENDING]:
            _append(state[_PENDING], out)
            state[_PENDING] = 0
        _append(folded, out)
    elif kind == _INNER and state[_LENGTH] and not state[_PENDING] and not state[_SINGLE_WORD]:
        state[_PENDING] = folded
    elif kind != _IGNORED:
        table = _end_word(out, table)
        if kind in (_SYMBOL, _INNER):
            table = _add_token(_mixed(_chain(_START, np.uint64(folded))), True, out, table)
        if kind == _SINGLE:
            _append(folded, out)
            state[_SINGLE_WORD] = 1
    return table


@jit
def _append(code: int, out: Any) -> None:
    _, state, codes, hashes, _, _ = out
    hashes[MAX_WORDS] = _chain(hashes[MAX_WORDS], np.uint64(code))
    if state[_LENGTH] < MAX_CHARACTERS:
        codes[1 + state[_LENGTH]] = code
    state[_LENGTH] += 1


@jit
def _end_word(out: Any, table: I32) -> I32:
    rules, state, _, hashes, _, _ = out
    if state[_LENGTH] > 0:
        table = _add_token(_mixed(hashes[MAX_WORDS]), True, out, table)
        if rules[2] > 0:
            table = _add_characters(out, table)
        hashes[MAX_WORDS] = _START
        state[_LENGTH] = 0
        state[_SINGLE_WORD] = 0
    if state[_PENDING]:
        table = _add_token(_mixed(_chain(_START, np.uint64(state[_PENDING]))), True, out, table)
        state[_PENDING] = 0
    return table


@jit
def _add_token(word: np.uint64, alone: bool, out: Any, table: I32) -> I32:
    rules, state, _, hashes, _, _ = out
    state[_N_HISTORY] = min(state[_N_HISTORY] + 1, rules[0])
    for k in range(state[_N_HISTORY] - 1, 0, -1):
        hashes[k] = _chain(hashes[k - 1], word)
        table = _add(hashes[k], 0, out, table)
    hashes[0] = _chain(_START, word)
    return _add(hashes[0], 0, out, table) if alone else table


@jit
def _add_characters(out: Any, table: I32) -> I32:
    rules, state, codes = out[0], out[1], out[2]
    n = min(state[_LENGTH], MAX_CHARACTERS) + 2
    codes[0] = _WORD_START
    codes[n - 1] = _WORD_END
    upper = 1 << (rules[3] - 1)
    for begin in range(n - rules[1] + 1):
        value = _TEXT_START
        for i in range(begin, min(n, begin + rules[2])):
            value = _chain(value, np.uint64(codes[i]))
            if i + 1 - begin >= rules[1] and i + 1 - begin < n:
                table = _add(value, upper, out, table)
    return table


@jit
def _add(value: np.uint64, half: int, out: Any, table: I32) -> I32:
    rules, state, _, _, slots, counts = out
    slot = np.int64(_mixed(value) >> np.uint64(65 - rules[3])) | half
    mask = len(table) - 1
    at = _hash(slot) & mask
    while table[at] != 0:
        if slots[table[at] - 1] == slot:
            if counts[table[at] - 1] < MAX_COUNT:
                counts[table[at] - 1] += 1
            return table
        at = (at + 1) & mask
    found = state[_FOUND]
    slots[found] = slot
    counts[found] = 1
    table[at] = found + 1
    state[_FOUND] = found + 1
    return _grown(table, slots, found + 1) if 2 * (found + 1) > len(table) else table


@jit
def _grown(table: I32, slots: I32, found: int) -> I32:
    larger = np.zeros(2 * len(table), np.int32)
    mask = len(larger) - 1
    for i in range(found):
        at = _hash(slots[i]) & mask
        while larger[at] != 0:
            at = (at + 1) & mask
        larger[at] = i + 1
    return larger


@jit
def _hash(slot: Any) -> Any:
    return np.int64((np.uint64(slot) * _MULTIPLIER) >> _HALF)


@jit
def _chain(value: np.uint64, following: np.uint64) -> np.uint64:
    return (value ^ following) * _MULTIPLIER


@jit
def _mixed(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> _HALF)) * _MIXER
    return value ^ (value >> _HALF)
