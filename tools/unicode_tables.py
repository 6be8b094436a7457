"""Make sparsenet/features/text/unicode.npz: the class and the simple case folding of each code point.

Run ``python tools/unicode_tables.py`` with a newer Python for a newer Unicode. Models depend on this table, so a change
needs a new version of the features.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np

TARGET = Path(__file__).parents[1] / "sparsenet" / "features" / "text" / "unicode.npz"
PAGE = 128
SEPARATOR, WORD, MARK, SYMBOL, SINGLE, IGNORED, INNER = range(7)
CLASSES = {"L": WORD, "N": WORD, "M": MARK, "P": SYMBOL, "S": SYMBOL, "Z": SEPARATOR, "C": SEPARATOR}
APOSTROPHES = "'\u2019\u02bc\uff07"
# Scripts that do not put spaces between words: each of their letters is a word of its own.
WITHOUT_SPACES = ("CJK ", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "BOPOMOFO", "TAI ", "NEW TAI ")


def kind(char: str) -> int:
    """Return the class of a character."""
    category = unicodedata.category(char)
    if char in APOSTROPHES:
        return INNER
    if category == "Cf":  # soft hyphens, joiners, marks of direction
        return IGNORED
    if category in ("Lo", "Lm", "Nl") and unicodedata.name(char, "").startswith(WITHOUT_SPACES):
        return SINGLE
    return WORD if category == "Pc" else CLASSES[category[0]]


def folded(char: str) -> str:
    """Return the simple case folding: one character for one."""
    if char in APOSTROPHES:
        return "'"
    full = char.casefold()
    return full if len(full) == 1 else char.lower() if len(char.lower()) == 1 else char


def tables() -> dict[str, np.ndarray]:
    """Return the two stages of the table."""
    codes = range(0x110000)
    entries = np.array([(ord(folded(chr(c))) - c) * 8 + kind(chr(c)) for c in codes], np.int32)
    pages, where = np.unique(entries.reshape(-1, PAGE), axis=0, return_inverse=True)
    return {"pages": where.astype(np.uint16).reshape(-1), "entries": pages.reshape(-1)}


if __name__ == "__main__":
    np.savez_compressed(TARGET, **tables())
