"""The data and settings that linear text models are trained with, on all texts or some."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sparsenet.core.progress import parts_done
from sparsenet.core.rows import Rows
from sparsenet.core.spilling import Spill
from sparsenet.core.tasks import HERE, TaskRunner
from sparsenet.engines.linear import linear
from sparsenet.engines.linear.linear import LinearRules
from sparsenet.engines.linear.linear_model import LinearModel
from sparsenet.features.text.dense_view import DenseFeatures
from sparsenet.features.text.featuriser import FeatureRules, TextRows
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import F32, I64, Bools


@dataclass(frozen=True, eq=False)
class Problem:
    """Texts as counted features, their labels, and how to train on them.

    Attributes
    ----------
    rows, labels : TextRows and Rows
    exclusive : bool
        Whether each text has exactly one label.
    costs : ndarray of shape (n_labels,), or None
        Multiplies the cost of the texts of each label.
    seed, threads, memory_limit, verbose : as in `TextClassifier`
    dense : DenseFeatures or None
        Features of each text that follow the sparse ones.
    runner : TaskRunner
        Where the tasks of a blend run.
    """

    rows: TextRows
    labels: Rows
    exclusive: bool
    costs: F32 | None
    seed: int
    threads: int
    memory_limit: int | None
    verbose: bool | None = None
    dense: DenseFeatures | None = None
    runner: TaskRunner = HERE

    @cached_property
    def spill(self) -> Spill:
        """Allocates large arrays."""
        return Spill.within(self.memory_limit)

    def columns(self, labels: Rows) -> Rows:
        """Return the columns to train: one for each label, or a single one for the second of two exclusive labels."""
        if not self.exclusive or labels.width != 2:
            return labels
        second = labels.indices == 1
        indptr = np.concatenate((np.zeros(1, np.int64), np.cumsum(second)))
        n = int(indptr[-1])
        return Rows(indptr, np.zeros(n, np.int32), np.ones(n, np.float32), 1)

    def weighted(self, rules: LinearRules, n_columns: int) -> tuple[LinearRules, F32 | None]:
        """Return the rules and the costs for `n_columns` columns."""
        costs = self.costs
        if costs is None or n_columns == len(costs):
            return rules, costs
        # In a single column for two labels, the texts of the first label are the negatives.
        return replace(rules, cost=rules.cost * float(costs[0])), costs[1:] / costs[0]

    def learn(self, features: FeatureRules, rules: LinearRules) -> tuple[Vocabulary, LinearModel]:
        """Train a model on all texts."""
        vocabulary = Vocabulary.learn(features, self.rows, self.labels)
        return vocabulary, self.train(self.rows, self.labels, vocabulary, rules)

    def points(self, vocabulary: Vocabulary, rows: TextRows, texts: I64 | None = None) -> Rows:
        """Return the features of the texts with these numbers, or of all, the dense ones last."""
        points = vocabulary.points(rows, self.threads, self.spill)
        return points if self.dense is None else self.dense.beside(points, self.spill, texts)

    def are_empty(self) -> Bools:
        """Return which texts have no features at all."""
        empty: Bools = np.diff(self.rows.indptr) == 0
        return empty if self.dense is None else empty & self.dense.are_empty()

    def train(
        self, rows: TextRows, labels: Rows, vocabulary: Vocabulary, rules: LinearRules, texts: I64 | None = None
    ) -> LinearModel:
        """Train a model on the texts with these numbers, or on all."""
        points, columns = self.points(vocabulary, rows, texts), self.columns(labels)
        rules, costs = self.weighted(rules, columns.width)
        settings = (rules, self.seed, self.threads, costs, self.memory_limit)
        with parts_done(columns.width, f"{len(rows):,} texts", self.verbose) as on_progress:
            return linear.train_model(points, columns, *settings, on_progress)
