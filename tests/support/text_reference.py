"""Texts to features in plain Python, from `unicodedata` rather than from the table: the oracle of the text kernels."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType

MASK = 2**64 - 1
START, TEXT_START, TEXT_END = 0x243F6A8885A308D3, 0x13198A2E03707344, 0xA4093822299F31D0
TEXTS = [
    "",
    " ",
    "a",
    "Sort an array, sort it!",
    "don't 'quote' rock'n'roll' ''x",
    "Straße STRASSE ΣΊΣΥΦΟΣ σίσυφος İstanbul ẞ Ǆ ﬀ",
    "日本語のテキスト と カタカナ・中文,ไทยภาษา 한국어 문장",
    "e\u0301te\u0301 soft\u00adhyphen zero\u200dwidth \u0301 नमस्ते",
    "😀😀 👩\u200d👩\u200d👧 €5.99 snake_case C++ №7 ①",
    "x" * 200 + " " + "y" * 62 + " " + "z" * 63,
    "nul\0byte\ttab\r\nline\u2028sep",
    " ".join(f"w{i}" for i in range(2000)),
]


def unicode_tool() -> ModuleType:
    path = Path(__file__).parents[2] / "tools" / "unicode_tables.py"
    spec = importlib.util.spec_from_file_location("unicode_tables", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = unicode_tool()


def words(text: bytes) -> list[tuple[str, bool]]:
    """Split into folded words; True marks words of letters and digits."""
    found: list[tuple[str, bool]] = []
    chars = [c for c in text.decode("utf-8", "replace") if TOOL.kind(c) != TOOL.IGNORED]
    word, single = "", False
    for i, char in enumerate(chars):
        kind = TOOL.kind(char)
        following = TOOL.kind(chars[i + 1]) if i + 1 < len(chars) else TOOL.SEPARATOR
        inside = kind == TOOL.INNER and word and not single and following in (TOOL.WORD, TOOL.MARK)
        if inside or kind == TOOL.MARK or (kind == TOOL.WORD and not single):
            word += TOOL.folded(char)
            continue
        found += [(word, True)] if word else []
        word, single = "", False
        if kind in (TOOL.SYMBOL, TOOL.INNER):
            found.append((TOOL.folded(char), False))
        elif kind in (TOOL.SINGLE, TOOL.WORD):
            word, single = TOOL.folded(char), kind == TOOL.SINGLE
    return found + ([(word, True)] if word else [])


def features(text: bytes, word_ngrams: int, char_low: int, char_high: int, bits: int) -> Counter:
    slots: Counter = Counter()
    tokens = words(text)
    hashes = [mixed(chained(START, map(ord, word))) for word, _ in tokens]
    for i in range(len(hashes)):
        for n in range(1, min(word_ngrams, i + 1) + 1):
            slots[slot(chained(START, hashes[i + 1 - n : i + 1]), bits, 0)] += 1
    for n in range(2, min(word_ngrams, len(hashes) + 1) + 1):  # with the start of the text
        slots[slot(chained(TEXT_START, hashes[: n - 1]), bits, 0)] += 1
    for n in range(2, min(word_ngrams, len(hashes) + 1) + 1):  # with its end
        slots[slot(chained(START, [*hashes[len(hashes) - n + 1 :], TEXT_END]), bits, 0)] += bool(hashes)
    if hashes and word_ngrams >= len(hashes) + 2:  # with both
        slots[slot(chained(TEXT_START, [*hashes, TEXT_END]), bits, 0)] += 1
    for word, has_letters in tokens:
        for gram in grams(word[:64], char_low, char_high) if has_letters and char_high else []:
            slots[slot(chained(TEXT_START, gram), bits, 1)] += 1
    return Counter({feature: min(count, 255) for feature, count in slots.items() if count})


def grams(word: str, low: int, high: int) -> list[list[int]]:
    codes = [0x110000, *map(ord, word), 0x110001]
    lengths = range(low, min(high, len(codes) - 1) + 1)
    return [codes[begin : begin + n] for n in lengths for begin in range(len(codes) - n + 1)]


def chained(value: int, following) -> int:
    for item in following:
        value = ((value ^ item) * 0x9E3779B97F4A7C15) & MASK
    return value


def mixed(value: int) -> int:
    value = ((value ^ (value >> 32)) * 0xD6E8FEB86659FD93) & MASK
    return value ^ (value >> 32)


def slot(value: int, bits: int, half: int) -> int:
    return (mixed(value) >> (65 - bits)) | half << (bits - 1)
