"""One judge for all systems: `sparsenet.metrics` on the labels that each predicted for the whole test set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.cache import DataSet
from sparsenet import metrics

KS = (1, 3, 5)
#: With seen items masked, this many are asked for at most; who fills them with seen items has predicted nothing.
MOST_PREDICTIONS = 200


class Scorer:
    """Scores predictions for a data set.

    `mask_seen` is for recommendation: feature i is label i, and what a user has seen is struck from what is predicted
    before that is scored. `depth` predictions a point are needed then, so that enough are left.
    """

    def __init__(self, data: DataSet, *, mask_seen: bool) -> None:
        self.truth = data.matrix("test.Y")
        self.propensity = metrics.propensities(data.matrix("train.Y"))
        self.seen = data.matrix("test.X") if mask_seen else None
        n_labels = self.truth.shape[1]
        if self.seen is not None and self.seen.shape[1] != n_labels:
            raise ValueError(f"{data.name} has {self.seen.shape[1]} features and {n_labels} labels: nothing to mask")
        n_seen = 0 if self.seen is None else int(np.diff(self.seen.indptr).max())
        self.depth = min(max(KS) + n_seen, max(MOST_PREDICTIONS, max(KS)), n_labels)

    def score(self, predictions: Path) -> dict[str, float]:
        """Return P@k, nDCG@k and PSP@k, each between 0 and 1."""
        labels = np.load(predictions)["labels"]
        if self.seen is not None:
            labels = self._without_seen(labels)
        scores = metrics.evaluate(self.truth, labels, KS, self.propensity, recall_ks=[max(KS)])
        return {name: round(value, 6) for name, value in scores.items()}

    def _without_seen(self, labels: NDArray[np.int32]) -> NDArray[np.int32]:
        """Strike what a point's features name, and move up what stands behind."""
        assert self.seen is not None
        n_points, n_labels = self.seen.shape
        rows = np.arange(n_points, dtype=np.int64)
        seen = np.repeat(rows, np.diff(self.seen.indptr)) * n_labels + self.seen.indices
        kept = np.where(np.isin(rows[:, None] * n_labels + labels, seen), -1, labels)
        order = np.argsort(kept < 0, axis=1, kind="stable")
        return np.take_along_axis(kept, order, axis=1)
