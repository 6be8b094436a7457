"""Propose candidate labels for each point, and compute the features that a blend ranks them by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sparsenet.core.ranked import is_hit
from sparsenet.core.rows import Rows
from sparsenet.engines.neighbors.neighbors import Neighbors
from sparsenet.engines.network.inference import log_probabilities
from sparsenet.engines.network.model import Network
from sparsenet.engines.tree.fit_tree import EXACT, FittedTree
from sparsenet.kernels.types import F32, I32, Bools

#: The network's probability of a label counts as this fraction of a neighbor, since rare labels have few neighbors.
PSEUDO_NEIGHBOR = np.float32(0.2)
#: The penalty of a label that the tree has not scored.
UNKNOWN = np.float32(1e6)


class Parts(NamedTuple):
    """The trained parts of a blend."""

    tree: FittedTree
    network: Network | None
    neighbors: Neighbors | None

    @property
    def n_labels(self) -> int:
        """Return the number of labels."""
        return len(self.tree.target.classes)


class Candidates(NamedTuple):
    """Candidate labels of each point and their features, (n, c) each.

    Attributes
    ----------
    labels : candidate labels.
    penalties : root of the negative log-probability by the tree; `UNKNOWN` marks columns without a candidate.
    log_probabilities : of the network; zeros without one.
    shares : root of the share of the neighbors' weights, plus a fraction of the network's probability.
    """

    labels: I32
    penalties: F32
    log_probabilities: F32
    shares: F32

    @property
    def valid(self) -> Bools:
        """Return the mask of columns with a candidate; a repeated label is masked."""
        return np.asarray(self.penalties < UNKNOWN)

    @property
    def features(self) -> F32:
        """Return the features that the weights multiply, (n, c, 3)."""
        return np.stack((-self.penalties, self.log_probabilities, self.shares), axis=-1)

    def take(self, points: Bools) -> Candidates:
        """Return the candidates of some points."""
        return Candidates(*(np.asarray(part[points]) for part in self))  # type: ignore[arg-type]

    def hits(self, truth: Rows) -> Bools:
        """Return the mask of candidates that are true labels."""
        return is_hit(self.labels, truth) & self.valid


def search_beam(beam: int, n_dropped: int = 0) -> int:
    """Return the beam width of a search, given the one in training: that often misses the third to fifth label."""
    return 2 * beam + n_dropped


def n_by_neighbors(n: int) -> int:
    """Return the number of labels that the neighbors propose next to n by the tree."""
    return -(-n // 2)


def propose(
    parts: Parts,
    points: Rows,
    n: int,
    *,
    k: int,
    beam: int,
    threads: int,
    n_dropped: int = 0,
    ranked: tuple[I32, F32] | None = None,
    weights: Rows | None = None,
    among: I32 | None = None,
) -> Candidates:
    """Return n labels by the tree for each point, and up to half as many more by its k nearest neighbors.

    `among` adds candidates before these: all of these labels, or the tree's n best of them if they are many.

    Parameters
    ----------
    beam : int
        Beam width of the tree in training.
    n_dropped : int
        Number of labels that the caller drops afterwards; the beam widens by as many.
    ranked, weights : optional
        The results of earlier searches: labels and scores by the tree, and the weights of each point's neighbors.
    """
    if ranked is None:
        ranked = parts.tree.rank(points, n, beam=search_beam(beam, n_dropped), threads=threads)
    labels, penalties = ranked[0], _penalties(ranked[1])
    neighbors = parts.neighbors if k > 0 else None
    if neighbors is not None:
        weights = neighbors.vote_weights(points, k, threads) if weights is None else weights
        if n < parts.n_labels:
            neighbor_labels, shares = neighbors.propose(weights, n_by_neighbors(n), threads)
            labels, penalties = _add(labels, penalties, neighbor_labels, shares, parts.n_labels)
    if among is not None:
        n_among = len(among) if len(among) <= EXACT else min(n, len(among))
        own = parts.tree.rank(points, n_among, beam=search_beam(beam), threads=threads, among=among)
        labels, penalties = _put_before(labels, penalties, *own)
    if parts.network is None:
        log_p, p = np.zeros_like(penalties), np.exp(-np.square(penalties))
    else:
        log_p = log_probabilities(parts.network, points, labels, threads)
        p = np.exp(log_p)
    vote_shares = np.zeros_like(penalties)
    has_neighbors: Bools = np.zeros((len(points), 1), np.bool_)
    if neighbors is not None and weights is not None:
        vote_shares = neighbors.shares(weights, labels, threads)
        has_neighbors = np.asarray(weights.data.reshape(len(points), -1).any(axis=1, keepdims=True))
    # For a point without neighbors, the probability of the network or tree replaces their votes.
    vote_shares += np.where(has_neighbors, PSEUDO_NEIGHBOR, 1 + PSEUDO_NEIGHBOR) * p
    return Candidates(labels, penalties, log_p, np.sqrt(vote_shares))


def _penalties(scores: F32) -> F32:
    """Return the root of the penalty for each score of the tree."""
    return np.where(np.isneginf(scores), UNKNOWN, np.sqrt(-scores))


def _put_before(labels: I32, penalties: F32, more: I32, scores: F32) -> tuple[I32, F32]:
    """Put labels with exact scores before the others; the others get `UNKNOWN` where they repeat them."""
    ordered = np.sort(more, axis=1)
    width = int(max(labels.max(initial=0), more.max(initial=0))) + 1
    rows = np.arange(len(labels), dtype=np.int64)[:, None] * width
    known, old = (rows + ordered).reshape(-1), rows + labels
    at = np.minimum(np.searchsorted(known, old), len(known) - 1)
    return np.hstack([more, labels]), np.hstack([_penalties(scores), np.where(known[at] == old, UNKNOWN, penalties)])


def _add(labels: I32, penalties: F32, more: I32, shares: F32, n_labels: int) -> tuple[I32, F32]:
    """Append the neighbors' labels with the tree's highest penalty; repeated labels get `UNKNOWN`."""
    rows = np.arange(len(labels), dtype=np.int64)[:, None] * n_labels
    known, added = (rows + np.sort(labels, axis=1)).reshape(-1), rows + more
    at = np.minimum(np.searchsorted(known, added), len(known) - 1)
    is_new = (shares > 0) & (known[at] != added)
    return np.hstack([labels, more]), np.hstack([penalties, np.where(is_new, penalties[:, -1:], UNKNOWN)])
