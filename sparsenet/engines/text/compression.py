"""Make text models smaller: drop the least weights, and round the others to few distinct values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet.core.memory import in_words
from sparsenet.core.rows import Rows
from sparsenet.engines.linear.linear_model import LinearModel
from sparsenet.engines.neighbors.narrow_postings import posting_arrays
from sparsenet.engines.text.fit_text import FittedText, TextModel
from sparsenet.engines.text.text_blend import BlendModel
from sparsenet.engines.text.text_network import NetworkModel
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import F32, I64

#: Up to this many columns, features are dropped whole; with more, weights are dropped one by one. On banking77 (77
#: labels) that kept 88.2 % accuracy at a twentieth of the bytes, instead of 73.4 %. On agnews-4k (4 labels) both were
#: level, and whole features take less room.
MOST_TOGETHER = 8


@dataclass(frozen=True)
class Compression:
    """The result of `TextClassifier.compress`.

    Attributes
    ----------
    bytes_before, bytes_after : int
        Size of the saved model.
    weights_before, weights_after : int
        Number of weights that are not zero.
    accuracy_before, accuracy_after : float or None
        Fraction of the given texts whose best label is right; None if no texts were given.
    n_texts : int
        Number of the given texts.
    """

    bytes_before: int
    bytes_after: int
    weights_before: int
    weights_after: int
    accuracy_before: float | None = None
    accuracy_after: float | None = None
    n_texts: int = 0

    def __str__(self) -> str:
        """Return a report of two lines."""
        sizes = f"{in_words(self.bytes_before)} to {in_words(self.bytes_after)}"
        kept = f"{self.weights_after} of {self.weights_before} weights kept"
        if self.accuracy_before is None or self.accuracy_after is None:
            return f"{sizes}, {kept}\nthe loss of accuracy was not measured: no labelled texts were given"
        right = f"{100 * self.accuracy_before:.2f} % to {100 * self.accuracy_after:.2f} %"
        return f"{sizes}, {kept}\n{right} right of {self.n_texts} texts"


def compress(
    fitted: FittedText,
    max_bytes: int,
    size: Callable[[FittedText], int],
    labelled: tuple[list[str], Rows] | None = None,
    threads: int = 1,
) -> tuple[FittedText, Compression]:
    """Return a model of at most `max_bytes`, as `size` measures it, and a report.

    `labelled` are texts and labels to measure the accuracy on, before and after.
    """
    if fitted.view is not None and size(fitted) > max_bytes:
        raise ValueError(
            f"max_bytes={max_bytes} is impossible: the model takes {size(fitted)} bytes with its word vectors, which "
            "cannot be compressed: train without vectors"
        )
    small = _largest_within(fitted, max_bytes, size)
    report = Compression(size(fitted), size(small), _n_weights(fitted.model), _n_weights(small.model))
    if labelled is not None:
        before, after = (float(one.hits(*labelled, threads).mean()) for one in (fitted, small))
        report = replace(report, accuracy_before=before, accuracy_after=after, n_texts=len(labelled[0]))
    return small, report


def _largest_within(fitted: FittedText, max_bytes: int, size: Callable[[FittedText], int]) -> FittedText:
    """Return the same model if it is small enough, else the one with the most weights that is, by bisection."""
    if size(fitted) <= max_bytes:
        return fitted
    model = fitted.model
    if isinstance(model, BlendModel):
        return _rounded(fitted, model, max_bytes, size)
    if isinstance(model, NetworkModel):  # its deep path is kept whole
        wide, fixed = model.network.output.wide, "the rows of the hidden layer, "
        high = len(wide.indices) if wide else 0
    else:
        ranked, fixed = _RankedWeights.of(model), ""
        high = len(ranked.rank)

    def keep(n: int) -> FittedText:
        return replace(fitted, model=model.pruned(n)) if isinstance(model, NetworkModel) else ranked.keep(fitted, n)

    low, best = 0, None
    while low < high:
        middle = (low + high + 1) // 2
        trial = keep(middle)
        if size(trial) <= max_bytes:
            low, best = middle, trial
        else:
            high = middle - 1
    if best is None:
        raise ValueError(
            f"max_bytes={max_bytes} is impossible: names of {len(fitted.target.classes)} labels, biases, {fixed}"
            f"the description of the model and a single weight take {size(keep(1))} bytes"
        )
    return best


def _rounded(fitted: FittedText, model: BlendModel, max_bytes: int, size: Callable[[FittedText], int]) -> FittedText:
    """Round all weights of a blend: its parts depend on each other, so none is dropped."""
    small = replace(fitted, model=model.rounded())
    if (n_bytes := size(small)) > max_bytes:
        raise ValueError(
            f"max_bytes={max_bytes} is impossible: a blend holds its training texts, and takes {n_bytes} bytes in 8 "
            "and 16 bits. method='linear' makes smaller models"
        )
    return small


def _n_weights(model: TextModel) -> int:
    """Return the number of nonzero weights; a blend counts its training texts, too."""
    if isinstance(model, BlendModel):
        parts: list[NDArray[Any]] = [level.weights for level in model.fitted.tree.levels]
        if model.fitted.network is not None:
            parts += [p.arrays()[0] for p in model.fitted.network.network.parameters()]
        if (neighbors := model.fitted.neighbors) is not None:
            postings = neighbors.postings
            parts += neighbors.arrays() if postings is None else [posting_arrays(postings)[2]]
        return sum(int(np.count_nonzero(part)) for part in parts)
    if isinstance(model, NetworkModel):
        return sum(int(np.count_nonzero(p.arrays()[0])) for p in model.network.parameters())
    return int(np.count_nonzero(model.matrix))


@dataclass(frozen=True, eq=False)
class _RankedWeights:
    """The nonzero weights of a linear model, feature by feature, ranked by importance.

    Weights reflect how often a feature occurs, since each training text adds to them, so frequencies are not needed.
    """

    feature: I64
    column: I64
    value: F32
    rank: I64  # of each weight, or with few columns of each feature; 0 is kept longest

    @classmethod
    def of(cls, model: LinearModel) -> _RankedWeights:
        if model.indptr is None or model.columns is None:
            feature, column = np.nonzero(model.matrix)
            codes = model.matrix[feature, column]
        else:
            nonzero = model.matrix != 0
            feature = np.repeat(np.arange(len(model.factors)), np.diff(model.indptr))[nonzero]
            column, codes = model.columns[nonzero].astype(np.int64), model.matrix[nonzero]
        value = (codes * model.factors[feature]).astype(np.float32)
        importance = np.abs(value).astype(np.float64)
        if len(model.bias) <= MOST_TOGETHER:
            importance = np.bincount(feature, importance**2, minlength=len(model.factors)).astype(np.float64)
        rank = np.empty(len(importance), np.int64)
        rank[np.argsort(-importance, kind="stable")] = np.arange(len(rank))
        return cls(feature, column, value, rank)

    def keep(self, fitted: FittedText, n: int) -> FittedText:
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
        unchanged: dict[str, Any] = {name: getattr(model, name) for name in ("calibration", "offset", "unknown")}
        small = replace(LinearModel.of_sparse(table, model.bias), **unchanged)
        return _with(fitted, features, replace(small, factors=coarse(small.factors)))


def _with(fitted: FittedText, features: I64, model: LinearModel) -> FittedText:
    words = fitted.vocabulary
    vocabulary = Vocabulary(words.rules, words.slots[features], coarse(words.weights[features]))
    return replace(fitted, vocabulary=vocabulary, model=model, weight=None)


def coarse(values: F32, levels: int = 256) -> F32:
    """Round to at most `levels` distinct numbers at equal ratios, with errors of 2 to 3 %; zeros stay."""
    positive = values > 0
    found, rounded = values[positive], values.copy()
    low, high = (float(extreme) for extreme in (found.min(initial=np.inf), found.max(initial=0)))
    if len(values) <= levels or not low < high:
        return values
    n_positive = levels if len(found) == len(values) else levels - 1
    rounded_to = np.geomspace(low, high, n_positive).astype(np.float32)
    step = np.log(high / low) / (n_positive - 1)
    number = np.rint(np.log(found.astype(np.float64) / low) / step).astype(np.int64)
    rounded[positive] = rounded_to[np.clip(number, 0, n_positive - 1)]
    return rounded
