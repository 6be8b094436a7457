"""What a fitted text classifier consists of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparsenet.engines.linear.linear_model import LinearModel
from sparsenet.engines.text.text_answers import Answers, LinearAnswers
from sparsenet.engines.text.text_network import NetworkAnswers, NetworkModel
from sparsenet.features.targets import Target
from sparsenet.features.text.vocabulary import Vocabulary
from sparsenet.kernels.types import F32


@dataclass(frozen=True, eq=False)
class Fitted:
    """All that a fitted classifier is, beside its parameters."""

    target: Target
    vocabulary: Vocabulary
    model: LinearModel | NetworkModel
    counts: NDArray[np.int64]
    n_texts: int
    calls: int = 0
    weight: F32 | None = None  # of a linear model before rounding, once partial_fit needs it

    @cached_property
    def answers(self) -> Answers:
        """The model made ready to answer."""
        n_labels = len(self.target.classes)
        if isinstance(self.model, NetworkModel):
            return NetworkAnswers(self.model, self.vocabulary, self.exclusive)
        return LinearAnswers.of(self.model, self.vocabulary, n_labels, exclusive=self.exclusive)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "answers"}

    @property
    def exclusive(self) -> bool:
        """Whether a text has one label."""
        return self.target.kind == "single"
