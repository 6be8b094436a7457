"""What training needs of a sampler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
State = dict[str, NDArray[np.generic]]


class Samples(NamedTuple):
    """A sample for each point: that of point i is ``ids[indptr[i] : indptr[i + 1]]``.

    ``expected[j]`` is the probability with which ``ids[j]`` is in its point's sample.
    """

    indptr: I64
    ids: I32
    expected: F32


class Sampler(Protocol):
    """What training needs of a sampler."""

    def prepare(self, n_labels: int, label_counts: I64) -> None:
        """Learn how many labels there are and how often each occurs in the training data, (L,)."""

    def sample(self, hidden: F32, n_negatives: int, rng: np.random.Generator) -> I32:
        """Draw `n_negatives` distinct labels, ascending (all of them if there are fewer): hidden (n, h)."""

    def sample_each(self, hidden: F32, n_negatives: int, rng: np.random.Generator) -> Samples:
        """Draw a sample for each of the points `hidden` (n, h) by itself."""

    def expected(self, ids: I32, n_negatives: int) -> F32:
        """Return the probability with which each of `ids` is in a sample of `n_negatives`."""

    def update(self, weight: F32, bias: F32, changed_rows: I32 | I64) -> None:
        """Take note of rows of the output layer that training has changed: weight (L, h), bias (L,)."""

    def measure_recall(self, hidden: F32, weight: F32, bias: F32, n_negatives: int, k: int = 5) -> float:
        """Return the share of the points' exact top `k` labels that a sample is expected to hold."""

    def memory(self, n_labels: int, width: int) -> int:
        """Return the bytes that the sampler will take."""

    def state(self) -> State:
        """Return what `restore` needs, after `prepare`, to go on as this sampler would."""

    def restore(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over what `state` returned."""


def uniform(n_labels: int, n: int, rng: np.random.Generator) -> I32:
    """Draw `n` distinct ids below `n_labels`, ascending."""
    chosen = rng.choice(n_labels, min(n, n_labels), replace=False, shuffle=False) if n_labels else np.empty(0)
    return np.sort(chosen).astype(np.int32)
