"""Choose and weight the features of a text model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from sparsenet import kernels
from sparsenet.core.rows import Rows, as_matrix
from sparsenet.core.spilling import Spill
from sparsenet.features.text.featuriser import FeatureRules, TextRows
from sparsenet.kernels.types import F32, I32, I64


@dataclass(frozen=True, kw_only=True)
class WeightingRules:
    """How features are chosen and weighted.

    Attributes
    ----------
    min_texts : int
        Features of fewer texts are dropped: they need room and add no accuracy.
    few_texts : int
        With fewer texts than this, all features are kept, and the inverse document frequency has full weight.
    few_words, many_words : float
        The power of the inverse document frequency grows with the mean length of texts, from 0 at `few_words` to 1 at
        `many_words`: in long texts frequent words drown the others.
    prior_texts : float
        Pseudo-count of texts when the labels of a feature are compared with the labels of all texts.
    pairs_at_a_time : int
        Pairs of a feature and a label counted at a time; all pairs may exceed memory.
    max_cells : int
        Largest table of features by labels; with few labels a table takes a third of the time of a list of pairs.
    """

    min_texts: int = 2
    few_texts: int = 1000
    few_words: float = 2.5
    many_words: float = 40.0
    prior_texts: float = 2.0
    pairs_at_a_time: int = 1 << 22
    max_cells: int = 1 << 26

    def min_texts_of(self, n_texts: int) -> int:
        """Return the document frequency that a feature needs among `n_texts`."""
        return self.min_texts if n_texts >= self.few_texts else 1

    def idf_power(self, rows: TextRows, rules: FeatureRules) -> float:
        """Return the power of the inverse document frequency for texts of this length.

        It is 1 for few texts: they show which words are rare before they show which labels words indicate.
        """
        if len(rows) < self.few_texts:
            return 1.0
        # Word n-grams use the lower half of the slots, and each word starts one of each length.
        runs = sum(np.count_nonzero(part.slots < 1 << (rules.bits - 1)) for _, part in rows.parts())
        words = max(runs / rules.word_ngrams / max(len(rows), 1), self.few_words)
        return min(math.log(words / self.few_words) / math.log(self.many_words / self.few_words), 1.0)


#: The rules of all models.
WEIGHTING = WeightingRules()


def log_counts() -> F32:
    """Return the term frequency weight 1 + log(count) for counts up to 255."""
    return (1 + np.log(np.maximum(np.arange(256), 1))).astype(np.float32)


def _occurring(rows: TextRows, rules: FeatureRules, min_texts: int) -> tuple[I32, I32]:
    """Return the slots that occur in at least `min_texts` texts, ascending, and the number of texts of each."""
    if 8 * len(rows.slots) < 1 << rules.bits:  # for few features a sort is faster than a table of all slots
        found, times = np.unique(rows.slots, return_counts=True)
        return found[times >= min_texts], times[times >= min_texts].astype(np.int32)
    texts = _texts_of_slots(rows, rules)
    slots = np.flatnonzero(texts >= min_texts).astype(np.int32)
    return slots, texts[slots]


def _texts_of_slots(rows: TextRows, rules: FeatureRules) -> I32:
    """Count the texts of each slot."""
    texts = np.zeros(1 << rules.bits, np.int32)
    for _, part in rows.parts():
        kernels.count_slots(part.slots, texts)
    return texts


def _most_frequent(texts: I32, n_max: int) -> NDArray[np.bool_]:
    """Return a mask of the `n_max` features with the most texts; ties go to the lower slot."""
    border = np.partition(texts, -n_max)[-n_max]
    kept: NDArray[np.bool_] = texts > border
    kept[np.flatnonzero(texts == border)[: n_max - np.count_nonzero(kept)]] = True
    return kept


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The slots that are features, ascending, and the weight of each.

    A weight is a power of the inverse document frequency times the fourth root of a Kullback-Leibler divergence: the
    labels of texts with the feature against the labels of all texts. Labels rarer than the mean count nearly one text
    less in the divergence. Otherwise word pairs that one such text has by chance weigh as much as real clues.
    """

    rules: FeatureRules
    slots: I32
    weights: F32

    @classmethod
    def learn(
        cls,
        rules: FeatureRules,
        rows: TextRows,
        labels: Rows,
        n_max: int | None = None,
        weighting: WeightingRules = WEIGHTING,
    ) -> Vocabulary:
        """Choose features, at most `n_max` of them, and weight them by the labels of their texts."""
        slots, texts = _occurring(rows, rules, weighting.min_texts_of(len(rows)))
        if n_max is not None and len(slots) > n_max:
            kept = _most_frequent(texts, n_max)
            slots, texts = slots[kept], texts[kept]
        df = texts.astype(np.float64)
        bare = cls(rules, slots, np.ones(len(slots), np.float32))
        weights = (np.log((1 + len(rows)) / (1 + df)) + 1) ** weighting.idf_power(rows, rules)
        divergence = bare._divergence(rows, labels, df, weighting)
        if divergence.max(initial=0) > 1e-9:  # else all texts have the same label, and other labels may follow
            weights *= divergence**0.25
        return cls(rules, slots, weights.astype(np.float32))

    def __len__(self) -> int:
        return len(self.slots)

    @cached_property
    def tables(self) -> tuple[NDArray[np.uint64], I32]:
        """A bitmap of the slots that are features, and the number of features before each 64-bit word."""
        used = np.zeros(-(-(1 << self.rules.bits) // 64), np.uint64)
        word, bit = self.slots >> 6, np.uint64(1) << (self.slots & 63).astype(np.uint64)
        if len(self):
            first = np.flatnonzero(np.diff(word, prepend=-1))
            used[word[first]] = np.bitwise_or.reduceat(bit, first)
        counts = np.bincount(word, minlength=len(used))
        return used, (np.cumsum(counts) - counts).astype(np.int32)

    def points(self, rows: TextRows, threads: int, spill: Spill | None = None) -> Rows:
        """Turn counted features into rows of unit length; large results go to temporary files."""
        spill = Spill(np.iinfo(np.int64).max) if spill is None else spill
        ends = np.empty(len(rows), np.int64)
        numbers, values = (spill.empty(len(rows.slots), dtype) for dtype in (np.int32, np.float32))
        used, ranks = self.tables
        arrays = (used, ranks, self.weights, log_counts(), ends, numbers, values)
        rules = self.rules
        kernels.text_points(rows.indptr[1:], rows.slots, rows.counts, rules.char_high, rules.bits, *arrays, threads)
        indptr = np.concatenate((np.zeros(1, np.int64), ends))
        return Rows(indptr, numbers[: indptr[-1]], values[: indptr[-1]], len(self))

    def ascending(self, rows: TextRows, threads: int, spill: Spill | None = None) -> Rows:
        """Return `points` with ascending features, so that sums do not depend on the order of words."""
        found = as_matrix(self.points(rows, threads, spill))
        found.sort_indices()  # in place
        return Rows.of(found, keep_zeros=True)

    def grown(self, rows: TextRows, n_before: int) -> tuple[Vocabulary, I64]:
        """Add the features of further texts; also return the new positions of the old features."""
        texts = _texts_of_slots(rows, self.rules)
        texts[self.slots] = 0
        new = np.flatnonzero(texts >= WEIGHTING.min_texts_of(len(rows))).astype(np.int32)
        slots = np.concatenate((self.slots, new))
        # The labels that new features indicate are unknown: start from the median weight.
        idf = np.log((1 + n_before + len(rows)) / (1 + texts[new])) + 1
        known = np.median(self.weights) / (np.log1p(n_before) + 1) if len(self) else 1.0
        weights = np.concatenate((self.weights, (idf * known).astype(np.float32)))
        order = np.argsort(slots, kind="stable")
        where = np.empty(len(slots), np.int64)
        where[order] = np.arange(len(slots))
        return Vocabulary(self.rules, slots[order], weights[order]), where[: len(self.slots)]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "tables"}

    def _divergence(
        self, rows: TextRows, labels: Rows, df: NDArray[np.float64], weighting: WeightingRules
    ) -> NDArray[np.float64]:
        """Return the divergence of the labels of each feature's texts from the labels of all texts."""
        prior = np.bincount(labels.indices, minlength=labels.width) / max(len(labels.indices), 1)
        single = bool(np.all(np.diff(labels.indptr) == 1))
        as_table = single and len(self) * labels.width <= weighting.max_cells
        pairs = np.full(len(df), float(labels.width)) if as_table else df if single else self._n_pairs(rows, labels)
        found = [np.empty(0)]
        for group in _groups(pairs, weighting.pairs_at_a_time):
            counts = (self._table if as_table else self._pairs)(rows, labels, group)
            parts = _groups(np.diff(counts.indptr).astype(np.float64), weighting.pairs_at_a_time >> 2)
            found += [_divergence_of(counts[part], prior, weighting.prior_texts) for part in parts]
        return np.concatenate(found)

    def _n_pairs(self, rows: TextRows, labels: Rows) -> NDArray[np.float64]:
        """Return the number of labels of the texts with each feature."""
        number, n_labels = self._numbers(slice(0, len(self))), np.diff(labels.indptr)
        total = np.zeros(len(self) + 1)  # an entry for each of 2**bits slots would touch gigabytes
        for texts, part in rows.parts():
            each = np.repeat(n_labels[texts], np.diff(part.indptr))
            total += np.bincount(number[part.slots], each, minlength=len(total))
        return total[1:]

    def _numbers(self, group: slice) -> I32:
        """Return the number of each slot within a group of features, from 1; 0 for all other slots."""
        number = np.zeros(1 << self.rules.bits, np.int32)  # untouched pages cost nothing
        slots = self.slots[group]
        number[slots] = np.arange(1, len(slots) + 1)
        return number

    def _table(self, rows: TextRows, labels: Rows, group: slice) -> Any:
        """Count the texts of each feature of a group and each label, if every text has one label."""
        counts = np.zeros((group.stop - group.start, labels.width), np.int32)
        for texts, part in rows.parts():
            of_texts = (part.indptr[1:], part.slots, part.counts, labels.indices[texts])
            kernels.count_labels(*of_texts, *self.tables, group.start, counts)
        there = counts > 0
        places = np.flatnonzero(there)
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.count_nonzero(there, axis=1))))
        return sparse.csr_array((counts.reshape(-1)[places], places % labels.width, indptr), shape=counts.shape)

    def _pairs(self, rows: TextRows, labels: Rows, group: slice) -> Any:
        """Count the same for texts with any number of labels: list each pair of feature and label, then sum."""
        number, n_labels = self._numbers(group), np.diff(labels.indptr)
        features, owners = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
        for texts, part in replace(rows, part_features=rows.part_features >> 4).parts():
            own = number[part.slots]
            known = np.flatnonzero(own)
            of_text = texts.start + np.searchsorted(part.indptr, known, side="right") - 1
            times = n_labels[of_text]
            features.append(np.repeat(own[known] - 1, times))
            ends = np.cumsum(times)
            first = np.repeat(labels.indptr[:-1][of_text] - (ends - times), times)
            owners.append(labels.indices[first + np.arange(len(first))])
        places = np.concatenate(features), np.concatenate(owners)
        del features, owners  # large
        ones = np.ones(len(places[0]), np.int32)
        return sparse.coo_array((ones, places), shape=(len(self.slots[group]), labels.width)).tocsr()


def _groups(pairs: NDArray[np.float64], n_max: float) -> Iterator[slice]:
    """Split features with these numbers of pairs into groups of at most `n_max` pairs, or of one feature."""
    ends = np.cumsum(pairs)
    begin = 0
    while begin < len(ends):
        before = ends[begin - 1] if begin else 0.0
        end = max(int(np.searchsorted(ends, before + n_max, side="right")), begin + 1)
        yield slice(begin, end)
        begin = end


def _own_share(prior: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the fraction of one text that is subtracted from each label's count: nearly 1 for very rare labels.

    It is 0 for labels at least as frequent as the mean of the labels that occur.
    """
    return np.maximum(1 - prior * np.count_nonzero(prior), 0) * (1 - prior)


def _divergence_of(pairs: Any, prior: NDArray[np.float64], prior_texts: float) -> NDArray[np.float64]:
    """Return the divergence of each feature from its number of texts with each label.

    A single text of a rare label would make all its features look like clues, so `_own_share` is subtracted first.
    """
    n = pairs.shape[0]
    feature = np.repeat(np.arange(n), np.diff(pairs.indptr))
    before = prior[pairs.indices]
    texts = np.maximum(pairs.data - _own_share(prior)[pairs.indices], 0)
    total = np.bincount(feature, texts, minlength=n) + prior_texts
    after = (texts + prior_texts * before) / total[feature]
    found = np.bincount(feature, after * np.log(after / before), minlength=n).astype(np.float64)
    # All labels without a text of this feature together.
    absent = np.maximum(1 - np.bincount(feature, before, minlength=n), 0)
    found += prior_texts * absent / total * np.log(prior_texts / total)
    return np.maximum(found, 0)
