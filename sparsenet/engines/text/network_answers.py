"""Answers of a network over text features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from sparsenet import kernels
from sparsenet.core.memory import check_cells
from sparsenet.core.ranked import best_first
from sparsenet.core.rows import Rows
from sparsenet.engines.network.inference import dense_scores
from sparsenet.engines.text.text_network import COMPETING, NetworkModel
from sparsenet.features.text.featuriser import extract
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import F32, F64, I32, I64


@dataclass(frozen=True, eq=False)
class NetworkAnswers:
    """Answers of a network.

    Attributes
    ----------
    competing : int
        Labels of a text whose softmax gives its probabilities; all other labels get 0.
    max_cells : int
        Scores held at a time for texts that need the scores of all labels.
    """

    model: NetworkModel
    words: Vocabulary
    exclusive: bool
    competing: int = COMPETING
    max_cells: int = 1 << 22

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.model.n_columns

    def topk(self, texts: list[str], k: int, threads: int) -> tuple[I32, F32]:
        """See `LinearAnswers`."""
        labels, values = [np.empty((0, k), np.int32)], [np.empty((0, k), np.float32)]
        for points in self._points(texts, threads):
            found, probabilities = self._probable(points, k, threads)
            labels.append(found)
            values.append(probabilities)
        return np.concatenate(labels), np.concatenate(values)

    def topk_among(self, texts: list[str], among: I32, k: int, threads: int) -> tuple[I32, F32]:
        """See `LinearAnswers`. Exclusive labels outside the competing ones have a probability of 0."""
        labels, values = [np.empty((0, k), np.int32)], [np.empty((0, k), np.float32)]
        for points in self._points(texts, threads, step=max(1, min(4096, self.max_cells // len(among)))):
            candidates = np.tile(among, (len(points), 1))
            scores = self.model.network.scores_of(points, candidates, threads)
            blank = self.model.stats.blank(points)
            scores[blank] = self._frequency_scores(self.model.stats.shares()[among])
            best, scores = best_first(scores, k, candidates, scores)
            labels.append(best)
            values.append(self._probabilities_of(points, best, scores, threads))
        return np.concatenate(labels), np.concatenate(values)

    def _probabilities_of(self, points: Rows, labels: I32, scores: F32, threads: int) -> F32:
        """Return the probabilities of labels with these scores; exclusive ones compete with the best of all labels."""
        if not self.exclusive:
            return self.model.calibration.probabilities(scores, exclusive=False)
        rivals, p = self._probable(points, min(self.competing, self.n_labels), threads)
        found = np.zeros_like(scores)
        for row, own in enumerate(labels):
            place = {label: number for number, label in enumerate(rivals[row].tolist())}
            found[row] = [p[row, place[label]] if label in place else 0 for label in own.tolist()]
        return found

    def winners(self, texts: list[str], threads: int) -> I32:
        """See `LinearAnswers`."""
        found = [self._best(points, 1, threads)[0][:, 0] for points in self._points(texts, threads)]
        return np.concatenate([np.empty(0, np.int32), *found])

    def likely(self, texts: list[str], threshold: float | None, threads: int) -> tuple[I32, I64]:
        """See `LinearAnswers`. Most texts need only the best few labels; all are scored for the others."""
        k = min(self.competing, self.n_labels)
        names, counts = [np.empty(0, np.int32)], [np.zeros(1, np.int64)]
        for points in self._points(texts, threads):
            chosen = self._likely(points, k, threshold, threads)
            full = [i for i, own in enumerate(chosen) if len(own) == k < self.n_labels]
            step = max(1, self.max_cells // self.n_labels)
            for begin in range(0, len(full), step):
                rows = full[begin : begin + step]
                again = self._likely(points.take(np.array(rows)), self.n_labels, threshold, threads)
                for row, own in zip(rows, again, strict=True):
                    chosen[row] = own
            names += chosen
            counts.append(np.array([len(own) for own in chosen], np.int64))
        return np.concatenate(names), np.cumsum(np.concatenate(counts))

    def _likely(self, points: Rows, k: int, threshold: float | None, threads: int) -> list[I32]:
        """Return which of the k best labels of each point reach a threshold, best first."""
        labels, scores = self._best(points, k, threads)
        reaches = self.model.calibration.chosen(scores, threshold)
        return [own[kept] for own, kept in zip(labels, reaches, strict=True)]

    def probabilities(self, texts: list[str], threads: int) -> F32:
        """See `LinearAnswers`."""
        if not self.exclusive:
            return self.model.calibration.probabilities(self.scores(texts, threads), exclusive=False)
        check_cells(len(texts), self.n_labels)
        labels, found = self.topk(texts, min(self.competing, self.n_labels), threads)
        all_labels = np.zeros((len(texts), self.n_labels), np.float32)
        np.put_along_axis(all_labels, labels.astype(np.int64), found, axis=1)
        return all_labels

    def scores(self, texts: list[str], threads: int) -> F32:
        """See `LinearAnswers`."""
        check_cells(len(texts), self.n_labels)
        found = np.empty((len(texts), self.n_labels), np.float32)
        done, stats = 0, self.model.stats
        for points in self._points(texts, threads):
            own = dense_scores(self.model.network, points, threads)
            own[stats.blank(points)] = self._frequency_scores(stats.shares())
            found[done : done + len(points)] = own
            done += len(points)
        return found[:, 1] - found[:, 0] if self.exclusive and self.n_labels == 2 else found

    def best(self, text: str) -> int:
        """See `LinearAnswers`."""
        (points,) = self._points([text], 1)
        return int(self._best(points, 1, 1)[0][0, 0])

    def contributions(self, point: Rows, number: int) -> tuple[F64, float]:
        """See `LinearAnswers`. With the active units fixed, the score is a sum over features."""
        arrays, stats = self.model.network.weights(), self.model.stats
        units = self.model.network.hidden_units(point, 1)[0]
        through = np.where(units > 0, arrays["output.weight"][number], 0).astype(np.float64)
        deep = arrays["input.weight"][point.indices].astype(np.float64) @ through
        begin, end = arrays["wide.indptr"][number : number + 2]
        own = arrays["wide.indices"][begin:end]
        wide = sparse.csr_array((arrays["wide.weight"][begin:end, 0], own, [0, end - begin]), shape=(1, point.width))
        bias = float(through @ arrays["input.bias"][0] + arrays["output.bias"][number, 0])
        if len(stats.blank(point)):
            bias = float(self._frequency_scores(stats.shares()[number]))
        return point.data * (deep + wide.toarray()[0, point.indices]), bias

    def _points(self, texts: list[str], threads: int, step: int = 4096) -> Iterator[Rows]:
        """Yield the features of `step` texts at a time, which are held in memory."""
        for begin in range(0, len(texts), step):
            rows = extract(*kernels.join_texts(texts[begin : begin + step]), self.words.rules, threads)
            yield self.words.points(rows, threads)

    def _best(self, points: Rows, k: int, threads: int) -> tuple[I32, F32]:
        """Return the best labels of points and their scores, (n, k) each; for blank texts, the most frequent."""
        labels, scores = self.model.network.topk(points, k, threads)
        stats = self.model.stats
        stats.answer_blank(points, labels)
        blank = stats.blank(points)
        scores[blank] = self._frequency_scores(stats.shares()[labels[blank]])
        return labels, scores

    def _frequency_scores(self, shares: F32) -> F32:
        """Return the scores whose probabilities are label frequencies."""
        exact = np.asarray(shares, np.float64)
        return np.asarray(self.model.calibration.scores_of(exact, exclusive=self.exclusive), np.float32)

    def _probable(self, points: Rows, k: int, threads: int) -> tuple[I32, F32]:
        """Return the best labels of points and their probabilities, (n, k) each."""
        model = self.model
        if not self.exclusive:
            labels, scores = self._best(points, k, threads)
            return labels, model.calibration.probabilities(scores, exclusive=False)
        competing = min(self.competing, self.n_labels)
        labels, scores = self._best(points, max(k, competing), threads)
        found = np.zeros_like(scores)
        found[:, :competing] = model.calibration.probabilities(scores[:, :competing], exclusive=True)
        return labels[:, :k], found[:, :k]
