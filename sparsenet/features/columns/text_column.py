"""Texts in cells: hashed words, and repeated cells as categories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sparsenet import kernels
from sparsenet.core.rows import Rows
from sparsenet.features.columns.category_column import Categories, checked_texts
from sparsenet.features.columns.cells import Cells, DistinctCells
from sparsenet.features.columns.column_encoder import ColumnEncoder, ColumnSummary, side_by_side
from sparsenet.features.text.feature_options import FeatureOptions
from sparsenet.features.text.featuriser import FeatureRules, TextRows, extract
from sparsenet.features.text.vocabulary import WEIGHTING, Vocabulary
from sparsenet.kernels.types import F64, I64, Arrays
from sparsenet.storage.format import ModelError


@dataclass(frozen=True, eq=False, kw_only=True)
class TextColumn(ColumnEncoder):
    """A column of texts.

    A text has the hashed words and characters of `features.text`, weighted by inverse document frequency, as a vector
    of unit length. A text that several rows have is also a category.

    Attributes
    ----------
    vocabulary : Vocabulary
    categories : Categories
    """

    type = "text"
    vocabulary: Vocabulary
    categories: Categories

    @classmethod
    def learn(cls, cells: Cells, summary: ColumnSummary, labels: Rows | None = None, threads: int = 1) -> TextColumn:
        """Learn the words of cells and their frequencies; with `labels`, also how much each word tells about them."""
        distinct = checked_texts(cells)
        text, offsets = kernels.join_texts(_filled(distinct))
        rules = FeatureOptions().rules(np.diff(offsets)[distinct.codes])
        rows = extract(text, offsets, rules, threads)
        if labels is None:
            vocabulary = _by_frequency(rules, rows, distinct.counts())
        else:
            vocabulary = Vocabulary.learn(rules, _repeated(rows, distinct.codes), labels)
        return cls(name=cells.name, summary=summary, vocabulary=vocabulary, categories=Categories.learn(distinct))

    @property
    def n_features(self) -> int:
        """Number of sparse features."""
        return len(self.vocabulary) + self.categories.n_codes

    def part(self, cells: Cells, threads: int) -> Rows:
        """Return the words of each cell, and a flag for the whole text if the model knows it."""
        distinct = cells.texts()
        text, offsets = kernels.join_texts(_filled(distinct))
        words = self.vocabulary.points(extract(text, offsets, self.vocabulary.rules, threads), threads)
        number = self.categories.of(distinct.values)
        known = number != self.categories.pooled
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(known)))
        weights = self.categories.weights[number[known]]
        whole = Rows(ends, number[known].astype(np.int32), weights, self.categories.n_codes)
        found = side_by_side([words, whole], len(distinct.values))
        return found.take(distinct.codes)

    @property
    def codes(self) -> tuple[bool, ...]:
        """One number."""
        return (False,)

    def numbers(self, cells: Cells) -> F64:
        """Return the number of characters."""
        distinct = cells.texts()
        lengths = [np.nan if value is None else len(value) for value in distinct.values]
        return np.array(lengths, np.float64)[distinct.codes][:, None]

    def feature_name(self, feature: int) -> str:
        """Return the name of a feature; words are only known by their hash."""
        if feature < len(self.vocabulary):
            return f"{self.name}: word {self.vocabulary.slots[feature]}"
        return f"{self.name} = {self.categories.value_name(feature - len(self.vocabulary))}"

    def state(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the vocabulary and the categories as arrays and JSON."""
        words = {"slots": self.vocabulary.slots, "slot_weights": self.vocabulary.weights}
        return {**words, **self.categories.state()}, {"rules": asdict(self.vocabulary.rules)}

    @classmethod
    def restore(cls, name: str, summary: ColumnSummary, arrays: Arrays, about: Mapping[str, Any]) -> TextColumn:
        """Restore and check what `state` returned."""
        rules, slots, weights = FeatureRules(**about["rules"]), arrays["slots"], arrays["slot_weights"]
        if slots.dtype != np.int32 or weights.dtype != np.float32 or slots.ndim != 1 or slots.shape != weights.shape:
            raise ModelError("the words of a text column must be slots of int32 with a weight of float32 each")
        inside = not len(slots) or 0 <= slots[0] <= slots[-1] < 1 << rules.bits
        if not inside or (np.diff(slots) <= 0).any() or not np.isfinite(weights).all():
            raise ModelError("the slots of words must ascend within their table, and their weights be finite")
        categories = Categories.restore(arrays)
        return cls(name=name, summary=summary, vocabulary=Vocabulary(rules, slots, weights), categories=categories)


def _filled(distinct: DistinctCells) -> list[str]:
    """Return distinct texts; a missing one is empty."""
    return ["" if value is None else value for value in distinct.values]


def _repeated(rows: TextRows, texts: I64) -> TextRows:
    """Return the features of texts that may occur several times."""
    lengths = np.diff(rows.indptr)[texts]
    ends = np.cumsum(lengths)
    place = np.repeat(rows.indptr[texts] - (ends - lengths), lengths) + np.arange(lengths.sum())
    return TextRows(np.concatenate((np.zeros(1, np.int64), ends)), rows.slots[place], rows.counts[place])


def _by_frequency(rules: FeatureRules, rows: TextRows, cells: Any) -> Vocabulary:
    """Take the words of enough cells, and weight each by its inverse document frequency.

    `cells` counts the cells of each text.
    """
    frequency = np.bincount(rows.slots, np.repeat(cells, np.diff(rows.indptr)), minlength=1 << rules.bits)
    slots = np.flatnonzero(frequency >= WEIGHTING.min_texts_of(int(cells.sum()))).astype(np.int32)
    weights = np.log((1 + cells.sum()) / (1 + frequency[slots])) + 1
    return Vocabulary(rules, slots, weights.astype(np.float32))
