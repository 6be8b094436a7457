"""Combine tree, network and neighbors by three weights, and turn the sum into probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logsumexp, softmax

from sparsenet.core.ranked import best_first
from sparsenet.engines.blend.candidates import Candidates
from sparsenet.kernels.types import F32, F64, I32, I64, Bools
from sparsenet.selection.newton import Loss, newton

#: The weights of tree, network and neighbors for all data (bench/notes/blends.md).
WEIGHTS = (0.5, 0.5, 2.2)
#: Without a network the tree's penalty stands in for its opinion.
WITHOUT_NETWORK = (1.0, 0.0, 2.0)
#: Precision of the prior at those weights, in the scale of a log-likelihood summed over points.
PRECISION = 100.0
#: Slope and shift of the logit of a probability where there is no hold-out, and their precision elsewhere.
CHANCES, CHANCES_PRECISION = (1.0, -1.0), 1.0
#: Probabilities are fitted to this many best labels of each point.
RANKS = 5
#: The score of a column without a candidate.
LOWEST = np.float32(-1e6)


@dataclass(frozen=True)
class Combination:
    """What a score is, and what it says.

    Attributes
    ----------
    weights : of tree, network and neighbors; a score is the weighted sum of `Candidates.features`.
    slope, shift : the logit of a label's probability is ``slope * score + shift``.
    temperature : factor of the scores in a softmax over the candidates of a point with one label.
    """

    weights: tuple[float, float, float] = WEIGHTS
    slope: float = CHANCES[0]
    shift: float = CHANCES[1]
    temperature: float = 1.0

    def rank(self, candidates: Candidates, n: int, label_counts: I64) -> tuple[I32, F32]:
        """Return the n best candidates of each point and their scores, best first."""
        scores = self.scores(candidates)
        labels, scores = best_first(scores, n, candidates.labels, scores)
        return labels, scores

    def without_neighbors(self) -> Combination:
        """Return the fixed weights of tree and network."""
        return Combination((WEIGHTS[0], WEIGHTS[1], 0.0))

    def scores(self, candidates: Candidates) -> F32:
        """Return the score of each candidate, (n, c)."""
        tree, network, neighbors = (np.float32(weight) for weight in self.weights)
        scores = neighbors * candidates.shares + network * candidates.log_probabilities - tree * candidates.penalties
        return np.where(candidates.valid, np.maximum(scores, LOWEST), LOWEST)

    def probabilities(self, scores: F32) -> F32:
        """Return the probability of each label by itself."""
        return np.asarray(expit(np.float32(self.slope) * scores + np.float32(self.shift)))

    def exclusive_probabilities(self, scores: F32) -> F32:
        """Return probabilities of candidates of which one is true, in sum one a point."""
        return np.asarray(softmax(np.float32(self.temperature) * scores, axis=1))

    def with_chances(self, candidates: Candidates, hits: Bools) -> Combination:
        """Fit slope, shift and temperature to candidates of held-out points."""
        every = self.scores(candidates)
        scores, right = best_first(every, RANKS, every, hits)
        prior, precision = np.array(CHANCES), CHANCES_PRECISION
        slope, shift = newton(_binary(scores.astype(np.float64), right), prior, precision)
        one = hits.sum(axis=1) == 1
        exact = every[one].astype(np.float64)[..., None]
        temperature = float(newton(_softmax(exact, hits[one]), np.ones(1), precision)[0]) if one.any() else 1.0
        floor = float(np.finfo(np.float32).eps)  # a negative slope would turn the order round
        return replace(self, slope=max(float(slope), floor), shift=float(shift), temperature=max(temperature, floor))


def fit_weights(candidates: Candidates, hits: Bools, prior: Combination) -> Combination:
    """Fit the weights by a softmax over the candidates of each held-out point, with a prior at those of `prior`."""
    some = hits.any(axis=1)
    x = candidates.features[some].astype(np.float64)
    x[~candidates.valid[some]] = (float(LOWEST), 0.0, 0.0)
    weights = newton(_softmax(x, hits[some]), np.array(prior.weights), PRECISION)
    tree, network, neighbors = (max(float(weight), 0.0) for weight in weights)
    return replace(prior, weights=(tree, network, neighbors))


def _softmax(x: F64, hits: Bools) -> Callable[[F64], Loss]:
    """Return the loss of the true candidates in a softmax over those of their point, (n, c, d); points count alike."""
    target = hits / hits.sum(axis=1, keepdims=True)

    def loss(weights: F64) -> Loss:
        scores = x @ weights
        p = softmax(scores, axis=1)
        mean = np.einsum("nc,ncd->nd", p, x)
        value = float((logsumexp(scores, axis=1) - np.where(hits, target * scores, 0).sum(axis=1)).sum())
        gradient = np.einsum("nc,ncd->d", p - target, x)
        off = np.sqrt(p)[..., None] * (x - mean[:, None])
        return Loss(value, gradient, np.einsum("ncd,nce->de", off, off))

    return loss


def _binary(scores: F64, hits: Bools) -> Callable[[F64], Loss]:
    """Return the loss of hits as independent events, by slope and shift."""

    def loss(at: F64) -> Loss:
        logits = at[0] * scores + at[1]
        p = expit(logits)
        off, weight = p - hits, p * (1 - p)
        gradient = np.array([(off * scores).sum(), off.sum()])
        cross = (weight * scores).sum()
        hessian = np.array([[(weight * scores**2).sum(), cross], [cross, weight.sum()]])
        return Loss(float((np.logaddexp(0, logits) - hits * logits).sum()), gradient, hessian)

    return loss
