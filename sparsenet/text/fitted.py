"""What a fitted text classifier consists of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet import kernels
from sparsenet.estimators.targets import Target
from sparsenet.text.featuriser import unicode_table
from sparsenet.text.linear import LinearModel
from sparsenet.text.vocabulary import Vocabulary, log_counts

F32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Fitted:
    """All that a fitted classifier is, beside its parameters."""

    target: Target
    vocabulary: Vocabulary
    model: LinearModel
    counts: NDArray[np.int64]
    n_texts: int
    calls: int = 0
    weight: F32 | None = None  # before rounding, once partial_fit needs it

    @cached_property
    def scorer(self) -> kernels.TextScorer:
        """The kernel's view of the model."""
        rules, model, words = self.vocabulary.rules, self.model, self.vocabulary
        vocabulary: tuple[Any, ...] = (*words.tables(), words.weights, log_counts())
        matrix: tuple[Any, ...] = (model.matrix, model.factors, model.bias, model.indptr, model.columns)
        return kernels.TextScorer(*unicode_table(), *rules.as_tuple(), *vocabulary, *matrix)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "scorer"}

    @property
    def exclusive(self) -> bool:
        """Whether a text has one label."""
        return self.target.kind == "single"


def both_classes(scores: F32, n_labels: int) -> F32:
    """Return a score for each label where a single column stands for two of them."""
    return np.hstack([-scores, scores]) if scores.shape[1] == 1 and n_labels == 2 else scores
