"""Answer queries about texts by a linear model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparsenet import kernels
from sparsenet.core.memory import check_cells
from sparsenet.core.rows import Rows
from sparsenet.engines.linear.linear_model import LinearModel, both_classes
from sparsenet.features.text.dense_view import DenseView
from sparsenet.features.text.featuriser import unicode_table
from sparsenet.features.text.tokenizing import TokenSpan
from sparsenet.features.text.vocabulary import Vocabulary, log_counts
from sparsenet.kernels.types import F32, F64, I32, I64


@dataclass(frozen=True, eq=False)
class DenseAnswers:
    """The part of the scores that comes from word vectors of length 1: `weight` is (dim, n_columns)."""

    view: DenseView
    weight: F32

    @cached_property
    def _one(self) -> tuple[I64, I32]:
        """The row pointers and indices of one dense row."""
        dim = len(self.weight)
        return np.array((0, dim)), np.arange(dim, dtype=np.int32)

    def add_scores(self, texts: list[str], scores: F32, threads: int) -> bool:
        """Add the part of each score to `scores` (n, n_columns); return whether any text has known tokens."""
        sums, inverse = self.view.vectors.sums_of(texts, threads)
        n, dim = sums.shape
        indptr, indices = self._one if n == 1 else (np.arange(n + 1) * dim, np.tile(self._one[1], n))
        own = np.empty_like(scores)
        kernels.csr_matmul(indptr, indices, sums.reshape(-1), self.weight, own, threads)
        own *= inverse
        scores += own
        return bool(inverse.any())

    def contributions(self, text: str, column: int) -> list[tuple[TokenSpan, float]]:
        """Return the part of each token of a text in the score of a column."""
        return self.view.vectors.contributions(text, self.weight[:, column].astype(np.float64))


@dataclass(frozen=True, eq=False)
class LinearAnswers:
    """Answers of a linear model: one kernel takes texts and returns scores. Labels are numbers.

    At most `max_cells` scores are in memory at a time.
    """

    model: LinearModel
    scorer: kernels.TextScorer
    n_labels: int
    exclusive: bool
    dense: DenseAnswers | None = None
    max_cells: int = 1 << 22

    @classmethod
    def of(
        cls, model: LinearModel, words: Vocabulary, n_labels: int, *, exclusive: bool, view: DenseView | None = None
    ) -> LinearAnswers:
        """Build the scorer of a model, whose features are words, and after them the dimensions of a view."""
        dense = None if view is None else DenseAnswers(view, model.tail(len(words)) * np.float32(view.weight))
        model = model if view is None else model.head(len(words))
        vocabulary: tuple[Any, ...] = (*words.tables, words.weights, log_counts())
        matrix: tuple[Any, ...] = (model.matrix, model.factors, model.bias, model.indptr, model.columns)
        scorer = kernels.TextScorer(*unicode_table(), *words.rules.as_tuple(), *vocabulary, *matrix)
        return cls(model, scorer, n_labels, exclusive, dense)

    def winners(self, texts: list[str], threads: int) -> I32:
        """Return the best label of each text."""
        if len(texts) == 1:  # half the time of arrays
            return np.array([self.best(texts[0])], np.int32)
        blocks = [both_classes(scores, self.n_labels).argmax(axis=1) for scores in self._blocks(texts, threads)]
        return np.concatenate(blocks).astype(np.int32) if blocks else np.empty(0, np.int32)

    def topk(self, texts: list[str], k: int, threads: int) -> tuple[I32, F32]:
        """Return the k best labels and their probabilities, (n, k) each, best first."""
        labels, values = [np.empty((0, k), np.int32)], [np.empty((0, k), np.float32)]
        for scores in self._blocks(texts, threads):
            found = self._probabilities(scores)
            order = _largest(found, k)
            labels.append(order.astype(np.int32))
            values.append(np.take_along_axis(found, order, axis=1))
        return np.concatenate(labels), np.concatenate(values)

    def topk_among(self, texts: list[str], among: I32, k: int, threads: int) -> tuple[I32, F32]:
        """Return the k best of some labels, ascending, and their probabilities, (n, k) each, best first."""
        labels, values = [np.empty((0, k), np.int32)], [np.empty((0, k), np.float32)]
        for scores in self._blocks(texts, threads):
            found = self._probabilities(scores)[:, among]
            order = _largest(found, k)
            labels.append(among[order])
            values.append(np.take_along_axis(found, order, axis=1))
        return np.concatenate(labels), np.concatenate(values)

    def likely(self, texts: list[str], threshold: float | None, threads: int) -> tuple[I32, I64]:
        """Return the labels of at least a probability, best first, and row pointers; None: the fitted threshold."""
        labels, counts = [np.empty(0, np.int32)], [np.zeros(1, np.int64)]
        for scores in self._blocks(texts, threads):
            chosen = self.model.calibration.chosen(scores, threshold)
            rows, found = np.nonzero(chosen)
            labels.append(found[np.lexsort((-scores[rows, found], rows))].astype(np.int32))
            counts.append(chosen.sum(axis=1))
        return np.concatenate(labels), np.cumsum(np.concatenate(counts))

    def probabilities(self, texts: list[str], threads: int) -> F32:
        """Return the probability of every label, (n, n_labels)."""
        check_cells(len(texts), self.n_labels)
        found = [self._probabilities(scores) for scores in self._blocks(texts, threads)]
        return np.concatenate([np.empty((0, self.n_labels), np.float32), *found])

    def scores(self, texts: list[str], threads: int) -> F32:
        """Return the score of every label, (n, n_labels); of two exclusive labels, the second's alone, (n,)."""
        n_columns = len(self.model.bias)
        check_cells(len(texts), n_columns)
        scores = np.concatenate([np.empty((0, n_columns), np.float32), *self._blocks(texts, threads)])
        return scores[:, 0] if self.exclusive and n_columns == 1 and self.n_labels == 2 else scores

    def best(self, text: str) -> int:
        """Return the best label of one text."""
        if self.n_labels == 1:
            return 0
        if self.dense is not None:
            return self._best_with(self.dense, text)
        try:
            best, score = self.scorer.best(text)
        except UnicodeEncodeError:  # a lone surrogate
            best, score = self.scorer.best(text.encode("utf-8", "replace").decode())
        bias = self.model.bias
        if score == bias[min(best, len(bias) - 1)] and self.model.unknown is not None:  # maybe no known features
            (scores,) = self._blocks([text], 1)
            return int(both_classes(scores, self.n_labels).argmax())
        return best

    def contributions(self, point: Rows, number: int, *, by_vectors: bool = False) -> tuple[F64, float]:
        """Return the contribution of each sparse feature to a label's score, (nnz,), and the bias.

        With `by_vectors`, word vectors contribute to the score, too.
        """
        column, sign = self.column_of(number)
        weights = self.model.column(column)[point.indices]
        known = by_vectors or self.model.unknown is None or self.model.knows(point.indices)
        bias = self.model.bias if known else self.model.unknown
        assert bias is not None
        return sign * point.data.astype(np.float64) * weights, sign * float(bias[column])

    def _best_with(self, dense: DenseAnswers, text: str) -> int:
        """Return the best label of one text with word vectors, without the loop over blocks."""
        scores = np.empty((1, len(self.model.bias)), np.float32)
        self.scorer.scores(*kernels.join_texts([text]), scores, 1)
        if not dense.add_scores([text], scores, 1):
            self._answer_unknown(scores)
        return int(scores.argmax()) if scores.shape[1] > 1 else int(scores[0, 0] > 0)

    def column_of(self, number: int) -> tuple[int, float]:
        """Return the column that scores a label, and its sign: a single column scores the second of two labels."""
        if len(self.model.bias) > 1:
            return number, 1.0
        return 0, -1.0 if number == 0 and self.n_labels == 2 else 1.0

    def _blocks(self, texts: list[str], threads: int) -> Iterator[F32]:
        n_columns = len(self.model.bias)
        step = max(1, self.max_cells // max(n_columns, 0 if self.dense is None else len(self.dense.weight)))
        for begin in range(0, len(texts), step):
            text, offsets = kernels.join_texts(texts[begin : begin + step])
            out = np.empty((len(offsets) - 1, n_columns), np.float32)
            self.scorer.scores(text, offsets, out, threads)
            if self.dense is not None:
                self.dense.add_scores(texts[begin : begin + step], out, threads)
            self._answer_unknown(out)
            yield out

    def _answer_unknown(self, scores: F32) -> None:
        """Set the scores of texts whose scores are the biases alone."""
        if self.model.unknown is not None:
            at = np.flatnonzero(scores[:, 0] == self.model.bias[0])
            at = at[(scores[at] == self.model.bias).all(axis=1)]
            scores[at] = self.model.unknown

    def _probabilities(self, scores: F32) -> F32:
        scores = both_classes(scores, self.n_labels) if self.exclusive else scores
        return self.model.calibration.probabilities(scores, exclusive=self.exclusive)


def _largest(values: F32, k: int, *, few: int = 16) -> I64:
    """Return the positions of the k largest values of each row, largest first; ties go to the first.

    Up to `few`, repeated arg max finds them in a thirtieth of the time of a sort.
    """
    if k > few:
        return np.argsort(-values, axis=1, kind="stable")[:, :k]
    found, left = np.empty((len(values), k), np.int64), values.copy()
    for place in range(k):
        found[:, place] = left.argmax(axis=1)
        np.put_along_axis(left, found[:, place, None], -np.inf, axis=1)
    return found
