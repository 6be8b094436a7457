"""Score the predictions of every system for the whole test set with `sparsenet.metrics`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.cache import DataSet
from sparsenet import metrics

KS = (1, 3, 5)
#: The most labels to request per point when seen items are masked. If all of them are seen items, none is left.
MOST_PREDICTIONS = 200


class Scorer:
    """Scores predictions for a data set.

    `mask_seen` is for recommendation, where feature i is label i: items that a user has seen are removed from the
    predictions before scoring. Each system must then predict `depth` labels per point, so that enough are left.
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
        """Remove labels that are features of the point, and move the later ones up."""
        assert self.seen is not None
        n_points, n_labels = self.seen.shape
        rows = np.arange(n_points, dtype=np.int64)
        seen = np.repeat(rows, np.diff(self.seen.indptr)) * n_labels + self.seen.indices
        kept = np.where(np.isin(rows[:, None] * n_labels + labels, seen), -1, labels)
        order = np.argsort(kept < 0, axis=1, kind="stable")
        return np.take_along_axis(kept, order, axis=1)
