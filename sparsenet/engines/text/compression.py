"""Smaller text models: the least weights go, the others are rounded to few distinct values."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from sparsenet.core.memory import in_words
from sparsenet.core.validation import number_of_bytes
from sparsenet.engines.linear.linear_model import LinearModel
from sparsenet.engines.text.fitted_text import Fitted
from sparsenet.engines.text.text_network import NetworkModel
from sparsenet.estimators import text_saving
from sparsenet.features.targets import listed
from sparsenet.features.text.inputs import check_texts
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import F32, I64

if TYPE_CHECKING:
    from sparsenet.estimators.text import TextClassifier

#: Up to so many columns, features are kept or dropped with all of their weights; with more, weights one by one. Of a
#: fifth of banking77's training texts (77 labels) 90.8 % were right; with a twentieth of the weights' bytes 73.4 % by
#: the former, 88.2 % by the latter. On agnews-4k (4 labels) they were level, without the room that features take.
MOST_TOGETHER = 8
#: Distinct values of what is otherwise a float: a relative error of two or three percent.
LEVELS = 256


@dataclass(frozen=True)
class Compression:
    """What `TextClassifier.compress` did.

    Attributes
    ----------
    bytes_before, bytes_after : int
        Of the saved model.
    weights_before, weights_after : int
        How many weights are kept.
    accuracy_before, accuracy_after : float or None
        Share of the given texts whose best label was right, and is now; None if no texts were given.
    n_texts : int
        How many were given.
    """

    bytes_before: int
    bytes_after: int
    weights_before: int
    weights_after: int
    accuracy_before: float | None = None
    accuracy_after: float | None = None
    n_texts: int = 0

    def __str__(self) -> str:
        """Say it in two lines."""
        sizes = f"{in_words(self.bytes_before)} to {in_words(self.bytes_after)}"
        kept = f"{self.weights_after} of {self.weights_before} weights kept"
        if self.accuracy_before is None or self.accuracy_after is None:
            return f"{sizes}, {kept}\nwhat that costs in accuracy was not measured: no labelled texts were given"
        right = f"{100 * self.accuracy_before:.2f} % to {100 * self.accuracy_after:.2f} %"
        return f"{sizes}, {kept}\n{right} right of {self.n_texts} texts"


def compress(
    classifier: TextClassifier, fitted: Fitted, max_bytes: int | str, texts: Any, labels: Any
) -> tuple[Fitted, Compression]:
    """Return a smaller model, and what that cost; see `TextClassifier.compress`."""
    limit = number_of_bytes("max_bytes", max_bytes)
    if (texts is None) != (labels is None):
        raise ValueError("texts and labels must be given together, or neither")
    texts = None if texts is None else check_texts(texts, "texts")
    labels = listed(labels)
    small = compressed(fitted, limit, lambda one: text_saving.saved_size(classifier, one))
    sizes = [text_saving.saved_size(classifier, one) for one in (fitted, small)]
    report = Compression(sizes[0], sizes[1], n_weights(fitted.model), n_weights(small.model))
    if texts is None:
        return small, report
    other = copy.copy(classifier)
    other._fitted = small
    before, after = classifier.score(texts, labels), other.score(texts, labels)
    return small, replace(report, accuracy_before=before, accuracy_after=after, n_texts=len(texts))


def compressed(fitted: Fitted, max_bytes: int, size: Callable[[Fitted], int]) -> Fitted:
    """Return a model of at most `max_bytes` by `size`: the same one if it is small enough, else one with less in it.

    Fewer weights never take more bytes, or hardly, so the most that fit are found by halving.
    """
    if size(fitted) <= max_bytes:
        return fitted
    parts = _Wide(fitted.model) if isinstance(fitted.model, NetworkModel) else _Parts.of(fitted.model)
    low, high, best = 0, parts.n, None
    while low < high:
        middle = (low + high + 1) // 2
        trial = parts.keep(fitted, middle)
        if size(trial) <= max_bytes:
            low, best = middle, trial
        else:
            high = middle - 1
    if best is None:
        raise ValueError(
            f"max_bytes={max_bytes} is impossible: names of {len(fitted.target.classes)} labels, biases, {parts.fixed}"
            f"the description of the model and a single weight take {size(parts.keep(fitted, 1))} bytes"
        )
    return best


def n_weights(model: LinearModel | NetworkModel) -> int:
    """Return how many weights a model has that are not zero."""
    if isinstance(model, NetworkModel):
        return sum(int(np.count_nonzero(p.value)) for p in model.network.parameters())
    return int(np.count_nonzero(model.matrix))


@dataclass(frozen=True)
class _Wide:
    """The wide weights of a network, whose deep path is kept as a whole."""

    model: NetworkModel
    fixed = "the rows of the hidden layer, "

    @property
    def n(self) -> int:
        """How many steps there are from nothing to all."""
        return self.model.n_wide

    def keep(self, fitted: Fitted, n: int) -> Fitted:
        """Return a model with the `n` largest."""
        return replace(fitted, model=self.model.pruned(n))


@dataclass(frozen=True, eq=False)
class _Parts:
    """The weights of a model that are not zero, feature by feature, and what of them is dropped last.

    How often a feature occurs shows in its weights, to which each training text adds, and need not be known.
    """

    feature: I64
    column: I64
    value: F32
    rank: I64  # of each weight, or with few columns of each feature: 0 for what is kept longest
    fixed = ""

    @classmethod
    def of(cls, model: LinearModel) -> _Parts:
        if model.indptr is None or model.columns is None:
            feature, column = np.nonzero(model.matrix)
            codes = model.matrix[feature, column]
        else:
            there = model.matrix != 0
            feature = np.repeat(np.arange(len(model.factors)), np.diff(model.indptr))[there]
            column, codes = model.columns[there].astype(np.int64), model.matrix[there]
        value = (codes * model.factors[feature]).astype(np.float32)
        importance = np.abs(value).astype(np.float64)
        if len(model.bias) <= MOST_TOGETHER:
            importance = np.bincount(feature, importance**2, minlength=len(model.factors)).astype(np.float64)
        rank = np.empty(len(importance), np.int64)
        rank[np.argsort(-importance, kind="stable")] = np.arange(len(rank))
        return cls(feature, column, value, rank)

    @property
    def n(self) -> int:
        """How many steps there are from nothing to all."""
        return len(self.rank)

    def keep(self, fitted: Fitted, n: int) -> Fitted:
        """Return a model with the first `n` by rank."""
        model = fitted.model
        assert isinstance(model, LinearModel)
        if len(model.bias) <= MOST_TOGETHER and model.indptr is None:
            features = np.flatnonzero(self.rank < n)
            small = replace(model, matrix=model.matrix[features], factors=coarse(model.factors[features]))
            return _with(fitted, features, small)
        kept = (self.rank[self.feature] if len(model.bias) <= MOST_TOGETHER else self.rank) < n
        features, number = np.unique(self.feature[kept], return_inverse=True)
        indptr = np.concatenate(([0], np.cumsum(np.bincount(number, minlength=len(features)))))
        table = sparse.csr_array(
            (self.value[kept], self.column[kept], indptr), shape=(len(features), len(model.bias)), dtype=np.float32
        )
        about: dict[str, Any] = {name: getattr(model, name) for name in ("calibration", "offset", "unknown")}
        small = replace(LinearModel.of_sparse(table, model.bias), **about)
        return _with(fitted, features, replace(small, factors=coarse(small.factors)))


def _with(fitted: Fitted, features: I64, model: LinearModel) -> Fitted:
    words = fitted.vocabulary
    vocabulary = Vocabulary(words.rules, words.slots[features], coarse(words.weights[features]))
    return replace(fitted, vocabulary=vocabulary, model=model, weight=None)


def coarse(values: F32) -> F32:
    """Round to at most `LEVELS` distinct numbers, the positive ones at equal ratios; zeros stay."""
    positive = values > 0
    found, rounded = values[positive], values.copy()
    low, high = (float(extreme) for extreme in (found.min(initial=np.inf), found.max(initial=0)))
    if len(values) <= LEVELS or not low < high:
        return values
    n_levels = LEVELS if len(found) == len(values) else LEVELS - 1
    levels = np.geomspace(low, high, n_levels).astype(np.float32)
    step = np.log(high / low) / (n_levels - 1)
    number = np.rint(np.log(found.astype(np.float64) / low) / step).astype(np.int64)
    rounded[positive] = levels[np.clip(number, 0, n_levels - 1)]
    return rounded
