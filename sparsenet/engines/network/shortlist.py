"""Approximate top-k in a fraction of a millisecond: score only a shortlist of labels exactly.

Posting lists of the wide path give each point candidate labels, and the best by wide score and bias form its
shortlist. Shortlisted labels get the exact scores of `Network.topk`. A shortlist may miss some of the best labels;
`recall` measures how often.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from sparsenet import kernels
from sparsenet.core.rows import Rows
from sparsenet.engines.network.model import Network
from sparsenet.engines.network.output import SampledOutput
from sparsenet.index.vector_index import share_found
from sparsenet.kernels.types import F32, I32


@dataclass(frozen=True)
class Shortlist:
    """An index from features to candidate labels.

    Attributes
    ----------
    size : int
        Labels of a shortlist.
    index : Rows
        The posting list of each feature, (d, n_labels): labels and their wide weights, cut to the strongest.
    fallback : ndarray of shape (size,), int32
        The labels with the highest biases, candidates of every point.
    is_whole : bool
        Whether all posting lists are complete.
    n_postings : int
        Maximum length of a posting list.
    """

    size: int
    index: Rows
    fallback: I32
    is_whole: bool
    n_postings: int

    @classmethod
    def of(cls, output: SampledOutput, *, size: int, n_postings: int) -> Shortlist:
        """Build the index with at most `n_postings` labels for each feature."""
        if output.wide is None:
            raise ValueError("a shortlist is found by the wide path, and this network has none (wide=False)")
        size = min(size, output.n_labels)
        full = output.wide.inverted()
        index = full.strongest(n_postings, full.data)
        bias = output.bias.value.reshape(-1)
        fallback = np.argpartition(-bias, size - 1)[:size].astype(np.int32)
        return cls(size, index, fallback, len(index.indices) == len(full.indices), n_postings)

    @classmethod
    def with_recall(
        cls,
        network: Network,
        sample: Rows,
        k: int,
        recall: float,
        *,
        size: int,
        max_postings: int,
        threads: int,
        min_postings: int = 16,
    ) -> Shortlist:
        """Build the smallest index that reaches `recall` on a sample; double the postings up to `max_postings`."""
        exact, _ = network.topk(sample, k, threads)
        n_postings = min_postings
        while True:
            shortlist = cls.of(network.output, size=size, n_postings=min(n_postings, max_postings))
            share = shortlist._share(network, sample, exact, threads)
            if share >= recall:
                return shortlist
            if n_postings >= max_postings or shortlist.is_whole:
                advice = "raise candidates, or postings" if not shortlist.is_whole else "raise candidates"
                warnings.warn(
                    f"{share:.3f} of the best {k} labels of the sample are found, {recall} were asked for: {advice}",
                    RuntimeWarning,
                    stacklevel=4,
                )
                return shortlist
            n_postings *= 2

    def topk(self, network: Network, features: Rows, k: int, threads: int) -> tuple[I32, F32]:
        """Return the k best labels of each point's shortlist and their scores, (n, k) each, best first."""
        output, n = network.output, len(features)
        labels, scores = np.empty((n, self.size), np.int32), np.empty((n, self.size), np.float32)
        points = (features.indptr, features.indices, features.data)
        index = (self.index.indptr, self.index.indices, self.index.data)
        bias: F32 = output.bias.value.reshape(-1)
        kernels.shortlist(*points, *index, bias, self.fallback, labels, scores, threads)
        if self.is_whole:
            output.add_deep(scores, network.hidden_units(features, threads), labels, threads)
        else:  # a truncated index gives partial scores only
            scores = network.scores_of(features, labels, threads)
        # Labels ascend, so a stable sort breaks ties by the smaller label.
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(labels, best, axis=1), np.take_along_axis(scores, best, axis=1)

    def recall(self, network: Network, features: Rows, k: int, threads: int) -> float:
        """Measure the recall: the fraction of the exact top k that the shortlists contain."""
        return self._share(network, features, network.topk(features, k, threads)[0], threads)

    def _share(self, network: Network, features: Rows, exact: I32, threads: int) -> float:
        return share_found(exact, self.topk(network, features, exact.shape[1], threads)[0])
