"""Choose the labels that a batch computes: the true labels of its points and sampled negatives.

All points of a batch share one active set, or each point has its own. The sampler's output is validated here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from sparsenet.core.batches import Batch
from sparsenet.engines.network.losses import Positives
from sparsenet.engines.network.samplers import Sampler
from sparsenet.kernels.types import F32, I32


@dataclass(frozen=True)
class ActiveSet:
    """Labels computed for a batch: first the true labels of its points, then the other sampled negatives.

    Shapes: labels (a,) and expected (a,), the probability that the sampler alone would have chosen each label.
    """

    labels: I32
    positives: Positives
    expected: F32


class ActivePairs(NamedTuple):
    """Labels computed for each point: row pointers, labels, true-label flags and sampling probabilities."""

    indptr: NDArray[np.int64]
    labels: I32
    is_true: NDArray[np.bool_]
    expected: F32


@dataclass(frozen=True)
class Sampling:
    """A sampler with the number of labels and the number of negatives to draw."""

    sampler: Sampler
    n_labels: int
    n_negatives: int

    def choose(self, batch: Batch, hidden: F32, rng: np.random.Generator) -> ActiveSet:
        """Merge the true labels of the batch with the sampled negatives."""
        postings = batch.label_postings
        negatives = self._checked_ids(self.sampler.sample(hidden, self.n_negatives, rng))
        if (negatives[1:] <= negatives[:-1]).any():
            raise ValueError(f"{self.sampler!r} must sample distinct labels, ascending")
        negatives = negatives[postings.slots[negatives] < 0]
        labels = np.concatenate((postings.ids, negatives))
        indptr = np.full(len(labels) + 1, postings.starts[-1], np.int64)
        indptr[: len(postings.starts)] = postings.starts
        return ActiveSet(labels, Positives(indptr, postings.points), self._expected(labels))

    def choose_pairs(self, batch: Batch, hidden: F32, rng: np.random.Generator) -> ActivePairs:
        """Give each point an active set of its own: its true labels and its own negatives."""
        postings, shape = batch.label_postings, (len(batch), self.n_labels)
        sampled = self.sampler.sample_each(hidden, self.n_negatives, rng)
        ids = self._checked_ids(sampled.ids)
        drawn = csr_array((self._checked_probabilities(ids, sampled.expected), ids, sampled.indptr), shape=shape)
        owners = np.repeat(postings.ids, np.diff(postings.starts))
        true = csr_array((np.full(len(postings.points), 2, np.float32), (postings.points, owners)), shape=shape)
        # Sampled labels carry their probability, true labels 2; the sum marks a label that is both.
        merged = (drawn + true).tocsr()
        labels, is_true = merged.indices.astype(np.int32), merged.data >= 2
        expected = np.where(is_true, self._expected(labels), merged.data)
        return ActivePairs(merged.indptr.astype(np.int64), labels, is_true, expected.astype(np.float32))

    def _checked_ids(self, ids: I32) -> I32:
        """Reject sampled ids that are not labels: a kernel would access memory out of bounds."""
        if not isinstance(ids, np.ndarray) or ids.dtype != np.int32 or ids.ndim != 1:
            is_array = isinstance(ids, np.ndarray)
            found = f"{ids.dtype} of shape {ids.shape}" if is_array else type(ids).__name__
            raise TypeError(f"{self.sampler!r} must sample a one-dimensional array of int32, got {found}")
        if len(ids) and not 0 <= ids.min() <= ids.max() < self.n_labels:
            found = f"{ids.min()} to {ids.max()}"
            raise ValueError(f"{self.sampler!r} must sample labels from 0 to {self.n_labels - 1}, got {found}")
        return ids

    def _expected(self, labels: I32) -> F32:
        """Return the probability that the sampler would have chosen each label."""
        return self._checked_probabilities(labels, self.sampler.expected(labels, self.n_negatives))

    def _checked_probabilities(self, labels: I32, expected: object, rounding: float = 1e-6) -> F32:
        """Reject expected values that are not one probability per label, before they reach the loss."""
        found = np.asarray(expected)
        if found.shape != labels.shape or found.dtype.kind not in "fiu":
            got = f"{found.dtype} of shape {found.shape}"
            raise ValueError(f"{self.sampler!r} must expect a number for each of {len(labels)} labels, got {got}")
        found = found.astype(np.float32, copy=False)
        if len(found) and not (found.min() >= 0 and found.max() <= 1 + rounding):
            label = int(np.flatnonzero(~((found >= 0) & (found <= 1 + rounding)))[0])
            got = f"{found[label]:g} of label {labels[label]}"
            raise ValueError(f"{self.sampler!r} must expect probabilities, from 0 to 1, got {got}")
        return found
