"""Which features texts get, by options and by the amount of text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparsenet.core.validation import choice, integer
from sparsenet.features.text.featuriser import FeatureRules
from sparsenet.features.text.word_vectors import WordVectors
from sparsenet.kernels.types import I64


@dataclass(frozen=True, kw_only=True)
class FeatureOptions:
    """The parameters of `TextClassifier` about features, checked.

    Character n-grams help where words are few or new. Short texts get them while training takes minutes at most, long
    texts until there is enough text. Measurements: bench/notes/texts.md, What characters bring.

    Attributes
    ----------
    word_ngrams : int
    auto_words : bool
        Whether `word_ngrams` may be replaced by `single_words`.
    char_ngrams : (int, int) or None
        Shortest and longest character n-gram; ignored with `auto_characters`.
    auto_characters : bool
        Whether to choose the lengths by the amount of text.
    bits : int
        Features are hashed into ``2**bits`` slots.
    max_bytes_all_lengths : int
        Up to this many bytes of text the lengths are 3 to 5; with more, 4 alone does as well at half the cost.
    max_bytes_characters : int
        With more bytes of text, words are the only features.
    max_characters_texts, max_characters_product : int
        The same beyond the larger of two limits: this number of texts, and this product of bytes and mean length.
    vectors : WordVectors or None
        The vectors of texts, as dense features next to the sparse ones.
    sampled_bytes : int
        Bytes of text from which the mean length is estimated, so that a file need not be read to its end first.
    """

    word_ngrams: int = 2
    auto_words: bool = True
    char_ngrams: tuple[int, int] | None = None
    auto_characters: bool = True
    bits: int = 22
    vectors: WordVectors | None = None
    max_bytes_all_lengths: int = 1 << 20
    max_bytes_characters: int = 32 << 20
    max_characters_texts: int = 2000
    max_characters_product: int = 1 << 31
    sampled_bytes: int = 8 << 20

    @classmethod
    def of(cls, p: Mapping[str, Any]) -> FeatureOptions:
        """Check the parameters `word_ngrams`, `char_ngrams` and `bits` of a classifier or transformer."""
        auto = isinstance(p["char_ngrams"], str) and p["char_ngrams"] == "auto"
        auto_words = isinstance(p["word_ngrams"], str)
        if auto_words:
            choice("word_ngrams", p["word_ngrams"], ("auto",), " or a number of words")
        return cls(
            word_ngrams=cls.word_ngrams if auto_words else integer("word_ngrams", p["word_ngrams"], 1, 8),
            auto_words=auto_words,
            char_ngrams=None if auto else _lengths(p["char_ngrams"]),
            auto_characters=auto,
            bits=integer("bits", p["bits"], 8, 28),
        )

    def single_words(self) -> FeatureOptions:
        """Return options without pairs of words, unless they were requested.

        A blend is better without them: neighbors that share a pair by chance outvote others, and the tree's machines
        of rare labels overfit them (bench/notes/texts.md).
        """
        return replace(self, word_ngrams=1) if self.auto_words else self

    def rules_like(self, rules: FeatureRules) -> FeatureRules:
        """Return rules with the word n-grams of these options, and all else as in `rules`."""
        return replace(rules, word_ngrams=self.word_ngrams)

    def rules(self, lengths: I64) -> FeatureRules:
        """Return the features of texts of these lengths, in bytes."""
        n_bytes, chars = int(lengths.sum()), self.char_ngrams
        if self.auto_characters and n_bytes <= self._max_bytes_with_characters(lengths):
            chars = (3, 5) if n_bytes <= self.max_bytes_all_lengths else (4, 4)
        low, high = chars or (1, 0)
        return FeatureRules(word_ngrams=self.word_ngrams, char_low=low, char_high=high, bits=self.bits)

    def are_decided(self, lengths: I64) -> bool:
        """Return whether further texts after these cannot change the features."""
        enough = max(self.sampled_bytes, self._max_bytes_with_characters(lengths))
        return not self.auto_characters or int(lengths.sum()) > enough

    def _max_bytes_with_characters(self, lengths: I64) -> float:
        """Return the most bytes of text that still get character features."""
        sample = lengths[: int(np.searchsorted(np.cumsum(lengths), self.sampled_bytes, side="right")) + 1]
        mean = max(1.0, float(sample.mean()) if len(sample) else 1.0)
        of_long_texts = max(self.max_characters_texts * mean, self.max_characters_product / mean)
        return min(self.max_bytes_characters, of_long_texts)


def _lengths(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"char_ngrams must be 'auto', None or a pair of lengths such as (3, 5), got {value!r}")
    low = integer("char_ngrams[0]", value[0], 1, 64)
    return low, integer("char_ngrams[1]", value[1], low, 64)
