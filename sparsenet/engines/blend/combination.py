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
#: Slope, shift and fall of the logit of a probability where there is no hold-out, and the precision of that prior.
CHANCES, CHANCES_PRECISION = (1.0, 0.0, 0.3), 1.0
#: Probabilities are fitted to this many best labels of each point.
RANKS = 5
#: Slope and temperature are at least this: negative ones would turn the order round, and columns without a candidate
#: would have a probability.
FLATTEST = 1e-3
#: The score of a column without a candidate.
LOWEST = np.float32(-1e6)


@dataclass(frozen=True)
class Combination:
    """What a score is, and what it says.

    Attributes
    ----------
    weights : of tree, network and neighbors; a score is the weighted sum of `Candidates.features`.
    slope, shift, fall : the logit of a label's probability is ``slope * score + shift - fall * log(rank)``, and at most
        that of the label before it. Of two labels with one score, the first of its point is the more probable one.
    temperature : factor of the scores in a softmax over the candidates of a point with one label.
    """

    weights: tuple[float, float, float] = WEIGHTS
    slope: float = CHANCES[0]
    shift: float = CHANCES[1]
    fall: float = CHANCES[2]
    temperature: float = 1.0

    def rank(self, candidates: Candidates, n: int, label_counts: I64) -> tuple[I32, F32]:
        """Return the n best candidates of each point and their scores, best first."""
        scores = self.scores(candidates)
        labels, scores = best_first(scores, n, candidates.labels, scores)
        return labels, scores

    def without_neighbors(self) -> Combination:
        """Return the fixed weights: nothing was fitted to candidates without neighbors."""
        return Combination()

    def scores(self, candidates: Candidates) -> F32:
        """Return the score of each candidate, (n, c)."""
        tree, network, neighbors = (np.float32(weight) for weight in self.weights)
        scores = neighbors * candidates.shares + network * candidates.log_probabilities - tree * candidates.penalties
        return np.where(candidates.valid, np.maximum(scores, LOWEST), LOWEST)

    def probabilities(self, scores: F32) -> F32:
        """Return the probability of each label by itself; the scores of a point, (n, k), are its best ones in order."""
        logits = np.float32(self.slope) * scores + np.float32(self.shift)
        logits -= np.float32(self.fall) * np.log(np.arange(1, scores.shape[1] + 1, dtype=np.float32))
        return np.asarray(expit(np.minimum.accumulate(logits, axis=1)))

    def exclusive_probabilities(self, scores: F32) -> F32:
        """Return probabilities of candidates of which one is true, in sum one a point."""
        return np.asarray(softmax(np.float32(self.temperature) * scores, axis=1))

    def with_chances(self, candidates: Candidates, hits: Bools) -> Combination:
        """Fit slope, shift, fall and temperature to candidates of held-out points."""
        every = self.scores(candidates)
        scores, right = best_first(every, RANKS, every, hits)
        ranks = np.broadcast_to(-np.log(np.arange(1, scores.shape[1] + 1)), scores.shape)
        some = scores > LOWEST
        x = np.stack((scores, np.ones_like(scores), ranks), axis=-1)[some].astype(np.float64)
        slope, shift, fall = newton(_binary(x, right[some]), np.array(CHANCES), CHANCES_PRECISION)
        one = hits.sum(axis=1) == 1
        exact = every[one].astype(np.float64)[..., None]
        temperature = float(newton(_softmax(exact, hits[one]), np.ones(1), CHANCES_PRECISION)[0]) if one.any() else 1.0
        slope, temperature = max(float(slope), FLATTEST), max(temperature, FLATTEST)
        return replace(self, slope=slope, shift=float(shift), fall=float(fall), temperature=temperature)


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


def _binary(x: F64, hits: Bools) -> Callable[[F64], Loss]:
    """Return the loss of hits as independent events with log-odds linear in x, (n, d)."""

    def loss(weights: F64) -> Loss:
        logits = x @ weights
        p = expit(logits)
        value = float((np.logaddexp(0, logits) - hits * logits).sum())
        return Loss(value, x.T @ (p - hits), (x.T * (p * (1 - p))) @ x)

    return loss
