"""What training needs of a sampler."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsenet.index.exact import exact_topk
from sparsenet.kernels.types import F32, I32, I64

State = dict[str, NDArray[np.generic]]


class Samples(NamedTuple):
    """A sample for each point: that of point i is ``ids[indptr[i] : indptr[i + 1]]``.

    ``expected[j]`` is the probability with which ``ids[j]`` is in its point's sample.
    """

    indptr: I64
    ids: I32
    expected: F32


class Sampler(Protocol):
    """What training needs of a sampler; one that inherits from this class says how it samples, and has the rest.

    Examples
    --------
    Negatives that follow one another, beginning anywhere:

    >>> class Run(Sampler):
    ...     def sample(self, hidden, n_negatives, rng):
    ...         n = min(n_negatives, self.n_labels)
    ...         return np.sort((rng.integers(self.n_labels) + np.arange(n)) % self.n_labels).astype(np.int32)
    ...
    ...     def expected(self, ids, n_negatives):
    ...         return np.full(len(ids), min(n_negatives / self.n_labels, 1), np.float32)
    >>> from sparsenet import ExtremeClassifier
    >>> model = ExtremeClassifier(hidden=4, epochs=5, sampler=Run(), n_negatives=2, random_state=0)
    >>> model.fit(np.eye(5), list("abcde")).score(np.eye(5), list("abcde"))
    1.0
    """

    n_labels: int

    def prepare(self, n_labels: int, label_counts: I64) -> None:
        """Learn how many labels there are and how often each occurs in the training data, (L,)."""
        self.n_labels = n_labels

    def sample(self, hidden: F32, n_negatives: int, rng: np.random.Generator) -> I32:
        """Draw `n_negatives` distinct labels, ascending (all of them if there are fewer): hidden (n, h)."""
        raise NotImplementedError

    def sample_each(self, hidden: F32, n_negatives: int, rng: np.random.Generator) -> Samples:
        """Draw a sample for each of the points `hidden` (n, h) by itself."""
        samples = [self.sample(point[None], n_negatives, rng) for point in hidden]
        ids = np.concatenate([*samples, np.empty(0, np.int32)])
        indptr = np.concatenate(([0], np.cumsum([len(sample) for sample in samples], dtype=np.int64)))
        return Samples(indptr, ids, self.expected(ids, n_negatives))

    def expected(self, ids: I32, n_negatives: int) -> F32:
        """Return the probability with which each of `ids` is in a sample of `n_negatives`."""
        raise NotImplementedError

    def update(self, weight: F32, bias: F32, changed_rows: I32 | I64) -> None:
        """Take note of rows of the output layer that training has changed: weight (L, h), bias (L,)."""
        return  # most do not look at weights

    def measure_recall(self, hidden: F32, weight: F32, bias: F32, n_negatives: int, k: int = 5) -> float:
        """Return the share of the points' exact top `k` labels that a sample is expected to hold."""
        if len(hidden) == 0 or self.n_labels == 0:
            return float("nan")
        top = exact_topk(hidden, weight, bias, k, threads=1)[0]
        return float(self.expected(top.ravel(), n_negatives).mean())

    def memory(self, n_labels: int, width: int) -> int:
        """Return the bytes that the sampler will take."""
        return 0

    def state(self) -> State:
        """Return what `restore` needs, after `prepare`, to go on as this sampler would."""
        return {}

    def restore(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over what `state` returned."""
        return


def uniform(n_labels: int, n: int, rng: np.random.Generator) -> I32:
    """Draw `n` distinct ids below `n_labels`, ascending."""
    chosen = rng.choice(n_labels, min(n, n_labels), replace=False, shuffle=False) if n_labels else np.empty(0)
    return np.sort(chosen).astype(np.int32)
