"""Categories: one value of a set in each cell, or several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsenet.core.validation import is_unicode
from sparsenet.features.columns.cells import Cells, DistinctCells, shown
from sparsenet.features.columns.column_encoder import ColumnEncoder, ColumnSummary
from sparsenet.kernels.types import F32, F64, I32, I64, Arrays, Bools
from sparsenet.storage.format import ModelError
from sparsenet.storage.strings import pack_strings, unpack_strings

#: Values of fewer rows also have the feature of unseen values: together they show what an unseen value means.
FREQUENT = 2
#: Most codes that gradient boosting takes.
MAX_CODES = 255


@dataclass(frozen=True, eq=False)
class Categories:
    """The values of a column that have a feature of their own, most frequent first.

    Unseen values share one feature. Values of fewer than `FREQUENT` rows have it, too.

    Attributes
    ----------
    values : list of str
    counts : ndarray of int64
        Training rows of each value.
    weights : ndarray of float32
        The weight of the flag of each number, unseen and missing values included.
    """

    values: list[str]
    counts: I64
    weights: F32

    @classmethod
    def learn(cls, distinct: DistinctCells, min_rows: int = FREQUENT) -> Categories:
        """Take the values of at least `min_rows` rows."""
        counts = distinct.counts()
        kept = [i for i, value in enumerate(distinct.values) if value is not None and counts[i] >= min_rows]
        order = np.array(sorted(kept, key=lambda i: (-counts[i], distinct.values[i])), np.int64)
        n_missing = sum(int(counts[i]) for i, value in enumerate(distinct.values) if value is None)
        n_rare = int(counts[counts < FREQUENT].sum()) - (n_missing if n_missing < FREQUENT else 0)
        weights = rarity_weights(np.append(counts[order], (n_rare, n_missing)), int(counts.sum()))
        return cls([distinct.values[i] for i in order], counts[order], weights)

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def numbers(self) -> dict[str | None, int]:
        """The number of each value, and of missing cells."""
        return {**{value: number for number, value in enumerate(self.values)}, None: self.missing}

    @cached_property
    def is_rare(self) -> Bools:
        """Whether each number is a value of fewer than `FREQUENT` rows."""
        return np.concatenate((self.counts < FREQUENT, (False, False)))

    @property
    def pooled(self) -> int:
        """The number of unseen values; rare ones have its feature, too."""
        return len(self.values)

    @property
    def missing(self) -> int:
        """The number of missing cells."""
        return len(self.values) + 1

    @property
    def n_codes(self) -> int:
        """Number of values, plus one for unseen values and one for missing cells."""
        return len(self.values) + 2

    def of(self, values: list[str | None]) -> I64:
        """Return the number of each value."""
        get, pooled = self.numbers.get, self.pooled
        return np.fromiter((get(value, pooled) for value in values), np.int64, len(values))

    def value_name(self, number: int) -> str:
        """Return the value of a number, for explanations."""
        if number < len(self):
            return shown(self.values[number])
        return "(rare or new)" if number == self.pooled else "(missing)"

    def state(self) -> Arrays:
        """Return the values and counts as arrays."""
        return {**pack_strings(self.values, "values"), "counts": self.counts, "weights": self.weights}

    @classmethod
    def restore(cls, arrays: Arrays) -> Categories:
        """Restore and check what `state` returned."""
        values, counts = unpack_strings(arrays, "values"), arrays["counts"]
        if counts.dtype != np.int64 or counts.shape != (len(values),) or counts.min(initial=1) < 1:
            raise ModelError(f"the counts of categories must be a positive whole number for each of {len(values)}")
        if len(set(values)) < len(values):
            raise ModelError("two categories of a column have the same name")
        weights = arrays["weights"]
        if weights.dtype != np.float32 or weights.shape != (len(values) + 2,) or not np.isfinite(weights).all():
            raise ModelError(
                f"the weights of categories must be a finite float32 for each of {len(values)} and two more"
            )
        return cls(values, counts, weights)


def rarity_weights(counts: I64, n_rows: int) -> F32:
    """Return the weight of flags by their number of rows: the root of half the inverse document frequency.

    A rare flag has few rows to learn from, and regularisation would keep its part of the score small.
    """
    weights = np.sqrt((1 + np.log((1 + n_rows) / (1 + counts))) / 2)
    return np.asarray(weights, np.float32)


@dataclass(frozen=True, eq=False, kw_only=True)
class CategoryColumn(ColumnEncoder):
    """A column with one category in each cell."""

    type = "category"
    categories: Categories

    @classmethod
    def learn(cls, cells: Cells, summary: ColumnSummary) -> CategoryColumn:
        """Learn the categories of cells: even one row with a value says much about the next where labels are many."""
        return cls(name=cells.name, summary=summary, categories=Categories.learn(checked_texts(cells), min_rows=1))

    @property
    def n_features(self) -> int:
        """Number of sparse features."""
        return self.categories.n_codes

    def block(self, cells: Cells) -> tuple[I32, F32]:
        """Return a flag for the category of each cell, and that of new categories for a rare one."""
        number, known = self._numbers_of(cells), self.categories
        features = np.column_stack((number, np.full(len(cells), known.pooled))).astype(np.int32)
        weights = np.column_stack((known.weights[number], known.weights[known.pooled] * known.is_rare[number]))
        return features, weights.astype(np.float32)

    def _numbers_of(self, cells: Cells) -> I64:
        distinct = cells.texts()
        found: I64 = self.categories.of(distinct.values)[distinct.codes]
        return found

    @property
    def codes(self) -> tuple[bool, ...]:
        """The code; with more categories than codes, also the frequency."""
        return (True,) if len(self.categories) < MAX_CODES else (True, False)

    def numbers(self, cells: Cells) -> F64:
        """Return the codes of frequent categories, the last one for all others, and the logs of training rows."""
        number = self._numbers_of(cells)
        code = np.where(number == self.categories.missing, np.nan, np.minimum(number, MAX_CODES - 1))
        if len(self.codes) == 1:
            return code[:, None]
        is_frequent = number < len(self.categories)
        counts = self.categories.counts[np.where(is_frequent, number, 0)]
        frequency = np.where(is_frequent, np.log(counts), 0.0)
        return np.column_stack((code, np.where(number == self.categories.missing, np.nan, frequency)))

    def feature_name(self, feature: int) -> str:
        """Return the name of a feature."""
        return f"{self.name} = {self.categories.value_name(feature)}"

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the categories as arrays."""
        return self.categories.state(), {}

    @classmethod
    def restore(cls, name: str, summary: ColumnSummary, arrays: Arrays, about: Mapping[str, Any]) -> CategoryColumn:
        """Restore and check what `state` returned."""
        return cls(name=name, summary=summary, categories=Categories.restore(arrays))


def checked_texts(cells: Cells) -> DistinctCells:
    """Return the numbered categories in cells; refuse strings that a model file cannot hold."""
    distinct = cells.texts()
    for number, value in enumerate(distinct.values):
        if value is not None and not is_unicode(value):
            cells.refuse(distinct.first_row(number), "half of a surrogate pair, which UTF-8 cannot encode: replace it")
    return distinct
