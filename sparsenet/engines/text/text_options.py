"""The parameters of `TextClassifier`, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsenet.core.validation import choice, integer, n_jobs, number_of_bytes, optional, real, switch
from sparsenet.engines.linear.linear import LinearRules
from sparsenet.features.text.featuriser import FeatureRules
from sparsenet.kernels.types import I64

#: With more text than this one length of runs of characters does, at half the cost of three.
LENGTHS_UP_TO = 1 << 20
#: Runs of characters tell what a text's words, if few or new, do not: short texts want them as long as training
#: takes minutes at most, and long ones until there are enough of them, by number, or by bytes times mean length. What
#: was measured is in bench/notes/texts.md, What characters bring.
CHARACTERS_UP_TO = 32 << 20
CHARACTERS_UP_TO_TEXTS = 2000
CHARACTERS_BY_LENGTH = 1 << 31
#: The bytes by which it is told how long texts are, so that a file need not be read to its end for that.
TELLING = 8 << 20
METHODS = ("auto", "linear", "network")
#: All labels are trained against all texts while that takes no more products of a feature and a weight than this, a
#: pass: two or three minutes of one core. Beyond, a network is trained, which computes some thousands of labels a step.
MOST_PRODUCTS = 5e10
#: With more labels, and more pairs of a text and a label, a second training to measure by would take minutes.
MOST_MEASURED = 1000
MOST_PAIRS = 20_000_000


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """The parameters of an estimator; see there."""

    word_ngrams: int
    char_ngrams: tuple[int, int] | None
    auto_characters: bool
    bits: int
    method: str
    epochs: int | None
    linear: LinearRules
    class_weight: Any
    validation_fraction: float | None
    time_budget: float | None
    memory_limit: int | None
    n_jobs: int | None
    verbose: bool | None

    @classmethod
    def of(cls, p: Mapping[str, Any]) -> TextSettings:
        """Check the parameters as `get_params` returns them."""
        chars = p["char_ngrams"]
        auto = isinstance(chars, str) and chars == "auto"
        fraction = p["validation_fraction"]
        weight = p["class_weight"]
        if isinstance(p["epochs"], str):
            choice("epochs", p["epochs"], ("auto",), " or a number of passes")
        epochs = None if isinstance(p["epochs"], str) else integer("epochs", p["epochs"], 1)
        if weight is not None and not isinstance(weight, Mapping):
            choice("class_weight", weight, ("balanced",), ", a dict or None")
        for label, factor in weight.items() if isinstance(weight, Mapping) else ():
            real(f"class_weight[{label!r}]", factor, 1e-30, 1e30)
        if isinstance(fraction, str):
            choice("validation_fraction", fraction, ("auto",), " or a share of the texts")
        return cls(
            word_ngrams=integer("word_ngrams", p["word_ngrams"], 1, 8),
            char_ngrams=None if auto else _lengths(chars),
            auto_characters=auto,
            bits=integer("bits", p["bits"], 8, 28),
            method=choice("method", p["method"], METHODS),
            epochs=epochs,
            linear=LinearRules(
                cost=real("cost", p["cost"], 0, 1e6, open_low=True), epochs=epochs or LinearRules.epochs
            ),
            class_weight=weight,
            validation_fraction=None if isinstance(fraction, str) else real("validation_fraction", fraction, 0, 0.9),
            time_budget=optional(real, "time_budget", p["time_budget"], 0, 1e9),
            memory_limit=optional(number_of_bytes, "memory_limit", p["memory_limit"]),
            n_jobs=n_jobs(p["n_jobs"]),
            verbose=optional(switch, "verbose", p["verbose"]),
        )

    def features(self, lengths: I64) -> FeatureRules:
        """Say what the features of texts of these lengths are, in bytes."""
        n_bytes, chars = int(lengths.sum()), self.char_ngrams
        if self.auto_characters and n_bytes <= _most_with_characters(lengths):
            chars = (3, 5) if n_bytes <= LENGTHS_UP_TO else (4, 4)
        low, high = chars or (1, 0)
        return FeatureRules(word_ngrams=self.word_ngrams, char_low=low, char_high=high, bits=self.bits)

    def are_decided(self, lengths: I64) -> bool:
        """Tell whether the features of texts that begin with these stay what they are, whatever follows."""
        return not self.auto_characters or int(lengths.sum()) > max(TELLING, _most_with_characters(lengths))

    def is_network(self, n_features: int, n_labels: int) -> bool:
        """Tell whether so many features of texts, counted in all texts, and so many labels are for a network."""
        if self.method == "auto":
            return float(n_features) * n_labels > MOST_PRODUCTS
        return self.method == "network"

    def can_train_twice(self, n_texts: int, n_labels: int) -> bool:
        """Tell whether a model is trained for measuring alone, and the one that is kept on all texts."""
        return n_labels <= MOST_MEASURED or n_texts * n_labels <= MOST_PAIRS

    def left_out(self, n_texts: int) -> int:
        """Return how many texts a model does not learn from, to measure on, where a second training takes too long."""
        asked_for = self.asked_for(n_texts)
        return asked_for if asked_for is not None else 0 if n_texts < 200 else min(n_texts // 20, 2000)

    def asked_for(self, n_texts: int) -> int | None:
        """Return how many texts the user wants to be held out; None if that is left to us."""
        if self.validation_fraction is None:
            return None
        return min(round(self.validation_fraction * n_texts), n_texts - 1)


def _most_with_characters(lengths: I64) -> float:
    """Return the bytes of text up to which features are made of characters too."""
    telling = lengths[: int(np.searchsorted(np.cumsum(lengths), TELLING, side="right")) + 1]
    mean = max(1.0, float(telling.mean()) if len(telling) else 1.0)
    return min(CHARACTERS_UP_TO, max(CHARACTERS_UP_TO_TEXTS * mean, CHARACTERS_BY_LENGTH / mean))


def _lengths(value: Any) -> tuple[int, int] | None:
    if value is None:
        return None
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise ValueError(f"char_ngrams must be 'auto', None or a pair of lengths such as (3, 5), got {value!r}")
    low = integer("char_ngrams[0]", value[0], 1, 64)
    return low, integer("char_ngrams[1]", value[1], low, 64)
