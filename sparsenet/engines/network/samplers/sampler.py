"""The interface of negative samplers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sparsenet.index.exact import exact_topk
from sparsenet.kernels.types import F32, I32, I64

State = dict[str, NDArray[np.generic]]


class Samples(NamedTuple):
    """One sample for each point: ``ids[indptr[i] : indptr[i + 1]]`` for point i.

    ``expected[j]`` is the probability that ``ids[j]`` is in the sample of its point.
    """

    indptr: I64
    ids: I32
    expected: F32


class Sampler(Protocol):
    """The interface of negative samplers; a subclass must define `sample` and `expected`.

    Examples
    --------
    A sampler that draws consecutive labels from a random start:

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
        """Receive the number of labels and their counts in the training data, (n_labels,)."""
        self.n_labels = n_labels

    def sample(self, hidden: F32, n_negatives: int, rng: np.random.Generator) -> I32:
        """Draw `n_negatives` distinct labels, ascending, or all labels if there are fewer; `hidden` is (n, h)."""
        raise NotImplementedError

    def sample_each(self, hidden: F32, n_negatives: int, rng: np.random.Generator) -> Samples:
        """Draw a sample of its own for each of the points `hidden`, (n, h)."""
        samples = [self.sample(point[None], n_negatives, rng) for point in hidden]
        ids = np.concatenate([*samples, np.empty(0, np.int32)])
        indptr = np.concatenate(([0], np.cumsum([len(sample) for sample in samples], dtype=np.int64)))
        return Samples(indptr, ids, self.expected(ids, n_negatives))

    def expected(self, ids: I32, n_negatives: int) -> F32:
        """Return the probability that each of `ids` is in a sample of `n_negatives`."""
        raise NotImplementedError

    def update(self, weight: F32, bias: F32, changed_rows: I32 | I64) -> None:
        """Receive the rows of the output layer that training changed: weight (n_labels, h), bias (n_labels,)."""
        return  # most samplers ignore the weights

    def measure_recall(self, hidden: F32, weight: F32, bias: F32, n_negatives: int, k: int = 5) -> float:
        """Measure the expected share of the points' exact top `k` labels in a sample."""
        if len(hidden) == 0 or self.n_labels == 0:
            return float("nan")
        top = exact_topk(hidden, weight, bias, k, threads=1)[0]
        return float(self.expected(top.ravel(), n_negatives).mean())

    def memory(self, n_labels: int, width: int) -> int:
        """Return the memory that the sampler will take, in bytes."""
        return 0

    def state(self) -> State:
        """Return the state for `restore`, which continues exactly after `prepare`."""
        return {}

    def restore(self, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Restore the output of `state`."""
        return


def uniform(n_labels: int, n: int, rng: np.random.Generator) -> I32:
    """Draw `n` distinct ids below `n_labels`, ascending."""
    chosen = rng.choice(n_labels, min(n, n_labels), replace=False, shuffle=False) if n_labels else np.empty(0)
    return np.sort(chosen).astype(np.int32)
