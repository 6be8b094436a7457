"""Answer queries about texts by a blend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparsenet import kernels
from sparsenet.core.memory import check_cells
from sparsenet.core.rows import Rows
from sparsenet.engines.text.text_blend import BlendModel
from sparsenet.features.text.featuriser import extract
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import F32, F64, I32, I64


@dataclass(frozen=True, eq=False)
class BlendAnswers:
    """Answers of a blend. Only its candidates have scores: all other labels have a probability of 0."""

    model: BlendModel
    words: Vocabulary
    exclusive: bool

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.model.n_columns

    @property
    def n_candidates(self) -> int:
        """Number of candidates of each text."""
        return min(self.model.fitted.candidates, self.n_labels)

    def topk(self, texts: list[str], k: int, threads: int) -> tuple[I32, F32]:
        """See `LinearAnswers`."""
        labels, values = [np.empty((0, k), np.int32)], [np.empty((0, k), np.float32)]
        for points in self._points(texts, threads, k):
            found, probabilities = self._probable(points, k, threads)
            labels.append(found)
            values.append(probabilities)
        return np.concatenate(labels), np.concatenate(values)

    def topk_among(self, texts: list[str], among: I32, k: int, threads: int) -> tuple[I32, F32]:
        """See `LinearAnswers`. The labels are scored next to the usual candidates."""
        labels, values = [np.empty((0, k), np.int32)], [np.empty((0, k), np.float32)]
        seen, model = self.model.fitted.seen, self.model
        is_given = np.isin(np.arange(self.n_labels), among)
        for points in self._points(texts, threads):
            found, p = np.empty((len(points), k), np.int32), np.empty((len(points), k), np.float32)
            how: dict[str, Any] = {"k": model.n_neighbors, "beam": model.beam, "threads": threads, "among": among}
            for own, candidates, scores in model.fitted.rank(points, self.n_candidates, **how):
                values_of_all = self._probabilities(candidates, scores)
                order = np.argsort(~is_given[candidates], axis=1, kind="stable")[:, :k]
                found[own] = np.take_along_axis(candidates, order, axis=1)
                p[own] = np.take_along_axis(values_of_all, order, axis=1)
            seen.answer_blank(points, found, None, among)
            blank = seen.blank(points)
            p[blank] = self._frequencies()[found[blank]]
            labels.append(found)
            values.append(p)
        return np.concatenate(labels), np.concatenate(values)

    def winners(self, texts: list[str], threads: int) -> I32:
        """See `LinearAnswers`."""
        found = [self._ranked(points, self.n_candidates, threads)[0][:, 0] for points in self._points(texts, threads)]
        return np.concatenate([np.empty(0, np.int32), *found])

    def likely(self, texts: list[str], threshold: float | None, threads: int) -> tuple[I32, I64]:
        """See `LinearAnswers`. All labels reach a threshold of 0."""
        border = self.model.calibration.threshold if threshold is None else threshold
        k = self.n_labels if border == 0 else self.n_candidates
        names, counts = [np.empty(0, np.int32)], [np.zeros(1, np.int64)]
        for points in self._points(texts, threads, k):
            labels, p = self._probable(points, k, threads)
            reaches = p >= border
            names.append(labels[reaches])
            counts.append(reaches.sum(axis=1))
        return np.concatenate(names), np.cumsum(np.concatenate(counts))

    def probabilities(self, texts: list[str], threads: int) -> F32:
        """See `LinearAnswers`."""
        check_cells(len(texts), self.n_labels)
        found, done = np.zeros((len(texts), self.n_labels), np.float32), 0
        for points in self._points(texts, threads):
            own = found[done : done + len(points)]
            labels, p = self._probable(points, self.n_candidates, threads)
            np.put_along_axis(own, labels.astype(np.int64), p, axis=1)
            blank = self.model.fitted.seen.blank(points)
            own[blank] = self._frequencies()
            done += len(points)
        return found

    def scores(self, texts: list[str], threads: int) -> F32:
        """See `LinearAnswers`. Labels that are no candidates score one less than the last candidate."""
        check_cells(len(texts), self.n_labels)
        found, done = np.empty((len(texts), self.n_labels), np.float32), 0
        for points in self._points(texts, threads):
            own = found[done : done + len(points)]
            labels, scores = self._ranked(points, self.n_candidates, threads)
            own[:] = scores[:, -1:] - 1
            np.put_along_axis(own, labels.astype(np.int64), scores, axis=1)
            done += len(points)
        return found[:, 1] - found[:, 0] if self.exclusive and self.n_labels == 2 else found

    def best(self, text: str) -> int:
        """See `LinearAnswers`."""
        return int(self.winners([text], 1)[0])

    def contributions(self, point: Rows, number: int) -> tuple[F64, float]:
        """Return by how much the score of a label falls without each feature, (nnz,), and the rest of the score.

        A blend is no sum over features, so each is left out in turn. The rest makes up the difference to the score.
        """
        nnz = len(point.indices)
        kept = ~np.eye(nnz + 1, nnz, dtype=bool)
        rows = np.repeat(np.arange(nnz + 1), kept.sum(axis=1))
        columns = np.broadcast_to(np.arange(nnz), kept.shape)[kept]
        indptr = np.searchsorted(rows, np.arange(nnz + 2)).astype(np.int64)
        without = Rows(indptr, point.indices[columns], point.data[columns], point.width)
        labels, scores = self._ranked(without, self.n_candidates, 1)
        is_label = labels == number
        found = np.where(is_label.any(axis=1), np.where(is_label, scores, 0).sum(axis=1), scores[:, -1] - 1)
        contributions = np.asarray(found[-1] - found[:-1], np.float64)
        return contributions, float(found[-1] - contributions.sum())

    def _points(self, texts: list[str], threads: int, k: int = 1, *, max_cells: int = 1 << 22) -> Iterator[Rows]:
        """Yield the features of 4096 texts at a time, or fewer if k labels of each are more than `max_cells`."""
        step = max(1, min(4096, max_cells // k))
        for begin in range(0, len(texts), step):
            rows = extract(*kernels.join_texts(texts[begin : begin + step]), self.words.rules, threads)
            yield self.words.ascending(rows, threads)

    def _ranked(self, points: Rows, n: int, threads: int) -> tuple[I32, F32]:
        """Return the n best candidates of points and their scores, (n_points, n) each, best first."""
        model = self.model
        labels, scores = np.empty((len(points), n), np.int32), np.empty((len(points), n), np.float32)
        for own, *found in model.fitted.rank(points, n, k=model.n_neighbors, beam=model.beam, threads=threads):
            labels[own], scores[own] = found
        model.fitted.seen.answer_blank(points, labels)
        return labels, scores

    def _probable(self, points: Rows, k: int, threads: int) -> tuple[I32, F32]:
        """Return the k best labels of points and their probabilities, (n, k) each, best first."""
        labels, scores = self._ranked(points, max(k, self.n_candidates), threads)
        p, blank = self._probabilities(labels, scores), self.model.fitted.seen.blank(points)
        p[blank] = self._frequencies()[labels[blank]]
        return labels[:, :k], p[:, :k]

    def _probabilities(self, labels: I32, scores: F32) -> F32:
        """Return the probabilities of all candidates, best first."""
        combination = self.model.fitted.combination
        if self.exclusive:
            return combination.exclusive_probabilities(scores)
        return combination.probabilities(scores, self.model.fitted.seen.label_counts[labels])

    def _frequencies(self) -> F32:
        """Return the probability of each label for a text without known features."""
        shares = self.model.fitted.seen.shares()
        return np.asarray(shares / shares.sum(), np.float32) if self.exclusive else shares
